//! Effects of the path and of server pauses on an answer's arrivals, apart from acknowledgements.
//!
//! Input: arrivals, round-trip times, the bottleneck. Output: [`Path`]: how much round trips vary, and the cause of
//! each gap within answers.

use std::time::Duration;

use super::bottleneck::Bottleneck;
use super::exchange::{Exchange, Walk};
use super::quic;
use crate::split::server_model::judge;
use crate::timeline::{Chunk, Clock, Connection, Direction, Mark, Offset};

/// Shorter gaps come from the hosts and their devices.
const NOISE: Duration = Duration::from_micros(400);
/// Over QUIC, servers' timers have a resolution of whole milliseconds.
const UNPACED: Duration = Duration::from_millis(2);
/// Longest time that an unmeasured link may need for a segment; a longer gap is a pause.
const SEGMENT: Duration = Duration::from_millis(3);

/// A pause, after which the server wrote on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// When the answer began to arrive.
    pub first: Offset,
    /// Last arrival before the pause.
    pub before: Offset,
    /// First arrival after the pause.
    pub arrived: Offset,
    /// How long the link was busy with that arrival.
    pub busy: Duration,
}

/// A gap within an answer that is not a server pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub from: Offset,
    pub to: Offset,
    pub is: Is,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Is {
    /// The link was busy.
    Transfer,
    /// The path's delay increased.
    Varied,
}

impl Gap {
    pub(super) const VARIED: Is = Is::Varied;
}

/// Whether several segments that arrive together, a round trip after the previous ones, may have waited for a lost
/// one.
///
/// The sender detects the loss when later segments are acknowledged, after at most a quarter of a round trip (RFC 8985
/// §6.2).
fn is_hole(bytes: u64, mss: u64, gap: Duration, rtt: Duration) -> bool {
    bytes > mss && gap >= rtt * 9 / 10 && gap <= rtt * 5 / 4 + Duration::from_millis(5)
}

/// Whether the end of a flight may have been lost and sent again when the sender's timer fired.
///
/// The timer fires after a round trip plus 200 ms, or after three round trips if it is based on a first sample, or
/// after twice that if the segment was lost again (RFC 6298 with Linux's minimum). A lone segment is probed after two
/// round trips and 200 ms (RFC 8985 §7.2).
fn is_timeout(beyond: Duration, rtt: Duration, jitter: Duration) -> bool {
    const LEAST: Duration = Duration::from_millis(200);
    let slack = Duration::from_millis(12) + jitter;
    let (least, most) = (rtt + LEAST, (rtt * 3).max(rtt * 2 + LEAST) + slack);
    let shortest = Duration::from_millis(4);
    let once = beyond + shortest >= least && beyond <= most;
    let twice = beyond + shortest >= least * 3 && beyond <= most * 3;
    once || twice
}

/// Like [`is_timeout`], for a lost segment that followed others: the sender restarted its timer when those were
/// acknowledged, at once or after the client's delay.
fn is_later_timeout(beyond: Duration, rtt: Duration, jitter: Duration) -> bool {
    let later = [rtt, rtt + TCP_DELACK_MIN].map(|later| beyond.checked_sub(later));
    later.into_iter().flatten().any(|beyond| is_timeout(beyond, rtt, jitter))
}

const TCP_DELACK_MIN: Duration = Duration::from_millis(40);

/// Linux delays acknowledgements by 40 ms at least (TCP_DELACK_MIN).
const DELAYED_ACK: Duration = Duration::from_millis(35);

/// A process may read this late, and an acknowledgement can wait for the read.
const READING: Duration = Duration::from_millis(1);

/// Measured properties of the path.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    pub rtt: Option<Duration>,
    /// How much longer than the shortest round trip others take.
    pub spread: Option<Duration>,
    pub gaps: Vec<Gap>,
    pub pauses: Vec<Pause>,
    /// Gaps that may be a pause or the link's doing, by the time they ended.
    pub doubts: Vec<(Offset, Duration)>,
    /// Departures and how long their acknowledgements took, for those not answered in the meantime.
    acknowledged: Vec<(Offset, Duration)>,
    /// Lost departures, and the time until the retransmission was acknowledged.
    sent_again: Vec<(Offset, Duration)>,
    /// Arrivals that had waited behind a lost segment.
    waited: Vec<Offset>,
    /// How long the server's full receive window kept the client from sending.
    pub window_full: Duration,
    /// Whether the connection runs over QUIC.
    packets: bool,
}

impl Path {
    /// Infers the path's properties; with `supposed`, as if its round trips differed by that much.
    pub(super) fn infer(
        connection: &Connection,
        walks: &[Walk],
        bottleneck: &Bottleneck,
        rtt: Option<Duration>,
        supposed: Option<Duration>,
    ) -> Self {
        let packets = connection.facts.quic.is_some();
        let mut path = Self { rtt, packets, ..Self::default() };
        let limited = connection.facts.tcp.as_ref().and_then(|tcp| tcp.receive_window_limited);
        path.window_full = limited.unwrap_or_default();
        path.acknowledged = acknowledged(connection);
        path.sent_again = rtt.map(|rtt| sent_again(connection, rtt)).unwrap_or_default();
        if connection.facts.quic.is_some() {
            path.acknowledged = quic::undisturbed(connection);
            path.sent_again = rtt.map(|rtt| quic::sent_again(connection, rtt)).unwrap_or_default();
        }
        path.spread = supposed.or(rtt.and_then(|rtt| spread(connection, &path.acknowledged, rtt)));
        path.waited = waited(connection);
        if let Some(rtt) = rtt {
            // Over QUIC servers pace from the first datagram on, with millisecond timers.
            let paced = UNPACED.max(rtt / 8).max(quic::usual_gap(connection));
            let shortest = if connection.facts.quic.is_some() { paced } else { NOISE };
            for exchange in walks.iter().flat_map(|walk| &walk.exchanges) {
                path.look(connection, bottleneck, exchange, shortest);
            }
            let slack = quic::slack(rtt, path.spread.unwrap_or_default());
            for (from, to) in quic::missing(connection, rtt, slack) {
                path.pauses.retain(|pause| pause.arrived <= from || pause.arrived > to);
                path.gaps.retain(|gap| gap.to <= from || gap.to > to);
                path.gaps.push(Gap { from, to, is: Is::Varied });
            }
            path.gaps.sort_by_key(|gap| (gap.from, gap.to));
            path.pauses.sort_by_key(|pause| pause.arrived);
        }
        path
    }

    /// Whether round trips differ by more than hosts cause.
    pub(super) fn varies(&self) -> bool {
        let rtt = self.rtt.unwrap_or_default();
        self.spread.is_some_and(|spread| spread > NOISE.max(rtt / 50))
    }

    /// Number of round trips measured besides the shortest.
    pub(super) fn seen(&self) -> usize {
        self.acknowledged.len()
    }

    /// Part of `beyond` (a wait's time above one round trip) caused by the path, for a request sent at `start` and
    /// answered at `first`.
    pub(super) fn varied(&self, start: Offset, first: Offset, beyond: Duration) -> Duration {
        let Some(rtt) = self.rtt else { return Duration::ZERO };
        if self.is_hole(first, beyond) {
            return if self.is_loss(beyond) { beyond } else { rtt.min(beyond) };
        }
        // Of several retransmissions, take the last that can have been answered.
        let again = self.sent_again.iter().filter(|(left, took)| {
            *left == start && (!self.packets || *took <= rtt + beyond + NOISE)
        });
        if let Some((_, took)) = again.max_by_key(|(_, took)| *took) {
            return took.saturating_sub(rtt).min(beyond);
        }
        let Some(spread) = self.spread.filter(|_| self.varies()) else { return Duration::ZERO };
        let sample = self.acknowledged.iter().find(|(left, _)| *left == start);
        // An acknowledgement delayed by the server's TCP says nothing about the path.
        let sample = sample.filter(|(_, took)| *took < rtt + DELAYED_ACK);
        let varied = sample.map_or(spread, |(_, took)| took.saturating_sub(rtt));
        // A busy process acknowledges late.
        let varied = if self.packets { varied.min(spread) } else { varied };
        varied.min(beyond)
    }

    /// Whether the arrival at `at`, which came `late` after its expected time, waited behind a lost segment.
    fn is_hole(&self, at: Offset, late: Duration) -> bool {
        let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.rtt.is_some_and(|rtt| judge::is_hole(ns(late), ns(rtt)))
            && self.waited.binary_search(&at).is_ok()
    }

    /// Whether a loss can cause this delay: recovery by a later acknowledgement, by a probe after two round trips, or
    /// by the sender's timer.
    fn is_loss(&self, late: Duration) -> bool {
        let rtt = self.rtt.unwrap_or_default();
        let jitter = if self.varies() { self.spread.unwrap_or_default() } else { Duration::ZERO };
        late <= rtt * 5 / 2 + Duration::from_millis(5) + jitter || is_timeout(late, rtt, jitter)
    }

    /// How much of a phase may belong to another part, undecided by the data.
    pub(super) fn doubt(&self, walk: &Walk) -> Duration {
        let within = |at: &Offset| *at > walk.phase.start && *at <= walk.phase.end;
        let gaps = self.doubts.iter().filter(|(at, _)| within(at)).map(|(_, gap)| *gap);
        let jitter = if self.varies() { self.spread.unwrap_or_default() } else { Duration::ZERO };
        let rtt = self.rtt.unwrap_or_default();
        let waits = walk.exchanges.iter().filter(|exchange| exchange.is_wait);
        let beyond = waits.map(|exchange| (exchange.first(), exchange.waited.saturating_sub(rtt)));
        let lost = beyond.filter(|(first, beyond)| {
            is_timeout(*beyond, rtt, jitter)
                || is_later_timeout(*beyond, rtt, jitter)
                || self.is_hole(*first, *beyond)
        });
        let again: Duration = lost.map(|(_, beyond)| beyond).sum();
        let busy = walk.exchanges.iter().map(|exchange| {
            // With headers.
            let possible = exchange.busy.possible + exchange.busy.possible / 20;
            possible.min(exchange.waited.saturating_sub(rtt))
        });
        again + gaps.chain(busy).sum::<Duration>()
    }

    /// Classifies the gaps within an answer; gaps up to `shortest` do not count.
    fn look(
        &mut self,
        connection: &Connection,
        bottleneck: &Bottleneck,
        exchange: &Exchange,
        shortest: Duration,
    ) {
        let (first, last) = (exchange.first(), exchange.last());
        let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
        let chunks = received.flat_map(|f| &f.chunks);
        let mss =
            u64::from(connection.facts.tcp.as_ref().and_then(|t| t.send_mss).unwrap_or(1_448));
        let tcp = connection.facts.tcp.as_ref();
        let counts_holes = tcp.is_some_and(|tcp| tcp.out_of_order.is_some());
        let varies = self.varies();
        let jitter = if varies { self.spread.unwrap_or_default() } else { Duration::ZERO };
        let mut latest: Option<Offset> = None;
        // Bytes that arrived back to back.
        let mut run = 0;
        // A sender with more data fills its datagrams, so nothing after a partly filled one is paced.
        let mut was_full = true;
        for chunk in chunks.clone().filter(|c| c.stamp.at >= first && c.stamp.at <= last) {
            let paced = std::mem::replace(&mut was_full, chunk.bytes >= quic::FULL);
            let at = chunk.stamp.at;
            // A chunk without bytes marks the start of a run; arrival times within the run are unknown.
            let before = std::mem::replace(&mut latest, (chunk.bytes > 0).then_some(at));
            let Some(before) = before else { continue };
            let gap = at.since(before);
            let shortest = if self.packets && !paced { shortest.min(UNPACED) } else { shortest };
            if gap <= shortest {
                run += chunk.bytes;
                continue;
            }
            if self.is_hole(at, gap) {
                // The lost segment may also have been written late, and an acknowledgement may have released the held
                // data.
                self.doubts.push((at, gap));
                if self.is_loss(gap) {
                    self.gaps.push(Gap { from: before, to: at, is: Is::Varied });
                } else {
                    let busy = Duration::ZERO;
                    self.pauses.push(Pause { first, before, arrived: at, busy });
                }
                continue;
            }
            // QUIC senders pace after more than a few datagrams, for at most a round trip.
            if self.packets && std::mem::take(&mut run) > quic::PACED && Some(gap) < self.rtt {
                self.doubts.push((at, gap));
                self.gaps.push(Gap { from: before, to: at, is: Is::Transfer });
                continue;
            }
            let possible = bottleneck.can_take(chunk.bytes);
            let busy = bottleneck.takes(chunk.bytes);
            let link = possible + possible / 20 + Duration::from_micros(20);
            let mut is_pause = gap > link + NOISE + jitter;
            if busy.is_none() && gap <= link + NOISE {
                // No arrival was faster: a slow link, a pacing sender or, if seen only once, a pause.
                is_pause = false;
                if !bottleneck.repeats() {
                    self.doubts.push((at, gap));
                    is_pause = gap > SEGMENT + jitter;
                }
            }
            let rtt = self.rtt.unwrap_or_default();
            let hole = !counts_holes && is_hole(chunk.bytes, mss, gap, rtt);
            // A timer retransmits one segment; what follows it is released by its acknowledgement.
            let follows = |c: &Chunk| c.stamp.at > at && c.stamp.at < at + rtt * 9 / 10;
            let late = chunk.bytes <= mss
                && is_later_timeout(gap, rtt, jitter)
                && !chunks.clone().any(follows);
            if is_pause && (hole || late || is_timeout(gap, rtt, jitter)) {
                self.doubts.push((at, gap));
            } else if is_pause {
                self.doubts.push((at, jitter));
            }
            if is_pause {
                let busy = busy.unwrap_or_default();
                // Over QUIC the server's process sends by itself, so this follows its previous datagram.
                let first = if self.packets { before } else { first };
                self.pauses.push(Pause { first, before, arrived: at, busy });
            } else {
                let is = if gap > link && varies { Is::Varied } else { Is::Transfer };
                if varies && gap > link + NOISE {
                    // A delay within the path's variation may also be a server pause.
                    self.doubts.push((at, gap));
                }
                self.gaps.push(Gap { from: before, to: at, is });
            }
        }
    }
}

/// Retransmissions by the client's TCP: after its timeout of 200 ms plus a round trip, or after a later probe (RFC
/// 6298 with Linux's minimum, RFC 8985 §7.2).
fn sent_again(connection: &Connection, rtt: Duration) -> Vec<(Offset, Duration)> {
    const TIMEOUT: Duration = Duration::from_millis(190);
    let again = connection.facts.tcp.as_ref().and_then(|tcp| tcp.retransmits).unwrap_or(0);
    if again == 0 {
        return Vec::new();
    }
    let sent = connection.flights.iter().filter(|f| f.direction == Direction::Sent);
    let took = sent.flat_map(|f| &f.chunks).filter_map(|chunk| {
        let took = chunk.acknowledged?.since(chunk.stamp.at);
        (took >= rtt * 2 + TIMEOUT).then_some((chunk.stamp.at, took))
    });
    took.collect()
}

/// Arrivals that waited behind a hole: they lack a kernel timestamp, and the kernel counted holes.
fn waited(connection: &Connection) -> Vec<Offset> {
    if !judge::is_lossy(connection) {
        return Vec::new();
    }
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let waited = received.flat_map(|f| &f.chunks).filter(|c| c.stamp.clock == Clock::User);
    let mut waited: Vec<Offset> = waited.map(|chunk| chunk.stamp.at).collect();
    waited.sort_unstable();
    waited
}

/// Departures acknowledged before any answer. An acknowledgement carried by the answer includes the server's time.
fn acknowledged(connection: &Connection) -> Vec<(Offset, Duration)> {
    // If a time limit ends a connection, the last arrivals are not read.
    let all_is_read = connection.marks.at(Mark::ResponseEnd).is_some();
    let latest_read = latest_read(connection);
    let samples = connection.flights.iter().enumerate().filter_map(|(i, flight)| {
        let chunk = flight.chunks.last().filter(|_| flight.direction == Direction::Sent)?;
        let acknowledged = chunk.acknowledged?;
        let answer = connection.flights.get(i + 1).and_then(|flight| flight.chunks.first());
        let alone = answer.map_or(all_is_read, |answer| {
            // Segments read together share the last one's timestamp; the first may have come with the acknowledgement.
            let merged = answer.segments.is_some_and(|segments| segments > 1);
            let before = answer.stamp.at.since(acknowledged);
            let carried = merged && before <= latest_read.max(READING);
            acknowledged < answer.stamp.at && !carried
        });
        alone.then(|| (chunk.stamp.at, acknowledged.since(chunk.stamp.at)))
    });
    samples.collect()
}

/// Longest time between an arrival and this client's reply, an upper bound on how late it read.
fn latest_read(connection: &Connection) -> Duration {
    let turns = connection.flights.windows(2).filter(|pair| {
        pair[0].direction == Direction::Received && pair[1].direction == Direction::Sent
    });
    turns.map(|pair| pair[1].first().since(pair[0].last())).max().unwrap_or_default()
}

/// How much longer than `rtt` other round trips took, counting only those that no server or delayed acknowledgement
/// can have prolonged.
fn spread(
    connection: &Connection,
    acknowledged: &[(Offset, Duration)],
    rtt: Duration,
) -> Option<Duration> {
    if connection.facts.quic.is_some() {
        return quic::spread(acknowledged, rtt);
    }
    let tcp = connection.facts.tcp.as_ref()?;
    let lost = tcp.retransmits.is_some_and(|n| n > 0);
    let samples = acknowledged.iter().map(|(_, took)| *took);
    let samples = samples.chain(tcp.syn_rtt.filter(|_| !lost));
    let above = samples.filter(|sample| *sample < rtt + DELAYED_ACK);
    let mut above: Vec<Duration> = above.map(|sample| sample.saturating_sub(rtt)).collect();
    above.sort_unstable();
    let largest = *above.last()?;
    if largest <= READING {
        return above.get(above.len() / 2).copied();
    }
    // A few samples seldom hold the extremes: with uniform jitter, n of them span (n − 1) / (n + 1).
    let n = u32::try_from(above.len() + 1).unwrap_or(u32::MAX);
    Some(largest * n.saturating_add(1) / n.saturating_sub(1).max(1))
}
