//! The server: accepts beacons and reports over HTTP/1.1 with hyper, within fixed memory limits.
//!
//! It speaks plain HTTP on loopback, behind the web server that has the site's certificate anyway. When all places are
//! taken, a new connection replaces the oldest one without a request in progress.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_sources::field_data::{
    BEACON_BYTES, BadBeacon, FieldLine, page_origin, parse_beacon, parse_reports,
};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{interval, sleep, timeout};

use super::limits::{Rates, ReceiverLimits, TooMany};
use super::writer::{FieldWriter, NotWritten};

/// Maximum number of connections. With the largest body on each, they take 64 MB.
const MOST_CONNECTIONS: usize = 256;
/// Maximum size of an upload of reports; browsers put several reports into one.
const REPORTS_BYTES: usize = 256 * 1024;
/// Time limit for a request's head, and for an idle connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for a request's body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait at shutdown for requests that are being read.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Seconds between records of refused requests.
const REFUSED_EVERY: u32 = 60;

type Answer = Response<Empty<Bytes>>;

/// Receives field data and writes it to a file.
pub struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<Shared>,
}

/// Result of a receiver.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Beacons that were kept.
    pub beacons: u64,
    /// Reports that were kept.
    pub reports: u64,
    /// Refused requests and data, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// State shared by all connections.
struct Shared {
    inner: Mutex<Inner>,
    /// Origins whose pages are accepted; all if empty.
    origins: Vec<String>,
    /// Set at shutdown: connections answer the request that they are reading and no more.
    ending: watch::Sender<bool>,
    /// Tells the operator that the file cannot be written, or can be written again.
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

struct Inner {
    writer: FieldWriter,
    rates: Rates,
    received: Received,
    /// Refusals since the last record of them.
    refused: BTreeMap<String, u64>,
    is_failing: bool,
    is_dirty: bool,
    places: Places,
}

/// Open connections, in order of arrival.
#[derive(Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, Place>,
}

struct Place {
    is_busy: bool,
    /// Ends the connection when dropped.
    _end: oneshot::Sender<Infallible>,
}

impl Receiver {
    /// Listens at `at`. `tell` receives messages for the operator.
    ///
    /// # Errors
    /// If the system cannot listen there.
    pub fn bind(
        at: SocketAddr,
        writer: FieldWriter,
        limits: ReceiverLimits,
        origins: Vec<String>,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let inner = Inner {
            writer,
            rates: Rates::new(limits, Monotonic::now()),
            received: Received::default(),
            refused: BTreeMap::new(),
            is_failing: false,
            is_dirty: false,
            places: Places::default(),
        };
        let state = Arc::new(Shared {
            inner: Mutex::new(inner),
            origins,
            ending: watch::Sender::new(false),
            tell: Box::new(tell),
        });
        Ok(Self { listener, address, state })
    }

    /// Address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `end` and returns the counts. The file ends with a whole line.
    ///
    /// # Errors
    /// If it cannot listen.
    pub async fn serve(self, end: impl Future<Output = ()>) -> io::Result<Received> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let state = self.state;
        let mut end = std::pin::pin!(end);
        let mut each_second = interval(Duration::from_secs(1));
        let mut seconds = 0_u32;
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                _ = each_second.tick() => {
                    seconds = seconds.wrapping_add(1);
                    state.hand_to_disk();
                    if seconds.is_multiple_of(REFUSED_EVERY) {
                        state.write_refused();
                    }
                }
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => begin(&state, stream, peer.ip()),
                    // Perhaps out of file descriptors: wait for other connections to close.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                },
            }
        }
        drop(listener);
        state.last_words().await;
        state.write_refused();
        let received = state.lock().received.clone();
        Ok(received)
    }
}

/// Serves one connection in its own task.
fn begin(state: &Arc<Shared>, stream: TcpStream, peer: IpAddr) {
    let (place, ended) = state.take_place();
    let state = Arc::clone(state);
    tokio::spawn(async move {
        let service = service_fn(|request: Request<Incoming>| {
            let state = Arc::clone(&state);
            async move {
                state.set_busy(place, true);
                let answer = state.answer(request, peer).await;
                state.set_busy(place, false);
                Ok::<_, Infallible>(answer)
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), service);
        let mut serving = std::pin::pin!(serving);
        let mut ending = state.ending.subscribe();
        let with_end = async {
            tokio::select! {
                // An error here affects only that client.
                _ = &mut serving => return,
                // The sender lives in `state`, which is held here.
                _ = ending.wait_for(|has_come| *has_come) => {}
            }
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        };
        tokio::select! {
            () = with_end => {}
            _ = ended => state.refuse("evicted-connection"),
        }
        state.lock().places.taken.remove(&place);
    });
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a new connection, evicting another one if all are taken.
    fn take_place(&self) -> (u64, oneshot::Receiver<Infallible>) {
        let mut inner = self.lock();
        let places = &mut inner.places;
        if places.taken.len() >= MOST_CONNECTIONS {
            let idle = places.taken.iter().find(|(_, place)| !place.is_busy);
            let goes = idle.or_else(|| places.taken.iter().next()).map(|(number, _)| *number);
            goes.and_then(|number| places.taken.remove(&number));
        }
        let (end, ended) = oneshot::channel();
        let number = places.next;
        places.next += 1;
        places.taken.insert(number, Place { is_busy: false, _end: end });
        (number, ended)
    }

    fn set_busy(&self, number: u64, is_busy: bool) {
        if let Some(place) = self.lock().places.taken.get_mut(&number) {
            place.is_busy = is_busy;
        }
    }

    /// Waits briefly until requests that are being read are answered.
    async fn last_words(&self) {
        self.ending.send_replace(true);
        let begun = Monotonic::now();
        while !self.lock().places.taken.is_empty() && Monotonic::now().since(begun) < LAST_WORDS {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Counts one refusal.
    fn refuse(&self, why: &'static str) {
        let mut inner = self.lock();
        inner.refuse(why, 1);
    }

    async fn answer(&self, request: Request<Incoming>, peer: IpAddr) -> Answer {
        match self.take(request, peer).await {
            Ok(()) => answer(StatusCode::NO_CONTENT),
            Err((status, why)) => {
                if let Some(why) = why {
                    self.refuse(why);
                }
                answer(status)
            }
        }
    }

    /// Accepts the contents of a request.
    async fn take(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<(), (StatusCode, Option<&'static str>)> {
        let refused = |status, why| Err((status, Some(why)));
        let source = source(request.headers(), peer);
        match self.lock().rates.take(source, Monotonic::now()) {
            Ok(()) => {}
            Err(TooMany::OfAll) => {
                return refused(StatusCode::TOO_MANY_REQUESTS, "too-many-in-all");
            }
            Err(TooMany::OfSource) => {
                return refused(StatusCode::TOO_MANY_REQUESTS, "too-many-of-one-source");
            }
        }
        match *request.method() {
            Method::POST => {}
            // A preflight: anybody may send, as with a beacon, which needs no preflight.
            Method::OPTIONS => return Err((StatusCode::NO_CONTENT, None)),
            _ => return refused(StatusCode::METHOD_NOT_ALLOWED, "method"),
        }
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let are_reports = match kind.as_str() {
            "application/reports+json" => true,
            "text/plain" | "application/json" => false,
            _ => return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-type"),
        };
        // Browsers compress neither of the two, and compressed data could unpack to any size.
        let packed = request.headers().get(header::CONTENT_ENCODING);
        if packed.is_some_and(|how| !how.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-encoding");
        }
        let most = if are_reports { REPORTS_BYTES } else { BEACON_BYTES };
        let too_large = || refused(StatusCode::PAYLOAD_TOO_LARGE, BadBeacon::TooLarge.as_str());
        if request.body().size_hint().lower() > most as u64 {
            return too_large();
        }
        let body = Limited::new(request.into_body(), most).collect();
        let body = match timeout(BODY_PATIENCE, body).await {
            Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, "too-slow"),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return refused(StatusCode::BAD_REQUEST, "cut-short"),
            Ok(Ok(body)) => body.to_bytes(),
        };
        let now = Realtime::now().unix_nanos() / 1_000_000_000;
        if are_reports {
            let read = parse_reports(&body, now)
                .map_err(|error| (StatusCode::BAD_REQUEST, Some(error.as_str())))?;
            let mut inner = self.lock();
            inner.refuse("impossible-report", read.impossible);
            inner.refuse("report-of-another-type", read.others);
            let mut lines = Vec::new();
            for report in read.kept {
                match self.hears(&report.origin) {
                    true => lines.push(FieldLine::Report(report)),
                    false => inner.refuse("origin", 1),
                }
            }
            inner.keep(&lines, &self.tell)?;
            inner.received.reports += lines.len() as u64;
        } else {
            let beacon = parse_beacon(&body, now)
                .map_err(|error| (StatusCode::BAD_REQUEST, Some(error.as_str())))?;
            if !self.hears(&beacon.page) {
                return refused(StatusCode::FORBIDDEN, "origin");
            }
            let mut inner = self.lock();
            inner.keep(&[FieldLine::Beacon(beacon)], &self.tell)?;
            inner.received.beacons += 1;
        }
        Ok(())
    }

    fn hears(&self, origin: &str) -> bool {
        self.origins.is_empty() || self.origins.iter().any(|known| known == origin)
    }

    /// Writes the refusals since the last time.
    fn write_refused(&self) {
        let mut inner = self.lock();
        if inner.refused.is_empty() {
            return;
        }
        let refused = inner.refused.clone();
        // If the file has no room, they are kept and written next time.
        if inner.writer.append(&[FieldLine::Refused(refused)]).is_ok() {
            inner.refused.clear();
            inner.is_dirty = true;
        }
    }

    /// Syncs the file on a thread that may block.
    fn hand_to_disk(&self) {
        let mut inner = self.lock();
        if !std::mem::take(&mut inner.is_dirty) {
            return;
        }
        if let Ok(file) = inner.writer.to_sync() {
            // If this fails, the next write fails too and reports it.
            tokio::task::spawn_blocking(move || file.sync_data());
        }
    }
}

impl Inner {
    fn refuse(&mut self, why: &'static str, times: u64) {
        if times > 0 {
            *self.received.refused.entry(why).or_default() += times;
            *self.refused.entry(why.to_owned()).or_default() += times;
        }
    }

    /// Writes lines. Reports once when writing starts to fail, and once when it works again.
    fn keep(
        &mut self,
        lines: &[FieldLine],
        tell: &dyn Fn(&str),
    ) -> Result<(), (StatusCode, Option<&'static str>)> {
        if lines.is_empty() {
            return Ok(());
        }
        let (why, words) = match self.writer.append(lines) {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tell("the file is writable again");
                }
                self.is_dirty = true;
                return Ok(());
            }
            Err(NotWritten::AtLimit) => {
                ("file-at-its-limit", "the file has reached its size limit".to_owned())
            }
            Err(NotWritten::Io(error)) => {
                ("not-written", firstbyte_probe::probe::describe_io(&error))
            }
        };
        if !std::mem::replace(&mut self.is_failing, true) {
            tell(&format!("{words}: field data is refused until the file is writable again"));
        }
        Err((StatusCode::SERVICE_UNAVAILABLE, Some(why)))
    }
}

/// Client of a request: the peer, or the client that the web server names if the peer is this machine.
fn source(headers: &HeaderMap, peer: IpAddr) -> IpAddr {
    if !peer.to_canonical().is_loopback() {
        return peer;
    }
    // The last element was added by the proxy that connects to us; anybody can have written the earlier ones.
    let last = headers.get_all("x-forwarded-for").iter().next_back();
    let named = last.and_then(|value| {
        let names = value.to_str().ok()?.rsplit(',').map(str::trim);
        forwarded(names.into_iter().find(|name| !name.is_empty())?)
    });
    named.unwrap_or(peer)
}

/// Address in an element of X-Forwarded-For. Some servers append the port, put IPv6 in brackets, or add a zone.
fn forwarded(name: &str) -> Option<IpAddr> {
    let name = name.trim_matches('"');
    if let Ok(with_port) = name.parse::<SocketAddr>() {
        return Some(with_port.ip());
    }
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.split('%').next()?.parse().ok()
}

fn answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    set(header::ACCESS_CONTROL_ALLOW_METHODS, "POST");
    set(header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type");
    set(header::ACCESS_CONTROL_MAX_AGE, "86400");
    // Allows pages with a Cross-Origin-Embedder-Policy to use the response.
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "cross-origin");
    match status {
        StatusCode::METHOD_NOT_ALLOWED => {
            set(header::ALLOW, "POST, OPTIONS");
        }
        StatusCode::TOO_MANY_REQUESTS => {
            set(header::RETRY_AFTER, "60");
            set(header::CONNECTION, "close");
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            set(header::RETRY_AFTER, "60");
        }
        // The rest of the body is not read.
        StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
            set(header::CONNECTION, "close");
        }
        _ => {}
    }
    answer
}

/// Normalizes an origin given by the user for comparison; absent if it is not an origin.
pub(crate) fn typed_origin(text: &str) -> Option<String> {
    let rest = text.split_once("://")?.1.trim_end_matches('/');
    page_origin(text).filter(|_| !rest.contains(['/', '?', '#']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_fields(peer: &str, fields: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append("x-forwarded-for", HeaderValue::from_static(field));
        }
        source(&headers, peer.parse().unwrap()).to_string()
    }

    #[test]
    fn whom_the_web_server_names_is_the_source() {
        for (fields, expected) in [
            (&["192.0.2.1"] as &[_], "192.0.2.1"),
            (&["192.0.2.1:5678"], "192.0.2.1"),
            (&["[2001:db8::1]:443"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["\"[2001:db8::1]:443\""], "2001:db8::1"),
            (&["fe80::1%eth0"], "fe80::1"),
            (&["203.0.113.9, 192.0.2.1"], "192.0.2.1"),
            (&["203.0.113.9,192.0.2.1:80 ,"], "192.0.2.1"),
            (&["192.0.2.1, 203.0.113.9", "198.51.100.2:1"], "198.51.100.2"),
            // An element that is not an address is not skipped for the one before it: the peer itself counts.
            (&["192.0.2.1, unknown"], "127.0.0.1"),
            (&["192.0.2.1, _hidden"], "127.0.0.1"),
            (&["192.0.2.1:99999"], "127.0.0.1"),
            (&[""], "127.0.0.1"),
            (&[","], "127.0.0.1"),
            (&[], "127.0.0.1"),
        ] {
            assert_eq!(from_fields("127.0.0.1", fields), expected, "{fields:?}");
        }
    }

    /// From any other peer, anybody can write anything into the field.
    #[test]
    fn strangers_name_nobody_else() {
        for peer in ["198.51.100.7", "2001:db8::7", "::ffff:198.51.100.7"] {
            assert_eq!(from_fields(peer, &["192.0.2.1"]), peer);
        }
        assert_eq!(from_fields("::1", &["192.0.2.1"]), "192.0.2.1");
        assert_eq!(from_fields("::ffff:127.0.0.1", &["192.0.2.1"]), "192.0.2.1");
    }
}
