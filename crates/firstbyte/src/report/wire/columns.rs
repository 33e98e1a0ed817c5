//! The columns of connections: what CSV and Parquet have in common.
//!
//! Names are without the unit of times, which the two forms differ in. Described in `docs/formats.md`. What
//! is not known has no value: an empty field, or null.

use std::time::Duration;

use firstbyte_core::passive::{CertificateKey, Failed, Observed, QuicSeen, TlsSeen, names};

use super::connections::session;

/// The value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Number(f64),
    Text(String),
    Bool(bool),
    /// A length of time.
    Time(Duration),
    /// A point in time, nanoseconds since the Unix epoch.
    Point(i64),
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Number,
    Text,
    Bool,
    Time,
    Point,
}

type Get = fn(&Observed) -> Option<Value>;

/// A column: its name, what it holds, and where from.
pub(super) struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub get: Get,
}

fn tls(observed: &Observed) -> Option<&TlsSeen> {
    observed.tls.as_deref()
}

fn quic(observed: &Observed) -> Option<&QuicSeen> {
    observed.quic.as_deref()
}

fn int(value: impl TryInto<i64>) -> Option<Value> {
    value.try_into().ok().map(Value::Int)
}

fn text(value: impl Into<String>) -> Option<Value> {
    Some(Value::Text(value.into()))
}

fn version(number: u16) -> String {
    names::version(number).map_or_else(|| format!("0x{number:04x}"), str::to_owned)
}

fn alert(tls: &TlsSeen) -> Option<String> {
    Some(match tls.alert?.description {
        Some(number) => names::alert(number).map_or_else(|| number.to_string(), str::to_owned),
        None => "encrypted".into(),
    })
}

macro_rules! columns {
    ($($name:literal $kind:ident $get:expr;)*) => {
        /// All columns, in order. Within a version of the format columns are only added, at the end.
        pub(super) const COLUMNS: &[Column] =
            &[$(Column { name: $name, kind: Kind::$kind, get: $get }),*];
    };
}

columns! {
    "number" Int |o| int(o.number);
    "carrier" Text |o| text(o.carrier.name());
    "client" Text |o| text(o.client.socket_addr().to_string());
    "server" Text |o| text(o.server.socket_addr().to_string());
    "roles" Text |o| text(o.roles.name());
    "started" Point |o| Some(Value::Point(o.started.unix_ns()));
    "duration" Time |o| Some(Value::Time(o.last.since(o.started)));
    "ending" Text |o| text(o.ending.name());
    "session" Text |o| text(session(o)).filter(|v| *v != Value::Text(String::new()));
    "rtt" Time |o| o.round_trips.path().map(Value::Time);
    "rtt_server_syn" Time |o| o.round_trips.server_syn.map(Value::Time);
    "rtt_client_syn" Time |o| o.round_trips.client_syn.map(Value::Time);
    "rtt_server_min" Time |o| o.round_trips.server_min.map(Value::Time);
    "rtt_client_min" Time |o| o.round_trips.client_min.map(Value::Time);
    "tap_position" Number |o| o.round_trips.tap_position().map(Value::Number);
    "handshake" Time |o| o.handshake_time.map(|t| Value::Time(t.total()));
    "handshake_network" Time |o| o.handshake_time.map(|t| Value::Time(t.network));
    "handshake_server" Time |o| o.handshake_time.map(|t| Value::Time(t.server));
    "handshake_client" Time |o| o.handshake_time.map(|t| Value::Time(t.client));
    "handshake_round_trips" Int |o| int(o.handshake_time?.round_trips);
    "handshake_confident" Bool |o| o.handshake_time.map(|t| Value::Bool(t.confident));
    "exchanges" Int |o| int(o.exchanges.count?);
    "exchanges_answered" Int |o| o.exchanges.count.and(int(o.exchanges.answered));
    "exchanges_time" Time |o| o.exchanges.count.and(o.exchanges.time).map(Value::Time);
    "exchanges_approximate" Bool
        |o| o.exchanges.count.map(|_| Value::Bool(o.exchanges.approximate));
    "tls_version_offered" Text |o| text(version(tls(o)?.version_offered?));
    "tls_version" Text |o| text(version(tls(o)?.version?));
    "tls_cipher_suite" Text |o| text(names::cipher_suite(tls(o)?.cipher_suite?));
    "tls_group" Text |o| text(names::group(tls(o)?.group?));
    "tls_post_quantum" Bool |o| Some(Value::Bool(names::post_quantum(tls(o)?.group?)));
    "tls_sni" Text |o| text(tls(o)?.sni.as_deref()?);
    "tls_alpn_offered" Text |o| text(tls(o)?.alpn_offered.as_deref()?);
    "tls_alpn" Text |o| text(tls(o)?.alpn.as_deref()?);
    "tls_ech_offered" Bool
        |o| tls(o).filter(|t| t.client_hello).map(|t| Value::Bool(t.ech_offered));
    "tls_handshake" Text |o| text(tls(o)?.handshake?.name());
    "tls_session_offered" Text |o| text(tls(o)?.resumption.offered?.name());
    "tls_session_accepted" Text |o| text(tls(o)?.resumption.accepted?.name());
    "tls_session_declined" Bool
        |o| tls(o)
        .filter(|t| t.handshake.is_some() && !t.offer_is_unknown())
        .map(|t| Value::Bool(t.resumption.declined));
    "tls_hello_retry_request" Bool |o| tls(o)
        .filter(|t| t.server_hello || t.hello_retry_request)
        .map(|t| Value::Bool(t.hello_retry_request));
    "tls_early_data_offered" Bool |o| tls(o)
        .filter(|t| t.client_hello)
        .map(|t| Value::Bool(t.early_data.is_some_and(|early| early.offered)));
    "tls_early_data_bytes" Int |o| int(tls(o)?.early_data?.bytes);
    "tls_early_data_accepted" Bool |o| tls(o)?.early_data?.accepted.map(Value::Bool);
    "tls_client_hello_bytes" Int |o| int(tls(o)?.client_hello_bytes?);
    "tls_client_key_exchange_bytes" Int |o| int(tls(o)?.client_key_exchange_bytes?);
    "tls_server_key_exchange_bytes" Int |o| int(tls(o)?.server_key_exchange_bytes?);
    "tls_server_flight_bytes" Int |o| int(tls(o)?.server_flight_bytes?);
    "tls_certificate_count" Int |o| int(tls(o)?.certificates?.count);
    "tls_certificate_chain_bytes" Int |o| int(tls(o)?.certificates?.chain_bytes);
    "tls_certificate_key" Text |o| tls(o)?
        .certificates?
        .key
        .map(CertificateKey::name)
        .map(Value::Text);
    "tls_tickets" Int |o| int(tls(o)?.tickets?);
    "tls_tickets_inferred" Int |o| int(tls(o)?.tickets_inferred?);
    "tls_alert" Text |o| alert(tls(o)?).map(Value::Text);
    "tls_alert_by" Text
        |o| tls(o)?.alert.and_then(|a| text(if a.by_client { "client" } else { "server" }));
    "tls_complete" Bool |o| tls(o).map(|t| Value::Bool(t.complete));
    "quic_version" Text |o| text(names::quic_version(quic(o)?.version?));
    "quic_retries" Int |o| int(quic(o)?.retries);
    "quic_version_negotiations" Int |o| int(quic(o)?.version_negotiations);
    "quic_migrations" Int |o| int(quic(o)?.migrations);
    "quic_unvalidated_bytes" Int |o| int(quic(o)?.unvalidated_bytes?);
    "quic_limit_stall" Time |o| quic(o)?.limit_stall.map(Value::Time);
    "quic_spin_rtt" Time |o| quic(o)?.spin_round_trip.map(Value::Time);
    "sent_packets" Int |o| int(o.sent.packets);
    "sent_bytes" Int |o| int(o.sent.bytes);
    "sent_retransmitted_packets" Int |o| int(o.sent.retransmitted);
    "sent_missing_bytes" Int |o| int(o.sent.missing_bytes);
    "received_packets" Int |o| int(o.received.packets);
    "received_bytes" Int |o| int(o.received.bytes);
    "received_retransmitted_packets" Int |o| int(o.received.retransmitted);
    "received_missing_bytes" Int |o| int(o.received.missing_bytes);
    "longest_idle" Time |o| o.longest_idle.map(Value::Time);
    "doubts" Text |o| {
        let names: Vec<&str> = o.doubts.names().collect();
        (!names.is_empty()).then(|| Value::Text(names.join(" ")))
    };
    "failed" Text |o| text(Failed::of(o)?.name());
    "tls_session_issued" Bool |o| tls(o)?.session_issued.map(Value::Bool);
    "held_back_segments" Int |o| int(o.held_back?.segments);
    "held_back" Time |o| o.held_back.map(|held| Value::Time(held.time));
    "failure_type" Text |o| text(Failed::of(o)?.failure_type(o).as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_described() {
        let formats = include_str!("../../../../../docs/formats.md");
        let from = formats.find("### Rows of connections").unwrap();
        let to = formats.find("### Zeek's log").unwrap();
        for column in COLUMNS {
            let name = format!("`{}`", column.name);
            assert!(formats[from..to].contains(&name), "{name} is not described");
        }
    }
}
