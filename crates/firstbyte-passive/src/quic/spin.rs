//! The latency spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2): round trips that both ends let be seen.
//!
//! In: the bit of each packet of 1-RTT. Out: the smallest interval between its edges, if it proves to be a
//! round trip. Ends may set the bit at random or leave it: then there is none.

use std::time::Duration;

use crate::Time;
use crate::table::Side;

/// Edges that must have been seen.
const INTERVALS: u8 = 3;

/// The bit's edges in both directions.
#[derive(Debug)]
pub(super) struct Spin {
    last: [Option<bool>; 2],
    edge: [Option<Time>; 2],
    intervals: [u8; 2],
    /// The smallest of the intervals.
    least_ns: i64,
    /// Of an edge in one direction after that in the other, the smallest, ns: what is between the tap and each
    /// side. Beyond 4 s it is not followed.
    parts: [u32; 2],
    /// Whose edge was the last.
    latest: Option<u8>,
    /// Edges of one direction that no edge of the other was between: the bit does not spin.
    broken: bool,
}

impl Spin {
    /// Nothing was seen.
    pub(super) const fn new() -> Self {
        Self {
            last: [None; 2],
            edge: [None; 2],
            intervals: [0; 2],
            least_ns: i64::MAX,
            parts: [u32::MAX; 2],
            latest: None,
            broken: false,
        }
    }

    /// A packet of 1-RTT from `side`.
    pub(super) fn packet(&mut self, at: Time, side: Side, bit: bool) {
        let last = self.last[side].replace(bit);
        if last.is_none_or(|last| last == bit) {
            return;
        }
        let latest = self.latest.replace(side as u8).map(Side::from);
        self.broken |= latest == Some(side);
        if let Some(sent) = self.edge[1 - side].filter(|_| latest == Some(1 - side))
            && let Ok(trip) = u32::try_from(at.signed_since(sent))
        {
            self.parts[side] = trip.min(self.parts[side]);
        }
        if let Some(before) = self.edge[side].replace(at) {
            self.intervals[side] = self.intervals[side].saturating_add(1);
            self.least_ns = self.least_ns.min(at.signed_since(before));
        }
    }

    /// The smallest round trips between the tap and each side, where every edge in one direction was followed by
    /// one in the other: the server reflects the bit, the client turns it round.
    pub(super) fn trips(&self) -> Option<[i64; 2]> {
        let spins = self.intervals.iter().all(|intervals| *intervals >= INTERVALS) && !self.broken;
        let seen = self.parts.iter().all(|part| *part < u32::MAX);
        (spins && seen).then(|| self.parts.map(i64::from))
    }

    /// The smallest round trip, where the bit spins in both directions and never faster than `path`, the
    /// smallest round trip of the handshake, allows, nor always slower by much.
    pub(super) fn round_trip(&self, path: Option<Duration>) -> Option<Duration> {
        let path = i64::try_from(path?.as_nanos()).ok()?;
        let near = path - path / 5..=path + path / 2 + 5_000_000;
        let spins = self.intervals.iter().all(|intervals| *intervals >= INTERVALS);
        (spins && near.contains(&self.least_ns))
            .then(|| super::super::timing::duration(self.least_ns))
    }
}
