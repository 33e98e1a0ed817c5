//! One direction of a path, for packets: delay, rate, queue, loss.

use std::collections::VecDeque;

use super::Nanos;
use crate::simulation::Link;

/// Ranges that a SACK option has room for beside timestamps (RFC 2018 §3).
pub(super) const SACK_BLOCKS: usize = 3;

/// A TCP segment under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub at: Nanos,
    /// Payload; empty for an acknowledgement alone.
    pub start: u64,
    pub end: u64,
    pub ack: u64,
    pub sacks: [(u64, u64); SACK_BLOCKS],
    /// Packets are numbered in the order in which they leave.
    pub number: usize,
    /// The connection that it is of, among several.
    pub flow: u16,
}

/// How a packet gets to the other end.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// When.
    pub arrives: Nanos,
    /// For so long the link was busy with it, and with what was before it.
    pub busy: Nanos,
}

/// The wire itself, with what is on it.
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
    /// An idle one.
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

    /// When the next packet arrives.
    pub(super) fn next(&self) -> Nanos {
        self.packets.front().map_or(Nanos::MAX, |packet| packet.at)
    }

    /// The connection that the next packet is of.
    pub(super) fn next_flow(&self) -> u16 {
        self.packets.front().map_or(0, |packet| packet.flow)
    }

    pub(super) fn take(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    /// When a packet of so many bytes, sent now, arrives; `None` if it never does.
    pub fn carry(&mut self, now: Nanos, ip_bytes: u64) -> Option<Nanos> {
        self.passage(now, ip_bytes).map(|passage| passage.arrives)
    }

    /// How a packet of so many bytes, sent now, gets there; `None` if it never does.
    fn passage(&mut self, now: Nanos, ip_bytes: u64) -> Option<Passage> {
        let mut departure = now;
        if let Some(rate) = self.rate {
            let start = self.free_at.max(now);
            if start - now > self.queue {
                return None;
            }
            // In 128 bits: a second has 10⁹ nanoseconds, and large packets 10⁵ bits.
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
        // Nothing overtakes.
        let arrives = (departure + self.delay + jitter).max(self.last_at);
        self.last_at = arrives;
        Some(Passage { arrives, busy: departure - now })
    }

    /// Sends a packet; gives how it gets there.
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
