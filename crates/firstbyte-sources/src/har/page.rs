//! Converts a page of an archive to a page load: connections and requests on one time axis.
//!
//! In most archives times of day are whole milliseconds, so requests are placed no more precisely than that. Requests
//! that were answered by a browser cache or have no times appear without a connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::entry::{HarArchive, HarEntry, HarPage};
use super::judge::{HarExchange, HarOutcome};
use super::rules::HarRules;
use super::summary::HarSummary;
use firstbyte_core::timeline::{
    Beginning, Clock, Connection, ConnectionUse, DeliveredFrom, HttpFacts, Initiator, Mark, Marks,
    Navigation, NavigationFlaw, Offset, PageConnection, Resource, ResourceSizes, Sample, Stamp,
};
use firstbyte_pages::page_load::PageLoad;

/// Maximum number of requests of a page that is drawn.
const MOST_REQUESTS: usize = 2_000;

/// The page of `archive` with the most timed requests, laid out on a time axis.
///
/// Absent if no page has a load time, or if that page has no document or too many requests to draw.
///
/// # Errors
/// If its times contradict each other.
pub fn page(
    archive: &HarArchive,
    summary: &HarSummary,
) -> Result<Option<(Navigation, PageLoad)>, NavigationFlaw> {
    let rules = archive.rules();
    let mut requests = vec![0_usize; archive.pages.len()];
    for (entry, exchange) in archive.entries.iter().zip(&summary.exchanges) {
        if let Some(page) = entry.page.filter(|_| exchange.outcome.is_timed()) {
            requests[page as usize] += 1;
        }
    }
    let drawn = |place: &usize| {
        let HarPage { started_unix_ns, loaded, .. } = &archive.pages[*place];
        started_unix_ns.is_some() && loaded.is_some_and(|loaded| !loaded.is_zero())
    };
    // Of pages with equally many requests, the first.
    let most = (0..archive.pages.len()).rev().filter(drawn).max_by_key(|place| requests[*place]);
    let Some(place) = most.filter(|place| requests[*place] > 0) else { return Ok(None) };
    let of_page: Vec<(&HarEntry, &HarExchange)> = archive
        .entries
        .iter()
        .zip(&summary.exchanges)
        .filter(|(entry, exchange)| {
            let is_drawn = !matches!(exchange.outcome, HarOutcome::Local | HarOutcome::Flawed);
            entry.page.map(|page| page as usize) == Some(place)
                && entry.started_unix_ns.is_some()
                && is_drawn
        })
        .collect();
    if of_page.len() > MOST_REQUESTS {
        return Ok(None);
    }
    let navigation = Laying::new(rules, &archive.pages[place]).page(&of_page);
    // Without a document, the start of the page is unknown.
    if navigation.main.connection.url.is_empty() {
        return Ok(None);
    }
    navigation.check()?;
    let mut load = PageLoad::from_navigation(&navigation);
    // The document is the first request there, then the others follow. Archives give the reason of a failure at most in
    // words.
    let document = of_page.iter().position(is_document);
    let besides = of_page.iter().enumerate().filter(|(place, _)| Some(*place) != document);
    for (request, (_, (_, exchange))) in load.requests.iter_mut().skip(1).zip(besides) {
        request.failed |= exchange.outcome == HarOutcome::Failed;
    }
    if !rules.tcp_is_round_trip {
        load.origins.iter_mut().for_each(|origin| origin.round_trip = None);
        load.set_ups.iter_mut().for_each(|set_up| set_up.round_trip = None);
    }
    Ok(Some((navigation, load)))
}

/// Whether it can be the page's document; the first such entry is.
fn is_document((entry, exchange): &(&HarEntry, &HarExchange)) -> bool {
    exchange.outcome.is_timed()
        && !matches!(entry.status, Some(300..400))
        && entry.resource_type.as_deref().is_none_or(|kind| kind == "document")
}

struct Laying<'a> {
    rules: &'a HarRules,
    page: &'a HarPage,
    begun_unix_ns: i64,
    clock: Clock,
    connections: Vec<PageConnection>,
    /// Named connections, by host and name.
    named: HashMap<(String, String), usize>,
}

/// The phases of a request on the time axis.
struct Placed {
    asked: Offset,
    set_up: Marks,
    exchange: Marks,
}

impl<'a> Laying<'a> {
    fn new(rules: &'a HarRules, page: &'a HarPage) -> Self {
        let step = rules.resolution.unwrap_or(Duration::from_millis(1)).as_nanos();
        Self {
            rules,
            page,
            begun_unix_ns: page.started_unix_ns.unwrap_or_default(),
            clock: Clock::Reported { resolution_ns: u32::try_from(step).unwrap_or(u32::MAX) },
            connections: Vec::new(),
            named: HashMap::new(),
        }
    }

    fn stamp(&self, at: Offset) -> Stamp {
        Stamp { at, clock: self.clock }
    }

    fn page(mut self, requests: &[(&HarEntry, &HarExchange)]) -> Navigation {
        let document = requests.iter().position(is_document);
        let mut page = Navigation::default();
        for (place, (entry, exchange)) in requests.iter().enumerate() {
            let placed = self.place(entry, exchange);
            let used = self.connection(entry, exchange, &placed);
            if document == Some(place) {
                (page.main_connection, page.main_use) = (used.map(|u| u.0), used.and_then(|u| u.1));
                page.main_at = placed.asked;
                page.main = Self::document(entry, &placed);
                continue;
            }
            page.resources.push(Resource {
                url: entry.url.to_string(),
                method: entry.method.as_deref().map(str::to_owned),
                status: entry.status.and_then(|s| u16::try_from(s).ok()).filter(|s| *s > 0),
                initiator: None::<Initiator>,
                connection: used.map(|used| used.0),
                connection_use: used.and_then(|used| used.1),
                delivered_from: match exchange.outcome {
                    HarOutcome::Cached => entry.delivered_from.or(Some(DeliveredFrom::Cache)),
                    _ => entry.delivered_from,
                },
                protocol: entry.protocol.as_deref().map(str::to_owned),
                asked: Some(self.stamp(placed.asked)),
                marks: placed.exchange,
                sizes: ResourceSizes {
                    transferred_bytes: entry.transferred_bytes,
                    body_bytes: entry.body_bytes,
                    decoded_bytes: entry.decoded_bytes,
                },
                ..Resource::default()
            });
        }
        page.main.requested_url = match (&self.page.url, document) {
            (Some(url), _) => url.clone(),
            (None, Some(_)) => page.main.connection.url.clone(),
            (None, None) => String::new(),
        };
        let at = |time: Option<Duration>| time.map(|time| self.stamp(Offset::ZERO + time));
        page.content_loaded = at(self.page.content_loaded);
        page.loaded = at(self.page.loaded);
        page.connections = self.connections;
        page
    }

    fn document(entry: &HarEntry, placed: &Placed) -> Sample {
        // A leg's clock starts when the leg does.
        let mut marks = Marks::default();
        for (mark, stamp) in placed.set_up.iter().chain(placed.exchange.iter()) {
            let at = Offset::from_nanos(stamp.at.as_nanos() - placed.asked.as_nanos());
            marks.set(mark, Stamp { at, ..stamp });
        }
        let http = HttpFacts {
            method: entry.method.as_deref().unwrap_or_default().to_owned(),
            status: entry.status.and_then(|status| u16::try_from(status).ok()),
            ..HttpFacts::default()
        };
        let mut connection =
            Connection { url: entry.url.to_string(), marks, ..Connection::default() };
        connection.started_unix_ns = entry.started_unix_ns.and_then(|at| u64::try_from(at).ok());
        connection.facts.http = Some(http);
        Sample { requested_url: entry.url.to_string(), connection, ..Sample::default() }
    }

    fn place(&self, entry: &HarEntry, exchange: &HarExchange) -> Placed {
        let begun = entry.started_unix_ns.unwrap_or(self.begun_unix_ns);
        let asked = Offset::from_nanos(begun.saturating_sub(self.begun_unix_ns));
        let mut placed = Placed { asked, set_up: Marks::default(), exchange: Marks::default() };
        if !exchange.outcome.is_timed() {
            return placed;
        }
        let phases = &exchange.phases;
        let mut at = asked + phases.blocked.unwrap_or_default();
        let mut step = |marks: &mut Marks, from: Option<Mark>, time: Duration, to: Option<Mark>| {
            from.inspect(|mark| marks.set(*mark, self.stamp(at)));
            at = at + time;
            to.inspect(|mark| marks.set(*mark, self.stamp(at)));
        };
        let set_up = &mut placed.set_up;
        if let Some(dns) = phases.dns {
            step(set_up, Some(Mark::DomainLookupStart), dns, Some(Mark::DomainLookupEnd));
        }
        if let Some(quic) = phases.quic {
            step(set_up, Some(Mark::ConnectStart), quic, Some(Mark::HandshakeComplete));
            let begun = set_up.stamp(Mark::ConnectStart);
            begun.inspect(|begun| set_up.set(Mark::SecureConnectionStart, *begun));
        }
        if let Some(tcp) = phases.connect {
            step(set_up, Some(Mark::ConnectStart), tcp, Some(Mark::TcpConnected));
        }
        if let Some(tls) = phases.tls {
            let begun = Some(Mark::SecureConnectionStart);
            step(set_up, begun, tls, Some(Mark::HandshakeComplete));
        }
        let of_exchange = &mut placed.exchange;
        let send = phases.send.unwrap_or_default();
        step(of_exchange, Some(Mark::RequestStart), send, Some(Mark::RequestEnd));
        if let Some(wait) = phases.wait {
            step(of_exchange, None, wait, Some(Mark::ResponseStart));
            if let Some(receive) = phases.receive {
                step(of_exchange, None, receive, Some(Mark::ResponseEnd));
            }
        }
        placed
    }

    /// Index of a request's connection, and how the request got it.
    fn connection(
        &mut self,
        entry: &HarEntry,
        exchange: &HarExchange,
        placed: &Placed,
    ) -> Option<(usize, Option<ConnectionUse>)> {
        let authority = entry.authority.as_deref()?;
        if !exchange.outcome.is_timed() {
            return None;
        }
        let opened = exchange.outcome == HarOutcome::Opened;
        let name =
            entry.connection_name(self.rules).map(|name| (authority.to_owned(), name.to_owned()));
        let known = name.as_ref().and_then(|name| self.named.get(name).copied());
        // Which existing connection it used is unknown.
        if !opened && name.is_none() {
            return None;
        }
        if let Some(place) = known {
            let connection = &mut self.connections[place];
            // Requests are in the order in which they were made; the one that opened the connection may come later.
            if opened && connection.beginning.is_none() {
                connection.beginning = Some(Beginning::Opened);
                connection.marks = placed.set_up;
                return Some((place, Some(ConnectionUse::Opened)));
            }
            let begun = connection.marks.at(Mark::ConnectStart);
            let sent = placed.exchange.at(Mark::RequestStart);
            let before = begun.zip(sent).is_some_and(|(begun, sent)| sent < begun);
            return (!before).then_some((place, Some(ConnectionUse::Reused)));
        }
        let place = self.connections.len();
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        self.connections.push(PageConnection {
            authority: authority.to_owned(),
            client_id: name.as_ref().map(|(_, name)| name.clone()),
            remote: entry.server.zip(port).map(|(ip, port)| SocketAddr::new(ip, port)),
            beginning: opened.then_some(Beginning::Opened),
            protocol: entry.protocol.as_deref().map(str::to_owned),
            marks: if opened { placed.set_up } else { Marks::default() },
            ..PageConnection::default()
        });
        name.map(|name| self.named.insert(name, place));
        // If no request waited for it, it was opened in advance, or before.
        let how = if opened { ConnectionUse::Opened } else { ConnectionUse::Reused };
        Some((place, Some(how)))
    }
}
