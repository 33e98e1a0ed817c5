//! One direction of one host's link, as a pure function of arrival times and sizes.
//!
//! In: a packet's arrival time, length and IP family. Out: when it leaves the far end, or why it is dropped.
//! No clock, no socket: the forwarder provides both, tests need neither.

mod opening;
mod random;

use std::time::Duration;

use crate::scenario::{Family, LinkSettings, PathSettings, Rate};
use opening::OpeningLoss;
use random::Random;

/// A point in time in nanoseconds, on a clock that the caller chooses.
pub type Nanos = u64;

/// The state of one direction of a link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Shared by both families.
    serialiser: Option<Serialiser>,
    ipv4: Path,
    ipv6: Path,
}

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It leaves the far end at this time.
    Release(Nanos),
    /// It is dropped.
    Drop(DropCause),
}

/// Why a link drops a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// Configured loss, random or of a connection's first packets.
    Loss,
    /// It would have to wait longer than the queue allows.
    QueueFull,
    /// It is larger than the MTU of its family.
    TooBig {
        /// The MTU.
        mtu: usize,
    },
}

impl Link {
    /// An idle link. `stream` makes its random decisions independent of those of all other links.
    pub fn new(settings: &LinkSettings, seed: u64, stream: &str) -> Self {
        let path = |family: Family, suffix: &str| {
            let random = Random::new(seed, &format!("{stream}/{suffix}"));
            Path::new(settings.path(family), settings.queue, random)
        };
        Self {
            serialiser: settings.rate.map(|rate| Serialiser::new(rate, settings.queue)),
            ipv4: path(Family::V4, "ipv4"),
            ipv6: path(Family::V6, "ipv6"),
        }
    }

    /// Applies `settings` from now on. Packets under way keep the old ones; the random sequence continues.
    pub fn change(&mut self, settings: &LinkSettings) {
        self.serialiser = settings.rate.map(|rate| Serialiser::new(rate, settings.queue));
        self.ipv4.change(&settings.ipv4, settings.queue);
        self.ipv6.change(&settings.ipv6, settings.queue);
    }

    /// Decides what happens to an IP packet of `bytes` bytes that arrives at `now`.
    ///
    /// Calls must be in order of arrival. Lost packets take up time at the configured rate, because they are
    /// lost on the way, not before it.
    pub fn offer(&mut self, now: Nanos, bytes: usize, family: Family) -> Offer {
        let path = match family {
            Family::V4 => &mut self.ipv4,
            Family::V6 => &mut self.ipv6,
        };
        if bytes > path.mtu {
            return Offer::Drop(DropCause::TooBig { mtu: path.mtu });
        }
        let departure = match path.serialiser.as_mut().or(self.serialiser.as_mut()) {
            None => now,
            Some(serialiser) => match serialiser.departure(now, bytes) {
                Some(departure) => departure,
                None => return Offer::Drop(DropCause::QueueFull),
            },
        };
        path.carry(departure)
    }
}

impl Link {
    /// Decides what happens to this IP packet, which arrives at `now`. Like [`Link::offer`], but also
    /// applies the deliberate loss of packets that open connections.
    pub fn offer_packet(&mut self, now: Nanos, packet: &[u8], family: Family) -> Offer {
        let offer = self.offer(now, packet.len(), family);
        let opening = match family {
            Family::V4 => &mut self.ipv4.opening,
            Family::V6 => &mut self.ipv6.opening,
        };
        let lost = matches!(offer, Offer::Release(_))
            && opening.as_mut().is_some_and(|opening| opening.loses(packet));
        if lost { Offer::Drop(DropCause::Loss) } else { offer }
    }
}

/// Sends packets one after the other, at a fixed rate, from a bounded queue.
#[derive(Debug, Clone)]
struct Serialiser {
    rate: Rate,
    queue_ns: u64,
    free_at: Nanos,
}

impl Serialiser {
    fn new(rate: Rate, queue: Duration) -> Self {
        Self { rate, queue_ns: nanos(queue), free_at: 0 }
    }

    /// When the last bit leaves; `None` if the first bit would have to wait too long.
    fn departure(&mut self, now: Nanos, bytes: usize) -> Option<Nanos> {
        let start = self.free_at.max(now);
        if start - now > self.queue_ns {
            return None;
        }
        self.free_at = start.saturating_add(self.rate.serialisation_ns(bytes));
        Some(self.free_at)
    }
}

/// State of one IP family.
#[derive(Debug, Clone)]
struct Path {
    mtu: usize,
    /// Replaces the link's, if the family has its own rate.
    serialiser: Option<Serialiser>,
    delay_ns: u64,
    jitter_ns: u64,
    loss: f64,
    reorder: bool,
    last_release: Nanos,
    random: Random,
    opening: Option<OpeningLoss>,
}

impl Path {
    fn new(settings: &PathSettings, queue: Duration, random: Random) -> Self {
        Self {
            mtu: settings.mtu,
            serialiser: settings.rate.map(|rate| Serialiser::new(rate, queue)),
            delay_ns: nanos(settings.delay),
            jitter_ns: nanos(settings.jitter),
            loss: settings.loss,
            reorder: settings.reorder,
            last_release: 0,
            random,
            opening: OpeningLoss::new(settings.drop_syn, settings.drop_data),
        }
    }

    fn change(&mut self, settings: &PathSettings, queue: Duration) {
        let Self { last_release, random, .. } = self;
        *self = Self { last_release: *last_release, ..Self::new(settings, queue, random.clone()) };
    }

    /// Draws the same two numbers for every packet, so that changing one setting does not affect the
    /// decisions of the other.
    fn carry(&mut self, departure: Nanos) -> Offer {
        let lost = self.random.unit() < self.loss;
        let jitter = (self.random.unit() * self.jitter_ns as f64) as u64;
        if lost {
            return Offer::Drop(DropCause::Loss);
        }
        let mut release = departure.saturating_add(self.delay_ns).saturating_add(jitter);
        if !self.reorder {
            release = release.max(self.last_release);
            self.last_release = release;
        }
        Offer::Release(release)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
