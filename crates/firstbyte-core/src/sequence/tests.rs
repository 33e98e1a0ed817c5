use proptest::prelude::*;

use super::*;
use crate::split::total;
use crate::timeline::*;

const MS: i64 = 1_000_000;
const RTT: i64 = 80 * MS;

fn at(ns: i64) -> Stamp {
    Stamp::kernel(Offset::from_nanos(ns))
}

fn flight(direction: Direction, chunks: &[(i64, u64)], messages: &[&str]) -> Flight {
    let chunks = chunks.iter().map(|&(ns, bytes)| Chunk::new(at(ns), bytes)).collect();
    Flight { direction, chunks, messages: messages.iter().map(ToString::to_string).collect() }
}

/// TLS 1.3 over 80 ms, 3 ms of key exchange, tickets, 8 ms for the response.
fn tls13() -> Connection {
    let mut c = Connection::default();
    let hello = RTT + MS;
    let answer = hello + RTT + 3 * MS;
    let request = answer + 2 * MS;
    let response = request + RTT + 8 * MS;
    for (mark, ns) in [
        (Mark::ConnectStart, 0),
        (Mark::TcpConnected, RTT),
        (Mark::SecureConnectionStart, RTT),
        (Mark::HandshakeComplete, request),
        (Mark::RequestStart, request),
        (Mark::RequestEnd, request),
        (Mark::ResponseStart, response),
        (Mark::ResponseEnd, response + MS),
    ] {
        c.marks.set(mark, at(ns));
    }
    c.flights = vec![
        flight(Direction::Sent, &[(hello, 517)], &["ClientHello"]),
        flight(Direction::Received, &[(answer, 2_800)], &["ServerHello", "{Finished}"]),
        flight(Direction::Sent, &[(request, 300)], &["{Finished}", "{HEADERS}"]),
        flight(
            Direction::Received,
            &[(request + RTT, 500), (response, 1_448), (response + MS, 700)],
            &["{NewSessionTicket}", "{HEADERS}", "{DATA}"],
        ),
    ];
    c.facts.tcp = Some(TcpFacts {
        syn_rtt: Some(Duration::from_nanos(RTT as u64)),
        send_mss: Some(1_448),
        ..TcpFacts::default()
    });
    c
}

fn names(sequence: &Sequence) -> Vec<String> {
    sequence.arrows.iter().map(|a| a.messages.join(" ")).collect()
}

#[test]
fn every_flight_has_an_arrow_and_the_far_side_is_half_a_round_trip_away() {
    let sequence = Sequence::lay_out(&tls13());
    assert_eq!(
        names(&sequence),
        [
            "SYN",
            "SYN/ACK",
            "ClientHello",
            "ServerHello {Finished}",
            "{Finished} {HEADERS}",
            "{NewSessionTicket}",
            "{HEADERS} {DATA}",
        ]
    );
    let hello = &sequence.arrows[2].bursts[0];
    assert_eq!(hello.departed, Some(Moment::seen(Offset::from_nanos(81 * MS))));
    assert_eq!(hello.arrived, Some(Moment::estimated(Offset::from_nanos(121 * MS))));
    let answer = &sequence.arrows[3].bursts[0];
    assert_eq!(answer.departed, Some(Moment::estimated(Offset::from_nanos(124 * MS))));
    assert_eq!(answer.arrived, Some(Moment::seen(Offset::from_nanos(164 * MS))));
    assert_eq!(sequence.arrows[5].bytes(), Some(500));
    assert_eq!(
        (sequence.arrows[6].kind, sequence.arrows[6].bytes()),
        (ArrowKind::Response, Some(2_148))
    );
}

/// The proxy's answer to CONNECT is not the server's response.
#[test]
fn the_request_to_a_proxy_and_its_answer_are_arrows() {
    let mut c = tls13();
    let (asked, open) = (RTT + MS / 10, 2 * RTT + MS / 2);
    c.flights.insert(0, flight(Direction::Sent, &[(asked, 90)], &["CONNECT shop.test:443"]));
    c.flights.insert(1, flight(Direction::Received, &[(open, 39)], &["HTTP/1.1 200 OK"]));
    for flight in &mut c.flights[2..] {
        for chunk in &mut flight.chunks {
            chunk.stamp = at(chunk.stamp.at.as_nanos() + RTT);
        }
    }
    for (mark, stamp) in c.marks.iter().collect::<Vec<_>>() {
        if mark > Mark::TcpConnected {
            c.marks.set(mark, at(stamp.at.as_nanos() + RTT));
        }
    }
    c.marks.set(Mark::TunnelStart, at(asked));
    c.marks.set(Mark::TunnelEnd, at(open));
    c.marks.set(Mark::SecureConnectionStart, at(open));
    let sequence = Sequence::lay_out(&c);
    assert_eq!(names(&sequence)[2..5], ["CONNECT shop.test:443", "HTTP/1.1 200 OK", "ClientHello"]);
    assert_eq!(sequence.arrows[3].kind, ArrowKind::Flight);
}

/// Messages before the status line preceded the response.
#[test]
fn tickets_before_an_http1_response_are_an_arrow_of_their_own() {
    let mut c = tls13();
    c.flights[3].messages =
        ["NewSessionTicket", "HTTP/1.1 200 OK", "body"].map(String::from).into();
    assert_eq!(names(&Sequence::lay_out(&c))[5..], ["NewSessionTicket", "HTTP/1.1 200 OK body"]);
}

/// Packets have no messages: one packet per datagram, with the handshake's packets before.
#[test]
fn packets_of_a_response_over_quic_are_its_datagrams() {
    let mut c = tls13();
    c.facts.quic = Some(QuicFacts::default());
    c.flights[3].messages = ["Handshake", "1-RTT", "1-RTT", "1-RTT"].map(String::from).into();
    assert_eq!(names(&Sequence::lay_out(&c))[3..], ["Handshake 1-RTT", "1-RTT 1-RTT"]);
}

#[test]
fn the_server_works_between_arrival_and_departure() {
    let sequence = Sequence::lay_out(&tls13());
    let server: Vec<_> = sequence
        .spans
        .iter()
        .filter(|s| s.part == Part::Server)
        .map(|s| (s.start.as_nanos() / MS, s.end.as_nanos() / MS))
        .collect();
    assert_eq!(server, [(121, 124), (206, 214)]);
    for span in sequence.spans.iter().filter(|s| s.part == Part::Server) {
        let meets = |moment: Option<Moment>, at| moment.is_some_and(|m| m.at == at);
        assert!(sequence.arrows.iter().any(|a| meets(a.bursts[0].arrived, span.start)));
        assert!(sequence.arrows.iter().any(|a| meets(a.bursts[0].departed, span.end)));
    }
}

#[test]
fn a_full_window_parts_an_arrow_and_the_server_waits_meanwhile() {
    let mut c = tls13();
    let response = c.marks.at(Mark::ResponseStart).unwrap().as_nanos();
    // Each acknowledgement of the first window releases two more segments (slow start).
    let chunks: Vec<(i64, u64)> = (0..30)
        .map(|i| match i {
            0..10 => (response + i * MS / 10, 1_448),
            _ => (response + RTT + (i - 10) / 2 * MS / 10 + i, 1_448),
        })
        .collect();
    c.flights[3] = flight(Direction::Received, &chunks, &["{HEADERS}", "{DATA}"]);
    c.flights.insert(4, flight(Direction::Sent, &[(response + MS, 40)], &["{WINDOW_UPDATE}"]));
    c.marks.set(Mark::ResponseEnd, at(chunks[29].0));
    let sequence = Sequence::lay_out(&c);
    let response = sequence.arrows.iter().find(|a| a.kind == ArrowKind::Response).unwrap();
    let bursts: Vec<_> = response.bursts.iter().map(|b| (b.chunks, b.bytes)).collect();
    assert_eq!(bursts, [(10, Some(14_480)), (20, Some(28_960))]);
    assert_eq!(sequence.spans.iter().filter(|s| s.is_full_window()).count(), 1);
    let meanwhile = sequence.arrows.iter().find(|a| a.kind == ArrowKind::Meanwhile).unwrap();
    assert_eq!((meanwhile.bytes(), meanwhile.messages.len()), (Some(40), 1));
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut c = tls13();
    for (mark, stamp) in c.marks.iter().collect::<Vec<_>>() {
        if mark > Mark::ConnectStart {
            c.marks.set(mark, at(stamp.at.as_nanos() + 1_000 * MS));
        }
    }
    for chunk in c.flights.iter_mut().flat_map(|f| &mut f.chunks) {
        chunk.stamp = at(chunk.stamp.at.as_nanos() + 1_000 * MS);
    }
    c.facts.tcp = Some(TcpFacts {
        min_rtt: Some(Duration::from_nanos(RTT as u64)),
        retransmits: Some(1),
        ..TcpFacts::default()
    });
    let sequence = Sequence::lay_out(&c);
    let [first, second, answer] = &sequence.arrows[..3] else { panic!() };
    assert!(first.unanswered && first.bursts[0].arrived.is_none());
    assert_eq!(second.kind, ArrowKind::Syn { retransmission: 1 });
    assert_eq!(second.bursts[0].departed, Some(Moment::estimated(Offset::from_nanos(1_000 * MS))));
    assert_eq!(answer.bursts[0].arrived, Some(Moment::seen(Offset::from_nanos(1_080 * MS))));
    let ping = sequence.ping_like().unwrap();
    assert_eq!((ping.total, ping.arrows.len()), (Duration::from_millis(80), 2));
}

fn attempt(remote: &str, start: i64, end: i64, outcome: AttemptOutcome) -> Attempt {
    let (start, end) = (Offset::from_nanos(start), Some(Offset::from_nanos(end)));
    Attempt { remote: remote.parse().unwrap(), start, end, outcome }
}

#[test]
fn nothing_comes_back_from_an_address_that_does_not_answer() {
    let mut c = Connection::default();
    c.marks.set(Mark::ConnectStart, at(0));
    let error = "no answer".into();
    c.attempts = vec![attempt("192.0.2.1:443", 0, 4_000 * MS, AttemptOutcome::Failed { error })];
    c.failure = Some(Failure {
        phase: PhaseName::Connect,
        cause: Cause::ConnectTimedOut {
            remote: "192.0.2.1:443".parse().unwrap(),
            after: Duration::from_secs(4),
        },
        at: Some(Offset::from_nanos(4_000 * MS)),
    });
    let sequence = Sequence::lay_out(&c);
    let sent: Vec<_> = sequence.arrows.iter().map(|a| a.at().as_nanos() / MS).collect();
    assert_eq!(sent, [0, 1_000, 3_000]);
    assert!(sequence.arrows.iter().all(|a| a.unanswered && a.bursts[0].arrived.is_none()));
    assert_eq!(sequence.parts.unexplained, Duration::from_secs(4));
}

#[test]
fn other_attempts_have_an_arrow_of_their_own() {
    let mut c = tls13();
    c.attempts = vec![
        attempt("[2001:db8::1]:443", -250 * MS, RTT, AttemptOutcome::Lost),
        attempt("192.0.2.1:443", 0, RTT, AttemptOutcome::Won),
    ];
    let sequence = Sequence::lay_out(&c);
    assert_eq!(sequence.arrows[0].kind, ArrowKind::OtherAttempt);
    assert!(sequence.arrows[0].unanswered);
    assert_eq!(sequence.arrows[0].remote, "[2001:db8::1]:443".parse().ok());
    assert_eq!(sequence.arrows[1].remote, "192.0.2.1:443".parse().ok());
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let marks = proptest::collection::vec(proptest::option::of(0i64..2_000_000_000), 14);
    let flights = proptest::collection::vec(
        (any::<bool>(), proptest::collection::vec((0i64..2_000_000_000, 1u64..9000), 1..9)),
        0..8,
    );
    let rtt = proptest::option::of(0u64..300_000_000);
    (marks, flights, rtt, any::<bool>()).prop_map(|(marks, mut flights, rtt, failed)| {
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
        // Bytes arrive in order.
        let mut latest = [0; 2];
        for (sent, chunks) in &mut flights {
            for (at, _) in chunks {
                *at = (*at).max(latest[usize::from(*sent)]);
                latest[usize::from(*sent)] = *at;
            }
        }
        let direction = |sent| if sent { Direction::Sent } else { Direction::Received };
        let names = ["{NewSessionTicket}", "{HEADERS}", "{DATA}"];
        c.flights =
            flights.iter().map(|(sent, chunks)| flight(direction(*sent), chunks, &names)).collect();
        let syn_rtt = rtt.map(Duration::from_nanos);
        c.facts.tcp = Some(TcpFacts { syn_rtt, ..TcpFacts::default() });
        c.failure = failed.then(|| Failure {
            phase: PhaseName::Receive,
            cause: Cause::Interrupted,
            at: Some(Offset::from_nanos(2_000_000_000)),
        });
        c
    })
}

proptest! {
    /// Spans attribute the time exactly as the split does: client, server, network and the rest add up to the total,
    /// to the nanosecond.
    #[test]
    fn spans_add_up_as_the_split_does(c in any_connection()) {
        let (sequence, split) = (Sequence::lay_out(&c), Split::attribute(&c));
        for (part, (name, time)) in Part::ALL.into_iter().zip(split.parts.named()) {
            prop_assert_eq!(part.name(), name);
            let spans = sequence.spans.iter().filter(|s| s.part == part);
            prop_assert_eq!(spans.map(Span::duration).sum::<Duration>(), time, "{}", name);
        }
        let all: Duration = sequence.spans.iter().map(Span::duration).sum();
        prop_assert_eq!(all, total(&c));
        let mut cursor = Offset::ZERO;
        for span in &sequence.spans {
            prop_assert_eq!(span.seen, cursor);
            cursor = cursor + span.duration();
        }
    }

    #[test]
    fn spans_of_one_place_do_not_overlap(c in any_connection()) {
        let sequence = Sequence::lay_out(&c);
        for place in [Place::Client, Place::Server, Place::Resolver, Place::Path] {
            let spans: Vec<_> = sequence.spans.iter().filter(|s| s.place == place).collect();
            for pair in spans.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start, "{:?}", pair);
            }
        }
    }

    #[test]
    fn no_byte_and_no_message_is_lost_or_drawn_twice(c in any_connection()) {
        let sequence = Sequence::lay_out(&c);
        let drawn: u64 = sequence.arrows.iter().filter_map(Arrow::bytes).sum();
        prop_assert_eq!(drawn, c.flights.iter().map(Flight::bytes).sum::<u64>());
        let handshake = ["SYN", "SYN/ACK"];
        let named = sequence.arrows.iter().flat_map(|a| &a.messages);
        let named = named.filter(|name| !handshake.contains(&name.as_str())).count();
        prop_assert_eq!(named, c.flights.iter().map(|f| f.messages.len()).sum::<usize>());
    }
}
