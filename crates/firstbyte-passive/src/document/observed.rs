//! A captured connection as one line of JSON. The fields are in `docs/formats.md`.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;

use crate::{
    CertificateKey, Exchange, Failed, FlightSeen, Observed, QuicPackets, QuicSeen, Time, TlsSeen,
    Traffic, names,
};

/// Name of the format.
pub const WIRE_FORMAT: &str = "firstbyte/wire";
/// The version that is written.
pub const WIRE_VERSION: u32 = 1;

/// One connection.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ObservedRecord {
    pub format: &'static str,
    pub version: u32,
    pub number: u64,
    pub carrier: &'static str,
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub roles: &'static str,
    pub started_unix_ns: i64,
    pub duration_ns: u64,
    pub ending: &'static str,
    pub closed_by: Option<&'static str>,
    pub failed: Option<&'static str>,
    pub failure_type: Option<&'static str>,
    pub sent: TrafficRecord,
    pub received: TrafficRecord,
    pub held_back_segments: Option<u32>,
    pub held_back_ns: Option<u64>,
    pub rtt_server_syn_ns: Option<u64>,
    pub rtt_client_syn_ns: Option<u64>,
    pub rtt_server_min_ns: Option<u64>,
    pub rtt_client_min_ns: Option<u64>,
    pub tap_position: Option<f64>,
    pub tls: Option<TlsSeenRecord>,
    pub quic: Option<QuicSeenRecord>,
    pub handshake_time: Option<HandshakeTimeRecord>,
    pub flights: Vec<FlightSeenRecord>,
    pub exchanges: ExchangesRecord,
    pub longest_idle_ns: Option<u64>,
    pub doubts: Vec<&'static str>,
}

/// Traffic of one end.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct TrafficRecord {
    pub packets: u32,
    pub bytes: u64,
    pub retransmitted_packets: u32,
    pub reordered_packets: u32,
    pub duplicate_packets: u32,
    pub missing_bytes: u64,
}

/// TLS, as far as the capture shows it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct TlsSeenRecord {
    pub client_hello: bool,
    pub server_hello: bool,
    pub version_offered: Option<String>,
    pub version: Option<String>,
    pub cipher_suite: Option<String>,
    pub group: Option<String>,
    pub post_quantum: Option<bool>,
    pub sni: Option<String>,
    pub alpn_offered: Option<String>,
    pub alpn: Option<String>,
    pub ech_offered: bool,
    pub client_hello_bytes: Option<u32>,
    pub client_key_exchange_bytes: Option<u32>,
    pub server_key_exchange_bytes: Option<u32>,
    pub certificate_count: Option<u32>,
    pub certificate_chain_bytes: Option<u64>,
    pub certificate_key: Option<String>,
    pub server_flight_bytes: Option<u64>,
    pub client_certificate_requested: bool,
    pub handshake: Option<&'static str>,
    pub session_offered: Option<&'static str>,
    pub session_accepted: Option<&'static str>,
    pub session_declined: Option<bool>,
    pub hello_retry_request: bool,
    pub early_data_offered: bool,
    pub early_data_bytes: Option<u64>,
    pub early_data_accepted: Option<bool>,
    pub early_data_inferred: Option<bool>,
    pub tickets: Option<u32>,
    pub tickets_inferred: Option<u32>,
    pub session_issued: Option<bool>,
    pub alert: Option<String>,
    pub alert_by: Option<&'static str>,
    pub complete: bool,
}

/// QUIC apart from TLS, as far as the capture shows it.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct QuicSeenRecord {
    pub version: Option<String>,
    pub first_version: Option<String>,
    pub version_negotiations: u32,
    pub retries: u32,
    pub token_bytes: Option<u32>,
    pub sent: QuicPacketsRecord,
    pub received: QuicPacketsRecord,
    pub client_cid_bytes: Option<u8>,
    pub server_cid_bytes: Option<u8>,
    pub client_cid_changes: u32,
    pub server_cid_changes: u32,
    pub migrations: u32,
    pub unvalidated_bytes: Option<u64>,
    pub unvalidated_limit: Option<u64>,
    pub limit_stall_ns: Option<u64>,
    pub spin_rtt_ns: Option<u64>,
}

/// Packets in one direction, counted by header type.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct QuicPacketsRecord {
    pub initial: u32,
    pub zero_rtt: u32,
    pub handshake: u32,
    pub one_rtt: u32,
    pub coalesced_datagrams: u32,
}

/// Where the handshake's time was spent.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct HandshakeTimeRecord {
    pub total_ns: u64,
    pub network_ns: u64,
    pub server_ns: u64,
    pub client_ns: u64,
    pub round_trips: u32,
    pub confident: bool,
}

/// A flight of the handshake.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct FlightSeenRecord {
    pub by: &'static str,
    pub start_ns: i64,
    pub end_ns: i64,
    pub bytes: u64,
    pub messages: Vec<&'static str>,
}

/// Requests and responses.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ExchangesRecord {
    pub count: Option<u32>,
    pub answered: u32,
    pub time_ns: Option<u64>,
    pub approximate: bool,
    pub first: Vec<ExchangeRecord>,
}

/// A request and its response.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct ExchangeRecord {
    pub request_start_ns: i64,
    pub request_end_ns: i64,
    pub response_first_packet_ns: Option<i64>,
    pub response_start_ns: Option<i64>,
    pub response_end_ns: Option<i64>,
    pub request_bytes: u64,
    pub response_bytes: u64,
}

impl ObservedRecord {
    /// The stored form of `observed`; times are relative to its first packet.
    pub fn from_observed(observed: &Observed) -> Self {
        let start = observed.started;
        let trips = &observed.round_trips;
        let exchanges = &observed.exchanges;
        let failed = Failed::judge(observed);
        Self {
            format: WIRE_FORMAT,
            version: WIRE_VERSION,
            number: observed.number,
            carrier: observed.carrier.name(),
            client: observed.client.socket_addr(),
            server: observed.server.socket_addr(),
            roles: observed.roles.name(),
            started_unix_ns: start.unix_ns(),
            duration_ns: ns(observed.last.since(start)),
            ending: observed.ending.name(),
            closed_by: observed
                .closing
                .map(|closing| if closing.by_client { "client" } else { "server" }),
            failed: failed.map(Failed::name),
            failure_type: failed.map(|failed| failed.failure_type(observed).as_str()),
            sent: TrafficRecord::from_traffic(&observed.sent),
            received: TrafficRecord::from_traffic(&observed.received),
            held_back_segments: observed.held_back.map(|held| held.segments),
            held_back_ns: observed.held_back.map(|held| ns(held.time)),
            rtt_server_syn_ns: trips.server_syn.map(ns),
            rtt_client_syn_ns: trips.client_syn.map(ns),
            rtt_server_min_ns: trips.server_min.map(ns),
            rtt_client_min_ns: trips.client_min.map(ns),
            tap_position: trips.tap_position(),
            tls: observed.tls.as_deref().map(TlsSeenRecord::from_seen),
            quic: observed.quic.as_deref().map(QuicSeenRecord::from_seen),
            handshake_time: observed.handshake_time.map(|time| HandshakeTimeRecord {
                total_ns: ns(time.total()),
                network_ns: ns(time.network),
                server_ns: ns(time.server),
                client_ns: ns(time.client),
                round_trips: time.round_trips,
                confident: time.confident,
            }),
            flights: observed
                .flights
                .iter()
                .map(|f| FlightSeenRecord::from_seen(f, start))
                .collect(),
            exchanges: ExchangesRecord {
                count: exchanges.count,
                answered: exchanges.answered,
                time_ns: exchanges.time.map(ns),
                approximate: exchanges.approximate,
                first: exchanges
                    .first
                    .iter()
                    .map(|e| ExchangeRecord::from_exchange(e, start))
                    .collect(),
            },
            longest_idle_ns: observed.longest_idle.map(ns),
            doubts: observed.doubts.names().collect(),
        }
    }
}

impl TrafficRecord {
    fn from_traffic(traffic: &Traffic) -> Self {
        Self {
            packets: traffic.packets,
            bytes: traffic.bytes,
            retransmitted_packets: traffic.retransmitted,
            reordered_packets: traffic.reordered,
            duplicate_packets: traffic.duplicates,
            missing_bytes: traffic.missing_bytes,
        }
    }
}

impl TlsSeenRecord {
    fn from_seen(tls: &TlsSeen) -> Self {
        let early = tls.early_data;
        let certificates = tls.certificates;
        Self {
            client_hello: tls.client_hello,
            server_hello: tls.server_hello,
            version_offered: tls.version_offered.map(version),
            version: tls.version.map(version),
            cipher_suite: tls.cipher_suite.map(names::cipher_suite),
            group: tls.group.map(names::group),
            post_quantum: tls.group.map(names::post_quantum),
            sni: tls.sni.as_deref().map(str::to_owned),
            alpn_offered: tls.alpn_offered.as_deref().map(str::to_owned),
            alpn: tls.alpn.as_deref().map(str::to_owned),
            ech_offered: tls.ech_offered,
            client_hello_bytes: tls.client_hello_bytes,
            client_key_exchange_bytes: tls.client_key_exchange_bytes,
            server_key_exchange_bytes: tls.server_key_exchange_bytes,
            certificate_count: certificates.map(|c| c.count),
            certificate_chain_bytes: certificates.map(|c| c.chain_bytes),
            certificate_key: certificates.and_then(|c| c.key).map(CertificateKey::name),
            server_flight_bytes: tls.server_flight_bytes,
            client_certificate_requested: tls.client_certificate_requested,
            handshake: tls.handshake.map(|h| h.name()),
            session_offered: tls.resumption.offered.map(|m| m.name()),
            session_accepted: tls.resumption.accepted.map(|m| m.name()),
            session_declined: (!tls.offer_is_unknown()).then_some(tls.resumption.declined),
            hello_retry_request: tls.hello_retry_request,
            early_data_offered: early.is_some_and(|e| e.offered),
            early_data_bytes: early.map(|e| e.bytes),
            early_data_accepted: early.and_then(|e| e.accepted),
            early_data_inferred: early.map(|e| e.inferred),
            tickets: tls.tickets,
            tickets_inferred: tls.tickets_inferred,
            session_issued: tls.session_issued,
            alert: tls.alert.map(|alert| match alert.description {
                Some(number) => {
                    names::alert(number).map_or_else(|| number.to_string(), str::to_owned)
                }
                None => "encrypted".into(),
            }),
            alert_by: tls.alert.map(|alert| if alert.by_client { "client" } else { "server" }),
            complete: tls.complete,
        }
    }
}

impl QuicSeenRecord {
    fn from_seen(quic: &QuicSeen) -> Self {
        Self {
            version: quic.version.map(names::quic_version),
            first_version: quic.first_version.map(names::quic_version),
            version_negotiations: quic.version_negotiations,
            retries: quic.retries,
            token_bytes: quic.token_bytes,
            sent: QuicPacketsRecord::from_packets(&quic.sent),
            received: QuicPacketsRecord::from_packets(&quic.received),
            client_cid_bytes: quic.client_cid_bytes,
            server_cid_bytes: quic.server_cid_bytes,
            client_cid_changes: quic.client_cid_changes,
            server_cid_changes: quic.server_cid_changes,
            migrations: quic.migrations,
            unvalidated_bytes: quic.unvalidated_bytes,
            unvalidated_limit: quic.unvalidated_limit,
            limit_stall_ns: quic.limit_stall.map(ns),
            spin_rtt_ns: quic.spin_round_trip.map(ns),
        }
    }
}

impl QuicPacketsRecord {
    const fn from_packets(packets: &QuicPackets) -> Self {
        Self {
            initial: packets.initial,
            zero_rtt: packets.zero_rtt,
            handshake: packets.handshake,
            one_rtt: packets.one_rtt,
            coalesced_datagrams: packets.coalesced,
        }
    }
}

/// The name of a version, or its number if it has no name.
fn version(number: u16) -> String {
    names::version(number).map_or_else(|| format!("0x{number:04x}"), str::to_owned)
}

impl FlightSeenRecord {
    fn from_seen(flight: &FlightSeen, start: Time) -> Self {
        Self {
            by: if flight.by_client { "client" } else { "server" },
            start_ns: flight.start.signed_since(start),
            end_ns: flight.end.signed_since(start),
            bytes: flight.bytes,
            messages: flight.messages.clone(),
        }
    }
}

impl ExchangeRecord {
    fn from_exchange(exchange: &Exchange, start: Time) -> Self {
        let since = |time: Time| time.signed_since(start);
        Self {
            request_start_ns: since(exchange.request_start),
            request_end_ns: since(exchange.request_end),
            response_first_packet_ns: exchange.response_first_packet.map(since),
            response_start_ns: exchange.response_start().map(since),
            response_end_ns: exchange.response_end.map(since),
            request_bytes: exchange.request_bytes,
            response_bytes: exchange.response_bytes,
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
