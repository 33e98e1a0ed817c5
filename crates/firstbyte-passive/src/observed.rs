//! What was seen of one connection: the record that the passive half gives out.
//!
//! Every time is the capture's. What cannot be known from the packets that were there is absent, and
//! [`Doubts`] say why a number may be off. The definitions are in `docs/wire.md`.

use std::time::Duration;

use super::layers::Endpoint;
use super::{Doubts, SessionId, Time};
use firstbyte_core::timeline::{Handshake, SessionMechanism};
use firstbyte_core::wire::tls::is_tls13;

/// What carries the TLS handshake.
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

/// How it is known which end is the client. Never from port numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Roles {
    /// A SYN or a SYN/ACK was seen; over QUIC, the client's first Initial.
    Opening,
    /// A ClientHello or a ServerHello was seen.
    Hello,
    /// Neither: `client` is the end that was first seen to send.
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

/// Until then an answer may still come: the first timeout of TCP (RFC 6298 §2) and of QUIC's first probe
/// (RFC 9002 §6.2.2).
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
    /// Nothing answered the SYN, or the first Initial, for a second at least.
    Unanswered,
    /// The five-tuple was used for a new connection.
    Replaced,
    /// Nothing was seen for longer than the limit.
    Idle,
    /// It had to go because there were too many.
    Evicted,
    /// It was open when the capture ended.
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
    /// When it was at the tap.
    pub at: Time,
}

/// What one end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets, without removed duplicates.
    pub packets: u32,
    /// Bytes of payload, each counted once.
    pub bytes: u64,
    /// Segments that carried nothing new and were sent again.
    pub retransmitted: u32,
    /// Segments that arrived after later ones and filled a hole.
    pub reordered: u32,
    /// Copies of packets by the capture (SPAN), removed.
    pub duplicates: u32,
    /// Bytes that the other end acknowledged and the capture does not have.
    pub missing_bytes: u64,
}

/// What a server had to send, and did not until a delayed acknowledgement of the client's arrived (Nagle's
/// algorithm).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Segments that departed at the moment at which one did.
    pub segments: u32,
    /// For how long they were held at most: since the segments before them departed.
    pub time: Duration,
}

/// Round trips on the two sides of the tap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Tap to server and back: from the SYN to the SYN/ACK; absent when the SYN was sent again.
    pub server_syn: Option<Duration>,
    /// Tap to client and back: from the SYN/ACK to the ACK.
    pub client_syn: Option<Duration>,
    /// Smallest seen to the server, the SYN exchange and acknowledged data up to the end of the
    /// handshake.
    pub server_min: Option<Duration>,
    /// Smallest seen to the client, as above.
    pub client_min: Option<Duration>,
}

impl RoundTrips {
    /// Between client and server: the sum of the smallest on both sides.
    pub fn path(&self) -> Option<Duration> {
        Some(self.server_min? + self.client_min?)
    }

    /// Where the tap is on the path: 0 at the client, 1 at the server.
    pub fn tap_position(&self) -> Option<f64> {
        let path = self.path()?.as_secs_f64();
        (path > 0.0).then(|| self.client_min.unwrap_or_default().as_secs_f64() / path)
    }
}

/// What the sessions of a ClientHello are, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resumption {
    /// The mechanism that was offered; absent when none was, or the ClientHello was not seen. A
    /// session ID may be random (RFC 8446 §D.4, RFC 5077 §3.4): it is an offer if it is taken up, or was
    /// seen to be issued before.
    pub offered: Option<SessionMechanism>,
    /// Identities in the `pre_shared_key` extension, or bytes of the ticket or session ID.
    pub offered_size: Option<u32>,
    /// The mechanism by which the server took the session up.
    pub accepted: Option<SessionMechanism>,
    /// The server made a full handshake of an offer.
    pub declined: bool,
    /// The session ID in the ClientHello, of a session or random, and its length.
    pub id_sent: Option<(SessionId, u32)>,
    /// Not all of the ClientHello was there: it may offer more.
    pub cut: bool,
}

/// What is known of early data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyDataSeen {
    /// The ClientHello has the `early_data` extension: an offer, no proof.
    pub offered: bool,
    /// Bytes of records, with headers, that the client sent before it had any of the server's answer or, unless
    /// they are known to be refused, before its Finished; over QUIC, bytes of 0-RTT packets. Zero when it
    /// offered and sent none.
    pub bytes: u64,
    /// Whether the server took it: proven where it could not (HelloRetryRequest, session declined),
    /// inferred from the sizes of the client's last records where it could.
    pub accepted: Option<bool>,
    /// `accepted` is inferred.
    pub inferred: bool,
}

/// Key of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateKey {
    /// RSA, with the length of its modulus, bits.
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
    /// Something else.
    Other,
}

impl CertificateKey {
    /// As in certificate facts of measured connections: "ECDSA P-256", "RSA 2048".
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

/// The server's certificates, where they are sent in the clear (up to TLS 1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificatesSeen {
    /// How many.
    pub count: u32,
    /// Sum of their DER lengths, bytes.
    pub chain_bytes: u64,
    /// The key of the first.
    pub key: Option<CertificateKey>,
}

/// An alert of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertSeen {
    /// Sent by the client.
    pub by_client: bool,
    /// Its description (IANA "TLS Alerts"); absent when it was encrypted.
    pub description: Option<u8>,
    /// It was in the clear, and a warning (RFC 5246 §7.2): the connection may go on.
    pub warning: bool,
    /// When.
    pub at: Time,
}

/// What was seen of a TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSeen {
    /// A ClientHello was seen, perhaps not all of it.
    pub client_hello: bool,
    /// A ServerHello was seen, perhaps not all of it.
    pub server_hello: bool,
    /// Highest version offered, as its number.
    pub version_offered: Option<u16>,
    /// Version chosen, as its number.
    pub version: Option<u16>,
    /// Cipher suite chosen, as its number.
    pub cipher_suite: Option<u16>,
    /// Key-exchange group, as its number: from the ServerHello's key share (TLS 1.3) or from the
    /// ServerKeyExchange.
    pub group: Option<u16>,
    /// Server name asked for; with ECH that of the outer ClientHello.
    pub sni: Option<Box<str>>,
    /// Protocols offered by ALPN, separated by commas.
    pub alpn_offered: Option<Box<str>>,
    /// Protocol chosen by ALPN; encrypted in TLS 1.3, and absent.
    pub alpn: Option<Box<str>>,
    /// The ClientHello has the `encrypted_client_hello` extension; clients also send it without
    /// meaning it (GREASE).
    pub ech_offered: bool,
    /// Length of the (last) ClientHello message, bytes.
    pub client_hello_bytes: Option<u32>,
    /// Length of the client's public values for the key exchange, bytes.
    pub client_key_exchange_bytes: Option<u32>,
    /// Length of the server's, bytes.
    pub server_key_exchange_bytes: Option<u32>,
    /// Certificates in the clear.
    pub certificates: Option<CertificatesSeen>,
    /// Bytes of records in the server's first flight, ServerHello included.
    pub server_flight_bytes: Option<u64>,
    /// The server asked for a certificate of the client, in the clear.
    pub client_certificate_requested: bool,
    /// Full or resumed, where it could be seen.
    pub handshake: Option<Handshake>,
    /// Sessions offered, accepted, declined.
    pub resumption: Resumption,
    /// The server asked for another ClientHello.
    pub hello_retry_request: bool,
    /// Early data offered, sent, taken; absent when it was not offered.
    pub early_data: Option<EarlyDataSeen>,
    /// NewSessionTicket messages in the clear (TLS 1.2).
    pub tickets: Option<u32>,
    /// Records that are taken to be NewSessionTickets by their place and size (TLS 1.3).
    pub tickets_inferred: Option<u32>,
    /// In a full handshake, whether the server issued a session that can be taken up: a ticket, or up to TLS 1.2 a
    /// session ID. Absent where it cannot be seen (a ticket looks like a short response), and over QUIC.
    pub session_issued: Option<bool>,
    /// The first alert that is not close_notify, and no warning if one that is none follows.
    pub alert: Option<AlertSeen>,
    /// Both Finished messages were seen.
    pub complete: bool,
    /// TLS 1.3: after the client's Finished nothing came of the server, or an alert first. It may not have taken it.
    pub unconfirmed: bool,
}

impl TlsSeen {
    /// Whether a session was offered is not known: the ClientHello was cut, or has a session ID that may be of a
    /// session of before the capture, or random.
    pub fn offer_is_unknown(&self) -> bool {
        let old = self.version.is_some_and(|version| !is_tls13(version));
        let sent = &self.resumption;
        sent.offered.is_none() && (!self.client_hello || sent.cut || old && sent.id_sent.is_some())
    }
}

/// Where the time of a handshake went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTime {
    /// On the way: round trips, and the time that flights took to pass.
    pub network: Duration,
    /// In the server.
    pub server: Duration,
    /// In the client.
    pub client: Duration,
    /// Round trips that the client waited for.
    pub round_trips: u32,
    /// Nothing was seen that spoils the parts.
    pub confident: bool,
}

impl HandshakeTime {
    /// All of it, as the client saw it.
    pub fn total(&self) -> Duration {
        self.network + self.server + self.client
    }
}

/// One request and its response, by records and their directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// First byte of the request at the tap.
    pub request_start: Time,
    /// Last byte of the request.
    pub request_end: Time,
    /// First packet of the response; absent when none came.
    pub response_first_packet: Option<Time>,
    /// From then until the record was whole that the response begins with, up to 4 s: before that its head cannot be read.
    pub first_record_ns: u32,
    /// Last byte of the response.
    pub response_end: Option<Time>,
    /// Bytes of the request's records.
    pub request_bytes: u64,
    /// Bytes of the response's records.
    pub response_bytes: u64,
}

impl Exchange {
    /// When the response's head could be read.
    pub fn response_start(&self) -> Option<Time> {
        let whole = |first: Time| first.unix_ns().saturating_add(self.first_record_ns.into());
        self.response_first_packet.map(|first| Time::from_unix_ns(whole(first)))
    }
}

/// The exchanges of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// How many requests were seen; absent when the handshake was not seen to its end.
    pub count: Option<u32>,
    /// How many had a response.
    pub answered: u32,
    /// From requests' first byte to responses' last, added up; absent where frames have no times.
    pub time: Option<Duration>,
    /// The first of them, as many as are kept.
    pub first: Vec<Exchange>,
    /// Requests may have been multiplexed (HTTP/2, HTTP/3): counts and times are approximate.
    pub approximate: bool,
}

/// Name of a message in a flight.
pub type Message = &'static str;

/// A run of a handshake's bytes in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlightSeen {
    /// Sent by the client.
    pub by_client: bool,
    /// First byte at the tap.
    pub start: Time,
    /// Last byte at the tap.
    pub end: Time,
    /// Bytes of records.
    pub bytes: u64,
    /// What was in it; in braces what was encrypted and is inferred.
    pub messages: Vec<Message>,
}

/// Packets of a direction of a QUIC connection, by their headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicPackets {
    /// Initial.
    pub initial: u32,
    /// 0-RTT.
    pub zero_rtt: u32,
    /// Handshake.
    pub handshake: u32,
    /// 1-RTT.
    pub one_rtt: u32,
    /// Datagrams with more than one packet.
    pub coalesced: u32,
}

/// What was seen of QUIC besides TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicSeen {
    /// The version, as its number: the last one that a packet had.
    pub version: Option<u32>,
    /// The version of the client's first packet, where it is another (Version Negotiation, RFC 9368).
    pub first_version: Option<u32>,
    /// Version Negotiation packets.
    pub version_negotiations: u32,
    /// Retry packets.
    pub retries: u32,
    /// Bytes of the token in the client's first Initial: of an earlier connection, no Retry's.
    pub token_bytes: Option<u32>,
    /// What the client sent.
    pub sent: QuicPackets,
    /// What the server sent.
    pub received: QuicPackets,
    /// Length of the connection IDs that the client chose; 0 when it uses none.
    pub client_cid_bytes: Option<u8>,
    /// Length of those that the server chose.
    pub server_cid_bytes: Option<u8>,
    /// Changes of the connection ID that packets to the client have, after the handshake.
    pub client_cid_changes: u32,
    /// Changes of the connection ID that packets to the server have, after the handshake.
    pub server_cid_changes: u32,
    /// Changes of an end's address with the connection ID kept. With a new one, which a client that
    /// migrates on purpose takes, it cannot be known that it is the same connection.
    pub migrations: u32,
    /// Bytes of datagrams that the server sent before the client's address was validated (RFC 9000 §8.1);
    /// absent when it was by a token.
    pub unvalidated_bytes: Option<u64>,
    /// Three times the bytes that the client had sent until then.
    pub unvalidated_limit: Option<u64>,
    /// For how long the server's flight stood still at that limit; absent when it did not.
    pub limit_stall: Option<Duration>,
    /// Smallest round trip by the spin bit; absent where that does not prove to be one.
    pub spin_round_trip: Option<Duration>,
}

impl Observed {
    /// Leaves out what follows from times that nobody knows.
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

/// Everything that was seen of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its number, from 1, in the order of first packets.
    pub number: u64,
    /// What carries it.
    pub carrier: Carrier,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// How it is known which is which.
    pub roles: Roles,
    /// First packet.
    pub started: Time,
    /// Last packet.
    pub last: Time,
    /// When the connection was open: the SYN, the SYN/ACK and the ACK at the tap.
    pub opening: [Option<Time>; 3],
    /// How it ended.
    pub ending: Ending,
    /// Who closed or reset it first; absent where neither end did.
    pub closing: Option<Closing>,
    /// What the client sent.
    pub sent: Traffic,
    /// What the server sent.
    pub received: Traffic,
    /// What Nagle's algorithm held back at the server; absent where nothing was, and over QUIC.
    pub held_back: Option<HeldBack>,
    /// Round trips on both sides of the tap.
    pub round_trips: RoundTrips,
    /// TLS; absent when none was seen.
    pub tls: Option<Box<TlsSeen>>,
    /// QUIC; absent over TCP.
    pub quic: Option<Box<QuicSeen>>,
    /// Where the handshake's time went; absent when it was not seen to its end.
    pub handshake_time: Option<HandshakeTime>,
    /// The flights of the handshake.
    pub flights: Vec<FlightSeen>,
    /// The exchanges after it.
    pub exchanges: Exchanges,
    /// Longest time without a packet; absent where frames have no times.
    pub longest_idle: Option<Duration>,
    /// What spoils the numbers.
    pub doubts: Doubts,
}
