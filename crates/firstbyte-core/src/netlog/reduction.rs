//! Events to requests: what each event says is noted with the source that it is of, and a request is given out when it
//! is over, and so are the jobs that raced for it.
//!
//! Memory is that of what is under way at the same time, of which there is a most: what comes above it is not followed.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::open::{
    AttemptError, OpenAttempt, OpenConnectJob, OpenConnection, OpenController, OpenJob, OpenLookup,
    OpenQuicJob, OpenRequest, OpenResolver, Shared, Sharing,
};
use super::request::{AlternativeService, LookupSource, NetLogRequest, PoolLimit};
use super::settle::{ErrorNames, settled};
use super::{NetLogEvent, NetLogPhase};

/// So many sources of one kind are followed at the same time.
const MOST_OPEN: usize = 1 << 15;
/// So many requests that are over wait for their jobs.
const MOST_WAITING: usize = 1 << 10;
/// Longer URLs are cut.
const LONGEST_URL: usize = 2048;
/// A client keeps so many tickets of a host's, and uses each once.
const TICKETS_KEPT: u32 = 2;
/// Handshake message types (IANA TLS HandshakeType).
const CLIENT_HELLO: i64 = 1;
const SERVER_HELLO: i64 = 2;
const NEW_SESSION_TICKET: i64 = 4;
/// `ssl_early_data_accepted` of BoringSSL's `ssl_early_data_reason_t`; smaller ones say that nothing was decided.
const EARLY_DATA_ACCEPTED: i64 = 2;

/// Makes requests of events.
#[derive(Debug, Default)]
pub struct NetLogReduction {
    requests: HashMap<u64, OpenRequest>,
    waiting: VecDeque<OpenRequest>,
    controllers: HashMap<u64, Shared<OpenController>>,
    jobs: HashMap<u64, Shared<OpenJob>>,
    connect_jobs: HashMap<u64, Shared<OpenConnectJob>>,
    quic_jobs: HashMap<u64, Shared<OpenQuicJob>>,
    connections: HashMap<u64, Shared<OpenConnection>>,
    /// Sessions of HTTP/2, each with its socket's connection.
    sessions: HashMap<u64, Shared<OpenConnection>>,
    resolvers: HashMap<u64, Shared<OpenResolver>>,
    /// Tickets that are left, by socket group.
    tickets: HashMap<Rc<str>, u32>,
    first_us: Option<i64>,
    last_us: Option<i64>,
    not_followed: u64,
    unnamed: u64,
}

/// The one of `map` under `number`; a new one where there is none and it has room.
fn entry<T: Default>(
    map: &mut HashMap<u64, Shared<T>>,
    number: u64,
    not_followed: &mut u64,
) -> Shared<T> {
    if let Some(known) = map.get(&number) {
        return Rc::clone(known);
    }
    let made = Shared::<T>::default();
    if map.len() < MOST_OPEN {
        map.insert(number, Rc::clone(&made));
    } else {
        *not_followed += 1;
    }
    made
}

impl NetLogReduction {
    /// Whether events of that name say something to it: for [`NetExportReader::only`](super::net_export::NetExportReader::only).
    pub fn wants(name: &str) -> bool {
        WANTED.contains(&name)
    }

    /// Microseconds from the first event to the last.
    pub fn span_us(&self) -> Option<u64> {
        self.last_us?.checked_sub(self.first_us?)?.try_into().ok()
    }

    /// Sources that were not followed, since more were under way than any browser has.
    pub const fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Requests without a URL: the log begins behind their beginning.
    pub const fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Takes the next event. Requests that are over go to `sink`; `names` gives errors their names.
    pub fn push(
        &mut self,
        event: &NetLogEvent,
        names: &dyn ErrorNames,
        sink: &mut dyn FnMut(NetLogRequest),
    ) {
        self.first_us.get_or_insert(event.at_us);
        self.last_us = Some(self.last_us.map_or(event.at_us, |last| last.max(event.at_us)));
        let kind = &*event.source_kind;
        match kind {
            "URL_REQUEST" => self.request_event(event, names, sink),
            "HTTP_STREAM_JOB_CONTROLLER" => self.controller_event(event),
            "HTTP_STREAM_JOB" => self.job_event(event),
            "HOST_RESOLVER_IMPL_JOB" => self.resolver_event(event),
            "SOCKET" => self.socket_event(event),
            "HTTP2_SESSION" => self.session_event(event),
            "QUIC_SESSION" => self.quic_event(event),
            _ if kind.starts_with("QUIC_SESSION_POOL_")
                || kind.starts_with("QUIC_STREAM_FACTORY_") =>
            {
                self.quic_job_event(event);
            }
            _ if kind.ends_with("CONNECT_JOB") => self.connect_job_event(event),
            _ => {}
        }
    }

    /// The log is at its end: what is still under way goes to `sink` as far as it is known.
    pub fn finish(&mut self, names: &dyn ErrorNames, sink: &mut dyn FnMut(NetLogRequest)) {
        let mut open: Vec<(u64, OpenRequest)> = self.requests.drain().collect();
        open.sort_by_key(|(number, request)| (request.whole.begin, *number));
        self.waiting.extend(open.into_iter().map(|(_, request)| request));
        while let Some(request) = self.waiting.pop_front() {
            self.give_out(&request, names, sink);
        }
    }

    fn give_out(
        &mut self,
        request: &OpenRequest,
        names: &dyn ErrorNames,
        sink: &mut dyn FnMut(NetLogRequest),
    ) {
        match settled(request, self.first_us.unwrap_or_default(), names) {
            Some(request) => sink(request),
            None => self.unnamed += 1,
        }
    }

    /// The request is over; it is given out once its jobs are.
    fn end_request(
        &mut self,
        request: OpenRequest,
        names: &dyn ErrorNames,
        sink: &mut dyn FnMut(NetLogRequest),
    ) {
        self.waiting.push_back(request);
        while self.waiting.len() > MOST_WAITING
            || self.waiting.front().is_some_and(OpenRequest::is_settled)
        {
            let Some(request) = self.waiting.pop_front() else { break };
            self.give_out(&request, names, sink);
        }
    }

    fn request_event(
        &mut self,
        event: &NetLogEvent,
        names: &dyn ErrorNames,
        sink: &mut dyn FnMut(NetLogRequest),
    ) {
        if event.begins("URL_REQUEST_START_JOB")
            && self.requests.get(&event.source).is_some_and(|known| known.send.begin.is_some())
        {
            // A redirect: what came before it was a request by itself.
            if let Some(mut before) = self.requests.remove(&event.source) {
                before.whole.end = Some(event.at_us);
                self.end_request(before, names, sink);
            }
        }
        if !self.requests.contains_key(&event.source) && self.requests.len() >= MOST_OPEN {
            self.not_followed += 1;
            return;
        }
        let request = self.requests.entry(event.source).or_default();
        request.whole.begin.get_or_insert(event.at_us);
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("REQUEST_ALIVE" | "URL_REQUEST_START_JOB", NetLogPhase::Begin) => {
                if let Some(url) = event.text("url") {
                    request.url = Some(cut(url));
                }
                let text = |name: &str| event.text(name).map(str::to_owned);
                request.method = text("method").or(request.method.take());
                let frame = text("request_type").filter(|kind| kind.ends_with("frame"));
                request.frame = frame.or(request.frame.take());
            }
            ("REQUEST_ALIVE", NetLogPhase::End) => {
                request.error = event.number("net_error").filter(|e| *e != 0).or(request.error);
                request.whole.end = at;
                if let Some(request) = self.requests.remove(&event.source) {
                    self.end_request(request, names, sink);
                }
            }
            ("URL_REQUEST_START_JOB", NetLogPhase::End) => {
                request.error = event.number("net_error").filter(|e| *e != 0).or(request.error);
            }
            ("HTTP_STREAM_REQUEST", NetLogPhase::Begin) => {
                request.stream.begin = at;
                request.stream.end = None;
            }
            ("HTTP_STREAM_REQUEST", NetLogPhase::End) => {
                request.stream.end = at;
                if let Some(length) = request.stream.length() {
                    request.stream_us = Some(request.stream_us.unwrap_or(0).saturating_add(length));
                }
            }
            ("HTTP_STREAM_JOB_CONTROLLER_BOUND", _) => {
                if let Some(number) = event.dependency() {
                    let controller = entry(&mut self.controllers, number, &mut self.not_followed);
                    request.controllers.push(controller);
                }
            }
            ("HTTP_STREAM_REQUEST_BOUND_TO_JOB", _) => {
                let job = event.dependency().and_then(|number| self.jobs.get(&number));
                request.winner = job.map(Rc::clone).or(request.winner.take());
                if let Some(job) = &request.winner {
                    job.borrow_mut().bind();
                }
            }
            ("HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION", _) => {
                let session = event.dependency().and_then(|number| self.connections.get(&number));
                if let (Some(session), Some(job)) = (session, &request.winner) {
                    let mut job = job.borrow_mut();
                    job.connection.get_or_insert_with(|| Rc::clone(session));
                    job.bind();
                }
            }
            ("HTTP_TRANSACTION_SEND_REQUEST", NetLogPhase::Begin) => {
                request.send.begin = at;
                request.first_sent = request.first_sent.or(at);
            }
            ("HTTP_TRANSACTION_SEND_REQUEST", NetLogPhase::End) => request.send.end = at,
            ("HTTP_TRANSACTION_READ_HEADERS", NetLogPhase::Begin) => request.read.begin = at,
            ("HTTP_TRANSACTION_READ_HEADERS", NetLogPhase::End) => request.read.end = at,
            ("HTTP_TRANSACTION_READ_RESPONSE_HEADERS", _) => request.status = status(event),
            ("HTTP_TRANSACTION_READ_BODY", NetLogPhase::Begin) => {
                request.body.begin = request.body.begin.or(at);
            }
            ("HTTP_TRANSACTION_READ_BODY", NetLogPhase::End) => request.body.end = at,
            ("HTTP_TRANSACTION_RESTART_AFTER_ERROR", _) => {
                request.restarts.push(event.number("net_error").unwrap_or_default());
                request.restarted = at;
            }
            _ => {}
        }
    }

    fn controller_event(&mut self, event: &NetLogEvent) {
        if event.ends("HTTP_STREAM_JOB_CONTROLLER") {
            self.controllers.remove(&event.source);
            return;
        }
        let controller = entry(&mut self.controllers, event.source, &mut self.not_followed);
        match &*event.name {
            "HTTP_STREAM_REQUEST_STARTED_JOB" => {
                if let Some(number) = event.dependency() {
                    let job = entry(&mut self.jobs, number, &mut self.not_followed);
                    job.borrow_mut().number = number;
                    controller.borrow_mut().jobs.push(job);
                }
            }
            "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND" => {
                if let Some(service) = event.text("alt_svc") {
                    // "quic example.com:443, expires 2026-11-23 07:21:20"
                    let service = service.split(',').next().unwrap_or_default().to_owned();
                    let broken = event.truth("is_broken").or_else(|| event.truth("broken"));
                    let broken = broken.unwrap_or(false);
                    controller.borrow_mut().alternative =
                        Some(AlternativeService { service, broken });
                }
            }
            "HTTP_STREAM_JOB_CONTROLLER_PROXY_SERVER_RESOLVED" => {
                let chain = event.text("proxy_chain").or_else(|| event.text("proxy_server"));
                let chain = chain.map(|chain| chain.trim_matches(['[', ']']).to_owned());
                controller.borrow_mut().proxy =
                    chain.filter(|chain| !chain.is_empty() && !chain.starts_with("direct"));
            }
            _ => {}
        }
    }

    fn job_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.jobs, event.source, &mut self.not_followed);
        let mut job = shared.borrow_mut();
        job.number = event.source;
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("HTTP_STREAM_JOB", NetLogPhase::Begin) => {
                job.name = event.text("type").map(str::to_owned);
                job.quic = event.truth("using_quic").unwrap_or(false);
            }
            ("HTTP_STREAM_JOB", NetLogPhase::End) => {
                job.is_over = true;
                self.jobs.remove(&event.source);
            }
            ("HTTP_STREAM_JOB_WAITING", NetLogPhase::Begin) => job.held.begin = at,
            ("HTTP_STREAM_JOB_WAITING", NetLogPhase::End) => job.held.end = at,
            ("SOCKET_POOL", NetLogPhase::Begin) => job.pool.begin = at,
            ("SOCKET_POOL", NetLogPhase::End) => {
                job.pool.end = at;
                job.pool_error = event.number("net_error").filter(|error| *error != 0);
            }
            ("SOCKET_POOL_STALLED_MAX_SOCKETS", _) => {
                job.stalled.get_or_insert((PoolLimit::Pool, event.at_us));
            }
            ("SOCKET_POOL_STALLED_MAX_SOCKETS_PER_GROUP", _) => {
                job.stalled.get_or_insert((PoolLimit::Host, event.at_us));
            }
            ("SOCKET_POOL_REUSED_AN_EXISTING_SOCKET", _) => {
                job.idle_ms = Some(event.number("idle_ms"));
            }
            ("SOCKET_POOL_BOUND_TO_CONNECT_JOB", _) => {
                let made = event.dependency().and_then(|number| self.connect_jobs.get(&number));
                job.connect_job = made.map(Rc::clone);
            }
            ("SOCKET_POOL_BOUND_TO_SOCKET", _) => {
                let socket = event.dependency().and_then(|number| self.connections.get(&number));
                job.connection = socket.map(Rc::clone);
            }
            ("BOUND_TO_QUIC_SESSION_POOL_JOB" | "BOUND_TO_QUIC_STREAM_FACTORY_JOB", _) => {
                if let Some(number) = event.dependency() {
                    job.quic_job = Some(entry(&mut self.quic_jobs, number, &mut self.not_followed));
                    job.quic = true;
                }
            }
            (
                "QUIC_SESSION_POOL_USE_EXISTING_SESSION"
                | "QUIC_STREAM_FACTORY_USE_EXISTING_SESSION",
                _,
            ) => {
                let session = event.dependency().and_then(|number| self.connections.get(&number));
                job.connection = session.map(Rc::clone);
                job.shares = Some(Sharing::SameHost);
                job.quic = true;
            }
            (
                "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION"
                | "HTTP_STREAM_JOB_HTTP2_SESSION_AVAILABLE"
                | "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION_FROM_IP_POOL",
                _,
            ) => {
                let session = event.dependency().and_then(|number| self.sessions.get(&number));
                job.connection = session.map(Rc::clone);
                let other = event.name.ends_with("FROM_IP_POOL");
                job.shares = Some(if other { Sharing::OtherHost } else { Sharing::SameHost });
            }
            _ => {}
        }
    }

    fn connect_job_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.connect_jobs, event.source, &mut self.not_followed);
        let mut job = shared.borrow_mut();
        match (&*event.name, event.phase) {
            ("CONNECT_JOB", NetLogPhase::Begin) => job.begin = Some(event.at_us),
            ("CONNECT_JOB", NetLogPhase::End) => {
                self.connect_jobs.remove(&event.source);
            }
            ("SOCKET_POOL_CONNECT_JOB_CREATED", _) => {
                job.group = event.text("group_id").map(Rc::from);
                job.backup = event.truth("backup_job").unwrap_or(false);
            }
            (name, NetLogPhase::End) if name.ends_with("_CONNECT_JOB_CONNECT") => {
                job.error = event.number("net_error").filter(|error| *error != 0).or(job.error);
            }
            _ => {
                let OpenConnectJob { lookup, .. } = &mut *job;
                self.resolvers_of(event, lookup);
            }
        }
    }

    fn quic_job_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.quic_jobs, event.source, &mut self.not_followed);
        let mut job = shared.borrow_mut();
        let error = event.number("net_error").filter(|error| *error != 0);
        match (&*event.name, event.phase) {
            ("QUIC_SESSION_POOL_JOB" | "QUIC_STREAM_FACTORY_JOB", NetLogPhase::End) => {
                job.error = error.or(job.error);
                self.quic_jobs.remove(&event.source);
            }
            ("QUIC_SESSION_POOL_JOB_CONNECT" | "QUIC_STREAM_FACTORY_JOB_CONNECT", phase) => {
                match phase {
                    NetLogPhase::End => {
                        job.connect.end = Some(event.at_us);
                        job.error = error.or(job.error);
                    }
                    _ => job.connect.begin = Some(event.at_us),
                }
            }
            ("QUIC_SESSION_CREATED", _) => {
                let session = event.dependency().and_then(|number| self.connections.get(&number));
                job.connection = session.map(Rc::clone);
            }
            _ => {
                let OpenQuicJob { lookup, .. } = &mut *job;
                self.resolvers_of(event, lookup);
            }
        }
    }

    /// What the resolver says to whoever asks it.
    fn resolvers_of(&mut self, event: &NetLogEvent, lookup: &mut Option<OpenLookup>) {
        let at = event.at_us;
        let begun = |lookup: &mut Option<OpenLookup>| {
            lookup.get_or_insert_with(OpenLookup::default).time.begin.get_or_insert(at);
        };
        match (&*event.name, event.phase) {
            ("HOST_RESOLVER_MANAGER_REQUEST" | "HOST_RESOLVER_IMPL_REQUEST", NetLogPhase::End) => {
                let lookup = lookup.get_or_insert_with(OpenLookup::default);
                lookup.time.end = Some(at);
                lookup.error = event.number("net_error").filter(|error| *error != 0);
            }
            (
                "HOST_RESOLVER_MANAGER_REQUEST"
                | "HOST_RESOLVER_IMPL_REQUEST"
                | "HOST_RESOLVER_MANAGER_TASK_SEQUENCE_CREATED"
                | "HOST_RESOLVER_MANAGER_CREATE_JOB",
                _,
            ) => begun(lookup),
            ("HOST_RESOLVER_MANAGER_CACHE_HIT" | "HOST_RESOLVER_IMPL_CACHE_HIT", _) => {
                begun(lookup);
                known(lookup, LookupSource::Cache, at);
            }
            ("HOST_RESOLVER_MANAGER_HOSTS_HIT" | "HOST_RESOLVER_IMPL_HOSTS_HIT", _) => {
                begun(lookup);
                known(lookup, LookupSource::HostsFile, at);
            }
            ("HOST_RESOLVER_MANAGER_JOB_ATTACH" | "HOST_RESOLVER_IMPL_JOB_ATTACH", _) => {
                begun(lookup);
                if let (Some(number), Some(lookup)) = (event.dependency(), lookup) {
                    let resolver = entry(&mut self.resolvers, number, &mut self.not_followed);
                    lookup.resolver = Some(resolver);
                }
            }
            _ => {}
        }
    }

    fn resolver_event(&mut self, event: &NetLogEvent) {
        let shared = entry(&mut self.resolvers, event.source, &mut self.not_followed);
        let mut resolver = shared.borrow_mut();
        let source = match (&*event.name, event.phase) {
            ("HOST_RESOLVER_MANAGER_JOB" | "HOST_RESOLVER_IMPL_JOB", NetLogPhase::End) => {
                resolver.end = Some(event.at_us);
                resolver.error = event.number("net_error").filter(|error| *error != 0);
                self.resolvers.remove(&event.source);
                return;
            }
            ("HOST_RESOLVER_DNS_TASK" | "HOST_RESOLVER_IMPL_DNS_TASK", NetLogPhase::Begin) => {
                match event.truth("secure") {
                    Some(true) => LookupSource::Doh,
                    _ => LookupSource::Dns,
                }
            }
            ("HOST_RESOLVER_SYSTEM_TASK" | "HOST_RESOLVER_IMPL_PROC_TASK", NetLogPhase::Begin) => {
                LookupSource::System
            }
            _ => return,
        };
        if !resolver.sources.contains(&source) {
            resolver.sources.push(source);
        }
    }

    fn socket_event(&mut self, event: &NetLogEvent) {
        if event.ends("SOCKET_ALIVE") {
            if let Some(connection) = self.connections.remove(&event.source) {
                give_up(&connection.borrow(), event);
            }
            return;
        }
        let shared = entry(&mut self.connections, event.source, &mut self.not_followed);
        let mut socket = shared.borrow_mut();
        socket.number = event.source;
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("SOCKET_ALIVE", NetLogPhase::Begin) => {
                socket.begin = at;
                let job = event.dependency().and_then(|number| self.connect_jobs.get(&number));
                socket.job = job.map(Rc::clone);
            }
            ("TCP_CONNECT_ATTEMPT", NetLogPhase::Begin) => {
                let job = socket.job.get_or_insert_with(Shared::default);
                let attempts = &mut job.borrow_mut().attempts;
                // A name has no more addresses that are worth a word.
                if let Some(address) = event.text("address").filter(|_| attempts.len() < 64) {
                    attempts.push(OpenAttempt {
                        socket: event.source,
                        address: address.to_owned(),
                        time: super::open::Stretch { begin: at, end: None },
                        is_connected: false,
                        error: None,
                    });
                }
            }
            ("TCP_CONNECT_ATTEMPT", NetLogPhase::End) => {
                let error = event.number("os_error").map(AttemptError::System);
                of_last_attempt(&socket, |attempt| {
                    attempt.time.end = at;
                    attempt.is_connected = error.is_none();
                    attempt.error = error;
                });
            }
            ("TCP_CONNECT", NetLogPhase::End) => {
                socket.remote = event.text("remote_address").map(str::to_owned);
                let error = event.number("net_error").filter(|error| *error != 0);
                if let Some(error) = error {
                    of_last_attempt(&socket, |attempt| {
                        attempt.is_connected = false;
                        attempt.error = Some(AttemptError::Net(error));
                    });
                }
            }
            ("HTTP_TRANSACTION_TUNNEL_SEND_REQUEST", NetLogPhase::Begin) => {
                socket.tunnel.begin = at;
            }
            ("HTTP_TRANSACTION_TUNNEL_READ_HEADERS", NetLogPhase::End) => socket.tunnel.end = at,
            _ => self.tls_event(event, &mut socket),
        }
    }

    fn tls_event(&mut self, event: &NetLogEvent, socket: &mut OpenConnection) {
        let group = socket.job.as_ref().and_then(|job| job.borrow().group.clone());
        match (&*event.name, event.phase) {
            ("SSL_CONNECT", NetLogPhase::Begin) => {
                socket.handshake.begin = Some(event.at_us);
                if let Some(left) = group.and_then(|group| self.tickets.get_mut(&group)) {
                    socket.ticket_held = *left > 0;
                    *left = left.saturating_sub(1);
                }
            }
            ("SSL_CONNECT", NetLogPhase::End) => {
                socket.handshake.end = Some(event.at_us);
                socket.tls_version = event.text("version").map(str::to_owned);
                socket.cipher_suite = event.number("cipher_suite");
                socket.group = event.number("key_exchange_group");
                let alpn = event.text("next_proto").filter(|alpn| *alpn != "unknown");
                socket.alpn = alpn.map(str::to_owned);
                socket.resumed = event.truth("is_resumed");
                socket.encrypted_hello = event.truth("encrypted_client_hello");
            }
            ("SSL_HANDSHAKE_MESSAGE_SENT", _)
                if event.number("type") == Some(CLIENT_HELLO) && socket.client_hellos.len() < 2 =>
            {
                socket.client_hellos.push(event.at_us);
            }
            ("SSL_HANDSHAKE_MESSAGE_RECEIVED", _) => match event.number("type") {
                Some(SERVER_HELLO) if socket.server_hellos.len() < 2 => {
                    socket.server_hellos.push(event.at_us);
                }
                Some(NEW_SESSION_TICKET) => {
                    let known = self.tickets.len();
                    if let Some(group) =
                        group.filter(|it| known < MOST_OPEN || self.tickets.contains_key(it))
                    {
                        let left = self.tickets.entry(group).or_default();
                        *left = (*left + 1).min(TICKETS_KEPT);
                    }
                }
                _ => {}
            },
            ("SSL_HANDSHAKE_EARLY_DATA_REASON", _) => {
                let reason = event.number("early_data_reason");
                let decided = reason.filter(|reason| *reason >= EARLY_DATA_ACCEPTED);
                socket.early_data = decided.map(|reason| reason == EARLY_DATA_ACCEPTED);
            }
            _ => {}
        }
    }

    fn session_event(&mut self, event: &NetLogEvent) {
        match (&*event.name, event.phase) {
            ("HTTP2_SESSION", NetLogPhase::End) => {
                self.sessions.remove(&event.source);
            }
            ("HTTP2_SESSION_INITIALIZED", _) => {
                let socket = event.dependency().and_then(|number| self.connections.get(&number));
                if let Some(socket) = socket.filter(|_| self.sessions.len() < MOST_OPEN) {
                    self.sessions.insert(event.source, Rc::clone(socket));
                }
            }
            _ => {}
        }
    }

    fn quic_event(&mut self, event: &NetLogEvent) {
        if event.ends("QUIC_SESSION") {
            self.connections.remove(&event.source);
            return;
        }
        let shared = entry(&mut self.connections, event.source, &mut self.not_followed);
        let mut session = shared.borrow_mut();
        (session.number, session.quic) = (event.source, true);
        let at = Some(event.at_us);
        match (&*event.name, event.phase) {
            ("QUIC_SESSION", NetLogPhase::Begin) => {
                session.begin = at;
                session.handshake.begin = at;
                let authority = event.text("host").zip(event.number("port"));
                session.authority = authority.map(|(host, port)| format!("{host}:{port}"));
                session.tls_version = Some("TLS 1.3".into());
            }
            ("QUIC_SESSION_PACKET_RECEIVED", _) => {
                session.answered = true;
                if session.remote.is_none() {
                    session.remote = event.text("peer_address").map(str::to_owned);
                }
            }
            ("QUIC_SESSION_PACKET_LOST", _) => session.lost_packets += 1,
            ("QUIC_SESSION_VERSION_NEGOTIATED", _) => {
                session.quic_version = event.text("version").map(str::to_owned);
            }
            ("QUIC_SESSION_VERSION_NEGOTIATION_PACKET_RECEIVED", _) => {
                session.version_negotiation = true;
            }
            ("QUIC_SESSION_CRYPTO_HANDSHAKE_COMPLETE", _) => {
                session.handshake.end = session.handshake.end.or(at);
                session.alpn = Some("h3".into());
            }
            // Only with a session are the server's parameters of the last time there.
            ("QUIC_SESSION_TRANSPORT_PARAMETERS_RESUMED", _) => session.resumed = Some(true),
            ("QUIC_SESSION_ZERO_RTT_REJECTED", _) => session.early_data = Some(false),
            ("QUIC_SESSION_ZERO_RTT_STATE", _) => match event.text("state") {
                Some("AttemptedAndSucceeded") => session.early_data = Some(true),
                Some("AttemptedAndRejected") => session.early_data = Some(false),
                _ => {}
            },
            ("QUIC_SESSION_CLOSED", _) => {
                session.quic_error = event.number("quic_error").or(session.quic_error);
            }
            _ => {}
        }
    }
}

/// An answer was there without asking anybody.
fn known(lookup: &mut Option<OpenLookup>, source: LookupSource, at: i64) {
    if let Some(lookup) = lookup {
        lookup.known.get_or_insert(source);
        lookup.time.end.get_or_insert(at);
    }
}

/// The attempt that this socket is at.
fn of_last_attempt(socket: &OpenConnection, change: impl FnOnce(&mut OpenAttempt)) {
    let Some(job) = &socket.job else { return };
    let mut job = job.borrow_mut();
    let own = |attempt: &&mut OpenAttempt| attempt.socket == socket.number;
    if let Some(attempt) = job.attempts.iter_mut().rev().find(own) {
        change(attempt);
    }
}

/// The socket is closed: what it was at is over.
fn give_up(socket: &OpenConnection, event: &NetLogEvent) {
    of_last_attempt(socket, |attempt| {
        attempt.time.end.get_or_insert(event.at_us);
    });
}

fn cut(url: &str) -> String {
    let end = url.char_indices().nth(LONGEST_URL).map_or(url.len(), |(at, _)| at);
    url[..end].to_owned()
}

/// The status in "HTTP/1.1 200 OK".
fn status(event: &NetLogEvent) -> Option<u16> {
    let first = event.params.get("headers")?.as_array()?.first()?.as_str()?;
    let text = first.strip_prefix("HTTP/")?.split(' ').nth(1)?;
    // HTTP/2 and HTTP/3 have it as a field.
    text.parse().ok()
}

/// Names of events that say something to the reduction.
const WANTED: &[&str] = &[
    "BOUND_TO_QUIC_SESSION_POOL_JOB",
    "BOUND_TO_QUIC_STREAM_FACTORY_JOB",
    "CONNECT_JOB",
    "HOST_RESOLVER_DNS_TASK",
    "HOST_RESOLVER_IMPL_CACHE_HIT",
    "HOST_RESOLVER_IMPL_DNS_TASK",
    "HOST_RESOLVER_IMPL_HOSTS_HIT",
    "HOST_RESOLVER_IMPL_JOB",
    "HOST_RESOLVER_IMPL_JOB_ATTACH",
    "HOST_RESOLVER_IMPL_PROC_TASK",
    "HOST_RESOLVER_IMPL_REQUEST",
    "HOST_RESOLVER_MANAGER_CACHE_HIT",
    "HOST_RESOLVER_MANAGER_CREATE_JOB",
    "HOST_RESOLVER_MANAGER_HOSTS_HIT",
    "HOST_RESOLVER_MANAGER_JOB",
    "HOST_RESOLVER_MANAGER_JOB_ATTACH",
    "HOST_RESOLVER_MANAGER_REQUEST",
    "HOST_RESOLVER_MANAGER_TASK_SEQUENCE_CREATED",
    "HOST_RESOLVER_SYSTEM_TASK",
    "HTTP2_SESSION",
    "HTTP2_SESSION_INITIALIZED",
    "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION",
    "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION_FROM_IP_POOL",
    "HTTP_PROXY_CONNECT_JOB_CONNECT",
    "HTTP_STREAM_JOB",
    "HTTP_STREAM_JOB_CONTROLLER",
    "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND",
    "HTTP_STREAM_JOB_CONTROLLER_BOUND",
    "HTTP_STREAM_JOB_CONTROLLER_PROXY_SERVER_RESOLVED",
    "HTTP_STREAM_JOB_HTTP2_SESSION_AVAILABLE",
    "HTTP_STREAM_JOB_WAITING",
    "HTTP_STREAM_REQUEST",
    "HTTP_STREAM_REQUEST_BOUND_TO_JOB",
    "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION",
    "HTTP_STREAM_REQUEST_STARTED_JOB",
    "HTTP_TRANSACTION_READ_BODY",
    "HTTP_TRANSACTION_READ_HEADERS",
    "HTTP_TRANSACTION_READ_RESPONSE_HEADERS",
    "HTTP_TRANSACTION_RESTART_AFTER_ERROR",
    "HTTP_TRANSACTION_SEND_REQUEST",
    "HTTP_TRANSACTION_TUNNEL_READ_HEADERS",
    "HTTP_TRANSACTION_TUNNEL_SEND_REQUEST",
    "QUIC_SESSION",
    "QUIC_SESSION_CLOSED",
    "QUIC_SESSION_CREATED",
    "QUIC_SESSION_CRYPTO_HANDSHAKE_COMPLETE",
    "QUIC_SESSION_PACKET_LOST",
    "QUIC_SESSION_PACKET_RECEIVED",
    "QUIC_SESSION_POOL_JOB",
    "QUIC_SESSION_POOL_JOB_CONNECT",
    "QUIC_SESSION_POOL_USE_EXISTING_SESSION",
    "QUIC_SESSION_TRANSPORT_PARAMETERS_RESUMED",
    "QUIC_SESSION_VERSION_NEGOTIATED",
    "QUIC_SESSION_VERSION_NEGOTIATION_PACKET_RECEIVED",
    "QUIC_SESSION_ZERO_RTT_REJECTED",
    "QUIC_SESSION_ZERO_RTT_STATE",
    "QUIC_STREAM_FACTORY_JOB",
    "QUIC_STREAM_FACTORY_JOB_CONNECT",
    "QUIC_STREAM_FACTORY_USE_EXISTING_SESSION",
    "REQUEST_ALIVE",
    "SOCKET_ALIVE",
    "SOCKET_POOL",
    "SOCKET_POOL_BOUND_TO_CONNECT_JOB",
    "SOCKET_POOL_BOUND_TO_SOCKET",
    "SOCKET_POOL_CONNECT_JOB_CREATED",
    "SOCKET_POOL_REUSED_AN_EXISTING_SOCKET",
    "SOCKET_POOL_STALLED_MAX_SOCKETS",
    "SOCKET_POOL_STALLED_MAX_SOCKETS_PER_GROUP",
    "SOCKS_CONNECT_JOB_CONNECT",
    "SSL_CONNECT",
    "SSL_CONNECT_JOB_CONNECT",
    "SSL_HANDSHAKE_EARLY_DATA_REASON",
    "SSL_HANDSHAKE_MESSAGE_RECEIVED",
    "SSL_HANDSHAKE_MESSAGE_SENT",
    "TCP_CONNECT",
    "TCP_CONNECT_ATTEMPT",
    "TCP_CONNECT_JOB_CONNECT",
    "TRANSPORT_CONNECT_JOB_CONNECT",
    "URL_REQUEST_START_JOB",
];
