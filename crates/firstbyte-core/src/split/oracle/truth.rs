//! The truth by part: back along the critical path, from the last byte to the SYN.

use super::drawn::{Case, Role};
use super::seen::Log;
use crate::simulation::dialogue::Side;
use crate::simulation::tcp::{Cause, Departure, Nanos};

/// Nanoseconds of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    pub network: u64,
    pub variation: u64,
    pub server: u64,
    pub pause: u64,
    pub transfer: u64,
    pub client: u64,
}

pub(super) const PARTS: [&str; 6] =
    ["network", "variation", "server", "pause", "transfer", "client"];

impl Truth {
    pub(super) fn parts(&self) -> [u64; 6] {
        [self.network, self.variation, self.server, self.pause, self.transfer, self.client]
    }
}

/// The smallest ways seen, and what of them is the empty packet's time on the link.
struct Base {
    way: [Nanos; 2],
    busy: [Nanos; 2],
}

const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Base {
    fn from_log(log: &Log) -> Self {
        let mut base = Self { way: [Nanos::MAX; 2], busy: [Nanos::MAX; 2] };
        for packet in &log.packets {
            let Some(passage) = packet.passage else { continue };
            let i = index(packet.side);
            base.way[i] = base.way[i].min(passage.arrives - packet.at);
            base.busy[i] = base.busy[i].min(passage.busy);
        }
        base
    }
}

pub(super) struct Tracer<'a> {
    case: &'a Case,
    log: &'a Log,
    base: Base,
    truth: Truth,
}

impl<'a> Tracer<'a> {
    /// The truth by part of what the log says.
    pub(super) fn truth(case: &'a Case, log: &'a Log) -> Truth {
        let mut tracer = Self { case, log, base: Base::from_log(log), truth: Truth::default() };
        let place = case.dialogue.places.response_end;
        let mut cause = tracer.bringer(Side::Server, place);
        while let Some(next) = cause {
            cause = tracer.back(next);
        }
        let (syn, connected) = log.syn();
        let both = tracer.base.way[0] + tracer.base.way[1];
        let took = connected - syn;
        tracer.truth.network += both.min(took);
        tracer.truth.variation += took.saturating_sub(both) + syn;
        tracer.truth
    }

    /// The packet with which the byte at `place` was there, all before it included.
    fn bringer(&self, side: Side, place: u64) -> Option<Cause> {
        let mut have: Vec<(u64, u64)> = Vec::new();
        let mut arrivals: Vec<&Departure> = self.log.packets.iter().collect();
        arrivals.retain(|p| p.side == side && p.passage.is_some() && p.bytes.1 > p.bytes.0);
        arrivals.sort_by_key(|p| p.passage.map(|passage| passage.arrives));
        for packet in arrivals {
            have.push(packet.bytes);
            have.sort_unstable();
            let whole = have.iter().fold(0, |end, r| if r.0 <= end { r.1.max(end) } else { end });
            if whole >= place {
                return Some(Cause::Packet(packet.number));
            }
        }
        None
    }

    /// Books what `cause` took, and gives what it followed from.
    fn back(&mut self, cause: Cause) -> Option<Cause> {
        match cause {
            Cause::Packet(number) => self.departure(number),
            _ => None,
        }
    }

    /// For how long the link is busy with a packet.
    fn own(&self, packet: &Departure) -> Nanos {
        let path = &self.case.path;
        let link = if packet.side == Side::Client { &path.up } else { &path.down };
        let bytes = packet.bytes.1 - packet.bytes.0 + 52;
        link.rate.map_or(0, |rate| bytes * 8_000_000_000 / rate)
    }

    /// The packet that the link was still busy with when this one left.
    fn in_its_way(&self, packet: &Departure) -> Option<Departure> {
        let waited = packet.passage?.busy > self.own(packet) + 1_000;
        let same = |p: &&Departure| {
            p.side == packet.side && p.number < packet.number && p.passage.is_some()
        };
        self.log.packets.iter().rfind(same).filter(|_| waited).copied()
    }

    fn departure(&mut self, number: usize) -> Option<Cause> {
        let packet = self.log.packets[number];
        let passage = packet.passage?;
        let i = index(packet.side);
        if let Some(before) = self.in_its_way(&packet) {
            let apart = passage.arrives - before.passage?.arrives;
            let busy = apart.min(self.own(&packet));
            self.truth.transfer += busy;
            self.truth.variation += apart - busy;
            return Some(Cause::Packet(before.number));
        }
        let took = passage.arrives - packet.at;
        let busy = passage.busy - self.base.busy[i];
        self.truth.network += self.base.way[i];
        self.truth.transfer += busy.min(took - self.base.way[i]);
        self.truth.variation += (took - self.base.way[i]).saturating_sub(busy);
        self.released(packet)
    }

    fn released(&mut self, packet: Departure) -> Option<Cause> {
        if !packet.first_time {
            let same = |p: &&Departure| {
                p.side == packet.side
                    && p.first_time
                    && p.bytes.0 <= packet.bytes.0
                    && packet.bytes.0 < p.bytes.1
            };
            let first = *self.log.packets.iter().find(same)?;
            // Later data waited for it: a hole.
            let arrives = packet.passage.map_or(0, |passage| passage.arrives);
            let waited = |p: &Departure| {
                p.side == packet.side
                    && p.bytes.0 >= packet.bytes.1
                    && p.passage.is_some_and(|passage| passage.arrives < arrives)
            };
            // What the client sent again, its kernel counts.
            let hole = packet.side == Side::Client || self.log.packets.iter().any(waited);
            let part = if hole { &mut self.truth.variation } else { &mut self.truth.pause };
            *part += packet.at - first.at;
            return self.released(first);
        }
        match packet.cause {
            Cause::Write(step) => self.write(packet.side, step, packet.at),
            Cause::DelayedAck(number) => {
                let arrived = self.log.packets[number].passage?.arrives;
                self.truth.pause += packet.at - arrived;
                Some(Cause::Packet(number))
            }
            Cause::Timer => {
                // A probe for a loss at the end: new data, a while after the last.
                let earlier = |p: &&Departure| {
                    p.side == packet.side && p.number < packet.number && p.bytes.1 > p.bytes.0
                };
                let before = *self.log.packets.iter().rfind(earlier)?;
                self.truth.pause += packet.at - before.at;
                self.released(before)
            }
            Cause::Connected => None,
            packet @ Cause::Packet(_) => Some(packet),
        }
    }

    fn write(&mut self, side: Side, step: usize, at: Nanos) -> Option<Cause> {
        let write = self.log.writes.iter().find(|w| w.side == side && w.step == step)?;
        let took = at - write.prepared;
        let part = match (side, self.case.roles.get(step)) {
            (Side::Client, _) => &mut self.truth.client,
            (_, Some(Role::More)) => &mut self.truth.pause,
            _ => &mut self.truth.server,
        };
        *part += took;
        match write.cause {
            Cause::Write(before) => self.write(side, before, write.prepared),
            Cause::Connected => None,
            cause => Some(cause),
        }
    }
}
