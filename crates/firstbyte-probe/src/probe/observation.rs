//! The observation of a connection while it is in progress.
//!
//! Every step of a probe writes here, so that a connection given up half-way (a timeout, Ctrl-C, an error) keeps
//! everything seen of it. Some marks are the departure of a send, which the kernel reports later: they are stored as
//! references and resolved at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{
    AttemptOutcome, Cause, Chunk, Clock, Connection, Direction, Exchange, Failure, Flight,
    LastSeen, Lookup, Mark, Offset, PhaseName, Stamp, TcpFacts, TimeLimit,
};

use crate::net::{Arrival, Recorder, SegmentGaps, SendId};
use firstbyte_clock::Timebase;

/// When something happened, as far as it is known yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    At(Stamp),
    /// When this arrived.
    Arrival(Arrival),
    /// When this send left.
    Departure(SendId),
}

/// When one of several streams of a connection was requested and answered, as far as it is known yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamTimes {
    pub request_start: Option<SendId>,
    pub request_end: Option<SendId>,
    pub response_start: Option<Arrival>,
    pub response_end: Option<Arrival>,
}

/// A connection under observation, shared by the steps of a probe.
pub(super) type Shared = Rc<RefCell<Observation>>;

#[derive(Debug)]
pub(super) struct Observation {
    pub timebase: Timebase,
    pub connection: Connection,
    /// The current phase.
    pub phase: PhaseName,
    /// The name that is resolved, if it differs from the URL's: a proxy's, for example.
    pub looked_up: Option<String>,
    /// Facts known at connect; those known at the end come from the recorder.
    pub tcp: Option<TcpFacts>,
    /// Whether the server asked for renegotiation; nothing after that is a response to the request.
    pub renegotiates: bool,
    /// When the last byte of the final response's head became readable.
    pub head_end: Option<Arrival>,
    pending: Vec<(Mark, When)>,
    recorder: Option<Rc<RefCell<Recorder>>>,
}

impl Observation {
    pub(super) fn start(url: &str) -> Shared {
        Self::start_on(url, Timebase::start())
    }

    /// Like `start`, but times count from the given origin.
    pub(super) fn start_on(url: &str, timebase: Timebase) -> Shared {
        let connection = Connection {
            url: url.to_owned(),
            started_unix_ns: Some(timebase.started().unix_nanos()),
            ..Connection::default()
        };
        Rc::new(RefCell::new(Self {
            timebase,
            connection,
            phase: PhaseName::Resolve,
            looked_up: None,
            tcp: None,
            renegotiates: false,
            head_end: None,
            pending: Vec::new(),
            recorder: None,
        }))
    }

    pub(super) fn mark(&mut self, mark: Mark, when: When) {
        match when {
            When::At(stamp) => self.connection.marks.set(mark, stamp),
            When::Arrival(arrival) => {
                self.connection.marks.set(mark, arrival.stamp);
                self.pending.push((mark, when));
            }
            When::Departure(_) => self.pending.push((mark, when)),
        }
    }

    pub(super) fn mark_now(&mut self, mark: Mark) {
        let now = self.timebase.now();
        self.connection.marks.set(mark, now);
    }

    /// Whether anything was received.
    pub(super) fn has_received(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.borrow().last_arrival().is_some())
    }

    pub(super) fn record_with(&mut self, recorder: Rc<RefCell<Recorder>>) {
        self.recorder = Some(recorder);
    }

    /// When streams were requested and answered, as far as it is known now. Call it after the socket is dropped.
    pub(super) fn settle_streams(&mut self, streams: &[StreamTimes], exchanges: &mut [Exchange]) {
        let Some(recorder) = &self.recorder else { return };
        let mut recorder = recorder.borrow_mut();
        let stepped = self.timebase.stepped() > STEP;
        if stepped {
            recorder.discard_kernel_stamps();
        }
        let departure = |id: Option<SendId>| id.and_then(|id| recorder.departure(id));
        let arrival = |arrival: Option<Arrival>| {
            arrival.map(|arrival| if stepped { arrival.read } else { arrival.stamp })
        };
        for (times, exchange) in streams.iter().zip(exchanges) {
            exchange.request_start = departure(times.request_start);
            exchange.request_end = departure(times.request_end);
            exchange.response_start = arrival(times.response_start);
            exchange.response_end = arrival(times.response_end);
        }
    }

    /// Resolves pending marks and returns the connection. Everything that holds the socket must be dropped before: that
    /// collects the kernel's last reports.
    pub(super) fn finish(&mut self, outcome: Result<(), Cause>) -> Connection {
        let at = self.timebase.now().at;
        let mut gaps = SegmentGaps::default();
        if let Some(recorder) = self.recorder.take() {
            let mut recorder = recorder.borrow_mut();
            let stepped = self.timebase.stepped() > STEP;
            if stepped {
                recorder.discard_kernel_stamps();
            }
            for (mark, when) in self.pending.drain(..) {
                let stamp = match when {
                    When::At(stamp) => Some(stamp),
                    When::Arrival(arrival) if stepped => Some(arrival.read),
                    When::Arrival(arrival) => Some(arrival.stamp),
                    When::Departure(id) => recorder.departure(id),
                };
                if let Some(stamp) = stamp {
                    self.connection.marks.set(mark, stamp);
                }
            }
            let response_start = self.connection.marks.at(Mark::ResponseStart);
            if let (Some(end), Some(start)) = (self.head_end.take(), response_start)
                && let Some(http) = &mut self.connection.facts.http
            {
                let end = if stepped { end.read } else { end.stamp };
                http.head_took = Some(end.at.since(start)).filter(|took| !took.is_zero());
            }
            self.connection.flights = recorder.take_flights();
            self.connection.facts.tcp = merge(self.tcp.take(), recorder.tcp.take());
            gaps = recorder.gaps;
        }
        self.keep_order();
        if let Err(mut cause) = outcome {
            if let Cause::TimedOut { after, limit, peer } = &mut cause {
                *peer = last_seen(self.phase, &self.connection, gaps, at);
                let (after, limit) = (*after, *limit);
                if self.phase == PhaseName::Resolve
                    && limit == TimeLimit::Visit
                    && let Some(resolver) = self.resolver_timed_out(after, at)
                {
                    cause = resolver;
                }
            }
            if self.renegotiates
                && matches!(self.phase, PhaseName::Send | PhaseName::Wait)
                && cause != Cause::Interrupted
            {
                cause = Cause::RenegotiationRefused;
            }
            if self.connection.facts.quic.is_some() {
                self.never_answered(&cause, at);
            }
            let failure = Failure { phase: self.phase, cause, at: Some(at) };
            self.connection.failure = Some(failure);
        }
        std::mem::take(&mut self.connection)
    }

    pub(super) fn name_looked_up(&self) -> String {
        self.looked_up.clone().unwrap_or_else(|| super::host_of(&self.connection.url))
    }

    /// The cause if the visit's time ran out during name resolution. After a redirect, the name servers did not have
    /// all of that time.
    fn resolver_timed_out(&self, limit: Duration, at: Offset) -> Option<Cause> {
        let asked = Lookup::servers_asked(&self.connection.lookups);
        let waited = at.since(Offset::ZERO);
        let after = if waited + TIMER_STEP < limit { waited } else { limit };
        let name = self.name_looked_up();
        (!asked.is_empty()).then_some(Cause::ResolverTimedOut { name, after, asked })
    }

    /// With early data, an attempt counts as won before anything was received. If nothing ever arrives, it had not won,
    /// and only the sent datagrams are known.
    fn never_answered(&mut self, cause: &Cause, at: Offset) {
        let datagrams = |direction| {
            let flights = self.connection.flights.iter().filter(|f| f.direction == direction);
            flights.map(|flight| flight.chunks.len()).sum::<usize>()
        };
        if datagrams(Direction::Received) > 0 {
            return;
        }
        let sent = u32::try_from(datagrams(Direction::Sent)).unwrap_or(u32::MAX);
        if let Some(quic) = &mut self.connection.facts.quic {
            quic.datagrams_sent = quic.datagrams_sent.max(Some(sent));
        }
        if let Some(attempt) = self.connection.attempts.last_mut()
            && attempt.outcome == AttemptOutcome::Won
        {
            attempt.outcome = AttemptOutcome::Failed { error: cause.to_string() };
            attempt.end = Some(at);
        }
    }

    /// Corrects marks whose order is impossible.
    ///
    /// The arrival of the SYN/ACK is derived from the departure of the SYN, known only to some microseconds, so events
    /// that certainly came later bound it. An early response ends the request at that time, even if some of the request
    /// had not left yet.
    fn keep_order(&mut self) {
        let marks = &mut self.connection.marks;
        let first_packet = marks.stamp(Mark::ResponseFirstPacket);
        let first_packet = first_packet.or(marks.stamp(Mark::ResponseStart));
        for mark in [Mark::RequestStart, Mark::RequestEnd] {
            if let (Some(asked), Some(answered)) = (marks.stamp(mark), first_packet)
                && answered.at < asked.at
            {
                marks.set(mark, answered);
            }
        }
        let Some(connected) = marks.stamp(Mark::TcpConnected) else { return };
        let next = self.connection.flights.first().map(|f| f.first());
        if let Some(next) = next
            && connected.clock == Clock::KernelDerived
            && next < connected.at
        {
            let bounded = Stamp { at: next, clock: Clock::KernelDerived };
            for mark in [Mark::TcpConnected, Mark::ProxySecureStart, Mark::SecureConnectionStart] {
                if marks.stamp(mark) == Some(connected) {
                    marks.set(mark, bounded);
                }
            }
        }
    }
}

/// The peer's last sign of life when the time ran out at `at`. A short limit proves nothing.
fn last_seen(phase: PhaseName, connection: &Connection, gaps: SegmentGaps, at: Offset) -> LastSeen {
    let heard = heard(phase, connection, at);
    let flights = &connection.flights;
    // The peer's TCP also acknowledges the frames that end an HTTP/2 connection.
    let asked = connection.marks.at(Mark::RequestEnd);
    let is_asked = |c: &&Chunk| asked.is_none_or(|asked| c.stamp.at <= asked);
    let acknowledged =
        || chunks(flights, Direction::Sent).filter(is_asked).filter_map(|c| c.acknowledged).max();
    let came = || chunks(flights, Direction::Received).map(|c| c.stamp.at).max();
    let last = match heard {
        // Other HTTP/2 frames do not answer the request.
        LastSeen::Acknowledged if phase == PhaseName::Wait => acknowledged(),
        LastSeen::Acknowledged => acknowledged().max(came()),
        LastSeen::Stopped => came(),
        LastSeen::Nothing => {
            let unheard = |c: &&Chunk| c.acknowledged.is_none();
            let sent = chunks(flights, Direction::Sent).filter(unheard).map(|c| c.stamp.at).min();
            let tried = connection.attempts.iter().map(|attempt| attempt.start).min();
            let asked = connection.lookups.iter().map(|lookup| lookup.start).min();
            sent.or(tried).or(asked)
        }
        _ => None,
    };
    let Some(silence) = last.map(|last| at.since(last)) else { return heard };
    match heard {
        _ if silence < STILL.max(round_trip(connection) * 3) => LastSeen::TooSoon,
        LastSeen::Acknowledged | LastSeen::Stopped if gaps.received && silence >= REPAIR => {
            LastSeen::Hole
        }
        LastSeen::Nothing if matches!(phase, PhaseName::Tls | PhaseName::ProxyTls) => {
            stuck_hello(connection, gaps).unwrap_or(LastSeen::Nothing)
        }
        heard => heard,
    }
}

/// Detects a ClientHello in several segments that was retransmitted and never acknowledged.
fn stuck_hello(connection: &Connection, gaps: SegmentGaps) -> Option<LastSeen> {
    let tcp = connection.facts.tcp.as_ref()?;
    let segment_bytes = tcp.send_mss?;
    let retransmits = tcp.retransmits.unwrap_or(0);
    let hello_bytes =
        connection.client_hello_bytes().filter(|bytes| *bytes > u64::from(segment_bytes))?;
    let end_arrived = gaps.sacked > 0;
    (connection.flights.len() == 1 && (end_arrived || retransmits >= REPEATED))
        .then_some(LastSeen::HelloStuck { hello_bytes, segment_bytes, retransmits, end_arrived })
}

/// A lost segment would have been retransmitted within this time: the first retransmission timeout (RFC 6298 §2.1).
const REPAIR: Duration = Duration::from_secs(1);

/// A single retransmission may be of a segment that is only late (a tail loss probe, RFC 8985 §7).
const REPEATED: u32 = 2;

/// The last thing heard from the peer.
///
/// Its TCP's acknowledgements, or later data from it, show that it received what it was sent. Session tickets and
/// HTTP/2 settings do not answer a request, however many of them come.
fn heard(phase: PhaseName, connection: &Connection, at: Offset) -> LastSeen {
    let flights = &connection.flights;
    let acknowledged = |chunk: &Chunk| chunk.acknowledged.is_some();
    match (phase, flights.last().map(|flight| flight.direction)) {
        (PhaseName::Tls | PhaseName::Send, _) if window_was_full(phase, connection, at) => {
            LastSeen::WindowFull
        }
        (
            PhaseName::ProxyTls | PhaseName::Tunnel | PhaseName::Tls | PhaseName::Quic,
            Some(Direction::Received),
        ) => LastSeen::Stopped,
        (PhaseName::ProxyTls | PhaseName::Tunnel | PhaseName::Tls, Some(Direction::Sent)) => {
            let waits = flights.last().is_some_and(|flight| flight.chunks.iter().all(acknowledged));
            if waits { LastSeen::Acknowledged } else { LastSeen::Nothing }
        }
        // The client's last packet acknowledges the received ones.
        (PhaseName::Quic, Some(Direction::Sent)) if flights.len() > 1 => LastSeen::Stopped,
        (PhaseName::Wait, _) => {
            let Some(asked) = connection.marks.at(Mark::RequestEnd) else {
                return LastSeen::Nothing;
            };
            let mut request = chunks(flights, Direction::Sent).filter(|c| c.stamp.at <= asked);
            let answerable = asked + round_trip(connection) * 3 / 4;
            let heard = |c: &Chunk| connection.facts.quic.is_some() && c.stamp.at >= answerable;
            let first = request.next();
            if first.is_some_and(acknowledged) && request.all(acknowledged)
                || chunks(flights, Direction::Received).any(heard)
            {
                LastSeen::Acknowledged
            } else {
                LastSeen::Nothing
            }
        }
        (PhaseName::Receive, _) => {
            let last = chunks(flights, Direction::Received).map(|chunk| chunk.stamp.at).max();
            let still = STILL.max(round_trip(connection) * 3);
            if last.is_some_and(|last| at.since(last) >= still) {
                LastSeen::Stopped
            } else {
                LastSeen::Sending
            }
        }
        _ => LastSeen::Nothing,
    }
}

/// Whether the server's receive window has stopped the client for most of the time since `phase` began.
fn window_was_full(phase: PhaseName, connection: &Connection, at: Offset) -> bool {
    let begin = if phase == PhaseName::Tls { None } else { Some(Mark::HandshakeComplete) };
    let begun = begin.and_then(|mark| connection.marks.at(mark));
    let begun = begun.or(connection.marks.at(Mark::TcpConnected));
    let limited = connection.facts.tcp.as_ref().and_then(|tcp| tcp.receive_window_limited);
    begun.zip(limited).is_some_and(|(begun, limited)| limited * 2 > at.since(begun))
}

/// A response has stopped if nothing has arrived for this long.
///
/// Segments on a slow link, and retransmissions after missing acknowledgements (the sender's tail loss probe, RFC 8985
/// §7), come closer together.
const STILL: Duration = Duration::from_millis(100);

fn chunks(flights: &[Flight], direction: Direction) -> impl Iterator<Item = &Chunk> {
    flights.iter().filter(move |flight| flight.direction == direction).flat_map(|f| &f.chunks)
}

fn round_trip(connection: &Connection) -> Duration {
    let tcp = connection.facts.tcp.as_ref().and_then(|tcp| tcp.min_rtt.or(tcp.syn_rtt));
    tcp.or(connection.facts.quic.as_ref().and_then(|quic| quic.min_rtt)).unwrap_or_default()
}

/// Timers may fire this much early or late.
const TIMER_STEP: Duration = Duration::from_millis(10);

/// The wall clock was stepped if it moved further than this against the monotonic clock.
const STEP: Duration = Duration::from_micros(200);

fn merge(at_connect: Option<TcpFacts>, at_end: Option<TcpFacts>) -> Option<TcpFacts> {
    let (Some(first), Some(last)) = (&at_connect, &at_end) else { return at_connect.or(at_end) };
    Some(TcpFacts {
        syn_rtt: first.syn_rtt,
        syn_departure_uncertainty: first.syn_departure_uncertainty,
        ..last.clone()
    })
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::Offset;

    use super::*;
    use firstbyte_clock::{Monotonic, Realtime};

    #[test]
    fn a_wall_clock_that_is_stepped_moves_no_mark() {
        let seen = Observation::start("https://example.test/");
        let mut seen = seen.borrow_mut();
        seen.timebase = seen.timebase.with_wall_clock_behind(Duration::from_secs(3600));
        let recorder = Rc::new(RefCell::new(Recorder::new(seen.timebase)));
        seen.record_with(Rc::clone(&recorder));
        recorder.borrow_mut().received(100, Monotonic::now(), Some(Realtime::now()));
        let arrival = recorder.borrow().last_arrival().unwrap();
        assert!(arrival.stamp.at > Offset::from_nanos(3_599_000_000_000));
        seen.mark(Mark::ResponseStart, When::Arrival(arrival));
        let marked = seen.finish(Ok(())).marks.stamp(Mark::ResponseStart).unwrap();
        assert_eq!((marked, marked.clock), (arrival.read, Clock::User));
    }
}
