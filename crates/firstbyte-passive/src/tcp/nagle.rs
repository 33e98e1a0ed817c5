//! Detects small segments held back until an acknowledgment came: Nagle's algorithm (RFC 1122 §4.2.3.4) combined with
//! delayed acknowledgments (§4.2.3.2).
//!
//! In: the segments of a connection. Out: how many were sent when a delayed acknowledgment arrived, and an upper bound
//! of how long they were held. The delay's length is not used, because clients delay by 40, 50 or 200 ms. It is enough
//! that the segment follows at once, one round trip to its sender later.

use std::num::NonZeroU32;

use crate::Time;
use crate::table::Side;

/// A smaller segment does not fill a packet on any common path.
const SMALL: u32 = 1200;
/// An acknowledgment that comes this much later than the path allows was delayed.
const DELAYED_NS: i64 = 15_000_000;
/// Data sent when an acknowledgment arrives reaches the tap within the round trip and this, or 1/16 of the round trip.
const AT_ONCE_NS: i64 = 400_000;

/// Whether data `ns` after an acknowledgment was sent when that arrived, given the round trip `path_ns`.
fn at_once(ns: i64, path_ns: i64) -> bool {
    (path_ns - AT_ONCE_NS..=path_ns + (path_ns / 16).max(AT_ONCE_NS)).contains(&ns)
}

/// Microseconds; 0 is rounded up to 1.
fn micros(at: Time) -> NonZeroU32 {
    NonZeroU32::new((at.unix_ns() / 1_000) as u32).unwrap_or(NonZeroU32::MIN)
}

/// Data held back in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) segments: u32,
    pub(super) time_ns: i64,
}

/// Examines the segments of a connection.
#[derive(Debug, Default)]
pub(super) struct Nagle {
    /// When each side last sent data, if that was a small segment: µs, which wrap after 71 minutes.
    small: [Option<NonZeroU32>; 2],
    rare: Option<Box<Rare>>,
}

/// State that few connections need.
#[derive(Debug, Default)]
struct Rare {
    /// A delayed acknowledgment: whose segment it acknowledges, its time, and its delay.
    delayed: Option<(u8, Time, i64)>,
    held: [Held; 2],
}

/// A segment, reduced to what matters here.
pub(super) struct Seen {
    pub(super) at: Time,
    pub(super) side: Side,
    /// Payload length.
    pub(super) bytes: u32,
    /// Whether it has FIN or RST, or repeats earlier data.
    pub(super) other: bool,
    /// Whether it acknowledges everything that the other side has sent.
    pub(super) all: bool,
}

impl Nagle {
    /// Takes the next segment; `least_ns` are the smallest round trips between the tap and each side.
    #[inline]
    pub(super) fn segment(&mut self, seen: &Seen, least_ns: [Option<i64>; 2]) {
        let Seen { at, side, .. } = *seen;
        if seen.other {
            self.small = [None; 2];
            return;
        }
        let other = 1 - side;
        // An acknowledgment that carries data waited for the data rather than for a timer.
        let sent = if seen.all { self.small[other].take() } else { None };
        if seen.bytes > 0 {
            self.departed(seen, least_ns[side]);
            // A full packet is not held back, and does not hold back others.
            self.small[side] = (seen.bytes < SMALL).then_some(micros(at));
        } else if let (Some(sent), Some(path)) = (sent, least_ns[side]) {
            let since_ns = 1_000 * i64::from(micros(at).get().wrapping_sub(sent.get()));
            if since_ns - path >= DELAYED_NS {
                // The next segment may have waited from the time this one was sent until the acknowledgment arrived.
                let waited_ns = since_ns + least_ns[other].unwrap_or(0);
                let rare = self.rare.get_or_insert_default();
                rare.delayed = Some((other as u8, at, waited_ns));
            }
        }
    }

    /// Notes that data was sent, perhaps because a delayed acknowledgment arrived.
    fn departed(&mut self, seen: &Seen, path_ns: Option<i64>) {
        let Some(rare) = &mut self.rare else { return };
        let own = rare.delayed.take_if(|(side, ..)| Side::from(*side) == seen.side);
        let Some((_, at, waited_ns)) = own else { return };
        let together = path_ns.is_some_and(|path| at_once(seen.at.signed_since(at), path));
        if together && seen.bytes < SMALL {
            let held = &mut rare.held[seen.side];
            held.segments = held.segments.saturating_add(1);
            held.time_ns = held.time_ns.saturating_add(waited_ns);
        }
    }

    /// The data of `side` that was held back; absent if there was none.
    pub(super) fn held(&self, side: Side) -> Option<Held> {
        let held = self.rare.as_ref()?.held[side];
        (held.segments > 0).then_some(held)
    }
}
