//! The passive half's record of one connection, as seen in a capture.
//!
//! Every time is the capture's. What the captured packets do not show is absent, and [`Doubts`] say why a number may be
//! off. The definitions are in `docs/wire.md`.

use std::time::Duration;

use super::layers::Endpoint;
use super::{Doubts, SessionId, Time};
use firstbyte_core::timeline::{Handshake, SessionMechanism};
use firstbyte_core::wire::tls::is_tls13;

/// Protocol that carries the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// TCP.
    Tcp,
    /// QUIC.
    Quic,
}

impl Carrier {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

/// How the client was told from the server. Never from port numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roles {
    /// A SYN or a SYN/ACK was seen; over QUIC, the client's first Initial.
    Opening,
    /// A ClientHello or a ServerHello was seen.
    Hello,
    /// Neither: `client` is the end that sent the first captured packet.
    Unknown,
}

impl Roles {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Hello => "hello",
            Self::Unknown => "unknown",
        }
    }
}

/// How long an answer may take: TCP's first retransmission timeout (RFC 6298 §2) and QUIC's first probe timeout (RFC
/// 9002 §6.2.2).
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How a connection ended, as far as the capture goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Both ends closed it (FIN; over QUIC, CONNECTION_CLOSE is not readable).
    Closed,
    /// The client reset it.
    ResetByClient,
    /// The server reset it, after it was open.
    ResetByServer,
    /// The server refused it: a reset in answer to the SYN.
    Refused,
    /// Nothing answered the SYN, or the first Initial, for at least a second.
    Unanswered,
    /// A new connection reused the five-tuple.
    Replaced,
    /// No packet for longer than the idle limit.
    Idle,
    /// Dropped to stay within the limit on connections.
    Evicted,
    /// Still open when the capture ended.
    Open,
}

impl Ending {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::ResetByClient => "reset-by-client",
            Self::ResetByServer => "reset-by-server",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::Replaced => "replaced",
            Self::Idle => "idle",
            Self::Evicted => "evicted",
            Self::Open => "open",
        }
    }
}

/// The first FIN, RST or CONNECTION_CLOSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The client sent it.
    pub by_client: bool,
    /// It was a RST.
    pub reset: bool,
    /// When the tap saw it.
    pub at: Time,
}

/// Traffic of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets, without removed duplicates.
    pub packets: u32,
    /// Payload bytes, each counted once.
    pub bytes: u64,
    /// Segments that carried nothing new: retransmissions.
    pub retransmitted: u32,
    /// Segments that arrived after later ones and filled a gap.
    pub reordered: u32,
    /// Copies that the capture made of packets (SPAN), removed.
    pub duplicates: u32,
    /// Bytes that the other end acknowledged but the capture lacks.
    pub missing_bytes: u64,
}

/// Data that the server had ready but sent only when a delayed acknowledgment from the client arrived (Nagle's
/// algorithm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Segments that the server sent when such an acknowledgment arrived.
    pub segments: u32,
    /// Upper bound of how long they were held: time since the segments before them were sent.
    pub time: Duration,
}

/// Round trips on the two sides of the tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Tap to server and back: from the SYN to the SYN/ACK; absent if the SYN was retransmitted.
    pub server_syn: Option<Duration>,
    /// Tap to client and back: from the SYN/ACK to the ACK.
    pub client_syn: Option<Duration>,
    /// Smallest round trip to the server, from the SYN exchange and from acknowledged data up to the end of the
    /// handshake.
    pub server_min: Option<Duration>,
    /// Smallest round trip to the client, measured in the same way.
    pub client_min: Option<Duration>,
}

impl RoundTrips {
    /// Round trip between client and server: the sum of the smallest on both sides.
    pub fn path(&self) -> Option<Duration> {
        Some(self.server_min? + self.client_min?)
    }

    /// Position of the tap on the path: 0 at the client, 1 at the server.
    pub fn tap_position(&self) -> Option<f64> {
        let path = self.path()?.as_secs_f64();
        (path > 0.0).then(|| self.client_min.unwrap_or_default().as_secs_f64() / path)
    }
}

/// Sessions that a ClientHello offered, and whether the server accepted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resumption {
    /// The mechanism offered; absent if no session was offered, or the ClientHello was not seen.
    ///
    /// A session ID may be random (RFC 8446 §D.4, RFC 5077 §3.4): it counts as an offer only if the server accepted it,
    /// or if the capture saw a server issue it before.
    pub offered: Option<SessionMechanism>,
    /// Identities in the `pre_shared_key` extension, or bytes of the ticket or session ID.
    pub offered_size: Option<u32>,
    /// The mechanism by which the server resumed the session.
    pub accepted: Option<SessionMechanism>,
    /// The client offered a session, but the server did a full handshake.
    pub declined: bool,
    /// The session ID in the ClientHello, real or random, and its length.
    pub id_sent: Option<(SessionId, u32)>,
    /// The ClientHello was captured only in part: it may offer more.
    pub cut: bool,
}

/// Early data, as far as the capture shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyDataSeen {
    /// The ClientHello has the `early_data` extension. That is only an offer.
    pub offered: bool,
    /// Bytes of early data that the client sent; 0 if it offered early data but sent none.
    ///
    /// Over TCP: bytes of records, with headers, that the client sent before the server's first answer reached it, or
    /// before its own Finished unless the early data is known to be refused. Over QUIC: bytes of 0-RTT packets.
    pub bytes: u64,
    /// Whether the server accepted it. Refusal is proven by a HelloRetryRequest or a declined session; otherwise this
    /// is inferred from the sizes of the client's last records.
    pub accepted: Option<bool>,
    /// `accepted` is inferred.
    pub inferred: bool,
}

/// Kind of key in the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateKey {
    /// RSA, with the length of the modulus in bits.
    Rsa(u32),
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// ECDSA on P-521.
    P521,
    /// Ed25519.
    Ed25519,
    /// ML-DSA, with its parameter set (44, 65, 87).
    MlDsa(u8),
    /// Another kind of key.
    Other,
}

impl CertificateKey {
    /// The same names as in the certificate facts of measured connections: "ECDSA P-256", "RSA 2048".
    pub fn name(self) -> String {
        match self {
            Self::Rsa(bits) => format!("RSA {bits}"),
            Self::P256 => "ECDSA P-256".into(),
            Self::P384 => "ECDSA P-384".into(),
            Self::P521 => "ECDSA P-521".into(),
            Self::Ed25519 => "Ed25519".into(),
            Self::MlDsa(set) => format!("ML-DSA-{set}"),
            Self::Other => "other".into(),
        }
    }
}

/// The server's certificates, if they were sent in the clear (up to TLS 1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificatesSeen {
    /// Number of certificates.
    pub count: u32,
    /// Sum of their DER lengths, bytes.
    pub chain_bytes: u64,
    /// Key of the first certificate.
    pub key: Option<CertificateKey>,
}

/// A TLS alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertSeen {
    /// Sent by the client.
    pub by_client: bool,
    /// Its description (IANA "TLS Alerts"); absent if it was encrypted.
    pub description: Option<u8>,
    /// It was unencrypted and a warning (RFC 5246 §7.2): the connection may continue.
    pub warning: bool,
    /// When the tap saw it.
    pub at: Time,
}

/// A TLS handshake, as far as the capture shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSeen {
    /// A ClientHello was seen, perhaps only in part.
    pub client_hello: bool,
    /// A ServerHello was seen, perhaps only in part.
    pub server_hello: bool,
    /// Highest version offered, as its code point.
    pub version_offered: Option<u16>,
    /// Version chosen, as its code point.
    pub version: Option<u16>,
    /// Cipher suite chosen, as its code point.
    pub cipher_suite: Option<u16>,
    /// Key-exchange group, as its code point: from the ServerHello's key share (TLS 1.3) or from the ServerKeyExchange.
    pub group: Option<u16>,
    /// Requested server name; with ECH, the one in the outer ClientHello.
    pub sni: Option<Box<str>>,
    /// Protocols offered in ALPN, comma-separated.
    pub alpn_offered: Option<Box<str>>,
    /// Protocol chosen by ALPN; absent in TLS 1.3, which encrypts it.
    pub alpn: Option<Box<str>>,
    /// The ClientHello has the `encrypted_client_hello` extension; clients also send it as GREASE.
    pub ech_offered: bool,
    /// Length of the (last) ClientHello message, bytes.
    pub client_hello_bytes: Option<u32>,
    /// Length of the client's public key-exchange values, bytes.
    pub client_key_exchange_bytes: Option<u32>,
    /// Length of the server's public key-exchange values, bytes.
    pub server_key_exchange_bytes: Option<u32>,
    /// The server's certificates, if they were sent in the clear.
    pub certificates: Option<CertificatesSeen>,
    /// Bytes of records in the server's first flight, ServerHello included.
    pub server_flight_bytes: Option<u64>,
    /// The server requested a client certificate, in the clear.
    pub client_certificate_requested: bool,
    /// Full or resumed, if known.
    pub handshake: Option<Handshake>,
    /// Sessions offered, accepted, declined.
    pub resumption: Resumption,
    /// The server sent a HelloRetryRequest.
    pub hello_retry_request: bool,
    /// Early data offered, sent and accepted; absent if it was not offered.
    pub early_data: Option<EarlyDataSeen>,
    /// NewSessionTicket messages in the clear (TLS 1.2).
    pub tickets: Option<u32>,
    /// Records taken for NewSessionTickets because of their position and size (TLS 1.3).
    pub tickets_inferred: Option<u32>,
    /// In a full handshake, whether the server issued a session that can be resumed.
    ///
    /// That is a ticket or, up to TLS 1.2, a session ID. Absent if the capture cannot show it (a ticket looks like a
    /// short response), and over QUIC.
    pub session_issued: Option<bool>,
    /// The first alert other than `close_notify`; a later alert that is not a warning replaces a warning.
    pub alert: Option<AlertSeen>,
    /// Both Finished messages were seen.
    pub complete: bool,
    /// TLS 1.3: after the client's Finished the server sent nothing, or an alert first. It may not have accepted the
    /// Finished.
    pub unconfirmed: bool,
}

impl TlsSeen {
    /// True if the capture cannot show whether a session was offered.
    ///
    /// The ClientHello was captured only in part, or has a session ID that is either random or from a session before
    /// the capture.
    pub fn offer_is_unknown(&self) -> bool {
        let old = self.version.is_some_and(|version| !is_tls13(version));
        let sent = &self.resumption;
        sent.offered.is_none() && (!self.client_hello || sent.cut || old && sent.id_sent.is_some())
    }
}

/// Where the time of a handshake was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTime {
    /// On the path: round trips, and the time between a flight's first and last byte.
    pub network: Duration,
    /// In the server.
    pub server: Duration,
    /// In the client.
    pub client: Duration,
    /// Round trips that the client had to wait for.
    pub round_trips: u32,
    /// No doubt makes the parts unreliable.
    pub confident: bool,
}

impl HandshakeTime {
    /// Duration of the handshake as the client saw it.
    pub fn total(&self) -> Duration {
        self.network + self.server + self.client
    }
}

/// One request and its response, told apart by the direction of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// When the tap saw the request's first byte.
    pub request_start: Time,
    /// When the tap saw the request's last byte.
    pub request_end: Time,
    /// When the tap saw the response's first packet; absent if no response came.
    pub response_first_packet: Option<Time>,
    /// Time from then until the response's first record was complete, at most 4 s. The response's head cannot be read
    /// earlier.
    pub first_record_ns: u32,
    /// When the tap saw the response's last byte.
    pub response_end: Option<Time>,
    /// Bytes of records in the request.
    pub request_bytes: u64,
    /// Bytes of records in the response.
    pub response_bytes: u64,
}

impl Exchange {
    /// Earliest time at which the client could read the response's head.
    pub fn response_start(&self) -> Option<Time> {
        let whole = |first: Time| first.unix_ns().saturating_add(self.first_record_ns.into());
        self.response_first_packet.map(|first| Time::from_unix_ns(whole(first)))
    }
}

/// The exchanges of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Number of requests seen; absent if the handshake was not seen to its end.
    pub count: Option<u32>,
    /// Number of requests with a response.
    pub answered: u32,
    /// Sum of the times from a request's first byte to its response's last; absent if frames have no times.
    pub time: Option<Duration>,
    /// The first exchanges, up to the limit on those kept.
    pub first: Vec<Exchange>,
    /// Requests may have been multiplexed (HTTP/2, HTTP/3): counts and times are approximate.
    pub approximate: bool,
}

/// Name of a message in a flight.
pub type Message = &'static str;

/// A flight: consecutive handshake bytes in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightSeen {
    /// Sent by the client.
    pub by_client: bool,
    /// When the tap saw its first byte.
    pub start: Time,
    /// When the tap saw its last byte.
    pub end: Time,
    /// Bytes of records.
    pub bytes: u64,
    /// Messages in the flight; those in braces were encrypted and are inferred.
    pub messages: Vec<Message>,
}

/// QUIC packets in one direction, counted by header type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicPackets {
    /// Initial packets.
    pub initial: u32,
    /// 0-RTT packets.
    pub zero_rtt: u32,
    /// Handshake packets.
    pub handshake: u32,
    /// 1-RTT packets.
    pub one_rtt: u32,
    /// Datagrams with more than one packet.
    pub coalesced: u32,
}

/// Facts about QUIC apart from TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicSeen {
    /// Version in the last packet that carries one, as its number.
    pub version: Option<u32>,
    /// Version in the client's first packet, if it differs (Version Negotiation, RFC 9368).
    pub first_version: Option<u32>,
    /// Version Negotiation packets.
    pub version_negotiations: u32,
    /// Retry packets.
    pub retries: u32,
    /// Length of the token in the client's first Initial, bytes. It comes from an earlier connection, not from a Retry.
    pub token_bytes: Option<u32>,
    /// Packets from the client.
    pub sent: QuicPackets,
    /// Packets from the server.
    pub received: QuicPackets,
    /// Length of the client's connection IDs; 0 if it uses none.
    pub client_cid_bytes: Option<u8>,
    /// Length of the server's connection IDs.
    pub server_cid_bytes: Option<u8>,
    /// How often the connection ID of packets to the client changed after the handshake.
    pub client_cid_changes: u32,
    /// How often the connection ID of packets to the server changed after the handshake.
    pub server_cid_changes: u32,
    /// How often an end's address changed while the connection ID stayed. A client that migrates on purpose takes a new
    /// connection ID, so that the capture cannot tell that it is the same connection.
    pub migrations: u32,
    /// Bytes of datagrams that the server sent before the client's address was validated (RFC 9000 §8.1); absent if a
    /// token validated it.
    pub unvalidated_bytes: Option<u64>,
    /// The limit on these bytes: three times the bytes that the client had sent until then.
    pub unvalidated_limit: Option<u64>,
    /// How long the server's flight stalled at that limit; absent if it did not.
    pub limit_stall: Option<Duration>,
    /// Smallest round trip measured with the spin bit; absent if the bit does not prove to measure one.
    pub spin_round_trip: Option<Duration>,
}

impl Observed {
    /// Removes everything computed from times, because the frames had none.
    pub(super) fn forget_times(&mut self) {
        self.round_trips = RoundTrips::default();
        self.handshake_time = None;
        self.held_back = None;
        self.exchanges.first.clear();
        self.exchanges.time = None;
        self.longest_idle = None;
        if let Some(quic) = &mut self.quic {
            quic.limit_stall = None;
            quic.spin_round_trip = None;
        }
    }
}

/// One connection, as far as the capture shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Number of the connection, from 1, in the order of first packets.
    pub number: u64,
    /// Protocol that carries TLS.
    pub carrier: Carrier,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// How the client was told from the server.
    pub roles: Roles,
    /// Time of the first packet.
    pub started: Time,
    /// Time of the last packet.
    pub last: Time,
    /// When the tap saw the SYN, the SYN/ACK and the ACK that opened the connection.
    pub opening: [Option<Time>; 3],
    /// How it ended.
    pub ending: Ending,
    /// Who closed or reset it first; absent if neither end did.
    pub closing: Option<Closing>,
    /// Traffic from the client.
    pub sent: Traffic,
    /// Traffic from the server.
    pub received: Traffic,
    /// Data that Nagle's algorithm held back at the server; absent if there was none, and over QUIC.
    pub held_back: Option<HeldBack>,
    /// Round trips on both sides of the tap.
    pub round_trips: RoundTrips,
    /// TLS; absent when none was seen.
    pub tls: Option<Box<TlsSeen>>,
    /// QUIC; absent over TCP.
    pub quic: Option<Box<QuicSeen>>,
    /// Where the handshake's time was spent; absent if the handshake was not seen to its end.
    pub handshake_time: Option<HandshakeTime>,
    /// The flights of the handshake.
    pub flights: Vec<FlightSeen>,
    /// The exchanges after the handshake.
    pub exchanges: Exchanges,
    /// Longest gap between packets; absent if frames have no times.
    pub longest_idle: Option<Duration>,
    /// Reasons why the numbers may be off.
    pub doubts: Doubts,
}
