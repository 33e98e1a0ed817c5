//! Small segments that were held back until an acknowledgement came (Nagle's algorithm, RFC 1122 §4.2.3.4, with
//! delayed acknowledgements, §4.2.3.2).
//!
//! In: segments of a connection. Out: how many departed at the moment at which an acknowledgement that had been
//! delayed arrived, and for how long they were held at most. No timer's length is looked for: clients delay by 40,
//! 50 or 200 ms. A segment that follows at once, a round trip to its sender later, tells itself.

use std::num::NonZeroU32;

use crate::Time;
use crate::table::Side;

/// A segment with fewer bytes is small: it does not fill a packet of any common path.
const SMALL: u32 = 1200;
/// An acknowledgement that came so much later than the path allows was delayed.
const DELAYED_NS: i64 = 15_000_000;
/// What departs at the arrival of an acknowledgement is here within the round trip and this, or a 16th of it.
const AT_ONCE_NS: i64 = 400_000;

/// Whether what is here `ns` after an acknowledgement departed when that arrived at the end of `path_ns`.
fn at_once(ns: i64, path_ns: i64) -> bool {
    (path_ns - AT_ONCE_NS..=path_ns + (path_ns / 16).max(AT_ONCE_NS)).contains(&ns)
}

/// Microseconds; the one that would be none is the next.
fn micros(at: Time) -> NonZeroU32 {
    NonZeroU32::new((at.unix_ns() / 1_000) as u32).unwrap_or(NonZeroU32::MIN)
}

/// What was held back in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) segments: u32,
    pub(super) time_ns: i64,
}

/// Looks at a connection's segments.
#[derive(Debug, Default)]
pub(super) struct Nagle {
    /// When each side sent its last data, if they were a small segment: µs that wrap after 71 minutes.
    small: [Option<NonZeroU32>; 2],
    rare: Option<Box<Rare>>,
}

/// What few connections have.
#[derive(Debug, Default)]
struct Rare {
    /// An acknowledgement that was delayed: of whose segment, when, and for how long.
    delayed: Option<(u8, Time, i64)>,
    held: [Held; 2],
}

/// A segment, as far as it matters here.
pub(super) struct Seen {
    pub(super) at: Time,
    pub(super) side: Side,
    /// Bytes of payload.
    pub(super) bytes: u32,
    /// A segment that ends or resets, or was there before.
    pub(super) other: bool,
    /// It acknowledges all that the other side has sent.
    pub(super) all: bool,
}

impl Nagle {
    /// The next segment; `least_ns` are the smallest round trips between the tap and each side.
    #[inline]
    pub(super) fn segment(&mut self, seen: &Seen, least_ns: [Option<i64>; 2]) {
        let Seen { at, side, .. } = *seen;
        if seen.other {
            self.small = [None; 2];
            return;
        }
        let other = 1 - side;
        // What is acknowledged with data has waited for them, not for a timer.
        let sent = if seen.all { self.small[other].take() } else { None };
        if seen.bytes > 0 {
            self.departed(seen, least_ns[side]);
            // What fills a packet is not held, and holds nothing.
            self.small[side] = (seen.bytes < SMALL).then_some(micros(at));
        } else if let (Some(sent), Some(path)) = (sent, least_ns[side]) {
            let since_ns = 1_000 * i64::from(micros(at).get().wrapping_sub(sent.get()));
            if since_ns - path >= DELAYED_NS {
                // The next segment can have waited since this one departed, until the acknowledgement arrived.
                let waited_ns = since_ns + least_ns[other].unwrap_or(0);
                let rare = self.rare.get_or_insert_default();
                rare.delayed = Some((other as u8, at, waited_ns));
            }
        }
    }

    /// Data departed: at once with a delayed acknowledgement, perhaps.
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

    /// What was held back of `side`'s; absent where nothing was.
    pub(super) fn held(&self, side: Side) -> Option<Held> {
        let held = self.rare.as_ref()?.held[side];
        (held.segments > 0).then_some(held)
    }
}
