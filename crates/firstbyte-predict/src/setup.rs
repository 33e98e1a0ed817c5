//! Input of a prediction: the path, the server, the client, and the exchange.
//!
//! Plain data; each default is documented at its definition.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use firstbyte_core::simulation::tcp::{Habits, QUICK_ACKS};
use firstbyte_core::simulation::{CongestionControl, Path};

use super::PredictError;

/// Everything that a prediction needs besides the [`Way`](super::Way).
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network between client and server.
    pub path: Path,
    /// The server.
    pub server: Server,
    /// The client.
    pub client: Client,
    /// Sizes of the request and the response.
    pub exchange: Exchange,
}

impl Setup {
    /// A setup with the defaults for everything but the arguments.
    pub fn new(rtt: Duration, certified: Arc<CertifiedKey>) -> Self {
        Self {
            path: Path::with_rtt(rtt),
            server: Server::new(certified),
            client: Client::default(),
            exchange: Exchange::default(),
        }
    }

    /// The settings that concern TCP.
    pub fn habits(&self) -> Habits {
        let (server, client) = (&self.server, &self.client);
        Habits {
            congestion_control: server.congestion_control,
            initial_window: server.initial_window,
            nagle: server.nagle,
            server_wake: server.wake_time,
            client_wake: client.wake_time,
            client_reads_late: false,
            client_quick_acks: QUICK_ACKS,
        }
    }
}

/// Behaviour of a server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its certificates as TLS sends them, and the first one's key.
    pub certified: Arc<CertifiedKey>,
    /// Segments that may be in flight before the first acknowledgement (RFC 6928: 10).
    pub initial_window: u32,
    /// Congestion control over TCP.
    pub congestion_control: CongestionControl,
    /// Whether Nagle's algorithm is on over TCP (RFC 9293 §3.7.4), as implemented by Linux.
    pub nagle: bool,
    /// Time from the request's arrival until the answer leaves, as in the server's log.
    pub think_time: Duration,
    /// Added to every answer: time from a packet's arrival until the process has it, and back.
    pub wake_time: Duration,
    /// Time from the ClientHello's arrival until the ServerHello leaves.
    pub hello_time: HandshakeTime,
    /// Number of NewSessionTickets after a full TLS 1.3 handshake.
    pub tickets: usize,
    /// Whether every QUIC connection has to validate its address with a Retry (RFC 9000 §8.1.2).
    pub retry: bool,
    /// Key-exchange groups it accepts; empty means all.
    pub groups: Vec<KexGroup>,
}

impl Server {
    /// Ten segments, CUBIC, no think time, two tickets.
    pub fn new(certified: Arc<CertifiedKey>) -> Self {
        Self {
            certified,
            initial_window: 10,
            congestion_control: CongestionControl::default(),
            nagle: false,
            think_time: Duration::ZERO,
            wake_time: micros(200),
            hello_time: HandshakeTime { full: micros(600), resumed: micros(300) },
            tickets: 2,
            retry: false,
            groups: Vec::new(),
        }
    }
}

/// A certificate chain and its key, checked to match.
///
/// # Errors
/// If they do not match, or one of them cannot be read.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, PredictError> {
    let provider = aws_lc_rs::default_provider();
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
}

/// A host's processing time in a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeTime {
    /// With certificates: creating and verifying signatures.
    pub full: Duration,
    /// For a resumed session.
    pub resumed: Duration,
}

impl HandshakeTime {
    pub(super) const fn full_or_resumed(self, resumed: bool) -> Duration {
        if resumed { self.resumed } else { self.full }
    }
}

/// Behaviour of a client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Key-exchange groups it offers, in order of preference.
    pub groups: Vec<KexGroup>,
    /// Time of the name lookup; no lookup if absent.
    pub resolver_time: Option<Duration>,
    /// Time before the first packet leaves.
    pub start_time: Duration,
    /// Time to make key shares, over QUIC; over TCP they are made beforehand.
    pub key_share_time: Duration,
    /// Added whenever the client answers something.
    pub wake_time: Duration,
    /// Time from the arrival of the server's flight until the request leaves.
    pub finish_time: HandshakeTime,
    /// For several requests: time from the end of a response until the next request leaves on the same connection,
    /// in addition to `wake_time`.
    pub next_time: Duration,
    /// For several connections: time between the first packets of one and of the next.
    pub connect_spacing: Duration,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            groups: vec![
                KexGroup::X25519MlKem768,
                KexGroup::X25519,
                KexGroup::P256,
                KexGroup::P384,
            ],
            resolver_time: None,
            start_time: micros(100),
            key_share_time: micros(300),
            wake_time: micros(100),
            finish_time: HandshakeTime { full: micros(600), resumed: micros(300) },
            next_time: micros(100),
            connect_spacing: micros(50),
        }
    }
}

const fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// A key-exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KexGroup {
    /// X25519 (RFC 7748).
    X25519,
    /// secp256r1, also known as P-256.
    P256,
    /// secp384r1, also known as P-384.
    P384,
    /// Hybrid of X25519 and ML-KEM-768, post-quantum.
    X25519MlKem768,
}

impl KexGroup {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// Its name as in options and at IANA.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// Its name in the IANA registry, as in a connection's facts.
    pub const fn iana_name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "secp256r1",
            Self::P384 => "secp384r1",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// The group with this name, ignoring case; OpenSSL's and IANA's names are accepted.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "x25519" => Some(Self::X25519),
            "p-256" | "p256" | "secp256r1" | "prime256v1" => Some(Self::P256),
            "p-384" | "p384" | "secp384r1" => Some(Self::P384),
            "x25519mlkem768" => Some(Self::X25519MlKem768),
            _ => None,
        }
    }
}

/// The request and its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The URL that the connection will carry.
    pub url: String,
    /// Size of the request's head in HTTP/1.1 form; HTTP/2 and HTTP/3 compress it.
    pub request_head_bytes: u64,
    /// Size of the request's body.
    pub upload_bytes: u64,
    /// Size of the response's head in HTTP/1.1 form.
    pub response_head_bytes: u64,
    /// Size of the response's body.
    pub response_bytes: u64,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            url: "https://server.test/".into(),
            request_head_bytes: 80,
            upload_bytes: 0,
            response_head_bytes: 160,
            response_bytes: 20_000,
        }
    }
}
