//! `--csv`: tidy, one row per sample, times in microseconds. Quoted as RFC 4180 says, but with the
//! line ends of the system's other tools, so that `cut` and `awk` see clean last columns; a value
//! that is not known is an empty field, never zero. Columns are described in `docs/formats.md`.

use std::io::{self, Write};
use std::time::Duration;

use firstbyte_core::run::{Cell, Standing, Taken, redirect_time};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    Clock, Connection, Facts, Failure, Mark, Offset, PhaseName, Sample,
};

use super::dates;

/// The columns in order. Within a version of the format columns are only added, at the end.
pub const COLUMNS: [&str; 60] = [
    "sequence",
    "warmup",
    "url",
    "started",
    "remote",
    "family",
    "http_version",
    "status",
    "tls_version",
    "cipher_suite",
    "group",
    "handshake",
    "alpn",
    "certificate_chain_bytes",
    "resolve_us",
    "connect_us",
    "tls_us",
    "send_us",
    "wait_us",
    "receive_us",
    "ttfb_us",
    "total_us",
    "round_trips",
    "rtt_us",
    "resolver_us",
    "network_us",
    "variation_us",
    "server_us",
    "client_us",
    "transfer_us",
    "fallback_us",
    "unexplained_us",
    "server_uncertainty_us",
    "retransmits",
    "clock",
    "request_bytes",
    "header_bytes",
    "body_bytes",
    "effective_url",
    "redirects",
    "redirect_us",
    "error_phase",
    "error_fault",
    "error_cause",
    "error",
    "hint",
    "reused",
    "quic_us",
    "session_offered",
    "early_data_bytes",
    "early_data_accepted",
    "tickets_received",
    "quic_version",
    "quic_retry",
    "quic_lost_packets",
    "quic_amplification_stall_us",
    "congestion_control",
    "local",
    "pause_us",
    "error_type",
];

/// The columns before those of a sample, where it is one of a run: for each axis one with its name
/// stands between these two.
const OF_A_RUN: [&str; 2] = ["cell", "cell_name"];
/// See [`OF_A_RUN`].
const OF_A_RUN_AFTER_AXES: [&str; 3] = ["standing", "shortfall", "lateness_us"];

/// The name of the column with the values of an axis. Axes can be called like a column.
pub(super) fn axis_column(axis: &str) -> String {
    format!("axis_{axis}")
}

/// The columns before those of a sample, where it is one of a run with these axes.
pub(super) fn columns_of_a_run(axes: &[String]) -> impl Iterator<Item = String> {
    let axes = axes.iter().map(|axis| axis_column(axis));
    let first = OF_A_RUN.into_iter().map(String::from);
    first.chain(axes).chain(OF_A_RUN_AFTER_AXES.map(String::from))
}

/// Writes the header and a row for each sample to a sink, as they come.
pub struct CsvWriter<W: Write> {
    out: csv::Writer<W>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header to `out`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(COLUMNS).map_err(failed)?;
        out.flush()?;
        Ok(Self { out })
    }

    /// Writes the row of `sample` and flushes it: an interrupted run loses nothing.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.out.write_record(row(sample)).map_err(failed)?;
        self.out.flush()
    }
}

/// Writes the samples of a run: the columns of their cells, then those of a sample.
pub struct RunCsvWriter<W: Write> {
    out: csv::Writer<W>,
    axes: Vec<String>,
}

impl<W: Write> RunCsvWriter<W> {
    /// Writes the header to `out`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let mut out = csv::Writer::from_writer(out);
        let columns = columns_of_a_run(axes).chain(COLUMNS.map(String::from));
        out.write_record(columns).map_err(failed)?;
        Ok(Self { out, axes: axes.to_vec() })
    }

    /// Writes the row of `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        let (standing, shortfall) = standing(taken.standing);
        let mut fields = vec![taken.cell.to_string(), cell.name()];
        fields.extend(self.axes.iter().map(|axis| {
            cell.factors
                .iter()
                .find(|f| f.axis == *axis)
                .map_or_else(String::new, |f| f.value.clone())
        }));
        fields.extend([standing.to_owned(), text(shortfall), time(Some(taken.lateness))]);
        fields.extend(row(&taken.sample));
        self.out.write_record(fields).map_err(failed)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The sink's own error: what has become of it (a closed pipe) is no error in CSV.
fn failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// What a sample counts for, and what it lacks, by their names.
pub(super) const fn standing(standing: Standing) -> (&'static str, Option<&'static str>) {
    match standing {
        Standing::Proven => ("proven", None),
        Standing::Failed => ("failed", None),
        Standing::Unproven(shortfall) => ("unproven", Some(shortfall.name())),
    }
}

/// Header and rows of `samples` at once.
///
/// # Errors
/// Those of `out`.
pub fn samples(samples: &[Sample], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = CsvWriter::new(out)?;
    samples.iter().try_for_each(|sample| writer.sample(sample))
}

/// The fields of `sample`, in the order of [`COLUMNS`].
fn row(sample: &Sample) -> [String; COLUMNS.len()] {
    let connection = &sample.connection;
    let split = Split::of(connection);
    let facts = &connection.facts;
    let tls = facts.tls.as_ref();
    let http = facts.http.as_ref();
    let quic = facts.quic.as_ref();
    let phase = |name| time(split.phase(name).map(|p| p.phase.duration()));
    let part = |duration| time(Some(duration));
    let failure = sample.failure();
    let redirect = redirect_time(sample);
    [
        sample.sequence.to_string(),
        sample.warmup.to_string(),
        sample.requested_url.clone(),
        connection.started_unix_ns.and_then(dates::rfc3339_micros).unwrap_or_default(),
        text(facts.remote),
        text(facts.remote.map(|a| if a.is_ipv4() { "IPv4" } else { "IPv6" })),
        text(http.and_then(|h| h.version.as_deref())),
        text(http.and_then(|h| h.status)),
        text(tls.and_then(|t| t.version.as_deref())),
        text(tls.and_then(|t| t.cipher_suite.as_deref())),
        text(tls.and_then(|t| t.group.as_deref())),
        text(tls.and_then(|t| t.handshake).map(|h| h.name())),
        text(tls.and_then(|t| t.alpn.as_deref())),
        text(tls.and_then(|t| t.certificate_chain_bytes())),
        phase(PhaseName::Resolve),
        phase(PhaseName::Connect),
        phase(PhaseName::Tls),
        phase(PhaseName::Send),
        phase(PhaseName::Wait),
        phase(PhaseName::Receive),
        time(connection.marks.at(Mark::ResponseStart).map(|at| at.since(Offset::ZERO))),
        time(Some(split.total())),
        split.round_trips.to_string(),
        time(split.rtt),
        part(split.parts.resolver),
        part(split.parts.network),
        part(split.parts.variation),
        part(split.parts.server),
        part(split.parts.client),
        part(split.parts.transfer),
        part(split.parts.fallback),
        part(split.parts.unexplained),
        time(split.server_uncertainty()),
        text(facts.tcp.as_ref().and_then(|t| t.retransmits)),
        clock(connection).to_owned(),
        text(http.and_then(|h| h.request_bytes)),
        text(http.and_then(|h| h.header_bytes)),
        text(http.and_then(|h| h.body_bytes)),
        connection.url.clone(),
        sample.redirects.len().to_string(),
        time((!sample.redirects.is_empty()).then_some(redirect)),
        text(failure.map(|f| f.phase)),
        text(failure.map(|f| f.cause.fault())),
        text(failure.map(|f| f.cause.name())),
        text(failure.map(|f| f.cause.to_string())),
        text(failure.and_then(|f| crate::advice::for_failure(&f.cause))),
        facts.reused.to_string(),
        phase(PhaseName::Quic),
        text(tls.and_then(|t| t.session_offered).map(|m| m.name())),
        text(tls.and_then(|t| t.early_data).map(|e| e.bytes_before_server_hello)),
        text(tls.and_then(|t| t.early_data).and_then(|e| e.accepted)),
        text(tls.and_then(|t| t.tickets_received)),
        text(quic.and_then(|q| q.version.as_deref())),
        text(quic.map(|q| q.retry)),
        text(quic.and_then(|q| q.lost_packets)),
        time(quic.and_then(|q| q.amplification_stall)),
        text(congestion_control(facts)),
        text(facts.local),
        part(split.parts.pause),
        text(failure.map(Failure::failure_type)),
    ]
}

/// That of the connection, over TCP or QUIC.
pub(super) fn congestion_control(facts: &Facts) -> Option<&str> {
    let tcp = facts.tcp.as_ref().and_then(|tcp| tcp.congestion_control.as_deref());
    tcp.or_else(|| facts.quic.as_ref().and_then(|quic| quic.congestion_control.as_deref()))
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

/// Microseconds with the decimals that are needed, three at most: exact to the nanosecond.
fn time(duration: Option<Duration>) -> String {
    let Some(duration) = duration else { return String::new() };
    let (micros, nanos) = (duration.as_micros(), duration.as_nanos() % 1_000);
    match nanos {
        0 => micros.to_string(),
        _ => format!("{micros}.{nanos:03}").trim_end_matches('0').to_owned(),
    }
}

/// "kernel", "user", "simulated", or "mixed": which clock stamped the flights.
fn clock(connection: &Connection) -> &'static str {
    let mut clocks = connection.flights.iter().flat_map(|f| &f.chunks).map(|c| c.stamp.clock);
    let Some(first) = clocks.next() else { return "" };
    let class = |clock| match clock {
        Clock::Kernel | Clock::KernelDerived => "kernel",
        Clock::User => "user",
        Clock::Simulated => "simulated",
        Clock::Reported { .. } => "reported",
    };
    if clocks.all(|clock| class(clock) == class(first)) { class(first) } else { "mixed" }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    fn read(list: &[Sample]) -> (String, Vec<csv::StringRecord>) {
        let mut out = Vec::new();
        samples(list, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows =
            csv::Reader::from_reader(text.as_bytes()).records().map(Result::unwrap).collect();
        (text, rows)
    }

    fn field<'a>(row: &'a csv::StringRecord, column: &str) -> &'a str {
        &row[COLUMNS.iter().position(|c| *c == column).unwrap()]
    }

    #[test]
    fn the_header_is_there_without_samples() {
        let (text, rows) = read(&[]);
        assert_eq!(text.trim_end(), COLUMNS.join(","));
        assert!(rows.is_empty());
    }

    #[test]
    fn microseconds_and_absent_values() {
        let (_, rows) = read(&[fixtures::tls12_sydney(), fixtures::plain_http()]);
        assert_eq!(field(&rows[0], "started"), "2026-11-20T14:05:09.123456Z");
        assert_eq!(field(&rows[0], "tls_us"), "166300");
        assert_eq!(field(&rows[0], "round_trips"), "4");
        assert_eq!(field(&rows[0], "clock"), "kernel");
        assert_eq!(field(&rows[1], "tls_us"), "");
        assert_eq!(field(&rows[1], "certificate_chain_bytes"), "");
        assert_eq!(field(&rows[1], "family"), "IPv4");
    }

    #[test]
    fn parts_add_up_to_the_total() {
        let (_, rows) = read(&fixtures::all());
        for row in &rows {
            let value = |column: &str| field(row, column).parse::<f64>().unwrap();
            let parts = ["resolver", "network", "variation", "server", "client", "transfer"];
            let parts = parts.iter().chain(&["pause", "fallback", "unexplained"]);
            let sum: f64 = parts.map(|p| value(&format!("{p}_us"))).sum();
            assert!((sum - value("total_us")).abs() < 0.0005, "{row:?}");
        }
    }

    #[test]
    fn a_failure_fills_its_columns() {
        let (text, rows) = read(&[fixtures::expired_certificate()]);
        assert_eq!(field(&rows[0], "error_phase"), "tls");
        assert_eq!(field(&rows[0], "error_fault"), "peer");
        assert_eq!(field(&rows[0], "error_cause"), "certificate-expired");
        assert_eq!(field(&rows[0], "error"), "certificate expired on 2026-10-01 12:00:00 UTC");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn quotes_as_rfc_4180_says() {
        let mut sample = fixtures::plain_http();
        sample.requested_url = "http://a/?q=\"x\",y".into();
        let (text, rows) = read(&[sample]);
        assert!(text.contains(r#""http://a/?q=""x"",y""#));
        assert_eq!(field(&rows[0], "url"), "http://a/?q=\"x\",y");
    }

    #[test]
    fn exact_to_the_nanosecond() {
        assert_eq!(time(Some(Duration::from_nanos(1_234_567))), "1234.567");
        assert_eq!(time(Some(Duration::from_nanos(1_230_500))), "1230.5");
        assert_eq!(time(Some(Duration::from_micros(12))), "12");
        assert_eq!(time(None), "");
    }
}
