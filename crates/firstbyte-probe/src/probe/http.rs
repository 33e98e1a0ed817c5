//! One HTTP exchange over a watched stream.
//!
//! hyper speaks the protocol; this module decides which bytes leave together. The stream holds everything back until
//! the request is written; then it sends all of it at once.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use firstbyte_core::timeline::{Cause, Header, Mark, PhaseName};
use http::header;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::ReadBufCursor;

use super::again::HeadAgain;
use super::body::Body;
use super::observation::{Shared, When};
use super::options::HttpOptions;
use super::request::{self, HeadReplacement, ProxyForwarding, RequestBody};
use super::several::all_of;
use super::stream::{SharedTimes, Stream};
use super::target::Target;
use super::watch::{GoAway, HttpWatch, wrong_line};

/// A stream in the form that hyper needs, which this module can still access.
#[derive(Clone)]
struct SharedStream(Rc<RefCell<Stream>>, Rc<RefCell<HeadAgain>>, Rc<RefCell<HeadReplacement>>);

impl hyper::rt::Read for SharedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut head = self.1.borrow_mut();
        if head.awaits_request() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(again) = head.next(buffer.remaining()) {
            buffer.put_slice(&again);
            return Poll::Ready(Ok(()));
        }
        let mut stream = self.0.borrow_mut();
        // A server's message before the request, such as 408 (RFC 9110 §15.5.9), counts as its response. hyper, which
        // reads before it has written the request, would treat it as an error, so it gets nothing to read until then.
        if stream.holds_first_request() {
            return Poll::Pending;
        }
        ready!(stream.poll_read(cx, buffer.remaining()))?;
        let plaintext = stream.plaintext();
        head.note(plaintext, stream.watch().head_complete());
        buffer.put_slice(plaintext);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for SharedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.1.borrow_mut().swallowed(bytes.len()) {
            0 => {
                let mut stream = self.0.borrow_mut();
                self.2.borrow_mut().write(bytes, |bytes| stream.poll_write(cx, bytes))
            }
            swallowed => Poll::Ready(Ok(swallowed)),
        }
    }

    /// Otherwise hyper copies the body behind the head before it writes either.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }
}

type Tasks = Rc<RefCell<Vec<Pin<Box<dyn Future<Output = ()>>>>>>;

/// Runs hyper's own tasks along with the exchange, on the same thread and in a known order.
#[derive(Clone, Default)]
struct Beside(Tasks);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Beside {
    fn execute(&self, future: F) {
        self.0.borrow_mut().push(Box::pin(future));
    }
}

/// Drops hyper's tasks when the exchange is over or given up: they hold the executor, which holds them, and the socket.
struct EndTasks(Beside);

impl Drop for EndTasks {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.0.0.borrow_mut());
        drop(tasks);
    }
}

impl Beside {
    /// Polls every task once, including those added meanwhile.
    fn poll(&self, cx: &mut Context<'_>) {
        let mut at = 0;
        while let Some(mut task) = self.taken(at) {
            if task.as_mut().poll(cx).is_pending() {
                self.0.borrow_mut().insert(at, task);
                at += 1;
            }
        }
    }

    fn taken(&self, at: usize) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let mut tasks = self.0.borrow_mut();
        (at < tasks.len()).then(|| tasks.remove(at))
    }
}

/// An open connection for HTTP exchanges, one after another.
pub(super) struct Open {
    stream: Rc<RefCell<Stream>>,
    beside: EndTasks,
    http2: bool,
    sender: Option<Sender>,
    head: Rc<RefCell<HeadAgain>>,
    own_head: Rc<RefCell<HeadReplacement>>,
    /// Whether a head with more fields than usual has arrived.
    many_fields: bool,
    /// Additions to the requests, if a proxy gets and forwards them.
    forwarding: Option<ProxyForwarding>,
}

/// hyper's end of an open connection.
enum Sender {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

impl Open {
    /// Wraps `stream`, on which nothing has been sent yet.
    pub(super) fn new(stream: Stream, http2: bool) -> Self {
        let stream = Rc::new(RefCell::new(stream));
        let beside = EndTasks(Beside::default());
        Self {
            stream,
            beside,
            http2,
            sender: None,
            head: Rc::default(),
            own_head: Rc::default(),
            many_fields: false,
            forwarding: None,
        }
    }

    /// With `Some`, requests go to a proxy that forwards them.
    pub(super) fn forwarded(self, forwarding: Option<ProxyForwarding>) -> Self {
        Self { forwarding, ..self }
    }

    /// Sends the request and receives the response to its end.
    pub(super) async fn exchange(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
    ) -> Result<(), Cause> {
        seen.borrow_mut().phase = PhaseName::Send;
        let body_bytes = request::framed_body_bytes(options);
        if self.sender.is_none() {
            self.stream.borrow_mut().speak_http(self.http2, body_bytes);
        } else {
            self.stream.borrow_mut().speak_again(seen, body_bytes);
        }
        self.head.borrow_mut().restart();
        let (stream, beside) = (Rc::clone(&self.stream), self.beside.0.clone());
        let facts = FactsAtEnd { stream: &stream, options, seen };
        let conversation = self.converse(target, options, body, seen);
        let result = drive(conversation, &beside, &stream).await;
        drop(facts);
        let mut stream = stream.borrow_mut();
        result.map_err(|error| match error {
            Problem::Told(cause) => cause,
            Problem::Hyper(error) => {
                failure_cause(&error, &mut stream, self.head.borrow().bytes(), body)
            }
        })
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
        {
            let mut stream = self.stream.borrow_mut();
            stream.speak_http(true, 0);
            stream.tell_streams_apart(times);
        }
        self.head.borrow_mut().restart();
        let (stream, beside) = (Rc::clone(&self.stream), self.beside.0.clone());
        let facts = FactsAtEnd { stream: &stream, options, seen: first };
        let conversation = async {
            let Sender::Http2(sender) = self.greet().await? else {
                return Err(Problem::Told(Cause::Http2 {
                    detail: "the server does not speak HTTP/2".into(),
                }));
            };
            let unprocessed = Cell::new(0_usize);
            let (unprocessed, stream) = (&unprocessed, &stream);
            let streams = seen.iter().map(|seen| {
                let request = request::for_http2(target, options);
                let exchange = one_of_several(sender.clone(), request, options, seen, stream);
                // Other exchanges continue: the server still answers earlier ones.
                async move {
                    let result = exchange.await;
                    let is_shut_down = || stream.borrow().watch().is_shut_down();
                    if matches!(result, Err(Problem::Hyper(_))) && is_shut_down() {
                        unprocessed.set(unprocessed.get() + 1);
                        return Ok(());
                    }
                    result
                }
            });
            all_of(streams).await?;
            match unprocessed.get() {
                0 => Ok(()),
                left => Err(Problem::Told(Cause::ShutDown {
                    answered: seen.len() - left,
                    asked: seen.len(),
                })),
            }
        };
        let result = drive(conversation, &beside, &stream).await;
        drop(facts);
        let mut stream = stream.borrow_mut();
        result.map_err(|error| match error {
            Problem::Told(cause) => cause,
            Problem::Hyper(error) => {
                let body = Body::new(options, false, first);
                failure_cause(&error, &mut stream, &[], &body)
            }
        })
    }

    async fn converse(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
    ) -> Result<(), Problem> {
        if self.sender.is_none() {
            self.sender = Some(self.greet().await?);
        }
        let response = match self.ask(self.request(target, options)).await {
            Err(Problem::Hyper(error)) if error.is_parse_too_large() && !self.many_fields => {
                self.many_fields = true;
                let written = self.own_head.borrow().hyper_bytes;
                let again = self.request(target, options);
                // Everything that the second hyper writes is discarded, so there is nothing to replace.
                self.own_head.borrow_mut().restart(None);
                self.head.borrow_mut().give_again(written);
                self.sender = Some(self.greet().await?);
                self.ask(again).await?
            }
            result => result?,
        };
        let (head, incoming) = response.into_parts();
        self.stream.borrow_mut().note_final_head();
        note_head(&head, seen);
        body.begin(head.status, &head.headers).map_err(Problem::Told)?;
        let ends_with_connection = ends_with_connection(&head) && !incoming.is_end_stream();
        receive(incoming, body, &self.stream, seen).await?;
        if ends_with_connection
            && self.stream.borrow().ended_without_close_notify()
            && let Some(http) = &mut seen.borrow_mut().connection.facts.http
        {
            http.may_be_cut_short = true;
        }
        Ok(())
    }

    /// The request for hyper. For HTTP/1, this also prepares the head that is written instead of hyper's.
    fn request(&self, target: &Target, options: &HttpOptions) -> http::Request<RequestBody> {
        if self.http2 {
            return request::for_http2(target, options);
        }
        let (request, own) = request::for_http1(target, options, self.forwarding.as_ref());
        self.own_head.borrow_mut().restart(Some(own));
        request
    }

    async fn ask(
        &mut self,
        request: http::Request<RequestBody>,
    ) -> Result<http::Response<Incoming>, Problem> {
        Ok(match &mut self.sender {
            Some(Sender::Http1(sender)) => sender.send_request(request).await?,
            Some(Sender::Http2(sender)) => sender.send_request(request).await?,
            None => return Err(Problem::Told(Cause::ClosedBeforeResponse)),
        })
    }

    /// Starts hyper on the stream; for HTTP/2 this writes the preface and settings.
    async fn greet(&self) -> Result<Sender, hyper::Error> {
        let (head, own_head) = (Rc::clone(&self.head), Rc::clone(&self.own_head));
        let io = SharedStream(Rc::clone(&self.stream), head, own_head);
        let beside = &self.beside.0;
        // A connection's errors are also reported through the response.
        if self.http2 {
            let (sender, connection) = http2::Builder::new(beside.clone())
                .initial_stream_window_size(6 * 1024 * 1024)
                .initial_connection_window_size(16 * 1024 * 1024)
                .max_header_list_size(HTTP2_HEAD)
                .handshake(io)
                .await?;
            beside.0.borrow_mut().push(Box::pin(async move {
                let _ = connection.await;
            }));
            Ok(Sender::Http2(sender))
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(LARGEST_HEAD)
                // This limit also applies to trailers.
                .max_header_size(LARGEST_HEAD)
                .max_headers(if self.many_fields { FIELDS } else { USUAL_FIELDS })
                // A user agent must accept these (RFC 9112 §5.2), and all others do.
                .allow_obsolete_multiline_headers_in_responses(true)
                .allow_spaces_after_header_name_in_responses(true)
                .handshake(io)
                .await?;
            beside.0.borrow_mut().push(Box::pin(async move {
                let _ = connection.await;
            }));
            Ok(Sender::Http1(sender))
        }
    }

    /// Whether another exchange can follow; call it between exchanges.
    pub(super) async fn is_usable(&mut self) -> bool {
        let (beside, sender) = (self.beside.0.clone(), &mut self.sender);
        poll_fn(|cx| {
            // Notices if the server has closed the connection meanwhile.
            beside.poll(cx);
            let ready = match sender {
                Some(Sender::Http1(sender)) => sender.poll_ready(cx),
                Some(Sender::Http2(sender)) => sender.poll_ready(cx),
                None => return Poll::Ready(false),
            };
            Poll::Ready(matches!(ready, Poll::Ready(Ok(()))))
        })
        .await
    }

    /// Receives until the server has sent a session for another connection. No response is awaited, so no HTTP data
    /// should come in between.
    pub(super) async fn await_session(&self) -> Result<(), Cause> {
        let result = poll_fn(|cx| self.stream.borrow_mut().poll_session(cx)).await;
        result.map_err(|_| Cause::ClosedBeforeResponse)
    }

    /// Closes the connection as far as possible without waiting.
    pub(super) fn close(self) {
        drop(self.sender);
        self.stream.borrow_mut().close();
    }

    /// Records what the kernel knows by now about a connection that stays open.
    pub(super) fn note_kernel(&self) {
        self.stream.borrow().note_kernel();
    }
}

enum Problem {
    Hyper(hyper::Error),
    Told(Cause),
}

impl From<hyper::Error> for Problem {
    fn from(error: hyper::Error) -> Self {
        Self::Hyper(error)
    }
}

/// Size limit of a head, the same as curl's (`MAX_HTTP_RESP_HEADER_SIZE`).
const LARGEST_HEAD: usize = 300 * 1024;
/// Maximum number of fields in a head.
const FIELDS: usize = 10_000;
/// The usual maximum of fields, for which hyper reserves room beforehand (see `again`).
const USUAL_FIELDS: usize = 100;
/// HTTP/2 counts 32 extra bytes for each field (RFC 9113 §6.5.2).
const HTTP2_HEAD: u32 = (LARGEST_HEAD + 32 * FIELDS) as u32;

/// Records the facts of an exchange when it is over or given up.
struct FactsAtEnd<'a> {
    stream: &'a RefCell<Stream>,
    options: &'a HttpOptions,
    seen: &'a Shared,
}

impl Drop for FactsAtEnd<'_> {
    fn drop(&mut self) {
        note_facts(&self.stream.borrow(), self.options, self.seen);
    }
}

pub(super) fn note_head(head: &http::response::Parts, seen: &Shared) {
    let mut seen = seen.borrow_mut();
    seen.phase = PhaseName::Receive;
    let Some(http) = &mut seen.connection.facts.http else { return };
    http.version = Some(match head.version {
        http::Version::HTTP_10 => "1.0".into(),
        http::Version::HTTP_2 => "2".into(),
        http::Version::HTTP_3 => "3".into(),
        _ => "1.1".into(),
    });
    http.status = Some(head.status.as_u16());
    http.headers = head
        .headers
        .iter()
        .map(|(name, value)| Header {
            name: name.as_str().to_owned(),
            value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        })
        .collect();
}

/// Whether the body is delimited only by the end of the connection (RFC 9112 §6.3).
fn ends_with_connection(head: &http::response::Parts) -> bool {
    head.version <= http::Version::HTTP_11
        && !head.headers.contains_key(header::CONTENT_LENGTH)
        && !head.headers.contains_key(header::TRANSFER_ENCODING)
}

async fn receive(
    mut incoming: Incoming,
    body: &mut Body,
    stream: &Rc<RefCell<Stream>>,
    seen: &Shared,
) -> Result<(), Problem> {
    while let Some(frame) = incoming.frame().await {
        if let Ok(data) = frame?.into_data() {
            body.take(&data).map_err(Problem::Told)?;
        }
    }
    if let Some(arrival) = stream.borrow().last_arrival() {
        let mut seen = seen.borrow_mut();
        // A response without a body ends with its head.
        let start = seen.connection.marks.stamp(Mark::ResponseStart);
        let end = match start {
            Some(start) if start.at > arrival.stamp.at => When::At(start),
            _ => When::Arrival(arrival),
        };
        seen.mark(Mark::ResponseEnd, end);
    }
    body.finish().map_err(Problem::Told)
}

/// Makes one of several requests on a connection and receives its whole response.
async fn one_of_several(
    mut sender: http2::SendRequest<RequestBody>,
    request: http::Request<RequestBody>,
    options: &HttpOptions,
    seen: &Shared,
    stream: &Rc<RefCell<Stream>>,
) -> Result<(), Problem> {
    let (head, incoming) = sender.send_request(request).await?.into_parts();
    note_head(&head, seen);
    let mut body = Body::new(options, false, seen);
    body.begin(head.status, &head.headers).map_err(Problem::Told)?;
    receive(incoming, &mut body, stream, seen).await?;
    match head.status.as_u16() {
        status @ 400.. if options.fail => Err(Problem::Told(Cause::HttpStatus { status })),
        _ => Ok(()),
    }
}

/// Polls the exchange and hyper's tasks; releases the stream once the request is written.
async fn drive(
    conversation: impl Future<Output = Result<(), Problem>>,
    beside: &Beside,
    stream: &Rc<RefCell<Stream>>,
) -> Result<(), Problem> {
    let mut conversation = std::pin::pin!(conversation);
    let mut released = false;
    poll_fn(|cx| {
        if !released {
            // Writing needs no input. So after polling both until nothing more is written, the stream has the whole
            // request.
            let mut written = None;
            loop {
                if let Poll::Ready(result) = conversation.as_mut().poll(cx) {
                    return Poll::Ready(result);
                }
                beside.poll(cx);
                let now = stream.borrow().watch().written;
                if now > 0 && written == Some(now) {
                    break;
                }
                if written == Some(now) {
                    return Poll::Pending;
                }
                written = Some(now);
            }
            released = true;
            let mut stream = stream.borrow_mut();
            stream.release();
            // hyper gets this error again from its next write or read.
            let _ = stream.poll_flush(cx);
        }
        let result = conversation.as_mut().poll(cx);
        beside.poll(cx);
        let _ = stream.borrow_mut().poll_flush(cx);
        if result.is_ready() { result } else { conversation.as_mut().poll(cx) }
    })
    .await
}

fn note_facts(stream: &Stream, options: &HttpOptions, seen: &Shared) {
    let mut seen = seen.borrow_mut();
    if let Some(tls) = stream.tls_facts() {
        seen.connection.facts.tls = Some(tls);
    }
    let watch = stream.watch();
    if let Some(http) = &mut seen.connection.facts.http {
        http.request_bytes = Some(watch.request_bytes);
        http.upload_bytes =
            Some(options.body.as_ref().map_or(0, |body| body.reveal().len() as u64));
        http.header_bytes = watch.response_started.then_some(watch.header_bytes);
        let answered_early = watch.response_started
            && !watch.request_complete
            && http.upload_bytes.is_some_and(|bytes| bytes > 0);
        http.upload_sent_bytes = answered_early.then(|| stream.upload_sent());
    }
}

const HEAD_TOO_LARGE: Cause = Cause::HeadTooLarge { limit_bytes: LARGEST_HEAD as u64 };

/// The cause of `error`: what the server said as it ended the connection, otherwise what happened to the stream.
fn failure_cause(error: &hyper::Error, stream: &mut Stream, head: &[u8], body: &Body) -> Cause {
    let h2 = error.source().and_then(|e| e.downcast_ref::<h2::Error>());
    let watch = stream.watch();
    if let Some(go_away) = watch.go_away().filter(|_| !h2.is_some_and(h2::Error::is_library)) {
        let GoAway { code, debug, .. } = go_away;
        if code != 0 {
            let text = if debug.is_empty() { String::new() } else { format!(" ({debug:?})") };
            let reason = h2::Reason::from(code);
            let detail = format!("server ended the connection with GOAWAY {reason:?}{text}");
            return Cause::Http2 { detail };
        }
        if watch.is_unprocessed() && !watch.response_started {
            return Cause::ShutDown { answered: 0, asked: 1 };
        }
    }
    stream.fault.take().unwrap_or_else(|| cause(error, stream.watch(), head, body))
}

/// `head` is the part of an HTTP/1 response's head that arrived.
fn cause(error: &hyper::Error, watch: &HttpWatch, head: &[u8], body: &Body) -> Cause {
    if let Some(h2) = error.source().and_then(|e| e.downcast_ref::<h2::Error>()) {
        return match h2.reason() {
            // The client itself refuses heads that exceed its limits.
            Some(h2::Reason::REFUSED_STREAM | h2::Reason::ENHANCE_YOUR_CALM)
                if h2.is_library() && !body.has_begun() =>
            {
                HEAD_TOO_LARGE
            }
            Some(reason) => http2_cause(h2, reason, watch),
            None if watch.response_started => Cause::BodyCutShort { received: body.received() },
            None => Cause::ClosedBeforeResponse,
        };
    }
    if error.is_parse_too_large() {
        return HEAD_TOO_LARGE;
    }
    if error.is_parse() {
        let detail = match &watch.answer {
            Some(_) if watch.answer_is_tls => "it looks like TLS".to_owned(),
            Some(line) if !line.starts_with("HTTP/") => format!("it begins with {line:?}"),
            _ => {
                let why = error.to_string().trim_end_matches(" parsed").to_owned();
                match wrong_line(head, &why) {
                    Some(line) => format!("{why} {line:?}"),
                    None => why,
                }
            }
        };
        return Cause::NotHttp { detail, tls: watch.answer_is_tls };
    }
    if !watch.head_begun() {
        return Cause::ClosedBeforeResponse;
    }
    if !watch.head_complete() {
        return Cause::HeadCutShort;
    }
    // Errors of hyper's chunked decoder are reported as read errors.
    match error.source().and_then(|e| e.downcast_ref::<io::Error>()) {
        Some(bad) if matches!(bad.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
            Cause::BadTransferCoding { detail: bad.to_string().to_lowercase() }
        }
        _ => Cause::BodyCutShort { received: body.received() },
    }
}

/// An error of HTTP/2 itself, with the names of RFC 9113 §7.
fn http2_cause(error: &h2::Error, reason: h2::Reason, watch: &HttpWatch) -> Cause {
    if let Some(line) = watch.answer.as_ref().filter(|line| line.starts_with("HTTP/1")) {
        return Cause::Http2 { detail: format!("the server answered {line:?}") };
    }
    match (error.is_reset(), error.is_remote()) {
        (true, true) => {
            Cause::Http2Stream { detail: format!("server reset the stream with {reason:?}") }
        }
        (true, false) => Cause::Http2Stream {
            detail: format!("server violated the protocol on the stream: {reason:?}"),
        },
        (false, true) => {
            Cause::Http2 { detail: format!("server ended the connection with {reason:?}") }
        }
        (false, false) => {
            Cause::Http2 { detail: format!("server violated the protocol: {reason:?}") }
        }
    }
}
