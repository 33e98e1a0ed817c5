//! A request, as the server that answered it wrote it down.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A server's software.
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

/// The form that a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogForm {
    /// nginx, in our format.
    Nginx,
    /// Apache, in our format.
    Apache,
    /// Caddy's JSON.
    Caddy,
    /// "combined", or "common", of nginx or Apache.
    Combined,
}

impl LogForm {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Apache => "apache",
            Self::Caddy => "caddy",
            Self::Combined => "combined",
        }
    }

    /// The server, where the form says which.
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

/// A time as a server's clock had it: the time itself is less than one step away, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedTime {
    /// As logged.
    pub value: Duration,
    /// The clock's step; of a sum, all of its parts'.
    pub step: Duration,
}

impl LoggedTime {
    /// It is not less.
    pub fn at_least(self) -> Duration {
        self.value.saturating_sub(self.step)
    }

    /// It is not more.
    pub fn at_most(self) -> Duration {
        self.value.saturating_add(self.step)
    }
}

/// A request, as it was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// The form of its line.
    pub form: LogForm,
    /// When the server had done with it (combined lines of Apache: when it came), since 1970, by the server's clock.
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
    /// Bytes sent: the head counts where the server counts it (not Caddy, not combined).
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
    /// Whether the request came before the handshake was over; absent without TLS.
    pub early_data: Option<bool>,
    /// From the request's first bytes read to the response's last handed over.
    pub request_time: Option<LoggedTime>,
    /// From the request read to the response's first byte written.
    pub first_byte: Option<LoggedTime>,
    /// Until the upstream was connected; of several that were tried, all.
    pub upstream_connect: Option<LoggedTime>,
    /// Until the upstream's header was read, connecting included; of several that were tried, all.
    pub upstream_header: Option<LoggedTime>,
    /// Until the upstream's response was read, connecting included; of several that were tried, all.
    pub upstream_response: Option<LoggedTime>,
    /// The kernel's smoothed round-trip time of the connection, at the end.
    pub rtt: Option<Duration>,
}

impl LoggedRequest {
    /// One of which nothing is known.
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

/// A protocol, as all servers are to call it.
pub(super) fn protocol(text: &str) -> Option<&'static str> {
    match text {
        "HTTP/1.0" => Some("HTTP/1.0"),
        "HTTP/1.1" => Some("HTTP/1.1"),
        "HTTP/2.0" | "HTTP/2" => Some("HTTP/2"),
        "HTTP/3.0" | "HTTP/3" => Some("HTTP/3"),
        _ => None,
    }
}

/// A path without its query.
pub(super) fn without_query(path: &str) -> String {
    path.split('?').next().unwrap_or_default().to_owned()
}

/// Where a log has nothing to say, it has a dash, or nothing.
pub(super) fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !matches!(*text, "" | "-"))
}

/// A number of decimal seconds, exactly; below the nanosecond it is cut off.
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

/// The year 5138: what is later was no number of seconds.
pub(super) const LATEST_SECONDS: u64 = 100_000_000_000;
