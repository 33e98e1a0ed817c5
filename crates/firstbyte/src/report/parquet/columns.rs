//! The columns: names with units, and what is in them.

use std::time::Duration;

use firstbyte_core::run::{Cell, Metric, Row, Taken};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    Connection, Failure, HttpFacts, Mark, QuicFacts, TcpFacts, TlsFacts,
};

use super::super::csv;

/// What a row is made of.
pub(super) struct Seen<'a> {
    pub cell: &'a Cell,
    taken: &'a Taken,
    row: Row,
    split: Split,
}

impl<'a> Seen<'a> {
    pub(super) fn of(cell: &'a Cell, taken: &'a Taken) -> Self {
        Self { cell, taken, row: taken.row(), split: Split::of(&taken.sample.connection) }
    }

    const fn connection(&self) -> &Connection {
        &self.taken.sample.connection
    }

    const fn tcp(&self) -> Option<&TcpFacts> {
        self.connection().facts.tcp.as_ref()
    }

    const fn quic(&self) -> Option<&QuicFacts> {
        self.connection().facts.quic.as_ref()
    }

    const fn tls(&self) -> Option<&TlsFacts> {
        self.connection().facts.tls.as_ref()
    }

    const fn http(&self) -> Option<&HttpFacts> {
        self.connection().facts.http.as_ref()
    }
}

type Getter<T> = Box<dyn Fn(&Seen<'_>) -> Option<T> + Send>;

/// Where a column's values come from.
pub(super) enum Get {
    Int(Getter<i64>),
    /// Nanoseconds since the Unix epoch.
    Time(Getter<i64>),
    /// In nanoseconds.
    Duration(Getter<Duration>),
    Text(Getter<String>),
    Bool(Getter<bool>),
    /// The value of an axis.
    Factor(String),
}

pub(super) struct Column {
    pub name: String,
    pub get: Get,
}

fn column(name: impl Into<String>, get: Get) -> Column {
    Column { name: name.into(), get }
}

fn int<N: TryInto<i64>>(
    name: impl Into<String>,
    get: impl Fn(&Seen<'_>) -> Option<N> + Send + 'static,
) -> Column {
    column(name, Get::Int(Box::new(move |seen| get(seen).and_then(|n| n.try_into().ok()))))
}

fn duration(
    name: impl Into<String>,
    get: impl Fn(&Seen<'_>) -> Option<Duration> + Send + 'static,
) -> Column {
    column(name, Get::Duration(Box::new(get)))
}

fn text<T: ToString>(
    name: &str,
    get: impl for<'a> Fn(&'a Seen<'_>) -> Option<T> + Send + 'static,
) -> Column {
    column(name, Get::Text(Box::new(move |seen| get(seen).map(|value| value.to_string()))))
}

fn bool(name: &str, get: impl Fn(&Seen<'_>) -> Option<bool> + Send + 'static) -> Column {
    column(name, Get::Bool(Box::new(get)))
}

/// The columns of a run with these axes.
pub(super) fn all(axes: &[String]) -> Vec<Column> {
    let mut columns =
        vec![int("cell", |s| Some(s.row.cell)), text("cell_name", |s| Some(s.cell.name()))];
    columns
        .extend(axes.iter().map(|axis| column(csv::axis_column(axis), Get::Factor(axis.clone()))));
    columns.extend([
        int("round", |s| Some(s.row.round)),
        bool("warmup", |s| Some(s.row.warmup)),
        text("standing", |s| Some(csv::standing(s.row.standing).0)),
        text("shortfall", |s| csv::standing(s.row.standing).1),
        column(
            "started",
            Get::Time(Box::new(|s| {
                s.connection().started_unix_ns.and_then(|ns| ns.try_into().ok())
            })),
        ),
        int("lateness_ns", |s| Some(s.row.lateness_ns)),
        text("url", |s| Some(s.taken.sample.requested_url.clone()).filter(|url| !url.is_empty())),
    ]);
    for metric in Metric::ALL {
        columns.push(int(format!("{}_ns", metric.name()), move |s| s.row.metric(metric)));
    }
    for mark in Mark::ALL {
        let at = move |s: &Seen<'_>| s.connection().marks.at(mark).map(|at| at.as_nanos());
        columns.push(int(format!("mark_{}_ns", mark.name()), at));
    }
    let parts = Split::of(&Connection::default()).parts.named();
    for (index, (part, _)) in parts.into_iter().enumerate() {
        let of = move |s: &Seen<'_>| Some(s.split.parts.named()[index].1);
        columns.push(duration(format!("part_{part}_ns"), of));
    }
    columns.extend([
        duration("server_uncertainty_ns", |s| s.split.server_uncertainty()),
        duration("rtt_ns", |s| s.split.rtt),
        int("round_trips", |s| Some(s.split.round_trips)),
    ]);
    columns.extend(connection_columns());
    columns.extend(tls_columns());
    columns.extend(http_columns());
    columns.extend(failure_columns());
    columns
}

fn connection_columns() -> Vec<Column> {
    vec![
        text("remote", |s| s.connection().facts.remote),
        text("local", |s| s.connection().facts.local),
        text("family", |s| {
            let remote = s.connection().facts.remote;
            remote.map(|address| if address.is_ipv4() { "IPv4" } else { "IPv6" })
        }),
        bool("reused", |s| Some(s.connection().facts.reused)),
        text("congestion_control", |s| {
            csv::congestion_control(&s.connection().facts).map(String::from)
        }),
        duration("tcp_syn_rtt_ns", |s| s.tcp()?.syn_rtt),
        duration("tcp_min_rtt_ns", |s| s.tcp()?.min_rtt),
        int("tcp_retransmits", |s| s.tcp()?.retransmits),
        int("tcp_send_mss_bytes", |s| s.tcp()?.send_mss),
        int("tcp_receive_mss_bytes", |s| s.tcp()?.receive_mss),
        int("tcp_out_of_order", |s| s.tcp()?.out_of_order),
        duration("tcp_syn_departure_uncertainty_ns", |s| s.tcp()?.syn_departure_uncertainty),
        text("quic_version", |s| s.quic()?.version.clone()),
        duration("quic_min_rtt_ns", |s| s.quic()?.min_rtt),
        int("quic_datagrams_sent", |s| Some(s.quic()?.datagrams_sent)),
        int("quic_datagrams_received", |s| Some(s.quic()?.datagrams_received)),
        int("quic_lost_packets", |s| s.quic()?.lost_packets),
        bool("quic_retry", |s| Some(s.quic()?.retry)),
        int("quic_bytes_before_validation", |s| s.quic()?.bytes_before_validation),
        duration("quic_amplification_stall_ns", |s| s.quic()?.amplification_stall),
    ]
}

fn tls_columns() -> Vec<Column> {
    vec![
        text("tls_version", |s| s.tls()?.version.clone()),
        text("tls_cipher_suite", |s| s.tls()?.cipher_suite.clone()),
        text("tls_group", |s| s.tls()?.group.clone()),
        text("tls_handshake", |s| s.tls()?.handshake.map(|h| h.name())),
        text("tls_session_offered", |s| s.tls()?.session_offered.map(|m| m.name())),
        int("tls_early_data_bytes", |s| Some(s.tls()?.early_data?.bytes_before_server_hello)),
        bool("tls_early_data_accepted", |s| s.tls()?.early_data?.accepted),
        text("tls_alpn", |s| s.tls()?.alpn.clone()),
        int("tls_certificate_chain_bytes", |s| s.tls()?.certificate_chain_bytes()),
        bool("tls_verified", |s| s.tls()?.verified),
        int("tls_tickets_received", |s| s.tls()?.tickets_received),
    ]
}

fn http_columns() -> Vec<Column> {
    vec![
        text("http_method", |s| Some(s.http()?.method.clone())),
        text("http_version", |s| s.http()?.version.clone()),
        int("http_status", |s| s.http()?.status),
        int("http_request_bytes", |s| s.http()?.request_bytes),
        int("http_upload_bytes", |s| s.http()?.upload_bytes),
        int("http_header_bytes", |s| s.http()?.header_bytes),
        int("http_body_bytes", |s| s.http()?.body_bytes),
        text("effective_url", |s| Some(s.connection().url.clone()).filter(|url| !url.is_empty())),
        int("redirects", |s| Some(s.taken.sample.redirects.len())),
        duration("redirect_ns", |s| {
            let hops = &s.taken.sample.redirects;
            (!hops.is_empty()).then(|| hops.iter().map(|hop| Split::of(hop).total()).sum())
        }),
    ]
}

fn failure_columns() -> Vec<Column> {
    vec![
        text("failure_phase", |s| s.taken.sample.failure().map(|f| f.phase)),
        text("failure_fault", |s| s.taken.sample.failure().map(|f| f.cause.fault())),
        text("failure_cause", |s| s.taken.sample.failure().map(|f| f.cause.name().to_owned())),
        text("failure_message", |s| s.taken.sample.failure().map(|f| f.cause.to_string())),
        int("failure_at_ns", |s| s.taken.sample.failure()?.at.map(|at| at.as_nanos())),
        text("failure_type", |s| s.taken.sample.failure().map(Failure::failure_type)),
    ]
}
