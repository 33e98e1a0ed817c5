//! Tests of QUIC handshakes with interleaved datagrams: which of them answers which.

use std::time::Duration;

use super::{PhaseSplit, Split};
use crate::timeline::*;

const RTT: i64 = 80_000_000;
const MS: i64 = 1_000_000;

/// Time and size.
type Datagram = (i64, u64);

fn flight(direction: Direction, datagrams: &[Datagram], messages: &[&str]) -> Flight {
    let chunk = |(ns, bytes): &Datagram| Chunk::new(Stamp::kernel(Offset::from_nanos(*ns)), *bytes);
    Flight {
        direction,
        chunks: datagrams.iter().map(chunk).collect(),
        messages: messages.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn sent(datagrams: &[Datagram], messages: &[&str]) -> Flight {
    flight(Direction::Sent, datagrams, messages)
}

fn received(datagrams: &[Datagram], messages: &[&str]) -> Flight {
    flight(Direction::Received, datagrams, messages)
}

/// The handshake of these flights, complete when the last of them left.
fn handshake(flights: Vec<Flight>) -> PhaseSplit {
    let mut c = Connection::default();
    let at = |ns| Stamp::kernel(Offset::from_nanos(ns));
    c.marks.set(Mark::ConnectStart, at(0));
    c.marks.set(Mark::SecureConnectionStart, at(0));
    let done = flights.last().unwrap().last();
    c.marks.set(Mark::HandshakeComplete, at(done.as_nanos()));
    c.flights = flights;
    let min_rtt = Some(Duration::from_nanos(RTT as u64));
    c.facts.quic = Some(QuicFacts { min_rtt, ..QuicFacts::default() });
    *Split::attribute(&c).phase(PhaseName::Quic).unwrap()
}

fn ms(n: i64) -> Duration {
    Duration::from_nanos((n * MS) as u64)
}

/// The client tried an unresponsive address for a second before the one that answered.
#[test]
fn the_attempt_before_is_fallback() {
    let second = 1_000 * MS;
    let mut c = Connection::default();
    let at = |ns| Stamp::kernel(Offset::from_nanos(ns));
    c.marks.set(Mark::ConnectStart, at(second + MS));
    c.marks.set(Mark::SecureConnectionStart, at(second + MS));
    let done = second + MS + RTT;
    c.marks.set(Mark::HandshakeComplete, at(done));
    let attempt = |start: i64, outcome| Attempt {
        remote: "192.0.2.1:443".parse().unwrap(),
        start: Offset::from_nanos(start),
        end: None,
        outcome,
    };
    let failed = AttemptOutcome::Failed { error: "no answer".into() };
    c.attempts = vec![attempt(0, failed), attempt(second, AttemptOutcome::Won)];
    c.flights = vec![
        sent(&[(second + MS, 1_200)], &["Initial"]),
        received(&[(done, 1_200)], &["Initial", "Handshake"]),
        sent(&[(done, 100)], &["Handshake"]),
    ];
    let min_rtt = Some(Duration::from_nanos(RTT as u64));
    c.facts.quic = Some(QuicFacts { min_rtt, ..QuicFacts::default() });
    let quic = *Split::attribute(&c).phase(PhaseName::Quic).unwrap();
    assert_eq!((quic.parts.fallback, quic.parts.client), (ms(1_000), ms(1)));
    assert_eq!((quic.parts.network, quic.parts.sum()), (ms(80), ms(1_081)));
}

/// A ClientHello sent again after one second and after three, without an answer.
#[test]
fn what_is_sent_again_in_vain_is_one_wait() {
    let second = 1_000 * MS;
    let mut c = Connection::default();
    let at = |ns| Stamp::kernel(Offset::from_nanos(ns));
    c.marks.set(Mark::ConnectStart, at(MS));
    c.marks.set(Mark::SecureConnectionStart, at(MS));
    c.flights = vec![sent(&[(MS, 1_200), (second, 1_200), (3 * second, 1_200)], &["Initial"])];
    c.facts.quic = Some(QuicFacts::default());
    let remote = "192.0.2.1:443".parse().unwrap();
    c.failure = Some(Failure {
        phase: PhaseName::Quic,
        cause: Cause::QuicConnectTimedOut { remote, after: Duration::from_secs(4) },
        at: Some(Offset::from_nanos(4 * second)),
    });
    let quic = *Split::attribute(&c).phase(PhaseName::Quic).unwrap();
    assert_eq!((quic.parts.client, quic.parts.unexplained), (ms(1), ms(3_999)));
}

const HELLO: [&str; 2] = ["Initial", "Initial"];

/// A ClientHello of two datagrams, each answered by a Retry; the second Retry comes after the client has answered the
/// first.
#[test]
fn a_second_retry_answers_nothing() {
    let again = RTT + MS;
    let quic = handshake(vec![
        sent(&[(0, 1_200), (0, 1_200)], &HELLO),
        received(&[(RTT, 120)], &["Retry"]),
        sent(&[(again, 1_200), (again, 1_200)], &HELLO),
        received(
            &[(RTT + 3 * MS, 120), (again + RTT + 2 * MS, 1_200)],
            &["Retry", "Initial", "Handshake"],
        ),
        sent(&[(again + RTT + 3 * MS, 300)], &["Handshake"]),
    ]);
    assert_eq!(quic.round_trips, 2, "{quic:?}");
    assert_eq!((quic.parts.server, quic.parts.client), (ms(2), ms(2)), "{quic:?}");
}

/// The second datagram of the ClientHello was late; the Retry answers the first.
#[test]
fn a_retry_answers_the_datagram_that_it_can_have_seen() {
    let again = RTT + MS;
    let quic = handshake(vec![
        sent(&[(0, 1_200), (5 * MS, 1_200)], &HELLO),
        received(&[(RTT, 120)], &["Retry"]),
        sent(&[(again, 1_200), (again, 1_200)], &HELLO),
        received(&[(again + RTT, 1_200)], &["Initial", "Handshake"]),
        sent(&[(again + RTT, 300)], &["Handshake"]),
    ]);
    assert_eq!((quic.round_trips, quic.parts.network), (2, ms(160)), "{quic:?}");
    assert_eq!(quic.parts.client, ms(1), "{quic:?}");
}

/// A server that acknowledges at once and then fetches its certificate is working in the meantime.
#[test]
fn an_acknowledgment_is_no_answer() {
    let answer = RTT + 50 * MS;
    let quic = handshake(vec![
        sent(&[(0, 1_200)], &["Initial"]),
        received(
            &[(RTT, 48), (answer, 1_200), (answer, 1_200)],
            &["(acknowledgment)", "Initial", "Handshake", "Handshake"],
        ),
        sent(&[(answer, 300)], &["Handshake"]),
    ]);
    assert_eq!(quic.round_trips, 1, "{quic:?}");
    assert_eq!((quic.parts.network, quic.parts.server), (ms(80), ms(50)), "{quic:?}");
}

/// The client acknowledges the first datagram before the others arrive.
#[test]
fn what_comes_too_soon_for_an_answer_was_on_its_way() {
    let quic = handshake(vec![
        sent(&[(0, 1_200)], &["Initial"]),
        received(&[(RTT, 1_200)], &["Initial"]),
        sent(&[(RTT + MS, 1_200)], &["Initial"]),
        received(&[(RTT + 3 * MS, 1_200), (RTT + 3 * MS, 900)], &["Handshake"]),
        sent(&[(RTT + 4 * MS, 300)], &["Handshake"]),
    ]);
    assert_eq!(quic.round_trips, 1, "{quic:?}");
    assert_eq!((quic.parts.transfer, quic.parts.client), (ms(3), ms(1)), "{quic:?}");
    assert_eq!(quic.parts.unexplained, Duration::ZERO);
}

/// One datagram does not fill a congestion window (RFC 9002 §7.2), so a stall after it is the server's.
#[test]
fn a_pause_after_one_datagram_is_no_round_trip() {
    let request = RTT + MS;
    let answer = request + RTT;
    let mut c = Connection::default();
    let marks = [
        (Mark::ConnectStart, 0),
        (Mark::SecureConnectionStart, 0),
        (Mark::HandshakeComplete, request),
        (Mark::RequestStart, request),
        (Mark::RequestEnd, request),
        (Mark::ResponseStart, answer),
        (Mark::ResponseEnd, answer + 60 * MS),
    ];
    for (mark, ns) in marks {
        c.marks.set(mark, Stamp::kernel(Offset::from_nanos(ns)));
    }
    c.flights = vec![
        sent(&[(0, 1_200)], &["Initial"]),
        received(&[(RTT, 1_200), (RTT, 900)], &["Initial", "Handshake"]),
        sent(&[(request, 400)], &["Handshake", "1-RTT"]),
        received(&[(answer, 1_200), (answer + 60 * MS, 900)], &["1-RTT"]),
    ];
    let min_rtt = Some(Duration::from_nanos(RTT as u64));
    c.facts.quic = Some(QuicFacts { min_rtt, ..QuicFacts::default() });
    let split = Split::attribute(&c);
    let receive = *split.phase(PhaseName::Receive).unwrap();
    assert_eq!((receive.parts.pause, receive.parts.network), (ms(60), ms(0)), "{receive:?}");
    assert_eq!((split.round_trips, split.held.len()), (2, 0), "{split:?}");
}

/// Sets the decrypted datagrams, in order: times and contents.
fn known(c: &mut Connection, datagrams: &[QuicDatagram]) {
    let quic = c.facts.quic.as_mut().unwrap();
    quic.datagrams = datagrams.to_vec();
}

fn datagram(direction: Direction, ns: i64) -> QuicDatagram {
    QuicDatagram {
        direction,
        at: Offset::from_nanos(ns),
        new: true,
        elicits: true,
        missing_since: None,
        skipped: 0,
        acknowledged: None,
        acknowledgement_delay: None,
    }
}

/// A handshake and a request at `REQUEST`, with the response at these times.
fn exchange(response: &[i64]) -> Connection {
    let mut c = Connection::default();
    let marks = [
        (Mark::ConnectStart, 0),
        (Mark::SecureConnectionStart, 0),
        (Mark::HandshakeComplete, REQUEST),
        (Mark::RequestStart, REQUEST),
        (Mark::RequestEnd, REQUEST),
        (Mark::ResponseStart, response[0]),
        (Mark::ResponseEnd, *response.last().unwrap()),
    ];
    for (mark, ns) in marks {
        c.marks.set(mark, Stamp::kernel(Offset::from_nanos(ns)));
    }
    let answer: Vec<Datagram> = response.iter().map(|at| (*at, 1_200)).collect();
    c.flights = vec![
        sent(&[(0, 1_200)], &["Initial"]),
        received(&[(RTT, 1_200), (RTT, 900)], &["Initial", "Handshake"]),
        sent(&[(REQUEST, 400)], &["Handshake", "1-RTT"]),
        received(&answer, &["1-RTT"]),
    ];
    let min_rtt = Some(Duration::from_nanos(RTT as u64));
    c.facts.quic = Some(QuicFacts { min_rtt, ..QuicFacts::default() });
    c
}

const REQUEST: i64 = RTT + MS;

/// The request's datagram was lost, and the client's timer retransmitted it after 250 ms.
#[test]
fn a_lost_request_is_variation_until_its_copy_left() {
    let again = REQUEST + 250 * MS;
    let mut c = exchange(&[again + RTT + 3 * MS]);
    c.flights.insert(3, sent(&[(again, 400)], &["1-RTT"]));
    let acknowledged = Some(Offset::from_nanos(again + RTT));
    let copy = QuicDatagram {
        new: false,
        missing_since: Some(Offset::from_nanos(REQUEST)),
        acknowledged,
        ..datagram(Direction::Sent, again)
    };
    known(&mut c, &[datagram(Direction::Sent, REQUEST), copy]);
    let parts = Split::attribute(&c).parts;
    assert_eq!((parts.variation, parts.server), (ms(250), ms(3)), "{parts:?}");
    assert_eq!((parts.network, parts.transfer), (ms(160), ms(0)), "{parts:?}");
    // The first one was acknowledged after all: the server was slow, and the copy was unnecessary.
    let first = QuicDatagram { acknowledged, ..datagram(Direction::Sent, REQUEST) };
    known(&mut c, &[first, copy]);
    let parts = Split::attribute(&c).parts;
    assert_eq!((parts.variation, parts.server), (ms(0), ms(253)), "{parts:?}");
}

/// A datagram of the response was lost, and arrived after two later ones.
#[test]
fn a_hole_in_the_response_is_variation() {
    let begun = REQUEST + RTT;
    let again = begun + 95 * MS;
    let mut c = exchange(&[begun, begun + MS / 10, again]);
    let filled = QuicDatagram {
        missing_since: Some(Offset::from_nanos(begun + MS / 10)),
        ..datagram(Direction::Received, again)
    };
    known(&mut c, &[datagram(Direction::Received, begun), filled]);
    let parts = Split::attribute(&c).parts;
    assert_eq!(parts.variation, ms(95) - Duration::from_micros(100), "{parts:?}");
    assert!(parts.pause.is_zero());
    // Without this it was the server that paused.
    known(&mut c, &[datagram(Direction::Received, begun), datagram(Direction::Received, again)]);
    let parts = Split::attribute(&c).parts;
    assert!(parts.variation.is_zero() && parts.pause > ms(90), "{parts:?}");
}

/// An acknowledgement without response data ends no wait and begins no answer.
#[test]
fn what_has_nothing_new_is_no_answer() {
    let hello = 200 * MS;
    let flights = vec![
        sent(&[(0, 1_200)], &["Initial"]),
        received(&[(RTT, 1_200)], &["Initial"]),
        sent(&[(RTT + MS, 1_200)], &["Initial"]),
        received(&[(hello, 1_200)], &["Initial", "Handshake"]),
        sent(&[(hello + MS, 300)], &["Handshake"]),
    ];
    let mut c = Connection::default();
    let at = |ns| Stamp::kernel(Offset::from_nanos(ns));
    c.marks.set(Mark::ConnectStart, at(0));
    c.marks.set(Mark::SecureConnectionStart, at(0));
    c.marks.set(Mark::HandshakeComplete, at(hello + MS));
    c.flights = flights;
    let min_rtt = Some(Duration::from_nanos(RTT as u64));
    c.facts.quic = Some(QuicFacts { min_rtt, ..QuicFacts::default() });
    let bare = |direction, at| QuicDatagram { new: false, ..datagram(direction, at) };
    known(&mut c, &[bare(Direction::Received, RTT), bare(Direction::Sent, RTT + MS)]);
    let quic = *Split::attribute(&c).phase(PhaseName::Quic).unwrap();
    assert_eq!((quic.round_trips, quic.parts.server), (1, ms(120)), "{quic:?}");
}

/// The server reports its acknowledgement delay, which is not part of the round trip.
#[test]
fn round_trips_of_acknowledgements_give_an_uncertainty() {
    let mut c = exchange(&[REQUEST + RTT + 20 * MS]);
    let acknowledged = |left: i64, took: i64, held: i64| QuicDatagram {
        acknowledged: Some(Offset::from_nanos(left + took)),
        acknowledgement_delay: Some(ms(held)),
        ..datagram(Direction::Sent, left)
    };
    known(&mut c, &[acknowledged(0, RTT + 9 * MS, 9), acknowledged(REQUEST, RTT + 12 * MS, 12)]);
    let split = Split::attribute(&c);
    assert_eq!(split.rtt, Some(ms(80)));
    let uncertainty = split.server_uncertainty().unwrap();
    assert!(uncertainty >= Duration::from_micros(160) && uncertainty < ms(1), "{uncertainty:?}");
}

/// Twelve datagrams, acknowledged in pairs: the thirteenth and the fourteenth came a round trip after the first
/// acknowledgement, which had left before the last of the twelve arrived.
#[test]
fn a_full_window_follows_the_acknowledgement_that_opened_it() {
    let begun = REQUEST + RTT;
    let step = 2 * MS;
    let mut at: Vec<i64> = (0..12).map(|i| begun + i * step).collect();
    let acknowledgement = begun + step + MS / 10;
    let released = acknowledgement + RTT + MS / 10;
    at.extend([released, released + MS / 10]);
    let mut c = exchange(&at);
    let answer = c.flights.pop().unwrap();
    let (early, late) = answer.chunks.split_at(2);
    let part = |chunks: &[Chunk]| Flight { chunks: chunks.to_vec(), ..answer.clone() };
    c.flights.extend([part(early), sent(&[(acknowledgement, 40)], &["1-RTT"]), part(late)]);
    let mut datagrams: Vec<QuicDatagram> =
        at.iter().map(|at| datagram(Direction::Received, *at)).collect();
    let bare = QuicDatagram { new: false, ..datagram(Direction::Sent, acknowledgement) };
    datagrams.insert(2, bare);
    known(&mut c, &datagrams);
    let split = Split::attribute(&c);
    let total = Duration::from_nanos((released + MS / 10) as u64);
    assert_eq!(split.parts.sum(), total, "{split:?}");
    let receive = *split.phase(PhaseName::Receive).unwrap();
    assert_eq!(receive.stalls, 1, "{receive:?}");
    assert_eq!((receive.parts.network, receive.parts.pause), (ms(80), ms(0)), "{receive:?}");
}
