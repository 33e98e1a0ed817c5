//! One direction of one host's link, as a pure function of arrival times and sizes.
//!
//! In: when a packet arrives, how long it is, its IP family. Out: when it leaves the far end, or why
//! it never does. No clock, no socket: the forwarder brings both, tests bring neither.

mod opening;
mod random;

use std::time::Duration;

use crate::scenario::{Family, LinkSettings, PathSettings, Rate};
use opening::OpeningLoss;
use random::Random;

/// A point in time in nanoseconds, of a clock that the caller chooses.
pub type Nanos = u64;

/// The state of one direction of a link.
#[derive(Debug, Clone)]
pub struct Link {
    /// Of both families together.
    serialiser: Option<Serialiser>,
    ipv4: Path,
    ipv6: Path,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It leaves the far end at this time.
    Release(Nanos),
    /// It never does.
    Drop(DropCause),
}

/// Why a link drops a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The configured loss, by chance or of a connection's first packets.
    Loss,
    /// It would have waited longer for its turn than the queue allows.
    QueueFull,
    /// It is larger than the MTU of its family.
    TooBig {
        /// That MTU.
        mtu: usize,
    },
}

impl Link {
    /// A link at rest. `stream` tells the random decisions of this link from those of all others.
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

    /// Applies `settings` from now on. Packets on their way keep theirs; the random sequence continues.
    pub fn change(&mut self, settings: &LinkSettings) {
        self.serialiser = settings.rate.map(|rate| Serialiser::new(rate, settings.queue));
        self.ipv4.change(&settings.ipv4, settings.queue);
        self.ipv6.change(&settings.ipv6, settings.queue);
    }

    /// Decides on an IP packet of `bytes` bytes that arrives at `now`.
    ///
    /// Offers must be in order of arrival. Lost packets take their time at the configured rate:
    /// they are lost on the way, not before it.
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
    /// Decides on this IP packet, which arrives at `now`: as [`Link::offer`] does, and whether it is one
    /// of those that a connection opens with and that are lost on purpose.
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

/// Puts packets on the wire one after the other, at a fixed rate, from a bounded queue.
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

    /// When the last bit has left; `None` if the packet would wait too long for the first one to.
    fn departure(&mut self, now: Nanos, bytes: usize) -> Option<Nanos> {
        let start = self.free_at.max(now);
        if start - now > self.queue_ns {
            return None;
        }
        self.free_at = start.saturating_add(self.rate.serialisation_ns(bytes));
        Some(self.free_at)
    }
}

/// What one IP family has of its own.
#[derive(Debug, Clone)]
struct Path {
    mtu: usize,
    /// Instead of the link's, where the family has a rate of its own.
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

    /// Draws the same two numbers for every packet, so that changing one setting leaves the other's
    /// decisions as they were.
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
