//! QUIC handshakes whose datagrams do not come one behind the other: which of them answers what.

use std::time::Duration;

use super::{PhaseSplit, Split};
use crate::timeline::*;

const RTT: i64 = 80_000_000;
const MS: i64 = 1_000_000;

/// When, and how large.
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
    *Split::of(&c).phase(PhaseName::Quic).unwrap()
}

fn ms(n: i64) -> Duration {
    Duration::from_nanos((n * MS) as u64)
}

/// An address that did not answer was tried for a second before the one that did.
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
    let quic = *Split::of(&c).phase(PhaseName::Quic).unwrap();
    assert_eq!((quic.parts.fallback, quic.parts.client), (ms(1_000), ms(1)));
    assert_eq!((quic.parts.network, quic.parts.sum()), (ms(80), ms(1_081)));
}

/// A ClientHello that is sent again after one second and three, to nobody.
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
    let quic = *Split::of(&c).phase(PhaseName::Quic).unwrap();
    assert_eq!((quic.parts.client, quic.parts.unexplained), (ms(1), ms(3_999)));
}

const HELLO: [&str; 2] = ["Initial", "Initial"];

/// A ClientHello of two datagrams, each answered by a Retry; the second one comes when the client has
/// answered the first.
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

/// A server that acknowledges at once and then fetches its certificate is at work meanwhile.
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

/// One datagram fills no congestion window (RFC 9002 §7.2): what stands still behind it is the server.
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
    let split = Split::of(&c);
    let receive = *split.phase(PhaseName::Receive).unwrap();
    assert_eq!((receive.parts.pause, receive.parts.network), (ms(60), ms(0)), "{receive:?}");
    assert_eq!((split.round_trips, split.held.len()), (2, 0), "{split:?}");
}
