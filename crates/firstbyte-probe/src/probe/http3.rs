//! HTTP/3 over an open QUIC connection (RFC 9114): one exchange after another.
//!
//! h3 speaks the protocol; this module polls it, its connection and QUIC in turn, one datagram at a time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use bytes::{Buf, Bytes};
use firstbyte_core::timeline::{Cause, Mark, PhaseName};
use h3::client::{Connection as H3, SendRequest};
use h3::error::StreamError;

use super::body::Body;
use super::http;
use super::observation::{Shared, When};
use super::options::HttpOptions;
use super::quic::{SharedConnection, Streams};
use super::request;
use super::secret::Secret;
use super::several::all_of;
use super::stream::SharedTimes;
use super::target::Target;

/// An open connection for HTTP/3 exchanges.
pub(super) struct Open {
    connection: SharedConnection,
    h3: Option<(H3<Streams, Bytes>, SendRequest<Streams, Bytes>)>,
    /// Active between two exchanges.
    resting: Option<Resting>,
}

/// A task that only acknowledges what arrives on an idle connection. Without it, the server would retransmit its data
/// and measure a long round trip. Ends when dropped.
struct Resting(tokio::task::JoinHandle<()>);

impl Resting {
    fn acknowledge_on(connection: &SharedConnection) -> Self {
        let connection = SharedConnection::clone(connection);
        Self(tokio::task::spawn_local(poll_fn(move |cx| {
            let mut connection = connection.borrow_mut();
            while connection.step(cx) {}
            if connection.is_alive() { Poll::Pending } else { Poll::Ready(()) }
        })))
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Problem {
    H3(StreamError),
    Setup(h3::error::ConnectionError),
    Told(Cause),
    /// The server rejected the early data, so the request must be sent again.
    Rejected,
}

impl From<StreamError> for Problem {
    fn from(error: StreamError) -> Self {
        Self::H3(error)
    }
}

/// Polls the exchange and its connection in turn, one datagram at a time.
async fn drive(
    connection: &SharedConnection,
    early: bool,
    mut conversation: Pin<&mut impl Future<Output = Result<(), Problem>>>,
) -> Result<(), Problem> {
    poll_fn(|cx| {
        loop {
            // Check this first: the conversation's streams no longer exist then.
            if early && connection.borrow().early_rejected() {
                return Poll::Ready(Err(Problem::Rejected));
            }
            if let Poll::Ready(result) = conversation.as_mut().poll(cx) {
                return Poll::Ready(result);
            }
            if !connection.borrow_mut().step(cx) {
                // The conversation must learn that the connection was lost; then it ends.
                if connection.borrow().is_alive() {
                    return Poll::Pending;
                }
                return match conversation.as_mut().poll(cx) {
                    Poll::Ready(result) => Poll::Ready(result),
                    Poll::Pending => Poll::Ready(Err(Problem::Told(Cause::ClosedBeforeResponse))),
                };
            }
        }
    })
    .await
}

/// Makes one of several requests on a connection and receives its whole response.
async fn one_of_several(
    connection: &SharedConnection,
    mut sender: SendRequest<Streams, Bytes>,
    target: &Target,
    options: &HttpOptions,
    seen: &Shared,
) -> Result<(), Problem> {
    let mut body = Body::new(options, false, seen);
    let note = |stream, event| match event {
        ResponseEvent::Head { interim } => connection.borrow_mut().note_head(stream, interim),
        ResponseEvent::End => connection.borrow().note_answered(stream),
    };
    exchange(&mut sender, target, options, &mut body, seen, note).await?;
    let status = seen.borrow().connection.facts.http.as_ref().and_then(|http| http.status);
    match status {
        Some(status @ 400..) if options.fail => Err(Problem::Told(Cause::HttpStatus { status })),
        _ => Ok(()),
    }
}

/// The request's head, with the same contents as in HTTP/2 (RFC 9114 §4.3).
fn head(target: &Target, options: &HttpOptions) -> ::http::Request<()> {
    let (mut head, _) = request::for_http2(target, options).into_parts();
    head.version = ::http::Version::HTTP_3;
    ::http::Request::from_parts(head, ())
}

/// A complete part of a response.
enum ResponseEvent {
    /// The head of an interim response, or of the final one.
    Head { interim: bool },
    /// The whole response.
    End,
}

/// Makes one request on its own stream; calls `note` with the stream's number for each part of the response.
async fn exchange(
    sender: &mut SendRequest<Streams, Bytes>,
    target: &Target,
    options: &HttpOptions,
    body: &mut Body,
    seen: &Shared,
    note: impl Fn(u64, ResponseEvent),
) -> Result<(), Problem> {
    let mut stream = sender.send_request(head(target, options)).await?;
    if let Some(upload) =
        options.body.as_ref().map(Secret::reveal).filter(|b| !b.is_empty()).cloned()
    {
        stream.send_data(upload).await?;
    }
    stream.finish().await?;
    let head = loop {
        let (head, ()) = stream.recv_response().await?.into_parts();
        let interim = head.status.is_informational();
        note(stream.id().into_inner(), ResponseEvent::Head { interim });
        // Another head follows an interim response (RFC 9114 §4.1).
        if !interim {
            break head;
        }
    };
    http::note_head(&head, seen);
    body.begin(head.status, &head.headers).map_err(Problem::Told)?;
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let piece = data.copy_to_bytes(data.chunk().len());
            body.take(&piece).map_err(Problem::Told)?;
        }
    }
    note(stream.id().into_inner(), ResponseEvent::End);
    let announced = head.headers.get(::http::header::CONTENT_LENGTH);
    let announced = announced.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let bodiless = options.method == ::http::Method::HEAD || head.status == 304;
    if announced.is_some_and(|bytes| bytes != body.received()) && !bodiless {
        return Err(Problem::Told(Cause::BodyCutShort { received: body.received() }));
    }
    body.finish().map_err(Problem::Told)
}

impl Open {
    pub(super) fn new(connection: SharedConnection) -> Self {
        Self { connection, h3: None, resting: None }
    }

    /// Sends the request and receives the response to its end.
    pub(super) async fn exchange(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
    ) -> Result<(), Cause> {
        self.resting = None;
        seen.borrow_mut().phase = PhaseName::Send;
        if self.h3.is_some() {
            self.connection.borrow_mut().observe(seen);
        }
        let early = self.connection.borrow().is_early();
        let mut result = self.attempt(target, options, body, seen, early).await;
        if matches!(result, Err(Problem::Rejected)) {
            // Everything begun as early data is gone, including the streams (RFC 9001 §4.6.2).
            self.h3 = None;
            seen.borrow_mut().phase = PhaseName::Send;
            result = self.attempt(target, options, body, seen, false).await;
        }
        let mut connection = self.connection.borrow_mut();
        connection.note_facts();
        connection.note_packets();
        if let Some(http) = &mut seen.borrow_mut().connection.facts.http {
            http.request_bytes = connection.request_bytes();
            http.upload_bytes =
                Some(options.body.as_ref().map_or(0, |body| body.reveal().len() as u64));
        }
        result.map_err(|problem| {
            let lost = connection.lost();
            match (problem, lost) {
                (Problem::Told(cause), _) => cause,
                (_, Some(lost)) if connection.answered() && !lost.is_idle() => {
                    Cause::BodyCutShort { received: body.received() }
                }
                (_, Some(lost)) => connection.cause(&lost),
                (Problem::H3(error), None) => Cause::Http3 { detail: error.to_string() },
                (Problem::Setup(error), None) => Cause::Http3 { detail: error.to_string() },
                (Problem::Rejected, None) => {
                    Cause::Http3 { detail: "early data was rejected twice".into() }
                }
            }
        })
    }

    async fn attempt(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
        early: bool,
    ) -> Result<(), Problem> {
        let connection = SharedConnection::clone(&self.connection);
        let conversation = std::pin::pin!(self.converse(target, options, body, seen));
        drive(&connection, early, conversation).await
    }

    async fn converse(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
    ) -> Result<(), Problem> {
        let (driver, sender) = match &mut self.h3 {
            Some(h3) => h3,
            None => {
                let mut builder = h3::client::builder();
                // Keep everything except the exchange off the wire.
                builder.send_grease(false);
                let streams = Streams(SharedConnection::clone(&self.connection));
                let built = builder.build(streams).await.map_err(Problem::Setup)?;
                self.h3.insert(built)
            }
        };
        let connection = &self.connection;
        let note = |stream, event| match event {
            ResponseEvent::Head { interim } => connection.borrow_mut().note_head(stream, interim),
            ResponseEvent::End => {
                if let Some(arrival) = connection.borrow().last_arrival() {
                    seen.borrow_mut().mark(Mark::ResponseEnd, When::Arrival(arrival));
                }
            }
        };
        let exchange = exchange(sender, target, options, body, seen, note);
        let mut exchange = std::pin::pin!(exchange);
        poll_fn(|cx| {
            // The connection's errors are also reported through the exchange.
            let _ = driver.poll_close(cx);
            exchange.as_mut().poll(cx)
        })
        .await
    }

    /// Sends one request for each observation, all at once on separate streams, and receives all responses completely.
    ///
    /// The first observation is the connection's; `times` receives when each was requested and answered.
    pub(super) async fn exchanges_at_once(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        seen: &[Shared],
        times: &SharedTimes,
    ) -> Result<(), Cause> {
        let Some(first) = seen.first() else { return Ok(()) };
        first.borrow_mut().phase = PhaseName::Send;
        let connection = SharedConnection::clone(&self.connection);
        connection.borrow_mut().tell_streams_apart(times);
        let result = {
            let conversation = std::pin::pin!(self.converse_at_once(target, options, seen));
            drive(&connection, false, conversation).await
        };
        let mut connection = connection.borrow_mut();
        connection.note_facts();
        if let Some(http) = &mut first.borrow_mut().connection.facts.http {
            http.request_bytes = connection.request_bytes();
        }
        result.map_err(|problem| match (problem, connection.lost()) {
            (Problem::Told(cause), _) => cause,
            (_, Some(lost)) => connection.cause(&lost),
            (Problem::H3(error), None) => Cause::Http3 { detail: error.to_string() },
            (Problem::Setup(error), None) => Cause::Http3 { detail: error.to_string() },
            (Problem::Rejected, None) => Cause::Http3 { detail: "early data was rejected".into() },
        })
    }

    async fn converse_at_once(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        seen: &[Shared],
    ) -> Result<(), Problem> {
        let mut builder = h3::client::builder();
        // Keep everything except the exchanges off the wire.
        builder.send_grease(false);
        let streams = Streams(SharedConnection::clone(&self.connection));
        let (mut driver, sender) = builder.build(streams).await.map_err(Problem::Setup)?;
        let connection = &self.connection;
        let result = {
            let exchanges = all_of(
                seen.iter()
                    .map(|seen| one_of_several(connection, sender.clone(), target, options, seen)),
            );
            let mut exchanges = std::pin::pin!(exchanges);
            poll_fn(|cx| {
                // The connection's errors are also reported through the exchanges.
                let _ = driver.poll_close(cx);
                exchanges.as_mut().poll(cx)
            })
            .await
        };
        self.h3 = Some((driver, sender));
        result
    }

    /// Leaves the connection idle until the next exchange.
    pub(super) fn rest(&mut self) {
        self.resting = Some(Resting::acknowledge_on(&self.connection));
    }

    /// Whether another exchange can follow.
    pub(super) async fn is_usable(&mut self) -> bool {
        self.resting = None;
        let connection = &self.connection;
        poll_fn(|cx| {
            while connection.borrow_mut().step(cx) {}
            Poll::Ready(connection.borrow().is_alive())
        })
        .await
    }

    /// Continues until the server has sent a session for another connection.
    pub(super) async fn await_session(&self) -> Result<(), Cause> {
        let connection = &self.connection;
        poll_fn(|cx| {
            loop {
                let mut connection = connection.borrow_mut();
                if connection.left_a_session() {
                    return Poll::Ready(Ok(()));
                }
                if !connection.is_alive() {
                    return Poll::Ready(Err(Cause::ClosedBeforeResponse));
                }
                if !connection.step(cx) {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Records what the kernel knows by now about a connection that stays open.
    pub(super) fn note_kernel(&self) {
        self.connection.borrow_mut().note_kernel();
    }

    /// Closes the connection as far as possible without waiting.
    pub(super) fn close(self) {
        drop(self.h3);
        self.connection.borrow_mut().close();
    }
}
