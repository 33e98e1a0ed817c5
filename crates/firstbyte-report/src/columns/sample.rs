//! The columns of samples. `docs/formats.md`, "Columns of samples", is generated from here.

use std::borrow::Cow;
use std::net::SocketAddr;

use firstbyte_core::run::{Cell, Metric, Metrics, Standing, Taken, redirect_time};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    Clock, Connection, EarlyData, Failure, HttpFacts, Mark, Offset, PhaseName, QuicFacts, Requests,
    Sample, TcpFacts, TlsFacts,
};

use crate::advice::for_sample;
use firstbyte_core::shown_url::{shown_url, shown_urls_within};

use super::{Column, ColumnType, ColumnValue, boolean, integer, offset, text, time, timestamp};

/// Source of the columns of one sample; derived values are computed once.
pub(crate) struct SampleRow<'a> {
    sample: &'a Sample,
    of_run: Option<(&'a Cell, &'a Taken)>,
    split: Split,
    metrics: Metrics,
}

impl<'a> SampleRow<'a> {
    /// A sample by itself.
    pub(crate) fn new(sample: &'a Sample) -> Self {
        let split = Split::attribute(&sample.connection);
        Self { sample, of_run: None, split, metrics: Metrics::from_sample(sample) }
    }

    /// A sample of a run, from a visit to `cell`.
    pub(crate) fn of_run(cell: &'a Cell, taken: &'a Taken) -> Self {
        Self { of_run: Some((cell, taken)), ..Self::new(&taken.sample) }
    }

    const fn connection(&self) -> &Connection {
        &self.sample.connection
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

    const fn early_data(&self) -> Option<EarlyData> {
        match self.tls() {
            Some(tls) => tls.early_data,
            None => None,
        }
    }

    fn requests(&self) -> Option<&Requests> {
        self.sample.requests.as_deref()
    }

    fn failure(&self) -> Option<&Failure> {
        self.sample.failure()
    }

    fn phase(&self, name: PhaseName) -> Option<ColumnValue<'_>> {
        time(self.split.phase(name)?.phase.duration())
    }

    fn metric(&self, metric: Metric) -> Option<ColumnValue<'_>> {
        self.metrics.get(metric).map(|ns| ColumnValue::Time(ns.into()))
    }

    fn mark(&self, mark: Mark) -> Option<ColumnValue<'_>> {
        offset(self.connection().marks.at(mark)?)
    }

    /// Congestion control of the connection, over TCP or QUIC.
    fn congestion_control(&self) -> Option<&str> {
        let tcp = self.tcp().and_then(|tcp| tcp.congestion_control.as_deref());
        tcp.or_else(|| self.quic()?.congestion_control.as_deref())
    }

    /// The clock that timestamped the flights.
    fn clock(&self) -> Option<&'static str> {
        let flights = &self.connection().flights;
        let mut clocks = flights.iter().flat_map(|f| &f.chunks).map(|c| c.stamp.clock);
        let class = |clock| match clock {
            Clock::Kernel | Clock::KernelDerived => "kernel",
            Clock::User => "user",
            Clock::Simulated => "simulated",
            Clock::Reported { .. } => "reported",
        };
        let first = class(clocks.next()?);
        Some(if clocks.all(|clock| class(clock) == first) { first } else { "mixed" })
    }
}

/// Names of a sample's standing and of its shortfall.
pub(crate) const fn standing(standing: Standing) -> (&'static str, Option<&'static str>) {
    match standing {
        Standing::Proven => ("verified", None),
        Standing::Failed => ("failed", None),
        Standing::Unproven(shortfall) => ("unverified", Some(shortfall.name())),
    }
}

fn address<'a>(address: SocketAddr) -> Option<ColumnValue<'a>> {
    let SocketAddr::V4(v4) = address else { return text(address.to_string()) };
    // Faster than `Display`, which matters because every row has two.
    let mut out = String::with_capacity("255.255.255.255:65535".len());
    for (place, octet) in v4.ip().octets().into_iter().enumerate() {
        if place > 0 {
            out.push('.');
        }
        decimal(&mut out, octet.into());
    }
    out.push(':');
    decimal(&mut out, v4.port());
    text(out)
}

fn decimal(out: &mut String, number: u16) {
    if number >= 10 {
        decimal(out, number / 10);
    }
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// A URL without secrets.
fn url(value: &str) -> Option<ColumnValue<'_>> {
    (!value.is_empty()).then(|| ColumnValue::Text(without_secrets(value, shown_url)))
}

/// Most texts have no secrets and are not copied.
fn without_secrets(value: &str, shown: fn(&str) -> String) -> Cow<'_, str> {
    match value.contains(['?', '#', '@']) {
        true => Cow::Owned(shown(value)),
        false => Cow::Borrowed(value),
    }
}

/// A column's place in CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InCsv {
    Nowhere,
    /// Before the sample's own columns, if the sample is part of a run.
    OfRun,
    /// At this place, counted from 0, among the sample's own columns, and with this name. Each place is used once,
    /// and new columns go at the end.
    At(usize, &'static str),
}

type SampleGetter = for<'a> fn(&'a SampleRow<'_>) -> Option<ColumnValue<'a>>;

/// A column of samples, and the formats that include it.
#[derive(Debug)]
struct SampleColumn {
    column: Column<SampleGetter>,
    csv: InCsv,
    parquet: bool,
}

/// A field of a row.
#[derive(Clone, Debug)]
pub(crate) enum SampleField {
    Column(&'static Column<SampleGetter>, &'static str),
    /// The value of this axis.
    Axis(String),
}

impl SampleField {
    /// Its heading, without the unit of times, and its type.
    pub(crate) fn heading(&self) -> (Cow<'static, str>, ColumnType) {
        match self {
            Self::Column(column, name) => (Cow::Borrowed(name), column.holds),
            // Axes may have the same names as columns, hence the prefix.
            Self::Axis(axis) => (Cow::Owned(format!("axis_{axis}")), ColumnType::Text),
        }
    }

    pub(crate) fn value<'a>(&self, row: &'a SampleRow<'_>) -> Option<ColumnValue<'a>> {
        match self {
            Self::Column(column, _) => (column.get)(row),
            Self::Axis(axis) => {
                let factor = row.of_run?.0.factors.iter().find(|f| f.axis == *axis)?;
                text(without_secrets(&factor.value, shown_urls_within))
            }
        }
    }
}

/// Name of the column after which the axes are inserted.
const BEFORE_AXES: &str = "variant_name";

/// The CSV fields of a sample; with `axes`, preceded by those of a run with these axes.
pub(crate) fn csv_fields(axes: Option<&[String]>) -> Vec<SampleField> {
    let mut of_sample: Vec<(usize, SampleField)> = Vec::new();
    let mut of_run: Vec<SampleField> = Vec::new();
    for SampleColumn { column, csv, .. } in COLUMNS {
        match csv {
            InCsv::Nowhere => {}
            InCsv::OfRun => of_run.push(SampleField::Column(column, column.name)),
            InCsv::At(place, name) => of_sample.push((*place, SampleField::Column(column, name))),
        }
    }
    of_sample.sort_by_key(|(place, _)| *place);
    let of_run = axes.map(|axes| with_axes(of_run, axes)).unwrap_or_default();
    of_run.into_iter().chain(of_sample.into_iter().map(|(_, field)| field)).collect()
}

/// The Parquet fields of a sample from a run with these axes.
pub(crate) fn parquet_fields(axes: &[String]) -> Vec<SampleField> {
    let columns = COLUMNS.iter().filter(|c| c.parquet).map(|c| &c.column);
    with_axes(columns.map(|column| SampleField::Column(column, column.name)).collect(), axes)
}

fn with_axes(mut fields: Vec<SampleField>, axes: &[String]) -> Vec<SampleField> {
    let is_before = |field: &SampleField| matches!(field, SampleField::Column(column, _) if column.name == BEFORE_AXES);
    let place = fields.iter().position(is_before).map_or(0, |place| place + 1);
    fields.splice(place..place, axes.iter().cloned().map(SampleField::Axis));
    fields
}

/// In both formats; in CSV at this place with this name.
const fn both(place: usize, name: &'static str) -> (InCsv, bool) {
    (InCsv::At(place, name), true)
}

/// In CSV only, at this place with this name.
const fn csv(place: usize, name: &'static str) -> (InCsv, bool) {
    (InCsv::At(place, name), false)
}

/// In both formats, if the sample is part of a run.
const RUN: (InCsv, bool) = (InCsv::OfRun, true);
/// In Parquet only.
const PARQUET: (InCsv, bool) = (InCsv::Nowhere, true);

macro_rules! columns {
    ($($name:literal, $holds:ident, $forms:expr, $get:expr, $doc:literal;)*) => {
        /// All columns, in the order of Parquet. Within a version of the format, columns are only added.
        const COLUMNS: &[SampleColumn] = &[$({
            let (csv, parquet) = $forms;
            let column: Column<SampleGetter> =
                Column { name: $name, holds: ColumnType::$holds, get: $get, doc: $doc };
            SampleColumn { column, csv, parquet }
        }),*];
    };
}

columns! {
    "variant", Integer, RUN, |s| integer(s.of_run?.1.cell), "number of the variant";
    "variant_name", Text, RUN, |s| text(s.of_run?.0.name()), "its name";
    "round", Integer, both(0, "sequence"), |s| integer(s.sample.sequence),
        "from 0, warm-up included; in a run the number of the round";
    "warmup", Boolean, both(1, "warmup"), |s| boolean(s.sample.warmup), "";
    "outcome", Text, RUN, |s| text(standing(s.of_run?.1.standing).0), "as in run files";
    "shortfall", Text, RUN, |s| text(standing(s.of_run?.1.standing).1?), "as in run files";
    "started", Timestamp, both(3, "started"), |s| timestamp(s.connection().started_unix_ns?),
        "wall-clock time of the connection's origin";
    "lateness", Time, RUN, |s| time(s.of_run?.1.lateness), "as in run files";
    "url", Text, both(2, "url"), |s| url(&s.sample.requested_url), "the URL asked for";

    "phase_resolve", Time, csv(14, "resolve"), |s| s.phase(PhaseName::Resolve),
        "length of the phase; in a failed sample up to the failure";
    "phase_connect", Time, csv(15, "connect"), |s| s.phase(PhaseName::Connect), "";
    "phase_proxy_tls", Time, csv(66, "proxy_tls"), |s| s.phase(PhaseName::ProxyTls), "";
    "phase_tunnel", Time, csv(67, "tunnel"), |s| s.phase(PhaseName::Tunnel), "";
    "phase_tls", Time, csv(16, "tls"), |s| s.phase(PhaseName::Tls), "over TCP";
    "phase_quic", Time, csv(47, "quic"), |s| s.phase(PhaseName::Quic),
        "TLS included";
    "phase_send", Time, csv(17, "send"), |s| s.phase(PhaseName::Send), "";
    "phase_wait", Time, csv(18, "wait"), |s| s.phase(PhaseName::Wait), "";
    "phase_receive", Time, csv(19, "receive"), |s| s.phase(PhaseName::Receive), "";
    "first_byte", Time, csv(20, "ttfb"),
        |s| time(s.connection().marks.at(Mark::ResponseStart)?.since(Offset::ZERO)),
        "from the origin to the first byte of the response";
    "sum", Time, csv(21, "total"), |s| time(s.split.total() + s.sample.time_after_first_response()),
        "to the end or the failure; of several requests, to the end of the last. Without redirects";

    "resolve", Time, PARQUET, |s| s.metric(Metric::Resolve),
        "";
    "connect", Time, PARQUET, |s| s.metric(Metric::Connect), "";
    "tls", Time, PARQUET, |s| s.metric(Metric::Tls), "";
    "quic", Time, PARQUET, |s| s.metric(Metric::Quic), "";
    "setup", Time, PARQUET, |s| s.metric(Metric::Setup),
        "all handshakes together";
    "send", Time, PARQUET, |s| s.metric(Metric::Send), "";
    "wait", Time, PARQUET, |s| s.metric(Metric::Wait), "";
    "receive", Time, PARQUET, |s| s.metric(Metric::Receive), "";
    "ttfb", Time, PARQUET, |s| s.metric(Metric::Ttfb),
        "from the origin to the first byte of the response";
    "total", Time, PARQUET, |s| s.metric(Metric::Total),
        "from the origin to the end";

    "mark_domain_lookup_start", Time, PARQUET, |s| s.mark(Mark::DomainLookupStart),
        "";
    "mark_domain_lookup_end", Time, PARQUET, |s| s.mark(Mark::DomainLookupEnd), "";
    "mark_connect_start", Time, PARQUET, |s| s.mark(Mark::ConnectStart), "";
    "mark_tcp_connected", Time, PARQUET, |s| s.mark(Mark::TcpConnected), "";
    "mark_proxy_secure_start", Time, PARQUET, |s| s.mark(Mark::ProxySecureStart), "";
    "mark_proxy_handshake_complete", Time, PARQUET, |s| s.mark(Mark::ProxyHandshakeComplete), "";
    "mark_tunnel_start", Time, PARQUET, |s| s.mark(Mark::TunnelStart), "";
    "mark_tunnel_end", Time, PARQUET, |s| s.mark(Mark::TunnelEnd), "";
    "mark_secure_connection_start", Time, PARQUET, |s| s.mark(Mark::SecureConnectionStart),
        "";
    "mark_handshake_complete", Time, PARQUET, |s| s.mark(Mark::HandshakeComplete), "";
    "mark_handshake_confirmed", Time, PARQUET, |s| s.mark(Mark::HandshakeConfirmed), "";
    "mark_request_start", Time, PARQUET, |s| s.mark(Mark::RequestStart), "";
    "mark_request_end", Time, PARQUET, |s| s.mark(Mark::RequestEnd), "";
    "mark_interim_response_start", Time, PARQUET, |s| s.mark(Mark::InterimResponseStart),
        "";
    "mark_response_first_packet", Time, PARQUET, |s| s.mark(Mark::ResponseFirstPacket),
        "";
    "mark_response_start", Time, PARQUET, |s| s.mark(Mark::ResponseStart), "";
    "mark_response_end", Time, PARQUET, |s| s.mark(Mark::ResponseEnd), "";

    "part_resolver", Time, both(24, "resolver"), |s| time(s.split.parts.resolver),
        "the parts add up to the end of the last phase that happened";
    "part_network", Time, both(25, "network"), |s| time(s.split.parts.network), "";
    "part_variation", Time, both(26, "variation"), |s| time(s.split.parts.variation), "";
    "part_server", Time, both(27, "server"), |s| time(s.split.parts.server), "";
    "part_client", Time, both(28, "client"), |s| time(s.split.parts.client), "";
    "part_transfer", Time, both(29, "transfer"), |s| time(s.split.parts.transfer), "";
    "part_pause", Time, both(58, "pause"), |s| time(s.split.parts.pause), "";
    "part_fallback", Time, both(30, "fallback"), |s| time(s.split.parts.fallback), "";
    "part_unexplained", Time, both(31, "unexplained"), |s| time(s.split.parts.unexplained),
        "";
    "server_uncertainty", Time, both(32, "server_uncertainty"),
        |s| time(s.split.server_uncertainty()?),
        "error of the server's part, in either direction";
    "rtt", Time, both(23, "rtt"), |s| time(s.split.rtt?), "the round-trip time used";
    "round_trips", Integer, both(22, "round_trips"), |s| integer(s.split.round_trips),
        "round trips counted";

    "remote", Text, both(4, "remote"), |s| address(s.connection().facts.remote?), "`address:port`";
    "local", Text, both(57, "local"), |s| address(s.connection().facts.local?), "`address:port`";
    "family", Text, both(5, "family"),
        |s| text(if s.connection().facts.remote?.is_ipv4() { "IPv4" } else { "IPv6" }),
        "`IPv4`, `IPv6`";
    "proxy", Text, both(68, "proxy"), |s| text(s.connection().facts.proxy.as_ref()?.to_string()),
        "";
    "reused", Boolean, both(46, "reused"), |s| boolean(s.connection().facts.reused),
        "the connection was open before";
    "clock", Text, csv(34, "clock"), |s| text(s.clock()?),
        "of the flights: `kernel`, `user`, `simulated`, `reported`, `mixed`";
    "congestion_control", Text, both(56, "congestion_control"), |s| text(s.congestion_control()?),
        "the client's, over TCP or QUIC";
    "tcp_syn_rtt", Time, PARQUET, |s| time(s.tcp()?.syn_rtt?), "";
    "tcp_min_rtt", Time, PARQUET, |s| time(s.tcp()?.min_rtt?), "";
    "tcp_retransmits", Integer, both(33, "retransmits"), |s| integer(s.tcp()?.retransmits?),
        "";
    "tcp_send_mss_bytes", Integer, PARQUET, |s| integer(s.tcp()?.send_mss?), "";
    "tcp_receive_mss_bytes", Integer, PARQUET, |s| integer(s.tcp()?.receive_mss?), "";
    "tcp_out_of_order", Integer, PARQUET, |s| integer(s.tcp()?.out_of_order?), "";
    "tcp_syn_departure_uncertainty", Time, PARQUET,
        |s| time(s.tcp()?.syn_departure_uncertainty?), "";
    "quic_version", Text, both(52, "quic_version"), |s| text(s.quic()?.version.as_deref()?),
        "";
    "quic_min_rtt", Time, PARQUET, |s| time(s.quic()?.min_rtt?), "";
    "quic_datagrams_sent", Integer, PARQUET, |s| integer(s.quic()?.datagrams_sent?), "";
    "quic_datagrams_received", Integer, PARQUET, |s| integer(s.quic()?.datagrams_received?),
        "";
    "quic_lost_packets", Integer, both(54, "quic_lost_packets"),
        |s| integer(s.quic()?.lost_packets?), "";
    "quic_retry", Boolean, both(53, "quic_retry"), |s| boolean(s.quic()?.retry), "";
    "quic_bytes_before_validation", Integer, PARQUET,
        |s| integer(s.quic()?.bytes_before_validation?), "";
    "quic_amplification_stall", Time, both(55, "quic_amplification_stall"),
        |s| time(s.quic()?.amplification_stall?), "";

    "tls_version", Text, both(8, "tls_version"), |s| text(s.tls()?.version.as_deref()?),
        "";
    "tls_cipher_suite", Text, both(9, "cipher_suite"),
        |s| text(s.tls()?.cipher_suite.as_deref()?), "";
    "tls_group", Text, both(10, "group"), |s| text(s.tls()?.group.as_deref()?), "";
    "tls_handshake", Text, both(11, "handshake"), |s| text(s.tls()?.handshake?.name()),
        "";
    "tls_session_offered", Text, both(48, "session_offered"),
        |s| text(s.tls()?.session_offered?.name()),
        "";
    "tls_early_data_bytes", Integer, both(49, "early_data_bytes"),
        |s| integer(s.early_data()?.bytes_before_server_hello?),
        "`tls.early_data.bytes_before_server_hello`";
    "tls_early_data_accepted", Boolean, both(50, "early_data_accepted"),
        |s| boolean(s.early_data()?.accepted?), "`tls.early_data.accepted`";
    "tls_alpn", Text, both(12, "alpn"), |s| text(s.tls()?.alpn.as_deref()?), "";
    "tls_certificate_chain_bytes", Integer, both(13, "certificate_chain_bytes"),
        |s| integer(s.tls()?.certificate_chain_bytes()?), "";
    "tls_verified", Boolean, PARQUET, |s| boolean(s.tls()?.verified?), "";
    "tls_tickets_received", Integer, both(51, "tickets_received"),
        |s| integer(s.tls()?.tickets_received?), "";

    "http_method", Text, PARQUET, |s| text(s.http()?.method.as_str()), "";
    "http_version", Text, both(6, "http_version"), |s| text(s.http()?.version.as_deref()?),
        "";
    "http_status", Integer, both(7, "status"), |s| integer(s.http()?.status?), "";
    "http_request_bytes", Integer, both(35, "request_bytes"),
        |s| integer(s.http()?.request_bytes?), "";
    "http_upload_bytes", Integer, PARQUET, |s| integer(s.http()?.upload_bytes?), "";
    "http_header_bytes", Integer, both(36, "header_bytes"), |s| integer(s.http()?.header_bytes?),
        "";
    "http_body_bytes", Integer, both(37, "body_bytes"), |s| integer(s.http()?.body_bytes?),
        "";
    "effective_url", Text, both(38, "effective_url"), |s| url(&s.connection().url),
        "URL of the last connection";
    "redirects", Integer, both(39, "redirects"), |s| integer(s.sample.redirects.len()),
        "number followed";
    "redirect", Time, both(40, "redirect"),
        |s| if s.sample.redirects.is_empty() { None } else { time(redirect_time(s.sample)) },
        "time of all redirects; empty without any";
    "requests", Integer, both(60, "requests"), |s| integer(s.requests()?.asked),
        "`requests.asked`; empty for a single request";
    "requests_answered", Integer, both(61, "requests_answered"),
        |s| integer(s.requests()?.answered()), "";
    "requests_connections", Integer, both(62, "requests_connections"),
        |s| integer(s.requests()?.connections()), "";
    "requests_most_at_once", Integer, both(63, "requests_most_at_once"),
        |s| integer(s.requests()?.most_at_once()), "";

    "processor_user", Time, both(64, "processor_user"), |s| time(s.connection().facts.processor?.user),
        "";
    "processor_system", Time, both(65, "processor_system"), |s| time(s.connection().facts.processor?.system),
        "";

    "failure_phase", Text, both(41, "error_phase"), |s| text(s.failure()?.phase.name()),
        "";
    "failure_fault", Text, both(42, "error_fault"), |s| text(s.failure()?.cause.fault().name()),
        "";
    "failure_cause", Text, both(43, "error_cause"), |s| text(s.failure()?.cause.name()),
        "";
    "failure_message", Text, both(44, "error"), |s| text(s.failure()?.cause.to_string()),
        "";
    "failure_hint", Text, csv(45, "hint"), |s| text(for_sample(s.sample)?), "";
    "failure_at", Time, PARQUET, |s| offset(s.failure()?.at?), "";
    "failure_type", Text, both(59, "error_type"), |s| text(s.failure()?.failure_type().as_str()),
        "";
}

#[cfg(test)]
mod tests;
