//! What held each arrival back over QUIC.
//!
//! Input: a [`Connection`] over QUIC and its round-trip time. Output: the [`Reading`] of which arrivals an
//! acknowledgement released. Definitions: `docs/measurement.md`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use crate::split::server_model::By;
use crate::split::server_model::{Reading, Release, Released, Why};
use crate::timeline::{Chunk, Connection, Direction, Mark, Offset, QuicDatagram};

/// What is known of a connection's datagrams, by direction and time.
#[derive(Debug, Default)]
pub(super) struct Carried<'a>(HashMap<(Direction, Offset), &'a QuicDatagram>);

impl<'a> Carried<'a> {
    pub(super) fn from_connection(connection: &'a Connection) -> Self {
        let quic = connection.facts.quic.as_ref();
        let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
        Self(datagrams.map(|datagram| ((datagram.direction, datagram.at), datagram)).collect())
    }

    /// Those of `chunks` that have something new.
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

    /// Whether a datagram has nothing new of the handshake and of the exchange: it asks nothing, and answers nothing.
    pub(super) fn is_bare(&self, direction: Direction, at: Offset) -> bool {
        self.0.get(&(direction, at)).is_some_and(|datagram| !datagram.new)
    }
}

/// Round trips as acknowledgements show them: when each began and how long it took, without the time for which the
/// server says that it held the acknowledgement back.
pub(super) fn round_trips(connection: &Connection) -> impl Iterator<Item = (Offset, Duration)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    datagrams.filter_map(|datagram| {
        let took = datagram.acknowledged?.since(datagram.at);
        let held = datagram.acknowledgement_delay?;
        Some((datagram.at, took.checked_sub(held)?))
    })
}

/// Those whose acknowledgement came by itself: one that rode on an answer carries the server's time.
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
    // What little is known is better than nothing.
    if undisturbed.is_empty() { all } else { undisturbed }
}

/// How much longer than `rtt` round trips take. A process acknowledges, and is at work at times: what half of the
/// round trips show is the path's.
pub(super) fn spread(round_trips: &[(Offset, Duration)], rtt: Duration) -> Option<Duration> {
    let mut above: Vec<Duration> =
        round_trips.iter().map(|(_, took)| took.saturating_sub(rtt)).collect();
    above.sort_unstable();
    let (median, largest) = (*above.get(above.len() / 2)?, *above.last()?);
    // The process at the other end has to be woken each time.
    let seen = u32::try_from(above.len()).unwrap_or(u32::MAX);
    let median = median.max(WOKEN).max(WOKEN_ONCE / seen.max(1));
    if largest > median * 4 + NOISE {
        return Some(median);
    }
    // Few samples seldom hold the extremes: of a uniform jitter, n of them span (n − 1) / (n + 1).
    let n = u32::try_from(above.len()).unwrap_or(u32::MAX);
    Some(if largest <= NOISE { median } else { largest * (n + 1) / n.saturating_sub(1).max(1) })
}

/// Departures that something was asked with, and how long after them it was sent again, because the first was lost:
/// of what was sent twice, the first was never acknowledged. With a round trip each.
pub(super) fn sent_again(connection: &Connection, rtt: Duration) -> Vec<(Offset, Duration)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams = quic.into_iter().flat_map(|quic| &quic.datagrams);
    let sent: Vec<&QuicDatagram> = datagrams.filter(|d| d.direction == Direction::Sent).collect();
    let lost = sent.iter().filter(|d| d.new && d.acknowledged.is_none());
    let again = lost.flat_map(|lost| {
        let copies = sent.iter().filter(|d| d.missing_since == Some(lost.at));
        let taken = copies.filter(|d| d.acknowledged.is_some()).map(|d| d.at);
        taken.filter_map(|taken| {
            // What was waited for is that, or what had left since.
            let asked = sent.iter().filter(|d| d.new && d.at <= taken).map(|d| d.at).max()?;
            Some([asked, lost.at].map(|asked| (asked, taken.since(asked) + rtt)))
        })
    });
    let again = again.flatten();
    again.collect()
}

/// Gaps between datagrams that are no longer than this are the link's, or the server's pacing.
pub(super) fn usual_gap(connection: &Connection) -> Duration {
    const ENOUGH: usize = 6;
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let chunks: Vec<_> = received.flat_map(|f| &f.chunks).collect();
    let pairs = chunks.windows(2).filter(|pair| pair.iter().all(|chunk| chunk.bytes >= FULL));
    let mut gaps: Vec<Duration> = pairs.map(|p| p[1].stamp.at.since(p[0].stamp.at)).collect();
    gaps.sort_unstable();
    if gaps.len() < ENOUGH { Duration::ZERO } else { gaps[gaps.len() / 2] * 3 / 2 }
}

/// From when to when bytes were missing that had been lost on their way to the client.
///
/// A hole shows by what came behind it. Behind the last bytes nothing comes: of them, packet numbers tell that were
/// left out. But so are those of packets that try how large one may be, and that nobody sends again. So what comes
/// then was lost before where it follows the client's acknowledgement of what came behind the number, within
/// `slack`; or, where nothing came behind it, if the connection has lost something else as well.
pub(super) fn missing(
    connection: &Connection,
    rtt: Duration,
    slack: Duration,
) -> Vec<(Offset, Offset)> {
    let quic = connection.facts.quic.as_ref();
    let datagrams: Vec<_> = quic.into_iter().flat_map(|quic| &quic.datagrams).collect();
    let received = |d: &&&QuicDatagram| d.direction == Direction::Received;
    let loses = datagrams.iter().filter(received).any(|d| d.missing_since.is_some());
    // What the first acknowledgement since does not acknowledge is lost then, or an eighth of a round trip later (RFC 9002
    // §6.1.2).
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
        // A stored connection may say anything: bytes are missing before they arrive.
        let since = datagram.missing_since.filter(|since| *since < at);
        if let Some(since) = since.or(again.map(|(before, _)| before)) {
            missing.push((since, at));
        }
    }
    missing
}

/// Which arrivals a datagram of the client's released.
///
/// A server has a congestion window (RFC 9002 §7.2: ten datagrams to begin with, at least), and in the handshake
/// three times what it had received from an address that is not validated yet (RFC 9000 §8.1). What came after more
/// than that was under way, a round trip after the client had sent something, waited for that.
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
            // It may have left before what came last: that was on its way.
            let cause = cause.unwrap_or(left);
            let (earliest, why) = (before, Why::Window(None));
            let (by, arrived) = (Released::Datagram, at);
            reading.releases.push(Release { arrived, left, cause, earliest, by, why });
        }
    }
    reading
}

/// What follows something within this time after a round trip follows from it.
pub(super) fn slack(rtt: Duration, spread: Duration) -> Duration {
    SLACK + spread.min(rtt / 8)
}

/// What passed the client's device.
struct Passed {
    /// When, how many bytes, and whether they were new.
    received: Vec<(Offset, u64, bool)>,
    sent: Vec<(Offset, u64)>,
    /// When something left that is answered.
    asked: Vec<Offset>,
    rtt: Duration,
    slack: Duration,
}

/// A datagram of more bytes is a full one.
pub(super) const FULL: u64 = 1_000;
/// Of a single round trip so much may be that two processes were woken for it; of several the shortest has less.
const WOKEN_ONCE: Duration = Duration::from_micros(500);
/// What it takes at least until a process has what arrived.
const WOKEN: Duration = Duration::from_micros(80);
/// Shorter times are the hosts' and the devices'.
const NOISE: Duration = Duration::from_micros(400);
/// Hosts take that long to notice what has arrived, and to send: a process has to be woken.
const SLACK: Duration = Duration::from_millis(2);
/// Who sends fewer bytes one behind the other has no more of them.
pub(super) const PACED: u64 = 4 * 1_200;
/// What came closer behind was sent together.
const STOOD: Duration = Duration::from_millis(1);
/// The smallest window there is to begin with, and one more datagram that did not fit.
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

    /// Whether what came at `at`, and nothing had come since `before`, can answer something new.
    fn asked(&self, before: Offset, at: Offset) -> bool {
        let asked = self.asked.iter().rev().find(|left| **left + self.rtt <= at + self.slack);
        asked.is_some_and(|left| *left >= before)
    }

    /// What left the client and let go what came at `at`, and nothing had come since `before`.
    fn released(&self, before: Offset, at: Offset) -> Option<Offset> {
        // The server had it when it sent what came then.
        let had = |left: Offset, came: Offset| left + self.rtt <= came + self.slack;
        let lefts = self.sent.iter().map(|(left, _)| *left);
        if self.is_unvalidated(before) {
            let first = self.received.first().map(|(at, ..)| *at)?;
            let later = lefts.clone().find(|left| *left >= first && !had(*left, before))?;
            return had(later, at).then_some(later);
        }
        let under_way = self.under_way(before);
        // The window was larger, where more had been under way before.
        let arrivals = self.received.iter().map(|(at, ..)| *at).filter(|at| *at < before);
        let most = arrivals.map(|at| self.under_way(at)).max().unwrap_or(0);
        if under_way + FITS <= WINDOW.max(most) {
            return None;
        }
        let last = lefts.filter(|left| had(*left, at) && !had(*left, before)).max()?;
        (at.since(last + self.rtt) <= self.slack).then_some(last)
    }

    /// The bytes that had come up to `at`, and that the server did not know yet to be acknowledged when it sent that.
    fn under_way(&self, at: Offset) -> u64 {
        let told = self.sent.partition_point(|(left, _)| *left + self.rtt <= at + self.slack);
        let told = told.checked_sub(1).map(|last| self.sent[last].0);
        let from = self.received.partition_point(|(came, ..)| told.is_some_and(|t| *came <= t));
        let to = self.received.partition_point(|(came, ..)| *came <= at);
        self.received.get(from..to).unwrap_or_default().iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Whether the server had sent all that it may to an address that was not validated.
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

/// The same where nothing is known of what datagrams carried: an answer that stood still for about a round trip,
/// after as much as a congestion window begins with, waited for an acknowledgement.
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
                // The last datagram that fitted may have been a small one.
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
