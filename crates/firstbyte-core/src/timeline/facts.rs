//! Facts: negotiated parameters and proven properties. Unknown is `None`, never zero.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Direction, Offset, QuicLog};

/// Everything known about a connection besides its times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Program that made the connection, if it is not the one that recorded it.
    pub client: Option<ClientFacts>,
    /// Address connected to: with a proxy, the proxy's.
    pub remote: Option<SocketAddr>,
    /// Local address of the winning attempt.
    pub local: Option<SocketAddr>,
    /// Whether the connection was already open and only the exchange is new (keep-alive).
    pub reused: bool,
    /// The proxy that the connection went through.
    pub proxy: Option<ProxyFacts>,
    /// The kernel's data on the TCP connection.
    pub tcp: Option<TcpFacts>,
    /// Data on the QUIC connection; absent over TCP.
    pub quic: Option<QuicFacts>,
    /// Outcome of the TLS handshake.
    pub tls: Option<TlsFacts>,
    /// The HTTP exchange.
    pub http: Option<HttpFacts>,
    /// Times of the exchange in the client's own network panel, with its labels and in its order; empty if it has no
    /// panel.
    pub panel: Vec<PanelTime>,
    /// Processor time of the client; absent if unknown.
    pub processor: Option<ProcessorTime>,
}

/// The proxy of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyFacts {
    /// Protocol of the proxy.
    pub kind: ProxyKind,
    /// Host and port, without user information.
    pub authority: String,
    /// Whether the client requested a tunnel; otherwise the proxy answered the request itself.
    pub tunnel: bool,
    /// Status of the answer to CONNECT.
    pub status: Option<u16>,
}

impl fmt::Display for ProxyFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.authority)
    }
}

/// Protocol spoken by a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyKind {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// SOCKS 4: the client resolves names.
    Socks4,
    /// SOCKS 4a: the proxy resolves names.
    Socks4a,
    /// SOCKS 5 (RFC 1928): the client resolves names.
    Socks5,
    /// SOCKS 5: the proxy resolves names.
    Socks5h,
}

impl ProxyKind {
    const ALL: [Self; 6] =
        [Self::Http, Self::Https, Self::Socks4, Self::Socks4a, Self::Socks5, Self::Socks5h];

    /// Finds a kind by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Scheme of the proxy's URL, and the name used in every output.
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

    /// Whether the proxy speaks HTTP; otherwise it speaks SOCKS.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// Processor time, split as the `time` command reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time in the program itself.
    pub user: Duration,
    /// Time in the kernel on the program's behalf.
    pub system: Duration,
}

impl ProcessorTime {
    /// User and system time together.
    pub const fn sum(self) -> Duration {
        self.user.saturating_add(self.system)
    }
}

/// A time shown in a browser's network panel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PanelTime {
    /// Label in the panel.
    pub label: String,
    /// Duration.
    pub took: Duration,
}

/// The program that made a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientFacts {
    /// Name: "curl", "Chromium".
    pub name: String,
    /// Version, as the program reports it.
    pub version: Option<String>,
    /// TLS library with version, if the program reports it: "OpenSSL/3.0.15".
    pub tls_library: Option<String>,
}

/// The kernel's data on a TCP connection.
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
    /// Payload of the largest segment from the server, bytes, if it was full-sized (`TCP_INFO.tcpi_rcv_mss`).
    pub receive_mss: Option<u32>,
    /// Segments from the server that arrived ahead of an earlier one (`TCP_INFO.tcpi_rcv_ooopack`).
    pub out_of_order: Option<u32>,
    /// How long the server's receive window blocked sending (`tcpi_rwnd_limited`); absent up to two ticks.
    pub receive_window_limited: Option<Duration>,
    /// Congestion control algorithm of the client's socket.
    pub congestion_control: Option<String>,
    /// Latest time after the connect call at which the SYN may have left: the uncertainty of every mark derived from
    /// the SYN's departure.
    pub syn_departure_uncertainty: Option<Duration>,
}

/// Data on a QUIC connection (RFC 9000).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicFacts {
    /// Negotiated version: "1" (RFC 9000) or "2" (RFC 9369).
    pub version: Option<String>,
    /// Smallest round-trip time on the client's path (RFC 9002 §5.2).
    pub min_rtt: Option<Duration>,
    /// Datagrams sent.
    pub datagrams_sent: Option<u32>,
    /// Datagrams received.
    pub datagrams_received: Option<u32>,
    /// Packets declared lost by the client (RFC 9002 §6).
    pub lost_packets: Option<u64>,
    /// Whether the server first validated the client's address (Retry, RFC 9000 §8.1.2).
    pub retry: bool,
    /// Bytes received before any data from the client could validate its address.
    pub bytes_before_validation: Option<u64>,
    /// How long the server's first flight stalled at the anti-amplification limit of three times the bytes received
    /// (RFC 9000 §8.1), until more arrived from the client; absent if it never stalled.
    pub amplification_stall: Option<Duration>,
    /// Congestion control of the client.
    pub congestion_control: Option<String>,
    /// Datagrams in order, read with the client's own keys; empty if it has none (captures).
    pub datagrams: Vec<QuicDatagram>,
    /// Packets of the connection; absent if not logged.
    pub log: Option<Box<QuicLog>>,
}

/// A datagram. Only bytes of the handshake and of the exchange count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicDatagram {
    /// Direction.
    pub direction: Direction,
    /// When the datagram left or arrived.
    pub at: Offset,
    /// Whether it carries bytes not sent or received before.
    pub new: bool,
    /// Whether it is ack-eliciting (RFC 9002 §2).
    pub elicits: bool,
    /// Sent: when its data first left. Received: since when later data in the stream had shown that its bytes were
    /// missing.
    pub missing_since: Option<Offset>,
    /// Received: lower packet numbers that had not arrived.
    pub skipped: u32,
    /// Sent: when its first acknowledgement arrived.
    pub acknowledged: Option<Offset>,
    /// How long the server reports having delayed that acknowledgement (RFC 9000 §13.2.5).
    pub acknowledgement_delay: Option<Duration>,
}

/// How a session is resumed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum SessionMechanism {
    /// The server stored the session under an identifier (RFC 5246 §7.4.1.2).
    SessionId,
    /// The client stored the session for the server (RFC 5077).
    Ticket,
    /// The session is a pre-shared key (RFC 8446 §2.2).
    Psk,
}

impl SessionMechanism {
    /// Finds a mechanism by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::SessionId, Self::Ticket, Self::Psk].into_iter().find(|m| m.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SessionId => "session-id",
            Self::Ticket => "ticket",
            Self::Psk => "psk",
        }
    }
}

/// Fate of the early data (RFC 8446 §2.3, RFC 9001 §4.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyData {
    /// Bytes sent before any of the server's handshake arrived: on TCP, the records after the ClientHello; on QUIC,
    /// 0-RTT packets. Absent if the client reports early data but not how much.
    pub bytes_before_server_hello: Option<u64>,
    /// Whether the server accepted it; absent if the handshake did not get that far.
    pub accepted: Option<bool>,
}

/// Kind of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// Certificates were exchanged.
    Full,
    /// Full, after a HelloRetryRequest (RFC 8446 §4.1.4).
    FullWithHelloRetryRequest,
    /// The server accepted an offered session.
    Resumed,
}

impl Handshake {
    /// Finds a kind by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Full, Self::FullWithHelloRetryRequest, Self::Resumed]
            .into_iter()
            .find(|handshake| handshake.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::FullWithHelloRetryRequest => "full-hello-retry-request",
            Self::Resumed => "resumed",
        }
    }
}

/// Outcome of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// "TLSv1.3" or "TLSv1.2".
    pub version: Option<String>,
    /// IANA name of the cipher suite.
    pub cipher_suite: Option<String>,
    /// Key-exchange group, as in the IANA registry ("X25519MLKEM768", "secp256r1").
    pub group: Option<String>,
    /// Full or resumed.
    pub handshake: Option<Handshake>,
    /// Session that the ClientHello offered to resume; absent if it offered none.
    pub session_offered: Option<SessionMechanism>,
    /// Whether that session allows early data (RFC 8446 §4.2.10); absent if the client had none to send.
    pub early_data_allowed: Option<bool>,
    /// Fate of the early data; absent if none was sent.
    pub early_data: Option<EarlyData>,
    /// Protocol selected by ALPN.
    pub alpn: Option<String>,
    /// The server's certificates, leaf first.
    pub certificates: Vec<Certificate>,
    /// Whether the client verified the certificate successfully; verification can be disabled.
    pub verified: Option<bool>,
    /// NewSessionTicket messages received.
    pub tickets_received: Option<u32>,
}

impl TlsFacts {
    /// Sum of the DER lengths of the server's certificates; absent if it sent none.
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
    /// Length in DER, bytes.
    pub der_bytes: u64,
}

/// A header field of the response, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Field name, lower case.
    pub name: String,
    /// Field value; bytes that are not UTF-8 are replaced.
    pub value: String,
}

/// Facts about the HTTP exchange.
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
    /// Bytes written before the response began, before encryption: the request with its body and, with HTTP/2, the
    /// preface and settings.
    pub request_bytes: Option<u64>,
    /// Bytes of the request's body.
    pub upload_bytes: Option<u64>,
    /// Upload bytes sent, if the response came before the last one; approximate, as some may wait in the kernel.
    pub upload_sent_bytes: Option<u64>,
    /// Bytes of the response before its body, before encryption.
    pub header_bytes: Option<u64>,
    /// Bytes of the body as received, before content decoding.
    pub body_bytes: Option<u64>,
    /// Bytes of the body after content decoding; absent if it was not decoded.
    pub decoded_bytes: Option<u64>,
    /// Bytes after the end of the encoded body, which the decoder ignores.
    pub undecoded_bytes: Option<u64>,
    /// Time from the first to the last byte of the final response's head, if the client could not read them at once.
    pub head_took: Option<Duration>,
    /// Whether the body may be truncated: its length was not announced, and the connection ended without close_notify
    /// (RFC 8446 §6.1).
    pub may_be_cut_short: bool,
}

impl HttpFacts {
    /// First value of the header field `name` (case-insensitive).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.as_str())
    }
}
