//! Facts that repeat from sample to sample, stored once and referenced by number.
//!
//! A certificate chain and most response header fields are the same in every sample of a server, but `date` is not. So
//! values of a kind get numbers until the kind proves to vary; from then on its values are stored inline. This bounds
//! memory, whatever a server sends.

use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::seal;
use super::stored::{StoredCertificate, StoredClient, StoredProxy, StoredTls};

/// Maximum number of a kind's values that get numbers.
const OF_A_KIND: u32 = 64;
/// Maximum number of a header field's values that get numbers: a field with more of them varies.
const OF_A_HEADER: u32 = 8;
/// Maximum number of facts with numbers in total.
const AT_ALL: usize = 16_384;

/// A fact that can be shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Fact {
    /// The program that made connections.
    Client(StoredClient),
    /// The proxy of connections.
    Proxy(StoredProxy),
    /// Outcome of a TLS handshake.
    Tls(StoredTls),
    /// A certificate chain, leaf first.
    Certificates(Vec<StoredCertificate>),
    /// A header field: name and value.
    Header(String, String),
    /// The messages of a flight.
    Messages(Vec<String>),
}

/// A fact, or the number under which it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shared<T> {
    /// The number of a line with the member `fact`.
    Number(u32),
    /// The fact itself.
    Here(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    /// Like an untagged enum, but without buffering the value until its kind is known: each sample of a run has a
    /// dozen of them.
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

/// Assigns numbers to facts while a run is written.
#[derive(Debug, Default)]
pub struct Interner {
    numbers: HashMap<String, u32>,
    seen: HashMap<String, u32>,
    next: u32,
    fresh: Vec<String>,
    shares_nothing: bool,
}

impl Interner {
    /// Assigns no numbers: every line stands alone.
    pub fn sharing_nothing() -> Self {
        Self { shares_nothing: true, ..Self::default() }
    }

    /// Continues after `facts`, which are already stored.
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

    /// The number of `fact`; `None` if it gets none.
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

    /// Lines, with line endings, that must be stored before the next sample.
    pub fn fresh(&self) -> &[String] {
        &self.fresh
    }

    /// Records that the fresh lines have been stored.
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

/// The facts of a run by number, while the run is read.
#[derive(Clone, Debug, Default)]
pub struct FactTable(HashMap<u32, Fact>);

impl FactTable {
    /// Adds the fact in `line`. Unknown kinds are ignored.
    ///
    /// # Errors
    /// The line is not JSON, or has no number.
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

    /// Adds all facts of `other`.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The fact with this number.
    pub fn get(&self, number: u32) -> Option<&Fact> {
        self.0.get(&number)
    }
}
