//! Walks the flights of one phase and sorts its time into exchanges and the client's own.

use std::time::Duration;

use super::bottleneck::{Bottleneck, Busy};
use super::{KERNEL_PATH, Known, Phase};
use crate::timeline::{
    AttemptOutcome, Chunk, Connection, Direction, Flight, Mark, Offset, PhaseName,
};
use crate::wire::quic::{ACKNOWLEDGMENT, PacketKind};

/// Nothing arrived in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    length: Duration,
    /// When data went on arriving.
    pub end: Offset,
    /// At least a segment's worth of bytes had come before: a congestion window may have been full.
    after_segment: bool,
}

/// A wait for an answer, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// When the wait began.
    pub start: Offset,
    /// Whether something was sent that this answers; otherwise data went on arriving.
    pub is_wait: bool,
    /// From the departure of the last byte sent to the arrival of the first of the answer.
    pub waited: Duration,
    /// How much of it the bottleneck was busy with the begin of the answer.
    pub busy: Busy,
    /// From the first to the last byte of the answer.
    pub answering: Duration,
    /// Gaps within the answer.
    gaps: Vec<Gap>,
}

impl Exchange {
    fn wait(start: Offset, end: Offset) -> Self {
        let waited = end.since(start);
        let (busy, answering, gaps) = (Busy::default(), Duration::ZERO, Vec::new());
        Self { start, is_wait: true, waited, busy, answering, gaps }
    }

    /// Gaps that hold more than the path's jitter and the rate of the link.
    pub(super) fn halts(&self, rtt: Duration) -> impl Iterator<Item = Halt> + '_ {
        let halt = move |gap: &Gap| {
            let (stalled, pause) = (gap.is_stall(rtt), gap.pause(rtt));
            Halt { end: gap.end, stalled, pause }
        };
        self.gaps.iter().map(halt).filter(|halt| halt.stalled || !halt.pause.is_zero())
    }
}

/// The sender stood still in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halt {
    /// When data went on arriving.
    pub end: Offset,
    /// For a round trip: its congestion window was full.
    pub stalled: bool,
    /// For so long besides.
    pub pause: Duration,
}

impl Gap {
    /// What it holds besides a round trip: the sender stood still although nothing it had sent was
    /// left to be acknowledged, or for longer than an acknowledgement takes.
    fn pause(&self, rtt: Duration) -> Duration {
        /// Shorter gaps are the path's jitter, and the rate of the link.
        const SHORTEST: Duration = Duration::from_millis(5);
        let allowed = if self.after_segment { rtt } else { Duration::ZERO };
        let beyond = self.length.saturating_sub(allowed);
        if beyond >= SHORTEST.max(rtt / 8) { beyond } else { Duration::ZERO }
    }

    /// So long that the sender must have waited for acknowledgements: a full congestion window
    /// costs one round trip (RFC 5681 §3.1), counted from its first segment. A sender that paces
    /// spreads the window's segments over part of that time, so the gap left is shorter.
    fn is_stall(&self, rtt: Duration) -> bool {
        /// On the shortest paths a pause of the machine is longer than the round trip.
        const SHORTEST: Duration = Duration::from_micros(500);
        self.after_segment && self.length >= (rtt / 2).max(SHORTEST)
    }
}

/// What went on, as far as can be said without the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The name service was waited for.
    Resolver,
    /// The client was at work.
    Client,
    /// Between the first and the last byte of a flight sent.
    Sending,
    /// Before the winning attempt, while another was tried.
    Fallback,
    /// The rest of a phase that failed: a wait for what did not come.
    Unanswered,
    /// An exchange, by its index.
    Exchange(usize),
}

/// The time of one phase, sorted: steps one behind the other, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub phase: Phase,
    pub exchanges: Vec<Exchange>,
    pub steps: Vec<(Offset, Offset, Step)>,
}

impl Walk {
    pub(super) fn of(
        connection: &Connection,
        phase: Phase,
        bottleneck: &Bottleneck,
        known: Option<Known>,
    ) -> Self {
        let mut walk = Self { phase, exchanges: Vec::new(), steps: Vec::new() };
        match phase.name {
            PhaseName::Resolve => walk.resolve(connection),
            PhaseName::Connect => walk.connect(connection),
            PhaseName::Tls | PhaseName::Quic => walk.flights(connection, bottleneck, known),
            PhaseName::Send => walk.send(connection),
            PhaseName::Wait => walk.wait(bottleneck),
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
        // Without a question asked there was nobody to wait for.
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
        let mut cursor = start;
        if self.phase.name == PhaseName::Quic {
            cursor = self.other_attempts(connection);
        }
        let mut departures = Departures::new(connection, known);
        let mut answer: Option<Answer> = None;
        let mut heeds = Heeds::default();
        for flight in &connection.flights {
            let chunks = heeds.of(flight);
            let (Some(begin), Some(finish)) = (chunks.first(), chunks.last()) else { continue };
            if finish.stamp.at < start || begin.stamp.at > end {
                continue;
            }
            if flight.direction == Direction::Sent {
                departures.add(chunks, start, end);
                continue;
            }
            let first = begin.stamp.at.max(cursor);
            let last = finish.stamp.at.clamp(first, end.max(first));
            match departures.caused(first, cursor) {
                Some(asked) => {
                    if let Some(answer) = answer.take() {
                        self.exchange(answer.exchange(bottleneck, connection));
                    }
                    self.step(cursor, asked.first, Step::Client);
                    self.step(asked.first, asked.last, Step::Sending);
                    answer = Some(Answer {
                        start: asked.last,
                        is_wait: true,
                        first,
                        last,
                        chunks: chunks.iter().collect(),
                    });
                }
                // Too soon for an answer to what left last: data that was on its way goes on.
                None => match &mut answer {
                    Some(answer) => {
                        answer.last = last;
                        answer.chunks.extend(chunks);
                    }
                    None => {
                        answer = Some(Answer {
                            start: cursor,
                            is_wait: false,
                            first,
                            last,
                            chunks: chunks.iter().collect(),
                        });
                    }
                },
            }
            cursor = last;
        }
        if let Some(answer) = answer {
            self.exchange(answer.exchange(bottleneck, connection));
        }
        match departures.left(cursor) {
            Some(asked) if complete => {
                self.step(cursor, asked.first, Step::Client);
                self.step(asked.first, asked.last, Step::Sending);
                self.step(asked.last, end, Step::Client);
            }
            // What was sent again and again was one wait.
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

    /// QUIC's attempts come one after the other: those before the last one. Gives back where that begins.
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

    fn wait(&mut self, bottleneck: &Bottleneck) {
        let Phase { start, end, complete, .. } = self.phase;
        if complete {
            let busy = bottleneck.busy(start, end);
            self.exchange(Exchange { busy, ..Exchange::wait(start, end) });
        } else {
            self.step(start, end, Step::Unanswered);
        }
    }

    fn receive(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        // What the client sends meanwhile (HTTP/2 settings and window updates) answers nothing that
        // the response waits for: the response is one run of bytes.
        let chunks = connection
            .flights
            .iter()
            .filter(|f| f.direction == Direction::Received)
            .flat_map(|f| &f.chunks);
        let arrivals = chunks.clone().map(|chunk| chunk.stamp.at).filter(|at| *at <= end);
        let last = if complete { end } else { arrivals.max().unwrap_or(start).max(start) };
        self.exchange(Exchange {
            start,
            is_wait: false,
            waited: Duration::ZERO,
            busy: Busy::default(),
            answering: last.since(start),
            gaps: gaps(chunks, mss(connection), start, last),
        });
        self.step(last, end, rest_of_failed(connection));
    }
}

/// What went on between the last arrival and the failure: the client waited for more, or was at work
/// on what it had.
fn rest_of_failed(connection: &Connection) -> Step {
    let waited = connection.failure.as_ref().is_some_and(|failure| failure.cause.ends_a_wait());
    if waited { Step::Unanswered } else { Step::Client }
}

/// What of the flights is of any effect.
#[derive(Debug, Default)]
struct Heeds {
    retried: bool,
}

impl Heeds {
    /// The datagrams that a received flight begins with and that answer nothing are left out.
    ///
    /// A client takes one Retry, and a ClientHello of two datagrams may be answered by two (RFC 9000
    /// §17.2.5.2); the other one can come when the client has answered already. A server may
    /// acknowledge the begin of a ClientHello whose rest is still on its way, or that it has yet to
    /// work on: nothing goes on from that.
    fn of<'a>(&mut self, flight: &'a Flight) -> &'a [Chunk] {
        if flight.direction == Direction::Sent {
            return &flight.chunks;
        }
        let mut ignored = 0;
        // Each of the two is a datagram by itself.
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

/// What left and was not answered yet.
#[derive(Debug)]
struct Departures {
    at: Vec<Offset>,
    known: Option<Known>,
    /// Packets that acknowledge are among them: the first that can be answered was.
    packets: bool,
}

/// From the first to the last departure that is answered.
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

    /// Takes what can have caused what arrived at `answer`: it left a round trip before, or earlier.
    /// What left before `from` and was waited for with something else is no part of it.
    ///
    /// A stream's receiver needs the last byte of what it answers. Of datagrams any one may have been
    /// enough, such as the first of several acknowledgments that a server waits for.
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

    /// What left after `from`.
    fn left(&self, from: Offset) -> Option<Asked> {
        let first = self.at.iter().find(|left| **left >= from)?;
        Some(Asked { first: *first, last: *self.at.last()? })
    }
}

/// What arrived in answer to something, or without.
#[derive(Debug)]
struct Answer<'a> {
    /// When the wait for it began.
    start: Offset,
    is_wait: bool,
    first: Offset,
    last: Offset,
    chunks: Vec<&'a Chunk>,
}

impl Answer<'_> {
    fn exchange(self, bottleneck: &Bottleneck, connection: &Connection) -> Exchange {
        let Self { start, is_wait, first, last, chunks } = self;
        Exchange {
            start,
            is_wait,
            waited: first.since(start),
            busy: bottleneck.busy(start, first),
            answering: last.since(first),
            gaps: gaps(chunks, mss(connection), first, last),
        }
    }
}

/// From the SYN that was answered to its answer.
pub(super) fn connected_after(connection: &Connection) -> Option<Duration> {
    let connected = connection.marks.at(Mark::TcpConnected)?;
    let winner = connection.attempts.iter().find(|a| a.outcome == AttemptOutcome::Won);
    let begun = winner.map(|a| a.start).or_else(|| connection.marks.at(Mark::ConnectStart))?;
    Some(connected.since(begun.min(connected)))
}

fn mss(connection: &Connection) -> u64 {
    let mss = connection.facts.tcp.as_ref().and_then(|t| t.send_mss);
    // RFC 9293 §3.7.1: the default where nothing was announced.
    u64::from(mss.unwrap_or(536))
}

/// The gaps between those of `chunks` that lie within `from..=to`. Behind a chunk without bytes there is none:
/// it says when a run of bytes began, and what came when until its end is not known.
fn gaps<'a>(
    chunks: impl IntoIterator<Item = &'a Chunk>,
    mss: u64,
    from: Offset,
    to: Offset,
) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut arrived = 0;
    let mut previous: Option<&Chunk> = None;
    for chunk in chunks {
        let at = chunk.stamp.at;
        if at < from || at > to {
            continue;
        }
        if let Some(previous) = previous.filter(|previous| previous.bytes > 0) {
            let (length, after_segment) = (at.since(previous.stamp.at), arrived >= mss);
            gaps.push(Gap { length, end: at, after_segment });
        }
        arrived += chunk.bytes;
        previous = Some(chunk);
    }
    gaps
}
