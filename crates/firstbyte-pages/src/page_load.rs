//! Where the time of a page load went: connections, requests, and the share of connection set-up.
//!
//! Input: a [`Navigation`] from any source. Output: its connections and requests on one time axis, in the order in
//! which they were wanted; the path of each origin; and the time that requests waited for connection set-up.
//! Definitions: `docs/measurement.md`, "Pages". Values that the source does not report are absent.

use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Beginning, Connection, ConnectionUse, DeliveredFrom, Mark, Navigation, Offset, PageConnection,
    Race, Resource,
};

/// A page load on one time axis.
#[derive(Clone, Debug, PartialEq)]
pub struct PageLoad {
    /// Requests; the redirects to the document and the document itself come first.
    pub requests: Vec<PageRequest>,
    /// Set-up of each of the navigation's connections, in the same order.
    pub set_ups: Vec<SetUp>,
    /// Hosts with ports, in the order in which they were first wanted.
    pub origins: Vec<OriginPath>,
    /// When the page had loaded; if the source does not report that, when its last byte arrived.
    pub end: Offset,
    /// Time before `end` during which something that the page used waited for connection set-up: DNS, TCP and TLS.
    pub set_up_waited: Duration,
}

/// The set-up of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetUp {
    /// From the first DNS query, or from the first packet, to the end of the handshake. Absent if the connection was
    /// already open or was never established.
    pub span: Option<(Offset, Offset)>,
    /// Time of the DNS lookup.
    pub name: Option<Duration>,
    /// Time of the TCP handshake.
    pub tcp: Option<Duration>,
    /// Time of the TLS handshake; over QUIC, of the QUIC handshake.
    pub handshake: Option<Duration>,
    /// From the first packet to the first reply: the round trip seen in the handshake.
    pub round_trip: Option<Duration>,
    /// Requests sent over the connection.
    pub requests: usize,
    /// Requests among these for another host.
    pub coalesced: usize,
    /// What became of the connection.
    pub fate: Fate,
    /// How long it delayed the connection that was used instead, if it failed or lost.
    pub cost: Option<Duration>,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It carried requests.
    Used,
    /// It was established, but carried no requests.
    #[default]
    Unused,
    /// Another connection was used instead.
    Lost {
        /// Index of that connection among the page's connections.
        to: usize,
    },
    /// It could not be used.
    Failed {
        /// Index of the connection that was used instead, if there was one.
        replaced_by: Option<usize>,
    },
}

impl Fate {
    /// Index of the connection that was used instead.
    pub const fn winner(self) -> Option<usize> {
        match self {
            Self::Lost { to } => Some(to),
            Self::Failed { replaced_by } => replaced_by,
            Self::Used | Self::Unused => None,
        }
    }
}

/// One request of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRequest {
    /// Its URL.
    pub url: String,
    /// Index of its connection among the page's connections.
    pub connection: Option<usize>,
    /// How the request got that connection.
    pub connection_use: Option<ConnectionUse>,
    /// Whether the response came from the server or from a cache.
    pub delivered_from: Option<DeliveredFrom>,
    /// Status of the response.
    pub status: Option<u16>,
    /// When the page asked for it.
    pub asked: Option<Offset>,
    /// When the request was sent, or handed over for sending.
    pub sent: Option<Offset>,
    /// When the first byte of the response arrived.
    pub first_byte: Option<Offset>,
    /// When the last byte of the response arrived.
    pub end: Option<Offset>,
    /// Whether the request did not complete.
    pub failed: bool,
}

/// The network path to an origin.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginPath {
    /// Host and port.
    pub authority: String,
    /// Shortest round trip seen in the handshakes of its connections; TCP's if available.
    pub round_trip: Option<Duration>,
    /// Connections opened to it during the load.
    pub opened: usize,
    /// Requests for this origin.
    pub requests: usize,
}

impl PageLoad {
    /// Derives the layout of `page`.
    pub fn from_navigation(page: &Navigation) -> Self {
        let main_begin = page.main_at;
        let first = page.main.redirects.first().and_then(|leg| leg.started_unix_ns);
        let before = page.main.redirects.iter().map(|leg| {
            // Each leg's clock starts with the leg.
            let later = first.zip(leg.started_unix_ns);
            let later = later.map_or(0, |(first, this)| this.saturating_sub(first));
            let origin = Offset::from_nanos(i64::try_from(later).unwrap_or(i64::MAX));
            let ends = (leg.facts.local, leg.facts.remote);
            let used = |c: &PageConnection| c.local.is_some() && (c.local, c.remote) == ends;
            leg_request(leg, origin, page.connections.iter().position(used), None)
        });
        let main =
            leg_request(&page.main.connection, main_begin, page.main_connection, page.main_use);
        let resources = page.resources.iter().map(resource_request);
        let requests: Vec<PageRequest> = before.chain([main]).chain(resources).collect();
        let set_ups: Vec<SetUp> = page
            .connections
            .iter()
            .enumerate()
            .map(|(place, _)| set_up(&page.connections, place, &requests))
            .collect();
        let last = requests.iter().filter_map(|request| request.end).max();
        let end = page.loaded.map(|stamp| stamp.at).or(last).unwrap_or_default();
        let origins = origins(page, &set_ups, &requests);
        let begins = begins(page, &set_ups);
        let waits = requests
            .iter()
            .filter_map(|request| waited_for_set_up(request, &set_ups, &begins, end));
        let set_up_waited = covered(waits.collect());
        Self { requests, set_ups, origins, end, set_up_waited }
    }

    /// Connections that failed or lost a race, with their indices, in the order in which they were wanted.
    pub fn in_vain(&self) -> impl Iterator<Item = (usize, &SetUp)> {
        let failed_or_lost = |fate| matches!(fate, Fate::Failed { .. } | Fate::Lost { .. });
        self.set_ups.iter().enumerate().filter(move |(_, set_up)| failed_or_lost(set_up.fate))
    }

    /// Share of the load spent waiting for set-up, from 0 to 1; absent if the load has no known end.
    pub fn set_up_share(&self) -> Option<f64> {
        let whole = self.end.since(Offset::ZERO);
        (!whole.is_zero()).then(|| self.set_up_waited.as_secs_f64() / whole.as_secs_f64())
    }
}

/// A copy of `page` that is safe to show: without secrets in its URLs.
pub fn shown_page(page: &Navigation) -> Navigation {
    let mut shown = page.clone();
    let Navigation { main, resources, .. } = &mut shown;
    let legs = main.redirects.iter_mut().chain([&mut main.connection]);
    let of_resources = resources.iter_mut().flat_map(|resource| {
        let initiator = resource.initiator.as_mut().and_then(|initiator| initiator.url.as_mut());
        [Some(&mut resource.url), initiator].into_iter().flatten()
    });
    let urls = legs.map(|leg| &mut leg.url).chain(of_resources).chain([&mut main.requested_url]);
    urls.for_each(|url| *url = shown_url(url));
    shown
}

fn set_up(connections: &[PageConnection], place: usize, requests: &[PageRequest]) -> SetUp {
    let connection = &connections[place];
    let over = || requests.iter().filter(|request| request.connection == Some(place));
    let coalesced =
        over().filter(|request| request.connection_use == Some(ConnectionUse::Coalesced));
    let at = |mark| connection.marks.at(mark);
    let between = |from: Mark, to: Mark| Some(at(to)?.since(at(from)?));
    let begun = [at(Mark::DomainLookupStart), at(Mark::ConnectStart)].into_iter().flatten().min();
    let ready = at(Mark::HandshakeComplete).or_else(|| at(Mark::TcpConnected));
    SetUp {
        span: begun.zip(ready).filter(|(begun, ready)| begun <= ready),
        name: between(Mark::DomainLookupStart, Mark::DomainLookupEnd),
        tcp: between(Mark::ConnectStart, Mark::TcpConnected),
        handshake: between(Mark::SecureConnectionStart, Mark::HandshakeComplete),
        round_trip: round_trip(connection),
        requests: over().count(),
        coalesced: coalesced.count(),
        fate: fate(connection, over().next().is_some()),
        cost: cost(connections, place),
    }
}

fn fate(connection: &PageConnection, used: bool) -> Fate {
    let lost_to = connection.race.filter(|race| !race.won).map(|race| race.against);
    match (&connection.failure, lost_to) {
        (Some(_), replaced_by) => Fate::Failed { replaced_by },
        (None, _) if used => Fate::Used,
        (None, Some(to)) => Fate::Lost { to },
        (None, None) => Fate::Unused,
    }
}

/// Time from the first packet of the connection at `place` until the next connection was begun that was tried after it
/// or used instead.
///
/// Zero if that one was already in progress. If no other connection took its place, the time until it failed.
fn cost(connections: &[PageConnection], place: usize) -> Option<Duration> {
    let begun = |place: usize| connections[place].marks.at(Mark::ConnectStart);
    let own = begun(place)?;
    let connection = &connections[place];
    let Some(race) = connection.race.filter(|race| !race.won) else {
        let failed_at = connection.failure.as_ref()?.at.or(connection.given_up.map(|s| s.at))?;
        return Some(failed_at.since(own));
    };
    let used = begun(race.against)?;
    let also_lost = connections.iter().enumerate().filter(|(other, connection)| {
        *other != place && connection.race == Some(Race { against: race.against, won: false })
    });
    let tried = also_lost.filter_map(|(other, _)| begun(other).filter(|at| *at > own));
    let next = tried.chain([used]).min()?;
    Some(next.max(own).since(own))
}

/// From the first packet to the first reply.
fn round_trip(connection: &PageConnection) -> Option<Duration> {
    let begun = connection.marks.at(Mark::ConnectStart)?;
    let quic = connection.first_answer.map(|stamp| stamp.at);
    let answered = connection.marks.at(Mark::TcpConnected).or(quic)?;
    Some(answered.since(begun))
}

/// For each connection, when the first attempt for its purpose began: its own, or one that failed or lost to it.
fn begins(page: &Navigation, set_ups: &[SetUp]) -> Vec<Option<Offset>> {
    let own = |place: usize| set_ups[place].span.map(|(begun, _)| begun);
    let lost_to = |winner: usize| {
        let lost = set_ups.iter().zip(&page.connections);
        let lost = lost.filter(move |(set_up, _)| set_up.fate.winner() == Some(winner));
        lost.filter_map(|(set_up, connection)| {
            set_up.span.map(|(begun, _)| begun).or(connection.marks.at(Mark::ConnectStart))
        })
    };
    (0..set_ups.len()).map(|place| own(place).into_iter().chain(lost_to(place)).min()).collect()
}

/// The request of one leg of the document's redirects; the leg's own clock starts at `origin`.
fn leg_request(
    leg: &Connection,
    origin: Offset,
    connection: Option<usize>,
    connection_use: Option<ConnectionUse>,
) -> PageRequest {
    let at = |mark| leg.marks.at(mark).map(|at| origin + at.since(Offset::ZERO));
    PageRequest {
        url: leg.url.clone(),
        connection,
        connection_use,
        delivered_from: None,
        status: leg.facts.http.as_ref().and_then(|http| http.status),
        asked: Some(origin),
        sent: at(Mark::RequestStart),
        first_byte: at(Mark::ResponseStart),
        end: at(Mark::ResponseEnd),
        failed: leg.failure.is_some(),
    }
}

fn resource_request(resource: &Resource) -> PageRequest {
    let at = |mark| resource.marks.at(mark);
    PageRequest {
        url: resource.url.clone(),
        connection: resource.connection,
        connection_use: resource.connection_use,
        delivered_from: resource.delivered_from,
        status: resource.status,
        asked: resource.asked.map(|stamp| stamp.at),
        sent: at(Mark::RequestStart),
        first_byte: at(Mark::ResponseStart),
        end: at(Mark::ResponseEnd),
        failed: resource.failure.is_some(),
    }
}

fn origins(page: &Navigation, set_ups: &[SetUp], requests: &[PageRequest]) -> Vec<OriginPath> {
    let mut origins: Vec<OriginPath> = Vec::new();
    let place_of = |origins: &mut Vec<OriginPath>, authority: &str| {
        let known = origins.iter().position(|origin| origin.authority == authority);
        known.unwrap_or_else(|| {
            let authority = authority.to_owned();
            origins.push(OriginPath { authority, round_trip: None, opened: 0, requests: 0 });
            origins.len() - 1
        })
    };
    for (connection, set_up) in page.connections.iter().zip(set_ups) {
        let place = place_of(&mut origins, &connection.authority);
        let origin = &mut origins[place];
        origin.round_trip = origin.round_trip.into_iter().chain(set_up.round_trip).min();
        origin.opened += usize::from(connection.beginning == Some(Beginning::Opened));
    }
    for request in requests {
        // Counted by URL: another host's connection may have served it.
        if let Some(authority) = authority(&request.url) {
            let place = place_of(&mut origins, &authority);
            origins[place].requests += 1;
        }
    }
    origins
}

/// Host and port named by `url`.
pub(crate) fn authority(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())
    });
    let port = if scheme.eq_ignore_ascii_case("http") { 80 } else { 443 };
    (!host.is_empty()).then(|| if has_port { host.to_owned() } else { format!("{host}:{port}") })
}

/// The time from when `request` was wanted until its connection was ready, if it had to wait.
fn waited_for_set_up(
    request: &PageRequest,
    set_ups: &[SetUp],
    begins: &[Option<Offset>],
    end: Offset,
) -> Option<(Offset, Offset)> {
    let place = request.connection?;
    let (begun, ready) = set_ups.get(place)?.span?;
    // The request also waited for earlier attempts that failed or lost.
    let begun = begins[place].map_or(begun, |first| first.min(begun));
    // With early data, the request leaves before the set-up ends.
    let until = request.sent.map_or(ready, |sent| sent.min(ready)).min(end);
    let from = request.asked.map_or(begun, |asked| asked.max(begun)).max(Offset::ZERO);
    (from < until).then_some((from, until))
}

/// Total time covered by the union of `spans`.
fn covered(mut spans: Vec<(Offset, Offset)>) -> Duration {
    spans.sort_unstable();
    let (mut sum, mut until) = (Duration::ZERO, None::<Offset>);
    for (from, to) in spans {
        let from = until.map_or(from, |until| until.max(from));
        sum += to.max(from).since(from);
        until = Some(until.map_or(to, |until| until.max(to)));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_core::timeline::{Initiator, Marks, Stamp};

    fn ms(ms: i64) -> Offset {
        Offset::from_nanos(ms * 1_000_000)
    }

    fn marks(all: &[(Mark, i64)]) -> Marks {
        let mut marks = Marks::default();
        for (mark, at) in all {
            marks.set(*mark, Stamp::user(ms(*at)));
        }
        marks
    }

    fn connection(authority: &str, begun: i64, connected: i64, ready: i64) -> PageConnection {
        PageConnection {
            authority: authority.into(),
            beginning: Some(Beginning::Opened),
            marks: marks(&[
                (Mark::ConnectStart, begun),
                (Mark::TcpConnected, connected),
                (Mark::SecureConnectionStart, connected),
                (Mark::HandshakeComplete, ready),
            ]),
            ..PageConnection::default()
        }
    }

    fn resource(place: usize, how: ConnectionUse, asked: i64, sent: i64, end: i64) -> Resource {
        Resource {
            url: "https://b.test/x".into(),
            connection: Some(place),
            connection_use: Some(how),
            asked: Some(Stamp::user(ms(asked))),
            marks: marks(&[(Mark::RequestStart, sent), (Mark::ResponseEnd, end)]),
            ..Resource::default()
        }
    }

    /// A document after 60 ms of set-up, two origins in parallel, a connection that was not ready when a second request
    /// wanted it, and an unused connection.
    fn page() -> Navigation {
        let mut page = Navigation {
            main_connection: Some(0),
            main_use: Some(ConnectionUse::Opened),
            connections: vec![
                connection("a.test:443", 0, 20, 60),
                connection("b.test:443", 100, 130, 170),
                connection("c.test:443", 150, 160, 200),
                connection("c.test:443", 150, 170, 210),
            ],
            resources: vec![
                resource(1, ConnectionUse::Opened, 100, 170, 260),
                resource(1, ConnectionUse::Reused, 120, 171, 250),
                resource(2, ConnectionUse::Opened, 150, 200, 300),
            ],
            loaded: Some(Stamp::user(ms(400))),
            ..Navigation::default()
        };
        page.main.connection.marks =
            marks(&[(Mark::RequestStart, 60), (Mark::ResponseStart, 80), (Mark::ResponseEnd, 90)]);
        page
    }

    #[test]
    fn set_up_that_was_waited_for_counts_once() {
        let load = PageLoad::from_navigation(&page());
        // 0 to 60 and 100 to 200 ms.
        assert_eq!(load.set_up_waited, Duration::from_millis(160));
        assert!((load.set_up_share().unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(load.end, ms(400));
        let requests: Vec<usize> = load.set_ups.iter().map(|set_up| set_up.requests).collect();
        assert_eq!(requests, [1, 2, 1, 0]);
    }

    #[test]
    fn an_origins_round_trip_is_the_shortest_of_its_handshakes() {
        let load = PageLoad::from_navigation(&page());
        let paths: Vec<_> = load.origins.iter().map(|o| (&*o.authority, o.round_trip)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        let expected = [("a.test:443", ms(20)), ("b.test:443", ms(30)), ("c.test:443", ms(10))];
        assert_eq!(paths, expected);
        // Counted by the origin requested, whichever connection carried it.
        let requests: Vec<usize> = load.origins.iter().map(|origin| origin.requests).collect();
        assert_eq!(requests, [0, 3, 0]);
        assert_eq!(authority("http://[::1]/x").as_deref(), Some("[::1]:80"));
        assert_eq!(authority("https://me@h:8443?x").as_deref(), Some("h:8443"));
    }

    #[test]
    fn early_data_ends_the_wait_and_an_open_connection_has_none() {
        let mut page = page();
        page.main.connection.marks =
            marks(&[(Mark::RequestStart, 25), (Mark::ResponseStart, 80), (Mark::ResponseEnd, 90)]);
        page.connections[1].marks = Marks::default();
        page.connections[1].beginning = Some(Beginning::OpenBefore { idle: None });
        let load = PageLoad::from_navigation(&page);
        assert_eq!(load.set_up_waited, Duration::from_millis(25 + 50));
        assert_eq!(load.set_ups[1].span, None);
    }

    #[test]
    fn what_failed_or_lost_costs_the_time_until_the_next_attempt() {
        let lost = |begun, against| PageConnection {
            authority: "a.test:443".into(),
            race: Some(Race { against, won: false }),
            marks: marks(&[(Mark::ConnectStart, begun)]),
            ..PageConnection::default()
        };
        let mut page = page();
        // The document's connection was the third attempt; a fourth was begun in parallel.
        page.connections[0] = connection("a.test:443", 400, 420, 460);
        page.connections[0].race = Some(Race { against: 4, won: true });
        page.connections.extend([lost(0, 0), lost(250, 0), lost(410, 0)]);
        page.main.connection.marks = marks(&[(Mark::RequestStart, 460)]);
        page.loaded = Some(Stamp::user(ms(800)));
        assert_eq!(page.check(), Ok(()));
        let load = PageLoad::from_navigation(&page);
        let vain: Vec<_> = load.in_vain().map(|(place, set_up)| (place, set_up.cost)).collect();
        let cost = |ms| Some(Duration::from_millis(ms));
        assert_eq!(vain, [(4, cost(250)), (5, cost(150)), (6, cost(0))]);
        assert_eq!(load.set_ups[4].fate, Fate::Lost { to: 0 });
        assert_eq!((load.set_ups[0].fate, load.set_ups[3].fate), (Fate::Used, Fate::Unused));
        // The page waited for all of it.
        assert_eq!(load.set_up_waited, Duration::from_millis(460));
        let set_up = &load.set_ups[0];
        assert_eq!((set_up.tcp, set_up.handshake, set_up.name), (cost(20), cost(40), None));
    }

    #[test]
    fn an_attempt_that_nothing_replaced_costs_until_it_failed() {
        let mut page = page();
        page.connections[3].failure = Some(firstbyte_core::timeline::Failure {
            phase: firstbyte_core::timeline::PhaseName::Connect,
            cause: firstbyte_core::timeline::Cause::Refused {
                remote: "192.0.2.1:443".parse().unwrap(),
            },
            at: Some(ms(170)),
        });
        let load = PageLoad::from_navigation(&page);
        assert_eq!(load.set_ups[3].fate, Fate::Failed { replaced_by: None });
        assert_eq!(load.set_ups[3].cost, Some(Duration::from_millis(20)));
    }

    #[test]
    fn over_quic_the_first_answer_is_the_round_trip() {
        let mut page = page();
        let quic = &mut page.connections[1];
        quic.marks = marks(&[
            (Mark::ConnectStart, 100),
            (Mark::SecureConnectionStart, 100),
            (Mark::HandshakeComplete, 170),
        ]);
        quic.first_answer = Some(Stamp::user(ms(131)));
        let load = PageLoad::from_navigation(&page);
        assert_eq!(load.origins[1].round_trip, Some(Duration::from_millis(31)));
        assert_eq!(load.set_ups[1].handshake, Some(Duration::from_millis(70)));
        assert_eq!(load.set_ups[1].tcp, None);
    }

    #[test]
    fn what_lets_somebody_in_is_not_shown() {
        let mut page = page();
        let secret = "https://me:s3cret@a.test/?token=s3cret";
        page.main.requested_url = secret.into();
        page.main.connection.url = secret.into();
        page.main.redirects.push(page.main.connection.clone());
        page.resources[0].url = secret.into();
        page.resources[0].initiator =
            Some(Initiator { kind: "parser".into(), url: Some(secret.into()) });
        let mut line = Vec::new();
        firstbyte_core::document::navigation_line(&shown_page(&page), &mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains("s3cret") && line.contains("@a.test/?token="), "{line}");
    }

    #[test]
    fn nothing_is_known_of_nothing() {
        let load = PageLoad::from_navigation(&Navigation::default());
        assert_eq!((load.set_up_share(), load.requests.len()), (None, 1));
    }
}
