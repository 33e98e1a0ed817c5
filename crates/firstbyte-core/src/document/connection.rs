//! The stored form of one connection.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stored::{StoredClient, StoredPanelTime, StoredProxy};
use crate::split::{Parts, PhaseSplit, Split};
use crate::timeline::{
    Attempt, Cause, Connection, Direction, Facts, Failure, FailureType, Fault, Flight, HttpFacts,
    Lookup, LookupTry, Marks, Offset, PhaseName, ProcessorTime, QuicDatagram, QuicFacts, Stamp,
    TcpFacts, TlsFacts,
};

/// One connection, as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ConnectionRecord {
    pub url: String,
    pub started_unix_ns: Option<u64>,
    #[serde(default)]
    pub client: Option<StoredClient>,
    pub remote: Option<String>,
    pub local: Option<String>,
    pub total_ns: u64,
    pub marks: BTreeMap<String, MarkRecord>,
    pub split: SplitRecord,
    pub lookups: Vec<DnsRecord>,
    pub attempts: Vec<AttemptRecord>,
    pub flights: Vec<FlightRecord>,
    #[serde(default)]
    pub reused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<StoredProxy>,
    pub tcp: Option<TcpRecord>,
    #[serde(default)]
    pub quic: Option<QuicRecord>,
    pub tls: Option<TlsRecord>,
    pub http: Option<HttpRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub panel: Vec<StoredPanelTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorRecord>,
    pub failure: Option<FailureRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ProcessorRecord {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl ProcessorRecord {
    pub(super) fn from_facts(time: &ProcessorTime) -> Self {
        Self { user_ns: ns(time.user), system_ns: ns(time.system) }
    }

    pub(super) const fn facts(self) -> ProcessorTime {
        ProcessorTime {
            user: Duration::from_nanos(self.user_ns),
            system: Duration::from_nanos(self.system_ns),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct MarkRecord {
    pub at_ns: i64,
    pub clock: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ns: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct SplitRecord {
    pub rtt_ns: Option<u64>,
    pub round_trips: u32,
    pub server_uncertainty_ns: Option<u64>,
    pub parts: PartsRecord,
    pub phases: Vec<PhaseRecord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct PhaseRecord {
    pub name: String,
    pub start_ns: i64,
    pub duration_ns: u64,
    pub complete: bool,
    pub round_trips: u32,
    #[serde(default)]
    pub stalls: u32,
    pub parts: PartsRecord,
}

/// The parts of a stretch of time, which add up to it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct PartsRecord {
    pub resolver_ns: u64,
    pub network_ns: u64,
    pub variation_ns: u64,
    pub server_ns: u64,
    pub client_ns: u64,
    pub transfer_ns: u64,
    #[serde(default)]
    pub pause_ns: u64,
    pub fallback_ns: u64,
    pub unexplained_ns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct DnsRecord {
    pub record_type: String,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub addresses: Vec<String>,
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<DnsTryRecord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct DnsTryRecord {
    pub server: String,
    pub transport: String,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct AttemptRecord {
    pub remote: String,
    pub start_ns: i64,
    pub end_ns: Option<i64>,
    pub outcome: String,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct FlightRecord {
    pub direction: String,
    pub first_ns: i64,
    pub last_ns: i64,
    pub bytes: u64,
    pub messages: Vec<String>,
    pub chunks: Vec<ChunkRecord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ChunkRecord {
    pub at_ns: i64,
    pub clock: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution_ns: Option<u64>,
    pub bytes: u64,
    pub acknowledged_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<i64>,
    pub segments: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct TcpRecord {
    pub syn_rtt_ns: Option<u64>,
    pub min_rtt_ns: Option<u64>,
    pub retransmits: Option<u32>,
    pub send_mss_bytes: Option<u32>,
    pub receive_mss_bytes: Option<u32>,
    pub out_of_order: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receive_window_limited_ns: Option<u64>,
    pub congestion_control: Option<String>,
    pub syn_departure_uncertainty_ns: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct QuicRecord {
    pub version: Option<String>,
    pub min_rtt_ns: Option<u64>,
    pub datagrams_sent: Option<u32>,
    pub datagrams_received: Option<u32>,
    pub lost_packets: Option<u64>,
    pub retry: bool,
    pub bytes_before_validation: Option<u64>,
    pub amplification_stall_ns: Option<u64>,
    pub congestion_control: Option<String>,
    #[serde(default)]
    pub datagrams: Vec<DatagramRecord>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct DatagramRecord {
    pub sent: bool,
    pub at_ns: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub elicits: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_since_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledgement_delay_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct EarlyDataRecord {
    pub bytes_before_server_hello: Option<u64>,
    pub accepted: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct TlsRecord {
    pub version: Option<String>,
    pub cipher_suite: Option<String>,
    pub group: Option<String>,
    pub handshake: Option<String>,
    #[serde(default)]
    pub session_offered: Option<String>,
    #[serde(default)]
    pub early_data_allowed: Option<bool>,
    pub early_data: Option<EarlyDataRecord>,
    pub alpn: Option<String>,
    pub certificate_chain_bytes: Option<u64>,
    pub certificates: Vec<CertificateRecord>,
    pub verified: Option<bool>,
    pub tickets_received: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct CertificateRecord {
    pub subject: String,
    pub issuer: String,
    pub key: String,
    pub not_after_unix_seconds: Option<i64>,
    pub der_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct HttpRecord {
    pub method: String,
    pub version: Option<String>,
    pub status: Option<u16>,
    pub headers: Vec<(String, String)>,
    pub request_bytes: Option<u64>,
    pub upload_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_sent_bytes: Option<u64>,
    pub header_bytes: Option<u64>,
    pub body_bytes: Option<u64>,
    pub decoded_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecoded_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_took_ns: Option<u64>,
    pub may_be_cut_short: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct FailureRecord {
    pub phase: String,
    pub fault: String,
    #[serde(rename = "type", default)]
    pub failure_type: Option<String>,
    pub cause: String,
    pub message: String,
    pub hint: Option<String>,
    pub at_ns: Option<i64>,
}

impl ConnectionRecord {
    /// Converts `connection` to its stored form, using its own evidence about the server.
    pub fn from_connection(connection: &Connection) -> Self {
        Self::with_split(connection, &Split::attribute(connection))
    }

    /// Converts `connection` to its stored form, with the given split.
    pub fn with_split(connection: &Connection, split: &Split) -> Self {
        let Facts { client, remote, local, reused, proxy, tcp, quic, tls, http, panel, processor } =
            &connection.facts;
        Self {
            url: connection.url.clone(),
            started_unix_ns: connection.started_unix_ns,
            client: client.as_ref().map(StoredClient::from_facts),
            remote: remote.map(|a| a.to_string()),
            local: local.map(|a| a.to_string()),
            total_ns: ns(split.total()),
            marks: marks(&connection.marks),
            split: SplitRecord::from_split(split),
            lookups: connection.lookups.iter().map(DnsRecord::from_lookup).collect(),
            attempts: connection.attempts.iter().map(AttemptRecord::from_attempt).collect(),
            flights: connection.flights.iter().map(FlightRecord::from_flight).collect(),
            reused: *reused,
            proxy: proxy.as_ref().map(StoredProxy::from_facts),
            tcp: tcp.as_ref().map(TcpRecord::from_facts),
            quic: quic.as_ref().map(QuicRecord::from_facts),
            tls: tls.as_ref().map(TlsRecord::from_facts),
            http: http.as_ref().map(HttpRecord::from_facts),
            panel: panel.iter().map(StoredPanelTime::from_facts).collect(),
            processor: processor.as_ref().map(ProcessorRecord::from_facts),
            failure: connection.failure.as_ref().map(FailureRecord::from_failure),
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn marks(marks: &Marks) -> BTreeMap<String, MarkRecord> {
    marks
        .iter()
        .map(|(mark, stamp)| (mark.name().to_owned(), MarkRecord::from_stamp(stamp)))
        .collect()
}

impl MarkRecord {
    pub(super) fn from_stamp(stamp: Stamp) -> Self {
        Self {
            at_ns: stamp.at.as_nanos(),
            clock: stamp.clock.name().into(),
            resolution_ns: stamp.clock.resolution().map(ns),
        }
    }
}

impl SplitRecord {
    fn from_split(split: &Split) -> Self {
        Self {
            rtt_ns: split.rtt.map(ns),
            round_trips: split.round_trips,
            server_uncertainty_ns: split.server_uncertainty().map(ns),
            parts: PartsRecord::from_parts(&split.parts),
            phases: split.phases.iter().map(PhaseRecord::from_phase_split).collect(),
        }
    }
}

impl PhaseRecord {
    fn from_phase_split(split: &PhaseSplit) -> Self {
        Self {
            name: split.phase.name.name().into(),
            start_ns: split.phase.start.as_nanos(),
            duration_ns: ns(split.phase.duration()),
            complete: split.phase.complete,
            round_trips: split.round_trips,
            stalls: split.stalls,
            parts: PartsRecord::from_parts(&split.parts),
        }
    }
}

impl PartsRecord {
    fn from_parts(parts: &Parts) -> Self {
        Self {
            resolver_ns: ns(parts.resolver),
            network_ns: ns(parts.network),
            variation_ns: ns(parts.variation),
            server_ns: ns(parts.server),
            client_ns: ns(parts.client),
            transfer_ns: ns(parts.transfer),
            pause_ns: ns(parts.pause),
            fallback_ns: ns(parts.fallback),
            unexplained_ns: ns(parts.unexplained),
        }
    }
}

impl DnsRecord {
    fn from_lookup(lookup: &Lookup) -> Self {
        Self {
            record_type: lookup.record_type.name().into(),
            start_ns: lookup.start.as_nanos(),
            end_ns: lookup.end.map(Offset::as_nanos),
            addresses: lookup.addresses.iter().map(ToString::to_string).collect(),
            error: lookup.error.clone(),
            tries: lookup.tries.iter().map(DnsTryRecord::from_lookup_try).collect(),
        }
    }
}

impl DnsTryRecord {
    fn from_lookup_try(one: &LookupTry) -> Self {
        Self {
            server: one.server.to_string(),
            transport: one.transport.name().into(),
            start_ns: one.start.as_nanos(),
            end_ns: one.end.map(Offset::as_nanos),
            error: one.error.clone(),
        }
    }
}

impl AttemptRecord {
    fn from_attempt(attempt: &Attempt) -> Self {
        use crate::timeline::AttemptOutcome::Failed;
        Self {
            remote: attempt.remote.to_string(),
            start_ns: attempt.start.as_nanos(),
            end_ns: attempt.end.map(Offset::as_nanos),
            outcome: attempt.outcome.name().into(),
            error: match &attempt.outcome {
                Failed { error } => Some(error.clone()),
                _ => None,
            },
        }
    }
}

impl FlightRecord {
    fn from_flight(flight: &Flight) -> Self {
        Self {
            direction: match flight.direction {
                Direction::Sent => "sent".into(),
                Direction::Received => "received".into(),
            },
            first_ns: flight.first().as_nanos(),
            last_ns: flight.last().as_nanos(),
            bytes: flight.bytes(),
            messages: flight.messages.clone(),
            chunks: flight
                .chunks
                .iter()
                .map(|chunk| ChunkRecord {
                    at_ns: chunk.stamp.at.as_nanos(),
                    clock: chunk.stamp.clock.name().into(),
                    resolution_ns: chunk.stamp.clock.resolution().map(ns),
                    bytes: chunk.bytes,
                    acknowledged_ns: chunk.acknowledged.map(Offset::as_nanos),
                    read_ns: chunk.read.map(Offset::as_nanos),
                    segments: chunk.segments,
                })
                .collect(),
        }
    }
}

impl TcpRecord {
    fn from_facts(tcp: &TcpFacts) -> Self {
        Self {
            syn_rtt_ns: tcp.syn_rtt.map(ns),
            min_rtt_ns: tcp.min_rtt.map(ns),
            retransmits: tcp.retransmits,
            send_mss_bytes: tcp.send_mss,
            receive_mss_bytes: tcp.receive_mss,
            out_of_order: tcp.out_of_order,
            receive_window_limited_ns: tcp.receive_window_limited.map(ns),
            congestion_control: tcp.congestion_control.clone(),
            syn_departure_uncertainty_ns: tcp.syn_departure_uncertainty.map(ns),
        }
    }
}

impl QuicRecord {
    fn from_facts(quic: &QuicFacts) -> Self {
        Self {
            version: quic.version.clone(),
            min_rtt_ns: quic.min_rtt.map(ns),
            datagrams_sent: quic.datagrams_sent,
            datagrams_received: quic.datagrams_received,
            lost_packets: quic.lost_packets,
            retry: quic.retry,
            bytes_before_validation: quic.bytes_before_validation,
            amplification_stall_ns: quic.amplification_stall.map(ns),
            congestion_control: quic.congestion_control.clone(),
            datagrams: quic.datagrams.iter().map(DatagramRecord::from_datagram).collect(),
        }
    }
}

impl DatagramRecord {
    pub(super) fn from_datagram(datagram: &QuicDatagram) -> Self {
        Self {
            sent: datagram.direction == Direction::Sent,
            at_ns: datagram.at.as_nanos(),
            new: datagram.new,
            elicits: datagram.elicits,
            missing_since_ns: datagram.missing_since.map(Offset::as_nanos),
            skipped: (datagram.skipped > 0).then_some(datagram.skipped),
            acknowledged_ns: datagram.acknowledged.map(Offset::as_nanos),
            acknowledgement_delay_ns: datagram.acknowledgement_delay.map(ns),
        }
    }

    pub(super) fn datagram(&self) -> QuicDatagram {
        QuicDatagram {
            direction: if self.sent { Direction::Sent } else { Direction::Received },
            at: Offset::from_nanos(self.at_ns),
            new: self.new,
            elicits: self.elicits,
            missing_since: self.missing_since_ns.map(Offset::from_nanos),
            skipped: self.skipped.unwrap_or(0),
            acknowledged: self.acknowledged_ns.map(Offset::from_nanos),
            acknowledgement_delay: self.acknowledgement_delay_ns.map(Duration::from_nanos),
        }
    }
}

impl TlsRecord {
    fn from_facts(tls: &TlsFacts) -> Self {
        Self {
            version: tls.version.clone(),
            cipher_suite: tls.cipher_suite.clone(),
            group: tls.group.clone(),
            handshake: tls.handshake.map(|h| h.name().into()),
            session_offered: tls.session_offered.map(|m| m.name().into()),
            early_data_allowed: tls.early_data_allowed,
            early_data: tls.early_data.map(|early| EarlyDataRecord {
                bytes_before_server_hello: early.bytes_before_server_hello,
                accepted: early.accepted,
            }),
            alpn: tls.alpn.clone(),
            certificate_chain_bytes: tls.certificate_chain_bytes(),
            certificates: tls
                .certificates
                .iter()
                .map(|c| CertificateRecord {
                    subject: c.subject.clone(),
                    issuer: c.issuer.clone(),
                    key: c.key.clone(),
                    not_after_unix_seconds: c.not_after_unix,
                    der_bytes: c.der_bytes,
                })
                .collect(),
            verified: tls.verified,
            tickets_received: tls.tickets_received,
        }
    }
}

impl HttpRecord {
    fn from_facts(http: &HttpFacts) -> Self {
        Self {
            method: http.method.clone(),
            version: http.version.clone(),
            status: http.status,
            headers: http.headers.iter().map(|h| (h.name.clone(), h.value.clone())).collect(),
            request_bytes: http.request_bytes,
            upload_bytes: http.upload_bytes,
            upload_sent_bytes: http.upload_sent_bytes,
            header_bytes: http.header_bytes,
            body_bytes: http.body_bytes,
            decoded_bytes: http.decoded_bytes,
            undecoded_bytes: http.undecoded_bytes,
            head_took_ns: http.head_took.map(ns),
            may_be_cut_short: http.may_be_cut_short,
        }
    }
}

impl FailureRecord {
    pub(super) fn from_failure(failure: &Failure) -> Self {
        Self {
            phase: failure.phase.name().into(),
            fault: failure.cause.fault().name().into(),
            failure_type: Some(failure.failure_type().as_str().into()),
            cause: failure.cause.name().into(),
            message: failure.cause.to_string(),
            // Callers that can give advice fill it in; recorded advice is kept.
            hint: match &failure.cause {
                Cause::Recorded { advice, .. } => advice.clone(),
                _ => None,
            },
            at_ns: failure.at.map(Offset::as_nanos),
        }
    }

    /// Converts to a failure with the same text, but without the values in it.
    pub(super) fn failure(self) -> Failure {
        Failure {
            // A phase of a later version: the connection did not complete, in an unknown phase.
            phase: PhaseName::named(&self.phase).unwrap_or(PhaseName::Receive),
            cause: Cause::Recorded {
                name: self.cause,
                // Map a name of a later version to a known one; older files have none.
                failure_type: self
                    .failure_type
                    .map_or(FailureType::Unknown, |name| FailureType::nearest(&name)),
                fault: Fault::named(&self.fault).unwrap_or(Fault::Peer),
                message: self.message,
                advice: self.hint,
            },
            at: self.at_ns.map(Offset::from_nanos),
        }
    }
}
