//! Facts that repeat from sample to sample, stored once and referred to by number.
//!
//! A certificate chain is the same in every sample of a server, most of a response's header fields
//! are, `date` is not: a kind of fact is given numbers until it has shown to vary, and is written
//! where it occurs from then on. So what is kept in memory is bounded, whatever a server sends.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::seal;
use super::stored::{StoredCertificate, StoredClient, StoredProxy, StoredTls};

/// How many values of a kind are given numbers.
const OF_A_KIND: u32 = 64;
/// How many values of a header field are given numbers: one that has had more varies.
const OF_A_HEADER: u32 = 8;
/// How many facts are given numbers at all.
const AT_ALL: usize = 16_384;

/// A fact that can be shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Fact {
    /// Which program made connections.
    Client(StoredClient),
    /// The proxy that connections went through.
    Proxy(StoredProxy),
    /// What a TLS handshake settled.
    Tls(StoredTls),
    /// A certificate chain, leaf first.
    Certificates(Vec<StoredCertificate>),
    /// A header field: name and value.
    Header(String, String),
    /// The messages of a flight.
    Messages(Vec<String>),
}

/// A fact, or the number under which it was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shared<T> {
    /// The number of a line with the member `fact`.
    Number(u32),
    /// The fact itself.
    Here(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    /// As an untagged enum is read, but without keeping what is read until it is known which it is: there are a
    /// dozen in each sample of a run.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Shared<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a fact or its number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Shared<T>, E> {
                let number = u32::try_from(number);
                number.map(Shared::Number).map_err(|_| E::custom("not the number of a fact"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Shared<T>, A::Error> {
                T::deserialize(SeqAccessDeserializer::new(items)).map(Shared::Here)
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Shared<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members)).map(Shared::Here)
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// Gives numbers to facts, while a run is written.
#[derive(Debug, Default)]
pub struct Interner {
    numbers: HashMap<String, u32>,
    seen: HashMap<String, u32>,
    next: u32,
    fresh: Vec<String>,
    shares_nothing: bool,
}

impl Interner {
    /// Gives no numbers: every line stands alone.
    pub fn sharing_nothing() -> Self {
        Self { shares_nothing: true, ..Self::default() }
    }

    /// Continues after `facts`, which are stored already.
    pub fn after(facts: &FactTable) -> Self {
        let mut interner = Self::default();
        for (number, fact) in &facts.0 {
            interner.next = interner.next.max(number.saturating_add(1));
            if let Ok(key) = serde_json::to_string(fact) {
                *interner.seen.entry(kind(fact)).or_default() += 1;
                interner.numbers.insert(key, *number);
            }
        }
        interner
    }

    /// The number of `fact`; absent when it is not to have one.
    pub(super) fn number(&mut self, fact: &Fact) -> Option<u32> {
        if self.shares_nothing {
            return None;
        }
        let key = serde_json::to_string(fact).ok()?;
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let limit = if matches!(fact, Fact::Header(..)) { OF_A_HEADER } else { OF_A_KIND };
        if self.numbers.len() >= AT_ALL {
            return None;
        }
        let seen = self.seen.entry(kind(fact)).or_default();
        if *seen >= limit {
            return None;
        }
        *seen += 1;
        let number = self.next;
        self.next += 1;
        let mut line = format!("{{\"fact\":{number},{}", &key[1..]).into_bytes();
        seal(&mut line, 0);
        line.push(b'\n');
        self.fresh.push(String::from_utf8(line).ok()?);
        self.numbers.insert(key, number);
        Some(number)
    }

    /// The lines, each with its end, that have to be stored before the next sample is.
    pub fn fresh(&self) -> &[String] {
        &self.fresh
    }

    /// The fresh lines are stored.
    pub fn stored(&mut self) {
        self.fresh.clear();
    }
}

fn kind(fact: &Fact) -> String {
    match fact {
        Fact::Client(_) => "client".into(),
        Fact::Proxy(_) => "proxy".into(),
        Fact::Tls(_) => "tls".into(),
        Fact::Certificates(_) => "certificates".into(),
        Fact::Messages(_) => "messages".into(),
        Fact::Header(name, _) => format!("header {name}"),
    }
}

/// The facts of a run by their numbers, while it is read.
#[derive(Clone, Debug, Default)]
pub struct FactTable(HashMap<u32, Fact>);

impl FactTable {
    /// Takes up the line `line`. One of a kind that is not known is of no consequence.
    ///
    /// # Errors
    /// When it is not JSON, or has no number.
    pub fn take(&mut self, line: &[u8]) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Raw {
            fact: u32,
            #[serde(flatten)]
            value: Value,
        }
        let raw: Raw = serde_json::from_slice(line)?;
        if let Ok(fact) = serde_json::from_value(raw.value) {
            self.0.insert(raw.fact, fact);
        }
        Ok(())
    }

    /// Takes over what `other` has.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The fact with this number.
    pub fn get(&self, number: u32) -> Option<&Fact> {
        self.0.get(&number)
    }
}
