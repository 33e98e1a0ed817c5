//! Causes of delayed arrivals over QUIC.
//!
//! Input: a [`Connection`] over QUIC and its round-trip time. Output: the [`Reading`] with the arrivals that an
//! acknowledgement released. Definitions: `docs/measurement.md`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use crate::split::server_model::By;
use crate::split::server_model::{Reading, Release, Released, Why};
use crate::timeline::{Chunk, Connection, Direction, Mark, Offset, QuicDatagram};

/// A connection's datagrams, by direction and time.
#[derive(Debug, Default)]
pub(super) struct Carried<'a>(HashMap<(Direction, Offset), &'a QuicDatagram>);

impl<'a> Carried<'a> {
    pub(super) fn from_connection(connection: &'a Connection) -> Self {
        let quic = connection.facts.quic.as_ref();
        let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
        Self(datagrams.map(|datagram| ((datagram.direction, datagram.at), datagram)).collect())
    }

    /// The `chunks` that carry new data.
    pub(super) fn without_bare<'c>(
        &self,
        direction: Direction,
        chunks: &'c [Chunk],
    ) -> Cow<'c, [Chunk]> {
        if self.0.is_empty() {
            return Cow::Borrowed(chunks);
        }
        chunks.iter().filter(|c| !self.is_bare(direction, c.stamp.at)).copied().collect()
    }

    /// Whether a datagram carries no new data of the handshake or the exchange: it asks nothing and answers nothing.
    pub(super) fn is_bare(&self, direction: Direction, at: Offset) -> bool {
        self.0.get(&(direction, at)).is_some_and(|datagram| !datagram.new)
    }
}

/// Round trips measured by acknowledgements: start and duration, without the acknowledgement delay that the server
/// reports.
pub(super) fn round_trips(connection: &Connection) -> impl Iterator<Item = (Offset, Duration)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    datagrams.filter_map(|datagram| {
        let took = datagram.acknowledged?.since(datagram.at);
        let held = datagram.acknowledgement_delay?;
        Some((datagram.at, took.checked_sub(held)?))
    })
}

/// Round trips whose acknowledgement came by itself; one carried by an answer includes the server's time.
pub(super) fn undisturbed(connection: &Connection) -> Vec<(Offset, Duration)> {
    let carried = Carried::from_connection(connection);
    let quic = connection.facts.quic.as_ref();
    let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    let alone = |d: &&QuicDatagram| {
        d.acknowledged.is_some_and(|at| carried.is_bare(Direction::Received, at))
    };
    let alone: Vec<Offset> = datagrams.filter(alone).map(|datagram| datagram.at).collect();
    let all: Vec<(Offset, Duration)> = round_trips(connection).collect();
    let undisturbed: Vec<_> =
        all.iter().filter(|(left, _)| alone.contains(left)).copied().collect();
    // Disturbed samples are better than none.
    if undisturbed.is_empty() { all } else { undisturbed }
}

/// How much longer than `rtt` round trips take. Acknowledgements come from a process that is busy at times, so only
/// what half of the round trips show is attributed to the path.
pub(super) fn spread(round_trips: &[(Offset, Duration)], rtt: Duration) -> Option<Duration> {
    let mut above: Vec<Duration> =
        round_trips.iter().map(|(_, took)| took.saturating_sub(rtt)).collect();
    above.sort_unstable();
    let (median, largest) = (*above.get(above.len() / 2)?, *above.last()?);
    // Each time, the process at the other end has to wake up.
    let seen = u32::try_from(above.len()).unwrap_or(u32::MAX);
    let median = median.max(WOKEN).max(WOKEN_ONCE / seen.max(1));
    if largest > median * 4 + NOISE {
        return Some(median);
    }
    // A few samples seldom hold the extremes: with uniform jitter, n of them span (n − 1) / (n + 1).
    let n = u32::try_from(above.len()).unwrap_or(u32::MAX);
    Some(if largest <= NOISE { median } else { largest * (n + 1) / n.saturating_sub(1).max(1) })
}

/// Departures whose answer waited for a retransmission, and the time until that was sent plus one round trip.
///
/// A datagram counts as lost if it was sent twice and the first copy was never acknowledged.
pub(super) fn sent_again(connection: &Connection, rtt: Duration) -> Vec<(Offset, Duration)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    let sent: Vec<&QuicDatagram> = datagrams.filter(|d| d.direction == Direction::Sent).collect();
    let lost = sent.iter().filter(|d| d.new && d.acknowledged.is_none());
    let again = lost.flat_map(|lost| {
        let copies = sent.iter().filter(|d| d.missing_since == Some(lost.at));
        let taken = copies.filter(|d| d.acknowledged.is_some()).map(|d| d.at);
        taken.filter_map(|taken| {
            // The wait was for this datagram or for one sent since.
            let asked = sent.iter().filter(|d| d.new && d.at <= taken).map(|d| d.at).max()?;
            Some([asked, lost.at].map(|asked| (asked, taken.since(asked) + rtt)))
        })
    });
    let again = again.flatten();
    again.collect()
}

/// Longest gap between datagrams that the link or the server's pacing explains.
pub(super) fn usual_gap(connection: &Connection) -> Duration {
    const ENOUGH: usize = 6;
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let chunks: Vec<_> = received.flat_map(|f| &f.chunks).collect();
    let pairs = chunks.windows(2).filter(|pair| pair.iter().all(|chunk| chunk.bytes >= FULL));
    let mut gaps: Vec<Duration> = pairs.map(|p| p[1].stamp.at.since(p[0].stamp.at)).collect();
    gaps.sort_unstable();
    if gaps.len() < ENOUGH { Duration::ZERO } else { gaps[gaps.len() / 2] * 3 / 2 }
}

/// Periods in which bytes lost on their way to the client were missing.
///
/// Later data reveals a hole. No data follows the last bytes, so skipped packet numbers reveal their loss. But packets
/// that probe for a larger datagram size (and are never sent again) skip numbers as well. So the next new data counts
/// as a retransmission if it follows the client's acknowledgement of the packet after the skipped number within
/// `slack`; or, if no packet came after it, if the connection lost something else as well.
pub(super) fn missing(
    connection: &Connection,
    rtt: Duration,
    slack: Duration,
) -> Vec<(Offset, Offset)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams: Vec<_> = quic.into_iter().flat_map(|quic| &quic.datagrams).collect();
    let received = |d: &&&QuicDatagram| d.direction == Direction::Received;
    let loses = datagrams.iter().filter(received).any(|d| d.missing_since.is_some());
    // The sender declares unacknowledged packets lost at the first later acknowledgement, or an eighth of a round trip
    // later (RFC 9002 §6.1.2).
    let told = |seen: Offset, at: Offset| {
        let mut lefts = datagrams.iter().filter(|d| d.direction == Direction::Sent).map(|d| d.at);
        let first = lefts.find(|left| *left >= seen);
        first
            .is_some_and(|left| left + rtt <= at + slack && at.since(left + rtt) <= slack + rtt / 8)
    };
    let mut missing = Vec::new();
    let (mut previous, mut skipped): (Option<Offset>, Option<Offset>) = (None, None);
    for datagram in datagrams.iter().filter(received) {
        let at = datagram.at;
        if datagram.skipped > 0 {
            skipped.get_or_insert(at);
        }
        if !datagram.new {
            continue;
        }
        let before = previous.replace(at);
        let again = before.zip(skipped.take()).filter(|(before, seen)| {
            let late = at.since(*before) >= rtt * 9 / 10;
            late && if *seen < at { told(*seen, at) } else { loses }
        });
        // A stored connection may be inconsistent: bytes can only be missing before they arrive.
        let since = datagram.missing_since.filter(|since| *since < at);
        if let Some(since) = since.or(again.map(|(before, _)| before)) {
            missing.push((since, at));
        }
    }
    missing
}

/// Finds the arrivals that a datagram from the client released.
///
/// A server's sending is limited by its congestion window (RFC 9002 §7.2: at least ten datagrams initially) and,
/// towards an address not validated yet, by three times the bytes received (RFC 9000 §8.1). If more than that was in
/// flight, data that arrived a round trip after the client had sent something waited for that datagram.
pub(super) fn datagrams(connection: &Connection, rtt: Duration, spread: Duration) -> Reading {
    if connection.facts.quic.as_ref().is_none_or(|quic| quic.datagrams.is_empty()) {
        return runs(connection, rtt);
    }
    let passed = Passed::find_passed(connection, rtt, slack(rtt, spread));
    let missing = missing(connection, rtt, slack(rtt, spread));
    let mut reading = Reading::default();
    let mut previous: Option<Offset> = None;
    for at in passed.received.iter().filter(|(.., new)| *new).map(|(at, ..)| *at) {
        if let Some(before) = previous.replace(at)
            && at.since(before) > STOOD
            && !passed.asked(before, at)
            && !missing.iter().any(|(_, until)| *until == at)
            && let Some(left) = passed.released(before, at)
        {
            let cause = passed.received.iter().map(|(at, ..)| *at).filter(|at| *at <= left).max();
            // The datagram may have left before the last arrival, which was then still on its way.
            let cause = cause.unwrap_or(left);
            let (earliest, why) = (before, Why::Window(None));
            let (by, arrived) = (Released::Datagram, at);
            reading.releases.push(Release { arrived, left, cause, earliest, by, why });
        }
    }
    reading
}

/// Tolerance: an event this soon after the end of a round trip was caused by what began the round trip.
pub(super) fn slack(rtt: Duration, spread: Duration) -> Duration {
    SLACK + spread.min(rtt / 8)
}

/// Datagrams that passed the client's device.
struct Passed {
    /// When, how many bytes, and whether they were new.
    received: Vec<(Offset, u64, bool)>,
    sent: Vec<(Offset, u64)>,
    /// Departures that can be answered.
    asked: Vec<Offset>,
    rtt: Duration,
    slack: Duration,
}

/// Datagrams with more bytes are full-sized.
pub(super) const FULL: u64 = 1_000;
/// Part of a single round trip that may come from waking two processes; of several round trips the shortest has less.
const WOKEN_ONCE: Duration = Duration::from_micros(500);
/// Shortest time until a process has the arrived data.
const WOKEN: Duration = Duration::from_micros(80);
/// Shorter times come from the hosts and their devices.
const NOISE: Duration = Duration::from_micros(400);
/// Hosts need this long to notice an arrival and to send: a process has to wake up.
const SLACK: Duration = Duration::from_millis(2);
/// A sender of fewer bytes back to back has no more to send.
pub(super) const PACED: u64 = 4 * 1_200;
/// Datagrams with smaller gaps were sent together.
const STOOD: Duration = Duration::from_millis(1);
/// Smallest initial window; `FITS` is one more datagram that did not fit.
const WINDOW: u64 = 10 * 1_200;
const FITS: u64 = 1_200;
const AMPLIFICATION: u64 = 3;

impl Passed {
    fn find_passed(connection: &Connection, rtt: Duration, slack: Duration) -> Self {
        let carried = Carried::from_connection(connection);
        let (mut received, mut sent, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for flight in &connection.flights {
            for chunk in &flight.chunks {
                let at = chunk.stamp.at;
                let new = !carried.is_bare(flight.direction, at);
                match flight.direction {
                    Direction::Sent => {
                        sent.push((at, chunk.bytes));
                        if new {
                            asked.push(at);
                        }
                    }
                    Direction::Received => {
                        received.push((at, chunk.bytes, new));
                    }
                }
            }
        }
        Self { received, sent, asked, rtt, slack }
    }

    /// Whether the arrival at `at`, the first since `before`, can answer new data.
    fn asked(&self, before: Offset, at: Offset) -> bool {
        let asked = self.asked.iter().rev().find(|left| **left + self.rtt <= at + self.slack);
        asked.is_some_and(|left| *left >= before)
    }

    /// The client's datagram that released the arrival at `at`, the first since `before`.
    fn released(&self, before: Offset, at: Offset) -> Option<Offset> {
        // The server had the datagram when it sent the given arrival.
        let had = |left: Offset, came: Offset| left + self.rtt <= came + self.slack;
        let lefts = self.sent.iter().map(|(left, _)| *left);
        if self.is_unvalidated(before) {
            let first = self.received.first().map(|(at, ..)| *at)?;
            let later = lefts.clone().find(|left| *left >= first && !had(*left, before))?;
            return had(later, at).then_some(later);
        }
        let under_way = self.under_way(before);
        // The window was larger if more had been in flight before.
        let arrivals = self.received.iter().map(|(at, ..)| *at).filter(|at| *at < before);
        let most = arrivals.map(|at| self.under_way(at)).max().unwrap_or(0);
        if under_way + FITS <= WINDOW.max(most) {
            return None;
        }
        let last = lefts.filter(|left| had(*left, at) && !had(*left, before)).max()?;
        (at.since(last + self.rtt) <= self.slack).then_some(last)
    }

    /// Bytes received up to `at` whose acknowledgement the server did not have when it sent them.
    fn under_way(&self, at: Offset) -> u64 {
        let told = self.sent.partition_point(|(left, _)| *left + self.rtt <= at + self.slack);
        let told = told.checked_sub(1).map(|last| self.sent[last].0);
        let from = self.received.partition_point(|(came, ..)| told.is_some_and(|t| *came <= t));
        let to = self.received.partition_point(|(came, ..)| *came <= at);
        self.received.get(from..to).unwrap_or_default().iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Whether the server had used up its limit towards an unvalidated address.
    fn is_unvalidated(&self, before: Offset) -> bool {
        let said: u64 =
            self.received.iter().filter(|(at, ..)| *at <= before).map(|(_, bytes, _)| bytes).sum();
        let had = self.sent.iter().filter(|(left, _)| *left + self.rtt <= before + self.slack);
        let heard: u64 = had.clone().map(|(_, bytes)| bytes).sum();
        let first = self.received.first().map(|(at, ..)| *at);
        let answered = first.is_some_and(|first| had.clone().any(|(left, _)| *left >= first));
        !answered && said + FITS > AMPLIFICATION * heard
    }
}

/// Like [`datagrams`], without knowledge of the datagrams' contents: an answer that stalled for about a round trip
/// after an initial congestion window's worth of data waited for an acknowledgement.
fn runs(connection: &Connection, rtt: Duration) -> Reading {
    let handshake = connection.marks.at(Mark::HandshakeComplete);
    let mut reading = Reading::default();
    let (mut sent, mut run) = (0, 0);
    let mut previous: Option<Offset> = None;
    for flight in &connection.flights {
        for chunk in &flight.chunks {
            let at = chunk.stamp.at;
            if flight.direction == Direction::Sent {
                sent += chunk.bytes;
                continue;
            }
            let unvalidated = handshake.is_none_or(|handshake| at <= handshake);
            let limit = if unvalidated { WINDOW.min(AMPLIFICATION * sent) } else { WINDOW };
            if let Some(cause) = previous
                && at.since(cause) >= rtt / 2
            {
                // The last datagram that fitted may have been small.
                if run + 1_200 > limit {
                    let by = Released::Acknowledgement(By::Segment);
                    let (left, earliest, why) = (cause, cause, Why::Window(None));
                    reading.releases.push(Release { arrived: at, left, cause, earliest, by, why });
                }
                run = 0;
            }
            run += chunk.bytes;
            previous = Some(at);
        }
    }
    reading
}
