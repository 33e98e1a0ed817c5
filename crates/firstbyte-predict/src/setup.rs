//! What a prediction is made for: the path, the server, the client, what is asked for.
//!
//! Plain data with defaults that are said where they are defined.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use firstbyte_core::simulation::tcp::{Habits, QUICK_ACKS};
use firstbyte_core::simulation::{CongestionControl, Path};

use super::PredictError;

/// Everything that a prediction needs to know besides the [`Way`](super::Way).
#[derive(Clone, Debug)]
pub struct Setup {
    /// The network between the two.
    pub path: Path,
    /// Who answers.
    pub server: Server,
    /// Who asks.
    pub client: Client,
    /// What is asked for.
    pub exchange: Exchange,
}

impl Setup {
    /// With the defaults of everything but what it is given.
    pub fn new(rtt: Duration, certified: Arc<CertifiedKey>) -> Self {
        Self {
            path: Path::with_rtt(rtt),
            server: Server::new(certified),
            client: Client::default(),
            exchange: Exchange::default(),
        }
    }

    /// What of it TCP needs to know.
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

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its certificates as TLS sends them, and the key to the first.
    pub certified: Arc<CertifiedKey>,
    /// Segments that may be under way before anything is acknowledged (RFC 6928: 10).
    pub initial_window: u32,
    /// Over TCP.
    pub congestion_control: CongestionControl,
    /// Over TCP: Nagle's algorithm is on (RFC 9293 §3.7.4), as Linux has it.
    pub nagle: bool,
    /// Between the arrival of the request and the departure of the answer, as the server's log has it.
    pub think_time: Duration,
    /// What comes on top of every answer: from the arrival of a packet until the process has it, and back.
    pub wake_time: Duration,
    /// Between the arrival of a ClientHello and the departure of the ServerHello.
    pub hello_time: HandshakeTime,
    /// NewSessionTickets after a full TLS 1.3 handshake.
    pub tickets: usize,
    /// Whether every QUIC connection has to prove its address by a Retry (RFC 9000 §8.1.2).
    pub retry: bool,
    /// Key-exchange groups it takes; empty for all there are.
    pub groups: Vec<KexGroup>,
}

impl Server {
    /// Ten segments, CUBIC, no time to think, two tickets.
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

/// A chain and its key, checked to belong together.
///
/// # Errors
/// They do not, or one of them cannot be read.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<CertifiedKey>, PredictError> {
    let provider = aws_lc_rs::default_provider();
    Ok(Arc::new(CertifiedKey::from_der(chain, key, &provider)?))
}

/// The time that a host takes for its part of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeTime {
    /// With certificates: signing, checking signatures.
    pub full: Duration,
    /// Of a session that is taken up again.
    pub resumed: Duration,
}

impl HandshakeTime {
    pub(super) const fn full_or_resumed(self, resumed: bool) -> Duration {
        if resumed { self.resumed } else { self.full }
    }
}

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Client {
    /// Key-exchange groups it offers, most wanted first.
    pub groups: Vec<KexGroup>,
    /// Time that the name takes; nothing is asked when absent.
    pub resolver_time: Option<Duration>,
    /// Before the first packet leaves.
    pub start_time: Duration,
    /// Making key shares, over QUIC: over TCP that is done beforehand.
    pub key_share_time: Duration,
    /// What comes on top whenever it answers something.
    pub wake_time: Duration,
    /// Between the arrival of the server's flight and the departure of the request.
    pub finish_time: HandshakeTime,
    /// Of several requests: from the end of a response until the next request leaves on its connection, beside
    /// `wake_time`.
    pub next_time: Duration,
    /// Of several connections: between the first packets of one and of the next.
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
    /// X25519 and ML-KEM-768 together, post-quantum.
    X25519MlKem768,
}

impl KexGroup {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519MlKem768];

    /// Its name, as options and IANA spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// Its name in the IANA registry, as facts have it.
    pub const fn iana_name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "secp256r1",
            Self::P384 => "secp384r1",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }

    /// The group with this name, whatever the case; OpenSSL's and IANA's are known too.
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

/// What is asked for, and what comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The URL that the connection will bear.
    pub url: String,
    /// The request's head as HTTP/1.1 writes it; HTTP/2 and HTTP/3 make less of it.
    pub request_head_bytes: u64,
    /// The request's body.
    pub upload_bytes: u64,
    /// The response's head as HTTP/1.1 writes it.
    pub response_head_bytes: u64,
    /// The response's body.
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
