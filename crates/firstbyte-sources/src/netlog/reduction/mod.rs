//! Reduces events to requests: each event updates the state of its source, and a request is returned once it and the
//! jobs that raced for it are over.
//!
//! Memory is proportional to the number of sources under way, which is limited: further ones are not followed.

mod lookups;
mod pool;
mod sockets;
mod wanted;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::open::{
    OpenConnectJob, OpenConnection, OpenController, OpenJob, OpenQuicJob, OpenRequest,
    OpenResolver, Shared, Sharing,
};
use super::request::{AlternativeService, NetLogRequest, PoolLimit};
use super::settle::{ErrorNames, settled};
use super::{NetLogEvent, NetLogPhase};
use pool::Given;

/// Maximum number of sources of one kind that are followed at the same time.
const MOST_OPEN: usize = 1 << 15;
/// Maximum number of finished requests that wait for their jobs.
const MOST_WAITING: usize = 1 << 10;
/// Longer URLs are truncated.
const LONGEST_URL: usize = 2048;

/// Builds requests from events.
#[derive(Debug, Default)]
pub struct NetLogReduction {
    requests: HashMap<u64, OpenRequest>,
    waiting: VecDeque<OpenRequest>,
    controllers: HashMap<u64, Shared<OpenController>>,
    jobs: HashMap<u64, Shared<OpenJob>>,
    connect_jobs: HashMap<u64, Shared<OpenConnectJob>>,
    quic_jobs: HashMap<u64, Shared<OpenQuicJob>>,
    connections: HashMap<u64, Shared<OpenConnection>>,
    /// HTTP/2 sessions, each with its socket's connection.
    sessions: HashMap<u64, Shared<OpenConnection>>,
    resolvers: HashMap<u64, Shared<OpenResolver>>,
    /// The sockets that pools handed out last, by group.
    given: HashMap<u64, Given>,
    /// Unused tickets, by socket group.
    tickets: HashMap<Rc<str>, u32>,
    first_us: Option<i64>,
    last_us: Option<i64>,
    not_followed: u64,
    unnamed: u64,
}

/// The entry of `map` for `number`; creates one if there is room.
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
    /// Whether it uses events of that name: for [`NetExportReader::only`](super::net_export::NetExportReader::only).
    pub fn wants(name: &str) -> bool {
        wanted::WANTED.contains(&name)
    }

    /// Microseconds from the first event to the last.
    pub fn span_us(&self) -> Option<u64> {
        self.last_us?.checked_sub(self.first_us?)?.try_into().ok()
    }

    /// Sources that were not followed, because more were under way than in any browser.
    pub const fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Requests without a URL: the log starts after their beginning.
    pub const fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Processes the next event. Passes finished requests to `sink`; `names` resolves error numbers.
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
            "HTTP_STREAM_POOL_QUIC_ATTEMPT" => self.quic_job_event(event),
            _ if kind.starts_with("HTTP_STREAM_POOL_") => self.pool_event(event),
            _ if kind.ends_with("STREAM_ATTEMPT") => self.stream_attempt_event(event),
            _ if kind.ends_with("CONNECT_JOB") => self.connect_job_event(event),
            _ => {}
        }
    }

    /// Ends the log: passes unfinished requests to `sink` as far as they are known.
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

    /// Ends a request, which is returned once its jobs are over.
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
            // A redirect: the part before it is a request of its own.
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
                if request.winner.is_none() {
                    request.winner = pool::served(request);
                }
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
                if request.winner.is_none() {
                    request.winner = pool::over_quic(request);
                }
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
            "HTTP_STREAM_POOL_JOB_CONTROLLER_JOB_BOUND"
            | "HTTP_STREAM_POOL_JOB_CONTROLLER_FOUND_EXISTING_SPDY_SESSION"
            | "HTTP_STREAM_POOL_JOB_CONTROLLER_FOUND_EXISTING_QUIC_SESSION" => {
                self.pool_job(event, &controller);
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
}

fn cut(url: &str) -> String {
    let end = url.char_indices().nth(LONGEST_URL).map_or(url.len(), |(at, _)| at);
    url[..end].to_owned()
}

/// The status in "HTTP/1.1 200 OK".
fn status(event: &NetLogEvent) -> Option<u16> {
    let first = event.params.get("headers")?.as_array()?.first()?.as_str()?;
    let text = first.strip_prefix("HTTP/")?.split(' ').nth(1)?;
    // HTTP/2 and HTTP/3 log the status as a field.
    text.parse().ok()
}
