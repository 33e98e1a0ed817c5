//! Splits of many simulated connections and of modified ones: laws that hold for every split, and a hash for each
//! split, because optimisations must not change any.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use fastrand::Rng;

use super::super::{Phase, PhaseSplit, Split, phases, total};
use super::drawn::case;
use super::seen::Log;
use crate::timeline::*;

/// `ORACLE=first..end DIGEST=file cargo test -p firstbyte-core digest_of_splits -- --ignored` writes a line for each
/// connection to `file`.
///
/// If two source trees write the same file, their splits are the same.
#[test]
#[ignore = "writes a file"]
fn digest_of_splits() {
    let range = std::env::var("ORACLE").unwrap_or_else(|_| "0..20000".into());
    let (first, end) = range.split_once("..").unwrap();
    let mut lines = String::new();
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        let case = case(seed);
        let Some(log) = Log::play_case(&case) else { continue };
        let connection = log.connection(&case);
        write!(lines, "{seed}").unwrap();
        let mut random = Rng::with_seed(seed);
        for change in CHANGES {
            let mut changed = connection.clone();
            change(&mut changed, &mut random);
            write!(lines, " {:016x}", digest(&changed)).unwrap();
        }
        lines.push('\n');
    }
    std::fs::write(std::env::var("DIGEST").unwrap(), lines).unwrap();
}

fn digest(connection: &Connection) -> u64 {
    let (split, course) = Split::in_order(connection);
    let mut hasher = DefaultHasher::new();
    format!("{split:?} {course:?}").hash(&mut hasher);
    hasher.finish()
}

/// The parts of each phase add up to it, and the phases to the total: callers that need no parts need not split.
#[test]
fn parts_add_up_to_phases() {
    for seed in 0..3_000 {
        let case = case(seed);
        let Some(log) = Log::play_case(&case) else { continue };
        let connection = log.connection(&case);
        let mut random = Rng::with_seed(seed);
        for (number, change) in CHANGES.iter().enumerate() {
            let mut changed = connection.clone();
            change(&mut changed, &mut random);
            let split = Split::attribute(&changed);
            let split_phases: Vec<Phase> = split.phases.iter().map(|split| split.phase).collect();
            assert_eq!(split_phases, phases(&changed), "seed {seed}, change {number}");
            for PhaseSplit { phase, parts, .. } in &split.phases {
                let name = phase.name;
                assert_eq!(parts.sum(), phase.duration(), "seed {seed}, change {number}: {name}");
            }
            assert_eq!(split.total(), total(&changed), "seed {seed}, change {number}");
        }
    }
}

/// Modifications that turn one connection into others, which differ in observations and need not make sense.
const CHANGES: [fn(&mut Connection, &mut Rng); 9] = [
    |_, _| (),
    counted,
    lossy,
    reused,
    early,
    incomplete,
    |c, r| quic(c, r, true),
    |c, r| quic(c, r, false),
    holes,
];

fn chunks(connection: &mut Connection) -> impl Iterator<Item = (Direction, &mut Chunk)> {
    connection.flights.iter_mut().flat_map(|flight| {
        let direction = flight.direction;
        flight.chunks.iter_mut().map(move |chunk| (direction, chunk))
    })
}

/// Adds the kernel's segment counts.
fn counted(connection: &mut Connection, random: &mut Rng) {
    let mss = random.u32(500..1_461);
    for (direction, chunk) in chunks(connection) {
        if direction == Direction::Received && random.u8(..) > 20 {
            let about = u32::try_from(chunk.bytes).unwrap().div_ceil(mss);
            chunk.segments = Some(random.u32(about.saturating_sub(1)..=about + 1));
        }
    }
    let tcp = connection.facts.tcp.as_mut().unwrap();
    tcp.receive_mss = Some(mss);
    tcp.send_mss = Some(random.u32(mss..=1_460));
}

/// Makes some segments arrive out of order and be read late.
fn lossy(connection: &mut Connection, random: &mut Rng) {
    for (_, chunk) in chunks(connection) {
        if random.u8(..) > 200 {
            chunk.stamp.clock = Clock::User;
        }
    }
    let tcp = connection.facts.tcp.as_mut().unwrap();
    tcp.out_of_order = Some(random.u32(0..3));
    tcp.retransmits = Some(random.u32(0..3));
}

/// Makes it a reused connection, with other clocks and noise on all times.
fn reused(connection: &mut Connection, random: &mut Rng) {
    connection.facts.reused = true;
    let clock = [Clock::Simulated, Clock::User, Clock::Reported { resolution_ns: 100_000 }];
    let clock = clock[random.usize(0..3)];
    for (_, chunk) in chunks(connection) {
        let at = chunk.stamp.at + Duration::from_nanos(random.u64(0..400_000));
        chunk.stamp = Stamp { at, clock };
    }
    for mark in [Mark::ConnectStart, Mark::TcpConnected, Mark::RequestStart] {
        if let Some(at) = connection.marks.at(mark) {
            connection.marks.set(mark, Stamp { at, clock });
        }
    }
}

/// Sends the request before the handshake is complete; adds names of messages.
fn early(connection: &mut Connection, random: &mut Rng) {
    let all: Vec<Offset> = chunks(connection).map(|(_, chunk)| chunk.stamp.at).collect();
    let mut any = || Stamp::kernel(all[random.usize(0..all.len())]);
    let mut pair = [any(), any()];
    pair.sort_by_key(|stamp| stamp.at);
    connection.marks.set(Mark::RequestEnd, pair[0]);
    connection.marks.set(Mark::HandshakeComplete, pair[1]);
    for flight in &mut connection.flights {
        flight.messages = ["{NewSessionTicket}", "SETTINGS"].map(String::from).into();
    }
}

/// Truncates it at a random place; adds earlier attempts and lookups.
fn incomplete(connection: &mut Connection, random: &mut Rng) {
    let mut marks = Marks::default();
    let last = random.usize(0..Mark::ALL.len());
    for (mark, stamp) in connection.marks.iter() {
        if (mark as usize) < last && random.u8(..) > 30 {
            marks.set(mark, stamp);
        }
    }
    connection.marks = marks;
    let at = chunks(connection).map(|(_, chunk)| chunk.stamp.at).nth(random.usize(0..20));
    let phase = [PhaseName::Connect, PhaseName::Tls, PhaseName::Wait, PhaseName::Receive];
    connection.open_end = Some(OpenEnd { phase: phase[random.usize(0..4)], at });
    let remote = "192.0.2.1:443".parse().unwrap();
    let start = Offset::from_nanos(random.i64(0..3_000_000));
    connection.attempts = vec![Attempt { remote, start, end: None, outcome: AttemptOutcome::Won }];
    if random.bool() {
        connection.facts.tcp = None;
    }
}

/// Converts it to QUIC, with or without the contents of datagrams.
fn quic(connection: &mut Connection, random: &mut Rng, known: bool) {
    connection.facts.tcp = None;
    let mut datagrams = Vec::new();
    for (direction, chunk) in chunks(connection) {
        let after = |random: &mut Rng| {
            let at = chunk.stamp.at + Duration::from_micros(random.u64(0..60_000));
            random.bool().then_some(at)
        };
        datagrams.push(QuicDatagram {
            direction,
            at: chunk.stamp.at,
            new: random.u8(..) > 60,
            elicits: random.bool(),
            missing_since: after(random).filter(|_| random.u8(..) > 230),
            skipped: u32::from(random.u8(..) > 230),
            acknowledged: chunk.acknowledged.or_else(|| after(random)),
            acknowledgement_delay: Some(Duration::from_micros(random.u64(0..3_000))),
        });
    }
    let min_rtt = random.bool().then(|| Duration::from_micros(random.u64(500..200_000)));
    if !known {
        datagrams.clear();
    }
    connection.facts.quic = Some(QuicFacts { min_rtt, datagrams, ..QuicFacts::default() });
}

/// Converts it to QUIC, with several simultaneous holes for a while.
fn holes(connection: &mut Connection, random: &mut Rng) {
    quic(connection, random, true);
    let facts = connection.facts.quic.as_mut().unwrap();
    for datagram in &mut facts.datagrams {
        let before = Duration::from_micros(random.u64(1..60_000));
        datagram.missing_since = (random.u8(..) > 200).then(|| datagram.at - before);
    }
}
