//! The columns of connections: what CSV and Parquet have in common.
//!
//! Described in `docs/formats.md`, "Rows of connections", which is made from here.

use firstbyte_passive::{CertificateKey, Failed, Observed, QuicSeen, TlsSeen, names};

use super::connections::session;
use crate::columns::{
    Column, ColumnType, ColumnValue, boolean, integer, number, text, time, timestamp,
};

/// A column of connections.
pub(super) type ConnectionColumn = Column<for<'a> fn(&'a Observed) -> Option<ColumnValue<'a>>>;

fn tls(observed: &Observed) -> Option<&TlsSeen> {
    observed.tls.as_deref()
}

fn quic(observed: &Observed) -> Option<&QuicSeen> {
    observed.quic.as_deref()
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
    ($($name:literal, $holds:ident, $get:expr, $doc:literal;)*) => {
        /// All columns, in order. Within a version of the format columns are only added, at the end.
        pub(super) const COLUMNS: &[ConnectionColumn] =
            &[$(Column { name: $name, holds: ColumnType::$holds, get: $get, doc: $doc }),*];
    };
}

columns! {
    "number", Integer, |o| integer(o.number),
        "from 1, in the order of first packets";
    "carrier", Text, |o| text(o.carrier.name()),
        "`tcp`, `quic`";
    "client", Text, |o| text(o.client.socket_addr().to_string()),
        "`address:port`";
    "server", Text, |o| text(o.server.socket_addr().to_string()),
        "`address:port`";
    "roles", Text, |o| text(o.roles.name()),
        "how client and server were told apart: `opening`, `hello`, `unknown`";
    "started", Timestamp, |o| timestamp(o.started.unix_ns()),
        "the first packet";
    "duration", Time, |o| time(o.last.since(o.started)),
        "from the first packet to the last";
    "ending", Text, |o| text(o.ending.name()),
        "as in JSON";
    "session", Text, |o| Some(session(o)).filter(|session| !session.is_empty()).and_then(text),
        "as in the table of `wire`: `full`, `declined`, `full+HRR`, `resumed`, `0-RTT`, `0-RTT no`, `0-RTT ?`, `refused`, `silent`";
    "rtt", Time, |o| o.round_trips.path().and_then(time),
        "the sum of the two smallest round trips, to either side";
    "rtt_server_syn", Time, |o| o.round_trips.server_syn.and_then(time),
        "round trip of the TCP or QUIC opening, tap to server";
    "rtt_client_syn", Time, |o| o.round_trips.client_syn.and_then(time),
        "the same, tap to client";
    "rtt_server_min", Time, |o| o.round_trips.server_min.and_then(time),
        "the smallest up to the end of the handshake, tap to server";
    "rtt_client_min", Time, |o| o.round_trips.client_min.and_then(time),
        "the same, tap to client";
    "tap_position", Number, |o| o.round_trips.tap_position().and_then(number),
        "0 at the client, 1 at the server";
    "handshake", Time, |o| time(o.handshake_time?.total()),
        "the handshake's time";
    "handshake_network", Time, |o| time(o.handshake_time?.network),
        "of it, round trips";
    "handshake_server", Time, |o| time(o.handshake_time?.server),
        "of it, the server's";
    "handshake_client", Time, |o| time(o.handshake_time?.client),
        "of it, the client's";
    "handshake_round_trips", Integer, |o| integer(o.handshake_time?.round_trips),
        "JSON's `handshake_time.round_trips`";
    "handshake_confident", Boolean, |o| boolean(o.handshake_time?.confident),
        "JSON's `handshake_time.confident`";
    "exchanges", Integer, |o| integer(o.exchanges.count?),
        "JSON's `exchanges.count`";
    "exchanges_answered", Integer, |o| o.exchanges.count.and(integer(o.exchanges.answered)),
        "answered exchanges; empty if the end of the handshake was not seen";
    "exchanges_time", Time, |o| o.exchanges.count.and(o.exchanges.time).and_then(time),
        "total time of the exchanges; empty if the end of the handshake was not seen";
    "exchanges_approximate", Boolean, |o| o.exchanges.count.and(boolean(o.exchanges.approximate)),
        "JSON's `exchanges.approximate`; empty if the end of the handshake was not seen";
    "tls_version_offered", Text, |o| text(version(tls(o)?.version_offered?)),
        "JSON's `tls.version_offered`";
    "tls_version", Text, |o| text(version(tls(o)?.version?)),
        "JSON's `tls.version`";
    "tls_cipher_suite", Text, |o| text(names::cipher_suite(tls(o)?.cipher_suite?)),
        "JSON's `tls.cipher_suite`";
    "tls_group", Text, |o| text(names::group(tls(o)?.group?)),
        "JSON's `tls.group`";
    "tls_post_quantum", Boolean, |o| boolean(names::post_quantum(tls(o)?.group?)),
        "JSON's `tls.post_quantum`";
    "tls_sni", Text, |o| text(tls(o)?.sni.as_deref()?),
        "JSON's `tls.sni`";
    "tls_alpn_offered", Text, |o| text(tls(o)?.alpn_offered.as_deref()?),
        "JSON's `tls.alpn_offered`";
    "tls_alpn", Text, |o| text(tls(o)?.alpn.as_deref()?),
        "JSON's `tls.alpn`";
    "tls_ech_offered", Boolean, |o| tls(o).filter(|t| t.client_hello).and_then(|t| boolean(t.ech_offered)),
        "JSON's `tls.ech_offered`; only with a ClientHello";
    "tls_handshake", Text, |o| text(tls(o)?.handshake?.name()),
        "JSON's `tls.handshake`";
    "tls_session_offered", Text, |o| text(tls(o)?.resumption.offered?.name()),
        "JSON's `tls.session_offered`";
    "tls_session_accepted", Text, |o| text(tls(o)?.resumption.accepted?.name()),
        "JSON's `tls.session_accepted`";
    "tls_session_declined", Boolean, |o| tls(o)
        .filter(|t| t.handshake.is_some() && !t.offer_is_unknown())
        .and_then(|t| boolean(t.resumption.declined)),
        "JSON's `tls.session_declined`; only if visible";
    "tls_hello_retry_request", Boolean, |o| tls(o)
        .filter(|t| t.server_hello || t.hello_retry_request)
        .and_then(|t| boolean(t.hello_retry_request)),
        "JSON's `tls.hello_retry_request`; only if visible";
    "tls_early_data_offered", Boolean, |o| tls(o)
        .filter(|t| t.client_hello)
        .and_then(|t| boolean(t.early_data.is_some_and(|early| early.offered))),
        "JSON's `tls.early_data_offered`; only with a ClientHello";
    "tls_early_data_bytes", Integer, |o| integer(tls(o)?.early_data?.bytes),
        "JSON's `tls.early_data_bytes`";
    "tls_early_data_accepted", Boolean, |o| tls(o)?.early_data?.accepted.and_then(boolean),
        "JSON's `tls.early_data_accepted`";
    "tls_client_hello_bytes", Integer, |o| integer(tls(o)?.client_hello_bytes?),
        "JSON's `tls.client_hello_bytes`";
    "tls_client_key_exchange_bytes", Integer, |o| integer(tls(o)?.client_key_exchange_bytes?),
        "JSON's `tls.client_key_exchange_bytes`";
    "tls_server_key_exchange_bytes", Integer, |o| integer(tls(o)?.server_key_exchange_bytes?),
        "JSON's `tls.server_key_exchange_bytes`";
    "tls_server_flight_bytes", Integer, |o| integer(tls(o)?.server_flight_bytes?),
        "JSON's `tls.server_flight_bytes`";
    "tls_certificate_count", Integer, |o| integer(tls(o)?.certificates?.count),
        "JSON's `tls.certificate_count`";
    "tls_certificate_chain_bytes", Integer, |o| integer(tls(o)?.certificates?.chain_bytes),
        "JSON's `tls.certificate_chain_bytes`";
    "tls_certificate_key", Text, |o| tls(o)?
        .certificates?
        .key
        .map(CertificateKey::name)
        .and_then(text),
        "JSON's `tls.certificate_key`";
    "tls_tickets", Integer, |o| integer(tls(o)?.tickets?),
        "JSON's `tls.tickets`";
    "tls_tickets_inferred", Integer, |o| integer(tls(o)?.tickets_inferred?),
        "JSON's `tls.tickets_inferred`";
    "tls_alert", Text, |o| alert(tls(o)?).and_then(text),
        "JSON's `tls.alert`";
    "tls_alert_by", Text, |o| tls(o)?.alert.and_then(|a| text(if a.by_client { "client" } else { "server" })),
        "JSON's `tls.alert_by`";
    "tls_complete", Boolean, |o| boolean(tls(o)?.complete),
        "JSON's `tls.complete`";
    "quic_version", Text, |o| text(names::quic_version(quic(o)?.version?)),
        "JSON's `quic.version`";
    "quic_retries", Integer, |o| integer(quic(o)?.retries),
        "JSON's `quic.retries`";
    "quic_version_negotiations", Integer, |o| integer(quic(o)?.version_negotiations),
        "JSON's `quic.version_negotiations`";
    "quic_migrations", Integer, |o| integer(quic(o)?.migrations),
        "JSON's `quic.migrations`";
    "quic_unvalidated_bytes", Integer, |o| integer(quic(o)?.unvalidated_bytes?),
        "JSON's `quic.unvalidated_bytes`";
    "quic_limit_stall", Time, |o| quic(o)?.limit_stall.and_then(time),
        "JSON's `quic.limit_stall_ns`";
    "quic_spin_rtt", Time, |o| quic(o)?.spin_round_trip.and_then(time),
        "JSON's `quic.spin_rtt_ns`";
    "sent_packets", Integer, |o| integer(o.sent.packets),
        "JSON's `sent.packets`";
    "sent_bytes", Integer, |o| integer(o.sent.bytes),
        "JSON's `sent.bytes`";
    "sent_retransmitted_packets", Integer, |o| integer(o.sent.retransmitted),
        "JSON's `sent.retransmitted_packets`";
    "sent_missing_bytes", Integer, |o| integer(o.sent.missing_bytes),
        "JSON's `sent.missing_bytes`";
    "received_packets", Integer, |o| integer(o.received.packets),
        "JSON's `received.packets`";
    "received_bytes", Integer, |o| integer(o.received.bytes),
        "JSON's `received.bytes`";
    "received_retransmitted_packets", Integer, |o| integer(o.received.retransmitted),
        "JSON's `received.retransmitted_packets`";
    "received_missing_bytes", Integer, |o| integer(o.received.missing_bytes),
        "JSON's `received.missing_bytes`";
    "longest_idle", Time, |o| o.longest_idle.and_then(time),
        "longest time without a packet";
    "doubts", Text, |o| {
        let names: Vec<&str> = o.doubts.names().collect();
        if names.is_empty() { None } else { text(names.join(" ")) }
    },
        "names, separated by spaces";
    "failed", Text, |o| text(Failed::judge(o)?.name()),
        "as in JSON";
    "tls_session_issued", Boolean, |o| tls(o)?.session_issued.and_then(boolean),
        "JSON's `tls.session_issued`";
    "held_back_segments", Integer, |o| integer(o.held_back?.segments),
        "as in JSON";
    "held_back", Time, |o| time(o.held_back?.time),
        "as in JSON";
    "failure_type", Text, |o| text(Failed::judge(o)?.failure_type(o).as_str()),
        "as in JSON";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::described::{assert_documented, row};

    #[test]
    fn the_table_in_the_documents_is_this_one() {
        let rows: Vec<String> = COLUMNS
            .iter()
            .map(|column| row(&[format!("`{}`", column.name)], column.holds, column.doc))
            .collect();
        assert_documented("### Rows of connections", &rows);
    }
}
