//! A request as logged by the server that answered it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Server software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerKind {
    /// nginx.
    Nginx,
    /// Apache's httpd.
    Apache,
    /// Caddy.
    Caddy,
}

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogForm {
    /// Our format for nginx.
    Nginx,
    /// Our format for Apache.
    Apache,
    /// Caddy's JSON.
    Caddy,
    /// "combined" or "common" lines of nginx or Apache.
    Combined,
}

impl LogForm {
    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Caddy => "caddy",
            Self::Combined => "combined",
        }
    }

    /// The server, if the format identifies it.
    pub const fn server(self) -> Option<ServerKind> {
        match self {
            Self::Nginx => Some(ServerKind::Nginx),
            Self::Apache => Some(ServerKind::Apache),
            Self::Caddy => Some(ServerKind::Caddy),
            Self::Combined => None,
        }
    }
}

impl fmt::Display for LogForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nginx => "nginx",
            Self::Apache => "Apache",
            Self::Caddy => "Caddy",
            Self::Combined => "the combined format",
        })
    }
}

/// A time as read from a server's clock: the true time is less than one step away in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTime {
    /// The logged value.
    pub value: Duration,
    /// Step of the clock; for a sum, the steps of all parts added up.
    pub step: Duration,
}

impl LoggedTime {
    /// Lower bound of the true time.
    pub fn at_least(self) -> Duration {
        self.value.saturating_sub(self.step)
    }

    /// Upper bound of the true time.
    pub fn at_most(self) -> Duration {
        self.value.saturating_add(self.step)
    }
}

/// A logged request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Format of its line.
    pub form: LogForm,
    /// When the server had finished the request (combined lines of Apache: when it arrived), since 1970, by the
    /// server's clock.
    pub logged: Option<Duration>,
    /// The host asked for, without a port.
    pub host: Option<String>,
    /// The server's port.
    pub port: Option<u16>,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2` or `HTTP/3`.
    pub protocol: Option<&'static str>,
    /// The method.
    pub method: Option<String>,
    /// The path, without a query.
    pub path: Option<String>,
    /// The response's status.
    pub status: Option<u16>,
    /// Bytes sent, with the header if the server counts it (not Caddy, not combined).
    pub bytes: Option<u64>,
    /// The client's port.
    pub client_port: Option<u16>,
    /// The server's number of the connection.
    pub connection: Option<u64>,
    /// The request's number on its connection, from 1.
    pub number: Option<u64>,
    /// `TLSv1.2`, `TLSv1.3`.
    pub tls: Option<String>,
    /// Whether the connection's session was resumed; absent without TLS.
    pub resumed: Option<bool>,
    /// Whether the request arrived before the handshake was over; absent without TLS.
    pub early_data: Option<bool>,
    /// From reading the request's first bytes to handing over the response's last.
    pub request_time: Option<LoggedTime>,
    /// From having read the request to writing the response's first byte.
    pub first_byte: Option<LoggedTime>,
    /// Time until the upstream was connected, summed over all upstreams that were tried.
    pub upstream_connect: Option<LoggedTime>,
    /// Time until the upstream's header was read, including connecting, summed over all upstreams that were tried.
    pub upstream_header: Option<LoggedTime>,
    /// Time until the upstream's response was read, including connecting, summed over all upstreams that were tried.
    pub upstream_response: Option<LoggedTime>,
    /// The kernel's smoothed round-trip time of the connection, when the request ended.
    pub rtt: Option<Duration>,
}

impl LoggedRequest {
    /// A request without any known values.
    pub(super) const fn unknown(form: LogForm) -> Self {
        Self {
            form,
            logged: None,
            host: None,
            port: None,
            protocol: None,
            method: None,
            path: None,
            status: None,
            bytes: None,
            client_port: None,
            connection: None,
            number: None,
            tls: None,
            resumed: None,
            early_data: None,
            request_time: None,
            first_byte: None,
            upstream_connect: None,
            upstream_header: None,
            upstream_response: None,
            rtt: None,
        }
    }
}

/// Normalizes the protocol names of all servers.
pub(super) fn protocol(text: &str) -> Option<&'static str> {
    match text {
        "HTTP/1.0" => Some("HTTP/1.0"),
        "HTTP/1.1" => Some("HTTP/1.1"),
        "HTTP/2.0" | "HTTP/2" => Some("HTTP/2"),
        "HTTP/3.0" | "HTTP/3" => Some("HTTP/3"),
        _ => None,
    }
}

pub(super) fn without_query(path: &str) -> String {
    path.split('?').next().unwrap_or_default().to_owned()
}

/// The text, unless it is empty or a dash, which logs write for absent values.
pub(super) fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !matches!(*text, "" | "-"))
}

/// Parses decimal seconds exactly; digits below a nanosecond are cut off.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let nanos = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
    let seconds: u64 = whole.parse().ok()?;
    (seconds < LATEST_SECONDS).then(|| Duration::new(seconds, nanos))
}

/// The year 5138: a larger number is not in seconds.
pub(super) const LATEST_SECONDS: u64 = 100_000_000_000;
