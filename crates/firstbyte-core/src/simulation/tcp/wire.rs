//! One direction of a path, for packets: delay, rate, queue, loss.

use std::collections::VecDeque;

use super::Nanos;
use crate::simulation::Link;

/// SACK ranges that fit next to timestamps (RFC 2018 §3).
pub(super) const SACK_BLOCKS: usize = 3;

/// A TCP segment in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub at: Nanos,
    /// Payload range; empty for a pure acknowledgement.
    pub start: u64,
    pub end: u64,
    pub ack: u64,
    pub sacks: [(u64, u64); SACK_BLOCKS],
    /// Sequence number in the order of departure.
    pub number: usize,
    /// Connection of the packet, among several.
    pub flow: u16,
}

/// A packet's way to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Arrival time.
    pub arrives: Nanos,
    /// How long the link was busy with this packet and those queued before it.
    pub busy: Nanos,
}

/// The link, with the packets on it.
#[derive(Debug)]
pub struct Wire {
    delay: Nanos,
    rate: Option<u64>,
    queue: Nanos,
    free_at: Nanos,
    loss: f64,
    jitter: Nanos,
    last_at: Nanos,
    random: fastrand::Rng,
    packets: VecDeque<Packet>,
}

impl Wire {
    /// Creates an idle link.
    pub fn new(link: &Link, random: fastrand::Rng) -> Self {
        Self {
            delay: super::nanos(link.delay),
            rate: link.rate,
            queue: super::nanos(link.queue),
            free_at: 0,
            loss: link.loss,
            jitter: super::nanos(link.jitter),
            last_at: 0,
            random,
            packets: VecDeque::new(),
        }
    }

    /// Arrival time of the next packet.
    pub(super) fn next(&self) -> Nanos {
        self.packets.front().map_or(Nanos::MAX, |packet| packet.at)
    }

    /// Connection of the next packet.
    pub(super) fn next_flow(&self) -> u16 {
        self.packets.front().map_or(0, |packet| packet.flow)
    }

    pub(super) fn take(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// Arrival time of a packet of `ip_bytes` sent now; `None` if it is lost.
    pub fn carry(&mut self, now: Nanos, ip_bytes: u64) -> Option<Nanos> {
        self.passage(now, ip_bytes).map(|passage| passage.arrives)
    }

    /// Passage of a packet of `ip_bytes` sent now; `None` if it is lost.
    fn passage(&mut self, now: Nanos, ip_bytes: u64) -> Option<Passage> {
        let mut departure = now;
        if let Some(rate) = self.rate {
            let start = self.free_at.max(now);
            if start - now > self.queue {
                return None;
            }
            // Use 128 bits: a second has 10⁹ nanoseconds, and large packets have 10⁵ bits.
            let takes = u128::from(ip_bytes) * 8_000_000_000 / u128::from(rate.max(1));
            self.free_at = start + u64::try_from(takes).unwrap_or(u64::MAX / 4);
            departure = self.free_at;
        }
        let lost = self.loss > 0.0 && self.random.f64() < self.loss;
        let jitter = match self.jitter {
            0 => 0,
            most => self.random.u64(0..=most),
        };
        if lost {
            return None;
        }
        // Packets do not overtake each other.
        let arrives = (departure + self.delay + jitter).max(self.last_at);
        self.last_at = arrives;
        Some(Passage { arrives, busy: departure - now })
    }

    /// Sends a packet and returns its passage.
    pub(super) fn send(
        &mut self,
        now: Nanos,
        mut packet: Packet,
        ip_bytes: u64,
    ) -> Option<Passage> {
        let passage = self.passage(now, ip_bytes)?;
        packet.at = passage.arrives;
        self.packets.push_back(packet);
        Some(passage)
    }
}
