//! What a built-in server can be told: data, nothing done.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access_log::AccessLog;
use crate::ca::ServerCertificate;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it proves its name with.
    pub certificate: ServerCertificate,
    /// The protocol versions it speaks over TCP; QUIC is TLS 1.3 always.
    pub versions: TlsVersions,
    /// The application protocols it takes over TCP, by preference; empty for no ALPN.
    pub alpn: Vec<String>,
    /// How many session tickets follow a TLS 1.3 handshake.
    pub tickets: usize,
    /// How sessions are resumed.
    pub resumption: Resumption,
    /// What becomes of early data (0-RTT), over TCP and over QUIC.
    pub early_data: EarlyData,
    /// The key-exchange groups it takes, by preference: over TCP the first that the client supports
    /// is used, with a HelloRetryRequest where the client sent no share for it. rustls decides over
    /// QUIC, by the client's order. Empty for all that rustls has, by the client's order.
    pub groups: Vec<KexGroup>,
    /// Whether every QUIC connection has to prove its address by a Retry first (RFC 9000 §8.1.2).
    pub retry: bool,
    /// How many packets of 1,200 bytes a QUIC connection may send before the first acknowledgement;
    /// `None` is quinn's, 10.
    pub quic_initial_window: Option<u32>,
    /// Size of the page at `/`.
    pub page_bytes: usize,
    /// Time between a request and its response.
    pub think_time: Duration,
    /// Requests that take longer.
    pub slow: Option<SlowRequests>,
    /// Time between a ClientHello and its ServerHello.
    pub handshake_delay: Duration,
    /// Whether small writes over TCP wait until those before them are acknowledged, as they do where
    /// nobody sets TCP_NODELAY. Session tickets are such a write, and the response after them the next.
    pub nagle: bool,
    /// Redirects (301): from URLs without query to their destinations.
    pub redirects: BTreeMap<String, String>,
    /// Content of single paths, for every host name.
    pub content: BTreeMap<String, Content>,
    /// The access log, if requests are logged.
    pub access_log: Option<AccessLog>,
}

impl Config {
    /// Both TLS versions, all HTTP versions, two tickets, 2,000 bytes, no early data, no delays.
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

/// Which requests take longer than the others, by counting all that a server gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlowRequests {
    /// The last of every so many.
    pub every: NonZeroU64,
    /// Time between such a request and its response, besides the server's own.
    pub think_time: Duration,
}

/// The answer at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Its `content-type`.
    pub content_type: String,
    /// All of it.
    pub body: Vec<u8>,
    /// Time between request and response, besides the server's own.
    pub think_time: Duration,
}

/// Protocol versions of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsVersions {
    /// TLS 1.2 and TLS 1.3.
    #[default]
    Both,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

/// How a server lets clients resume sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumption {
    /// TLS 1.2 by ticket (RFC 5077), and by session ID where the client takes no tickets; TLS 1.3 by
    /// ticket.
    #[default]
    Both,
    /// TLS 1.2 and TLS 1.3 by ticket.
    Tickets,
    /// TLS 1.2 by session ID (RFC 5246 §7.3); TLS 1.3 by tickets that are references to the server's
    /// cache.
    SessionIds,
    /// Never: no tickets, no session IDs.
    None,
}

/// What a server does about early data (RFC 8446 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyData {
    /// Tickets do not allow it.
    #[default]
    Off,
    /// Accepted, and answered before the handshake has ended. Every ticket serves once, so that
    /// nothing can be replayed (RFC 8446 §8.1).
    Accept,
    /// Accepted, and answered once the client's Finished has arrived, as HAProxy does: it saves no time,
    /// and replays are harmless.
    AfterFinished,
    /// Tickets allow it, but the server always rejects it. The session is resumed all the same.
    Reject,
    /// Accepted, and every request in it answered 425 (Too Early), RFC 8470 §5.2.
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
    /// X25519 and ML-KEM-768 together: post-quantum, 1,216 bytes from the client and 1,120 back.
    X25519MlKem768,
}

impl KexGroup {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// Its name in scenario files.
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
    /// With TLS.
    pub https: Vec<TcpListener>,
    /// Without.
    pub http: Vec<TcpListener>,
    /// QUIC, for HTTP/3.
    pub quic: Vec<UdpSocket>,
}

/// How often a pair of free ports is looked for.
const PORT_ATTEMPTS: usize = 50;

impl Listeners {
    /// One with TLS and one without on 127.0.0.1, at ports that are free; no QUIC.
    pub fn loopback() -> io::Result<Self> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Self {
            https: vec![TcpListener::bind(any_port)?],
            http: vec![TcpListener::bind(any_port)?],
            quic: Vec::new(),
        })
    }

    /// The same and QUIC, at the number of the TLS port.
    pub fn loopback_with_quic() -> io::Result<Self> {
        let mut refused = None;
        for _ in 0..PORT_ATTEMPTS {
            let mut listeners = Self::loopback()?;
            match UdpSocket::bind(listeners.https[0].local_addr()?) {
                Ok(socket) => {
                    listeners.quic.push(socket);
                    return Ok(listeners);
                }
                // Somebody else has that number's UDP port.
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its certificate or key was refused.
    Tls(rustls::Error),
    /// What it should redirect to cannot be a header.
    Redirect(String),
    /// A content type cannot be a header.
    ContentType(String),
    /// A socket or thread was refused.
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
