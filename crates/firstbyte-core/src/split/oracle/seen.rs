//! Plays a case and records the client's view, as `firstbyte` does, along with what captures at both ends would show.

use std::time::Duration;

use super::drawn::{Case, Kind};
use crate::simulation::dialogue::Side;
use crate::simulation::tcp::{Cause, Departure, Nanos, Observer, play};
use crate::timeline::*;

#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub side: Side,
    pub step: usize,
    /// What allowed the host to begin working on it; `prepared` is when.
    pub cause: Cause,
    pub prepared: Nanos,
}

/// Bytes received in order: when, which, and the packet that brought the first of them.
#[derive(Clone, Copy, Debug)]
struct Received {
    at: Nanos,
    start: u64,
    end: u64,
    segments: u32,
}

/// The course of events.
#[derive(Default)]
pub(super) struct Log {
    pub packets: Vec<Departure>,
    pub writes: Vec<Write>,
    pub connected: Nanos,
    syn_at: Nanos,
    syn_again: u32,
    received: Vec<Received>,
    sent: Vec<(Nanos, u64, u64)>,
    sent_again: u32,
    acknowledged: Vec<(Nanos, u64)>,
}

impl Observer for Log {
    fn connected(&mut self, syn_at: Nanos, at: Nanos, retransmits: u32) {
        (self.syn_at, self.connected, self.syn_again) = (syn_at, at, retransmits);
    }

    fn sent(&mut self, at: Nanos, start: u64, end: u64, first_time: bool) {
        match self.sent.last_mut() {
            _ if !first_time => self.sent_again += 1,
            // One send, however many segments it becomes.
            Some(last) if last.0 == at && last.2 == start => last.2 = end,
            _ => self.sent.push((at, start, end)),
        }
    }

    fn received(&mut self, at: Nanos, start: u64, end: u64) {
        self.received.push(Received { at, start, end, segments: 1 });
    }

    fn acknowledged(&mut self, at: Nanos, before: u64) {
        self.acknowledged.push((at, before));
    }

    fn wrote(&mut self, _: Nanos, _: usize) {}

    fn departs(&mut self, departure: &Departure) {
        self.packets.push(*departure);
    }

    fn prepares(&mut self, at: Nanos, side: Side, step: usize, cause: Cause) {
        self.writes.push(Write { side, step, cause, prepared: at });
    }
}

impl Log {
    /// `None` if losses kept the connection from completing.
    pub(super) fn play_case(case: &Case) -> Option<Self> {
        let mut log = Self::default();
        play(&case.dialogue, &case.habits, &case.path, &mut log).ok()?;
        Some(log)
    }

    pub(super) fn syn(&self) -> (Nanos, Nanos) {
        (self.syn_at, self.connected)
    }

    /// Arrival of the byte at this place (counted from 1).
    pub(super) fn received_at(&self, place: u64) -> Option<Nanos> {
        self.received.iter().find(|r| r.start < place && place <= r.end).map(|r| r.at)
    }

    pub(super) fn connection(&self, case: &Case) -> Connection {
        let mut c = Connection::default();
        let at = |ns: Nanos| Stamp::kernel(Offset::from_nanos(ns.cast_signed()));
        let chunks = self.chunks(case.merges);
        let places = &case.dialogue.places;
        let sent = |place: u64| self.sent.iter().find(|s| s.1 < place && place <= s.2).map(|s| s.0);
        let arrived = |place: u64| {
            let holds = |chunk: &&Received| chunk.start < place && place <= chunk.end;
            chunks.iter().find(holds).map(|chunk| chunk.at)
        };
        let mut set = |mark, ns: Option<Nanos>| {
            if let Some(ns) = ns {
                c.marks.set(mark, at(ns));
            }
        };
        set(Mark::ConnectStart, Some(0));
        set(Mark::TcpConnected, Some(self.connected));
        if case.kind != Kind::Plain {
            set(Mark::SecureConnectionStart, Some(self.connected));
        }
        set(Mark::HandshakeComplete, places.server_finished.and_then(arrived));
        set(Mark::HandshakeComplete, places.client_finished.and_then(sent));
        set(Mark::RequestStart, sent(places.request_start));
        set(Mark::RequestEnd, sent(places.request_end));
        set(Mark::ResponseStart, arrived(places.response_start));
        set(Mark::ResponseEnd, arrived(places.response_end));
        c.flights = self.flights(&chunks, case.reads_known);
        let samples = self.sent.iter().filter_map(|s| Some(self.acknowledged_at(s.2)? - s.0));
        let syn = self.connected - self.syn_at;
        let known = (self.syn_again == 0).then_some(syn);
        let least = samples.chain(known).min();
        c.facts.tcp = Some(TcpFacts {
            syn_rtt: known.map(Duration::from_nanos),
            min_rtt: least.map(Duration::from_nanos),
            retransmits: Some(self.syn_again + self.sent_again),
            send_mss: Some(case.path.mss),
            ..TcpFacts::default()
        });
        c
    }

    /// A pure acknowledgement has an earlier timestamp than data right behind it.
    fn acknowledged_at(&self, end: u64) -> Option<Nanos> {
        let at = self.acknowledged.iter().find(|(_, before)| *before >= end).map(|(at, _)| *at)?;
        let alone = |packet: &Departure| {
            let arrives = packet.passage.map(|passage| passage.arrives);
            packet.side == Side::Server && packet.bytes.0 == packet.bytes.1 && arrives == Some(at)
        };
        Some(if self.packets.iter().any(alone) { at - 2_000 } else { at })
    }

    /// Reads: segments, or several merged by the kernel, with the last one's timestamp.
    fn chunks(&self, merges: bool) -> Vec<Received> {
        const TOGETHER: Nanos = 50_000;
        let mut chunks: Vec<Received> = Vec::new();
        for next in &self.received {
            match chunks.last_mut() {
                Some(last)
                    if merges && next.at - last.at < TOGETHER && next.end - last.start < 65_000 =>
                {
                    (last.at, last.end) = (next.at, next.end);
                    last.segments += 1;
                }
                _ => chunks.push(*next),
            }
        }
        chunks
    }

    fn flights(&self, received: &[Received], reads_known: bool) -> Vec<Flight> {
        let at = |ns: Nanos| Offset::from_nanos(ns.cast_signed());
        let chunk = |ns, bytes, acknowledged: Option<Nanos>| Chunk {
            acknowledged: acknowledged.map(at),
            ..Chunk::new(Stamp::kernel(at(ns)), bytes)
        };
        let mut events: Vec<(Direction, Chunk)> = Vec::new();
        for r in received {
            let read = reads_known.then(|| at(r.at));
            // A client that records one of them also records the other.
            let segments = reads_known.then_some(r.segments);
            let chunk = Chunk { read, segments, ..chunk(r.at, r.end - r.start, None) };
            events.push((Direction::Received, chunk));
        }
        for s in &self.sent {
            events.push((Direction::Sent, chunk(s.0, s.2 - s.1, self.acknowledged_at(s.2))));
        }
        events.sort_by_key(|(_, chunk)| chunk.stamp.at);
        let mut flights: Vec<Flight> = Vec::new();
        for (direction, chunk) in events {
            match flights.last_mut() {
                Some(flight) if flight.direction == direction => flight.chunks.push(chunk),
                _ => flights.push(Flight { direction, chunks: vec![chunk], messages: Vec::new() }),
            }
        }
        flights
    }
}
