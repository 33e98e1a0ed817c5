//! Round trips between the tap and both ends of a QUIC connection.
//!
//! In: packets that answer others. Out: the smallest round trip, and whether it is more than an upper bound. An answer
//! that needs computation (a ServerHello, a Finished) gives an upper bound, because it may have taken long. An answer
//! that the QUIC stack sends by itself or without work (an acknowledgment alone, Retry) gives a round trip. So do two
//! answers of different kinds that took the same time.

use super::{Connection, Contents};
use crate::Time;
use crate::elapsed::Elapsed;
use crate::quic::{BURST_NS, exchanges};
use crate::table::Side;
use crate::timing;

/// A packet that only acknowledges a packet which passed the tap at `sent`.
#[derive(Clone, Copy, Debug)]
pub(in crate::quic) struct Alone {
    side: u8,
    sent: Time,
    at: Time,
}

/// Default limit of how long ends delay acknowledgments (RFC 9000 §18.2).
const HELD_BACK_NS: i64 = 25_000_000;
/// The second packet is acknowledged at once (RFC 9000 §13.2.2).
const AT_ONCE: u8 = 2;

/// State for measuring after the handshake, until the round trips on both sides are known.
#[derive(Debug)]
pub(super) struct Watch {
    /// Time of the server's last datagram.
    pub(super) heard: Time,
    /// When each side last sent data.
    data: [Time; 2],
    /// Data sent when nothing before it could still be awaiting an acknowledgment: its time, its side, its number of
    /// packets.
    asked: Option<(Time, u8, u8)>,
}

impl Watch {
    pub(super) const fn from(at: Time, heard: Time) -> Self {
        Self { heard, data: [at; 2], asked: None }
    }
}

impl Connection {
    /// Handles a 1-RTT packet that `side` sent at `at`, with `content` bytes of frames. A packet that only acknowledges
    /// answers without work. It answers the other side's data if those came after a pause long enough for everything
    /// earlier to be acknowledged.
    pub(super) fn watched(&mut self, at: Time, side: Side, content: u32) {
        let other = 1 - side;
        let window = self.least[other].map_or(0, Elapsed::ns) + HELD_BACK_NS;
        let Some(watch) = &mut self.watch else { return };
        let asked = watch.asked.take_if(|(_, asker, _)| Side::from(*asker) == other);
        if !exchanges::is_data(content) {
            match asked {
                Some((sent, _, AT_ONCE..)) => self.round_trip(side, at, Some(sent)),
                Some((sent, ..)) => {
                    self.perhaps(side, at, sent);
                    self.at_most(side, at, Some(sent));
                }
                None => {}
            }
            return;
        }
        if at.signed_since(watch.data[side]) >= window {
            watch.asked = Some((at, side as u8, 1));
        } else if let Some((.., packets)) = &mut watch.asked {
            *packets = packets.saturating_add(1);
        }
        watch.data[side] = at;
    }

    /// Notes that at `at` `side` answered, without work, a packet that passed the tap at `sent`.
    pub(super) fn round_trip(&mut self, side: Side, at: Time, sent: Option<Time>) {
        let Some(trip) = sent.and_then(|sent| Elapsed::between(sent, at)) else { return };
        self.initial[side].get_or_insert(trip);
        self.least[side] = trip.least(self.least[side]);
        self.prompt[side] = true;
    }

    /// Notes that at `at` `side` answered, perhaps after some work, a packet that passed the tap at `sent`.
    pub(super) fn at_most(&mut self, side: Side, at: Time, sent: Option<Time>) {
        if let Some(trip) = sent.and_then(|sent| Elapsed::between(sent, at)) {
            self.least[side] = trip.least(self.least[side]);
        }
    }

    /// Notes that what `side` sent at `at` may answer a packet that passed the tap at `sent`, or may already have been
    /// on its way. It counts as an answer if another answer took as long.
    pub(super) fn perhaps(&mut self, side: Side, at: Time, sent: Time) {
        let Some(trip) = Elapsed::between(sent, at) else { return };
        if self.least[side].is_some_and(|least| timing::is_near(trip.ns(), least.ns())) {
            self.round_trip(side, at, Some(sent));
        }
    }

    /// Notes that an Initial from `side`, `alone` if it holds no message, acknowledges a packet that passed the tap at
    /// `sent`.
    pub(super) fn acknowledged(&mut self, side: Side, at: Time, sent: Option<Time>, alone: bool) {
        self.at_most(side, at, sent);
        if let (Some(live), Some(sent), true) = (&mut self.live, sent, alone) {
            live.alone.get_or_insert(Alone { side: side as u8, sent, at });
        }
    }

    /// Decides, from a datagram with `contents`, whether the acknowledgment before it was sent alone.
    pub(super) fn was_alone(&mut self, side: Side, at: Time, contents: Contents) {
        let Some(alone) = self.live.as_ref().and_then(|live| live.alone) else { return };
        if Side::from(alone.side) != side {
            return;
        }
        // A server that had to compute first may send the acknowledgment together with its answer.
        let together = contents.messages && at.signed_since(alone.at) < BURST_NS;
        if together {
            self.live.as_mut().and_then(|live| live.alone.take());
        } else if at > alone.at {
            self.settle_alone();
        }
    }

    /// The pending acknowledgment was sent alone.
    pub(super) fn settle_alone(&mut self) {
        if let Some(alone) = self.live.as_mut().and_then(|live| live.alone.take()) {
            self.round_trip(alone.side.into(), alone.at, Some(alone.sent));
        }
    }

    /// At the end: uses the spin bit for a side whose round trip was not measured otherwise, if it agrees with the
    /// other side's round trip.
    pub(super) fn spun(&mut self) {
        let Some(trips) = self.spin.trips() else { return };
        let disagrees = |side: Side| {
            let least = self.least[side].filter(|_| self.prompt[side]);
            least.is_some_and(|least| trips[side] < least.ns())
        };
        if disagrees(0) || disagrees(1) {
            return;
        }
        let unknown = self.prompt.map(|prompt| !prompt);
        for (side, trip) in trips.into_iter().enumerate().filter(|(side, _)| unknown[*side]) {
            let trip = Elapsed::from_nanos(trip);
            self.initial[side] = Some(trip);
            self.least[side] = trip.least(self.least[side]);
        }
        self.prompt = [true; 2];
    }

    /// Whether the round trip to `side` is known, or its upper bound is too small to matter compared with `path`.
    pub(super) fn is_known(&self, side: Side, path: Option<Elapsed>) -> bool {
        self.prompt[side]
            || self.least[side]
                .zip(path)
                .is_some_and(|(least, path)| timing::is_near(least.ns() + path.ns(), path.ns()))
    }
}
