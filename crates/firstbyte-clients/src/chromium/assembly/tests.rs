//! Recorded visits, unchanged and modified.

use firstbyte_core::timeline::{AttemptOutcome, Handshake, SessionMechanism};
use serde_json::json;

use super::*;
use crate::netlog::perfetto::PerfettoReader;

const HTTP1: &[u8] = include_bytes!("../../../tests/traces/resumed-http1.perfetto");
const HTTP2: &[u8] = include_bytes!("../../../tests/traces/early-data-http2.perfetto");
const HTTP3: &[u8] = include_bytes!("../../../tests/traces/early-data-http3.perfetto");

/// The connection of the `nth` visit from the log alone, without DevTools events.
fn visit(trace: &[u8], nth: usize) -> Connection {
    changed_visit(trace, nth, |_| true)
}

/// The same from a modified log: `keep` may change events or drop them.
fn changed_visit(
    trace: &[u8],
    nth: usize,
    mut keep: impl FnMut(&mut NetLogEvent) -> bool,
) -> Connection {
    let (mut reader, mut events) = (PerfettoReader::default(), Vec::new());
    reader.feed(trace, |event| events.push(event)).unwrap();
    let begins = |event: &NetLogEvent| {
        event.begins("URL_REQUEST_START_JOB") && event.text("request_type") == Some("main frame")
    };
    let mut log = NetLogRecord::default();
    let mut visits = 0;
    for mut event in events {
        visits += usize::from(begins(&event));
        if visits <= nth + 1 && (visits < nth || keep(&mut event)) {
            log.push(event);
        }
    }
    let heard = Heard {
        url: "https://site.test/",
        events: Vec::new(),
        document: None,
        refused: None,
        log,
        wall_clock: reader.wall_clock(),
        version: Some("156".to_owned()),
        time_limit: Duration::from_secs(1),
    };
    let visit = assemble(heard);
    visit.page.check().unwrap();
    visit.page.main.connection
}

fn took(connection: &Connection, from: Mark, to: Mark) -> u128 {
    connection.marks.at(to).unwrap().since(connection.marks.at(from).unwrap()).as_micros()
}

#[test]
fn a_recorded_first_visit_over_http2() {
    let connection = visit(HTTP2, 0);
    let tls = connection.facts.tls.as_ref().unwrap();
    assert_eq!(tls.handshake, Some(Handshake::Full));
    assert_eq!((tls.tickets_received, tls.early_data), (Some(2), None));
    assert_eq!(connection.facts.local.unwrap().port(), 43582);
    assert_eq!(took(&connection, Mark::ConnectStart, Mark::TcpConnected), 116);
    // 2 ms until the ClientHello, a round trip, 14 ms to verify the certificate, and the client's Finished.
    assert_eq!(took(&connection, Mark::TcpConnected, Mark::HandshakeComplete), 76_932 - 531);
    assert_eq!(took(&connection, Mark::RequestStart, Mark::ResponseStart), 123_825 - 78_567);
    assert_eq!(took(&connection, Mark::ResponseStart, Mark::ResponseEnd), 0);
    let bytes: Vec<u64> = connection.flights.iter().map(|flight| flight.bytes()).collect();
    assert_eq!(bytes, [1981, 807, 64 + 92 + 490, 854]);
}

#[test]
fn a_recorded_kept_connection() {
    for trace in [HTTP1, HTTP2, HTTP3] {
        let connection = visit(trace, 1);
        assert!(connection.facts.reused);
        assert_eq!(connection.marks.at(Mark::ConnectStart), None);
        assert!(took(&connection, Mark::RequestStart, Mark::ResponseStart) > 0);
    }
}

#[test]
fn recorded_early_data() {
    for (trace, bytes) in [(HTTP2, 538), (HTTP3, 0)] {
        let connection = visit(trace, 2);
        let tls = connection.facts.tls.as_ref().unwrap();
        assert_eq!(tls.handshake, Some(Handshake::Resumed));
        let early = tls.early_data.unwrap();
        assert!(early.bytes_before_server_hello >= Some(bytes), "{early:?}");
        assert_eq!(early.accepted, Some(true));
    }
    let connection = visit(HTTP2, 2);
    assert!(took(&connection, Mark::RequestStart, Mark::HandshakeComplete) > 35_000);
    assert_eq!(connection.flights[0].messages, ["ClientHello", "{SETTINGS}", "{HEADERS}"]);
}

#[test]
fn a_recorded_resumption_over_http1() {
    let connection = visit(HTTP1, 2);
    let tls = connection.facts.tls.as_ref().unwrap();
    assert_eq!(tls.handshake, Some(Handshake::Resumed));
    assert_eq!(connection.facts.http.as_ref().unwrap().version.as_deref(), Some("1.1"));
    assert_eq!(connection.facts.http.as_ref().unwrap().status, Some(200));
}

/// SSL_CONNECT ended with early data, and the server sent nothing more.
#[test]
fn what_was_only_offered_is_not_claimed() {
    let connection = changed_visit(HTTP2, 2, |event| {
        !matches!(&*event.name, "SSL_HANDSHAKE_MESSAGE_RECEIVED" | "SOCKET_BYTES_RECEIVED")
    });
    let tls = connection.facts.tls.unwrap();
    assert_eq!(tls.session_offered, Some(SessionMechanism::Psk));
    assert!(tls.early_data.is_some(), "{tls:?}");
    let claimed = (tls.handshake, tls.version, tls.cipher_suite, tls.group);
    assert_eq!(claimed, (None, None, None, None));
    assert_eq!((tls.alpn, tls.verified, tls.tickets_received), (None, None, None));
}

#[test]
fn attempts_are_won_by_what_connected() {
    let attempts = |connection: Connection| {
        let outcomes = connection.attempts.into_iter().map(|attempt| attempt.outcome);
        outcomes.collect::<Vec<_>>()
    };
    let end = |event: &NetLogEvent| event.ends("TCP_CONNECT_ATTEMPT");
    assert_eq!(attempts(visit(HTTP2, 2)), [AttemptOutcome::Won]);
    let pending = changed_visit(HTTP2, 2, |event| !end(event));
    assert_eq!(attempts(pending), [AttemptOutcome::Lost]);
    for (params, said) in [
        (json!({ "net_error": -102, "os_error": 111 }), "Connection refused"),
        (json!({ "net_error": -118 }), "Chromium's network error -118"),
    ] {
        let failed = changed_visit(HTTP2, 2, |event| {
            if end(event) {
                event.params = params.clone();
            }
            true
        });
        assert_eq!(attempts(failed), [AttemptOutcome::Failed { error: said.to_owned() }]);
    }
    assert_eq!(attempts(visit(HTTP3, 0)), [AttemptOutcome::Won]);
    let unanswered = changed_visit(HTTP3, 0, |event| {
        event.text("encryption_level") != Some("ENCRYPTION_HANDSHAKE")
    });
    assert_eq!(attempts(unanswered), [AttemptOutcome::Lost]);
}

#[test]
fn an_interim_response_is_not_the_final_one() {
    let said = visit(HTTP2, 0).marks.at(Mark::ResponseStart);
    // Turn the first frame of the body into another header, so that the one before it is an interim response.
    let mut changed = false;
    let connection = changed_visit(HTTP2, 0, |event| {
        if &*event.name == "HTTP2_SESSION_RECV_DATA" && !std::mem::replace(&mut changed, true) {
            event.name = "HTTP2_SESSION_RECV_HEADERS".into();
        }
        true
    });
    let at = |mark| connection.marks.at(mark);
    assert_eq!(at(Mark::InterimResponseStart), said);
    assert!(said.is_some() && at(Mark::ResponseStart) >= said);
}

#[test]
fn what_broke_off_over_http1_has_no_end() {
    let marks = |connection: Connection| {
        let at = |mark| connection.marks.at(mark).is_some();
        (at(Mark::ResponseStart), at(Mark::ResponseEnd))
    };
    let body_ends = |event: &NetLogEvent| event.ends("HTTP_TRANSACTION_READ_BODY");
    assert_eq!(marks(visit(HTTP1, 0)), (true, true));
    let failed = changed_visit(HTTP1, 0, |event| {
        if body_ends(event) {
            event.params = json!({ "net_error": -354 });
        }
        true
    });
    assert_eq!(marks(failed), (true, false));
    assert_eq!(marks(changed_visit(HTTP1, 0, |event| !body_ends(event))), (true, false));
}

fn whole(trace: &[u8]) -> NetLogRecord {
    let (mut reader, mut log) = (PerfettoReader::default(), NetLogRecord::default());
    reader.feed(trace, |event| log.push(event)).unwrap();
    log
}

/// If neither the connection's number nor its job is known, it is found by its origin, and only by that.
#[test]
fn a_connection_is_guessed_by_its_origin() {
    for (trace, own, other) in [
        (HTTP2, "https://site.test:19443/", "https://site.test:1944/"),
        (HTTP3, "https://site.test:18445/", "https://site.tes:18445/"),
    ] {
        let log = whole(trace);
        let leg = Leg {
            url: own.to_owned(),
            source: 0,
            from: 0,
            to: log.len(),
            from_us: i64::MIN,
            to_us: i64::MAX,
            job: None,
            quic_session: None,
        };
        let quic = matches!(found(&log, &leg, None), Some(Found::Quic(_)));
        assert_eq!((found(&log, &leg, None).is_some(), quic), (true, trace == HTTP3));
        assert_eq!(found(&log, &leg, Some(999_999)), None);
        let strange = Leg { url: other.to_owned(), ..leg };
        assert_eq!(found(&log, &strange, None), None);
    }
}

#[test]
fn a_connection_is_guessed_at_a_default_port() {
    let mut log = NetLogRecord::default();
    let mut push = |source: u64, kind: &str, name: &str, phase, params| {
        log.push(NetLogEvent {
            at_us: 1,
            source,
            source_kind: kind.into(),
            source_number: Some(source),
            name: name.into(),
            phase,
            params,
        });
    };
    let group = json!({ "group_id": "http://h <null>" });
    push(7, "CONNECT_JOB", "SOCKET_POOL_CONNECT_JOB_CREATED", NetLogPhase::Point, group);
    push(8, "SOCKET", "SOCKET_ALIVE", NetLogPhase::Begin, Value::Null);
    let socket = json!({ "source_dependency": { "id": 8 } });
    let made = "TCP_CONNECT_JOB_CONNECTOR_CONNECT_START";
    push(7, "CONNECT_JOB", made, NetLogPhase::Point, socket);
    let leg = Leg {
        url: "http://h/".to_owned(),
        source: 0,
        from: 0,
        to: log.len(),
        from_us: 0,
        to_us: 1,
        job: None,
        quic_session: None,
    };
    assert_eq!(found(&log, &leg, None), Some(Found::Tcp(8)));
    assert_eq!(found(&log, &Leg { url: "https://h/".to_owned(), ..leg }, None), None);
}

/// If the log contains several visits, the document's is the first one at or after the time that DevTools reports.
#[test]
fn the_legs_are_those_of_the_document() {
    let log = whole(HTTP2);
    let begun: Vec<_> = log
        .events()
        .filter(|event| {
            event.begins("URL_REQUEST_START_JOB")
                && event.text("request_type") == Some("main frame")
        })
        .map(|event| (event.at_us, event.source))
        .collect();
    assert_eq!(begun.len(), 3);
    for (at_us, source) in &begun {
        assert_eq!(legs(&log, Some(at_us - 100))[0].source, *source);
    }
    assert_eq!(legs(&log, None)[0].source, begun[2].1);
    assert!(legs(&log, Some(begun[2].0 + 1)).is_empty());
}

#[test]
fn failures_name_the_host_alone() {
    for (url, host) in [
        ("https://[::1]/", "::1"),
        ("https://me:x@h/", "h"),
        ("http://Site.test:81/a", "site.test"),
        ("about:blank", "about:blank"),
    ] {
        let connection = Connection::default();
        assert_eq!(circumstances(url, &connection, Duration::ZERO, None).host, host);
    }
}

#[test]
fn a_log_that_ends_anywhere_makes_no_contradiction() {
    for trace in [HTTP1, HTTP2, HTTP3] {
        for end in (0..trace.len()).step_by(trace.len() / 60) {
            let (mut reader, mut log) = (PerfettoReader::default(), NetLogRecord::default());
            reader.feed(&trace[..end], |event| log.push(event)).unwrap();
            let heard = Heard {
                url: "https://site.test/",
                events: Vec::new(),
                document: None,
                refused: None,
                log,
                wall_clock: None,
                version: None,
                time_limit: Duration::from_secs(1),
            };
            let visit = assemble(heard);
            visit.page.check().unwrap();
        }
    }
}
