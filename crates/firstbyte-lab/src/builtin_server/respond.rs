//! Responses of the built-in server over every protocol: the page, the headers, the access log.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALT_SVC, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, LOCATION,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};

use super::Numbers;
use super::config::{EarlyData, SlowRequests};
use super::filling::Filling;
use super::pattern::{Pattern, Written};
use super::pause::pause;
use crate::access_log::{AccessLog, Entry};
use crate::clock;

/// Largest body at `/bytes/N`.
const MAX_BYTES: usize = 100_000_000;

/// Longest padding of a head.
const MAX_HEAD_BYTES: usize = 100_000;

const PADDING: HeaderName = HeaderName::from_static("x-padding");
const EARLY_DATA: HeaderName = HeaderName::from_static("x-firstbyte-early-data");
const RESUMED: HeaderName = HeaderName::from_static("x-firstbyte-resumed");
const ZERO: HeaderValue = HeaderValue::from_static("0");
const ONE: HeaderValue = HeaderValue::from_static("1");

/// State shared by all requests to a server.
pub(super) struct Site {
    pub(super) page_bytes: usize,
    pub(super) think_time: Duration,
    pub(super) slow: Option<SlowRequests>,
    /// Counts all requests.
    pub(super) requests: Numbers,
    pub(super) early_data: EarlyData,
    /// Redirects, by URL without query.
    pub(super) redirects: HashMap<String, HeaderValue>,
    /// Content, by path.
    pub(super) content: HashMap<String, Served>,
    /// `h3=":443"`, if the server advertises HTTP/3.
    pub(super) alt_svc: Option<HeaderValue>,
    pub(super) access_log: Option<AccessLog>,
}

/// Content of one path.
pub(super) struct Served {
    pub(super) content_type: HeaderValue,
    pub(super) body: Bytes,
    pub(super) think_time: Duration,
}

/// Facts shared by all requests on a connection.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) protocol: &'static str,
    pub(super) tls: Option<TlsFacts>,
}

#[derive(Clone, Copy)]
pub(super) struct TlsFacts {
    /// `TLSv1.3`, as OpenSSL and nginx write it.
    pub(super) version: &'static str,
    pub(super) resumed: bool,
}

impl Site {
    /// Answers one request and logs it. `early` says whether it came in early data.
    pub(super) async fn respond<B>(
        &self,
        request: &Request<B>,
        connection: &Connection,
        early: bool,
    ) -> Response<Answer> {
        let uri = request.uri();
        let pattern = pattern(uri);
        let thinks = pattern.as_ref().map(|pattern| pattern.think_time).unwrap_or_default();
        let served = self.content.get(uri.path());
        let thinks = thinks + served.map(|served| served.think_time).unwrap_or_default();
        let head_bytes = pattern.as_ref().map_or(0, |pattern| pattern.head_bytes);
        pause(self.think_time + self.slowness() + thinks).await;
        let mut response = if early && self.early_data == EarlyData::TooEarly {
            with_body(StatusCode::TOO_EARLY, Answer::with_bytes(0))
        } else if let Some(location) = self.redirect(request, connection) {
            redirect(StatusCode::MOVED_PERMANENTLY, location.clone())
        } else if let Some(pattern) = pattern {
            with_body(StatusCode::OK, Answer::Written(Written::new(pattern)))
        } else if let Some(served) = served {
            served.response()
        } else {
            self.page(uri.path())
        };
        let length = response.body().left();
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        if let Some(tls) = connection.tls {
            let flag = |set| if set { ONE } else { ZERO };
            headers.insert(EARLY_DATA, flag(early));
            headers.insert(RESUMED, flag(tls.resumed));
        }
        if let Some(alt_svc) = &self.alt_svc {
            headers.insert(ALT_SVC, alt_svc.clone());
        }
        pad(headers, head_bytes);
        if request.method() == Method::HEAD {
            *response.body_mut() = Answer::with_bytes(0);
        }
        self.log(response.status(), uri, connection, early);
        response
    }

    /// Counts a request and returns its additional think time.
    fn slowness(&self) -> Duration {
        let number = self.requests.next();
        let slow = self.slow.filter(|slow| number.is_multiple_of(slow.every.get()));
        slow.map(|slow| slow.think_time).unwrap_or_default()
    }

    fn log(&self, status: StatusCode, uri: &Uri, connection: &Connection, early: bool) {
        let Some(log) = &self.access_log else { return };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        log.write(&Entry {
            time: clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default(),
            protocol: connection.protocol.to_owned(),
            tls: connection.tls.map(|tls| tls.version.to_owned()),
            resumed: connection.tls.map(|tls| tls.resumed),
            early: connection.tls.map(|_| early),
            status: status.as_u16(),
            connection: Some(connection.number),
            path: path.to_owned(),
        });
    }

    fn redirect<B>(&self, request: &Request<B>, connection: &Connection) -> Option<&HeaderValue> {
        if self.redirects.is_empty() {
            return None;
        }
        // HTTP/1.1 has the host in a header, HTTP/2 and HTTP/3 in the URI.
        let header = || request.headers().get(HOST)?.to_str().ok()?.split(':').next();
        let host = request.uri().host().or_else(header)?.to_ascii_lowercase();
        let scheme = if connection.tls.is_some() { "https" } else { "http" };
        self.redirects.get(&format!("{scheme}://{host}{}", request.uri().path()))
    }

    fn page(&self, path: &str) -> Response<Answer> {
        let bytes = path.strip_prefix("/bytes/").and_then(|number| number.parse::<usize>().ok());
        match (path, bytes) {
            ("/", _) => with_body(StatusCode::OK, Answer::with_bytes(self.page_bytes)),
            ("/redirect", _) => redirect(StatusCode::FOUND, HeaderValue::from_static("/")),
            (_, Some(bytes)) if bytes <= MAX_BYTES => {
                with_body(StatusCode::OK, Answer::with_bytes(bytes))
            }
            _ => with_body(StatusCode::NOT_FOUND, Answer::with_bytes(0)),
        }
    }
}

impl Served {
    /// Allows other origins, because browsers request fonts with CORS (Fetch §3.2).
    fn response(&self) -> Response<Answer> {
        let mut response = with_body(StatusCode::OK, Answer::Served(self.body.clone()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        response
    }
}

fn redirect(status: StatusCode, location: HeaderValue) -> Response<Answer> {
    let mut response = with_body(status, Answer::with_bytes(0));
    response.headers_mut().insert(LOCATION, location);
    response
}

fn with_body(status: StatusCode, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

/// Parses the pattern of a request for `/w`.
fn pattern(uri: &Uri) -> Option<Pattern> {
    (uri.path() == "/w").then(|| Pattern::parse(uri.query().unwrap_or_default()))?
}

/// Pads a shorter head to about `bytes` over HTTP/1.1. HPACK and QPACK do not shorten the padding
/// (RFC 7541 appendix B: `X` has 8 bits).
fn pad(headers: &mut HeaderMap, bytes: usize) {
    /// Size of the status line, the date that HTTP/1.1 adds, and the empty line.
    const REST: usize = 17 + 37 + 2;
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    let shortest = REST + headers.iter().map(line).sum::<usize>();
    let missing = bytes.saturating_sub(shortest + PADDING.as_str().len() + 4);
    let padding = HeaderValue::try_from("X".repeat(missing.min(MAX_HEAD_BYTES)));
    if let (Ok(padding), true) = (padding, missing > 0) {
        headers.insert(PADDING, padding);
    }
}

/// The body of a response.
pub(super) enum Answer {
    /// Written as fast as possible.
    Filling(Filling),
    /// Written in parts, with pauses.
    Written(Written),
    /// Content from the scenario.
    Served(Bytes),
}

impl Answer {
    fn with_bytes(bytes: usize) -> Self {
        Self::Filling(Filling::new(bytes))
    }

    /// Remaining bytes.
    fn left(&self) -> usize {
        match self {
            Self::Filling(filling) => filling.left(),
            Self::Written(written) => written.left(),
            Self::Served(body) => body.len(),
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Filling(filling) => Pin::new(filling).poll_frame(cx),
            Self::Written(written) => Pin::new(written).poll_frame(cx),
            Self::Served(body) if body.is_empty() => Poll::Ready(None),
            Self::Served(body) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(body))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left() as u64)
    }
}
