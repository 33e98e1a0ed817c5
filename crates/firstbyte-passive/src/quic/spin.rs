//! The latency spin bit (RFC 9000 §17.4, RFC 9312 §3.8.2): round trips that both ends make visible.
//!
//! In: the bit of each 1-RTT packet. Out: the smallest interval between its edges, if that proves to be a round trip.
//! Ends may set the bit at random or leave it fixed, which gives no round trip.

use std::time::Duration;

use crate::Time;
use crate::table::Side;

/// Fewest intervals between edges in each direction.
const INTERVALS: u8 = 3;

/// The bit's edges in both directions.
#[derive(Debug)]
pub(super) struct Spin {
    last: [Option<bool>; 2],
    edge: [Option<Time>; 2],
    intervals: [u8; 2],
    /// The smallest interval between edges of one direction.
    least_ns: i64,
    /// Smallest time from an edge in the other direction to the next one from each side, ns: the round trip between the
    /// tap and that side. Times beyond 4 s are ignored.
    parts: [u32; 2],
    /// The side of the last edge.
    latest: Option<u8>,
    /// One side had two edges without one of the other side between them: the bit does not spin.
    broken: bool,
}

impl Spin {
    /// Creates a state without any edges.
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

    /// Handles a 1-RTT packet from `side`.
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

    /// The smallest round trips between the tap and each side, if every edge in one direction was followed by one in
    /// the other: the server reflects the bit, the client inverts it.
    pub(super) fn trips(&self) -> Option<[i64; 2]> {
        let spins = self.intervals.iter().all(|intervals| *intervals >= INTERVALS) && !self.broken;
        let seen = self.parts.iter().all(|part| *part < u32::MAX);
        (spins && seen).then(|| self.parts.map(i64::from))
    }

    /// The smallest round trip, if the bit spins in both directions and fits `path`, the smallest round trip of the
    /// handshake: never faster than `path` allows, and not always much slower.
    pub(super) fn round_trip(&self, path: Option<Duration>) -> Option<Duration> {
        let path = i64::try_from(path?.as_nanos()).ok()?;
        let near = path - path / 5..=path + path / 2 + 5_000_000;
        let spins = self.intervals.iter().all(|intervals| *intervals >= INTERVALS);
        (spins && near.contains(&self.least_ns))
            .then(|| super::super::timing::duration(self.least_ns))
    }
}
