//! Walks the flights of one phase and sorts its time into exchanges and the client's own.

use std::time::Duration;

use super::Phase;
use crate::timeline::{AttemptOutcome, Chunk, Connection, Direction, Mark, Offset, PhaseName};

/// Nothing arrived in the middle of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    length: Duration,
    /// At least a segment's worth of bytes had come before: a congestion window may have been full.
    after_segment: bool,
}

/// A wait for an answer, and the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Whether something was sent that this answers; otherwise data went on arriving.
    pub is_wait: bool,
    /// From the departure of the last byte sent to the arrival of the first of the answer.
    pub waited: Duration,
    /// From the first to the last byte of the answer.
    pub answering: Duration,
    /// Gaps within the answer.
    gaps: Vec<Gap>,
}

impl Exchange {
    fn wait(waited: Duration) -> Self {
        Self { is_wait: true, waited, answering: Duration::ZERO, gaps: Vec::new() }
    }

    /// What gaps hold besides round trips: the sender stood still although nothing it had sent was
    /// left to be acknowledged, or for longer than an acknowledgement takes.
    pub(super) fn pause(&self, rtt: Duration) -> Duration {
        /// Shorter gaps are the path's jitter, and the rate of the link.
        const SHORTEST: Duration = Duration::from_millis(5);
        let beyond = self.gaps.iter().map(|gap| {
            let allowed = if gap.after_segment { rtt } else { Duration::ZERO };
            gap.length.saturating_sub(allowed)
        });
        beyond.filter(|pause| *pause >= SHORTEST.max(rtt / 8)).sum()
    }

    /// Gaps so long that the sender must have waited for acknowledgements: a full congestion
    /// window costs one round trip (RFC 5681 §3.1), counted from its first segment. A sender that
    /// paces spreads the window's segments over part of that time, so the gap left is shorter.
    pub(super) fn stalls(&self, rtt: Duration) -> u32 {
        /// On the shortest paths a pause of the machine is longer than the round trip.
        const SHORTEST: Duration = Duration::from_micros(500);
        let stalled = |gap: &&Gap| gap.after_segment && gap.length >= (rtt / 2).max(SHORTEST);
        let stalled = self.gaps.iter().filter(stalled).count();
        u32::try_from(stalled).unwrap_or(u32::MAX)
    }
}

/// The time of one phase, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    pub phase: Phase,
    pub exchanges: Vec<Exchange>,
    /// The client was at work.
    pub client: Duration,
    /// Between the first and the last byte of flights sent.
    pub sending: Duration,
    /// Before the winning attempt, while another was tried.
    pub fallback: Duration,
    /// After something was sent that was not answered within the phase.
    pub unanswered: Duration,
}

impl Walk {
    pub(super) fn of(connection: &Connection, phase: Phase) -> Self {
        let mut walk = Self {
            phase,
            exchanges: Vec::new(),
            client: Duration::ZERO,
            sending: Duration::ZERO,
            fallback: Duration::ZERO,
            unanswered: Duration::ZERO,
        };
        match phase.name {
            PhaseName::Resolve => {}
            PhaseName::Connect => walk.connect(connection),
            PhaseName::Tls | PhaseName::Quic => walk.flights(connection),
            PhaseName::Send => walk.send(connection),
            PhaseName::Wait => walk.wait(),
            PhaseName::Receive => walk.receive(connection),
        }
        walk
    }

    fn connect(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        let begun = connection.marks.at(Mark::ConnectStart).unwrap_or(start).clamp(start, end);
        self.client = begun.since(start);
        let winner = connection.attempts.iter().find(|a| a.outcome == AttemptOutcome::Won);
        let syn = winner.map_or(begun, |a| a.start).clamp(begun, end);
        if complete {
            self.fallback = syn.since(begun);
            self.exchanges.push(Exchange::wait(end.since(syn)));
        } else {
            self.unanswered = end.since(begun);
        }
    }

    fn flights(&mut self, connection: &Connection) {
        let Phase { start, end, complete, .. } = self.phase;
        let mut cursor = start;
        let mut waiting = false;
        for flight in &connection.flights {
            if flight.last() < start || flight.first() > end {
                continue;
            }
            let first = flight.first().max(cursor);
            let last = flight.last().clamp(first, end.max(first));
            match flight.direction {
                Direction::Sent => {
                    self.client += first.since(cursor);
                    self.sending += last.since(first);
                    waiting = true;
                }
                Direction::Received => {
                    self.exchanges.push(Exchange {
                        is_wait: waiting,
                        waited: first.since(cursor),
                        answering: last.since(first),
                        gaps: gaps(&flight.chunks, mss(connection), first, last),
                    });
                    waiting = false;
                }
            }
            cursor = last;
        }
        let rest = end.since(cursor);
        if waiting && !complete {
            self.unanswered += rest;
        } else {
            self.client += rest;
        }
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
        self.client = first.since(start);
        self.sending = last.since(first);
        self.unanswered = end.since(last);
    }

    fn wait(&mut self) {
        let Phase { start, end, complete, .. } = self.phase;
        if complete {
            self.exchanges.push(Exchange::wait(end.since(start)));
        } else {
            self.unanswered = end.since(start);
        }
    }

    fn receive(&mut self, connection: &Connection) {
        let Phase { start, end, .. } = self.phase;
        // What the client sends meanwhile (HTTP/2 settings and window updates) answers nothing that
        // the response waits for: the response is one run of bytes.
        let chunks = connection
            .flights
            .iter()
            .filter(|f| f.direction == Direction::Received)
            .flat_map(|f| &f.chunks);
        self.exchanges.push(Exchange {
            is_wait: false,
            waited: Duration::ZERO,
            answering: end.since(start),
            gaps: gaps(chunks, mss(connection), start, end),
        });
    }
}

fn mss(connection: &Connection) -> u64 {
    let mss = connection.facts.tcp.as_ref().and_then(|t| t.send_mss);
    // RFC 9293 §3.7.1: the default where nothing was announced.
    u64::from(mss.unwrap_or(536))
}

/// The gaps between those of `chunks` that lie within `from..=to`.
fn gaps<'a>(
    chunks: impl IntoIterator<Item = &'a Chunk>,
    mss: u64,
    from: Offset,
    to: Offset,
) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut arrived = 0;
    let mut previous: Option<Offset> = None;
    for chunk in chunks {
        let at = chunk.stamp.at;
        if at < from || at > to {
            continue;
        }
        if let Some(previous) = previous {
            gaps.push(Gap { length: at.since(previous), after_segment: arrived >= mss });
        }
        arrived += chunk.bytes;
        previous = Some(at);
    }
    gaps
}
