//! Tests of the kernel's counters, of timestamp sources, and of evidence from several arrivals.
//!
//! The connections were measured through a lab, with the truth known from both ends.

use std::time::Duration;

use super::{Split, Why};
use crate::timeline::*;

const S: Direction = Direction::Sent;
const R: Direction = Direction::Received;

/// Direction, microseconds, bytes, segments counted by the kernel.
type Seen = (Direction, i64, u64, Option<u32>);

fn at(us: i64) -> Stamp {
    Stamp::kernel(Offset::from_nanos(us * 1_000))
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}

/// A connection whose handshake is one exchange: connected at `connected`, a round trip after its SYN. The request is
/// the last data sent before the response.
fn connection(connected: i64, round_trip: i64, response: i64, seen: &[Seen]) -> Connection {
    let mut c = Connection::default();
    let sent = seen.iter().filter(|(direction, at, ..)| *direction == S && *at < response);
    let request = sent.map(|(_, at, ..)| *at).max().unwrap();
    let end = seen.iter().rfind(|(direction, ..)| *direction == R).unwrap().1;
    c.marks.set(Mark::ConnectStart, at(connected - round_trip));
    c.marks.set(Mark::TcpConnected, at(connected));
    c.marks.set(Mark::SecureConnectionStart, at(connected));
    for mark in [Mark::HandshakeComplete, Mark::RequestStart, Mark::RequestEnd] {
        c.marks.set(mark, at(request));
    }
    c.marks.set(Mark::ResponseStart, at(response));
    c.marks.set(Mark::ResponseEnd, at(end));
    for (direction, us, bytes, segments) in seen.iter().copied() {
        let chunk = Chunk { segments, ..Chunk::new(at(us), bytes) };
        match c.flights.last_mut() {
            Some(flight) if flight.direction == direction => flight.chunks.push(chunk),
            _ => c.flights.push(Flight { direction, chunks: vec![chunk], messages: Vec::new() }),
        }
    }
    let round_trip = Some(Duration::from_micros(round_trip.cast_unsigned()));
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: round_trip,
        min_rtt: round_trip,
        retransmits: Some(0),
        send_mss: Some(1_448),
        receive_mss: Some(1_448),
        out_of_order: Some(0),
        ..TcpFacts::default()
    });
    c
}

/// `count` full segments, back to back.
fn full(from: i64, count: i64) -> Vec<Seen> {
    (0..count).map(|i| (R, from + 8 * i, 1_448, Some(1))).collect()
}

/// Handshake and request over a round trip of 26 ms; the response begins 31.6 ms after the request.
fn asked(rest: &[Seen]) -> Connection {
    let begin = [
        (S, 26_554, 518, None),
        (R, 52_760, 1_321, Some(1)),
        (S, 53_703, 213, None),
        (R, 85_306, 1_448, Some(1)),
    ];
    connection(26_176, 25_987, 85_306, &[&begin[..], rest].concat())
}

/// The bytes from `us` on were read after an earlier hole had been filled: they lack a kernel timestamp.
fn lose(mut c: Connection, us: i64) -> Connection {
    let from = Offset::from_nanos(us * 1_000);
    for chunk in c.flights.iter_mut().flat_map(|flight| &mut flight.chunks) {
        if chunk.stamp.at >= from && chunk.stamp.clock == Clock::Kernel {
            (chunk.stamp.clock, chunk.segments) = (Clock::User, None);
        }
    }
    for mark in [Mark::ResponseStart, Mark::ResponseEnd] {
        if let Some(stamp) = c.marks.stamp(mark).filter(|stamp| stamp.at >= from) {
            c.marks.set(mark, Stamp { clock: Clock::User, ..stamp });
        }
    }
    c.facts.tcp.as_mut().unwrap().out_of_order = Some(1);
    c
}

#[test]
fn what_waited_behind_a_hole_was_lost_and_not_written_late() {
    let late = asked(&[(R, 141_058, 1_654, Some(2))]);
    let paused = Split::attribute(&late).parts;
    assert!(ms(paused.pause) > 50.0 && ms(paused.variation) < 1.0, "{paused:?}");
    let split = Split::attribute(&lose(late, 141_058));
    assert!(ms(split.parts.pause) < 1.0 && ms(split.parts.variation) > 50.0, "{split:?}");
    // It may also have been written late.
    assert!(split.server_uncertainty().is_some_and(|u| ms(u) > 50.0), "{split:?}");
}

#[test]
fn the_begin_of_an_answer_is_lost_where_what_follows_it_had_waited() {
    let c = connection(
        26_176,
        25_987,
        107_000,
        &[
            (S, 26_554, 518, None),
            (R, 52_760, 1_321, Some(1)),
            (S, 53_703, 213, None),
            (R, 107_000, 700, Some(1)),
            (R, 107_020, 700, Some(1)),
        ],
    );
    assert!(ms(Split::attribute(&c).parts.server) > 25.0);
    let split = Split::attribute(&lose(c, 107_000));
    assert!(ms(split.parts.server) < 2.0 && ms(split.parts.variation) > 25.0, "{split:?}");
}

/// Acknowledgements released two windows of ten, one 1.8 ms late, the other 4.4 ms early: the SYN's round trip was
/// neither among the shortest nor among the longest.
#[test]
fn a_path_varies_where_several_arrivals_agree_that_it_does() {
    let seen = [
        vec![(S, 42_424, 178, None)],
        full(89_555, 8),
        vec![(R, 89_701, 2_648, Some(2))],
        vec![(R, 133_121, 1_448, Some(1)), (R, 133_200, 585, Some(1))],
        vec![(S, 179_194, 140, None)],
        full(226_881, 20),
        vec![(R, 264_221, 1_336, Some(1))],
    ];
    let split = Split::attribute(&connection(41_918, 41_745, 226_881, &seen.concat()));
    assert_eq!(split.held.len(), 2, "{split:#?}");
    assert!(ms(split.parts.pause) < 1.0, "{split:#?}");
    assert!(split.rtt_spread.is_some_and(|spread| ms(spread) > 1.0), "{split:#?}");
}

/// A single late answer means a slow server.
#[test]
fn one_late_answer_is_no_path_that_varies() {
    let split = Split::attribute(&asked(&full(85_340, 3)));
    assert!(ms(split.parts.server) > 5.0, "{split:#?}");
    assert!(split.rtt_spread.is_some_and(|spread| ms(spread) < 0.1), "{split:#?}");
}

/// An initial window of six; the client read three segments before it acknowledged them.
#[test]
fn an_odd_segment_may_have_been_acknowledged_when_it_was_read() {
    let seen = [
        vec![(S, 380_099, 172, None), (R, 628_946, 1_300, Some(1))],
        vec![(S, 978_318, 223, None), (R, 1_226_631, 62, Some(1)), (S, 1_227_017, 38, None)],
        full(1_227_127, 5),
        full(1_474_916, 12),
        full(1_722_780, 24),
        full(1_970_637, 8),
    ];
    let split = Split::attribute(&connection(379_705, 247_830, 1_227_127, &seen.concat()));
    assert!(ms(split.parts.pause) < 1.0, "{split:#?}");
    assert!(split.held.iter().all(|held| held.why == Why::Window(Some(6))), "{split:#?}");
    assert_eq!(split.held.len(), 3, "{split:#?}");
}

/// The kernel takes the largest segment for a full one.
///
/// The response of 1,402 bytes is a partial segment that Nagle's algorithm held until the preceding tickets were
/// acknowledged, which the client delayed.
#[test]
fn the_largest_segment_is_no_full_one_where_it_came_once() {
    let seen = [
        (S, 15_895, 2_636, None),
        (R, 65_631, 261, Some(1)),
        (S, 81_630, 213, None),
        (R, 98_597, 1_151, Some(1)),
        (R, 154_770, 1_402, Some(1)),
    ];
    let mut c = connection(15_594, 15_497, 154_770, &seen);
    c.facts.tcp.as_mut().unwrap().receive_mss = Some(1_402);
    let split = Split::attribute(&c);
    assert!(ms(split.parts.pause) > 35.0 && ms(split.parts.pause) < 45.0, "{split:#?}");
    assert_eq!(split.held.last().map(|held| held.why), Some(Why::Nagle), "{split:#?}");
}

/// Fourteen segments left although the window had grown to eighteen, and more when these were acknowledged: the send
/// buffer was full.
#[test]
fn a_small_send_buffer_lets_its_application_write_when_there_is_room() {
    let seen = [
        vec![(S, 3_404, 518, None), (R, 7_007, 1_241, Some(1)), (S, 7_734, 215, None)],
        vec![(R, 10_867, 574, Some(2))],
        full(11_340, 8),
        full(14_179, 14),
        full(17_030, 17),
    ];
    let split = Split::attribute(&connection(2_965, 2_819, 11_340, &seen.concat()));
    assert!(ms(split.parts.pause) < 1.0, "{split:#?}");
    assert_eq!(split.held.len(), 2, "{split:#?}");
}

/// On a reused connection a single round trip is known, and not how much others differ from it.
#[test]
fn a_kept_connection_has_an_uncertainty() {
    let mut c = Connection::default();
    for mark in [Mark::RequestStart, Mark::RequestEnd] {
        c.marks.set(mark, at(113));
    }
    for mark in [Mark::ResponseStart, Mark::ResponseEnd] {
        c.marks.set(mark, at(10_065));
    }
    let flight = |direction, us, bytes| Flight {
        direction,
        chunks: vec![Chunk::new(at(us), bytes)],
        messages: Vec::new(),
    };
    c.flights = vec![flight(S, 113, 138), flight(R, 10_065, 611)];
    c.facts.reused = true;
    c.facts.tcp = Some(TcpFacts {
        min_rtt: Some(Duration::from_micros(7_896)),
        send_mss: Some(1_448),
        ..TcpFacts::default()
    });
    let split = Split::attribute(&c);
    assert_eq!(split.rtt_spread, None);
    assert_eq!(split.server_uncertainty(), Some(Duration::from_micros(1_974)));
    assert_eq!(split.response_uncertainty(), split.server_uncertainty());
}

/// The end of the response was lost, and sent again 271 ms after the preceding data was acknowledged, which the client
/// had delayed by 40 ms. A pause of the same length looks identical.
#[test]
fn the_timer_of_what_was_lost_begins_when_what_came_before_is_acknowledged() {
    let seen = |last| {
        [
            (S, 67_031, 518, None),
            (R, 127_586, 1_377, Some(1)),
            (S, 130_321, 199, None),
            (R, 416_895, 138, Some(1)),
            (R, last, 27, Some(1)),
        ]
    };
    let split = |last| Split::attribute(&connection(66_151, 60_048, 416_895, &seen(last)));
    let lost = split(787_510).server_uncertainty().unwrap_or_default();
    assert!(ms(lost) > 300.0, "{lost:?}");
    let paused = split(587_510).server_uncertainty().unwrap_or_default();
    assert!(ms(paused) < 1.0, "{paused:?}");
}

/// A nearby server that sends a small frame every 2 ms and answers nothing; `rest` begins with the first frame. The
/// client's machine is so busy that it reads milliseconds late.
fn silent(rest: &[Seen]) -> Connection {
    let begin = [
        (S, 13_012, 1_462, None),
        (R, 15_174, 1_769, Some(1)),
        (S, 15_959, 259, None),
        (R, 20_974, 184, Some(1)),
    ];
    let ended = rest.last().unwrap().1 + 2_000;
    let mut c = connection(130, 15, ended, &[&begin[..], rest].concat());
    let marks = std::mem::take(&mut c.marks);
    let kept = marks.iter().filter(|(mark, _)| *mark <= Mark::TcpConnected);
    kept.for_each(|(mark, stamp)| c.marks.set(mark, stamp));
    c.marks.set(Mark::SecureConnectionStart, at(130));
    for mark in [Mark::HandshakeComplete, Mark::RequestStart, Mark::RequestEnd] {
        c.marks.set(mark, at(15_959));
    }
    let (after, peer) = (Duration::from_micros(ended.cast_unsigned()), LastSeen::Acknowledged);
    let cause = Cause::TimedOut { after, limit: TimeLimit::Connection, peer };
    let at = Some(Offset::from_nanos(ended * 1_000));
    c.failure = Some(Failure { phase: PhaseName::Wait, cause, at });
    c
}

/// The handshake was faster than a link that needs 2 ms for so small a frame.
#[test]
fn frames_by_a_timer_are_no_slow_link() {
    let frames: Vec<Seen> = (0..200).map(|i| (R, 23_034 + 2_050 * i, 31, Some(1))).collect();
    // The only pair of unequal sizes agrees by accident.
    let split = Split::attribute(&silent(&frames));
    assert!(ms(split.parts.transfer) < 1.0, "{:?}", split.parts);
}

/// Data not read before the time limit may carry an acknowledgement, and so may the first of several frames read
/// together: such an acknowledgement says nothing about the path.
#[test]
fn acknowledgements_that_rode_on_what_was_not_read_are_no_round_trips() {
    let mut frames = vec![(R, 23_033, 31, Some(1)), (S, 26_012, 58, None)];
    for i in 0..100 {
        frames.push((R, 30_200 + 4_200 * i, 62, Some(2)));
        frames.push((S, 30_300 + 4_200 * i, 31, None));
    }
    let mut c = silent(&frames);
    let acknowledge = |c: &mut Connection, flight: usize, took: i64| {
        let chunk = c.flights[flight].chunks.last_mut().unwrap();
        chunk.acknowledged = Some(chunk.stamp.at + Duration::from_micros(took.cast_unsigned()));
    };
    acknowledge(&mut c, 0, 20);
    acknowledge(&mut c, 44, 2_046);
    let last = c.flights.len() - 1;
    acknowledge(&mut c, last, 3_781);
    let split = Split::attribute(&c);
    assert!(ms(split.parts.variation) < 1.0, "{:?}", split.parts);
}
