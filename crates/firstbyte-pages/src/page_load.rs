//! Where the time of a page load went: connections, requests, and how much of it was set-up.
//!
//! Input: a [`Navigation`], from whatever source. Output: its connections and requests on one time axis, in the order in
//! which they were wanted, the path of each origin, and the time that requests waited for connections to be set up.
//! Definitions: `docs/measurement.md`, "Pages". What the source does not say is absent.

use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Beginning, Connection, ConnectionUse, DeliveredFrom, Mark, Navigation, Offset, PageConnection,
    Race, Resource,
};

/// A page load, laid out.
#[derive(Clone, Debug, PartialEq)]
pub struct PageLoad {
    /// What was requested, the document and what redirected to it first.
    pub requests: Vec<PageRequest>,
    /// For each of the navigation's connections, what is derived from it.
    pub set_ups: Vec<SetUp>,
    /// Hosts with ports, in the order in which they were first wanted.
    pub origins: Vec<OriginPath>,
    /// When everything was there that the page waits for; where that is not said, its last byte.
    pub end: Offset,
    /// Time before `end` in which something that the page used waited for a connection's set-up: name, TCP and TLS.
    pub set_up_waited: Duration,
}

/// The set-up of one connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetUp {
    /// From the first question to the name service, or from the first packet, to the end of the handshake; absent where it
    /// was open before, or never came about.
    pub span: Option<(Offset, Offset)>,
    /// Its name was looked up.
    pub name: Option<Duration>,
    /// The TCP handshake.
    pub tcp: Option<Duration>,
    /// The TLS handshake; QUIC's, which is both.
    pub handshake: Option<Duration>,
    /// From its first packet to the first one back: the round trip that its handshake showed.
    pub round_trip: Option<Duration>,
    /// Requests that went over it.
    pub requests: usize,
    /// Those of them that were for another host.
    pub coalesced: usize,
    /// What became of it.
    pub fate: Fate,
    /// Time that it took from the connection that was used in its place, where it failed or lost.
    pub cost: Option<Duration>,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Requests went over it.
    Used,
    /// It was there, and nothing went over it.
    #[default]
    Unused,
    /// Another one was used in its place.
    Lost {
        /// The place of that one among the page's connections.
        to: usize,
    },
    /// It could not be used; where another one stood in for it, its place.
    Failed {
        /// The place of that one.
        replaced_by: Option<usize>,
    },
}

impl Fate {
    /// The connection that was used in its place.
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
    /// The place of its connection among the page's.
    pub connection: Option<usize>,
    /// How it came by that.
    pub connection_use: Option<ConnectionUse>,
    /// Whether it came from the server, or from a cache.
    pub delivered_from: Option<DeliveredFrom>,
    /// Status of the response.
    pub status: Option<u16>,
    /// When it was asked for.
    pub asked: Option<Offset>,
    /// When its request left, or the request was handed over.
    pub sent: Option<Offset>,
    /// When the first byte of its response was there.
    pub first_byte: Option<Offset>,
    /// When the last one was.
    pub end: Option<Offset>,
    /// It did not come to its end.
    pub failed: bool,
}

/// What is known of the way to an origin.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginPath {
    /// Host and port.
    pub authority: String,
    /// The shortest round trip that the handshakes of its connections showed: over TCP where there is one.
    pub round_trip: Option<Duration>,
    /// Its connections that were opened during the load.
    pub opened: usize,
    /// Requests that went to it.
    pub requests: usize,
}

impl PageLoad {
    /// Lays `page` out.
    pub fn from_navigation(page: &Navigation) -> Self {
        let main_begin = page.main_at;
        let first = page.main.redirects.first().and_then(|leg| leg.started_unix_ns);
        let before = page.main.redirects.iter().map(|leg| {
            // Each leg's clock begins with it.
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

    /// Connections that failed or lost a race, with their places, in the order in which they were wanted.
    pub fn in_vain(&self) -> impl Iterator<Item = (usize, &SetUp)> {
        let failed_or_lost = |fate| matches!(fate, Fate::Failed { .. } | Fate::Lost { .. });
        self.set_ups.iter().enumerate().filter(move |(_, set_up)| failed_or_lost(set_up.fate))
    }

    /// What share of the load was waiting for set-up: 0 to 1; absent where nothing is known to have ended.
    pub fn set_up_share(&self) -> Option<f64> {
        let whole = self.end.since(Offset::ZERO);
        (!whole.is_zero()).then(|| self.set_up_waited.as_secs_f64() / whole.as_secs_f64())
    }
}

/// `page` for all that is shown: URLs without what lets somebody in.
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

/// From the first packet of the connection at `place` until the next one in its place was begun: what was tried after it,
/// or was used. Nothing where that was under way already; where nothing took its place, until it failed.
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

/// From the first packet to the first one back.
fn round_trip(connection: &PageConnection) -> Option<Duration> {
    let begun = connection.marks.at(Mark::ConnectStart)?;
    let quic = connection.first_answer.map(|stamp| stamp.at);
    let answered = connection.marks.at(Mark::TcpConnected).or(quic)?;
    Some(answered.since(begun))
}

/// For each connection, when the first one was begun that was tried for what it was used for.
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

/// A leg of the document's way; its own clock begins at `origin`.
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
        // A connection of another host's may have served it.
        if let Some(authority) = authority(&request.url) {
            let place = place_of(&mut origins, &authority);
            origins[place].requests += 1;
        }
    }
    origins
}

/// Host and port that `url` names.
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

/// From when `request` was asked for, as far as its connection was not ready then.
fn waited_for_set_up(
    request: &PageRequest,
    set_ups: &[SetUp],
    begins: &[Option<Offset>],
    end: Offset,
) -> Option<(Offset, Offset)> {
    let place = request.connection?;
    let (begun, ready) = set_ups.get(place)?.span?;
    // What was tried in vain before it was waited for too.
    let begun = begins[place].map_or(begun, |first| first.min(begun));
    // With early data the request leaves before the set-up's end.
    let until = request.sent.map_or(ready, |sent| sent.min(ready)).min(end);
    let from = request.asked.map_or(begun, |asked| asked.max(begun)).max(Offset::ZERO);
    (from < until).then_some((from, until))
}

/// How much time `spans` cover together.
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

    /// A document after 60 ms of set-up, two origins beside each other, one connection that was not ready when a second
    /// request came to it, and one that nothing used.
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
        // 0 to 60, 100 to 200.
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
        // By what was asked for, wherever it went.
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
        // The document's connection was the third attempt; a fourth was begun beside it.
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
        // All of it was waited for.
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
