//! Facts: what was negotiated and what was proven. Unknown is `None`, never zero.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Direction, Offset, QuicLog};

/// What is known about a connection besides its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Which program made it, where that is not the one that recorded it.
    pub client: Option<ClientFacts>,
    /// The address connected to: with a proxy, the proxy's.
    pub remote: Option<SocketAddr>,
    /// The local address of the winning attempt.
    pub local: Option<SocketAddr>,
    /// Whether the connection was open before, and only the exchange is new (keep-alive).
    pub reused: bool,
    /// The proxy that the connection went through.
    pub proxy: Option<ProxyFacts>,
    /// What the kernel says about the TCP connection.
    pub tcp: Option<TcpFacts>,
    /// What is known about the QUIC connection; absent over TCP.
    pub quic: Option<QuicFacts>,
    /// What the TLS handshake settled.
    pub tls: Option<TlsFacts>,
    /// What the HTTP exchange was.
    pub http: Option<HttpFacts>,
    /// What the client's own network panel shows of the exchange, in its words and its order; empty where it has none.
    pub panel: Vec<PanelTime>,
    /// What it took of the client's processor; absent where that cannot be told.
    pub processor: Option<ProcessorTime>,
}

/// The proxy of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyFacts {
    /// What it speaks.
    pub kind: ProxyKind,
    /// Its host and port, without a user.
    pub authority: String,
    /// Whether a tunnel was asked of it; otherwise it answered the request itself.
    pub tunnel: bool,
    /// Status of its answer to CONNECT.
    pub status: Option<u16>,
}

impl fmt::Display for ProxyFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.authority)
    }
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS 4, with addresses.
    Socks4,
    /// SOCKS 4a, with names.
    Socks4a,
    /// SOCKS 5 (RFC 1928), with addresses.
    Socks5,
    /// SOCKS 5, with names.
    Socks5h,
}

impl ProxyKind {
    const ALL: [Self; 6] =
        [Self::Http, Self::Https, Self::Socks4, Self::Socks4a, Self::Socks5, Self::Socks5h];

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The scheme of its URL, and the name used in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Socks4 => "socks4",
            Self::Socks4a => "socks4a",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }

    /// Whether it speaks HTTP; otherwise SOCKS.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// What something took of a processor, as `time` tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// In the program itself.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

impl ProcessorTime {
    /// Both together.
    pub const fn sum(self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// A time that a browser's network panel shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PanelTime {
    /// What the panel calls it.
    pub label: String,
    /// How long.
    pub took: Duration,
}

/// The program that made a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientFacts {
    /// Its name: "curl", "Chromium".
    pub name: String,
    /// Its version, as it says itself.
    pub version: Option<String>,
    /// Its TLS library with the version, where it says so: "OpenSSL/3.0.15".
    pub tls_library: Option<String>,
}

/// What the kernel says about a TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpFacts {
    /// Round-trip time of the SYN exchange (`TCP_INFO` read right after connect).
    pub syn_rtt: Option<Duration>,
    /// Smallest round-trip time the kernel saw up to the end (`TCP_INFO.tcpi_min_rtt`).
    pub min_rtt: Option<Duration>,
    /// Segments retransmitted by the client, the SYN included.
    pub retransmits: Option<u32>,
    /// Maximum segment size towards the server, bytes.
    pub send_mss: Option<u32>,
    /// Payload of the largest segment from the server, bytes, where it was a full one (`TCP_INFO.tcpi_rcv_mss`).
    pub receive_mss: Option<u32>,
    /// Segments from the server that arrived before one that they follow (`TCP_INFO.tcpi_rcv_ooopack`).
    pub out_of_order: Option<u32>,
    /// How long the server's receive window kept data from being sent (`tcpi_rwnd_limited`); absent up to two ticks.
    pub receive_window_limited: Option<Duration>,
    /// Congestion control algorithm of the client's socket.
    pub congestion_control: Option<String>,
    /// How long after connect was called, at the latest, the SYN may have left: the uncertainty of
    /// every mark derived from the SYN's departure.
    pub syn_departure_uncertainty: Option<Duration>,
}

/// What is known about a QUIC connection (RFC 9000).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicFacts {
    /// Version spoken: "1" (RFC 9000) or "2" (RFC 9369).
    pub version: Option<String>,
    /// Smallest round-trip time the client's path saw (RFC 9002 §5.2).
    pub min_rtt: Option<Duration>,
    /// Datagrams sent.
    pub datagrams_sent: Option<u32>,
    /// Datagrams received.
    pub datagrams_received: Option<u32>,
    /// Packets declared lost by the client (RFC 9002 §6).
    pub lost_packets: Option<u64>,
    /// The server asked for proof of the address first (Retry, RFC 9000 §8.1.2).
    pub retry: bool,
    /// Bytes received before anything from the client could validate its address.
    pub bytes_before_validation: Option<u64>,
    /// How long the server's first flight stood still at its limit of three times what it had
    /// received (RFC 9000 §8.1), until more from the client arrived; absent when it never did.
    pub amplification_stall: Option<Duration>,
    /// Congestion control of the client.
    pub congestion_control: Option<String>,
    /// The datagrams, in order, as the client's own keys show them; none where it has none (captures).
    pub datagrams: Vec<QuicDatagram>,
    /// Its packets; absent where they were not noted.
    pub log: Option<Box<QuicLog>>,
}

/// What a datagram was. What counts are bytes of the handshake and of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicDatagram {
    /// Which way.
    pub direction: Direction,
    /// When it left or arrived.
    pub at: Offset,
    /// It has bytes that had not left, or come, before.
    pub new: bool,
    /// It is to be acknowledged (RFC 9002 §2).
    pub elicits: bool,
    /// Of one sent: when what it has had left first. Of one received: since when it was seen, by what came behind
    /// it in the stream, that its bytes were missing.
    pub missing_since: Option<Offset>,
    /// Packet numbers before those of one received that had not come.
    pub skipped: u32,
    /// Of one sent: when the first acknowledgement of it arrived.
    pub acknowledged: Option<Offset>,
    /// How long the server held that back, as it says itself (RFC 9000 §13.2.5).
    pub acknowledgement_delay: Option<Duration>,
}

/// How a session is taken up again.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SessionMechanism {
    /// The server kept it under an identifier (RFC 5246 §7.4.1.2).
    SessionId,
    /// The client kept it for the server (RFC 5077).
    Ticket,
    /// As a pre-shared key (RFC 8446 §2.2).
    Psk,
}

impl SessionMechanism {
    /// The mechanism with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::SessionId, Self::Ticket, Self::Psk].into_iter().find(|m| m.name() == name)
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionId => "session-id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
        }
    }
}

/// What became of data sent before the handshake was complete (RFC 8446 §2.3, RFC 9001 §4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyData {
    /// Bytes that left before anything of the server's handshake had arrived: on TCP those of the
    /// records after the ClientHello, on QUIC those of 0-RTT packets. Absent where a client says that some did, and not
    /// how many.
    pub bytes_before_server_hello: Option<u64>,
    /// Whether the server took it; absent when the handshake did not come so far.
    pub accepted: Option<bool>,
}

/// How a TLS handshake went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Certificates were exchanged.
    Full,
    /// Full, after the server asked for another ClientHello (RFC 8446 §4.1.4).
    FullWithHelloRetryRequest,
    /// The server accepted an offered session.
    Resumed,
}

impl Handshake {
    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Full, Self::FullWithHelloRetryRequest, Self::Resumed]
            .into_iter()
            .find(|handshake| handshake.name() == name)
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::FullWithHelloRetryRequest => "full-hello-retry-request",
            Self::Resumed => "resumed",
        }
    }
}

/// What a TLS handshake settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// "TLSv1.3" or "TLSv1.2".
    pub version: Option<String>,
    /// IANA name of the cipher suite.
    pub cipher_suite: Option<String>,
    /// Key-exchange group, as in the IANA registry ("X25519MLKEM768", "secp256r1").
    pub group: Option<String>,
    /// Full, or resumed.
    pub handshake: Option<Handshake>,
    /// The session that the ClientHello offered to resume; absent when it offered none.
    pub session_offered: Option<SessionMechanism>,
    /// Whether that session allows early data (RFC 8446 §4.2.10); absent where none was to be sent.
    pub early_data_allowed: Option<bool>,
    /// What became of early data; absent when none was sent.
    pub early_data: Option<EarlyData>,
    /// Protocol chosen by ALPN.
    pub alpn: Option<String>,
    /// The server's certificates, leaf first.
    pub certificates: Vec<Certificate>,
    /// Whether the certificate was checked and found good (it can be left unchecked).
    pub verified: Option<bool>,
    /// NewSessionTicket messages received.
    pub tickets_received: Option<u32>,
}

impl TlsFacts {
    /// Sum of the DER lengths of the certificates the server sent; absent when it sent none.
    pub fn certificate_chain_bytes(&self) -> Option<u64> {
        (!self.certificates.is_empty()).then(|| self.certificates.iter().map(|c| c.der_bytes).sum())
    }
}

/// One certificate of the server's chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Subject distinguished name.
    pub subject: String,
    /// Issuer distinguished name.
    pub issuer: String,
    /// Key type and size, such as "ECDSA P-256" or "RSA 2048".
    pub key: String,
    /// End of validity, seconds since the Unix epoch.
    pub not_after_unix: Option<i64>,
    /// Length of its DER form, bytes.
    pub der_bytes: u64,
}

/// A header field of the response, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Field name, lower case.
    pub name: String,
    /// Field value; bytes that are not UTF-8 replaced.
    pub value: String,
}

/// What the HTTP exchange was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpFacts {
    /// Method of the request.
    pub method: String,
    /// "1.0", "1.1", "2" or "3".
    pub version: Option<String>,
    /// Status code of the final response.
    pub status: Option<u16>,
    /// Response header fields in order.
    pub headers: Vec<Header>,
    /// Bytes written before the response began, before encryption: the request with its body, and
    /// with HTTP/2 the preface and settings.
    pub request_bytes: Option<u64>,
    /// Bytes of the request's body.
    pub upload_bytes: Option<u64>,
    /// How many of them were sent, where the response came before the last; about, as some may wait in the kernel.
    pub upload_sent_bytes: Option<u64>,
    /// Bytes of the response up to the body, before encryption.
    pub header_bytes: Option<u64>,
    /// Bytes of the body as received, before content decoding.
    pub body_bytes: Option<u64>,
    /// Bytes of the body after content decoding; absent where it was not decoded.
    pub decoded_bytes: Option<u64>,
    /// Bytes behind the end of the coded body, which nothing is decoded of.
    pub undecoded_bytes: Option<u64>,
    /// From the first byte of the final response's head to its last, where they could not be read at once.
    pub head_took: Option<Duration>,
    /// The body's length was not announced, and the connection ended without close_notify
    /// (RFC 8446 §6.1): nothing shows that it is whole.
    pub may_be_cut_short: bool,
}

impl HttpFacts {
    /// The first value of the header field `name` (case-insensitive).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.as_str())
    }
}
