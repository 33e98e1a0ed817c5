//! Tests the server's time on simulated paths with a rate, pacing senders, and jitter.

use std::time::Duration;

use proptest::prelude::*;

use super::Split;
use crate::timeline::*;

const MSS: u64 = 1_448;
const HEADERS: f64 = 52.0;
const ONE_WAY: f64 = 20e6;

#[derive(Clone, Copy, Debug)]
enum Pacing {
    /// All at once.
    None,
    /// Waits after each segment for the segment's time at this rate (nanoseconds per byte).
    Rate(f64),
    /// Always waits for the same time.
    Interval(f64),
}

#[derive(Clone, Debug)]
struct Path {
    /// Time of the bottleneck, nanoseconds per byte.
    per_byte: f64,
    pacing: Pacing,
    /// Jitter after the bottleneck, uniform up to this, nanoseconds; packets stay in order.
    jitter: f64,
    /// Payload of the server's handshake flight and of the response.
    answers: [u64; 2],
    think: f64,
}

/// Uniform random numbers in 0..1, reproducible from the seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn at(ns: f64) -> Stamp {
    Stamp::kernel(Offset::from_nanos(ns.round() as i64))
}

impl Path {
    /// Arrivals at the client for an answer that the server begins to send at `from`.
    fn answer(&self, from: f64, bytes: u64, random: &mut Random) -> Vec<(f64, u64)> {
        let (mut leaves, mut busy_until, mut arrived) = (from, 0.0f64, 0.0f64);
        let mut left = bytes;
        let mut arrivals = Vec::new();
        while left > 0 {
            let segment = left.min(MSS);
            left -= segment;
            let wire = segment as f64 + HEADERS;
            busy_until = busy_until.max(leaves) + wire * self.per_byte;
            // The round trip includes an empty packet's time.
            let way = ONE_WAY - HEADERS * self.per_byte + random.next() * self.jitter;
            arrived = arrived.max(busy_until + way);
            arrivals.push((arrived, segment));
            leaves += match self.pacing {
                Pacing::None => 0.0,
                Pacing::Rate(per_byte) => wire * per_byte,
                Pacing::Interval(interval) => interval,
            };
        }
        arrivals
    }

    fn connection(&self, seed: u64) -> Connection {
        let random = &mut Random(seed);
        let mut c = Connection::default();
        let set = |c: &mut Connection, mark, ns| c.marks.set(mark, at(ns));
        let flight = |direction, chunks: &[(f64, u64)]| {
            let chunk = |&(ns, bytes): &(f64, u64)| Chunk::new(at(ns), bytes);
            Flight { direction, chunks: chunks.iter().map(chunk).collect(), messages: Vec::new() }
        };
        set(&mut c, Mark::ConnectStart, 0.0);
        set(&mut c, Mark::TcpConnected, 2.0 * ONE_WAY);
        let hello = 2.0 * ONE_WAY + 1e5;
        let certificates = self.answer(hello + ONE_WAY + 1e6, self.answers[0], random);
        let asked = certificates.last().unwrap().0 + 3e5;
        let response = self.answer(asked + ONE_WAY + self.think, self.answers[1], random);
        set(&mut c, Mark::HandshakeComplete, asked);
        set(&mut c, Mark::RequestStart, asked);
        set(&mut c, Mark::RequestEnd, asked);
        set(&mut c, Mark::ResponseStart, response.first().unwrap().0);
        set(&mut c, Mark::ResponseEnd, response.last().unwrap().0);
        c.flights = vec![
            flight(Direction::Sent, &[(hello, 500)]),
            flight(Direction::Received, &certificates),
            flight(Direction::Sent, &[(asked, 300)]),
            flight(Direction::Received, &response),
        ];
        c.facts.tcp = Some(TcpFacts {
            syn_rtt: Some(Duration::from_nanos(2 * ONE_WAY as u64)),
            send_mss: Some(MSS as u32),
            ..TcpFacts::default()
        });
        c
    }

    fn waited(&self, seed: u64) -> super::PhaseSplit {
        let connection = self.connection(seed);
        let split = Split::attribute(&connection);
        assert_eq!(split.total(), super::total(&connection));
        for phase in &split.phases {
            assert_eq!(phase.parts.sum(), phase.phase.duration());
        }
        *split.phase(PhaseName::Wait).unwrap()
    }
}

/// Nanoseconds per byte at `rate` Mbit/s.
fn mbit(rate: f64) -> f64 {
    8e3 / rate
}

fn answers() -> impl Strategy<Value = [u64; 2]> {
    // Three full segments and one that is clearly shorter; a response of any size.
    (3u64..9, 300u64..1_100, 100u64..12_000)
        .prop_map(|(full, rest, response)| [full * MSS + rest, response])
}

proptest! {
    /// The first segment's time on a slow link belongs to the link, not to the server.
    #[test]
    fn a_slow_link_is_not_the_servers_time(
        rate in 1.0f64..50.0,
        answers in answers(),
        think in 0.0f64..50e6,
        noise in 0.0f64..10_000.0,
        seed in any::<u64>(),
    ) {
        let per_byte = mbit(rate);
        let path = Path { per_byte, pacing: Pacing::None, jitter: noise, answers, think };
        let wait = path.waited(seed);
        let error = wait.parts.server.as_nanos() as f64 - think;
        let first = answers[1].min(MSS) as f64 * per_byte;
        // Near the noise not everything is proven; the doubt covers the rest.
        let doubt = wait.doubt.as_nanos() as f64;
        let allowed = first * 0.05 + 2.0 * noise + 100.0 + doubt;
        prop_assert!(error.abs() <= allowed, "{error} ns, {wait:?}");
        prop_assert!(doubt == 0.0 || rate > 45.0, "{wait:?}");
    }

    /// A sender that paces like BBR sends its first segment at once.
    #[test]
    fn a_pacing_sender_is_not_a_slow_link(
        rate in 1.0f64..50.0,
        interval in any::<bool>(),
        answers in answers(),
        think in 0.0f64..50e6,
        seed in any::<u64>(),
    ) {
        let per_byte = mbit(rate);
        let pacing =
            if interval { Pacing::Interval(per_byte * 1_500.0) } else { Pacing::Rate(per_byte) };
        let path = Path { per_byte: mbit(10_000.0), pacing, jitter: 0.0, answers, think };
        let wait = path.waited(seed);
        prop_assert_eq!(wait.parts.transfer, Duration::ZERO);
        let error = wait.parts.server.as_nanos() as f64 - think;
        prop_assert!(error.abs() < 2_000.0, "{error} ns");
    }

    /// Without proof the estimate stays as it is, and its doubt states how far off it may be.
    #[test]
    fn a_single_pair_is_doubt_and_no_proof(rate in 3.0f64..50.0, rest in 100u64..1_000) {
        let per_byte = mbit(rate);
        let (answers, think) = ([900, MSS + rest], 8e6);
        let path = Path { per_byte, pacing: Pacing::None, jitter: 0.0, answers, think };
        let wait = path.waited(1);
        prop_assert_eq!(wait.parts.transfer, Duration::ZERO);
        let error = wait.parts.server.as_nanos() as f64 - think;
        // A twentieth is for headers.
        let doubt = wait.doubt.as_nanos() as f64 / 1.05;
        prop_assert!((error - doubt).abs() < 100.0, "{error} ns, {doubt} ns");
    }
}

/// Jitter makes gaps of every length: in at most one connection of a hundred, they happen to look like a rate; then
/// less time than the jitter is moved.
#[test]
fn jitter_is_not_a_slow_link() {
    let connections = 2_000;
    for jitter in [1e6, 5e6] {
        let (mut taken, mut random) = (0, Random(7));
        for seed in 0..connections {
            let segments = 3 + (random.next() * 8.0) as u64;
            let rest = 300 + (random.next() * 800.0) as u64;
            let (answers, per_byte) = ([segments * MSS + rest, 2_000], mbit(10_000.0));
            let path = Path { per_byte, pacing: Pacing::None, jitter, answers, think: 8e6 };
            let moved = path.waited(seed).parts.transfer;
            assert!(moved.as_nanos() as f64 <= jitter, "{moved:?}");
            taken += u32::from(!moved.is_zero());
        }
        assert!(u64::from(taken) * 100 <= connections, "{taken} of {connections} at {jitter} ns");
    }
}

/// Segments that came with the first byte's segment, right before it, were in its way.
#[test]
fn what_was_sent_right_before_the_response_was_in_its_way() {
    let per_byte = mbit(8.0);
    let path = Path {
        per_byte,
        pacing: Pacing::None,
        jitter: 0.0,
        answers: [4 * MSS + 800, 3 * MSS],
        think: 0.0,
    };
    let mut c = path.connection(1);
    // The response begins in the second segment; the first contained session tickets.
    let second = c.flights[3].chunks[1].stamp;
    c.marks.set(Mark::ResponseStart, second);
    let wait = *Split::attribute(&c).phase(PhaseName::Wait).unwrap();
    let both = per_byte * (2.0 * MSS as f64 + HEADERS);
    assert!(wait.parts.transfer.as_nanos().abs_diff(both as u128) < 1_000, "{wait:?}");
    assert!(wait.parts.server < Duration::from_micros(1), "{wait:?}");
}

/// A program that writes equal pieces by a timer, and a last piece of a few bytes at once, is not a link: the last gap
/// is as short as noise, and its size differs from all others.
#[test]
fn a_short_end_behind_a_timer_is_no_link() {
    let (mut taken, mut random) = (0, Random(17));
    let connections = 2_000;
    for seed in 0..connections {
        let think = 2e6 + random.next() * 10e6;
        let answers = [1_400, MSS];
        let path =
            Path { per_byte: mbit(10_000.0), pacing: Pacing::None, jitter: 0.0, answers, think };
        let mut c = path.connection(seed);
        let interval = 250e3 + random.next() * 1e6;
        let first = c.marks.at(Mark::ResponseStart).unwrap().as_nanos() as f64;
        let pieces = 3 + (random.next() * 5.0) as u64;
        let pieces: Vec<Chunk> =
            (0..pieces).map(|piece| Chunk::new(at(first + piece as f64 * interval), MSS)).collect();
        let last = pieces[pieces.len() - 1].stamp.at.as_nanos() as f64;
        let end =
            Chunk::new(at(last + 2e3 + random.next() * 8e3), 5 + (random.next() * 60.0) as u64);
        c.marks.set(Mark::ResponseEnd, end.stamp);
        c.flights[3].chunks = pieces.into_iter().chain([end]).collect();
        let wait = *Split::attribute(&c).phase(PhaseName::Wait).unwrap();
        taken += u32::from(!wait.parts.transfer.is_zero());
    }
    assert!(u64::from(taken) * 200 <= connections, "{taken} of {connections}");
}

/// A nearby server writes tickets and settings one by one before it works: gaps as short as host noise agree with many
/// rates, and the server's work is not the link's time.
#[test]
fn small_segments_before_a_server_thinks_prove_no_rate() {
    let (mut taken, mut random) = (0, Random(11));
    let connections = 2_000;
    for seed in 0..connections {
        let think = 2e6 + random.next() * 10e6;
        // The handshake in one piece: nothing is faster that could contradict.
        let answers = [1_400, 4_000 + (random.next() * 40_000.0) as u64];
        let path =
            Path { per_byte: mbit(10_000.0), pacing: Pacing::None, jitter: 0.0, answers, think };
        let mut c = path.connection(seed);
        let begun = c.marks.at(Mark::RequestEnd).unwrap().as_nanos() as f64 + 2.0 * ONE_WAY;
        let mut now = begun;
        let small = (0..3 + (random.next() * 3.0) as u64).map(|_| {
            now += 10e3 + random.next() * 50e3;
            Chunk::new(at(now), 31 + (random.next() * 250.0) as u64)
        });
        let small: Vec<Chunk> = small.collect();
        // Data from the same host's kernel is one segment, however long.
        let response = Chunk::new(at(begun + think), answers[1]);
        c.marks.set(Mark::ResponseStart, response.stamp);
        c.marks.set(Mark::ResponseEnd, response.stamp);
        c.flights[3].chunks = small.into_iter().chain([response]).collect();
        let wait = *Split::attribute(&c).phase(PhaseName::Wait).unwrap();
        taken += u32::from(wait.parts.transfer.as_nanos() as f64 > think / 4.0);
    }
    assert!(u64::from(taken) * 1_000 <= connections, "{taken} of {connections}");
}
