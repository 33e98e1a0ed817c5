//! Records a lookup and its tries in the observation of the connection that asks.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use firstbyte_core::timeline::{DnsTransport, Lookup, LookupTry, Offset, RecordType};

use super::super::observation::Shared;

/// Why a lookup gave no answer. An answer without addresses counts as an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) enum LookupFailure {
    NoSuchName,
    /// No server answered.
    Silence,
    /// Another failure, described in words.
    Failed(String),
}

impl fmt::Display for LookupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchName => "NXDOMAIN",
            Self::Silence => LookupTry::NO_ANSWER,
            Self::Failed(detail) => detail,
        })
    }
}

/// One lookup in an observation.
///
/// Once the connection that asked is over, others may still wait for the answer; then nothing is recorded.
pub(in crate::probe) struct LookupNotes {
    seen: Shared,
    pub(super) record_type: RecordType,
    /// Index among the observation's lookups, once the lookup has begun.
    place: Cell<Option<usize>>,
}

impl LookupNotes {
    pub(in crate::probe) fn new(seen: &Shared, record_type: RecordType) -> Self {
        Self { seen: Shared::clone(seen), record_type, place: Cell::new(None) }
    }

    /// Begins the lookup for the first name of a search; further names continue it.
    pub(super) fn begin_lookup(&self) {
        if self.place.get().is_some() {
            self.change_lookup(|lookup, _| (lookup.end, lookup.error) = (None, None));
            return;
        }
        let mut seen = self.seen.borrow_mut();
        let start = seen.timebase.now().at;
        self.place.set(Some(seen.connection.lookups.len()));
        seen.connection.lookups.push(Lookup {
            record_type: self.record_type,
            start,
            end: None,
            addresses: Vec::new(),
            error: None,
            tries: Vec::new(),
        });
    }

    pub(super) fn end_lookup(&self, answer: &Result<Vec<IpAddr>, LookupFailure>) {
        self.change_lookup(|lookup, now| {
            lookup.end = Some(now);
            match answer {
                Ok(addresses) => lookup.addresses.clone_from(addresses),
                Err(why) => lookup.error = Some(why.to_string()),
            }
        });
    }

    /// Records that a query was sent; returns its number for [`Self::end_try`].
    pub(super) fn begin_try(&self, server: SocketAddr, transport: DnsTransport) -> usize {
        let mut number = 0;
        self.change_lookup(|lookup, start| {
            number = lookup.tries.len();
            lookup.tries.push(LookupTry { server, transport, start, end: None, error: None });
        });
        number
    }

    pub(super) fn end_try(&self, number: usize, error: Option<String>) {
        self.change_lookup(|lookup, now| {
            if let Some(one) = lookup.tries.get_mut(number) {
                (one.end, one.error) = (Some(now), error);
            }
        });
    }

    /// How long the lookup has taken so far, and how often each server was asked.
    pub(super) fn time_and_servers(&self) -> (Duration, Vec<(SocketAddr, u32)>) {
        let mut waited = (Duration::ZERO, Vec::new());
        self.change_lookup(|lookup, now| {
            let asked = Lookup::servers_asked(std::slice::from_ref(lookup));
            waited = (now.since(lookup.start), asked);
        });
        waited
    }

    fn change_lookup(&self, change: impl FnOnce(&mut Lookup, Offset)) {
        let Some(place) = self.place.get() else { return };
        let mut seen = self.seen.borrow_mut();
        let now = seen.timebase.now().at;
        if let Some(lookup) = seen.connection.lookups.get_mut(place) {
            change(lookup, now);
        }
    }
}
