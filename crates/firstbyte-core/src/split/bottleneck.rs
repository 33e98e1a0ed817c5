//! The bottleneck's time per byte, from how the segments of one TCP connection followed each other.
//!
//! Input: the arrivals of a [`Connection`]. Output: how long the bottleneck was busy with an answer
//! before its first byte was there, as far as that is proven, and as far as it cannot be excluded.
//! A sender that paces must not be taken for a slow link. Definition: `docs/measurement.md`.

use std::time::Duration;

use crate::timeline::{Chunk, Clock, Connection, Direction, Mark, Offset};

/// How much of a wait the bottleneck was busy with what was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    /// Proven.
    pub known: Duration,
    /// Neither proven nor excluded.
    pub possible: Duration,
}

/// What arrived at one instant: a segment, or several that the kernel merged.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Offset,
    /// On the TCP stream.
    bytes: f64,
    /// With headers.
    wire: f64,
}

/// An arrival and the one before it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    gap: f64,
    earlier: f64,
    later: f64,
}

impl Pair {
    fn between(earlier: &Arrival, later: &Arrival) -> Self {
        // Segments that were lost and sent again can be read after later ones: a gap below zero.
        let gap = later.at.as_nanos().saturating_sub(earlier.at.as_nanos()) as f64;
        Self { gap, earlier: earlier.wire, later: later.wire }
    }

    /// Nanoseconds per byte, if the later one crossed the bottleneck right behind the earlier.
    fn ratio(&self) -> f64 {
        self.gap / self.later
    }

    /// As it is behind a bottleneck that takes `per_byte`.
    fn agrees(&self, per_byte: f64) -> bool {
        let expected = per_byte * self.later;
        (self.gap - expected).abs() <= Self::allowed(expected)
    }

    /// How likely it is that a gap from half the expected one to half as long again agrees.
    fn agrees_by_accident(&self, per_byte: f64) -> f64 {
        let expected = per_byte * self.later;
        (2.0 * Self::allowed(expected) / expected).min(1.0)
    }

    /// Of how much a gap differs from what the rate says, at most.
    fn allowed(expected: f64) -> f64 {
        expected * TOLERANCE + NOISE_NS
    }

    /// A sender that paces waits for as long as the *earlier* one is large, or for always the same
    /// time; a bottleneck holds for as long as the *later* one is. Here the two differ.
    fn discriminates(&self) -> bool {
        (self.earlier - self.later).abs() >= 0.2 * self.earlier.max(self.later)
    }
}

/// Arrivals looked at, at most: the handshake and the begin of the response.
const ARRIVALS: usize = 256;
/// IP, TCP and the time stamps' option.
const HEADERS_V4: f64 = 52.0;
const HEADERS_V6: f64 = 72.0;
/// Differences between gaps and what the rate says.
const TOLERANCE: f64 = 0.05;
const NOISE_NS: f64 = 20_000.0;
/// Below it a segment's time is no more than the noise of hosts and of interrupts.
const SHORTEST_NS: f64 = 200_000.0;
const FULL_SEGMENT: f64 = 1_500.0;
/// With headers.
const SMALL: f64 = 300.0;
/// Pairs that agree, at least.
const PAIRS: usize = 3;
/// The chance that all of them agree by accident, at most.
const ACCIDENT: f64 = 0.045;
/// A pair whose chance is larger is none of those that count.
const TELLS: f64 = 0.8;
/// A full segment takes so long at 0.9 Mbit/s; longer gaps are pauses of the sender.
const PAUSE_NS: f64 = 13e6;

/// The slowest link of the way from the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bottleneck {
    arrivals: Vec<Arrival>,
    /// Nanoseconds per byte, proven.
    known: Option<f64>,
    /// Nanoseconds per byte, at most.
    bound: Option<f64>,
    /// Several gaps agree on that: a link, or a sender that paces.
    repeats: bool,
}

impl Bottleneck {
    pub(super) fn seen_in(connection: &Connection) -> Self {
        // QUIC's round-trip time is that of full datagrams: it holds this time already.
        if connection.facts.quic.is_some() || connection.facts.tcp.is_none() {
            return Self::default();
        }
        let arrivals = arrivals(connection);
        let pairs: Vec<Pair> = arrivals.windows(2).map(|w| Pair::between(&w[0], &w[1])).collect();
        let most = most_per_byte(connection, &arrivals).unwrap_or(f64::INFINITY);
        let known = proven(&pairs, most);
        // Between the request and the response the server may have been at work.
        let at = |mark| connection.marks.at(mark);
        let asked = at(Mark::RequestEnd).unwrap_or(Offset::from_nanos(i64::MAX));
        let answered = connection.marks.first_packet_of_response();
        let answered = answered.unwrap_or(Offset::from_nanos(i64::MAX));
        let later = arrivals.iter().skip(1).map(|arrival| arrival.at);
        let ratios = pairs
            .iter()
            .zip(later)
            .filter(|(pair, at)| (*at <= asked || *at > answered) && pair.gap < PAUSE_NS)
            .map(|(pair, _)| pair.ratio().max(0.0));
        let bound = ratios.min_by(f64::total_cmp);
        let usual = usual(&pairs);
        // Some that come closer were held up together.
        let bound = bound.map(|bound| usual.map_or(bound, |usual| usual.max(bound)));
        let agree = |bound: f64| pairs.iter().filter(|p| p.agrees(bound)).count();
        let long = |bound: f64| bound * FULL_SEGMENT >= SHORTEST_NS;
        let repeats = bound.is_some_and(|bound| long(bound) && agree(bound) >= PAIRS);
        Self { arrivals, known, bound, repeats }
    }

    /// The same, with a link of `rate` bits per second where none is proven.
    pub(super) fn or_rate(self, rate: Option<u64>) -> Self {
        let quic_or_none = self.arrivals.is_empty();
        let given = rate.filter(|rate| *rate > 0 && !quic_or_none).map(|rate| 8e9 / rate as f64);
        Self { known: self.known.or(given), ..self }
    }

    /// Whether several gaps are as long as the shortest one says.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Bits per second, where that is proven.
    pub(super) fn rate(&self) -> Option<u64> {
        self.known.map(|per_byte| (8e9 / per_byte).round() as u64)
    }

    /// How long it takes for so many bytes, where that is proven.
    pub(crate) fn takes(&self, bytes: u64) -> Option<Duration> {
        self.known.map(|per_byte| Duration::from_nanos((per_byte * bytes as f64).max(0.0) as u64))
    }

    /// How long it can take for so many bytes, at most: nothing overtakes it.
    pub(super) fn can_take(&self, bytes: u64) -> Duration {
        let per_byte = self.known.or(self.bound).unwrap_or(0.0);
        Duration::from_nanos((per_byte * bytes as f64).max(0.0) as u64)
    }

    /// How long it was busy with this connection's bytes just before what arrived at `end`, in a wait
    /// that began at `start`.
    pub(super) fn busy(&self, start: Offset, end: Offset) -> Busy {
        let with = |per_byte| self.busy_with(per_byte, start, end);
        match self.known {
            Some(per_byte) => Busy { known: with(per_byte), possible: Duration::ZERO },
            None => {
                Busy { known: Duration::ZERO, possible: self.bound.map(with).unwrap_or_default() }
            }
        }
    }

    fn busy_with(&self, per_byte: f64, start: Offset, end: Offset) -> Duration {
        let waited = self.arrivals.iter().filter(|a| a.at > start && a.at <= end);
        let mut waited = waited.rev().copied().peekable();
        let Some(mut first) = waited.next().filter(|last| last.at == end) else {
            return Duration::ZERO;
        };
        // What came right before it was in its way.
        while let Some(before) = waited.next_if(|before| {
            let pair = Pair::between(before, &first);
            pair.gap <= per_byte * pair.later * (1.0 + TOLERANCE)
        }) {
            first = before;
        }
        // The headers' time is in the round-trip time.
        let own = Duration::from_nanos((per_byte * first.bytes).max(0.0) as u64);
        end.since(first.at) + own
    }
}

fn arrivals(connection: &Connection) -> Vec<Arrival> {
    let remote = connection.facts.remote;
    let headers = match remote {
        Some(remote) if remote.is_ipv6() => HEADERS_V6,
        _ => HEADERS_V4,
    };
    let mss = connection.facts.tcp.as_ref().and_then(|tcp| tcp.send_mss).unwrap_or(1_448);
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    // A process reads late, and several segments at once.
    let stamped = |chunk: &&Chunk| matches!(chunk.stamp.clock, Clock::Kernel | Clock::Simulated);
    let mut arrivals: Vec<Arrival> = Vec::new();
    for chunk in received.flat_map(|f| &f.chunks).filter(stamped) {
        let (bytes, full) = (chunk.bytes as f64, arrivals.len() == ARRIVALS);
        match arrivals.last_mut() {
            Some(last) if last.at == chunk.stamp.at => last.bytes += bytes,
            _ if full => break,
            _ => arrivals.push(Arrival { at: chunk.stamp.at, bytes, wire: 0.0 }),
        }
    }
    for arrival in &mut arrivals {
        let segments = (arrival.bytes / f64::from(mss.max(1))).ceil();
        arrival.wire = arrival.bytes + segments * headers;
    }
    arrivals
}

/// The time per byte at most: all that has come, a server sent after the client's first bytes, and the link carried in
/// the time since. Nanoseconds.
fn most_per_byte(connection: &Connection, arrivals: &[Arrival]) -> Option<f64> {
    // What came on a connection that was open before may have been on its way already.
    if connection.facts.reused {
        return None;
    }
    let sent = connection.flights.iter().find(|flight| flight.direction == Direction::Sent)?;
    let asked = sent.chunks.first()?.stamp.at.as_nanos();
    let mut carried = 0.0;
    let since = arrivals.iter().map(|arrival| {
        carried += arrival.wire;
        let took = arrival.at.as_nanos().saturating_sub(asked).max(0) as f64;
        (took * (1.0 + TOLERANCE) + NOISE_NS) / carried
    });
    since.min_by(f64::total_cmp)
}

/// The time per byte of most of many gaps between full segments: a link, or a sender that paces.
fn usual(pairs: &[Pair]) -> Option<f64> {
    const MANY: usize = 8;
    let long = |pair: &&Pair| pair.later > FULL_SEGMENT / 2.0 && pair.gap < PAUSE_NS;
    if pairs.len() < MANY {
        return None;
    }
    let mut ratios: Vec<f64> = pairs.iter().filter(long).map(Pair::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let median = *ratios.get(ratios.len() / 2)?;
    let agreeing = pairs.iter().filter(long).filter(|pair| pair.agrees(median)).count();
    let most = agreeing >= MANY && agreeing * 4 >= ratios.len() * 3;
    (most && median * FULL_SEGMENT >= SHORTEST_NS).then_some(median)
}

/// The time per byte that at least [`PAIRS`] pairs agree on, one of which a pacing sender would not
/// have made, and that hardly any pair is faster than: nothing overtakes a bottleneck. It is `most` at most.
fn proven(pairs: &[Pair], most: f64) -> Option<f64> {
    if pairs.len() < PAIRS {
        return None;
    }
    let mut ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    // Of a small segment, noise is the larger part.
    let least = |pair: &Pair| {
        let noise = if pair.later < SMALL { NOISE_NS } else { 0.0 };
        (pair.gap + noise) / pair.later
    };
    let fastest = pairs.iter().map(least).min_by(f64::total_cmp)?;
    let candidates = ratios.iter().copied().filter(|ratio| ratio * FULL_SEGMENT >= SHORTEST_NS);
    // Were it more than twice the fastest, that one would have overtaken.
    for candidate in candidates.take_while(|ratio| ratio / 2.0 <= fastest && *ratio <= most) {
        let agreeing: Vec<&Pair> = pairs.iter().filter(|pair| pair.agrees(candidate)).collect();
        // What noise alone makes agree, or differ from a pacing sender's, says nothing of either.
        let tells = |pair: &&&Pair| pair.agrees_by_accident(candidate) < TELLS;
        let telling: Vec<&&Pair> = agreeing.iter().filter(tells).collect();
        if telling.len() < PAIRS || !telling.iter().any(|pair| pair.discriminates()) {
            continue;
        }
        // Gaps as short as hosts are noisy agree with many a rate.
        let accident: f64 =
            agreeing.iter().map(|pair| pair.agrees_by_accident(candidate)).product();
        if accident > ACCIDENT {
            continue;
        }
        // Jitter makes gaps of all lengths; a bottleneck one of each size.
        let near = ratios.iter().filter(|ratio| **ratio <= 2.0 * candidate).count();
        if agreeing.len() * 4 < near * 3 {
            continue;
        }
        let mut agreed: Vec<f64> = agreeing.iter().map(|pair| pair.ratio()).collect();
        agreed.sort_by(f64::total_cmp);
        return agreed.get(agreed.len() / 2).copied();
    }
    None
}
