//! The true time of each part: traces the critical path backwards from the last byte to the SYN.

use super::drawn::{Case, Role};
use super::seen::Log;
use crate::simulation::dialogue::Side;
use crate::simulation::tcp::{Cause, Departure, Nanos};
use crate::split::Part;

/// Nanoseconds of each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth([u64; 6]);

pub(super) const PARTS: [Part; 6] =
    [Part::Network, Part::Variation, Part::Server, Part::Pause, Part::Transfer, Part::Client];

impl Truth {
    pub(super) const fn parts(&self) -> [u64; 6] {
        self.0
    }
}

/// A part and the events that begin and end it.
type Step = (Part, Event, Event);

/// Time of an event, and the side where it happened.
type Event = (Nanos, Side);

/// A connection's time from its beginning, without gaps, along the critical paths.
///
/// The first path leads to the response's first byte, the second from there to its last byte. The client sees events
/// at the server one trip across the path later.
#[derive(Clone, Debug)]
pub(super) struct Course(Vec<(Part, Nanos, Nanos)>);

impl Course {
    /// The parts of the time from `from` to `to`.
    pub(super) fn between(&self, from: Nanos, to: Nanos) -> Truth {
        let mut truth = Truth::default();
        for (part, start, end) in &self.0 {
            let took = (*end).min(to).saturating_sub((*start).max(from));
            let place = PARTS.iter().position(|other| other == part);
            truth.0[place.unwrap()] += took;
        }
        truth
    }
}

/// Smallest one-way delays observed, and their share that is an empty packet's time on the link.
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

const fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
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
    /// Whether the path leads to the response's first byte.
    is_to_first: bool,
    steps: Vec<Step>,
}

impl<'a> Tracer<'a> {
    /// The true course of the connection in `log`.
    pub(super) fn course(case: &'a Case, log: &'a Log) -> Course {
        let places = &case.dialogue.places;
        let back = Base::from_log(log).way[1];
        let seen = |(at, side): Event| if side == Side::Server { at + back } else { at };
        let to_first = Self::path_to(case, log, places.response_start);
        let mut all: Vec<_> = to_first.into_iter().map(|s| (s.0, s.1.0, s.2.0)).collect();
        let first = all.last().map_or(0, |step| step.2);
        let to_last = Self::path_to(case, log, places.response_end);
        let to_last = to_last.into_iter().map(|s| (s.0, seen(s.1).max(first), seen(s.2)));
        all.extend(to_last.filter(|step| step.2 > step.1));
        Course(all)
    }

    /// The critical path to the byte at `place`.
    fn path_to(case: &'a Case, log: &'a Log, place: u64) -> Vec<Step> {
        let is_to_first = place == case.dialogue.places.response_start;
        let base = Base::from_log(log);
        let mut tracer = Self { case, log, base, is_to_first, steps: Vec::new() };
        let mut cause = tracer.bringer(Side::Server, place);
        while let Some(next) = cause {
            cause = tracer.back(next);
        }
        let (syn, connected) = log.syn();
        let both = (tracer.base.way[0] + tracer.base.way[1]).min(connected - syn);
        let client = |at| (at, Side::Client);
        tracer.book(Part::Network, client(connected - both), client(connected));
        tracer.book(Part::Variation, client(0), client(connected - both));
        tracer.steps.sort_by_key(|step| (step.1.0, step.2.0));
        tracer.steps
    }

    /// The server's write that begins the response.
    fn first_write(&self) -> usize {
        let (mut end, place) = (0, self.case.dialogue.places.response_start);
        let ends = self.case.dialogue.server.steps.iter().map(|step| {
            end += step.bytes;
            end
        });
        ends.take_while(|end| *end < place).count()
    }

    fn book(&mut self, part: Part, from: Event, to: Event) {
        if to.0 > from.0 {
            self.steps.push((part, from, to));
        }
    }

    /// The packet that completed the data up to the byte at `place`.
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

    /// Records the time of `cause`, and returns its own cause.
    fn back(&mut self, cause: Cause) -> Option<Cause> {
        match cause {
            Cause::Packet(number) => self.departure(number),
            _ => None,
        }
    }

    /// How long the link is busy with a packet.
    fn own(&self, packet: &Departure) -> Nanos {
        let path = &self.case.path;
        let link = if packet.side == Side::Client { &path.up } else { &path.down };
        let bytes = packet.bytes.1 - packet.bytes.0 + 52;
        link.rate.map_or(0, |rate| bytes * 8_000_000_000 / rate)
    }

    /// The packet that still occupied the link when this one left.
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
            let begun = passage.arrives - apart.min(self.own(&packet));
            let there_at = |at| (at, other(packet.side));
            self.book(Part::Transfer, there_at(begun), there_at(passage.arrives));
            self.book(Part::Variation, there_at(passage.arrives - apart), there_at(begun));
            return Some(Cause::Packet(before.number));
        }
        let took = passage.arrives - packet.at;
        let busy = passage.busy - self.base.busy[i];
        let there = packet.at + self.base.way[i];
        let passed = there + busy.min(took - self.base.way[i]);
        let there_at = |at| (at, other(packet.side));
        self.book(Part::Network, (packet.at, packet.side), there_at(there));
        self.book(Part::Transfer, there_at(there), there_at(passed));
        self.book(Part::Variation, there_at(passed), there_at(passage.arrives));
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
            // Later data waited for this packet: a hole.
            let arrives = packet.passage.map_or(0, |passage| passage.arrives);
            let waited = |p: &Departure| {
                p.side == packet.side
                    && p.bytes.0 >= packet.bytes.1
                    && p.passage.is_some_and(|passage| passage.arrives < arrives)
            };
            // The kernel counts the client's retransmissions.
            let hole = packet.side == Side::Client || self.log.packets.iter().any(waited);
            let part = if hole { Part::Variation } else { Part::Pause };
            self.book(part, (first.at, packet.side), (packet.at, packet.side));
            return self.released(first);
        }
        match packet.cause {
            Cause::Write(step) => self.write(packet.side, step, packet.at),
            Cause::DelayedAck(number) => {
                let arrived = self.log.packets[number].passage?.arrives;
                self.book(Part::Pause, (arrived, packet.side), (packet.at, packet.side));
                Some(Cause::Packet(number))
            }
            Cause::Timer => {
                // A probe for a tail loss: new data, some time after the last.
                let earlier = |p: &&Departure| {
                    p.side == packet.side && p.number < packet.number && p.bytes.1 > p.bytes.0
                };
                let before = *self.log.packets.iter().rfind(earlier)?;
                self.book(Part::Pause, (before.at, packet.side), (packet.at, packet.side));
                self.released(before)
            }
            Cause::Connected => None,
            packet @ Cause::Packet(_) => Some(packet),
        }
    }

    fn write(&mut self, side: Side, step: usize, at: Nanos) -> Option<Cause> {
        let write = self.log.writes.iter().find(|w| w.side == side && w.step == step)?;
        let part = match (side, self.case.roles.get(step)) {
            (Side::Client, _) => Part::Client,
            // If Nagle's algorithm holds the first write back, it leaves with the second: the time of the first byte
            // is the server's.
            _ if self.is_to_first && step >= self.first_write() => Part::Server,
            (_, Some(Role::More)) => Part::Pause,
            _ => Part::Server,
        };
        self.book(part, (write.prepared, side), (at, side));
        match write.cause {
            Cause::Write(before) => self.write(side, before, write.prepared),
            Cause::Connected => None,
            cause => Some(cause),
        }
    }
}
