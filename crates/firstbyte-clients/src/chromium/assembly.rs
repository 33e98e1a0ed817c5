//! What the browser and its log said of a visit, as one page of the model.
//!
//! Input: [`Heard`]. Output: a `ChromiumVisit`. The request of the document is found in the log by its kind ("main
//! frame"); it is one source, whose redirects are its legs. The connection of a leg is known by the number that
//! DevTools names (`connectionId` is the log's number of the socket, or of the QUIC session).

use std::time::Duration;

use firstbyte_core::timeline::{
    ClientFacts, Connection, Header, HttpFacts, Lookup, Mark, Navigation, RecordType, Sample,
};
use serde_json::Value;

use super::failure::{self, Circumstances};
use super::flights::Origin;
use super::panel::PanelTiming;
use super::{ChromiumVisit, launch, page, quic, tcp};
use crate::devtools::DevToolsEvent;
use crate::netlog::perfetto::WallClock;
use crate::netlog::{NetLogEvent, NetLogPhase, NetLogRecord};

/// All that was heard of a visit.
pub(super) struct Heard<'a> {
    pub(super) url: &'a str,
    /// Of the page's own session, from the visit's beginning on.
    pub(super) events: Vec<DevToolsEvent>,
    /// Why the browser did not load it.
    pub(super) refused: Option<String>,
    pub(super) log: NetLogRecord,
    pub(super) wall_clock: Option<WallClock>,
    pub(super) version: Option<String>,
    pub(super) time_limit: Duration,
}

/// One URL of the document's request: where it lies in the log.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) url: String,
    pub(super) source: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) from_us: i64,
    pub(super) to_us: i64,
    /// The browser's number of the job that found it a connection.
    pub(super) job: Option<u64>,
    /// The browser's number of its QUIC session, where it used one.
    pub(super) quic_session: Option<u64>,
}

/// A connection as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Tcp(u64),
    Quic(u64),
}

pub(super) fn assemble(heard: Heard<'_>) -> ChromiumVisit {
    let log = &heard.log;
    let legs = legs(log);
    let document = page::document_request(&heard.events);
    let responses = page::document_responses(&heard.events, document.as_deref());
    let last = legs.len().saturating_sub(1);
    let mut connections: Vec<(Connection, i64)> = Vec::new();
    for (number, leg) in legs.iter().enumerate() {
        let response = responses.get(number);
        let mut built = connection_of(&heard, leg, response);
        if number == last {
            let error = heard.refused.as_deref();
            let error = error.or_else(|| page::load_error(&heard.events, document.as_deref()));
            if let Some(error) = error {
                fail(&mut built.0, leg, error, built.1, heard.time_limit);
            }
        }
        connections.push(built);
    }
    let (connection, main_at) = connections.pop().unwrap_or_else(|| {
        // Nothing of it is in the log: it was refused before.
        let mut connection = Connection { url: heard.url.to_owned(), ..Connection::default() };
        connection.facts.client = Some(client(&heard));
        let error = heard.refused.as_deref().unwrap_or("the page is not in the network log");
        let known = circumstances(heard.url, &connection, heard.time_limit, None);
        let failure = failure::named(error, &known);
        connection.failure = Some(failure);
        (connection, 0)
    });
    let began = connections.first().map_or(main_at, |(_, at)| *at);
    let redirects = connections.into_iter().map(|(connection, _)| connection).collect();
    let main =
        Sample { requested_url: heard.url.to_owned(), redirects, connection, ..Sample::default() };
    let finished = page::finished_at(&heard.events, document.as_deref());
    let panel =
        responses.last().and_then(|response| PanelTiming::read(response.get("timing")?, finished));
    let origin = Origin { at_us: began };
    let main_at = origin.offset(main_at);
    let base = Navigation { main, main_at, ..Navigation::default() };
    let page = page::complete(base, &heard, legs.last(), &responses, origin);
    let beside = page::beside(&heard, legs.first(), &page);
    ChromiumVisit { page, panel, beside, ..ChromiumVisit::default() }
}

/// The legs of the last request for a main frame.
fn legs(log: &NetLogRecord) -> Vec<Leg> {
    let main = |event: &&NetLogEvent| {
        event.begins("URL_REQUEST_START_JOB") && event.text("request_type") == Some("main frame")
    };
    let Some(source) = log.events().rfind(main).map(|event| event.source) else {
        return Vec::new();
    };
    let mut legs: Vec<Leg> = Vec::new();
    for (place, event) in log.placed(source) {
        if main(&event) {
            let url = event.text("url").unwrap_or_default().to_owned();
            let (at, to) = (event.at_us, place);
            legs.push(Leg {
                url,
                source,
                from: place,
                to,
                from_us: at,
                to_us: at,
                job: None,
                quic_session: None,
            });
        }
        let Some(leg) = legs.last_mut() else { continue };
        (leg.to, leg.to_us) = (place, event.at_us);
        match &*event.name {
            "HTTP_STREAM_REQUEST_BOUND_TO_JOB" => leg.job = event.dependency(),
            "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION" => leg.quic_session = event.dependency(),
            _ => {}
        }
    }
    legs
}

/// The connection of a leg, and its origin in the log's time.
fn connection_of(heard: &Heard<'_>, leg: &Leg, response: Option<&Value>) -> (Connection, i64) {
    let log = &heard.log;
    let mut connection = Connection { url: leg.url.clone(), ..Connection::default() };
    connection.facts.client = Some(client(heard));
    connection.facts.http = Some(http_facts(log, leg));
    let number = response.and_then(|response| response.get("connectionId")?.as_u64());
    let found = found(log, leg, number.filter(|number| *number > 0));
    let set_up = match found {
        Some(Found::Tcp(socket)) => tcp::set_up(log, socket),
        Some(Found::Quic(session)) => quic::set_up(log, session),
        None => None,
    };
    // One that was there when it was asked for is not of this request; one that was on its way is.
    let fresh = set_up.is_some_and(|(begun, ready)| {
        begun >= leg.from_us || ready.is_none_or(|ready| ready >= leg.from_us)
    });
    let begun = set_up.filter(|_| fresh).map_or(leg.from_us, |(begun, _)| begun);
    let origin = Origin { at_us: begun.min(leg.from_us) };
    connection.started_unix_ns = heard.wall_clock.and_then(|clock| clock.unix_ns(origin.at_us));
    connection.facts.reused = found.is_some() && !fresh;
    if fresh || found.is_none() {
        lookup(log, leg, origin, &mut connection);
    }
    match found {
        Some(Found::Tcp(socket)) => {
            tcp::put_down(log, socket, leg, fresh, origin, &mut connection);
        }
        Some(Found::Quic(session)) => {
            quic::put_down(log, session, leg, fresh, origin, &mut connection);
        }
        None => {}
    }
    if let Some(http) = connection.facts.http.as_mut() {
        http.version = http_version(&connection.facts.tls, found, response).map(str::to_owned);
        if http.version.as_deref() != Some("2") && http.header("content-encoding").is_none() {
            http.body_bytes = http.body_bytes.or(http.decoded_bytes);
        }
    }
    (connection, origin.at_us)
}

pub(super) fn client(heard: &Heard<'_>) -> ClientFacts {
    ClientFacts {
        name: "Chromium".to_owned(),
        version: heard.version.clone(),
        tls_library: Some("BoringSSL".to_owned()),
    }
}

/// The connection that a leg used: as DevTools says, or the log; where it failed, the one that was made for it.
pub(super) fn found(log: &NetLogRecord, leg: &Leg, number: Option<u64>) -> Option<Found> {
    let numbered = |number| {
        let source = log.numbered(number)?;
        match log.kind(source)? {
            "SOCKET" => Some(Found::Tcp(source)),
            "QUIC_SESSION" => Some(Found::Quic(source)),
            _ => None,
        }
    };
    if let Some(found) = number.or(leg.quic_session).and_then(numbered) {
        return Some(found);
    }
    let used = log.events().rfind(|event| {
        event.begins("SOCKET_IN_USE") && leg.job.is_some() && event.dependency() == leg.job
    });
    if let Some(used) = used {
        return Some(Found::Tcp(used.source));
    }
    // An HTTP/2 session that was there already.
    let carried = log.events().rfind(|event| {
        &*event.name == "HTTP2_SESSION_SEND_HEADERS"
            && leg.job.is_some()
            && event.dependency() == leg.job
    });
    let carried = carried.and_then(|event| {
        let mut session = log.of_source(event.source);
        session.find(|event| &*event.name == "HTTP2_SESSION_INITIALIZED")?.dependency()
    });
    if let Some(found) = carried.and_then(numbered) {
        return Some(found);
    }
    let origin = launch::Origin::of_url(&leg.url)?;
    let wanted = [origin.text(), origin.text().trim_end_matches(":443").to_owned()];
    let made = log.events().filter(|event| event.at_us >= leg.from_us);
    let mut failed = None;
    for event in made {
        let group = event.text("group_id").and_then(|group| group.split(' ').next());
        if &*event.name == "SOCKET_POOL_CONNECT_JOB_CREATED"
            && group.is_some_and(|group| wanted.iter().any(|wanted| wanted == group))
        {
            let mut of_job = log.of_source(event.source);
            let socket = of_job.find_map(|event| {
                (&*event.name == "TCP_CONNECT_JOB_CONNECTOR_CONNECT_START")
                    .then(|| event.dependency().and_then(numbered))?
            });
            failed = socket.or(failed);
        }
        if &*event.name == "QUIC_SESSION_CREATED" && failed.is_none() {
            failed = event.dependency().and_then(numbered);
        }
    }
    failed
}

fn http_facts(log: &NetLogRecord, leg: &Leg) -> HttpFacts {
    let mut http = HttpFacts { method: "GET".to_owned(), ..HttpFacts::default() };
    let mut decoded = None;
    for (place, event) in log.placed(leg.source) {
        if !(leg.from..=leg.to).contains(&place) {
            continue;
        }
        match &*event.name {
            "URL_REQUEST_START_JOB" => {
                if let Some(method) = event.text("method") {
                    method.clone_into(&mut http.method);
                }
            }
            "HTTP_TRANSACTION_READ_RESPONSE_HEADERS" => {
                let lines = event.params.get("headers").and_then(Value::as_array);
                let mut lines = lines.into_iter().flatten().filter_map(Value::as_str);
                let status = lines.next().and_then(|line| line.split(' ').nth(1));
                http.status = status.and_then(|status| status.parse().ok());
                http.headers = lines.filter_map(header).collect();
            }
            "URL_REQUEST_JOB_FILTERED_BYTES_READ" => {
                let bytes = event.number("byte_count").unwrap_or(0).unsigned_abs();
                decoded = Some(decoded.unwrap_or(0) + bytes);
            }
            _ => {}
        }
    }
    http.decoded_bytes = decoded;
    http
}

fn header(line: &str) -> Option<Header> {
    let (name, value) = line.split_once(':')?;
    Some(Header { name: name.to_ascii_lowercase(), value: value.trim().to_owned() })
}

fn http_version(
    tls: &Option<firstbyte_core::timeline::TlsFacts>,
    found: Option<Found>,
    response: Option<&Value>,
) -> Option<&'static str> {
    match (found?, tls.as_ref().and_then(|tls| tls.alpn.as_deref())) {
        (Found::Quic(_), _) => Some("3"),
        (_, Some("h2")) => Some("2"),
        (_, Some("http/1.1")) => Some("1.1"),
        _ => match response?.get("protocol")?.as_str()? {
            "http/1.0" => Some("1.0"),
            "http/1.1" => Some("1.1"),
            "h2" => Some("2"),
            _ => None,
        },
    }
}

/// The lookup of the leg's host, where one was made: a pinned address, or one that is known, needs none.
fn lookup(log: &NetLogRecord, leg: &Leg, origin: Origin, connection: &mut Connection) {
    let Some(wanted) = launch::Origin::of_url(&leg.url) else { return };
    let same_host = |event: &&NetLogEvent| {
        let host = event.text("host").unwrap_or_default();
        let host = launch::Origin::of_url(host).map_or_else(|| host.to_owned(), |o| o.host);
        event.begins("HOST_RESOLVER_MANAGER_JOB") && host == wanted.host
    };
    let in_time = |event: &&NetLogEvent| {
        event.at_us >= origin.at_us.min(leg.from_us) && event.at_us <= leg.to_us
    };
    let Some(begun) = log.events().filter(same_host).find(in_time) else { return };
    let mut ended = log.of_source(begun.source).filter(|event| event.at_us >= begun.at_us);
    let ended = ended.find(|event| {
        event.phase == NetLogPhase::End && &*event.name == "HOST_RESOLVER_MANAGER_JOB"
    });
    let error = ended.and_then(|event| event.number("net_error"));
    connection.marks.set(Mark::DomainLookupStart, origin.stamp(begun.at_us));
    if let Some(ended) = ended.filter(|_| error.is_none()) {
        connection.marks.set(Mark::DomainLookupEnd, origin.stamp(ended.at_us));
    }
    connection.lookups = vec![Lookup {
        record_type: RecordType::Any,
        start: origin.offset(begun.at_us),
        end: ended.map(|ended| origin.offset(ended.at_us)),
        addresses: Vec::new(),
        error: error.map(|number| format!("Chromium's network error {number}")),
    }];
}

fn circumstances<'a>(
    url: &str,
    connection: &'a Connection,
    time_limit: Duration,
    at: Option<firstbyte_core::timeline::Offset>,
) -> Circumstances<'a> {
    let host = launch::Origin::of_url(url).map_or_else(|| url.to_owned(), |origin| origin.host);
    let quic = connection.facts.quic.is_some();
    let remote = connection.facts.remote;
    Circumstances { host, remote, marks: &connection.marks, quic, time_limit, at }
}

fn fail(connection: &mut Connection, leg: &Leg, error: &str, origin_us: i64, limit: Duration) {
    let at = Origin { at_us: origin_us }.offset(leg.to_us);
    let failure = failure::named(error, &circumstances(&leg.url, connection, limit, Some(at)));
    connection.failure = Some(failure);
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::{AttemptOutcome, Handshake, SessionMechanism};
    use serde_json::json;

    use super::*;
    use crate::netlog::perfetto::PerfettoReader;

    const HTTP1: &[u8] = include_bytes!("../../tests/traces/resumed-http1.perfetto");
    const HTTP2: &[u8] = include_bytes!("../../tests/traces/early-data-http2.perfetto");
    const HTTP3: &[u8] = include_bytes!("../../tests/traces/early-data-http3.perfetto");

    /// What the log alone says of the `nth` visit, without anything of DevTools'.
    fn visit(trace: &[u8], nth: usize) -> Connection {
        changed_visit(trace, nth, |_| true)
    }

    /// The same, of a log in which `keep` changed events, or left them out.
    fn changed_visit(
        trace: &[u8],
        nth: usize,
        mut keep: impl FnMut(&mut NetLogEvent) -> bool,
    ) -> Connection {
        let (mut reader, mut events) = (PerfettoReader::default(), Vec::new());
        reader.feed(trace, |event| events.push(event)).unwrap();
        let begins = |event: &NetLogEvent| {
            event.begins("URL_REQUEST_START_JOB")
                && event.text("request_type") == Some("main frame")
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
        // Two ms to the ClientHello, a round trip, 14 ms of certificate checking, and its own Finished.
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
            assert!(early.bytes_before_server_hello >= bytes, "{early:?}");
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

    /// SSL_CONNECT ended with early data, and the server was not heard of any more.
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
    fn an_interim_response_is_the_first_of_the_response() {
        let connection = changed_visit(HTTP2, 0, |event| {
            if &*event.name == "HTTP2_SESSION_RECV_HEADERS" {
                event.params["headers"] = json!([":status: 103"]);
            }
            true
        });
        let first = visit(HTTP2, 0).marks.at(Mark::ResponseStart);
        assert_eq!(connection.marks.at(Mark::ResponseStart), first);
        assert!(first.is_some());
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
}
