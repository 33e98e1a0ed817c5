//! Runs: the samples of an experiment, by cell and round, and what each of them proved.
//!
//! A *cell* is one way of connecting: a value for every varied axis. Every *round* visits every cell once. A *row* is
//! a sample reduced to the data that statistics need.

use std::time::Duration;

use crate::split::{phases, total};
use crate::timeline::{Connection, Mark, Offset, PhaseName, Sample};

/// A measured stretch of time to compare. Definitions: `docs/measurement.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Name resolution.
    Resolve,
    /// TCP handshake.
    Connect,
    /// TLS handshake over TCP; absent if the request left as early data.
    Tls,
    /// QUIC handshake; absent if the request left as early data.
    Quic,
    /// Connection set-up: all handshakes, including a proxy's TLS and tunnel, from the end of `Resolve` until the
    /// request may leave.
    Setup,
    /// Sending the request.
    Send,
    /// From the last byte of the request to the first byte of the response.
    Wait,
    /// From the first to the last byte of the response.
    Receive,
    /// From the origin to the first byte of the response.
    Ttfb,
    /// From the origin to the last byte of the response, or of the last response to several requests.
    Total,
}

impl Metric {
    /// All metrics, in display order.
    pub const ALL: [Self; 10] = [
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Quic,
        Self::Setup,
        Self::Send,
        Self::Wait,
        Self::Receive,
        Self::Ttfb,
        Self::Total,
    ];

    /// Name used in stored forms and by the user.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Setup => "setup",
            Self::Send => "send",
            Self::Wait => "wait",
            Self::Receive => "receive",
            Self::Ttfb => "ttfb",
            Self::Total => "total",
        }
    }

    /// Name in a sentence.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Resolve => "DNS time",
            Self::Connect => "TCP handshake time",
            Self::Tls => "TLS handshake time",
            Self::Quic => "QUIC handshake time",
            Self::Setup => "connection set-up time",
            Self::Send => "send time",
            Self::Wait => "wait time",
            Self::Receive => "receive time",
            Self::Ttfb => "time to first byte",
            Self::Total => "total time",
        }
    }

    /// Finds a metric by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Whether the metric also depends on the server's response. Handshakes end before the response.
    pub const fn depends_on_answer(self) -> bool {
        matches!(self, Self::Wait | Self::Receive | Self::Ttfb | Self::Total)
    }

    /// The metric of a phase. A proxy's phases have no metric of their own: they are part of `Setup`.
    const fn for_phase(phase: PhaseName) -> Option<Self> {
        Some(match phase {
            PhaseName::Resolve => Self::Resolve,
            PhaseName::Connect => Self::Connect,
            PhaseName::ProxyTls | PhaseName::Tunnel => return None,
            PhaseName::Tls => Self::Tls,
            PhaseName::Quic => Self::Quic,
            PhaseName::Send => Self::Send,
            PhaseName::Wait => Self::Wait,
            PhaseName::Receive => Self::Receive,
        })
    }

    /// Whether a phase is part of `Setup`.
    const fn is_setup(phase: PhaseName) -> bool {
        use PhaseName::{Connect, ProxyTls, Quic, Tls, Tunnel};
        matches!(phase, Connect | ProxyTls | Tunnel | Tls | Quic)
    }
}

/// Available values of the metrics, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    values: [u64; Metric::ALL.len()],
    /// Largest error of each value in either direction, due to the resolution of another program's clock; nanoseconds.
    pub resolution_ns: u32,
}

/// Represents "absent" within [`Metrics`]: five centuries.
const ABSENT: u64 = u64::MAX;

impl Default for Metrics {
    fn default() -> Self {
        Self { values: [ABSENT; Metric::ALL.len()], resolution_ns: 0 }
    }
}

impl Metrics {
    /// The metrics of `connection`, for completed phases.
    pub fn from_connection(connection: &Connection) -> Self {
        let mut metrics = Self::default();
        if let Some(resolution) = connection.marks.resolution() {
            metrics.resolution_ns = u32::try_from(resolution.as_nanos()).unwrap_or(u32::MAX);
        }
        let mut setup: Option<Duration> = None;
        for phase in phases(connection).iter().filter(|p| p.complete) {
            if let Some(metric) = Metric::for_phase(phase.name) {
                metrics.set(metric, phase.duration());
            }
            if Metric::is_setup(phase.name) {
                setup = Some(setup.unwrap_or_default() + phase.duration());
            }
        }
        if connection.failure.is_some() {
            return metrics;
        }
        // With early data over QUIC, there is no set-up before the request leaves.
        let nothing_to_set_up = connection.facts.quic.is_some() && !connection.facts.reused;
        if let Some(setup) = setup.or(nothing_to_set_up.then_some(Duration::ZERO)) {
            metrics.set(Metric::Setup, setup);
        }
        if let Some(first) = connection.marks.at(Mark::ResponseStart) {
            metrics.set(Metric::Ttfb, first.since(Offset::ZERO));
        }
        metrics.set(Metric::Total, total(connection));
        metrics
    }

    /// The metrics of `sample`: those of its connection, and the total of all its requests.
    pub fn from_sample(sample: &Sample) -> Self {
        Self::from_connection(&sample.connection).of_requests(sample)
    }

    /// Extends the total to the last response if the sample made several requests.
    fn of_requests(mut self, sample: &Sample) -> Self {
        let Some(requests) = &sample.requests else { return self };
        match requests.end().filter(|_| sample.failure().is_none()) {
            Some(end) => self.set(Metric::Total, end.since(Offset::ZERO)),
            None => self.values[Metric::Total as usize] = ABSENT,
        }
        self
    }

    /// The value of `metric`, nanoseconds.
    pub fn get(&self, metric: Metric) -> Option<u64> {
        Some(self.values[metric as usize]).filter(|ns| *ns != ABSENT)
    }

    /// Sets the value of `metric`.
    pub fn set(&mut self, metric: Metric, value: Duration) {
        self.set_ns(metric, u64::try_from(value.as_nanos()).unwrap_or(ABSENT - 1));
    }

    /// Sets the value of `metric`, nanoseconds.
    pub const fn set_ns(&mut self, metric: Metric, ns: u64) {
        self.values[metric as usize] = ns;
    }
}

/// Status and size of the response to a visit, if known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisitAnswer {
    /// 0 means absent.
    status: u16,
    /// [`ABSENT`] means absent.
    body_bytes: u64,
}

impl Default for VisitAnswer {
    fn default() -> Self {
        Self { status: 0, body_bytes: ABSENT }
    }
}

impl VisitAnswer {
    /// An answer with this status, and a body of this many bytes as received.
    pub fn new(status: Option<u16>, body_bytes: Option<u64>) -> Self {
        Self { status: status.unwrap_or(0), body_bytes: body_bytes.unwrap_or(ABSENT) }
    }

    /// The answer to `sample`. With several requests, it has the first status that differs from the first request's,
    /// and the bytes of all bodies.
    pub fn from_sample(sample: &Sample) -> Self {
        let Some(requests) = &sample.requests else {
            let http = sample.connection.facts.http.as_ref();
            return Self::new(
                http.and_then(|http| http.status),
                http.and_then(|http| http.body_bytes),
            );
        };
        let mut statuses = requests.exchanges.iter().filter_map(|exchange| exchange.status);
        let first = statuses.next();
        let other = statuses.find(|status| Some(*status) != first);
        let sizes = requests.exchanges.iter().filter_map(|exchange| exchange.body_bytes);
        let body_bytes = sizes.reduce(u64::saturating_add);
        Self::new(other.or(first), body_bytes)
    }

    /// Status code.
    pub fn status(&self) -> Option<u16> {
        Some(self.status).filter(|status| *status != 0)
    }

    /// Bytes of the body as received.
    pub fn body_bytes(&self) -> Option<u64> {
        Some(self.body_bytes).filter(|bytes| *bytes != ABSENT)
    }
}

/// Total time of the connections whose responses redirected; zero without redirects.
pub fn redirect_time(sample: &Sample) -> Duration {
    sample.redirects.iter().map(total).sum()
}

/// Duration of the visit: its redirects, and the connection that answered or failed, up to the last response if there
/// were several requests.
pub fn visit_time(sample: &Sample) -> Duration {
    redirect_time(sample) + total(&sample.connection) + sample.time_after_first_response()
}

/// A property that the cell requested and the sample lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shortfall {
    /// No session was available to offer.
    NoSession,
    /// The server did not resume the offered session.
    NotResumed,
    /// The session was resumed by another mechanism than requested.
    OtherMechanism,
    /// A session was resumed, but a full handshake was requested.
    Resumed,
    /// The offered session does not allow early data.
    EarlyDataNotAllowed,
    /// No early data left before the server's handshake arrived, for another reason.
    EarlyDataNotSent,
    /// The server did not accept the early data.
    EarlyDataRejected,
    /// The server accepted the early data and answered 425 (RFC 8470).
    TooEarly,
    /// Another version of TLS, or no TLS.
    OtherTlsVersion,
    /// Another version of HTTP.
    OtherHttpVersion,
    /// Another key-exchange group.
    OtherGroup,
    /// Another address family.
    OtherFamily,
    /// Another address.
    OtherAddress,
    /// A new connection, but an open one was requested.
    NotReused,
    /// Another client.
    OtherClient,
    /// More or fewer connections than requested.
    OtherConnections,
    /// Fewer simultaneous requests than possible.
    NotAtOnce,
    /// The client does not report it.
    NotSaid,
    /// Another status than most connections under the same explanation.
    OtherStatus,
}

impl Shortfall {
    /// All shortfalls.
    pub const ALL: [Self; 19] = [
        Self::NoSession,
        Self::NotResumed,
        Self::OtherMechanism,
        Self::Resumed,
        Self::EarlyDataNotAllowed,
        Self::EarlyDataNotSent,
        Self::EarlyDataRejected,
        Self::TooEarly,
        Self::OtherTlsVersion,
        Self::OtherHttpVersion,
        Self::OtherGroup,
        Self::OtherFamily,
        Self::OtherAddress,
        Self::NotReused,
        Self::OtherClient,
        Self::OtherConnections,
        Self::NotAtOnce,
        Self::NotSaid,
        Self::OtherStatus,
    ];

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSession => "no-session",
            Self::NotResumed => "not-resumed",
            Self::OtherMechanism => "other-mechanism",
            Self::Resumed => "resumed",
            Self::EarlyDataNotAllowed => "early-data-not-allowed",
            Self::EarlyDataNotSent => "early-data-not-sent",
            Self::EarlyDataRejected => "early-data-rejected",
            Self::TooEarly => "too-early",
            Self::OtherTlsVersion => "other-tls-version",
            Self::OtherHttpVersion => "other-http-version",
            Self::OtherGroup => "other-group",
            Self::OtherFamily => "other-family",
            Self::OtherAddress => "other-address",
            Self::NotReused => "not-reused",
            Self::OtherClient => "other-client",
            Self::OtherConnections => "other-connections",
            Self::NotAtOnce => "not-at-once",
            Self::NotSaid => "not-said",
            Self::OtherStatus => "other-status",
        }
    }

    /// Name after a count: "2 with early data rejected".
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::NoSession => "without a session to offer",
            Self::NotResumed => "not resumed",
            Self::OtherMechanism => "resumed by another mechanism",
            Self::Resumed => "resumed against the plan",
            Self::EarlyDataNotAllowed => "without permission for early data",
            Self::EarlyDataNotSent => "without early data",
            Self::EarlyDataRejected => "with early data rejected",
            Self::TooEarly => "answered 425",
            Self::OtherTlsVersion => "with another TLS version",
            Self::OtherHttpVersion => "with another HTTP version",
            Self::OtherGroup => "with another key-exchange group",
            Self::OtherFamily => "over another address family",
            Self::OtherAddress => "to another address",
            Self::NotReused => "on a new connection",
            Self::OtherClient => "by another client",
            Self::OtherConnections => "over another number of connections",
            Self::NotAtOnce => "not all at once",
            Self::NotSaid => "not reported by the client",
            Self::OtherStatus => "with another status",
        }
    }

    /// Finds a shortfall by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shortfall| shortfall.name() == name)
    }
}

/// How a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its facts prove everything that its cell requested.
    Proven,
    /// It completed as something else: kept, listed, not pooled.
    Unproven(Shortfall),
    /// It failed.
    Failed,
}

/// A reduced sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of its cell.
    pub cell: u16,
    /// Round, from 0, warm-up included.
    pub round: u32,
    /// Whether it was a warm-up.
    pub warmup: bool,
    /// How it counts.
    pub standing: Standing,
    /// Wall-clock time of its origin, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Delay of its start after the scheduled time, nanoseconds.
    pub lateness_ns: u64,
    /// See [`Taken::stands_for`], nanoseconds.
    pub stands_for_ns: Option<u64>,
    /// Values of the metrics.
    pub metrics: Metrics,
    /// Status and size of the response.
    pub answer: VisitAnswer,
}

impl Row {
    /// Whether it is pooled with others of its cell.
    pub const fn counts(&self) -> bool {
        !self.warmup && matches!(self.standing, Standing::Proven)
    }

    /// Its value of `metric`, nanoseconds.
    pub fn metric(&self, metric: Metric) -> Option<u64> {
        self.metrics.get(metric)
    }
}

/// Name of the axis along which files differ, if one of them is a table of another program's timers.
pub const FILE_AXIS: &str = "file";

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// Name of the axis, as the user gives it: "tls", "session", "edge".
    pub axis: String,
    /// Value, as the user gives it: "1.3", "0rtt", "sydney".
    pub value: String,
    /// Label in a table or a sentence: "TLS 1.3", "0-RTT", "Sydney".
    pub label: String,
}

/// One way of connecting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its factors, in the order of the axes.
    pub factors: Vec<Factor>,
    /// The URL it visits.
    pub url: String,
    /// Index of the cell that this one repeats, to check the experiment itself (A/A).
    pub twin_of: Option<usize>,
}

impl Cell {
    /// Its labels, joined: "TLS 1.3, Sydney, IPv4".
    pub fn name(&self) -> String {
        let labels: Vec<&str> = self.factors.iter().map(|f| f.label.as_str()).collect();
        let name = if labels.is_empty() { self.url.clone() } else { labels.join(", ") };
        if self.twin_of.is_some() { format!("{name} (A/A)") } else { name }
    }
}

/// One whole sample of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Index of its cell. Its round is the sample's `sequence`.
    pub cell: u16,
    /// How it counts.
    pub standing: Standing,
    /// Delay of its start after the scheduled time.
    pub lateness: Duration,
    /// Time represented by a monitor's sample: the interval of its series, plus those that passed during the
    /// measurement.
    ///
    /// Zero for an extra sample, which is taken immediately after a failure. Absent in other runs.
    pub stands_for: Option<Duration>,
    /// The sample.
    pub sample: Sample,
}

impl Taken {
    /// Reduces the sample to a row.
    pub fn row(&self) -> Row {
        let connection = &self.sample.connection;
        Row {
            cell: self.cell,
            round: self.sample.sequence,
            warmup: self.sample.warmup,
            standing: self.standing,
            started_unix_ns: connection.started_unix_ns.unwrap_or(0),
            lateness_ns: u64::try_from(self.lateness.as_nanos()).unwrap_or(u64::MAX),
            stands_for_ns: self
                .stands_for
                .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            metrics: Metrics::from_sample(&self.sample),
            answer: VisitAnswer::from_sample(&self.sample),
        }
    }
}
