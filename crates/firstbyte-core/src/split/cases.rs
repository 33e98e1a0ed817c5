//! Connections measured through a lab, with known faults of the server.

use std::time::Duration;

use super::{Split, Why};
use crate::timeline::*;

/// Direction, microseconds, bytes, and time of acknowledgement.
type Seen = (Direction, i64, u64, Option<i64>);

const S: Direction = Direction::Sent;
const R: Direction = Direction::Received;

fn us(us: i64) -> Offset {
    Offset::from_nanos(us * 1_000)
}

/// A full handshake of TLS 1.3 whose request left with the Finished.
fn connection(connected: i64, response: i64, round_trip: u64, seen: &[Seen]) -> Connection {
    let mut c = Connection::default();
    let mut set = |mark, at| c.marks.set(mark, Stamp::kernel(us(at)));
    let request = seen.iter().filter(|seen| seen.0 == S).nth(1).unwrap().1;
    set(Mark::ConnectStart, connected - round_trip as i64);
    set(Mark::TcpConnected, connected);
    set(Mark::SecureConnectionStart, connected);
    for mark in [Mark::HandshakeComplete, Mark::RequestStart, Mark::RequestEnd] {
        set(mark, request);
    }
    set(Mark::ResponseStart, response);
    set(Mark::ResponseEnd, seen.iter().rfind(|seen| seen.0 == R).unwrap().1);
    for (direction, at, bytes, acknowledged) in seen.iter().copied() {
        let acknowledged = acknowledged.map(us);
        let chunk = Chunk { acknowledged, ..Chunk::new(Stamp::kernel(us(at)), bytes) };
        match c.flights.last_mut() {
            Some(flight) if flight.direction == direction => flight.chunks.push(chunk),
            _ => c.flights.push(Flight { direction, chunks: vec![chunk], messages: Vec::new() }),
        }
    }
    let round_trip = Some(Duration::from_micros(round_trip));
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: round_trip,
        min_rtt: round_trip,
        retransmits: Some(0),
        send_mss: Some(1_448),
        ..TcpFacts::default()
    });
    c
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// The initial window is one segment: tickets and SETTINGS fill it, and the response waits for the client's
/// acknowledgement. The server itself takes no time.
#[test]
fn a_window_of_one_segment() {
    let split = Split::attribute(&connection(
        41_648,
        204_256,
        40_080,
        &[
            (S, 42_010, 1_483, Some(82_100)),
            (R, 82_418, 1_448, None),
            (R, 122_527, 808, None),
            (S, 123_481, 257, Some(163_759)),
            (R, 163_839, 255, None),
            (S, 164_157, 31, Some(204_272)),
            (R, 204_256, 761, None),
        ],
    ));
    assert!(ms(split.parts.server) < 1.5 && ms(split.parts.pause) < 1.0, "{split:#?}");
    assert_eq!((split.round_trips, split.held.len()), (5, 2), "{split:#?}");
    assert!(split.held.iter().all(|held| held.why == Why::Window(Some(1))), "{split:#?}");
}

/// The window has grown to four segments: tickets, SETTINGS, their acknowledgement and the response's first segment.
///
/// The application takes 10 ms, for which the response would have waited anyway.
#[test]
fn a_window_of_two_segments() {
    let mut c = connection(
        42_823,
        135_490,
        40_072,
        &[
            (S, 43_138, 1_483, Some(83_221)),
            (R, 83_502, 1_226, None),
            (R, 83_574, 1_030, None),
            (S, 84_518, 257, Some(124_773)),
            (R, 124_955, 299, None),
            (S, 125_297, 31, Some(165_428)),
            (R, 135_490, 1_448, None),
            (R, 165_412, 1_443, None),
            (R, 165_473, 1_227, None),
        ],
    );
    let names = ["{NewSessionTicket}", "SETTINGS", "SETTINGS ack", "WINDOW_UPDATE"];
    c.flights[3].messages = names.map(str::to_owned).to_vec();
    let split = Split::attribute(&c);
    let server = |phase| ms(split.phase(phase).unwrap().parts.server);
    // The server worked for 10 ms before the first segment; the window held back only the later segments.
    assert!((10.0..11.0).contains(&server(PhaseName::Wait)), "{split:#?}");
    assert!(server(PhaseName::Receive) < 0.1 && ms(split.parts.transfer) < 1.0, "{split:#?}");
    assert_eq!((split.round_trips, ms(split.parts.pause)), (4, 0.0), "{split:#?}");
    assert_eq!(split.held[0].why, Why::Window(Some(2)), "{split:#?}");
}

/// Nagle's algorithm is on, and there are no tickets: the response's second segment waits for the acknowledgement of
/// SETTINGS.
#[test]
fn nagle_without_tickets() {
    let split = Split::attribute(&connection(
        41_456,
        123_739,
        40_055,
        &[
            (S, 41_751, 1_482, Some(81_830)),
            (R, 82_124, 1_226, None),
            (R, 82_200, 1_031, None),
            (S, 83_191, 256, Some(123_463)),
            (R, 123_448, 55, None),
            (R, 123_739, 1_448, None),
            (S, 123_913, 31, None),
            (R, 163_834, 714, None),
        ],
    ));
    assert!(ms(split.parts.server) < 1.5 && ms(split.parts.pause) < 1.0, "{split:#?}");
    assert_eq!(split.held.len(), 1, "{split:#?}");
    assert_eq!(split.held[0].why, Why::Nagle, "{split:#?}");
    assert!((ms(split.held[0].cost) - 40.1).abs() < 0.2, "{split:#?}");
}

/// TLS 1.2 over 8 Mbit/s with a window of two segments: reads end with records, some bytes before or after the end of
/// a segment. Two segments, then four, then the rest.
#[test]
fn reads_that_end_with_records() {
    let mut c = connection(
        95_100,
        556_536,
        82_190,
        &[
            (S, 95_369, 1_491, Some(177_599)),
            (R, 190_024, 1_448, None),
            (R, 191_506, 1_448, None),
            (R, 273_639, 1_443, None),
            (R, 275_119, 1_443, None),
            (R, 276_617, 1_443, None),
            (R, 278_119, 1_463, None),
            (R, 357_273, 1_443, None),
            (R, 358_411, 1_108, None),
            (S, 371_775, 93, Some(456_458)),
            (R, 456_693, 113, None),
            (S, 457_533, 212, Some(556_556)),
            (R, 556_536, 51, None),
        ],
    );
    c.marks.set(Mark::HandshakeComplete, Stamp::kernel(us(456_693)));
    for mark in [Mark::RequestStart, Mark::RequestEnd] {
        c.marks.set(mark, Stamp::kernel(us(457_533)));
    }
    let split = Split::attribute(&c);
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.round_trips, tls.stalls, ms(tls.parts.pause)), (4, 2, 0.0), "{split:#?}");
    assert!(split.held.iter().all(|held| held.why == Why::Window(Some(2))), "{split:#?}");
}

/// Six segments fill the window, two of them merged tickets; reads end with records. Only the kernel's counters show
/// that there were six.
#[test]
fn a_window_that_merged_tickets_fill_is_counted() {
    let seen = [
        (S, 33_432, 1_479, Some(66_335)),
        (R, 66_727, 1_657, None),
        (S, 67_637, 219, Some(100_736)),
        (R, 100_759, 510, None),
        (R, 104_892, 1_448, None),
        (R, 104_941, 1_443, None),
        (R, 104_948, 1_443, None),
        (R, 104_957, 1_458, None),
        (R, 137_780, 1_443, None),
        (R, 137_838, 873, None),
    ];
    let mut c = connection(33_024, 104_892, 32_828, &seen);
    let counts = [2, 2, 1, 0, 1, 2, 0, 2];
    let received = c.flights.iter_mut().filter(|flight| flight.direction == R);
    for (chunk, segments) in received.flat_map(|flight| &mut flight.chunks).zip(counts) {
        chunk.segments = Some(segments);
    }
    let split = Split::attribute(&c);
    assert!(ms(split.parts.pause) < 1.0, "{split:#?}");
    assert_eq!((split.round_trips, split.held.len()), (4, 1), "{split:#?}");
    assert_eq!(split.held[0].why, Why::Window(Some(6)), "{split:#?}");
}
