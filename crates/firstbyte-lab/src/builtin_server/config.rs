//! Configuration of a built-in server: plain data.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access_log::AccessLog;
use crate::ca::ServerCertificate;

/// Behaviour of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Certificate chain and key.
    pub certificate: ServerCertificate,
    /// TLS versions over TCP; QUIC always uses TLS 1.3.
    pub versions: TlsVersions,
    /// Application protocols (ALPN) over TCP, most preferred first; empty for no ALPN.
    pub alpn: Vec<String>,
    /// Number of session tickets sent after a TLS 1.3 handshake.
    pub tickets: usize,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// How early data (0-RTT) is handled, over TCP and over QUIC.
    pub early_data: EarlyData,
    /// Key-exchange groups, most preferred first; empty for all of rustls's groups, in the client's order.
    ///
    /// Over TCP the server uses the first group that the client supports, with a HelloRetryRequest if the
    /// client sent no share for it. Over QUIC rustls decides, in the client's order.
    pub groups: Vec<KexGroup>,
    /// Whether every QUIC client must first prove its address by a Retry (RFC 9000 §8.1.2).
    pub retry: bool,
    /// Packets of 1,200 bytes that a QUIC connection may send before the first acknowledgement; `None` is
    /// quinn's default, 10.
    pub quic_initial_window: Option<u32>,
    /// Size of the page at `/`.
    pub page_bytes: usize,
    /// Time between a request and its response.
    pub think_time: Duration,
    /// Requests that take longer.
    pub slow: Option<SlowRequests>,
    /// Time between a ClientHello and its ServerHello.
    pub handshake_delay: Duration,
    /// Whether small writes over TCP wait until earlier ones are acknowledged, as they do by default without
    /// TCP_NODELAY. Session tickets are such a write, and the response is the next.
    pub nagle: bool,
    /// Redirects (301): URLs without query, and their destinations.
    pub redirects: BTreeMap<String, String>,
    /// Content at single paths, for every host name.
    pub content: BTreeMap<String, Content>,
    /// The access log, if requests are logged.
    pub access_log: Option<AccessLog>,
}

impl Config {
    /// Both TLS versions, all HTTP versions, two tickets, a page of 2,000 bytes, no early data, no delays.
    pub fn new(certificate: ServerCertificate) -> Self {
        Self {
            certificate,
            versions: TlsVersions::Both,
            alpn: vec!["h2".to_owned(), "http/1.1".to_owned()],
            tickets: 2,
            resumption: Resumption::Both,
            early_data: EarlyData::Off,
            groups: Vec::new(),
            retry: false,
            quic_initial_window: None,
            page_bytes: 2_000,
            think_time: Duration::ZERO,
            slow: None,
            handshake_delay: Duration::ZERO,
            nagle: false,
            redirects: BTreeMap::new(),
            content: BTreeMap::new(),
            access_log: None,
        }
    }
}

/// Which requests take longer than the others. All requests to the server are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowRequests {
    /// Requests whose number is a multiple of this are slow.
    pub every: NonZeroU64,
    /// Time between such a request and its response, in addition to the server's own.
    pub think_time: Duration,
}

/// Response at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Value of `content-type`.
    pub content_type: String,
    /// Response body.
    pub body: Vec<u8>,
    /// Time between request and response, in addition to the server's own.
    pub think_time: Duration,
}

/// TLS versions that a server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsVersions {
    /// TLS 1.2 and TLS 1.3.
    #[default]
    Both,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

/// How a server lets clients resume sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumption {
    /// TLS 1.2 by ticket (RFC 5077), or by session ID if the client takes no tickets; TLS 1.3 by ticket.
    #[default]
    Both,
    /// TLS 1.2 and TLS 1.3 by ticket.
    Tickets,
    /// TLS 1.2 by session ID (RFC 5246 §7.3); TLS 1.3 by tickets that are references to the server's
    /// cache.
    SessionIds,
    /// Sessions are never resumed: no tickets, no session IDs.
    None,
}

/// How a server handles early data (RFC 8446 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyData {
    /// Tickets do not allow early data.
    #[default]
    Off,
    /// Accepted, and answered before the handshake has ended. Every ticket is good for one use, which
    /// prevents replay (RFC 8446 §8.1).
    Accept,
    /// Accepted, but answered only after the client's Finished has arrived, as HAProxy does. This saves no
    /// time, and makes replays harmless.
    AfterFinished,
    /// Tickets allow it, but the server always rejects it. The session is still resumed.
    Reject,
    /// Accepted, but every request in it is answered with 425 (Too Early), RFC 8470 §5.2.
    TooEarly,
}

/// A key-exchange group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KexGroup {
    /// X25519 (RFC 7748).
    X25519,
    /// secp256r1, also known as P-256.
    P256,
    /// secp384r1, also known as P-384.
    P384,
    /// X25519 and ML-KEM-768 combined: post-quantum, 1,216 bytes from the client and 1,120 back.
    X25519MlKem768,
}

impl KexGroup {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// Name in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::P256 => "p256",
            Self::P384 => "p384",
            Self::X25519MlKem768 => "x25519mlkem768",
        }
    }
}

/// The sockets a server accepts on.
#[derive(Debug, Default)]
pub struct Listeners {
    /// TCP sockets for HTTPS.
    pub https: Vec<TcpListener>,
    /// TCP sockets for plain HTTP.
    pub http: Vec<TcpListener>,
    /// UDP sockets for HTTP/3.
    pub quic: Vec<UdpSocket>,
}

/// Attempts to find a port that is free for both TCP and UDP.
const PORT_ATTEMPTS: usize = 50;

impl Listeners {
    /// One socket with TLS and one without, on free ports of 127.0.0.1; no QUIC.
    pub fn loopback() -> io::Result<Self> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Self {
            https: vec![TcpListener::bind(any_port)?],
            http: vec![TcpListener::bind(any_port)?],
            quic: Vec::new(),
        })
    }

    /// As `loopback`, plus QUIC on the port number of the TLS socket.
    pub fn loopback_with_quic() -> io::Result<Self> {
        let mut refused = None;
        for _ in 0..PORT_ATTEMPTS {
            let mut listeners = Self::loopback()?;
            match UdpSocket::bind(listeners.https[0].local_addr()?) {
                Ok(socket) => {
                    listeners.quic.push(socket);
                    return Ok(listeners);
                }
                // Another process uses the UDP port of that number.
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// The certificate or key was refused.
    Tls(rustls::Error),
    /// The target of a redirect is not a valid header value.
    Redirect(String),
    /// A content type is not a valid header value.
    ContentType(String),
    /// The system refused a socket or a thread.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => write!(f, "cannot set up TLS: {error}"),
            Self::Redirect(to) => write!(f, "cannot redirect to {to:?}"),
            Self::ContentType(text) => write!(f, "{text:?} is not a content type"),
            Self::Io(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for StartError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}
