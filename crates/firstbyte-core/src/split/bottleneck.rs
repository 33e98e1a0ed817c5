//! The bottleneck's time per byte, from the spacing of one TCP connection's segments.
//!
//! Input: the arrivals of a [`Connection`]. Output: how long the bottleneck was busy with an answer before its first
//! byte arrived: the proven time, and the time that cannot be excluded. A pacing sender must not be mistaken for a
//! slow link. Definition: `docs/measurement.md`.

use std::time::Duration;

use crate::timeline::{Chunk, Clock, Connection, Direction, Mark, Offset};

/// Part of a wait in which the bottleneck was busy with the awaited data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    /// Proven.
    pub known: Duration,
    /// Neither proven nor excluded.
    pub possible: Duration,
}

/// Data that arrived at one instant: a segment, or several merged by the kernel.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Offset,
    /// Bytes on the TCP stream.
    bytes: f64,
    /// Bytes including headers.
    wire: f64,
}

/// An arrival and its predecessor.
#[derive(Clone, Copy, Debug)]
struct Pair {
    gap: f64,
    earlier: f64,
    later: f64,
}

impl Pair {
    fn between(earlier: &Arrival, later: &Arrival) -> Self {
        // Lost and retransmitted segments can be read after later ones, which gives a negative gap.
        let gap = later.at.as_nanos().saturating_sub(earlier.at.as_nanos()) as f64;
        Self { gap, earlier: earlier.wire, later: later.wire }
    }

    /// Nanoseconds per byte, if the later arrival crossed the bottleneck right behind the earlier one.
    fn ratio(&self) -> f64 {
        self.gap / self.later
    }

    /// Whether the gap matches a bottleneck that takes `per_byte`.
    fn agrees(&self, per_byte: f64) -> bool {
        let expected = per_byte * self.later;
        (self.gap - expected).abs() <= Self::allowed(expected)
    }

    /// Probability that a gap drawn from 0.5 to 1.5 times the expected one agrees.
    fn agrees_by_accident(&self, per_byte: f64) -> f64 {
        let expected = per_byte * self.later;
        (2.0 * Self::allowed(expected) / expected).min(1.0)
    }

    /// Largest allowed deviation of a gap from the rate's prediction.
    fn allowed(expected: f64) -> f64 {
        expected * TOLERANCE + NOISE_NS
    }

    /// Whether the sizes differ enough to tell a pacing sender from a bottleneck.
    ///
    /// A pacing sender waits in proportion to the *earlier* arrival's size, or for a constant time; a bottleneck
    /// delays in proportion to the *later* one's.
    fn discriminates(&self) -> bool {
        (self.earlier - self.later).abs() >= 0.2 * self.earlier.max(self.later)
    }
}

/// Maximum number of arrivals to examine: the handshake and the beginning of the response.
const ARRIVALS: usize = 256;
/// IP, TCP and the timestamp option, bytes.
const HEADERS_V4: f64 = 52.0;
const HEADERS_V6: f64 = 72.0;
/// Tolerated deviation of gaps from the rate's prediction.
const TOLERANCE: f64 = 0.05;
const NOISE_NS: f64 = 20_000.0;
/// Shorter segment times drown in the noise of hosts and interrupts.
const SHORTEST_NS: f64 = 200_000.0;
const FULL_SEGMENT: f64 = 1_500.0;
/// Size including headers.
const SMALL: f64 = 300.0;
/// Fewest pairs that must agree.
const PAIRS: usize = 3;
/// Largest probability that all of them agree by accident.
const ACCIDENT: f64 = 0.045;
/// A pair that is more likely to agree by accident does not count.
const TELLS: f64 = 0.8;
/// Time of a full segment at 0.9 Mbit/s; longer gaps are pauses of the sender.
const PAUSE_NS: f64 = 13e6;

/// The slowest link on the path from the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bottleneck {
    arrivals: Vec<Arrival>,
    /// Nanoseconds per byte, if proven.
    known: Option<f64>,
    /// Upper bound, nanoseconds per byte.
    bound: Option<f64>,
    /// Several gaps agree on the bound: a link, or a pacing sender.
    repeats: bool,
}

impl Bottleneck {
    pub(super) fn seen_in(connection: &Connection) -> Self {
        // QUIC's round-trip time is measured with full datagrams, so it already includes this time.
        if connection.facts.quic.is_some() || connection.facts.tcp.is_none() {
            return Self::default();
        }
        let arrivals = arrivals(connection);
        let pairs: Vec<Pair> = arrivals.windows(2).map(|w| Pair::between(&w[0], &w[1])).collect();
        let most = most_per_byte(connection, &arrivals).unwrap_or(f64::INFINITY);
        let known = proven(&pairs, most);
        // Between the request and the response the server may have been working.
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
        // Some arrivals are closer because they were held up together.
        let bound = bound.map(|bound| usual.map_or(bound, |usual| usual.max(bound)));
        let agree = |bound: f64| pairs.iter().filter(|p| p.agrees(bound)).count();
        let long = |bound: f64| bound * FULL_SEGMENT >= SHORTEST_NS;
        let repeats = bound.is_some_and(|bound| long(bound) && agree(bound) >= PAIRS);
        Self { arrivals, known, bound, repeats }
    }

    /// Assumes a link of `rate` bits per second if none is proven.
    pub(super) fn or_rate(self, rate: Option<u64>) -> Self {
        let quic_or_none = self.arrivals.is_empty();
        let given = rate.filter(|rate| *rate > 0 && !quic_or_none).map(|rate| 8e9 / rate as f64);
        Self { known: self.known.or(given), ..self }
    }

    /// Whether several gaps agree with the shortest one.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Bits per second, if proven.
    pub(super) fn rate(&self) -> Option<u64> {
        self.known.map(|per_byte| (8e9 / per_byte).round() as u64)
    }

    /// Time the bottleneck takes for `bytes`, if proven.
    pub(crate) fn takes(&self, bytes: u64) -> Option<Duration> {
        self.known.map(|per_byte| Duration::from_nanos((per_byte * bytes as f64).max(0.0) as u64))
    }

    /// Longest time the bottleneck can take for `bytes`: packets cannot overtake each other in it.
    pub(super) fn can_take(&self, bytes: u64) -> Duration {
        let per_byte = self.known.or(self.bound).unwrap_or(0.0);
        Duration::from_nanos((per_byte * bytes as f64).max(0.0) as u64)
    }

    /// How long the bottleneck was busy with this connection's bytes just before the arrival at `end`, in a wait that
    /// began at `start`.
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
        // The data that arrived right before was in its way.
        while let Some(before) = waited.next_if(|before| {
            let pair = Pair::between(before, &first);
            pair.gap <= per_byte * pair.later * (1.0 + TOLERANCE)
        }) {
            first = before;
        }
        // The round-trip time includes the time of the headers.
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

/// Upper bound of the time per byte, nanoseconds: the server sent all received bytes after the client's first ones,
/// and the link carried them in the time since.
fn most_per_byte(connection: &Connection, arrivals: &[Arrival]) -> Option<f64> {
    // On a reused connection, arrivals may have been on their way already.
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

/// Time per byte that most of many gaps between full segments show: a link, or a pacing sender.
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

/// Time per byte that at least [`PAIRS`] pairs agree on, at most `most`.
///
/// At least one of these pairs cannot come from a pacing sender, and hardly any pair is faster: nothing overtakes a
/// bottleneck.
fn proven(pairs: &[Pair], most: f64) -> Option<f64> {
    if pairs.len() < PAIRS {
        return None;
    }
    let mut ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
    ratios.sort_by(f64::total_cmp);
    // For a small segment, most of the gap may be noise.
    let least = |pair: &Pair| {
        let noise = if pair.later < SMALL { NOISE_NS } else { 0.0 };
        (pair.gap + noise) / pair.later
    };
    let fastest = pairs.iter().map(least).min_by(f64::total_cmp)?;
    let candidates = ratios.iter().copied().filter(|ratio| ratio * FULL_SEGMENT >= SHORTEST_NS);
    // At more than twice the fastest pair's time, that pair would have overtaken.
    for candidate in candidates.take_while(|ratio| ratio / 2.0 <= fastest && *ratio <= most) {
        let agreeing: Vec<&Pair> = pairs.iter().filter(|pair| pair.agrees(candidate)).collect();
        // Pairs that noise alone makes agree, or differ from a pacing sender's, prove nothing.
        let tells = |pair: &&&Pair| pair.agrees_by_accident(candidate) < TELLS;
        let telling: Vec<&&Pair> = agreeing.iter().filter(tells).collect();
        if telling.len() < PAIRS || !telling.iter().any(|pair| pair.discriminates()) {
            continue;
        }
        // Gaps as short as host noise agree with many rates.
        let accident: f64 =
            agreeing.iter().map(|pair| pair.agrees_by_accident(candidate)).product();
        if accident > ACCIDENT {
            continue;
        }
        // Jitter produces gaps of all lengths, a bottleneck one for each size.
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
