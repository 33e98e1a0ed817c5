//! What each request of a page waited for, and how long each step took.
//!
//! Input: a page load. Output: requests and connections with their dependencies, from which [`replay`](super::replay)
//! reproduces every time. The source says who asked for what, and when. Other dependencies (a script that had to run
//! first, a turn on a connection) are inferred from what ended just before.

use std::collections::HashMap;

use super::window::Window;
use crate::page_load::{PageLoad, PageRequest};
use firstbyte_core::timeline::{
    Beginning, Handshake, Mark, Navigation, Offset, PageConnection, Resource, TlsFacts,
};

/// Nanoseconds; differences may be negative.
pub(super) type Ns = i64;

/// A longer wait has another cause than the browser's own work.
const IDLE: Ns = 3_000_000;
/// A redirected request leads to the next one within this time.
const AT_ONCE: Ns = 5_000_000;
/// A step may be shorter than a round trip by this share of it, and still count as one.
const SHARE_SHORT: f64 = 0.2;

/// A page as a dependency graph.
#[derive(Clone, Debug, Default)]
pub(super) struct PageGraph {
    pub(super) requests: Vec<Request>,
    pub(super) connections: Vec<Link>,
    /// All times, ordered so that each comes after those that it depends on.
    pub(super) order: Vec<Node>,
    /// Index of the document among the requests.
    pub(super) document: usize,
    /// The end of the load: the requests that it waited for, and the time after the last of them.
    pub(super) end: Trigger,
}

/// A point in time to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Node {
    /// A request was asked for.
    Asked(usize),
    /// A connection could be used.
    Ready(usize),
    /// A response was complete.
    Done(usize),
}

/// What an event waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Trigger {
    /// A position in the response of a request that was still arriving: request, time since its first byte, and
    /// duration of the whole response.
    pub(super) within: Option<(usize, Ns, Ns)>,
    /// Requests that must end first.
    pub(super) after: Vec<usize>,
    /// Time between the latest of these and the event.
    pub(super) gap: Ns,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    /// Host and port named by its URL.
    pub(super) authority: Option<String>,
    pub(super) trigger: Trigger,
    pub(super) connection: Option<usize>,
    /// Requests whose end gave it its turn: the previous one on an HTTP/1.1 connection, or one that the browser
    /// prioritised.
    pub(super) turns: Vec<usize>,
    /// Time from when it could have been sent until it was.
    pub(super) hold: Ns,
    /// Round trips before the first byte.
    pub(super) wait_trips: i64,
    /// The rest of the wait for the first byte: the server's time.
    pub(super) server: Ns,
    /// Round trips from the first byte to the last.
    pub(super) transfer_trips: i64,
    /// The rest of the transfer time.
    pub(super) transfer: Ns,
    pub(super) bytes: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) authority: String,
    /// The request that caused it to be opened; absent if it was already open, or if that request is not known.
    pub(super) opener: Option<usize>,
    /// The round trip, if known.
    pub(super) round_trip: Option<Ns>,
    /// The median round trip of the handshakes; its difference from `round_trip` is the uncertainty.
    pub(super) usual_round_trip: Option<Ns>,
    pub(super) set_up: Option<SetUpTimes>,
    pub(super) quic: bool,
    /// Whether responses can arrive in parallel.
    pub(super) multiplexed: bool,
    pub(super) tls: Option<Tls>,
    pub(super) requests: usize,
}

/// Parameters of a TLS set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tls {
    pub(super) version_1_3: bool,
    pub(super) resumed: bool,
    pub(super) early: bool,
    /// The request left a round trip before the TLS 1.2 handshake was complete (RFC 7918).
    pub(super) false_start: bool,
}

/// A connection's set-up: delay before it, round trips, and the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetUpTimes {
    /// Time since the opening request was asked for.
    pub(super) before: Ns,
    pub(super) trips: i64,
    /// DNS lookup, and processing at both ends.
    pub(super) rest: Ns,
    /// The part of `rest` that the TLS handshake took beyond its round trips.
    pub(super) tls_work: Ns,
}

/// Observed times of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) asked: Ns,
    pub(super) sent: Ns,
    pub(super) first_byte: Ns,
    pub(super) end: Ns,
}

impl Seen {
    /// Times that the source does not report equal the neighbouring ones; absent if it reports none.
    fn from_request(request: &PageRequest) -> Option<Self> {
        let [asked, sent, first, end] =
            [request.asked, request.sent, request.first_byte, request.end]
                .map(|at| at.map(Offset::as_nanos));
        let asked = asked.or(sent).or(first).or(end)?;
        let end = end.or(first).or(sent).unwrap_or(asked);
        let sent = sent.unwrap_or(asked);
        let first_byte = first.unwrap_or(end);
        let ordered = asked <= sent && sent <= first_byte && first_byte <= end;
        ordered.then_some(Self { asked, sent, first_byte, end })
    }
}

/// A page load with its observed times; requests are identified by index.
struct Page<'a> {
    page: &'a Navigation,
    requests: &'a [PageRequest],
    seen: Vec<Seen>,
    document: usize,
}

impl Page<'_> {
    fn resource(&self, place: usize) -> Option<&Resource> {
        self.page.resources.get(place.checked_sub(self.document + 1)?)
    }

    /// Whether the request blocks what follows it in the document: a style sheet, or a script that has to run first.
    fn blocks(&self, place: usize) -> bool {
        let Some(resource) = self.resource(place) else { return false };
        let of_parser = resource.initiator.as_ref().is_some_and(|by| by.kind == "parser");
        let path = resource.url.split(['?', '#']).next().unwrap_or_default();
        let is_code = [".js", ".mjs", ".css"].iter().any(|end| path.ends_with(end));
        let high = resource.priority.as_deref().is_some_and(|priority| {
            priority == "VeryHigh" || priority == "High" || (priority == "Medium" && is_code)
        });
        of_parser && (high || (resource.priority.is_none() && is_code))
    }
}

impl PageGraph {
    /// Builds the graph of `page`; absent if the load did not complete or a time is missing.
    pub(super) fn from_navigation(page: &Navigation) -> Option<Self> {
        let laid_out = PageLoad::from_navigation(page);
        let loaded = page.loaded?.at.as_nanos();
        let seen: Option<Vec<Seen>> = laid_out.requests.iter().map(Seen::from_request).collect();
        let document = page.main.redirects.len();
        let page = Page { page, requests: &laid_out.requests, seen: seen?, document };
        let mut graph = Self { document, ..Self::default() };
        graph.connections = page.page.connections.iter().map(Link::from_connection).collect();
        graph.round_trips(&page);
        for place in 0..page.seen.len() {
            graph.requests.push(graph.request(&page, place));
        }
        graph.openers(&page);
        graph.turns(&page);
        graph.windows(&page);
        graph.end = Trigger::ending(&page, loaded);
        graph.order(&page);
        Some(graph)
    }

    /// Sets each round trip to the shortest time of a handshake or request, and the usual one to the median of the
    /// handshakes.
    fn round_trips(&mut self, page: &Page<'_>) {
        let mut of: HashMap<String, (Vec<Ns>, Vec<Ns>)> = HashMap::new();
        for connection in &page.page.connections {
            let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
            let tcp = at(Mark::ConnectStart).zip(at(Mark::TcpConnected));
            if let Some((begun, connected)) = tcp.filter(|(begun, connected)| begun < connected) {
                let seen = of.entry(connection.authority.clone()).or_default();
                seen.0.push(connected - begun);
            }
        }
        for (request, seen) in page.requests.iter().zip(&page.seen) {
            let Some(connection) = request.connection.and_then(|c| page.page.connections.get(c))
            else {
                continue;
            };
            // A request answered before the end of the handshake was early data, and waits as long.
            if seen.first_byte > seen.sent {
                of.entry(connection.authority.clone())
                    .or_default()
                    .1
                    .push(seen.first_byte - seen.sent);
            }
        }
        for link in &mut self.connections {
            let Some((handshakes, waits)) = of.get_mut(&link.authority) else { continue };
            link.round_trip = handshakes.iter().chain(waits.iter()).min().copied();
            handshakes.sort_unstable();
            link.usual_round_trip =
                handshakes.get(handshakes.len() / 2).copied().or(link.round_trip);
        }
        let of_page = page.page.connections.iter();
        // One handshake below two round trips shows that the browser uses False Start on all connections.
        if self
            .connections
            .iter()
            .zip(of_page)
            .any(|(link, connection)| link.starts_early(connection))
        {
            for tls in self.connections.iter_mut().filter_map(|link| link.tls.as_mut()) {
                tls.false_start = !tls.version_1_3;
            }
        }
        for (link, connection) in self.connections.iter_mut().zip(&page.page.connections) {
            link.set_up = link.set_up_times(connection);
        }
    }

    fn request(&self, page: &Page<'_>, place: usize) -> Request {
        let (request, seen) = (&page.requests[place], page.seen[place]);
        let bytes = match page.resource(place) {
            Some(resource) => resource.sizes.transferred_bytes,
            None if place == page.document => {
                let http = page.page.main.connection.facts.http.as_ref();
                http.and_then(|http| http.body_bytes)
            }
            None => None,
        };
        Request {
            authority: crate::page_load::authority(&request.url),
            trigger: Trigger::asking(page, place),
            connection: request.connection,
            hold: 0,
            wait_trips: 1,
            server: seen.first_byte - seen.sent,
            transfer: seen.end - seen.first_byte,
            bytes,
            ..Request::default()
        }
    }

    /// Finds the request that opened each connection: the last one asked for before the connection was begun.
    fn openers(&mut self, page: &Page<'_>) {
        for (place, link) in self.connections.iter_mut().enumerate() {
            link.requests =
                page.requests.iter().filter(|request| request.connection == Some(place)).count();
            let Some((begun, _)) = begun_and_ready(&page.page.connections[place]) else {
                link.set_up = None;
                continue;
            };
            let own = |of: usize| {
                let request = &page.requests[of];
                request.connection == Some(place)
                    || crate::page_load::authority(&request.url).as_ref() == Some(&link.authority)
            };
            let used = page.requests.iter().zip(&page.seen);
            let used = used.filter(|(request, _)| request.connection == Some(place));
            let by = used.map(|(_, seen)| seen.sent).chain([begun]).min().unwrap_or(begun);
            let asked_before =
                (0..page.seen.len()).filter(|of| own(*of) && page.seen[*of].asked <= by);
            link.opener = asked_before.max_by_key(|of| (page.seen[*of].asked, usize::MAX - *of));
            match (link.opener, &mut link.set_up) {
                (Some(opener), Some(set_up)) => set_up.before = begun - page.seen[opener].asked,
                _ => link.set_up = None,
            }
        }
    }

    /// Finds what each request waited for between being asked for and being sent.
    fn turns(&mut self, page: &Page<'_>) {
        for place in 0..self.requests.len() {
            let seen = page.seen[place];
            let connection = self.requests[place].connection;
            let mut could = seen.asked;
            if let Some(link) = connection.map(|connection| &self.connections[connection]) {
                if let Some(ready) = link.ready(page) {
                    could = could.max(ready);
                }
                if !link.multiplexed {
                    let before = (0..self.requests.len()).filter(|other| {
                        self.requests[*other].connection == connection
                            && page.seen[*other].sent < seen.sent
                            && page.seen[*other].end <= seen.sent
                    });
                    let before = before.max_by_key(|other| page.seen[*other].end);
                    self.requests[place].turns.extend(before);
                }
            }
            let turn = self.requests[place].turns.iter().map(|other| page.seen[*other].end).max();
            could = could.max(turn.unwrap_or(could));
            if seen.sent - could > IDLE {
                // The browser held it back until something else had arrived.
                let ended = (0..self.requests.len()).filter(|other| {
                    let other = page.seen[*other];
                    other.sent < seen.sent && other.end > could && other.end <= seen.sent
                });
                if let Some(last) = ended.max_by_key(|other| page.seen[*other].end)
                    && seen.sent - page.seen[last].end <= IDLE
                {
                    self.requests[place].turns.push(last);
                    could = page.seen[last].end;
                }
            }
            self.requests[place].hold = seen.sent - could;
        }
    }

    /// Computes how many round trips of each response were spent waiting for the sender's congestion window.
    fn windows(&mut self, page: &Page<'_>) {
        for (place, link) in self.connections.iter().enumerate() {
            let Some(round_trip) = link.round_trip else { continue };
            let mut over: Vec<usize> = (0..self.requests.len())
                .filter(|request| self.requests[*request].connection == Some(place))
                .collect();
            over.sort_by_key(|request| page.seen[*request].sent);
            let mut window = Window::new(round_trip);
            for request in over {
                let (seen, request) = (page.seen[request], &mut self.requests[request]);
                let from = seen.sent + round_trip;
                let bytes = request.bytes.unwrap_or(1);
                let (first, last) = window.deliver(from, bytes);
                let trips = |model: Ns, seen: Ns| {
                    let most = (seen as f64 / round_trip as f64 + SHARE_SHORT).floor() as i64;
                    let model = (model as f64 / round_trip as f64).round() as i64;
                    model.min(most).max(0)
                };
                request.wait_trips = 1 + trips(first - from, seen.first_byte - from);
                request.transfer_trips = trips(last - first, seen.end - seen.first_byte);
                request.server = seen.first_byte - seen.sent - request.wait_trips * round_trip;
                request.transfer = seen.end - seen.first_byte - request.transfer_trips * round_trip;
            }
        }
    }

    fn order(&mut self, page: &Page<'_>) {
        let mut nodes: Vec<(Ns, Node)> = Vec::new();
        for (place, seen) in page.seen.iter().enumerate() {
            nodes.push((seen.asked, Node::Asked(place)));
            nodes.push((seen.sent, Node::Done(place)));
        }
        for (place, link) in self.connections.iter().enumerate() {
            let used = page.requests.iter().zip(&page.seen);
            let used = used.filter(|(request, _)| request.connection == Some(place));
            let first = used.map(|(_, seen)| seen.sent).min();
            if let Some(ready) = link.ready(page) {
                nodes.push((first.map_or(ready, |first| first.min(ready)), Node::Ready(place)));
            }
        }
        nodes.sort_unstable();
        self.order = nodes.into_iter().map(|(_, node)| node).collect();
    }
}

impl Trigger {
    /// What the request at `place` waited for before it was asked for.
    fn asking(page: &Page<'_>, place: usize) -> Self {
        let asked = page.seen[place].asked;
        let before = |other: &usize| *other != place && page.seen[*other].sent < asked;
        if place <= page.document {
            // Redirects lead to the document.
            let after: Vec<usize> = place.checked_sub(1).filter(before).into_iter().collect();
            return Self::new(page, None, after, asked);
        }
        let redirected = (page.document + 1..page.seen.len()).filter(before).find(|other| {
            let status = page.requests[*other].status.unwrap_or_default();
            let led_on = page.seen[*other].first_byte;
            (300..400).contains(&status)
                && status != 304
                && (led_on..=led_on + AT_ONCE).contains(&asked)
        });
        if let Some(redirected) = redirected.filter(|other| page.seen[*other].end <= asked) {
            return Self::new(page, None, vec![redirected], asked);
        }
        let initiator =
            page.resource(place).and_then(|resource| resource.initiator.as_ref()?.url.as_deref());
        let by = initiator.and_then(|url| {
            (0..page.seen.len()).filter(before).rfind(|other| page.requests[*other].url == url)
        });
        let by = by.unwrap_or(page.document);
        let begun = page.seen[by];
        if !before(&by) || begun.first_byte > asked {
            return Self::new(page, None, Vec::new(), asked);
        }
        let within = (asked < begun.end).then_some((
            by,
            asked - begun.first_byte,
            begun.end - begun.first_byte,
        ));
        if within.is_some() {
            return Self::new(page, within, Vec::new(), asked);
        }
        let mut after = vec![by];
        let blocking =
            |other: &usize| before(other) && page.blocks(*other) && page.seen[*other].end <= asked;
        if by != page.document && page.blocks(by) {
            // Scripts run in document order, after the style sheets before them.
            let earlier = |other: &usize| {
                blocking(other) && page.seen[*other].asked <= begun.asked && *other < by
            };
            after.extend((page.document + 1..page.seen.len()).filter(earlier));
        }
        let latest = after.iter().map(|other| page.seen[*other].end).max().unwrap_or(asked);
        if asked - latest > IDLE {
            // It also waited for something else: what ended last.
            let ended = (page.document + 1..page.seen.len())
                .filter(blocking)
                .filter(|other| page.seen[*other].end > latest);
            after.extend(ended.max_by_key(|other| page.seen[*other].end));
        }
        Self::new(page, None, after, asked)
    }

    /// What the end of the load waited for: all requests complete by then.
    fn ending(page: &Page<'_>, loaded: Ns) -> Self {
        let there = |other: &usize| page.seen[*other].end <= loaded;
        Self::new(page, None, (0..page.seen.len()).filter(there).collect(), loaded)
    }

    fn new(page: &Page<'_>, within: Option<(usize, Ns, Ns)>, after: Vec<usize>, at: Ns) -> Self {
        let within_at = within.map(|(by, far, _)| page.seen[by].first_byte + far);
        let ends = after.iter().map(|other| page.seen[*other].end);
        let latest = ends.chain(within_at).max().unwrap_or(0);
        Self { within, after, gap: at - latest }
    }
}

impl Link {
    fn from_connection(connection: &PageConnection) -> Self {
        let tls = connection.tls.as_ref();
        let protocol = connection.protocol.as_deref().unwrap_or_default();
        let quic = protocol.starts_with("h3") || protocol.contains("quic");
        let tls = tls.map(|tls| Tls {
            version_1_3: quic || tls.version.as_deref() == Some("TLSv1.3"),
            resumed: tls.handshake == Some(Handshake::Resumed),
            early: is_early(tls),
            false_start: false,
        });
        Self {
            authority: connection.authority.clone(),
            quic,
            multiplexed: quic || protocol == "h2",
            tls,
            ..Self::default()
        }
    }

    /// Splits the set-up time of `connection` into round trips and the rest.
    fn set_up_times(&self, connection: &PageConnection) -> Option<SetUpTimes> {
        let (begun, ready) = begun_and_ready(connection)?;
        let round_trip = self.round_trip.unwrap_or_default();
        let trips = self.set_up_trips();
        let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
        let tls = at(Mark::SecureConnectionStart).zip(at(Mark::HandshakeComplete));
        let tls_trips = if self.quic { trips } else { trips - 1 };
        let work = tls.map_or(0, |(from, to)| (to - from - tls_trips * round_trip).max(0));
        Some(SetUpTimes {
            before: 0,
            trips,
            rest: ready - begun - trips * round_trip,
            tls_work: work,
        })
    }

    /// Round trips until the connection can be used, according to its protocols.
    pub(super) fn set_up_trips(&self) -> i64 {
        let tls = match self.tls {
            _ if self.quic => 1,
            None => 0,
            Some(Tls { early: true, .. }) => 0,
            Some(Tls { version_1_3: false, resumed: false, false_start: false, .. }) => 2,
            Some(_) => 1,
        };
        let early_quic = self.quic && self.tls.is_some_and(|tls| tls.early);
        tls + i64::from(!self.quic) - i64::from(early_quic)
    }

    /// Whether a full TLS 1.2 handshake took less than its two round trips.
    fn starts_early(&self, connection: &PageConnection) -> bool {
        let full = self.tls.is_some_and(|tls| !tls.version_1_3 && !tls.resumed);
        let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
        let took = at(Mark::SecureConnectionStart).zip(at(Mark::HandshakeComplete));
        let took = took.map(|(from, to)| (to - from) as f64);
        let two = self.round_trip.map(|round_trip| (2.0 - SHARE_SHORT) * round_trip as f64);
        full && !self.quic && took.zip(two).is_some_and(|(took, two)| took < two)
    }

    /// When it could be used, if it was opened during the load.
    fn ready(&self, page: &Page<'_>) -> Option<Ns> {
        let (set_up, opener) = (self.set_up?, self.opener?);
        let round_trip = self.round_trip.unwrap_or_default();
        Some(page.seen[opener].asked + set_up.before + set_up.trips * round_trip + set_up.rest)
    }
}

/// When a connection was begun, including its DNS lookup, and when it could be used.
fn begun_and_ready(connection: &PageConnection) -> Option<(Ns, Ns)> {
    if matches!(connection.beginning, Some(Beginning::OpenBefore { .. })) {
        return None;
    }
    let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
    let begun =
        [at(Mark::DomainLookupStart), at(Mark::ConnectStart)].into_iter().flatten().min()?;
    let early = connection.tls.as_ref().is_some_and(is_early);
    let ready = match early {
        // The request leaves with the first message of the handshake.
        true => at(Mark::SecureConnectionStart).or(at(Mark::ConnectStart)),
        false => at(Mark::HandshakeComplete).or(at(Mark::TcpConnected)),
    };
    ready.filter(|ready| begun <= *ready).map(|ready| (begun, ready))
}

fn is_early(tls: &TlsFacts) -> bool {
    tls.early_data.is_some_and(|early| early.accepted == Some(true))
}
