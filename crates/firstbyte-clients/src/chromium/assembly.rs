//! Builds one page of the model from the browser's events and its network log.
//!
//! Input: [`Heard`]. Output: a `ChromiumVisit`. The document's request is found in the log by its kind ("main frame");
//! it is one source, whose redirects are its legs. The connection of a leg is found by the number that DevTools reports
//! (`connectionId` is the log's number of the socket, or of the QUIC session).

use std::time::Duration;

use firstbyte_core::timeline::{
    ClientFacts, Connection, Header, HttpFacts, Lookup, Mark, Navigation, RecordType, Sample,
};
use serde_json::Value;

use super::browser::EMPTY_ERROR;
use super::failure;
use super::flights::Origin;
use super::panel::PanelTiming;
use super::{ChromiumVisit, launch, page, quic, tcp};
use crate::browser::failure::Circumstances;
use crate::devtools::DevToolsEvent;
use crate::netlog::perfetto::WallClock;
use crate::netlog::{NetLogEvent, NetLogPhase, NetLogRecord};

/// Everything received about a visit.
pub(super) struct Heard<'a> {
    pub(super) url: &'a str,
    /// Events of the page's own session, from the start of the visit.
    pub(super) events: Vec<DevToolsEvent>,
    /// Identifier of the document's request in these events.
    pub(super) document: Option<String>,
    /// Why the browser did not load the document.
    pub(super) refused: Option<String>,
    pub(super) log: NetLogRecord,
    pub(super) wall_clock: Option<WallClock>,
    pub(super) version: Option<String>,
    pub(super) time_limit: Duration,
}

/// One URL of the document's request, with its place in the log.
#[derive(Clone, Debug)]
pub(super) struct Leg {
    pub(super) url: String,
    pub(super) source: u64,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) from_us: i64,
    pub(super) to_us: i64,
    /// The browser's number of the job that got it a connection.
    pub(super) job: Option<u64>,
    /// The browser's number of its QUIC session, if it used one.
    pub(super) quic_session: Option<u64>,
}

/// A connection in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Tcp(u64),
    Quic(u64),
}

pub(super) fn assemble(heard: Heard<'_>) -> ChromiumVisit {
    let log = &heard.log;
    let document = heard.document.clone();
    let legs = legs(log, page::asked_at(&heard.events, document.as_deref()));
    let responses = page::document_responses(&heard.events, document.as_deref());
    let last = legs.len().saturating_sub(1);
    let mut connections: Vec<(Connection, i64)> = Vec::new();
    for (number, leg) in legs.iter().enumerate() {
        let response = responses.get(number);
        let mut built = connection_of(&heard, leg, response);
        if number == last {
            let error = heard.refused.as_deref();
            let error = error.or_else(|| page::load_error(&heard.events, document.as_deref()));
            let error = error.filter(|error| *error != EMPTY_ERROR);
            if let Some(error) = error {
                fail(&mut built.0, leg, error, built.1, heard.time_limit);
            }
        }
        connections.push(built);
    }
    let (mut connection, main_at) = connections.pop().unwrap_or_else(|| {
        // The log has nothing about it: it was refused earlier.
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
    let finished = page::finished_at(&heard.events, document.as_deref());
    let panel =
        responses.last().and_then(|response| PanelTiming::read(response.get("timing")?, finished));
    connection.facts.panel = panel.map(|panel| panel.shown()).unwrap_or_default();
    let main =
        Sample { requested_url: heard.url.to_owned(), redirects, connection, ..Sample::default() };
    let origin = Origin { at_us: began };
    let main_at = origin.offset(main_at);
    let base = Navigation { main, main_at, ..Navigation::default() };
    let page = page::complete(base, &heard, legs.last(), &responses, origin);
    let beside = page::beside(&heard, legs.first(), &page);
    ChromiumVisit { page, panel, beside, ..ChromiumVisit::default() }
}

/// The legs of the first main frame request from `asked_us` on, when the document was requested; of the last such
/// request, if that time is unknown.
///
/// The others belong to earlier visits, or to pages that a script opened later.
fn legs(log: &NetLogRecord, asked_us: Option<i64>) -> Vec<Leg> {
    let main = |event: &&NetLogEvent| {
        event.begins("URL_REQUEST_START_JOB") && event.text("request_type") == Some("main frame")
    };
    let begun = match asked_us {
        Some(asked_us) => log.events().filter(main).find(|event| event.at_us >= asked_us),
        None => log.events().rfind(main),
    };
    let Some(source) = begun.map(|event| event.source) else { return Vec::new() };
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
    // A connection that was ready before the request is not part of it; one that was still being opened is.
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

/// The connection that a leg used, according to DevTools or the log; for a failed leg, the one that was made for it.
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
    // An HTTP/2 session that existed already.
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
    if number.is_some() {
        // Another connection to the same origin is not the one with this number.
        return None;
    }
    let origin = launch::Origin::of_url(&leg.url)?;
    let made = log.events().filter(|event| event.at_us >= leg.from_us);
    let mut failed = None;
    for event in made {
        if &*event.name == "SOCKET_POOL_CONNECT_JOB_CREATED"
            && event.text("group_id").and_then(launch::Origin::of_group).as_ref() == Some(&origin)
        {
            let mut of_job = log.of_source(event.source);
            let socket = of_job.find_map(|event| {
                (&*event.name == "TCP_CONNECT_JOB_CONNECTOR_CONNECT_START")
                    .then(|| event.dependency().and_then(numbered))?
            });
            failed = socket.or(failed);
        }
        if &*event.name == "QUIC_SESSION_CREATED" && failed.is_none() {
            let session = event.dependency().and_then(numbered);
            failed = session.filter(|session| is_session_to(log, *session, &origin));
        }
    }
    failed
}

fn is_session_to(log: &NetLogRecord, session: Found, origin: &launch::Origin) -> bool {
    let Found::Quic(session) = session else { return false };
    let begun = log.of_source(session).find(|event| event.begins("QUIC_SESSION"));
    begun.is_some_and(|begun| {
        begun.text("host").is_some_and(|host| host.trim_matches(['[', ']']) == origin.host)
            && begun.number("port") == Some(i64::from(origin.port))
    })
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

/// The lookup of the leg's host, if there was one: a pinned or cached address needs none.
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
        tries: Vec::new(),
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
    let marks = &connection.marks;
    Circumstances { host, remote, marks, quic, time_limit, at, received: 0 }
}

fn fail(connection: &mut Connection, leg: &Leg, error: &str, origin_us: i64, limit: Duration) {
    let at = Origin { at_us: origin_us }.offset(leg.to_us);
    let failure = failure::named(error, &circumstances(&leg.url, connection, limit, Some(at)));
    connection.failure = Some(failure);
}

#[cfg(test)]
mod tests;
