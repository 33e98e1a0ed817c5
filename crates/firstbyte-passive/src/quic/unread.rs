//! Versions of QUIC whose connections cannot be read: how many, and which.
//!
//! In: versions of connections that begin, and first datagrams of such that are not followed. Out: counts by
//! version. What looks like QUIC by accident is kept out: only versions with known names count.

use std::collections::HashSet;

use super::packet;
use crate::layers::Payload;
use crate::table::{Key, Seeded};

/// Versions that are counted one by one: where there are more, those with the smallest numbers, in whatever order
/// they came.
const APART: usize = 6;
/// Connections that are known again; then they are counted anew.
const KNOWN: usize = 4096;
/// Clients pad their first datagrams to this at least (RFC 9000 §14.1; before it was a standard, to more).
const LEAST_OPENING: u32 = 1200;

/// Connections by version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadQuic {
    /// By number.
    versions: [(u32, u64); APART],
    /// Of further versions.
    others: u64,
}

impl UnreadQuic {
    /// Adds `connections` of a version.
    pub fn add(&mut self, version: u32, connections: u64) {
        if let Some((_, many)) = self.versions.iter_mut().find(|(known, _)| *known == version) {
            *many += connections;
            return;
        }
        let empty = |(_, many): &(u32, u64)| *many == 0;
        let place = match self.versions.iter().position(empty) {
            Some(place) => place,
            None => {
                let last = APART - 1;
                if self.versions[last].0 < version {
                    self.others += connections;
                    return;
                }
                self.others += self.versions[last].1;
                last
            }
        };
        self.versions[place] = (version, connections);
        self.versions.sort_unstable_by_key(|(version, many)| (*many == 0, *version));
    }

    /// Adds what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        other.versions().for_each(|(version, connections)| self.add(version, connections));
        self.others += other.others;
    }

    /// Every version counted apart, and its connections.
    pub fn versions(&self) -> impl Iterator<Item = (u32, u64)> {
        self.versions.into_iter().filter(|(_, connections)| *connections > 0)
    }

    /// All of them.
    pub fn connections(&self) -> u64 {
        self.others + self.versions().map(|(_, connections)| connections).sum::<u64>()
    }
}

/// Connections that are not followed, so that each counts once.
#[derive(Debug)]
pub(super) struct Unfollowed(HashSet<Key, Seeded>);

impl Unfollowed {
    pub(super) fn new(seed: u64) -> Self {
        Self(HashSet::with_hasher(Seeded(seed)))
    }

    /// The version of a datagram with which a connection begins that was not there before.
    pub(super) fn begins(&mut self, key: Key, payload: Payload<'_>) -> Option<u32> {
        let version = opening(payload)?;
        if self.0.len() >= KNOWN {
            self.0.clear();
        }
        self.0.insert(key).then_some(version)
    }
}

/// The version that a datagram names which may be a client's first.
fn opening(payload: Payload<'_>) -> Option<u32> {
    if payload.bytes < LEAST_OPENING {
        return None;
    }
    let at = |place: usize| {
        payload.captured.get(place..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
    };
    let first = *payload.captured.first()?;
    let version = match first {
        // A long header, as all versions since 2018 have it (RFC 8999).
        0x80.. => at(1)?,
        // Google's first: a version, and a connection ID of eight bytes before it.
        0x09 | 0x0d => at(9)?,
        _ => return None,
    };
    packet::is_named(version).then_some(version)
}
