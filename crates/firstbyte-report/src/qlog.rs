//! `--qlog`: QUIC connections as qlog, for qlog viewers.
//!
//! Input: connections whose packets were recorded. Output: one file each, JSON text sequences (RFC 7464) according
//! to draft-ietf-quic-qlog-main-schema-13, with events of draft-ietf-quic-qlog-quic-events-12. Unknown data is
//! absent, and no event is invented to complete a viewer's picture.

mod frame;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Connection, Direction, Mark, Offset, QuicFacts, QuicLog, QuicPacket, Sample, TransportParameter,
};
use firstbyte_core::wire::quic::PacketKind;
use serde_json::{Map, Value, json};

use super::dates::rfc3339_micros;

/// File name extension of this format.
pub const ENDING: &str = "sqlog";

/// First byte of a record (RFC 7464 §2.2).
const RECORD_SEPARATOR: u8 = 0x1e;

/// The log of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The connection ID that the client first sent to, used as the file name; absent if unknown.
    pub original_connection_id: Option<String>,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// The logs of a visit's connections, redirects first; empty if none was over QUIC. `way` describes the visit's
/// role in a run, if it has one.
pub fn traces(sample: &Sample, way: Option<&str>) -> Vec<Trace> {
    let connections = sample.redirects.iter().chain([&sample.connection]);
    connections.filter_map(|connection| trace(connection, way)).collect()
}

fn trace(connection: &Connection, way: Option<&str>) -> Option<Trace> {
    let quic = connection.facts.quic.as_ref()?;
    let log = quic.log.as_deref()?;
    let mut bytes = Vec::new();
    record(&mut bytes, &header(connection, log, way));
    for (at, name, data) in events(connection, quic, log) {
        let event = json!({ "time": milliseconds(at), "name": name, "data": data });
        record(&mut bytes, &event);
    }
    Some(Trace { original_connection_id: log.original_connection_id.clone(), bytes })
}

fn record(out: &mut Vec<u8>, value: &Value) {
    out.push(RECORD_SEPARATOR);
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}

fn header(connection: &Connection, log: &QuicLog, way: Option<&str>) -> Value {
    let mut reference = json!({ "clock_type": "monotonic", "epoch": "unknown" });
    if let Some(started) = connection.started_unix_ns.and_then(rfc3339_micros) {
        reference["wall_clock_time"] = started.into();
    }
    let mut common = json!({ "reference_time": reference, "time_format": "relative_to_epoch" });
    if let Some(id) = &log.original_connection_id {
        common["group_id"] = id.as_str().into();
    }
    let url = shown_url(&connection.url);
    let title = way.map_or_else(|| url.clone(), |way| format!("{url}: {way}"));
    let mut description =
        "Packet times are the kernel's timestamps of their datagrams, where available. HTTP fields \
         are left out."
            .to_owned();
    if connection.facts.reused {
        description += " The connection was already open: this is a later exchange on it.";
    }
    if log.left_out > 0 {
        description += &format!(" {} further packets were not recorded.", log.left_out);
    }
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "description": description,
        "trace": {
            "common_fields": common,
            "vantage_point": {
                "name": concat!("firstbyte ", env!("CARGO_PKG_VERSION")),
                "type": "client",
            },
            "event_schemas": ["urn:ietf:params:qlog:events:quic-12"],
        },
    })
}

type Event = (Offset, &'static str, Value);

/// All events, in chronological order.
fn events(connection: &Connection, quic: &QuicFacts, log: &QuicLog) -> Vec<Event> {
    let mut events = Vec::new();
    let marks = &connection.marks;
    let first = log.packets.first().map(|packet| packet.stamp.at);
    let came = |packet: &&QuicPacket| packet.direction == Direction::Received;
    let answered = log.packets.iter().find(came).map(|packet| packet.stamp.at);
    let facts = &connection.facts;
    if !facts.reused {
        if let (Some(at), Some(local), Some(remote)) = (first, facts.local, facts.remote) {
            let data = json!({ "local": endpoint(local), "remote": endpoint(remote) });
            events.push((at, "quic:connection_started", data));
        }
        if let Some(at) = first.filter(|_| !log.client_parameters.is_empty()) {
            let data = parameters("local", &log.client_parameters, None);
            events.push((at, "quic:parameters_set", data));
        }
        if let (Some(at), Some(version)) = (answered, quic.version.as_deref().and_then(version)) {
            events.push((at, "quic:version_information", json!({ "chosen_version": version })));
        }
        let tls = facts.tls.as_ref();
        if let Some(at) = log.server_parameters_at {
            let cipher = tls.and_then(|tls| tls.cipher_suite.as_deref());
            let data = parameters("remote", &log.server_parameters, cipher);
            events.push((at, "quic:parameters_set", data));
        }
        let alpn = tls.and_then(|tls| tls.alpn.as_deref());
        if let (Some(at), Some(alpn)) = (log.server_parameters_at, alpn) {
            let data = json!({ "chosen_alpn": { "string_value": alpn } });
            events.push((at, "quic:alpn_information", data));
        }
        if let Some(at) = marks.at(Mark::HandshakeConfirmed) {
            let data = json!({ "new": "handshake_confirmed" });
            events.push((at, "quic:connection_state_updated", data));
        }
    }
    events.extend(log.packets.iter().map(packet));
    events.extend(log.recovery.iter().map(|recovery| {
        let mut data = json!({
            "smoothed_rtt": rounded(recovery.smoothed_rtt),
            "congestion_window": recovery.congestion_window,
        });
        // The path's minimum round trip, from the kernel's timestamps if these are better; it is only known at the
        // end.
        if let Some(min_rtt) = quic.min_rtt.filter(|_| log.recovery.last() == Some(recovery)) {
            data["min_rtt"] = rounded(min_rtt).into();
        }
        (recovery.at, "quic:recovery_metrics_updated", data)
    }));
    if let Some(failure) = &connection.failure
        && let Some(at) = failure.at
    {
        let data = json!({ "reason": failure.cause.to_string() });
        events.push((at, "quic:connection_closed", data));
    }
    // A stable sort keeps the order of events with equal times.
    events.sort_by_key(|(at, ..)| *at);
    events
}

fn packet(packet: &QuicPacket) -> Event {
    let name = match packet.direction {
        Direction::Sent => "quic:packet_sent",
        Direction::Received => "quic:packet_received",
    };
    let mut header = json!({ "packet_type": packet_type(packet.kind) });
    let mut data = Map::new();
    if let Some(opened) = &packet.opened {
        header["packet_number"] = opened.number.into();
    }
    data.insert("header".into(), header);
    data.insert("raw".into(), json!({ "length": packet.bytes }));
    data.insert("datagram_id".into(), packet.datagram.into());
    if let Some(opened) = &packet.opened {
        let frames = opened.frames.iter().map(frame::value).collect();
        data.insert("frames".into(), Value::Array(frames));
    }
    (packet.stamp.at, name, Value::Object(data))
}

const fn packet_type(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::Retry => "retry",
        PacketKind::VersionNegotiation => "version_negotiation",
        PacketKind::OneRtt => "1RTT",
    }
}

fn endpoint(address: SocketAddr) -> Value {
    let ip = address.ip().to_string();
    match address {
        SocketAddr::V4(_) => json!({ "ip_v4": ip, "port_v4": address.port() }),
        SocketAddr::V6(_) => json!({ "ip_v6": ip, "port_v6": address.port() }),
    }
}

/// The version number as hexadecimal digits.
fn version(name: &str) -> Option<String> {
    match name {
        "1" => Some("00000001".into()),
        "2" => Some("6b3343cf".into()),
        other => other.strip_prefix("0x").map(str::to_owned),
    }
}

/// Names of numeric transport parameters (RFC 9000 §18.2, RFC 9221 §3).
const PARAMETERS: [(u64, &str); 12] = [
    (0x01, "max_idle_timeout"),
    (0x03, "max_udp_payload_size"),
    (0x04, "initial_max_data"),
    (0x05, "initial_max_stream_data_bidi_local"),
    (0x06, "initial_max_stream_data_bidi_remote"),
    (0x07, "initial_max_stream_data_uni"),
    (0x08, "initial_max_streams_bidi"),
    (0x09, "initial_max_streams_uni"),
    (0x0a, "ack_delay_exponent"),
    (0x0b, "max_ack_delay"),
    (0x0e, "active_connection_id_limit"),
    (0x20, "max_datagram_frame_size"),
];
/// Transport parameters without a value (RFC 9287 §3).
const FLAGS: [(u64, &str); 2] = [(0x0c, "disable_active_migration"), (0x2ab2, "grease_quic_bit")];

fn parameters(initiator: &str, all: &[TransportParameter], cipher: Option<&str>) -> Value {
    let mut data = Map::new();
    data.insert("initiator".into(), initiator.into());
    if let Some(cipher) = cipher {
        data.insert("tls_cipher".into(), cipher.into());
    }
    let mut unknown = Vec::new();
    for TransportParameter { id, value } in all {
        let named = |names: &[(u64, &'static str)]| {
            names.iter().find(|(number, _)| number == id).map(|(_, name)| *name)
        };
        if let Some(name) = named(&PARAMETERS) {
            data.insert(name.into(), (*value).into());
        } else if let Some(name) = named(&FLAGS) {
            data.insert(name.into(), true.into());
        } else {
            unknown.push(json!({ "id": id, "value": as_sent(*value) }));
        }
    }
    data.insert("unknown_parameters".into(), Value::Array(unknown));
    Value::Object(data)
}

/// A variable-length integer as QUIC encodes it (RFC 9000 §16), in hexadecimal digits.
fn as_sent(value: u64) -> String {
    match value {
        0..0x40 => format!("{value:02x}"),
        0x40..0x4000 => format!("{:04x}", value | 0x4000),
        0x4000..0x4000_0000 => format!("{:08x}", value | 0x8000_0000),
        _ => format!("{:016x}", value | 0xc000_0000_0000_0000),
    }
}

/// To the microsecond, the precision of kernel timestamps.
fn milliseconds(at: Offset) -> f64 {
    (at.as_nanos() as f64 / 1e3).round() / 1e3
}

fn rounded(duration: Duration) -> f64 {
    milliseconds(Offset::ZERO + duration)
}
