//! One visit over a simulated path, and the properties of all visits.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    Cause, Clock, Connection, Direction, Flight, HttpFacts, LastSeen, Mark, Offset, PhaseName,
    TimeLimit,
};
use tokio::task::LocalSet;

use super::peers::CERTIFICATE;
use crate::net::Bind;
use crate::net::simulated::{Path, SimulatedStream, StreamPeer, Written};
use crate::probe::body::Body;
use crate::probe::connect::CONNECTION_ATTEMPT_DELAY;
use crate::probe::observation::{Observation, Shared, When};
use crate::probe::options::{
    HttpOptions, HttpVersion, Options, SessionUse, TlsOptions, TlsVersion,
};
use crate::probe::proxy::{ProxyRoute, pass_proxy, tls_options};
use crate::probe::stream::Stream;
use crate::probe::tls::{Spoken, Tls, TlsStock};
use crate::probe::{Target, connect, http};
use firstbyte_clock::simulated::SimulatedClock;

pub(super) const HOST: &str = "server.test";
pub(super) const REMOTE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 80)), 443);

/// Runs a test on a simulated clock that never waits.
pub(super) fn simulated<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let _clock = SimulatedClock::start();
        test.await
    })
}

/// The client of a visit, and its settings.
pub(super) struct Client {
    pub(super) tls: Option<Tls>,
    pub(super) http: HttpOptions,
    pub(super) path: Path,
    /// Options that determine the proxies.
    pub(super) proxies: Options,
    early: bool,
}

/// The versions to use.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) http: HttpVersion,
    pub(super) tls: TlsVersion,
    pub(super) session: SessionUse,
}

impl Default for Asked {
    fn default() -> Self {
        let (http, session) = (HttpVersion::Http1, SessionUse::Full);
        Self { http, tls: TlsVersion::V1_3, session }
    }
}

impl Client {
    pub(super) fn new(asked: &Asked) -> Self {
        let options = TlsOptions {
            min: TlsVersion::V1_2,
            max: asked.tls,
            groups: vec!["X25519".into()],
            insecure: true,
            ca_file: Some(PathBuf::from(CERTIFICATE.ca_file())),
            session: asked.session,
            ..TlsOptions::default()
        };
        let tls = Tls::new(&options, asked.http, &TlsStock::default());
        let tls = tls.unwrap_or_else(|e| panic!("{e}"));
        let http = HttpOptions {
            version: asked.http,
            user_agent: "test".into(),
            ..HttpOptions::default()
        };
        let early = matches!(asked.session, SessionUse::EarlyData { .. });
        Self { tls: Some(tls), http, path: Path::default(), proxies: Options::default(), early }
    }

    /// A client without TLS.
    pub(super) fn plain() -> Self {
        Self { tls: None, ..Self::new(&Asked::default()) }
    }

    pub(super) fn target(&self) -> Target {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Target::parse(&format!("{scheme}://{HOST}/")).unwrap()
    }

    pub(super) fn observe(&self) -> Shared {
        let seen = Observation::start(self.target().url.as_str());
        let method = self.http.method.to_string();
        seen.borrow_mut().connection.facts.http =
            Some(HttpFacts { method, ..HttpFacts::default() });
        seen
    }

    /// Visits `peer`, and checks the properties of every visit.
    pub(super) async fn visit(&self, peer: impl StreamPeer + 'static) -> Visited {
        self.visit_within(Duration::from_secs(3_600), peer).await
    }

    /// Like `visit`, with a time limit.
    pub(super) async fn visit_within(
        &self,
        limit: Duration,
        peer: impl StreamPeer + 'static,
    ) -> Visited {
        let visited = self.visit_until(limit, Cause::Interrupted, peer).await;
        visited.keep_the_laws();
        visited
    }

    /// Ends a visit at a limit that the user set, and returns the peer's last sign of life.
    pub(super) async fn time_out(
        &self,
        after: Duration,
        peer: impl StreamPeer + 'static,
    ) -> LastSeen {
        let cause = Cause::TimedOut { after, limit: TimeLimit::Visit, peer: LastSeen::Nothing };
        let visited = self.visit_until(after, cause, peer).await;
        match visited.connection.failure.map(|failure| failure.cause) {
            Some(Cause::TimedOut { peer, .. }) => peer,
            other => panic!("{other:?}"),
        }
    }

    async fn visit_until(
        &self,
        limit: Duration,
        then: Cause,
        peer: impl StreamPeer + 'static,
    ) -> Visited {
        let seen = self.observe();
        let wire = SimulatedStream::new(self.path, peer);
        let steps = tokio::time::timeout(limit, self.steps(&seen, &wire));
        let outcome = steps.await.unwrap_or(Err(then));
        let connection = seen.borrow_mut().finish(outcome);
        Visited { connection, written: wire.written() }
    }

    /// Visits `peer`, and again on the same connection after `pause` if the connection can be used.
    pub(super) async fn visit_again(
        &self,
        peer: impl StreamPeer + 'static,
        pause: Duration,
    ) -> (Connection, Option<Connection>) {
        let seen = self.observe();
        let wire = SimulatedStream::new(self.path, peer);
        let session = self.tls.as_ref().map(|tls| tls.begin(HOST).unwrap());
        let (stream, http2) = self.opened(&seen, &wire, session).await.unwrap();
        let mut open = http::Open::new(stream, http2);
        let mut body = Body::new(&self.http, false, &seen);
        let outcome = open.exchange(&self.target(), &self.http, &mut body, &seen).await;
        open.note_kernel();
        let first = seen.borrow_mut().finish(outcome);
        tokio::time::sleep(pause).await;
        if !open.is_usable().await {
            return (first, None);
        }
        let seen = self.observe();
        crate::probe::open::Open::note_reuse(&seen, &first);
        let mut body = Body::new(&self.http, false, &seen);
        let outcome = open.exchange(&self.target(), &self.http, &mut body, &seen).await;
        open.note_kernel();
        let again = seen.borrow_mut().finish(outcome);
        keep_the_laws(&first);
        keep_the_laws(&again);
        (first, Some(again))
    }

    /// The same steps as in `NetProber`.
    async fn steps(&self, seen: &Shared, wire: &SimulatedStream) -> Result<(), Cause> {
        let session = self.tls.as_ref().map(|tls| tls.begin(HOST).unwrap());
        let (stream, http2) = self.opened(seen, wire, session).await?;
        let route = ProxyRoute::find(&self.proxies, &self.target());
        let forwarding = route.and_then(|route| route.forwarding());
        let mut open = http::Open::new(stream, http2).forwarded(forwarding);
        let mut body = Body::new(&self.http, false, seen);
        let result = open.exchange(&self.target(), &self.http, &mut body, seen).await;
        if result.is_ok() && self.early {
            let limit = Duration::from_secs(1);
            let _ = tokio::time::timeout(limit, open.await_session()).await;
        }
        open.close();
        result
    }

    async fn opened(
        &self,
        seen: &Shared,
        wire: &SimulatedStream,
        session: Option<Box<crate::probe::tls::Session>>,
    ) -> Result<(Stream, bool), Cause> {
        let dial = |_, timebase| wire.clone().connect(timebase);
        let addresses = vec![REMOTE.ip()];
        let connected = connect::race(
            seen,
            &Bind::Any,
            CONNECTION_ATTEMPT_DELAY,
            addresses.into(),
            REMOTE.port().into(),
            dial,
        )
        .await?;
        let tcp_connected = connected.connected;
        let mut stream = Stream::new(connected, seen);
        if let Some(route) = ProxyRoute::find(&self.proxies, &self.target()) {
            seen.borrow_mut().connection.facts.proxy = Some(route.facts());
            let tls = route.rules.need_tls().then(|| {
                let tls = tls_options(route.rules);
                Tls::new(&tls, HttpVersion::Http1, &TlsStock::default())
            });
            let tls = tls.transpose().unwrap_or_else(|e| panic!("{e}"));
            let session = tls.map(|tls| tls.begin(&route.proxy.host).unwrap());
            let begun = (None, tcp_connected);
            pass_proxy(&mut stream, &route, session, begun, &self.http, seen).await?;
        }
        let Some(mut session) = session else {
            return Ok((stream, self.http.version == HttpVersion::Http2));
        };
        seen.borrow_mut().phase = PhaseName::Tls;
        let begun = stream.tunnel_end().map_or(When::At(tcp_connected), When::Arrival);
        seen.borrow_mut().mark(Mark::SecureConnectionStart, begun);
        if self.early
            && let Some(http2) = session.early_protocol().map(Spoken::is_http2)
        {
            stream.begin_early(session).unwrap();
            return Ok((stream, http2));
        }
        stream.handshake(session).await?;
        let http2 = stream.alpn_is_http2();
        Ok((stream, http2))
    }
}

/// The result of a visit.
pub(super) struct Visited {
    pub(super) connection: Connection,
    pub(super) written: Vec<Written>,
}

impl Visited {
    pub(super) fn at(&self, mark: Mark) -> Duration {
        let at = self.connection.marks.at(mark);
        at.unwrap_or_else(|| panic!("no {mark:?} in {:?}", self.connection)).since(Offset::ZERO)
    }

    pub(super) fn has(&self, mark: Mark) -> bool {
        self.connection.marks.at(mark).is_some()
    }

    pub(super) fn failure(&self) -> Option<(PhaseName, &Cause)> {
        self.connection.failure.as_ref().map(|failure| (failure.phase, &failure.cause))
    }

    pub(super) fn flights(&self, direction: Direction) -> Vec<&Flight> {
        self.connection.flights.iter().filter(|f| f.direction == direction).collect()
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.connection.facts.http.as_ref()?.status
    }

    /// Checks the properties of every visit.
    fn keep_the_laws(&self) {
        keep_the_laws(&self.connection);
        let sent: u64 = self.flights(Direction::Sent).iter().map(|flight| flight.bytes()).sum();
        let written: usize = self.written.iter().map(|written| written.bytes).sum();
        assert_eq!(sent, written as u64, "every byte that left is in a flight");
    }
}

/// Marks are in order, each from the kernel's clock; flights are in order; parts add up.
pub(super) fn keep_the_laws(connection: &Connection) {
    let over_tcp = [
        Mark::ConnectStart,
        Mark::TcpConnected,
        Mark::ProxySecureStart,
        Mark::ProxyHandshakeComplete,
        Mark::TunnelStart,
        Mark::TunnelEnd,
        Mark::SecureConnectionStart,
    ];
    let exchange = [Mark::RequestStart, Mark::RequestEnd, Mark::ResponseStart, Mark::ResponseEnd];
    let at = |marks: &[Mark]| -> Vec<Offset> {
        marks.iter().filter_map(|mark| connection.marks.at(*mark)).collect()
    };
    let in_order = [&over_tcp[..], &exchange[..]].concat();
    assert!(at(&in_order).is_sorted(), "{:?}", connection.marks);
    let handshake = [&over_tcp[..], &[Mark::HandshakeComplete]].concat();
    assert!(at(&handshake).is_sorted(), "{:?}", connection.marks);
    // Only the process knows when a failed attempt began, or when the upload of a body that was never sent ended.
    let uploads = connection.facts.http.as_ref().and_then(|http| http.upload_bytes);
    let only_user = |mark: Mark| {
        mark == Mark::ConnectStart || mark == Mark::RequestEnd && uploads.is_some_and(|n| n > 0)
    };
    let by_kernel = in_order.iter().filter(|mark| !only_user(**mark));
    for mark in by_kernel.chain(&[Mark::HandshakeComplete, Mark::HandshakeConfirmed]) {
        if let Some(stamp) = connection.marks.stamp(*mark) {
            assert_ne!(stamp.clock, Clock::User, "{mark:?}: {stamp:?}");
        }
    }
    let firsts: Vec<Offset> = connection.flights.iter().map(Flight::first).collect();
    assert!(firsts.is_sorted(), "{:?}", connection.flights);
    for flight in &connection.flights {
        assert!(flight.chunks.is_sorted_by_key(|chunk| chunk.stamp.at), "{flight:?}");
        assert!(flight.chunks.iter().all(|chunk| chunk.bytes > 0), "{flight:?}");
    }
    if connection.failure.is_none() {
        let split = Split::attribute(connection);
        let parts: Duration = split.parts.named().iter().map(|(_, part)| *part).sum();
        assert_eq!(parts, split.total(), "{split:?}");
    }
}
