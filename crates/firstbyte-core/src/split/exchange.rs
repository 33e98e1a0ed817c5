//! Walks the flights of one phase and divides its time into exchanges and the client's own time.

use std::time::Duration;

use super::bottleneck::{Bottleneck, Busy};
use super::quic::{self, Carried};
use super::{KERNEL_PATH, Known, Phase};
use crate::timeline::{
    AttemptOutcome, Chunk, Connection, Direction, Failure, Flight, Mark, Offset, PhaseName,
};
use crate::wire::quic::{ACKNOWLEDGMENT, PacketKind};

/// A wait for an answer, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// When the wait began.
    pub start: Offset,
    /// Whether this answers sent data; otherwise data simply continued to arrive.
    pub is_wait: bool,
    /// Part of the answer has already arrived: the server continued with the rest.
    pub goes_on: bool,
    /// From the departure of the last byte sent to the arrival of the answer's first byte.
    pub waited: Duration,
    /// Part of the wait in which the bottleneck was busy with the start of the answer.
    pub busy: Busy,
    /// From the first to the last byte of the answer.
    pub answering: Duration,
}

impl Exchange {
    fn wait(start: Offset, end: Offset) -> Self {
        let (busy, answering) = (Busy::default(), Duration::ZERO);
        Self { start, is_wait: true, goes_on: false, waited: end.since(start), busy, answering }
    }

    /// Arrival of the answer's first byte.
    pub(super) fn first(&self) -> Offset {
        self.start + self.waited
    }

    /// Arrival of the answer's last byte.
    pub(super) fn last(&self) -> Offset {
        self.first() + self.answering
    }
}

/// Activity, as far as it can be determined without the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Waiting for the name service.
    Resolver,
    /// Client processing.
    Client,
    /// Between the first and the last byte of a flight sent.
    Sending,
    /// Before the winning attempt, while the client tried another.
    Fallback,
    /// The rest of a failed phase: a wait for data that did not arrive.
    Unanswered,
    /// An exchange, by its index.
    Exchange(usize),
}

/// The time of one phase, divided into contiguous steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub phase: Phase,
    pub exchanges: Vec<Exchange>,
    pub steps: Vec<(Offset, Offset, Step)>,
}

impl Walk {
    pub(super) fn through_phase(
        connection: &Connection,
        phase: Phase,
        bottleneck: &Bottleneck,
        known: Option<Known>,
    ) -> Self {
        let mut walk = Self { phase, exchanges: Vec::new(), steps: Vec::new() };
        match phase.name {
            PhaseName::Resolve => walk.resolve(connection),
            PhaseName::Connect => walk.connect(connection),
            PhaseName::ProxyTls | PhaseName::Tunnel | PhaseName::Tls | PhaseName::Quic => {
                walk.flights(connection, bottleneck, known);
            }
            PhaseName::Send => walk.send(connection),
            PhaseName::Wait => walk.wait(connection, bottleneck, known),
            PhaseName::Receive => walk.receive(connection),
        }
        walk
    }

    fn step(&mut self, start: Offset, end: Offset, step: Step) {
        if end > start {
            self.steps.push((start, end, step));
        }
    }

    fn exchange(&mut self, exchange: Exchange) {
        let end = exchange.start + exchange.waited + exchange.answering;
        self.step(exchange.start, end, Step::Exchange(self.exchanges.len()));
        self.exchanges.push(exchange);
    }

    fn resolve(&mut self, connection: &Connection) {
        let Phase { start, end, .. } = self.phase;
        // Without a DNS query there was nobody to wait for.
        let asked = connection.marks.at(Mark::DomainLookupStart).unwrap_or(end);
        let asked = asked.clamp(start, end);
        self.step(start, asked, Step::Client);
        self.step(asked, end, Step::Resolver);
    }

    fn connect(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        let begun = connection.marks.at(Mark::ConnectStart).unwrap_or(start).clamp(start, end);
        self.step(start, begun, Step::Client);
        let winner = connection.attempts.iter().find(|a| a.outcome == AttemptOutcome::Won);
        let syn = winner.map_or(begun, |a| a.start).clamp(begun, end);
        if complete {
            self.step(begun, syn, Step::Fallback);
            self.exchange(Exchange::wait(syn, end));
        } else {
            self.step(begun, end, Step::Unanswered);
        }
    }

    fn flights(&mut self, connection: &Connection, bottleneck: &Bottleneck, known: Option<Known>) {
        let Phase { start, end, complete, .. } = self.phase;
        let arrived = connection.flights.iter().filter(|f| f.direction == Direction::Received);
        let mut arrived = arrived.flat_map(|f| &f.chunks).map(|chunk| chunk.stamp.at);
        if complete && end > start && !arrived.any(|at| at >= start && at <= end) {
            // Other clients' timestamps show when a handshake ended, but not who kept it waiting.
            return self.step(start, end, Step::Unanswered);
        }
        let mut cursor = start;
        if self.phase.name == PhaseName::Quic {
            cursor = self.other_attempts(connection);
        }
        let mut departures = Departures::new(connection, known);
        let mut answer: Option<Answer> = None;
        let mut heeds = Heeds::default();
        let carried = Carried::from_connection(connection);
        // Each datagram is a send of its own, and so is CONNECT after the Finished: the client works in between.
        let sending = match self.phase.name {
            PhaseName::Quic | PhaseName::Tunnel => Step::Client,
            _ => Step::Sending,
        };
        for flight in &connection.flights {
            let chunks = carried.without_bare(flight.direction, heeds.heeded_chunks(flight));
            let (Some(begin), Some(finish)) = (chunks.first(), chunks.last()) else { continue };
            if finish.stamp.at < start || begin.stamp.at > end {
                continue;
            }
            if flight.direction == Direction::Sent {
                departures.add(&chunks, start, end);
                continue;
            }
            let first = begin.stamp.at.max(cursor);
            let last = finish.stamp.at.clamp(first, end.max(first));
            // Session tickets of the proxy's TLS may come before its answer, which is small and arrives at once.
            let first = if self.phase.name == PhaseName::Tunnel { last } else { first };
            match departures.caused(first, cursor) {
                Some(asked) => {
                    if let Some(answer) = answer.take() {
                        self.exchange(answer.exchange(bottleneck));
                    }
                    self.step(cursor, asked.first, Step::Client);
                    self.step(asked.first, asked.last, sending);
                    answer = Some(Answer { start: asked.last, is_wait: true, first, last });
                }
                // Too soon for an answer to the last departure: data already on its way continues to arrive.
                None => match &mut answer {
                    Some(answer) => answer.last = last,
                    None => answer = Some(Answer { start: cursor, is_wait: false, first, last }),
                },
            }
            cursor = last;
        }
        if let Some(answer) = answer {
            self.exchange(answer.exchange(bottleneck));
        }
        match departures.left(cursor) {
            Some(asked) if complete => {
                self.step(cursor, asked.first, Step::Client);
                self.step(asked.first, asked.last, sending);
                self.step(asked.last, end, Step::Client);
            }
            // Repeated retransmissions are one wait.
            Some(asked) => {
                self.step(cursor, asked.first, Step::Client);
                self.step(asked.first, end, Step::Unanswered);
            }
            None => {
                let rest = if complete { Step::Client } else { rest_of_failed(connection) };
                self.step(cursor, end, rest);
            }
        }
    }

    /// Records QUIC's sequential attempts before the last one. Returns the start of the last one.
    fn other_attempts(&mut self, connection: &Connection) -> Offset {
        let Phase { start, end, .. } = self.phase;
        let (Some(first), Some(last)) = (connection.attempts.first(), connection.attempts.last())
        else {
            return start;
        };
        let begun = first.start.clamp(start, end);
        let won = last.start.clamp(begun, end);
        if won == begun {
            return start;
        }
        self.step(start, begun, Step::Client);
        self.step(begun, won, Step::Fallback);
        won
    }

    fn send(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        let first = connection.marks.at(Mark::RequestStart).unwrap_or(start).clamp(start, end);
        let mut sent = connection.flights.iter().filter(|f| f.direction == Direction::Sent);
        let last = match sent.next_back() {
            _ if complete => end,
            Some(flight) => flight.last().clamp(first, end),
            None => first,
        };
        self.step(start, first, Step::Client);
        self.step(first, last, Step::Sending);
        self.step(last, end, Step::Unanswered);
    }

    fn wait(&mut self, connection: &Connection, bottleneck: &Bottleneck, known: Option<Known>) {
        let Phase { start, end, complete, .. } = self.phase;
        if !complete {
            return self.step(start, end, Step::Unanswered);
        }
        // Delays after the first byte hold up only a part of the response.
        let begun = connection.marks.first_packet_of_response().unwrap_or(end).clamp(start, end);
        let busy = bottleneck.busy(start, begun);
        let rest = |exchange| Exchange { busy, answering: end.since(begun), ..exchange };
        // Only a retransmission of the request arrived, so the handshake does not matter.
        let again = known.is_some_and(|known| {
            let again = quic::sent_again(connection, known.least);
            again.iter().any(|(left, took)| *left == start && *took <= begun.since(start))
        });
        let early = self.early_handshake(connection, begun).filter(|_| !again);
        let Some((first, last)) = early else {
            return self.exchange(rest(Exchange::wait(start, begun)));
        };
        self.exchange(Exchange { answering: last.since(first), ..Exchange::wait(start, first) });
        let goes_on = Exchange { is_wait: false, goes_on: true, ..Exchange::wait(last, begun) };
        self.exchange(rest(goes_on));
    }

    /// From the first to the last byte of the server's handshake flight, if the request had left before it.
    fn early_handshake(&self, connection: &Connection, begun: Offset) -> Option<(Offset, Offset)> {
        let start = self.phase.start;
        let finished = connection.marks.at(Mark::HandshakeComplete).filter(|at| *at > start)?;
        let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
        let arrivals = received.flat_map(|f| &f.chunks).map(|chunk| chunk.stamp.at);
        let carried = Carried::from_connection(connection);
        let arrivals = arrivals.filter(|at| !carried.is_bare(Direction::Received, *at));
        let before = arrivals.filter(|at| *at > start && *at <= finished && *at < begun);
        let mut before = before.peekable();
        let first = *before.peek()?;
        Some((first, before.max()?))
    }

    fn receive(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        // Data that the client sends meanwhile (HTTP/2 settings and window updates) triggers nothing that the response
        // waits for: the response is one run of bytes.
        let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
        let arrivals = received.flat_map(|f| &f.chunks).map(|chunk| chunk.stamp.at);
        let arrived = arrivals.filter(|at| *at <= end).max();
        let last = if complete { end } else { arrived.unwrap_or(start).max(start) };
        self.exchange(Exchange {
            start,
            is_wait: false,
            goes_on: false,
            waited: Duration::ZERO,
            busy: Busy::default(),
            answering: last.since(start),
        });
        self.step(last, end, rest_of_failed(connection));
    }
}

/// Activity between the last arrival and the failure: the client waited for more, or processed the data it had.
fn rest_of_failed(connection: &Connection) -> Step {
    // A port that expects TLS does not answer plain HTTP: nothing arrived.
    let speaks_tls =
        |failure: &Failure| failure.phase == PhaseName::Wait && failure.cause.name() == "not-http";
    let failed_waiting = |failure: &Failure| failure.cause.ends_a_wait() || speaks_tls(failure);
    let waited =
        connection.open_end.is_some() || connection.failure.as_ref().is_some_and(failed_waiting);
    if waited { Step::Unanswered } else { Step::Client }
}

/// Decides which parts of the flights have an effect.
#[derive(Debug, Default)]
struct Heeds {
    retried: bool,
}

impl Heeds {
    /// Drops the leading datagrams of a received flight that answer nothing.
    ///
    /// A client accepts one Retry, but a ClientHello of two datagrams may be answered by two (RFC 9000 §17.2.5.2); the
    /// other one can arrive after the client has already answered. A server may acknowledge the start of a ClientHello
    /// whose rest is still in flight or not yet processed: nothing follows from that.
    fn heeded_chunks<'a>(&mut self, flight: &'a Flight) -> &'a [Chunk] {
        if flight.direction == Direction::Sent {
            return &flight.chunks;
        }
        let mut ignored = 0;
        // Each of the two is a datagram of its own.
        for name in &flight.messages {
            if *name == PacketKind::Retry.name() {
                if !std::mem::replace(&mut self.retried, true) {
                    break;
                }
            } else if *name != ACKNOWLEDGMENT {
                break;
            }
            ignored += 1;
        }
        flight.chunks.get(ignored..).unwrap_or_default()
    }
}

/// Departures not answered yet.
#[derive(Debug)]
struct Departures {
    at: Vec<Offset>,
    known: Option<Known>,
    /// Includes packets that only acknowledge: the first that can be answered was.
    packets: bool,
}

/// From the first to the last answered departure.
#[derive(Clone, Copy, Debug)]
struct Asked {
    first: Offset,
    last: Offset,
}

impl Departures {
    fn new(connection: &Connection, known: Option<Known>) -> Self {
        Self { at: Vec::new(), known, packets: connection.facts.quic.is_some() }
    }

    fn add(&mut self, chunks: &[Chunk], from: Offset, to: Offset) {
        for chunk in chunks {
            let latest = self.at.last().copied().unwrap_or(from);
            self.at.push(chunk.stamp.at.clamp(latest, to.max(latest)));
        }
    }

    /// Takes the departures that can have caused the arrival at `answer`: they left at least a round trip earlier.
    /// Departures before `from` were part of another wait and do not count.
    ///
    /// A stream's receiver needs the last byte of the data it answers. With datagrams, any one may have been enough,
    /// such as the first of several acknowledgements that a server waits for.
    fn caused(&mut self, answer: Offset, from: Offset) -> Option<Asked> {
        self.at.retain(|left| *left >= from);
        let before = |wait: Duration| self.at.partition_point(|left| *left + wait <= answer);
        let causes = match self.known {
            None => before(Duration::ZERO),
            Some(known) if self.packets => {
                let surely = before(known.most.saturating_sub(KERNEL_PATH));
                if surely > 0 { surely } else { before(known.least).min(1) }
            }
            Some(known) => before(known.least),
        };
        let mut asked = self.at.drain(..causes);
        let first = asked.next()?;
        Some(Asked { first, last: asked.next_back().unwrap_or(first) })
    }

    /// Departures after `from`.
    fn left(&self, from: Offset) -> Option<Asked> {
        let first = self.at.iter().find(|left| **left >= from)?;
        Some(Asked { first: *first, last: *self.at.last()? })
    }
}

/// Arrived data, whether it answers something or not.
#[derive(Debug)]
struct Answer {
    /// When the wait for it began.
    start: Offset,
    is_wait: bool,
    first: Offset,
    last: Offset,
}

impl Answer {
    fn exchange(self, bottleneck: &Bottleneck) -> Exchange {
        let Self { start, is_wait, first, last } = self;
        Exchange {
            start,
            is_wait,
            goes_on: false,
            waited: first.since(start),
            busy: bottleneck.busy(start, first),
            answering: last.since(first),
        }
    }
}

/// Time from the answered SYN to its answer.
pub(super) fn connected_after(connection: &Connection) -> Option<Duration> {
    let connected = connection.marks.at(Mark::TcpConnected)?;
    let winner = connection.attempts.iter().find(|a| a.outcome == AttemptOutcome::Won);
    let begun = winner.map(|a| a.start).or_else(|| connection.marks.at(Mark::ConnectStart))?;
    Some(connected.since(begun.min(connected)))
}
