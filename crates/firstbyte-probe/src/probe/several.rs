//! Several requests in one sample: on parallel connections, each with one request after another, or all at once as
//! streams of one connection.
//!
//! Input: the number of requests, and how to make them. Output: a [`Sample`] whose connection is the first one, with
//! the first exchange, and whose [`Requests`] describe all of them. All times count from the sample's origin.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use firstbyte_clock::Timebase;
use firstbyte_core::timeline::{
    Cause, Connection, Exchange, Failure, HttpFacts, Mark, Parallel, Requests, Sample, TimeLimit,
};

use super::observation::{Observation, Shared};
use super::open::Open;
use super::options::RequestsOptions;
use super::proxy::HandshakeSessions;
use super::resolve::{Late, Resolved, interleave};
use super::stream::SharedTimes;
use super::{Deadline, Kept, NetProber, Target, timed_out, was_closed_unused};

/// The addresses of a name, resolved once, by the first connection to it. Each connection races all addresses, and
/// waits for those not yet resolved.
#[derive(Default)]
pub(super) struct SharedAddresses {
    known: RefCell<Option<Vec<IpAddr>>>,
    /// Addresses of the other family, while its answer is pending.
    late: RefCell<Option<Late>>,
    /// Addresses that arrived late.
    more: RefCell<Vec<IpAddr>>,
}

impl SharedAddresses {
    fn are_known(&self) -> bool {
        self.known.borrow().is_some()
    }

    /// The addresses known so far, for another connection; absent before any were found.
    pub(super) fn resolved(self: &Rc<Self>) -> Option<Resolved> {
        let addresses = self.known.borrow().clone()?;
        let late = self.late.borrow().is_some().then(|| {
            let names = Rc::clone(self);
            let late: Late = Box::pin(poll_fn(move |cx| names.poll_late(cx)));
            late
        });
        Some(Resolved { addresses, late })
    }

    /// Stores and returns the addresses found by the first connection.
    pub(super) fn share(self: &Rc<Self>, found: Resolved) -> Resolved {
        self.known.replace(Some(found.addresses.clone()));
        self.late.replace(found.late);
        self.resolved().unwrap_or_else(|| found.addresses.into())
    }

    /// The connection that is polled first gets the answer for all of them: they belong to one task.
    fn poll_late(&self, cx: &mut Context<'_>) -> Poll<Vec<IpAddr>> {
        let mut late = self.late.borrow_mut();
        if let Some(under_way) = &mut *late {
            let more = ready!(under_way.as_mut().poll(cx));
            *late = None;
            let known = self.known.take().unwrap_or_default();
            self.known.replace(Some(interleave([known, more.clone()].concat())));
            self.more.replace(more);
        }
        Poll::Ready(self.more.borrow().clone())
    }
}

/// The work and the results of a sample.
struct Burst {
    url: String,
    method: String,
    timebase: Timebase,
    asked: u32,
    handed_out: Cell<u32>,
    /// Number of connections begun.
    connections: Cell<u16>,
    /// Whether an exchange has failed; then no more requests are handed out.
    failed: Cell<bool>,
    names: Rc<SharedAddresses>,
    begun: RefCell<Vec<Begun>>,
    times: SharedTimes,
    /// The times of several streams on one connection, once they are known.
    settled: RefCell<Vec<Exchange>>,
}

/// An exchange that has begun.
struct Begun {
    connection: u16,
    /// Whether it is the first on its connection.
    opens: bool,
    seen: Shared,
    /// Its result, once it is over.
    over: Option<Connection>,
    /// Whether its connection was found closed, so that it was repeated on another.
    forgotten: bool,
}

/// A connection that was opened for a request, and is kept for others.
struct Lane {
    number: u16,
    kept: Option<Box<Kept>>,
}

impl Burst {
    fn start(target: &Target, method: &str, asked: u32) -> Self {
        Self {
            url: target.url_with_zone(),
            method: method.to_owned(),
            timebase: Timebase::start(),
            asked,
            handed_out: Cell::new(0),
            connections: Cell::new(0),
            failed: Cell::new(false),
            names: Rc::default(),
            begun: RefCell::default(),
            times: Rc::default(),
            settled: RefCell::default(),
        }
    }

    /// Takes the next request to make; returns whether there was one.
    fn hand_out(&self) -> bool {
        let next = self.handed_out.get();
        let there_is = next < self.asked && !self.failed.get();
        if there_is {
            self.handed_out.set(next + 1);
        }
        there_is
    }

    fn next_connection(&self) -> u16 {
        let number = self.connections.get();
        self.connections.set(number.saturating_add(1));
        number
    }

    /// Begins an exchange on this connection, which it `opens` or finds open.
    fn begin(&self, connection: u16, opens: bool) -> (usize, Shared) {
        let seen = Observation::start_on(&self.url, self.timebase);
        seen.borrow_mut().connection.facts.http =
            Some(HttpFacts { method: self.method.clone(), ..HttpFacts::default() });
        let mut begun = self.begun.borrow_mut();
        begun.push(Begun {
            connection,
            opens,
            seen: Shared::clone(&seen),
            over: None,
            forgotten: false,
        });
        (begun.len() - 1, seen)
    }

    /// Records that an exchange is over; its socket must be gone, or have reported everything.
    fn over(&self, number: usize, seen: &Shared, outcome: Result<(), Cause>) {
        let connection = seen.borrow_mut().finish(outcome);
        self.begun.borrow_mut()[number].over = Some(connection);
        self.note_failures();
    }

    fn note_failures(&self) {
        let begun = self.begun.borrow();
        let failed = |begun: &Begun| {
            !begun.forgotten && begun.over.as_ref().is_some_and(|over| over.failure.is_some())
        };
        self.failed.set(begun.iter().any(failed));
    }

    /// Whether the exchange found its connection closed before the server saw anything of it. If so, it is discarded
    /// and must be repeated.
    fn take_back(&self, number: usize) -> bool {
        let unused = {
            let begun = &mut self.begun.borrow_mut()[number];
            begun.forgotten = begun.over.as_ref().is_some_and(was_closed_unused);
            begun.forgotten
        };
        self.note_failures();
        unused
    }

    /// Records when streams were requested and answered. Call it once their socket is gone, and before their exchange
    /// is over.
    fn settle_streams(&self) {
        let mut settled = self.settled.borrow_mut();
        let begun = self.begun.borrow();
        if let (true, Some(first)) = (settled.is_empty(), begun.first()) {
            settled.resize(self.times.borrow().len(), Exchange::default());
            first.seen.borrow_mut().settle_streams(&self.times.borrow(), &mut settled);
        }
    }

    /// Builds the sample; exchanges that are not over end with the cause `cut`.
    fn into_sample(self, parallel: Parallel, cut: Option<Cause>) -> Sample {
        let cut = cut.unwrap_or(Cause::Interrupted);
        let mut sample = Sample { requested_url: self.url.clone(), ..Sample::default() };
        let (mut further, mut exchanges) = (Vec::new(), Vec::new());
        let begun = self.begun.into_inner().into_iter().filter(|begun| !begun.forgotten);
        for (place, begun) in begun.enumerate() {
            let over = begun.over;
            let whole = over.unwrap_or_else(|| begun.seen.borrow_mut().finish(Err(cut.clone())));
            exchanges.push(exchange(begun.connection, &whole));
            if place == 0 {
                sample.connection = whole;
            } else if begun.opens {
                further.push(without_flights(whole));
            }
        }
        let asked = self.asked;
        if !self.settled.borrow().is_empty() {
            tell_streams_apart(&mut sample.connection, &mut exchanges, self.settled.take());
        }
        sample.requests = Some(Box::new(Requests { parallel, asked, further, exchanges }));
        sample
    }
}

/// The summary of the exchange on `connection`.
fn exchange(number: u16, connection: &Connection) -> Exchange {
    let http = connection.facts.http.as_ref();
    Exchange {
        connection: number,
        request_start: connection.marks.stamp(Mark::RequestStart),
        request_end: connection.marks.stamp(Mark::RequestEnd),
        response_start: connection.marks.stamp(Mark::ResponseStart),
        response_end: connection.marks.stamp(Mark::ResponseEnd),
        status: http.and_then(|http| http.status),
        body_bytes: http.and_then(|http| http.body_bytes),
        failure: connection.failure.clone(),
    }
}

/// A further connection, reduced to its set-up and its purpose.
fn without_flights(mut connection: Connection) -> Connection {
    connection.flights = Vec::new();
    if let Some(quic) = &mut connection.facts.quic {
        quic.datagrams = Vec::new();
    }
    if let Some(http) = &mut connection.facts.http {
        http.headers = Vec::new();
    }
    connection
}

/// Reduces a connection with several streams to its first exchange: later data belongs to the others only.
fn up_to_response_end(connection: &mut Connection) {
    let Some(end) = connection.marks.at(Mark::ResponseEnd) else { return };
    for flight in &mut connection.flights {
        flight.chunks.retain(|chunk| chunk.stamp.at <= end);
    }
    connection.flights.retain(|flight| !flight.chunks.is_empty());
    if let Some(quic) = &mut connection.facts.quic {
        quic.datagrams.retain(|datagram| datagram.at <= end);
    }
}

impl NetProber {
    /// Takes a sample of several requests.
    pub(super) async fn take_requests(&self, target: &Target, requests: RequestsOptions) -> Sample {
        let RequestsOptions { count, parallel } = requests;
        let lanes = u32::from(parallel.connections()).min(count);
        // Create key shares before the clock starts, as for a single request.
        let sessions: Vec<_> = (0..lanes).map(|_| self.begin_sessions(target)).collect();
        let mut deadline = Deadline::new(self.options.max_time);
        let burst = Burst::start(target, self.options.http.method.as_str(), count);
        let deadline = deadline.begun();
        let cut = {
            let requests = std::pin::pin!(async {
                match parallel {
                    Parallel::Connections(_) => self.on_connections(target, sessions, &burst).await,
                    Parallel::Http2 | Parallel::Http3 => {
                        let session = sessions.into_iter().next();
                        let session = session.unwrap_or_else(|| Ok(HandshakeSessions::default()));
                        self.as_streams(target, session, &burst).await;
                    }
                }
            });
            let within_limit = async {
                match deadline {
                    Some((limit, at)) => tokio::time::timeout_at(at, requests)
                        .await
                        .err()
                        .map(|_| timed_out(limit, TimeLimit::Visit)),
                    None => {
                        requests.await;
                        None
                    }
                }
            };
            tokio::select! {
                biased;
                () = self.interrupted.notified() => Some(Cause::Interrupted),
                cut = within_limit => cut,
            }
        };
        burst.settle_streams();
        let mut sample = burst.into_sample(parallel, cut);
        if matches!(parallel, Parallel::Http2 | Parallel::Http3) {
            up_to_response_end(&mut sample.connection);
        }
        sample
    }

    /// Uses parallel connections: each is opened for a request, and takes the next one when it is free.
    async fn on_connections(
        &self,
        target: &Target,
        sessions: Vec<Result<HandshakeSessions, String>>,
        burst: &Burst,
    ) {
        let lanes = sessions.into_iter().enumerate().map(|(place, session)| async move {
            if place > 0 && !addresses_are_known(burst).await {
                return Ok(());
            }
            self.lane(target, session, burst).await;
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = all_of(lanes).await;
    }

    /// Runs one connection until no requests are left; opens another if the server has closed it.
    async fn lane(
        &self,
        target: &Target,
        session: Result<HandshakeSessions, String>,
        burst: &Burst,
    ) {
        let mut session = Some(session);
        let mut lane = Lane { number: 0, kept: None };
        while burst.hand_out() {
            if let Some(kept) = &mut lane.kept
                && !kept.open.is_usable().await
                && let Some(kept) = lane.kept.take()
            {
                kept.open.close();
            }
            let mut number = self.one(target, &mut session, &mut lane, burst).await;
            if self.options.http.method.is_idempotent() && burst.take_back(number) {
                number = self.one(target, &mut session, &mut lane, burst).await;
            }
            if burst.begun.borrow()[number].over.as_ref().is_some_and(|c| c.failure.is_some()) {
                break;
            }
        }
        if let Some(kept) = lane.kept {
            kept.open.close();
        }
    }

    /// Makes one exchange, on the lane's connection if it has one. Returns its index among those begun.
    async fn one(
        &self,
        target: &Target,
        session: &mut Option<Result<HandshakeSessions, String>>,
        lane: &mut Lane,
        burst: &Burst,
    ) -> usize {
        let http = &self.options.http;
        let kept = lane.kept.take();
        let opens = kept.is_none();
        if opens {
            lane.number = burst.next_connection();
        }
        let (number, seen) = burst.begin(lane.number, opens);
        let opened = match kept {
            Some(kept) => {
                Open::note_reuse(&seen, &kept.first);
                Ok(kept)
            }
            None => {
                let session = session.take().unwrap_or_else(|| self.begin_sessions(target));
                match session {
                    Ok(session) => {
                        self.open(target, session, http, &seen, Some(&burst.names)).await
                    }
                    Err(detail) => Err(Cause::TlsSetup { detail }),
                }
                .map(|open| Box::new(Kept { open, first: Connection::default() }))
            }
        };
        let outcome = match opened {
            Ok(mut kept) => {
                let result = self.exchange(&mut kept.open, target, http, &seen).await;
                if result.is_ok() {
                    kept.open.note_kernel();
                    if opens {
                        kept.first = seen.borrow().connection.clone();
                    }
                    kept.open.rest();
                    lane.kept = Some(kept);
                } else {
                    kept.open.close();
                }
                result
            }
            Err(cause) => Err(cause),
        };
        burst.over(number, &seen, outcome);
        number
    }

    /// Makes all requests at once, as streams of one connection.
    async fn as_streams(
        &self,
        target: &Target,
        session: Result<HandshakeSessions, String>,
        burst: &Burst,
    ) {
        let http = &self.options.http;
        let connection = burst.next_connection();
        let (_, first) = burst.begin(connection, true);
        let outcome = async {
            let session = session.map_err(|detail| Cause::TlsSetup { detail })?;
            let mut open = self.open(target, session, http, &first, None).await?;
            let mut seen = vec![Shared::clone(&first)];
            while burst.hand_out() {
                if burst.handed_out.get() > 1 {
                    seen.push(burst.begin(connection, false).1);
                }
            }
            burst.times.borrow_mut().resize_with(seen.len(), Default::default);
            let result = open.exchanges_at_once(target, http, &seen, &burst.times).await;
            open.close();
            burst.settle_streams();
            result
        };
        // An error of one exchange ends all unanswered ones. Which those are is known once their times are.
        let outcome = outcome.await;
        let phase = first.borrow().phase;
        let at = Some(first.borrow().timebase.now().at);
        let cause = outcome.as_ref().err().cloned();
        burst.over(0, &first, outcome);
        let count = burst.begun.borrow().len();
        for number in 1..count {
            let seen = Shared::clone(&burst.begun.borrow()[number].seen);
            let mut connection = std::mem::take(&mut seen.borrow_mut().connection);
            connection.failure = cause.clone().map(|cause| Failure { phase, cause, at });
            burst.begun.borrow_mut()[number].over = Some(connection);
        }
    }
}

/// Copies the times of streams into the exchanges, and into the first one's connection. An exchange with a complete
/// response did not fail.
fn tell_streams_apart(
    connection: &mut Connection,
    exchanges: &mut [Exchange],
    of_streams: Vec<Exchange>,
) {
    for (exchange, times) in exchanges.iter_mut().zip(of_streams) {
        let by_status =
            matches!(&exchange.failure, Some(Failure { cause: Cause::HttpStatus { .. }, .. }));
        let failure = exchange.failure.take().filter(|_| by_status || times.response_end.is_none());
        let Exchange { connection, status, body_bytes, .. } = *exchange;
        *exchange = Exchange { connection, status, body_bytes, failure, ..times };
    }
    let Some(first) = exchanges.first() else { return };
    for (mark, stamp) in [
        (Mark::RequestStart, first.request_start),
        (Mark::RequestEnd, first.request_end),
        (Mark::ResponseStart, first.response_start),
        (Mark::ResponseEnd, first.response_end),
    ] {
        if let Some(stamp) = stamp {
            connection.marks.set(mark, stamp);
        }
    }
}

/// Waits until the first connection has resolved the name. Returns false if it failed before that.
async fn addresses_are_known(burst: &Burst) -> bool {
    // This is polled after the first connection, whenever that is.
    poll_fn(|_| match (burst.names.are_known(), burst.failed.get()) {
        (true, _) => Poll::Ready(true),
        (false, true) => Poll::Ready(false),
        (false, false) => Poll::Pending,
    })
    .await
}

/// Polls `parts` in order whenever one of them is woken, until all are complete or one fails.
pub(super) async fn all_of<F, E>(parts: impl Iterator<Item = F>) -> Result<(), E>
where
    F: Future<Output = Result<(), E>>,
{
    let mut parts: Vec<Option<Pin<Box<F>>>> = parts.map(|part| Some(Box::pin(part))).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for part in &mut parts {
            if let Some(under_way) = part {
                match under_way.as_mut().poll(cx) {
                    Poll::Ready(Ok(())) => *part = None,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(Ok(())) }
    })
    .await
}
