use proptest::prelude::*;

use super::*;
use crate::timeline::*;

const RTT: i64 = 80_000_000;

fn at(ns: i64) -> Stamp {
    Stamp::kernel(Offset::from_nanos(ns))
}

fn flight(direction: Direction, chunks: &[(i64, u64)]) -> Flight {
    let chunks = chunks.iter().map(|&(ns, bytes)| Chunk::new(at(ns), bytes)).collect();
    Flight { direction, chunks, messages: Vec::new() }
}

/// A connection over an 80 ms path: 2 ms of DNS, TCP, `flights` as the TLS handshake.
fn connection(handshake: &[Flight], complete: i64) -> Connection {
    let mut c = Connection::default();
    c.marks.set(Mark::DomainLookupStart, at(100));
    c.marks.set(Mark::DomainLookupEnd, at(2_000_000));
    c.marks.set(Mark::ConnectStart, at(2_010_000));
    c.marks.set(Mark::TcpConnected, at(2_010_000 + RTT));
    c.marks.set(Mark::SecureConnectionStart, at(2_010_000 + RTT));
    c.marks.set(Mark::HandshakeComplete, at(complete));
    c.marks.set(Mark::RequestStart, at(complete));
    c.marks.set(Mark::RequestEnd, at(complete));
    c.marks.set(Mark::ResponseStart, at(complete + RTT + 8_000_000));
    c.marks.set(Mark::ResponseEnd, at(complete + RTT + 9_000_000));
    c.flights = handshake.to_vec();
    c.flights.push(flight(Direction::Sent, &[(complete, 300)]));
    c.flights.push(flight(
        Direction::Received,
        &[(complete + RTT + 8_000_000, 1460), (complete + RTT + 9_000_000, 500)],
    ));
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(Duration::from_nanos(RTT as u64)),
        send_mss: Some(1460),
        ..TcpFacts::default()
    });
    c
}

fn ms(n: f64) -> Duration {
    Duration::from_nanos((n * 1e6) as u64)
}

#[test]
fn tls13_is_one_round_trip_and_the_rest_is_server_and_client() {
    let hello = 2_010_000 + RTT + 300_000;
    let answer = hello + RTT + 2_900_000;
    let done = answer + 900_000;
    let split = Split::attribute(&connection(
        &[
            flight(Direction::Sent, &[(hello, 517)]),
            flight(Direction::Received, &[(answer, 2_800)]),
        ],
        done,
    ));
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!(tls.round_trips, 1);
    assert_eq!(tls.parts.network, ms(80.0));
    assert_eq!(tls.parts.server, ms(2.9));
    assert_eq!(tls.parts.client, ms(1.2));
    let wait = split.phase(PhaseName::Wait).unwrap();
    assert_eq!((wait.round_trips, wait.parts.server), (1, ms(8.0)));
    assert_eq!(split.phase(PhaseName::Receive).unwrap().parts.transfer, ms(1.0));
    assert_eq!(split.phase(PhaseName::Resolve).unwrap().parts.resolver, ms(1.9999));
    assert_eq!(split.round_trips, 3);
    assert_eq!(split.total(), total(&connection(&[], done)));
    assert_eq!(split.parts.unexplained, Duration::ZERO);
}

/// A ticket with a certificate chain makes a ClientHello larger than a congestion window.
#[test]
fn a_client_that_waits_for_acknowledgements_waits_on_the_network() {
    let hello = 2_010_000 + RTT + 300_000;
    let answer = hello + 2 * RTT + 2_900_000;
    let split = Split::attribute(&connection(
        &[
            flight(Direction::Sent, &[(hello, 14_000), (hello + RTT, 1_102)]),
            flight(Direction::Received, &[(answer, 261)]),
        ],
        answer + 900_000,
    ));
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.round_trips, tls.parts.network), (2, ms(160.0)));
    assert_eq!((tls.parts.server, tls.parts.client), (ms(2.9), ms(1.2)));
    assert_eq!(tls.parts.transfer, Duration::ZERO);
}

/// An upload whose last byte leaves ten seconds after its first.
fn slow_upload(window_full: Option<Duration>) -> Parts {
    let begin = 2_010_000 + RTT + 1_000_000;
    let end = begin + 10_000_000_000;
    let answer = end + RTT + 8_000_000;
    let mut c = connection(&[], begin);
    c.marks.set(Mark::RequestEnd, at(end));
    c.marks.set(Mark::ResponseStart, at(answer));
    c.marks.set(Mark::ResponseEnd, at(answer + 1_000_000));
    c.flights = vec![
        flight(Direction::Sent, &[(begin, 1_460), (end, 1_460)]),
        flight(Direction::Received, &[(answer, 1_460), (answer + 1_000_000, 500)]),
    ];
    c.facts.tcp.as_mut().unwrap().receive_window_limited = window_full;
    Split::attribute(&c).phase(PhaseName::Send).unwrap().parts
}

#[test]
fn a_server_that_does_not_read_has_the_time_that_its_window_was_full() {
    let held = slow_upload(Some(ms(9_000.0)));
    assert_eq!((held.server, held.network, held.transfer), (ms(9_000.0), ms(960.0), ms(40.0)));
    // For less than half of the time, or not at all.
    for window_full in [Some(ms(4_000.0)), None] {
        let parts = slow_upload(window_full);
        assert_eq!((parts.server, parts.network), (Duration::ZERO, ms(64.0 * 80.0)));
    }
}

#[test]
fn tls12_is_two_round_trips() {
    let t0 = 2_010_000 + RTT;
    let split = Split::attribute(&connection(
        &[
            flight(Direction::Sent, &[(t0, 200)]),
            flight(Direction::Received, &[(t0 + RTT, 3_000)]),
            flight(Direction::Sent, &[(t0 + RTT + 1_000_000, 126)]),
            flight(Direction::Received, &[(t0 + 2 * RTT + 1_000_000, 258)]),
        ],
        t0 + 2 * RTT + 1_000_000,
    ));
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.round_trips, tls.parts.network), (2, ms(160.0)));
    assert_eq!((tls.parts.server, tls.parts.client), (Duration::ZERO, ms(1.0)));
}

#[test]
fn a_chain_that_overflows_the_initial_window_costs_a_counted_round_trip() {
    let t0 = 2_010_000 + RTT;
    let answer = t0 + RTT;
    let split = Split::attribute(&connection(
        &[
            flight(Direction::Sent, &[(t0, 200)]),
            flight(Direction::Received, &[(answer, 14_600), (answer + RTT, 3_000)]),
        ],
        answer + RTT,
    ));
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.round_trips, tls.parts.network), (2, ms(160.0)));
    assert_eq!(tls.parts.transfer, Duration::ZERO);
}

#[test]
fn a_response_that_outgrows_the_window_is_one_run_whatever_the_client_sends_meanwhile() {
    let done = 2_010_000 + 2 * RTT;
    let mut c = connection(&[], done);
    let begun = done + RTT + 8_000_000;
    c.flights.truncate(1);
    c.flights.push(flight(Direction::Received, &[(begun, 1_460), (begun + 200_000, 13_000)]));
    c.flights.push(flight(Direction::Sent, &[(begun + 300_000, 31)]));
    c.flights.push(flight(Direction::Received, &[(begun + RTT + 400_000, 9_000)]));
    c.marks.set(Mark::ResponseEnd, at(begun + RTT + 400_000));
    let receive = Split::attribute(&c).phase(PhaseName::Receive).copied().unwrap();
    assert_eq!((receive.round_trips, receive.parts.network), (1, ms(80.0)));
    assert_eq!(receive.parts.transfer, ms(0.4));
}

#[test]
fn a_lost_syn_is_variation_and_not_a_slow_server() {
    let mut c = connection(&[], 0);
    c = Connection {
        marks: {
            let mut marks = Marks::default();
            marks.set(Mark::ConnectStart, at(0));
            marks.set(Mark::TcpConnected, at(1_000_000_000 + RTT));
            marks
        },
        flights: Vec::new(),
        ..c
    };
    c.facts.tcp =
        Some(TcpFacts { min_rtt: Some(Duration::from_nanos(RTT as u64)), ..TcpFacts::default() });
    let split = Split::attribute(&c);
    let connect = split.phase(PhaseName::Connect).unwrap();
    assert_eq!((connect.parts.network, connect.parts.variation), (ms(80.0), ms(1000.0)));
}

#[test]
fn the_wait_for_a_losing_attempt_is_fallback() {
    let mut c = connection(&[], 0);
    c.marks = Marks::default();
    c.marks.set(Mark::ConnectStart, at(0));
    c.marks.set(Mark::TcpConnected, at(250_000_000 + RTT));
    let attempt = |start: i64, outcome| Attempt {
        remote: "192.0.2.1:443".parse().unwrap(),
        start: Offset::from_nanos(start),
        end: None,
        outcome,
    };
    c.attempts = vec![attempt(0, AttemptOutcome::Lost), attempt(250_000_000, AttemptOutcome::Won)];
    let connect = Split::attribute(&c).phase(PhaseName::Connect).copied().unwrap();
    assert_eq!((connect.parts.fallback, connect.parts.network), (ms(250.0), ms(80.0)));
}

#[test]
fn a_failed_phase_is_shown_up_to_its_failure() {
    let mut c = connection(&[], 0);
    c.marks = Marks::default();
    c.marks.set(Mark::ConnectStart, at(0));
    c.failure = Some(Failure {
        phase: PhaseName::Connect,
        cause: Cause::ConnectTimedOut {
            remote: "192.0.2.1:443".parse().unwrap(),
            after: Duration::from_secs(2),
        },
        at: Some(Offset::from_nanos(2_000_000_000)),
    });
    let split = Split::attribute(&c);
    assert_eq!(split.phases.len(), 1);
    assert!(!split.phases[0].phase.complete);
    assert_eq!(split.phases[0].parts.unexplained, ms(2000.0));
}

/// The `marks` that come before `end`.
fn before(marks: &Marks, end: Mark) -> Marks {
    let mut kept = Marks::default();
    marks.iter().filter(|(mark, _)| *mark < end).for_each(|(mark, stamp)| kept.set(mark, stamp));
    kept
}

/// The client waits for a server that stops in the middle of its flight, or of the body; an immediate refusal is time
/// that the client spent reading the answer.
#[test]
fn a_wait_in_vain_is_nobodys_work() {
    let hello = 2_010_000 + RTT;
    let (half, given_up) = (hello + RTT + 1_000_000, hello + 4_000_000_000);
    let refused = Cause::TlsMisbehaved { detail: "at once".into() };
    let stopped = Cause::TimedOut {
        after: Duration::from_secs(4),
        limit: TimeLimit::Connection,
        peer: LastSeen::Stopped,
    };
    let failed = |phase, cause: &Cause| Failure {
        phase,
        cause: cause.clone(),
        at: Some(Offset::from_nanos(given_up)),
    };
    let mut c = connection(
        &[flight(Direction::Sent, &[(hello, 517)]), flight(Direction::Received, &[(half, 1_400)])],
        half,
    );
    let whole = c.clone();
    c.flights.truncate(2);
    c.marks = before(&c.marks, Mark::HandshakeComplete);
    let rest = Duration::from_nanos((given_up - half) as u64);
    c.failure = Some(failed(PhaseName::Tls, &stopped));
    let tls = *Split::attribute(&c).phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.parts.unexplained, tls.parts.client), (rest, Duration::ZERO));
    assert_eq!((tls.parts.network, tls.parts.server), (ms(80.0), ms(1.0)));
    c.failure = Some(failed(PhaseName::Tls, &refused));
    let tls = *Split::attribute(&c).phase(PhaseName::Tls).unwrap();
    assert_eq!((tls.parts.unexplained, tls.parts.client), (Duration::ZERO, rest));

    let mut body = whole;
    let last = body.flights.last().unwrap().last();
    body.marks = before(&body.marks, Mark::ResponseEnd);
    body.failure = Some(failed(PhaseName::Receive, &stopped));
    let receive = *Split::attribute(&body).phase(PhaseName::Receive).unwrap();
    assert_eq!(receive.parts.transfer, ms(1.0));
    assert_eq!(receive.parts.unexplained, Offset::from_nanos(given_up).since(last));
}

/// Through a proxy that speaks TLS: tickets arrive before its answer to CONNECT, which takes it 30 ms.
fn through_a_proxy() -> Connection {
    let hello = 2_010_000 + RTT + 200_000;
    let finished = hello + RTT + 1_000_000;
    let tunnel = finished + 100_000;
    let open = tunnel + RTT + 30_000_000;
    let inner_hello = open + 500_000;
    let inner_answer = inner_hello + RTT + 25_000_000;
    let complete = inner_answer + 500_000;
    let mut c = connection(
        &[
            flight(Direction::Sent, &[(hello, 517)]),
            flight(Direction::Received, &[(finished - 300_000, 1_400)]),
            flight(Direction::Sent, &[(finished, 80), (tunnel, 120)]),
            flight(Direction::Received, &[(finished + RTT + 50_000, 480), (open, 60)]),
            flight(Direction::Sent, &[(inner_hello, 540)]),
            flight(Direction::Received, &[(inner_answer, 1_440)]),
        ],
        complete,
    );
    c.marks.set(Mark::ProxySecureStart, at(2_010_000 + RTT));
    c.marks.set(Mark::ProxyHandshakeComplete, at(finished));
    c.marks.set(Mark::TunnelStart, at(tunnel));
    c.marks.set(Mark::TunnelEnd, at(open));
    c.marks.set(Mark::SecureConnectionStart, at(open));
    c
}

#[test]
fn the_tunnel_is_a_round_trip_and_the_proxys_own_time() {
    use PhaseName::{Connect, ProxyTls, Receive, Resolve, Send, Tls, Tunnel, Wait};
    let c = through_a_proxy();
    assert_eq!(c.marks.disorder(), None);
    let split = Split::attribute(&c);
    let names: Vec<PhaseName> = split.phases.iter().map(|split| split.phase.name).collect();
    assert_eq!(names, [Resolve, Connect, ProxyTls, Tunnel, Tls, Send, Wait, Receive]);
    for phase in &split.phases {
        assert_eq!(phase.parts.sum(), phase.phase.duration(), "{phase:?}");
    }
    assert_eq!(split.total(), total(&c));
    let [proxy_tls, tunnel, tls] = [ProxyTls, Tunnel, Tls].map(|n| *split.phase(n).unwrap());
    assert_eq!([proxy_tls, tunnel, tls].map(|phase| phase.round_trips), [1, 1, 1]);
    assert_eq!((tunnel.parts.network, tunnel.parts.server), (ms(80.0), ms(30.0)));
    assert_eq!((tunnel.parts.client, tunnel.parts.transfer), (ms(0.1), ms(0.0)));
    // All time behind the proxy counts as the server's.
    assert_eq!((tls.parts.network, tls.parts.server), (ms(80.0), ms(25.0)));
    let metrics = crate::run::Metrics::from_connection(&c);
    let setup = c.marks.at(Mark::HandshakeComplete).unwrap().since(split.phases[1].phase.start);
    assert_eq!(metrics.get(crate::run::Metric::Setup).map(Duration::from_nanos), Some(setup));
}

#[test]
fn a_refused_tunnel_ends_in_its_phase() {
    let mut c = through_a_proxy();
    let refused_at = c.marks.at(Mark::TunnelEnd).unwrap();
    c.marks = before(&c.marks, Mark::TunnelEnd);
    c.flights.truncate(4);
    c.failure = Some(Failure {
        phase: PhaseName::Tunnel,
        cause: Cause::ProxyRefused {
            authority: "proxy.test:3128".into(),
            detail: "403 Forbidden".into(),
            status: Some(403),
        },
        at: Some(refused_at),
    });
    let split = Split::attribute(&c);
    let tunnel = split.phases.last().unwrap();
    assert_eq!((tunnel.phase.name, tunnel.phase.complete), (PhaseName::Tunnel, false));
    assert_eq!((tunnel.phase.end, tunnel.parts.server), (refused_at, ms(30.0)));
    assert_eq!(c.failure.unwrap().failure_type(), FailureType::ProxyRefused);
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let marks = proptest::collection::vec(proptest::option::of(0i64..2_000_000_000), 14);
    let flights = proptest::collection::vec(
        (any::<bool>(), proptest::collection::vec((0i64..2_000_000_000, 1u64..9000), 1..5)),
        0..8,
    );
    let rtt = proptest::option::of(0u64..500_000_000);
    (marks, flights, rtt).prop_map(|(marks, mut flights, rtt)| {
        let mut c = Connection::default();
        for (mark, ns) in Mark::ALL.into_iter().zip(marks) {
            if let Some(ns) = ns {
                c.marks.set(mark, at(ns));
            }
        }
        for (_, chunks) in &mut flights {
            chunks.sort_unstable();
        }
        flights.sort_by_key(|(_, chunks)| chunks[0].0);
        c.flights = flights
            .iter()
            .map(|(sent, chunks)| {
                flight(if *sent { Direction::Sent } else { Direction::Received }, chunks)
            })
            .collect();
        c.facts.tcp =
            Some(TcpFacts { syn_rtt: rtt.map(Duration::from_nanos), ..TcpFacts::default() });
        c
    })
}

proptest! {
    #[test]
    fn parts_add_up_to_every_phase_and_to_the_total(c in any_connection()) {
        let split = Split::attribute(&c);
        for phase in &split.phases {
            prop_assert_eq!(phase.parts.sum(), phase.phase.duration(), "{:?}", phase);
        }
        prop_assert_eq!(split.total(), total(&c));
    }

    /// A round trip for an acknowledgement may have begun in the previous phase.
    #[test]
    fn network_is_no_more_than_the_round_trips_counted(c in any_connection()) {
        let split = Split::attribute(&c);
        let network: Duration = split.phases.iter().map(|phase| phase.parts.network).sum();
        let Some(rtt) = split.rtt else { return Ok(()) };
        prop_assert!(network <= rtt * split.round_trips);
    }
}

/// Timers of curl or Firefox show when a handshake ended, but not who kept it waiting.
#[test]
fn a_handshake_without_flights_is_nobodys() {
    let split = Split::attribute(&connection(&[], 90_000_000));
    let tls = split.phase(PhaseName::Tls).unwrap();
    assert_eq!(tls.parts.unexplained, tls.phase.duration());
    assert!(!tls.phase.duration().is_zero() && tls.round_trips == 0);
}

/// Data later than an acknowledgement explains was written later: the application was working.
#[test]
fn what_an_acknowledgement_does_not_explain_is_a_pause() {
    let hello = 2_010_000 + RTT;
    let begun = hello + RTT;
    let answer = |first: u64, gap: i64| {
        let split = Split::attribute(&connection(
            &[
                flight(Direction::Sent, &[(hello, 517)]),
                flight(Direction::Received, &[(begun, first), (begun + gap, 400)]),
            ],
            begun + gap,
        ));
        *split.phase(PhaseName::Tls).unwrap()
    };
    for first in [200, 14_600] {
        let paused = answer(first, RTT + 40_000_000);
        assert_eq!((paused.round_trips, paused.stalls), (1, 0), "{first}");
        assert_eq!((paused.parts.pause, paused.parts.network), (ms(120.0), ms(80.0)), "{first}");
        let held = answer(first, RTT);
        assert_eq!((held.round_trips, held.stalls), (2, 1), "{first}");
        assert_eq!((held.parts.pause, held.parts.network), (ms(0.0), ms(160.0)), "{first}");
    }
}

#[test]
fn a_coarse_clock_is_in_the_uncertainty() {
    let exact = connection(&[], 90_000_000);
    let mut coarse = exact.clone();
    for (mark, stamp) in exact.marks.iter() {
        let at = Offset::from_nanos(stamp.at.as_nanos() / 1_000_000 * 1_000_000);
        let clock = Clock::Reported { resolution_ns: 1_000_000 };
        coarse.marks.set(mark, Stamp { at, clock });
    }
    let (exact, coarse) = (Split::attribute(&exact), Split::attribute(&coarse));
    assert_eq!((exact.resolution, coarse.resolution), (ms(0.0), ms(1.0)));
    let (known, coarse) = (exact.response_uncertainty(), coarse.response_uncertainty());
    assert!(coarse.unwrap() >= known.unwrap() + ms(2.0), "{coarse:?}, {known:?}");
}
