//! Counts QUIC connections of versions that cannot be read.
//!
//! In: versions of connections that begin, and first datagrams of connections that are not followed. Out: counts by
//! version. Only versions with known names count, so that traffic that looks like QUIC by accident is ignored.

use std::collections::HashSet;

use super::packet;
use crate::layers::Payload;
use crate::table::{Key, Seeded};

/// Number of versions counted individually. If there are more, those with the smallest numbers are kept, whatever the
/// order in which they came.
const APART: usize = 6;
/// Number of connections remembered; when it is reached all are forgotten, and may be counted again.
const KNOWN: usize = 4096;
/// Clients pad their first datagrams to at least this (RFC 9000 §14.1; before the standard, to more).
const LEAST_OPENING: u32 = 1200;

/// Numbers of connections by version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadQuic {
    /// Version and number of connections, sorted by version.
    versions: [(u32, u64); APART],
    /// Connections of further versions.
    others: u64,
}

impl UnreadQuic {
    /// Adds `connections` of one version.
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

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.versions().for_each(|(version, connections)| self.add(version, connections));
        self.others += other.others;
    }

    /// The versions counted individually, each with its number of connections.
    pub fn versions(&self) -> impl Iterator<Item = (u32, u64)> {
        self.versions.into_iter().filter(|(_, connections)| *connections > 0)
    }

    /// Number of connections of all versions.
    pub fn connections(&self) -> u64 {
        self.others + self.versions().map(|(_, connections)| connections).sum::<u64>()
    }
}

/// Connections that are not followed, remembered so that each counts once.
#[derive(Debug)]
pub(super) struct Unfollowed(HashSet<Key, Seeded>);

impl Unfollowed {
    pub(super) fn new(seed: u64) -> Self {
        Self(HashSet::with_hasher(Seeded(seed)))
    }

    /// The version of a datagram that begins a connection not seen before.
    pub(super) fn begins(&mut self, key: Key, payload: Payload<'_>) -> Option<u32> {
        let version = opening(payload)?;
        if self.0.len() >= KNOWN {
            self.0.clear();
        }
        self.0.insert(key).then_some(version)
    }
}

/// The version that a datagram names, if it may be a client's first.
fn opening(payload: Payload<'_>) -> Option<u32> {
    if payload.bytes < LEAST_OPENING {
        return None;
    }
    let at = |place: usize| {
        payload.captured.get(place..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
    };
    let first = *payload.captured.first()?;
    let version = match first {
        // A long header, as in all versions since 2018 (RFC 8999).
        0x80.. => at(1)?,
        // Google's first versions: the version follows a connection ID of eight bytes.
        0x09 | 0x0d => at(9)?,
        _ => return None,
    };
    packet::is_named(version).then_some(version)
}
