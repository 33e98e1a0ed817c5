use std::time::Duration;

use proptest::prelude::*;

use super::fixtures::{Path, healthy, lacking, over_quic};
use super::reconcile::{Verdict, Witness, reconcile, server_timing};
use super::*;
use firstbyte_core::run::Shortfall;
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    AttemptOutcome, Chunk, Clock, Connection, Direction, Flight, Mark, Offset, Stamp,
};

fn all_findings(measured: &MeasuredWays) -> Vec<Finding> {
    findings(&Evidence::from_measured(measured.clone())).all
}

fn equation(way: &MeasuredWay, first: Option<&Connection>) -> Option<Equation> {
    let splits: Vec<Split> = way.proven.iter().map(|(_, c)| Split::attribute(c)).collect();
    Equation::from_splits(&splits, first.map(Split::attribute).as_ref())
}

fn kinds(evidence: &MeasuredWays) -> Vec<&'static str> {
    all_findings(evidence).iter().map(|finding| finding.kind.name()).collect()
}

fn ms(n: f64) -> Duration {
    Duration::from_nanos((n * 1e6) as u64)
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(kinds(&healthy(&Path::default())), [""; 0]);
    assert_eq!(kinds(&healthy(&Path { rtt: 200_000, ..Path::default() })), [""; 0]);
    assert_eq!(kinds(&healthy(&Path { rtt: 300, ..Path::default() })), [""; 0]);
    assert_eq!(kinds(&MeasuredWays::default()), [""; 0]);
}

#[test]
fn each_fault_is_one_finding_and_costs_what_it_takes() {
    let sound = Path::default();
    let cases: [(&str, Path, f64); 14] = [
        ("tls-1.2", Path { tls12: true, ..sound.clone() }, 30.0),
        ("hello-retry-request", Path { retry_request: true, ..sound.clone() }, 30.0),
        ("large-chain", Path { stalls: 2, ..sound.clone() }, 60.0),
        ("slow-server", Path { think: 120_000, ..sound.clone() }, 120.0),
        ("nagle", Path { pause: 70_000, tickets: false, ..sound.clone() }, 70.0),
        ("pause", Path { pause: 500_000, ..sound.clone() }, 500.0),
        ("syn-loss", Path { syn_lost: true, ..sound.clone() }, 1_000.0),
        ("slow-dns", Path { dns: 150_000, ..sound.clone() }, 150.0),
        ("dead-name-server", Path { dead_server: 5_000_000, ..sound.clone() }, 5_000.0),
        ("late-aaaa", Path { aaaa_late: 50_000, ..sound.clone() }, 50.0),
        ("fallback", Path { fallback: 250_000, ..sound.clone() }, 250.0),
        ("slow-tunnel", Path { tunnel: 60_000, ..sound.clone() }, 60.0),
        ("slow-handshake", Path { handshake_server: 40_000, ..sound.clone() }, 40.0),
        ("slow-client", Path { client: 30_000, ..sound }, 30.0),
    ];
    for (name, path, cost) in cases {
        let found = all_findings(&healthy(&path));
        let names: Vec<&str> = found.iter().map(|f| f.kind.name()).collect();
        assert_eq!(names, [name]);
        let off = found[0].cost.abs_diff(ms(cost));
        assert!(off < ms(1.5), "{name} costs {:?}, not {cost} ms", found[0].cost);
        assert!(!found[0].evidence.is_empty() && !found[0].advice.is_empty());
    }
}

#[test]
fn an_address_that_refuses_is_not_said_to_be_silent() {
    let title = |refused: bool| {
        let mut evidence = healthy(&Path { fallback: 250_000, ..Path::default() });
        let all = evidence.ways.iter_mut().flat_map(|(_, way)| &mut way.proven);
        for first in all.filter_map(|(_, c)| c.attempts.first_mut()).filter(|_| refused) {
            first.outcome = AttemptOutcome::Failed { error: "connection refused".into() };
        }
        let found = all_findings(&evidence);
        assert_eq!(found[0].kind, FindingKind::Fallback);
        (found[0].title.clone(), found[0].evidence.clone())
    };
    assert_eq!(title(false).0, "The client first tries an IPv6 address that does not answer");
    let (title, evidence) = title(true);
    assert_eq!(title, "The client first tries an IPv6 address that fails");
    let before = "2001:db8::1 failed and cost 250 ms before the client connected to 198.51.100.1";
    assert!(evidence.starts_with(before), "{evidence}");
}

#[test]
fn a_response_held_back_behind_tickets_is_no_slow_server() {
    let reused_is_fast = |path: &Path| {
        let mut evidence = healthy(path);
        evidence.ways.retain(|(kind, _)| *kind != WayKind::Reused);
        evidence.ways.push((WayKind::Reused, Path::default().reused_way(20)));
        evidence
    };
    let path = Path { think: 30_000 + 41_000, ..Path::default() };
    assert_eq!(kinds(&healthy(&path)), ["slow-server"], "it is as slow without tickets");
    let found = all_findings(&reused_is_fast(&path));
    assert_eq!((found.len(), found[0].kind), (1, FindingKind::Nagle));
    assert!(found[0].cost.abs_diff(ms(71.0)) < ms(1.5), "{:?}", found[0].cost);
    let slow = Path { think: 120_000, ..Path::default() };
    assert_eq!(kinds(&reused_is_fast(&slow)), ["slow-server"], "no acknowledgement takes 90 ms");
}

#[test]
fn early_data_after_a_retry_request_is_no_finding_of_its_own() {
    let path = Path { retry_request: true, ..Path::default() };
    let mut evidence = healthy(&path);
    evidence.ways.retain(|(kind, _)| *kind != WayKind::EarlyData);
    evidence.ways.push((WayKind::EarlyData, lacking(&path, Shortfall::EarlyDataRejected)));
    assert_eq!(kinds(&evidence), ["hello-retry-request"]);
}

#[test]
fn connections_with_another_status_are_no_evidence() {
    let sound = Path::default();
    let answer_with = |way: &mut MeasuredWay, rounds: std::ops::Range<usize>, status: u16| {
        for (_, connection) in &mut way.proven[rounds] {
            connection.facts.http.as_mut().unwrap().status = Some(status);
        }
    };
    let mut measured = healthy(&sound);
    measured.ways.push((WayKind::Plain, sound.way(20)));
    let alike = Evidence::from_measured(measured.clone());
    assert!(alike.unlike_answers.is_empty());
    for (kind, way) in &mut measured.ways {
        match kind {
            WayKind::Subject => answer_with(way, 0..6, 429),
            WayKind::Reused => answer_with(way, 0..20, 429),
            // `http:` often redirects to `https:`.
            WayKind::Plain => answer_with(way, 0..20, 301),
            _ => {}
        }
    }
    let evidence = Evidence::from_measured(measured.clone());
    let counts = |kind| {
        let way = evidence.way(kind).unwrap();
        let others = way.unproven.iter().filter(|(why, _)| *why == Shortfall::OtherStatus);
        (way.proven.len(), others.count(), way.asked())
    };
    assert_eq!(counts(WayKind::Subject), (14, 6, 20));
    assert_eq!(counts(WayKind::Reused), (0, 20, 20));
    assert_eq!(counts(WayKind::Resumed), (20, 0, 20));
    assert_eq!(counts(WayKind::Plain), (20, 0, 20));
    let listed: Vec<WayKind> = evidence.unlike_answers.iter().map(|(kind, _)| *kind).collect();
    assert!(listed.contains(&WayKind::Reused) && !listed.contains(&WayKind::Plain));
    // The first connection is counted, but joins the evidence only if its status is the usual one.
    assert_eq!(evidence.unlike_answers[0].1.statuses(), [(200, 15), (429, 6)]);
    assert!(evidence.subject().unwrap().first.is_some());
    assert!(evidence.way(WayKind::Reused).unwrap().first.is_some());
    assert_eq!(kinds(&measured), [""; 0], "another status does not mean that nothing is reused");
}

#[test]
fn a_first_connection_with_another_status_is_told_and_left_out() {
    let mut measured = healthy(&Path::default());
    for (_, way) in &mut measured.ways {
        for (_, connection) in &mut way.proven {
            connection.facts.http.as_mut().unwrap().status = Some(429);
        }
    }
    let evidence = Evidence::from_measured(measured);
    let subject = evidence.subject().unwrap();
    assert_eq!((subject.proven.len(), subject.first.is_none()), (20, true));
    assert_eq!(evidence.unlike_answers[0].1.statuses(), [(429, 20), (200, 1)]);
}

#[test]
fn what_servers_do_not_offer_is_found_by_trying() {
    let sound = Path::default();
    let with = |kind: WayKind, way: MeasuredWay| {
        let mut evidence = healthy(&sound);
        evidence.ways.retain(|(other, _)| *other != kind);
        evidence.ways.push((kind, way));
        evidence
    };
    let none = lacking(&sound, Shortfall::NoSession);
    let evidence = with(WayKind::Resumed, none.clone());
    assert_eq!(kinds(&evidence), ["no-resumption"]);
    // Without sessions there is no early data: one cause, one finding.
    let mut evidence = with(WayKind::EarlyData, none);
    evidence.ways.retain(|(kind, _)| *kind != WayKind::Resumed);
    evidence.ways.push((WayKind::Resumed, lacking(&sound, Shortfall::NotResumed)));
    let found = all_findings(&evidence);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].evidence, "20 of 20 sessions offered were declined.");

    for (why, words) in [
        (
            Shortfall::EarlyDataNotAllowed,
            "20 of 20 visits had tickets that do not allow early \
                                          data.",
        ),
        (Shortfall::EarlyDataRejected, "20 of 20 visits had their early data rejected."),
        (Shortfall::TooEarly, "20 of 20 visits were answered 425 (Too Early)."),
    ] {
        let found = all_findings(&with(WayKind::EarlyData, lacking(&sound, why)));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].kind, found[0].evidence.as_str()), (FindingKind::NoEarlyData, words));
        assert_eq!((found[0].cost, found[0].concerns), (ms(30.0), Some("repeated visits")));
    }
    let unsent = with(WayKind::EarlyData, lacking(&sound, Shortfall::EarlyDataNotSent));
    assert_eq!(all_findings(&unsent), []);
    let found = kinds(&with(WayKind::Reused, lacking(&sound, Shortfall::NotReused)));
    assert_eq!(found, ["no-reuse"]);
}

/// A busy client acknowledged the server's settings 0.1 ms after its request. Of the sizes that were read, six
/// bytes would not fit in four segments.
#[test]
fn what_leaves_behind_the_request_is_not_answered_by_the_response() {
    let at = |us: i64| Stamp { at: Offset::from_nanos(us * 1_000), clock: Clock::Kernel };
    let flight = |direction, chunks: &[(i64, u64)]| Flight {
        direction,
        chunks: chunks.iter().map(|(us, bytes)| Chunk::new(at(*us), *bytes)).collect(),
        messages: Vec::new(),
    };
    let connection = |path: &Path, request: i64, flights: &[(Direction, &[(i64, u64)])]| {
        let mut c = path.connection();
        c.flights = flights.iter().map(|(to, chunks)| flight(*to, chunks)).collect();
        let last = flights.last().unwrap().1;
        for (mark, us) in [
            (Mark::DomainLookupStart, 20),
            (Mark::DomainLookupEnd, 2_990),
            (Mark::ConnectStart, 3_000),
            (Mark::TcpConnected, 33_000),
            (Mark::SecureConnectionStart, 33_000),
            (Mark::HandshakeComplete, request - 500),
            (Mark::RequestStart, request),
            (Mark::RequestEnd, request),
            (Mark::ResponseStart, last[last.len().min(2) - 1].0),
            (Mark::ResponseEnd, last[last.len() - 1].0),
        ] {
            c.marks.set(mark, at(us));
        }
        (c.lookups, c.attempts[0].start) = (Vec::new(), Offset::from_nanos(3_000_000));
        c.attempts[0].end = Some(Offset::from_nanos(33_000_000));
        c.facts.tcp.as_mut().unwrap().send_mss = Some(1_428);
        c.facts.tls.as_mut().unwrap().certificates[0].der_bytes = 600;
        c
    };
    let (sent, received) = (Direction::Sent, Direction::Received);
    let subject = connection(
        &Path::default(),
        64_603,
        &[
            (sent, &[(33_047, 1_490)]),
            (received, &[(63_651, 1_248)]),
            (sent, &[(64_603, 262)]),
            (received, &[(94_871, 311), (95_025, 520), (95_059, 597), (95_073, 1_434)]),
        ],
    );
    let older = connection(
        &Path { tls12: true, ..Path::default() },
        97_865,
        &[
            (sent, &[(33_232, 186)]),
            (received, &[(66_282, 1_118)]),
            (sent, &[(66_942, 93)]),
            (received, &[(97_358, 51), (97_358, 69)]),
            (sent, &[(97_865, 203), (98_000, 38)]),
            (received, &[(128_100, 176), (128_136, 1_252), (128_153, 786)]),
        ],
    );
    let way = |c: &Connection| MeasuredWay {
        proven: (0..9).map(|round| (round, c.clone())).collect(),
        ..MeasuredWay::default()
    };
    let evidence = MeasuredWays {
        ways: vec![(WayKind::Subject, way(&subject)), (WayKind::Tls12, way(&older))],
        ..MeasuredWays::default()
    };
    assert_eq!(kinds(&evidence), [""; 0]);
}

#[test]
fn quic_has_findings_of_its_own() {
    let over = |way: MeasuredWay| {
        let mut evidence = healthy(&Path::default());
        evidence.ways.push((WayKind::Http3, way));
        all_findings(&evidence)
    };
    assert_eq!(over(over_quic(false, None)), []);
    let retry = over(over_quic(true, None));
    assert_eq!((retry.len(), retry[0].kind), (1, FindingKind::QuicRetry));
    assert_eq!((retry[0].cost, retry[0].concerns), (ms(30.0), Some("connections over HTTP/3")));
    let stalled = over(over_quic(false, Some(31_000)));
    assert_eq!((stalled.len(), stalled[0].kind), (1, FindingKind::AmplificationLimit));
    assert_eq!(stalled[0].cost, ms(31.0));
}

#[test]
fn a_large_chain_is_one_finding_over_tcp_and_quic() {
    let mut evidence = healthy(&Path { stalls: 1, ..Path::default() });
    evidence.ways.push((WayKind::Http3, over_quic(false, Some(31_000))));
    assert_eq!(kinds(&evidence), ["large-chain"]);
    let found = all_findings(&evidence);
    assert_eq!(
        found[0].evidence,
        "The certificates have 41,920 bytes; after 14,480 bytes the server waited 30.0 ms for \
         acknowledgements."
    );
}

#[test]
fn the_nearer_family_is_named() {
    let mut evidence = healthy(&Path { rtt: 60_000, ..Path::default() });
    let mut near = Path { rtt: 30_000, ..Path::default() }.way(20);
    for (_, connection) in &mut near.proven {
        connection.facts.remote = Some("[2001:db8::1]:443".parse().unwrap());
    }
    evidence.ways.push((WayKind::Ipv6, near));
    let found = all_findings(&evidence);
    assert_eq!((found.len(), found[0].kind), (1, FindingKind::FarAddress));
    assert_eq!(found[0].cost, ms(90.0));
    let saved = found[0].saving.measured.unwrap();
    assert!((saved.value - 90e6).abs() < 1e5, "{saved:?}");
    assert!(saved.interval.is_some());
}

#[test]
fn redirects_cost_what_their_connections_took() {
    let mut evidence = healthy(&Path::default());
    let mut hop = Path { tls12: true, ..Path::default() }.connection();
    hop.url = "http://server.test/".into();
    let cost = firstbyte_core::split::total(&hop);
    evidence.redirects = vec![hop.clone(), hop];
    let found = all_findings(&evidence);
    assert_eq!((found.len(), found[0].kind), (1, FindingKind::Redirects));
    assert_eq!(found[0].cost, cost * 2);
    assert!(found[0].advice.contains("Strict-Transport-Security"));
}

#[test]
fn the_equation_of_curl_s_length() {
    let path = Path { rtt: 82_000, tls12: true, stalls: 2, think: 8_000, ..Path::default() };
    let way = path.way(20);
    let equation = equation(&way, None).unwrap();
    assert_eq!(equation.round_trips(), 6);
    assert_eq!(equation.rtt, Some(ms(82.0)));
    let of = |kind, span| {
        equation.terms.iter().find(|t| t.kind == kind && t.span == Some(span)).unwrap()
    };
    assert_eq!(of(TermKind::RoundTrips, Span::Tls).round_trips, 2);
    assert_eq!(of(TermKind::Stalls, Span::Tls).round_trips, 2);
    assert_eq!(of(TermKind::Server, Span::Request).time, ms(8.0));
    let interval = of(TermKind::Server, Span::Request).interval.unwrap();
    assert!(interval.low <= 8e6 && interval.high >= 8e6);
    assert_eq!((equation.typical, equation.of), (20, 20));
}

#[test]
fn the_first_connection_is_told_apart() {
    let path = Path::default();
    let cold = Path { dns: 80_000, think: 30_000, ..Path::default() }.connection();
    let way = path.way(20);
    let equation = equation(&way, Some(&cold)).unwrap();
    let (total, extras) = equation.first.unwrap();
    assert_eq!((extras[0].kind, extras[1].kind), (TermKind::Resolver, TermKind::Server));
    assert!((extras[0].ns - 79_000_000).abs() < 1_000_000);
    let more: i64 = extras.iter().map(|extra| extra.ns).sum();
    assert_eq!(more as i128, total.as_nanos() as i128 - equation.total.as_nanos() as i128);
}

#[test]
fn an_odd_one_is_not_typical() {
    let mut way = Path::default().way(20);
    way.proven[3].1 = Path { retry_request: true, ..Path::default() }.connection();
    let equation = equation(&way, None).unwrap();
    assert_eq!((equation.typical, equation.of, equation.round_trips()), (19, 20, 3));
}

#[test]
fn server_timing_is_read() {
    let said = |value| {
        let path = Path { timing: Some(value), ..Path::default() };
        server_timing(&path.connection()).map(|(time, names)| (time, names.join("+")))
    };
    assert_eq!(said("db;dur=5.5, app;desc=\"x\";dur=2.5"), Some((ms(8.0), "db+app".into())));
    assert_eq!(said("cache;desc=hit, total;dur=9, db;dur=8"), Some((ms(9.0), "total".into())));
    for nothing in ["miss", "db;dur=", "db;dur=-1", "db;dur=NaN", ";;,", ""] {
        assert_eq!(said(nothing), None, "{nothing}");
    }
}

#[test]
fn witnesses_agree_within_what_the_estimate_is_good_for() {
    let held = |said: f64, estimated: f64| {
        reconcile(Witness::Log, ms(said), ms(estimated), None, None).verdict()
    };
    assert_eq!([held(8.0, 8.4), held(100.0, 104.9)], [Verdict::Agree; 2]);
    assert_eq!([held(8.0, 8.6), held(100.0, 110.0)], [Verdict::Differ; 2]);
    let within = |said: f64, estimated: f64, uncertainty: f64| {
        let uncertainty = Some(ms(uncertainty));
        reconcile(Witness::Log, ms(said), ms(estimated), None, uncertainty).verdict()
    };
    assert_eq!(within(8.0, 10.0, 3.0), Verdict::Agree);
    // Any server report below 101 ms would agree.
    assert_eq!(within(100.0, 50.5, 50.4), Verdict::CannotTell);
    assert_eq!(within(120.0, 50.5, 50.4), Verdict::Differ);
    assert_eq!(within(0.3, 0.2, 0.9), Verdict::Agree);
}

proptest! {
    /// For any connections, the terms add up to the total exactly, to the nanosecond.
    #[test]
    fn terms_add_up(
        rtt in 100i64..300_000, stalls in 0i64..4, think in 0i64..500_000, pause in 0i64..300_000,
        tls12: bool, dns in 0i64..100_000, n in 1u32..30,
    ) {
        let path = Path { rtt, stalls, think, pause, tls12, dns, ..Path::default() };
        let way = path.way(n);
        let first = Path { syn_lost: true, ..path }.connection();
        let equation = equation(&way, Some(&first)).unwrap();
        let sum: Duration = equation.terms.iter().map(|term| term.time).sum();
        prop_assert_eq!(sum, equation.total);
        for term in &equation.terms {
            if let Some(interval) = term.interval {
                let value = term.time.as_nanos() as f64;
                prop_assert!(interval.low <= value && value <= interval.high);
            }
        }
        let (total, extras) = equation.first.unwrap();
        let more: i128 = extras.iter().map(|extra| i128::from(extra.ns)).sum();
        prop_assert_eq!(more, total.as_nanos() as i128 - equation.total.as_nanos() as i128);
    }
}

/// The connections as a browser's trace reports them, in steps of 5 ms.
fn as_reported(mut evidence: MeasuredWays) -> MeasuredWays {
    const STEP_NS: u32 = 5_000_000;
    let read = |stamp: Stamp| {
        let at = stamp.at.as_nanos().div_euclid(STEP_NS.into()) * i64::from(STEP_NS);
        let clock = Clock::Reported { resolution_ns: STEP_NS };
        Stamp { at: Offset::from_nanos(at), clock }
    };
    for (_, connection) in evidence.ways.iter_mut().flat_map(|(_, way)| &mut way.proven) {
        connection.flights.iter_mut().flat_map(|f| &mut f.chunks).for_each(|chunk| {
            chunk.stamp = read(chunk.stamp);
        });
        for (mark, stamp) in connection.marks.iter().collect::<Vec<_>>() {
            connection.marks.set(mark, read(stamp));
        }
    }
    evidence
}

#[test]
fn the_steps_of_a_clock_are_in_the_equation_and_no_finding() {
    let evidence = as_reported(healthy(&Path::default()));
    assert_eq!(kinds(&evidence), [""; 0]);
    let equation = equation(&evidence.ways[0].1, None).unwrap();
    assert!(equation.interval.unwrap().half_width() >= 5e6, "{equation:?}");
    for term in &equation.terms {
        let least = 5e6 * f64::from(term.round_trips.max(1));
        assert!(term.interval.unwrap().half_width() >= least, "{term:?}");
    }
    // An excess of 6 ms is within two clock steps; 120 ms is not.
    let slow = |think| kinds(&as_reported(healthy(&Path { think, ..Path::default() })));
    assert_eq!(slow(6_000), [""; 0]);
    assert_eq!(slow(120_000), ["slow-server"]);
}

/// An nginx log with these lines: client port, milliseconds since the Unix epoch, milliseconds taken, resumed.
fn logged(lines: &[(u16, u64, u64, bool)]) -> Vec<firstbyte_sources::server_log::LoggedRequest> {
    let mut requests = Vec::new();
    for (port, at, took, resumed) in lines {
        let (second, third) = (at / 1_000, at % 1_000);
        let resumed = if *resumed { "r" } else { "." };
        let line = format!(
            "{{\"firstbyte\":\"nginx 1\",\"time\":\"{second}.{third:03}\",\"client_port\":\"{port}\",\
             \"tls\":\"TLSv1.3\",\"resumed\":\"{resumed}\",\"early_data\":\"0\",\
             \"request_time\":\"{}.{:03}\"}}\n",
            took / 1_000,
            took % 1_000
        );
        let mut reader = firstbyte_sources::server_log::ServerLogReader::default();
        reader.feed(line.as_bytes(), |_, request| requests.push(request.unwrap()));
    }
    requests
}

#[test]
fn connections_are_found_in_a_log_by_port_and_time() {
    const BEGAN_MS: u64 = 1_700_000_000_000;
    let mut evidence = MeasuredWays::default();
    let mut way = Path { think: 42_000, ..Path::default() }.way(3);
    for (round, connection) in &mut way.proven {
        connection.started_unix_ns = Some((BEGAN_MS + u64::from(*round) * 1_000) * 1_000_000);
        connection.facts.local = Some(([192, 0, 2, 1], 50_000 + *round as u16).into());
    }
    evidence.ways.push((WayKind::Subject, way));
    let lines = logged(&[
        // Another connection, from another port.
        (40_000, BEGAN_MS, 999, true),
        // The log has the first two connections, and an older one from the same port an hour before.
        (50_000, BEGAN_MS - 3_600_000, 999, true),
        (50_000, BEGAN_MS + 100, 20, false),
        // This line is closer in time than the next one.
        (50_001, BEGAN_MS + 1_100, 20, true),
        (50_001, BEGAN_MS + 5_000, 999, false),
    ]);
    let evidence = Evidence::from_measured(evidence);
    let mut search = ServerLogSearch::for_evidence(&evidence);
    lines.into_iter().for_each(|line| search.add(line));
    assert_eq!(search.lines(), 5);
    let found = search.finish(ms(42.0), None, None).unwrap();
    assert_eq!((found.said, found.verdict()), (ms(20.0), Verdict::Differ));
    let Witness::ServerLog(log) = &found.witness else { panic!("{found:?}") };
    assert_eq!((log.found, log.of, log.step), (2, 3, ms(1.0)));
    let difference = log.difference.unwrap().value / 1e6;
    assert!((difference - 22.0).abs() < 1.0, "{difference}");
    // The log says that one of the two was resumed; neither was.
    let said = Agreement { compared: 2, agree: 1, logged_yes: 1 };
    assert_eq!((log.resumed, log.early_data.agree), (said, 2));
    let none = ServerLogSearch::for_evidence(&evidence);
    assert_eq!(none.finish(ms(42.0), None, None), None);
}

#[test]
fn every_finding_is_in_the_documents_table() {
    let document = include_str!("../../../docs/explain.md");
    for kind in FindingKind::ALL {
        assert!(document.contains(&format!("| `{}` |", kind.name())), "{}", kind.name());
    }
}
