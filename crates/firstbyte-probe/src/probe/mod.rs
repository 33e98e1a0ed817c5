//! Measures connections: name, TCP, TLS, one HTTP exchange, and redirects.
//!
//! Input: a [`Target`] and [`Options`](options::Options). Output: a [`Sample`], even if the visit failed half-way. The
//! steps (`resolve`, `connect`, `tls` and `stream`, `http`) record what they see in an `observation`; nothing here
//! prints.

mod again;
mod body;
mod bounded;
mod clients;
mod connect;
mod equipment;
mod http;
mod http3;
mod kept;
mod observation;
mod open;
pub mod options;
mod options_stored;
mod processor;
mod proxy;
mod quic;
mod request;
mod resolve;
mod secret;
mod several;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod timers;
mod tls;
mod told;
mod watch;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Connection, Direction, Failure, HttpFacts, LastSeen, Lookup, Mark, Offset, PhaseName,
    RedirectCircle, Sample, Stamp, TimeLimit,
};

use tokio::sync::Notify;

pub use self::bounded::{MOST_BODY, MOST_TEXT, read_all, read_file, read_text};
pub use self::clients::{Clients, ProberMaker};
pub use self::connect::describe as describe_io;
pub use self::equipment::Equipment;
pub use self::kept::{KeptBody, KeptCertificates};
pub use self::secret::Secret;
pub use self::target::{BadTarget, Target};
pub use self::tls::TlsSetupError;

use self::body::Body;
use self::connect::RemotePort;
use self::observation::{Observation, Shared, When};
use self::open::Open;
use self::options::{HttpOptions, HttpVersion, SessionUse, SharedOptions, split_zone};
use self::processor::Counted;
use self::proxy::{HandshakeSessions, ProxyRoute, pass_proxy, refuse_http3};
use self::resolve::{Resolver, overridden};
use self::several::SharedAddresses;
use self::stream::Stream;
use self::timers::Timers;
use self::tls::{Spoken, Tls};
use crate::net::{self, Connected, SynWatch};
use firstbyte_clock::Timebase;

/// A client that can take samples. Ours is [`NetProber`]; one experiment may use different kinds of probers.
pub trait Prober {
    /// Visits `target` once. A failure is recorded in the sample.
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample>;

    /// Prepares what a sample requires: a session to resume, an open connection. The time for this is not part of the
    /// sample.
    fn prepare<'a>(&'a self, _target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends the visit in progress; its sample is returned at once, with everything seen so far.
    fn interrupt(&self) {}

    /// Closes the connection that samples share, if one is open; the next sample opens another.
    fn close(&self) {}
}

/// A visit in progress. Boxed, so that different probers can be mixed; that costs one allocation per sample, before its
/// clock starts.
pub type Visiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Takes samples over the network.
pub struct NetProber {
    options: SharedOptions,
    resolver: Rc<Resolver>,
    tls: Tls,
    /// TLS to proxies that speak it.
    proxy_tls: Option<Tls>,
    interrupted: Notify,
    timers: Timers,
    /// Absent if this process may not look at packets.
    syns: Option<Rc<SynWatch>>,
    /// The open connection that samples share, if they do.
    kept: RefCell<Option<Box<Kept>>>,
    /// Whether to check if a server that did not respond to plain HTTP speaks TLS.
    looks_for_tls: bool,
    speaks_tls: Cell<Option<(SocketAddr, bool)>>,
}

/// An open connection, and the observation of its opening.
struct Kept {
    open: Open,
    first: Connection,
}

/// What to do with a connection after its exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Close,
    /// Keep it until the server has sent a session, but not longer than this, and then close it.
    AwaitSession(Duration),
    /// Like `AwaitSession`, for as long as the connection has taken so far: a server that sends a session does so
    /// within a round trip of the end of the handshake.
    Linger,
    Keep,
}

/// A server that sends a session does so within this time of its response.
const SESSION_WAIT: Duration = Duration::from_secs(2);

/// The time limit of a sample including redirects, and when it expires; it starts with the sample's clock.
struct Deadline {
    limit: Option<Duration>,
    at: Option<tokio::time::Instant>,
}

impl Deadline {
    const fn new(limit: Option<Duration>) -> Self {
        Self { limit, at: None }
    }

    /// Called when the clock starts; later calls return the same deadline.
    fn begun(&mut self) -> Option<(Duration, tokio::time::Instant)> {
        let limit = self.limit?;
        Some((limit, *self.at.get_or_insert_with(|| firstbyte_clock::timer_now() + limit)))
    }
}

/// The next step after a response in a chain of visits.
#[derive(Debug)]
pub enum ChainStep {
    /// The chain is complete.
    Done,
    /// Make another request, on a new connection.
    Next(Box<(Target, HttpOptions)>),
    /// Another request is needed, but cannot be made.
    Fail(Cause),
}

/// Why a prober cannot be created.
#[derive(Debug)]
pub enum SetupError {
    /// The DNS resolver cannot be set up.
    Resolver(String),
    /// TLS cannot be set up.
    Tls(TlsSetupError),
    /// A client other than ours cannot be used; the reason, in words.
    Client(String),
}

impl NetProber {
    /// Prepares what the prober's samples share: TLS sessions, an open connection. Resources shared by several probers
    /// come from `equipment`.
    ///
    /// # Errors
    /// [`SetupError`], in words for the user.
    pub fn new(
        options: impl Into<SharedOptions>,
        equipment: &Equipment,
    ) -> Result<Self, SetupError> {
        let options = options.into();
        let resolver = equipment.resolver(&options.resolver).map_err(SetupError::Resolver)?;
        let tls = equipment.tls(&options.tls, options.http.version).map_err(SetupError::Tls)?;
        let with_tls = options.proxy.as_ref().filter(|rules| rules.need_tls());
        let proxy_tls = with_tls
            .map(|rules| equipment.tls(&proxy::tls_options(rules), HttpVersion::Http1))
            .transpose()
            .map_err(SetupError::Tls)?;
        if options.http.version == HttpVersion::Http3 {
            // Over QUIC, key shares are made within the sample; exclude the TLS stack's own start.
            tls.warm_up();
        }
        let syns = (options.http.version != HttpVersion::Http3).then(SynWatch::shared).flatten();
        let (interrupted, kept) = (Notify::new(), RefCell::new(None));
        let timers = Timers::default();
        let (looks_for_tls, speaks_tls) = (equipment.looks_for_tls(), Cell::default());
        Ok(Self {
            options,
            resolver,
            tls,
            proxy_tls,
            interrupted,
            timers,
            syns,
            kept,
            looks_for_tls,
            speaks_tls,
        })
    }

    /// The open connection, if another exchange can follow on it. There is none if the server said `Connection: close`
    /// or went away.
    async fn usable(&self) -> Option<Box<Kept>> {
        let mut kept = self.kept.take()?;
        if kept.open.is_usable().await {
            return Some(kept);
        }
        kept.open.close();
        None
    }

    /// Makes one connection with one exchange. A server may close an open connection at any time; if it did so before
    /// it had seen the request, the request is sent on a new one (RFC 9112 §9.3.1).
    async fn visit(
        &self,
        target: &Target,
        http: &HttpOptions,
        deadline: &mut Deadline,
        after: After,
    ) -> Connection {
        let mut connection = self.visit_once(target, http, deadline, after).await;
        if http.method.is_idempotent() && was_closed_unused(&connection) {
            connection = self.visit_once(target, http, deadline, after).await;
        }
        // A proxy's port says nothing about the server.
        let is_direct = connection.facts.proxy.is_none();
        if self.looks_for_tls && is_direct && !target.tls && ended_without_a_word(&connection) {
            Box::pin(self.look_for_tls(target, &mut connection)).await;
        }
        connection
    }

    /// A server that ends a connection without a reply may expect TLS; another connection after the visit finds out. It
    /// is made only once, so that all samples of such a server agree.
    async fn look_for_tls(&self, target: &Target, connection: &mut Connection) {
        // With a proxy, the address is the proxy's.
        let remote = connection.facts.remote.filter(|_| connection.facts.proxy.is_none());
        let Some(remote) = remote else { return };
        let speaks_tls = match self.speaks_tls.get() {
            Some((known, speaks_tls)) if known == remote => speaks_tls,
            _ => {
                let answers = tokio::time::timeout(TLS_LOOK, self.answers_in_tls(target, remote));
                let answers = answers.await.unwrap_or(false);
                self.speaks_tls.set(Some((remote, answers)));
                answers
            }
        };
        if let Some(failure) = connection.failure.as_mut().filter(|_| speaks_tls) {
            failure.cause = Cause::SpeaksTls { reset: failure.cause == Cause::Reset };
        }
    }

    /// Whether the server answers a ClientHello with a TLS record: an alert or a handshake message.
    async fn answers_in_tls(&self, target: &Target, remote: SocketAddr) -> bool {
        let (mut hello, mut answer) = (Vec::new(), [0; RECORD_BEGIN]);
        let Ok(mut session) = self.tls.begin(&target.host) else { return false };
        if session.connection.write_tls(&mut hello).is_err() {
            return false;
        }
        let connected = net::connect(remote, &self.options.bind, Timebase::start(), None).await;
        let Ok(Connected { stream, .. }) = connected else { return false };
        let mut left = hello.as_slice();
        while !left.is_empty() {
            let Ok((sent, _)) = poll_fn(|cx| stream.poll_send(cx, left)).await else {
                return false;
            };
            left = &left[sent..];
        }
        let received = poll_fn(|cx| stream.poll_receive(cx, &mut answer, RECORD_BEGIN)).await;
        received.is_ok() && matches!(answer, [21 | 22, 3, 0..=4])
    }

    async fn visit_once(
        &self,
        target: &Target,
        http: &HttpOptions,
        deadline: &mut Deadline,
        after: After,
    ) -> Connection {
        // This includes the work before the clock starts, which is part of a connection's cost to the client.
        let counted = Counted::begin();
        // Key shares are made before the clock starts: they are the client's preparation and not part of the path. The
        // first one also pays for the start of the TLS stack.
        let kept = self.usable().await;
        let sessions = match kept {
            None => self.begin_sessions(target),
            Some(_) => Ok(HandshakeSessions::default()),
        };
        let seen = Observation::start(&target.url_with_zone());
        let deadline = deadline.begun();
        seen.borrow_mut().connection.facts.http =
            Some(HttpFacts { method: http.method.as_str().to_owned(), ..HttpFacts::default() });
        let outcome = {
            // These futures are kilobytes large, so pin them in place instead of moving them. They are dropped at the
            // end of this block in any case, because sockets record their last observations when they are dropped.
            let steps = std::pin::pin!(async {
                let sessions = sessions.map_err(|detail| Cause::TlsSetup { detail })?;
                match kept {
                    Some(kept) => self.again(kept, target, http, &seen).await,
                    None => self.steps(target, sessions, http, &seen, after).await,
                }
            });
            let within_limit = async {
                match deadline {
                    Some((limit, at)) => tokio::time::timeout_at(at, steps)
                        .await
                        .unwrap_or_else(|_| Err(limit_reached(&seen, limit, TimeLimit::Visit))),
                    None => steps.await,
                }
            };
            tokio::select! {
                biased;
                () = self.interrupted.notified() => Err(Cause::Interrupted),
                outcome = within_limit => outcome,
            }
        };
        let mut connection = seen.borrow_mut().finish(outcome);
        connection.facts.processor = counted.taken();
        connection
    }

    async fn steps(
        &self,
        target: &Target,
        sessions: HandshakeSessions,
        http: &HttpOptions,
        seen: &Shared,
        after: After,
    ) -> Result<(), Cause> {
        let mut open = self.open(target, sessions, http, seen, None).await?;
        let result = self.exchange(&mut open, target, http, seen).await;
        match after {
            _ if result.is_err() => open.close(),
            After::Close => open.close(),
            After::AwaitSession(limit) => await_session(open, limit).await,
            After::Linger => {
                let taken = seen.borrow().timebase.now().at.since(Offset::ZERO);
                await_session(open, taken.min(SESSION_WAIT)).await;
            }
            After::Keep => {
                open.note_kernel();
                let first = seen.borrow().connection.clone();
                self.keep(Box::new(Kept { open, first }));
            }
        }
        result
    }

    /// Opens a connection. `names`, if given, supplies the addresses or receives the ones found.
    async fn open(
        &self,
        target: &Target,
        sessions: HandshakeSessions,
        http: &HttpOptions,
        seen: &Shared,
        names: Option<&Rc<SharedAddresses>>,
    ) -> Result<Open, Cause> {
        let limit = self.options.connect_timeout;
        let opened = {
            let opening = std::pin::pin!(async {
                if self.speaks_quic() {
                    let early = self.goes_early(&http.method);
                    Box::pin(self.open_quic(target, early, seen)).await
                } else {
                    let (stream, http2) =
                        self.handshakes(target, sessions, http, seen, names).await?;
                    let route = ProxyRoute::find(&self.options, target);
                    let forwarding = route.and_then(|route| route.forwarding());
                    Ok(Open::Tcp(http::Open::new(stream, http2).forwarded(forwarding)))
                }
            });
            self.timers.within(limit, opening).await
        };
        opened.unwrap_or_else(|| Err(limit_reached(seen, limit, TimeLimit::Connection)))
    }

    /// Makes an exchange on an open connection.
    async fn again(
        &self,
        mut kept: Box<Kept>,
        target: &Target,
        http: &HttpOptions,
        seen: &Shared,
    ) -> Result<(), Cause> {
        Open::note_reuse(seen, &kept.first);
        self.exchange(&mut kept.open, target, http, seen).await?;
        kept.open.note_kernel();
        self.keep(kept);
        Ok(())
    }

    fn keep(&self, mut kept: Box<Kept>) {
        kept.open.rest();
        self.kept.replace(Some(kept));
    }

    async fn exchange(
        &self,
        open: &mut Open,
        target: &Target,
        http: &HttpOptions,
        seen: &Shared,
    ) -> Result<(), Cause> {
        let mut body = Body::new(http, self.options.max_redirects.is_some(), seen);
        let result = open.exchange(target, http, &mut body, seen).await;
        let status = seen.borrow().connection.facts.http.as_ref().and_then(|http| http.status);
        match status {
            Some(status @ 400..) if http.fail => result.and(Err(Cause::HttpStatus { status })),
            _ => result,
        }
    }

    /// Whether to send a request before the handshake is complete. It may then arrive twice (RFC 8470 §2), which is
    /// acceptable only for safe methods.
    fn goes_early(&self, method: &::http::Method) -> bool {
        match self.options.tls.session {
            SessionUse::EarlyData { any_method } => any_method || method.is_safe(),
            _ => false,
        }
    }

    fn speaks_quic(&self) -> bool {
        self.options.http.version == HttpVersion::Http3
    }

    /// Resolves the name and opens a QUIC connection.
    async fn open_quic(&self, target: &Target, early: bool, seen: &Shared) -> Result<Open, Cause> {
        if !target.tls {
            return Err(Cause::Http3 { detail: "HTTP/3 requires an https:// URL".into() });
        }
        refuse_http3(target, &self.options).map_err(|detail| Cause::Http3 { detail })?;
        let tls = self.tls.begin_quic(&target.host);
        let tls = tls.map_err(|detail| Cause::TlsSetup { detail })?;
        let (host, port, zone) = self.connect_to(target);
        let resolved = self.resolver.resolve(seen, &self.options, &host, port).await?;
        let port = RemotePort::in_zone(port, zone)?;
        let connection = quic::open(seen, &self.options, resolved, port, &tls, early).await?;
        Ok(Open::Quic(Box::new(http3::Open::new(connection))))
    }

    /// Name resolution, TCP, the proxy if there is one, and TLS. Returns whether the server chose HTTP/2.
    async fn handshakes(
        &self,
        target: &Target,
        sessions: HandshakeSessions,
        http: &HttpOptions,
        seen: &Shared,
        names: Option<&Rc<SharedAddresses>>,
    ) -> Result<(Stream, bool), Cause> {
        let route = ProxyRoute::find(&self.options, target);
        let (host, port, zone) = match &route {
            Some(ProxyRoute { proxy, .. }) => {
                let mut seen = seen.borrow_mut();
                seen.connection.facts.proxy = route.as_ref().map(ProxyRoute::facts);
                seen.looked_up = Some(proxy.host.clone());
                let given = overridden(&self.options, &proxy.host, proxy.port);
                let zone = given.and_then(|given| given.zone.as_deref());
                (proxy.host.clone(), proxy.port, zone)
            }
            None => self.connect_to(target),
        };
        // As with curl, use HTTP/1 with a proxy that gets the requests itself.
        let only_http2 = self.options.http.version == HttpVersion::Http2
            && route.as_ref().is_none_or(|route| route.has_tunnel);
        let resolved = match names.and_then(SharedAddresses::resolved) {
            Some(resolved) => resolved,
            None => {
                let found = self.resolver.resolve(seen, &self.options, &host, port).await?;
                match names {
                    Some(names) => names.share(found),
                    None => found,
                }
            }
        };
        let address = match &route {
            Some(route) => Box::pin(self.address_behind(route, seen)).await?,
            None => None,
        };
        let port = RemotePort::in_zone(port, zone)?;
        let connected =
            connect::connect(seen, &self.options, self.syns.as_ref(), resolved, port).await?;
        let tcp_connected: Stamp = connected.connected;
        let mut stream = Stream::new(connected, seen);
        if self.options.proxy_protocol {
            stream.announce_source();
        }
        if let Some(route) = &route {
            let begun = (address, tcp_connected);
            let passing = pass_proxy(&mut stream, route, sessions.proxy, begun, http, seen);
            Box::pin(passing).await?;
        }
        let Some(mut session) = sessions.target else { return Ok((stream, only_http2)) };
        {
            let mut seen = seen.borrow_mut();
            seen.phase = PhaseName::Tls;
            let begun = stream.tunnel_end().map_or(When::At(tcp_connected), When::Arrival);
            seen.mark(Mark::SecureConnectionStart, begun);
        }
        let offered = only_http2.then(|| session.offered.alpn.clone());
        if self.goes_early(&http.method)
            && !stream.is_inside_tls()
            && let Some(http2) = session.early_protocol().map(Spoken::is_http2)
            && (http2 || !only_http2)
        {
            stream.begin_early(session).map_err(|error| Cause::Io {
                operation: "write early data",
                detail: describe_io(&error),
            })?;
            return Ok((stream, http2));
        }
        stream.handshake(session).await.map_err(|cause| match cause {
            Cause::NotTls { looks_like, .. } => {
                Cause::NotTls { looks_like, server: Some(target.host_and_port()) }
            }
            cause => cause,
        })?;
        let http2 = stream.alpn_is_http2();
        if let Some(offered) = offered.filter(|_| !http2) {
            return Err(Cause::AlpnMismatch { offered });
        }
        Ok((stream, http2))
    }

    /// Whether everything that a sample requires is available, as far as can be told at once.
    fn is_ready_for(&self, target: &Target) -> bool {
        let full = self.options.tls.session == SessionUse::Full || !target.tls;
        !self.options.reuse && (full || self.tls.has_session(&target.host))
    }

    async fn make_ready(&self, target: &Target) -> Result<(), Failure> {
        let needed = if self.options.reuse {
            if let Some(kept) = self.usable().await {
                self.keep(kept);
                return Ok(());
            }
            After::Keep
        } else {
            After::AwaitSession(SESSION_WAIT)
        };
        let mut deadline = Deadline::new(self.options.max_time);
        let connection = self.visit(target, &self.options.http, &mut deadline, needed).await;
        connection.failure.map_or(Ok(()), Err)
    }

    async fn take_sample(&self, target: &Target) -> Sample {
        if let Some(requests) = self.options.requests {
            return Box::pin(self.take_requests(target, requests)).await;
        }
        let requested_url = target.url_with_zone();
        let mut deadline = Deadline::new(self.options.max_time);
        let http = &self.options.http;
        let connection = self.visit(target, http, &mut deadline, self.after()).await;
        let sample = Sample { requested_url, connection, ..Sample::default() };
        if self.options.max_redirects.is_none() || redirect(&sample.connection).is_none() {
            return sample;
        }
        Box::pin(self.follow(sample, target, deadline)).await
    }

    /// Visits `target`, and then continues as `next` decides after each response; all within one sample.
    pub async fn visit_chain(
        &self,
        mut target: Target,
        mut http: HttpOptions,
        next: &mut dyn FnMut(&Connection) -> ChainStep,
    ) -> Sample {
        let mut sample = Sample { requested_url: target.url_with_zone(), ..Sample::default() };
        let mut deadline = Deadline::new(self.options.max_time);
        loop {
            let mut connection = self.visit(&target, &http, &mut deadline, self.after()).await;
            match next(&connection) {
                ChainStep::Next(following) => {
                    sample.redirects.push(connection);
                    (target, http) = *following;
                }
                step => {
                    if let ChainStep::Fail(cause) = step {
                        fail(&mut connection, cause);
                    }
                    sample.connection = connection;
                    told::sample(&sample);
                    return sample;
                }
            }
        }
    }

    /// Follows redirects, up to the allowed number.
    async fn follow(&self, mut sample: Sample, from: &Target, mut deadline: Deadline) -> Sample {
        let (mut http, mut current) = (self.options.http.clone(), from.clone());
        let mut connection = std::mem::take(&mut sample.connection);
        while let Some(limit) = self.options.max_redirects
            && let Some(location) = redirect(&connection)
        {
            let next = current.follow_location(&location);
            if sample.redirects.len() as u64 >= u64::from(limit) {
                let been = sample.redirects.iter().chain([&connection]);
                let circle =
                    next.as_ref().and_then(|next| RedirectCircle::find(been, next.url.as_str()));
                fail(&mut connection, Cause::TooManyRedirects { limit, circle });
                break;
            }
            let Some(next) = next else {
                let location = firstbyte_core::shown_url::shown_url(&location);
                fail(&mut connection, Cause::BadRedirect { location });
                break;
            };
            http.redirected(connection.facts.http.as_ref(), &current.url, &next.url);
            current = next;
            sample.redirects.push(connection);
            connection = self.visit(&current, &http, &mut deadline, self.after()).await;
        }
        sample.connection = connection;
        sample
    }

    /// What to do with a sample's connection.
    fn after(&self) -> After {
        match self.options.tls.session {
            _ if self.options.reuse => After::Keep,
            SessionUse::Full => After::Close,
            SessionUse::Resume(_) | SessionUse::EarlyData { .. } => After::Linger,
        }
    }

    /// Host and port to connect to, and the zone of an address: those of the URL, unless `--connect-to` or `--resolve`
    /// override them. Only the resolver gets a trailing dot.
    fn connect_to<'a>(&'a self, target: &'a Target) -> (String, u16, Option<&'a str>) {
        let rule = self.options.connect_rule(target);
        let other = rule.and_then(|r| r.to_host.as_deref()).map(split_zone);
        let (host, mut zone) = other.unwrap_or_else(|| (target.dns_name(), None));
        let port = rule.and_then(|r| r.to_port).unwrap_or(target.port);
        if host.parse::<IpAddr>().is_err() {
            let given = overridden(&self.options, host.trim_end_matches('.'), port);
            zone = given.and_then(|given| given.zone.as_deref()).or(zone);
        }
        let zone = zone.or_else(|| zone_of(target, &host));
        (host, port, zone)
    }
}

impl Prober for NetProber {
    fn interrupt(&self) {
        self.interrupted.notify_one();
    }

    fn close(&self) {
        if let Some(kept) = self.kept.take() {
            kept.open.close();
        }
    }

    fn prepare<'a>(&'a self, target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        if self.is_ready_for(target) {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.make_ready(target))
    }

    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async {
            let sample = self.take_sample(target).await;
            told::sample(&sample);
            sample
        })
    }
}

/// Keeps `open` until the server has sent a session or `limit` has passed, and closes it.
async fn await_session(open: Open, limit: Duration) {
    // If it sent none, the next sample reports that.
    let _ = tokio::time::timeout(limit, open.await_session()).await;
    open.close();
}

/// Whether `status` is a redirect (RFC 9110 §15.4).
const fn redirects(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Where `connection`'s response redirects to, if it does. An empty Location is ignored, as with curl.
fn redirect(connection: &Connection) -> Option<String> {
    let http = connection.facts.http.as_ref()?;
    let location =
        http.header("location").map(str::trim).filter(|location| !location.is_empty())?;
    (redirects(http.status?) && connection.failure.is_none()).then(|| location.to_owned())
}

fn fail(connection: &mut Connection, cause: Cause) {
    connection.failure = Some(firstbyte_core::timeline::Failure {
        phase: PhaseName::Receive,
        cause,
        at: connection.marks.at(Mark::ResponseEnd),
    });
}

/// Type and version of a TLS record (RFC 8446 §5.1).
const RECORD_BEGIN: usize = 3;

/// How long to wait for the answer to a ClientHello that is not timed.
const TLS_LOOK: Duration = Duration::from_secs(1);

/// Whether a reused connection ended before the server processed the request or sent any part of a response.
fn was_closed_unused(connection: &Connection) -> bool {
    let failure = connection.failure.as_ref().map(|failure| &failure.cause);
    connection.facts.reused
        && matches!(
            failure,
            Some(Cause::ClosedBeforeResponse | Cause::Reset | Cause::ShutDown { .. })
        )
        && connection.marks.at(Mark::ResponseStart).is_none()
}

/// Whether the server ended the connection without sending anything.
fn ended_without_a_word(connection: &Connection) -> bool {
    let failure = connection.failure.as_ref().map(|failure| &failure.cause);
    matches!(failure, Some(Cause::ClosedBeforeResponse | Cause::Reset))
        && connection.flights.iter().all(|flight| flight.direction == Direction::Sent)
}

/// After this time without an answer, none will come: SYNs are retransmitted after a second (RFC 6298 §2), and so are
/// DNS queries.
const LONG: Duration = Duration::from_secs(1);

/// The cause when a limit was reached. Before there is a connection, it names who has not answered.
fn limit_reached(seen: &Shared, after: Duration, limit: TimeLimit) -> Cause {
    let seen = seen.borrow();
    if limit == TimeLimit::Visit && after < LONG {
        return timed_out(after, limit);
    }
    match seen.phase {
        PhaseName::Resolve => {
            let asked = Lookup::servers_asked(&seen.connection.lookups);
            Cause::ResolverTimedOut { name: seen.name_looked_up(), after, asked }
        }
        PhaseName::Connect => match seen.connection.attempts.last() {
            Some(attempt) => Cause::ConnectTimedOut { remote: attempt.remote, after },
            None => timed_out(after, limit),
        },
        PhaseName::Quic if !seen.has_received() => match seen.connection.attempts.last() {
            Some(attempt) => Cause::QuicConnectTimedOut { remote: attempt.remote, after },
            None => timed_out(after, limit),
        },
        _ => timed_out(after, limit),
    }
}

/// The peer's last sign of life is filled in at the end, when its acknowledgements are known.
const fn timed_out(after: Duration, limit: TimeLimit) -> Cause {
    Cause::TimedOut { after, limit, peer: LastSeen::Nothing }
}

/// The zone of `host`, unless `--connect-to` names another host than the URL's.
fn zone_of<'a>(target: &'a Target, host: &str) -> Option<&'a str> {
    target.zone.as_deref().filter(|_| host == target.host)
}

fn host_of(url: &str) -> String {
    Target::parse(url).map_or_else(|_| url.to_owned(), |t| t.host)
}
