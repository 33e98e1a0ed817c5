//! Builds one page of the model from the browser's reports about a visit.
//!
//! Input: [`Heard`]. Output: a `FirefoxVisit`. The document is that of the navigation: BiDi reports its requests, each
//! with its URL and start time in microseconds; the channels with the same URL and time are its legs.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, ClientFacts, Clock, Connection, Failure, Lookup, Mark, Navigation,
    Offset, QuicFacts, RecordType, Sample, Stamp,
};
use firstbyte_probe::probe::Target;
use serde_json::Value;

use super::bidi::{BidiEvent, BidiTimings};
use super::channel::{Begun, Channel};
use super::failure;
use super::{FirefoxVisit, facts, page};
use crate::browser::HostPin;
use crate::browser::failure::Circumstances;

/// Resolution of the browser's clock.
const RESOLUTION_NS: u32 = 1000;

/// Everything received about a visit.
pub(super) struct Heard<'a> {
    pub(super) url: &'a str,
    /// Events of the page's tab, from the start of the visit.
    pub(super) events: Vec<BidiEvent>,
    pub(super) navigation: Option<String>,
    /// Why the browser did not load the document.
    pub(super) refused: Option<String>,
    pub(super) channels: Vec<Channel>,
    /// The connections that were started for it.
    pub(super) begun: Vec<Begun>,
    /// Requests of the visit before it.
    pub(super) before: Vec<Channel>,
    /// Fixed addresses of hosts.
    pub(super) pins: &'a [HostPin],
    pub(super) version: Option<String>,
    pub(super) time_limit: Duration,
}

/// Origin of a connection's times, microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) at_us: i64,
}

impl Origin {
    pub(super) fn stamp(self, at_us: i64) -> Stamp {
        Stamp { at: self.offset(at_us), clock: Clock::Reported { resolution_ns: RESOLUTION_NS } }
    }

    pub(super) fn offset(self, at_us: i64) -> Offset {
        Offset::from_nanos(at_us.saturating_sub(self.at_us).saturating_mul(1000))
    }
}

pub(super) fn assemble(heard: &Heard<'_>) -> FirefoxVisit {
    let legs = legs(heard);
    let mut connections: Vec<(Connection, i64)> =
        legs.iter().map(|leg| connection_of(heard, leg)).collect();
    if let (Some(leg), Some((connection, origin))) = (legs.last(), connections.last_mut()) {
        connection.failure = failure_of(heard, leg, connection, Origin { at_us: *origin });
    }
    let (connection, main_us) = connections.pop().unwrap_or_else(|| (unseen(heard), 0));
    let began = connections.first().map_or(main_us, |(_, at)| *at);
    let redirects = connections.into_iter().map(|(connection, _)| connection).collect();
    let main =
        Sample { requested_url: heard.url.to_owned(), redirects, connection, ..Sample::default() };
    let origin = Origin { at_us: began };
    let main_at = origin.offset(main_us);
    let base = Navigation { main, main_at, ..Navigation::default() };
    let document = legs.last().copied();
    FirefoxVisit {
        page: page::complete(base, heard, document, origin),
        bidi: timings(heard),
        early_data: document.and_then(facts::early_data),
        beside: page::beside(heard),
    }
}

/// Whether `event` belongs to the navigation's document.
pub(super) fn is_of_document(heard: &Heard<'_>, event: &BidiEvent) -> bool {
    let own = event.params.get("navigation").and_then(Value::as_str);
    own.is_some() && (heard.navigation.is_none() || own == heard.navigation.as_deref())
}

/// The document's requests, in order: redirects, then the final one.
fn legs<'a>(heard: &'a Heard<'_>) -> Vec<&'a Channel> {
    let mut asked = Vec::new();
    for event in heard.events.iter().filter(|event| event.method == "network.beforeRequestSent") {
        let Some(request) = event.params.get("request").filter(|_| is_of_document(heard, event))
        else {
            continue;
        };
        // The URLs of channels have no fragment, since it is never sent.
        let url = request.get("url").and_then(Value::as_str);
        let url = url.map(|url| url.split_once('#').map_or(url, |(url, _)| url));
        let time_ms = request.get("timings").and_then(|t| t.get("requestTime")?.as_f64());
        asked.extend(url.zip(time_ms.map(|ms| (ms * 1000.0).round() as i64)));
    }
    let channels = heard.channels.iter();
    let channels = channels.filter(|channel| {
        let same =
            |(url, at): &(&str, i64)| channel.url == *url && channel.opened_us.abs_diff(*at) <= 1;
        channel.document && asked.iter().any(same)
    });
    let mut legs: Vec<&Channel> = channels.collect();
    legs.sort_by_key(|channel| channel.opened_us);
    legs
}

/// The connection of a leg, and its origin.
fn connection_of(heard: &Heard<'_>, leg: &Channel) -> (Connection, i64) {
    let first = leg.marks.iter().map(|(_, at)| *at).min().unwrap_or(i64::MAX);
    // Before that time, the browser was busy with itself; the time is not always known.
    let pending = leg.pending_us.filter(|at| *at <= first);
    let origin = Origin { at_us: pending.unwrap_or(leg.opened_us.min(first)) };
    let mut connection = Connection { url: leg.url.clone(), ..Connection::default() };
    connection.started_unix_ns = u64::try_from(origin.at_us).ok().map(|us| us * 1000);
    let answered = leg.status.is_some();
    let reused = answered && leg.at(Mark::ConnectStart).is_none();
    let pinned = is_pinned(heard, &leg.url);
    for (mark, at_us) in &leg.marks {
        let lookup = matches!(mark, Mark::DomainLookupStart | Mark::DomainLookupEnd);
        let set_up = *mark <= Mark::HandshakeConfirmed;
        if !(pinned && lookup || reused && set_up) {
            connection.marks.set(*mark, origin.stamp(*at_us));
        }
    }
    let facts = &mut connection.facts;
    facts.client = Some(client(heard));
    (facts.remote, facts.local) = (leg.remote, leg.local);
    facts.reused = reused;
    facts.tls = facts::tls(leg);
    facts.http = Some(facts::http(leg));
    facts.panel = facts::panel(leg);
    facts.quic = leg.quic().then(QuicFacts::default);
    if !pinned && !reused {
        connection.lookups = lookup(leg, origin).into_iter().collect();
    }
    if !reused && !leg.quic() {
        connection.attempts = attempt(leg, origin).into_iter().collect();
    }
    (connection, origin.at_us)
}

/// Whether the host has a fixed address, so that no name was looked up.
pub(super) fn is_pinned(heard: &Heard<'_>, url: &str) -> bool {
    given_address(heard, url).is_some()
}

/// The fixed address of the URL's host, with the URL's port.
fn given_address(heard: &Heard<'_>, url: &str) -> Option<SocketAddr> {
    let target = Target::parse(url).ok()?;
    let pin = heard.pins.iter().find(|pin| pin.host.eq_ignore_ascii_case(&target.host));
    let literal = target.host.parse::<IpAddr>().ok();
    let address = pin.map(|pin| pin.address).or(literal)?;
    Some(SocketAddr::new(address, target.port))
}

fn host(url: &str) -> String {
    Target::parse(url).map_or_else(|_| url.to_owned(), |target| target.host)
}

fn lookup(leg: &Channel, origin: Origin) -> Option<Lookup> {
    let start = origin.offset(leg.at(Mark::DomainLookupStart)?);
    let end = leg.at(Mark::DomainLookupEnd).map(|at| origin.offset(at));
    let error = leg.error().filter(|_| end.is_none()).map(str::to_owned);
    let (addresses, tries) = (Vec::new(), Vec::new());
    Some(Lookup { record_type: RecordType::Any, start, end, addresses, error, tries })
}

/// The attempt that connected; Firefox does not report the others.
fn attempt(leg: &Channel, origin: Origin) -> Option<Attempt> {
    let (start, end) = (leg.at(Mark::ConnectStart)?, leg.at(Mark::TcpConnected)?);
    Some(Attempt {
        remote: leg.remote?,
        start: origin.offset(start),
        end: Some(origin.offset(end)),
        outcome: AttemptOutcome::Won,
    })
}

/// Why the document did not finish loading, if it did not.
fn failure_of(
    heard: &Heard<'_>,
    leg: &Channel,
    connection: &Connection,
    origin: Origin,
) -> Option<Failure> {
    let length = connection.facts.http.as_ref().and_then(|http| http.header("content-length"));
    let length: Option<u64> = length.and_then(|length| length.parse().ok());
    let short = leg.stopped
        && leg.status.is_some_and(|status| status >= 200 && status != 204 && status != 304)
        && leg.method != "HEAD"
        && leg.encoded_bytes.zip(length).is_some_and(|(came, announced)| came < announced);
    let error = match leg.error() {
        // It was aborted because the time was over.
        Some("NS_BINDING_ABORTED") | None => {
            // If the document is complete, it did not fail because of other resources that the page waits for.
            let refused =
                heard.refused.as_deref().filter(|_| !leg.stopped || leg.error().is_some());
            refused.or_else(|| short.then_some("NS_ERROR_NET_PARTIAL_TRANSFER"))
        }
        error => error,
    }?;
    let at = connection.marks.iter().map(|(_, stamp)| stamp.at).max();
    // After a refused connection, only a fixed address is known.
    let remote = leg.remote.or_else(|| given_address(heard, &leg.url));
    let known = Circumstances {
        host: host(&leg.url),
        remote,
        marks: &connection.marks,
        quic: leg.quic(),
        time_limit: heard.time_limit,
        at: at.or(Some(origin.offset(leg.opened_us))),
        received: leg.encoded_bytes.unwrap_or(0),
    };
    Some(failure::named(error, &known))
}

/// The connection of a document that was never requested.
fn unseen(heard: &Heard<'_>) -> Connection {
    let mut connection = Connection { url: heard.url.to_owned(), ..Connection::default() };
    connection.facts.client = Some(client(heard));
    let known = Circumstances {
        host: host(heard.url),
        remote: None,
        marks: &connection.marks,
        quic: false,
        time_limit: heard.time_limit,
        at: None,
        received: 0,
    };
    let error = heard.refused.as_deref().unwrap_or("the browser did not request the document");
    let failure = failure::named(error, &known);
    connection.failure = Some(failure);
    connection
}

fn client(heard: &Heard<'_>) -> ClientFacts {
    ClientFacts {
        name: "Firefox".to_owned(),
        version: heard.version.clone(),
        tls_library: Some("NSS".to_owned()),
    }
}

/// BiDi's timings of the document's last request.
fn timings(heard: &Heard<'_>) -> Option<BidiTimings> {
    let completed = heard.events.iter().rev().find(|event| {
        event.method == "network.responseCompleted" && is_of_document(heard, event)
    })?;
    Some(BidiTimings::read(completed.params.get("request")?.get("timings")?))
}
