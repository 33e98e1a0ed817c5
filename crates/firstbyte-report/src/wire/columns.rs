//! The columns of connections, shared by CSV and Parquet.
//!
//! `docs/formats.md`, "Rows of connections", is generated from here.

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
        /// All columns, in order. Within a version of the format, new columns are only appended.
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
        "how the client is known: `opening`, `hello`, `unknown` (it sent first)";
    "started", Timestamp, |o| timestamp(o.started.unix_ns()),
        "JSON: `started_unix_ns`";
    "duration", Time, |o| time(o.last.since(o.started)),
        "first packet to last";
    "ending", Text, |o| text(o.ending.name()),
        "`closed`, `reset-by-client`, `reset-by-server`, `refused`, `unanswered`, `replaced`, `idle`, `evicted`, `open`";
    "session", Text, |o| Some(session(o)).filter(|session| !session.is_empty()).and_then(text),
        "not in JSON: `full`, `declined`, `full+HRR`, `resumed`, `0-RTT`, `0-RTT no`, `0-RTT ?`, `refused`, `silent`";
    "rtt", Time, |o| o.round_trips.path().and_then(time),
        "not in JSON: smallest round trip to the client plus smallest to the server";
    "rtt_server_syn", Time, |o| o.round_trips.server_syn.and_then(time),
        "from the tap, of the opening";
    "rtt_client_syn", Time, |o| o.round_trips.client_syn.and_then(time),
        "";
    "rtt_server_min", Time, |o| o.round_trips.server_min.and_then(time),
        "smallest up to the end of the handshake";
    "rtt_client_min", Time, |o| o.round_trips.client_min.and_then(time),
        "";
    "tap_position", Number, |o| o.round_trips.tap_position().and_then(number),
        "0 at the client, 1 at the server";
    "handshake", Time, |o| time(o.handshake_time?.total()),
        "JSON: `handshake_time.total_ns`; empty if its end or a round trip was not seen";
    "handshake_network", Time, |o| time(o.handshake_time?.network),
        "JSON: `handshake_time.network_ns` …";
    "handshake_server", Time, |o| time(o.handshake_time?.server),
        "";
    "handshake_client", Time, |o| time(o.handshake_time?.client),
        "";
    "handshake_round_trips", Integer, |o| integer(o.handshake_time?.round_trips),
        "";
    "handshake_confident", Boolean, |o| boolean(o.handshake_time?.confident),
        "";
    "exchanges", Integer, |o| integer(o.exchanges.count?),
        "JSON: `exchanges.count`; empty if the end of the handshake was not seen";
    "exchanges_answered", Integer, |o| o.exchanges.count.and(integer(o.exchanges.answered)),
        "";
    "exchanges_time", Time, |o| o.exchanges.count.and(o.exchanges.time).and_then(time),
        "";
    "exchanges_approximate", Boolean, |o| o.exchanges.count.and(boolean(o.exchanges.approximate)),
        "";
    "tls_version_offered", Text, |o| text(version(tls(o)?.version_offered?)),
        "`TLSv1.3` … `SSLv2`, `TLSv1.3 draft`";
    "tls_version", Text, |o| text(version(tls(o)?.version?)),
        "";
    "tls_cipher_suite", Text, |o| text(names::cipher_suite(tls(o)?.cipher_suite?)),
        "IANA name or number";
    "tls_group", Text, |o| text(names::group(tls(o)?.group?)),
        "IANA name or number";
    "tls_post_quantum", Boolean, |o| boolean(names::post_quantum(tls(o)?.group?)),
        "the group withstands quantum computers";
    "tls_sni", Text, |o| text(tls(o)?.sni.as_deref()?),
        "";
    "tls_alpn_offered", Text, |o| text(tls(o)?.alpn_offered.as_deref()?),
        "joined by commas";
    "tls_alpn", Text, |o| text(tls(o)?.alpn.as_deref()?),
        "encrypted in TLS 1.3";
    "tls_ech_offered", Boolean, |o| tls(o).filter(|t| t.client_hello).and_then(|t| boolean(t.ech_offered)),
        "Encrypted ClientHello or its imitation (GREASE)";
    "tls_handshake", Text, |o| text(tls(o)?.handshake?.name()),
        "`full`, `full-hello-retry-request`, `resumed`";
    "tls_session_offered", Text, |o| text(tls(o)?.resumption.offered?.name()),
        "`session-id`, `ticket`, `psk`";
    "tls_session_accepted", Text, |o| text(tls(o)?.resumption.accepted?.name()),
        "";
    "tls_session_declined", Boolean, |o| tls(o)
        .filter(|t| t.handshake.is_some() && !t.offer_is_unknown())
        .and_then(|t| boolean(t.resumption.declined)),
        "full handshake despite an offer";
    "tls_hello_retry_request", Boolean, |o| tls(o)
        .filter(|t| t.server_hello || t.hello_retry_request)
        .and_then(|t| boolean(t.hello_retry_request)),
        "";
    "tls_early_data_offered", Boolean, |o| tls(o)
        .filter(|t| t.client_hello)
        .and_then(|t| boolean(t.early_data.is_some_and(|early| early.offered))),
        "the extension";
    "tls_early_data_bytes", Integer, |o| integer(tls(o)?.early_data?.bytes),
        "sent before an answer was acknowledged or, unless refused, before Finished";
    "tls_early_data_accepted", Boolean, |o| tls(o)?.early_data?.accepted.and_then(boolean),
        "";
    "tls_client_hello_bytes", Integer, |o| integer(tls(o)?.client_hello_bytes?),
        "the last ClientHello";
    "tls_client_key_exchange_bytes", Integer, |o| integer(tls(o)?.client_key_exchange_bytes?),
        "public value";
    "tls_server_key_exchange_bytes", Integer, |o| integer(tls(o)?.server_key_exchange_bytes?),
        "public value";
    "tls_server_flight_bytes", Integer, |o| integer(tls(o)?.server_flight_bytes?),
        "records of the first flight";
    "tls_certificate_count", Integer, |o| integer(tls(o)?.certificates?.count),
        "certificates only up to TLS 1.2";
    "tls_certificate_chain_bytes", Integer, |o| integer(tls(o)?.certificates?.chain_bytes),
        "";
    "tls_certificate_key", Text, |o| tls(o)?
        .certificates?
        .key
        .map(CertificateKey::name)
        .and_then(text),
        "`RSA 2048`, `ECDSA P-256`";
    "tls_tickets", Integer, |o| integer(tls(o)?.tickets?),
        "NewSessionTickets in the clear (TLS 1.2)";
    "tls_tickets_inferred", Integer, |o| integer(tls(o)?.tickets_inferred?),
        "by place and size (TLS 1.3)";
    "tls_alert", Text, |o| alert(tls(o)?).and_then(text),
        "the first except close_notify; `encrypted` if unreadable";
    "tls_alert_by", Text, |o| tls(o)?.alert.and_then(|a| text(if a.by_client { "client" } else { "server" })),
        "";
    "tls_complete", Boolean, |o| boolean(tls(o)?.complete),
        "both Finished messages were seen";
    "quic_version", Text, |o| text(names::quic_version(quic(o)?.version?)),
        "`1`, `2`, `draft-29` or a number";
    "quic_retries", Integer, |o| integer(quic(o)?.retries),
        "";
    "quic_version_negotiations", Integer, |o| integer(quic(o)?.version_negotiations),
        "";
    "quic_migrations", Integer, |o| integer(quic(o)?.migrations),
        "an end's address changed, its connection ID did not";
    "quic_unvalidated_bytes", Integer, |o| integer(quic(o)?.unvalidated_bytes?),
        "sent before the client's address was validated";
    "quic_limit_stall", Time, |o| quic(o)?.limit_stall.and_then(time),
        "time the server stood at three times the bytes received";
    "quic_spin_rtt", Time, |o| quic(o)?.spin_round_trip.and_then(time),
        "by the spin bit";
    "sent_packets", Integer, |o| integer(o.sent.packets),
        "`sent`: by the client";
    "sent_bytes", Integer, |o| integer(o.sent.bytes),
        "of payload, each once";
    "sent_retransmitted_packets", Integer, |o| integer(o.sent.retransmitted),
        "payload or SYN again, not a FIN";
    "sent_missing_bytes", Integer, |o| integer(o.sent.missing_bytes),
        "";
    "received_packets", Integer, |o| integer(o.received.packets),
        "`received`: by the server";
    "received_bytes", Integer, |o| integer(o.received.bytes),
        "";
    "received_retransmitted_packets", Integer, |o| integer(o.received.retransmitted),
        "";
    "received_missing_bytes", Integer, |o| integer(o.received.missing_bytes),
        "";
    "longest_idle", Time, |o| o.longest_idle.and_then(time),
        "without a packet";
    "doubts", Text, |o| {
        let names: Vec<&str> = o.doubts.names().collect();
        if names.is_empty() { None } else { text(names.join(" ")) }
    },
        "names, in CSV separated by spaces ([wire.md](wire.md#doubts))";
    "failed", Text, |o| text(Failed::judge(o)?.name()),
        "`refused`, `unanswered`, `alert`, `reset`, `closed` ([wire.md](wire.md#failures))";
    "tls_session_issued", Boolean, |o| tls(o)?.session_issued.and_then(boolean),
        "a ticket or session ID was issued";
    "held_back_segments", Integer, |o| integer(o.held_back?.segments),
        "the server's, delayed by Nagle's algorithm";
    "held_back", Time, |o| time(o.held_back?.time),
        "at most";
    "failure_type", Text, |o| text(Failed::judge(o)?.failure_type(o).as_str()),
        "[type](#types-of-failures)";
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
