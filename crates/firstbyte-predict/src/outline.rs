//! A simulated dialogue as a [`Connection`]: marks, flights with their messages, facts.

use std::time::Duration;

use firstbyte_core::simulation::GaveUp;
use firstbyte_core::simulation::dialogue::{Dialogue, Message};
use firstbyte_core::simulation::tcp::{self, Nanos, Observer};

use super::{Setup, Tls, Way};
use firstbyte_core::timeline::{
    Chunk, Clock, Connection, Direction, Facts, Flight, Lookup, Mark, Offset, RecordType, Stamp,
    TcpFacts,
};

/// The connection that results when the dialogue crosses the path.
pub(super) fn connection(setup: &Setup, way: &Way, dialogue: &Dialogue) -> Connection {
    let mut record = Record { origin_step: dialogue.origin_step, ..Record::default() };
    let gave_up = tcp::play(dialogue, &setup.habits(), &setup.path, &mut record).err();
    record.finish(setup, way, dialogue, true, gave_up)
}

/// A point in virtual time, counted from the origin.
pub(super) fn stamp(ns: i64) -> Stamp {
    Stamp { at: Offset::from_nanos(ns), clock: Clock::Simulated }
}

/// Sets the marks that come before the first packet, and returns how long that takes.
pub(super) fn before_first_packet(setup: &Setup, connection: &mut Connection) -> Duration {
    let Some(time) = setup.client.resolver_time else { return setup.client.start_time };
    let end = stamp(tcp::nanos(time).cast_signed());
    connection.marks.set(Mark::DomainLookupStart, stamp(0));
    connection.marks.set(Mark::DomainLookupEnd, end);
    connection.lookups.push(Lookup {
        record_type: RecordType::Any,
        start: Offset::ZERO,
        end: Some(end.at),
        addresses: Vec::new(),
        error: None,
        tries: Vec::new(),
    });
    time + setup.client.start_time
}

#[derive(Clone, Copy, Debug)]
struct Run {
    direction: Direction,
    at: Nanos,
    start: u64,
    end: u64,
    acknowledged: Option<Nanos>,
}

/// What the client observes of a connection.
#[derive(Default)]
pub(super) struct Record {
    /// When its first packet left.
    began_at: Nanos,
    syn_at: Nanos,
    connected_at: Option<Nanos>,
    retransmits: u32,
    origin_step: Option<usize>,
    /// When the step was written from which times are counted.
    origin: Option<Nanos>,
    runs: Vec<Run>,
}

impl Observer for Record {
    fn connected(&mut self, syn_at: Nanos, at: Nanos, retransmits: u32) {
        (self.syn_at, self.connected_at, self.retransmits) = (syn_at, Some(at), retransmits);
    }

    fn sent(&mut self, at: Nanos, start: u64, end: u64, first_time: bool) {
        if !first_time {
            self.retransmits += 1;
            return;
        }
        self.runs.push(Run { direction: Direction::Sent, at, start, end, acknowledged: None });
    }

    fn received(&mut self, at: Nanos, start: u64, end: u64) {
        self.runs.push(Run { direction: Direction::Received, at, start, end, acknowledged: None });
    }

    fn acknowledged(&mut self, at: Nanos, before: u64) {
        let sent = self.runs.iter_mut().rev().filter(|run| run.direction == Direction::Sent);
        for run in sent.take_while(|run| run.acknowledged.is_none()) {
            if run.end <= before {
                run.acknowledged = Some(at);
            }
        }
    }

    fn wrote(&mut self, at: Nanos, step: usize) {
        if self.origin_step == Some(step) {
            self.origin = Some(at);
            self.runs.clear();
        }
    }
}

impl Record {
    /// A record of a connection whose first packet leaves at `began_at`.
    pub(super) fn begun_at(began_at: Nanos) -> Self {
        Self { began_at, ..Self::default() }
    }

    /// The recorded connection; with `asks`, it also looks up the name.
    pub(super) fn finish(
        &self,
        setup: &Setup,
        way: &Way,
        dialogue: &Dialogue,
        asks: bool,
        gave_up: Option<GaveUp>,
    ) -> Connection {
        let mut connection =
            Connection { url: setup.exchange.url.clone(), ..Connection::default() };
        let reused = self.origin_step.is_some();
        let before = match reused {
            true => setup.client.start_time,
            false if asks => before_first_packet(setup, &mut connection),
            false => before_first_packet(setup, &mut Connection::default()),
        };
        let origin = self.origin.unwrap_or(0);
        let shift =
            |at: Nanos| stamp((at + tcp::nanos(before)).cast_signed() - origin.cast_signed());
        if !reused {
            connection.marks.set(Mark::ConnectStart, shift(self.began_at));
            if let Some(connected) = self.connected_at.map(&shift) {
                connection.marks.set(Mark::TcpConnected, connected);
                if way.tls != Tls::None {
                    connection.marks.set(Mark::SecureConnectionStart, connected);
                }
            }
        }
        self.set_marks(&mut connection, dialogue, reused, &shift);
        connection.flights = self.flights(dialogue, &shift);
        let rtt = self.connected_at.map(|at| Duration::from_nanos(at - self.syn_at));
        let has = |mark| connection.marks.at(mark).is_some();
        let answered = has(Mark::ResponseStart);
        let secured = reused || has(Mark::HandshakeComplete);
        connection.facts = Facts {
            reused,
            tcp: Some(TcpFacts {
                syn_rtt: rtt.filter(|_| !reused),
                min_rtt: rtt,
                retransmits: rtt.map(|_| self.retransmits),
                send_mss: Some(setup.path.mss),
                ..TcpFacts::default()
            }),
            tls: dialogue.tls.clone().filter(|_| secured),
            http: answered.then(|| dialogue.http.clone()),
            ..Facts::default()
        };
        connection.failure = gave_up.map(|gave_up| {
            let at = shift(gave_up.at).at;
            gave_up.failure(&connection, at)
        });
        connection
    }

    fn set_marks(
        &self,
        connection: &mut Connection,
        dialogue: &Dialogue,
        reused: bool,
        shift: &impl Fn(Nanos) -> Stamp,
    ) {
        use Direction::{Received, Sent};
        let places = &dialogue.places;
        let mut set = |mark, direction, place: Option<u64>| {
            if let Some(at) = place.and_then(|place| self.at(direction, place)) {
                connection.marks.set(mark, shift(at));
            }
        };
        if !reused {
            set(Mark::HandshakeComplete, Received, places.server_finished);
            set(Mark::HandshakeComplete, Sent, places.client_finished);
        }
        set(Mark::RequestStart, Sent, Some(places.request_start));
        set(Mark::RequestEnd, Sent, Some(places.request_end));
        set(Mark::ResponseFirstPacket, Received, places.response_first_packet);
        set(Mark::ResponseStart, Received, Some(places.response_start));
        set(Mark::ResponseEnd, Received, Some(places.response_end));
    }

    /// When the bytes up to `place` had left or arrived.
    pub(super) fn at(&self, direction: Direction, place: u64) -> Option<Nanos> {
        let run = |run: &&Run| run.direction == direction && run.start < place && place <= run.end;
        self.runs.iter().find(run).map(|run| run.at)
    }

    fn flights(&self, dialogue: &Dialogue, shift: &impl Fn(Nanos) -> Stamp) -> Vec<Flight> {
        let mut flights: Vec<Flight> = Vec::new();
        for run in &self.runs {
            let messages = match run.direction {
                Direction::Sent => &dialogue.client.messages,
                Direction::Received => &dialogue.server.messages,
            };
            if flights.last().is_none_or(|flight| flight.direction != run.direction) {
                let direction = run.direction;
                flights.push(Flight { direction, chunks: Vec::new(), messages: Vec::new() });
            }
            let Some(flight) = flights.last_mut() else { continue };
            flight.chunks.push(Chunk {
                acknowledged: run.acknowledged.map(|at| shift(at).at),
                ..Chunk::new(shift(run.at), run.end - run.start)
            });
            flight.messages.extend(names(messages, run.start, run.end));
        }
        flights
    }
}

/// The messages that end within this range of bytes.
fn names(messages: &[Message], start: u64, end: u64) -> impl Iterator<Item = String> + '_ {
    let within = move |message: &&Message| start < message.end && message.end <= end;
    messages.iter().filter(within).map(|message| message.name.clone())
}
