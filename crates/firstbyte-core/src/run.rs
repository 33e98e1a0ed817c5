//! Runs: the samples of an experiment, by cell and round, and what each of them proved.
//!
//! A *cell* is one way to connect: a value for every axis that is varied. Every *round* visits every
//! cell once. A *row* is a sample reduced to what statistics need of it.

use std::time::Duration;

use crate::split::{phases, total};
use crate::timeline::{Connection, Mark, Offset, PhaseName, Sample};

/// A stretch of time that is compared. Definitions: `docs/measurement.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Name to address.
    Resolve,
    /// TCP handshake.
    Connect,
    /// TLS handshake over TCP; absent where the request went out with early data.
    Tls,
    /// QUIC handshake; absent where the request went out with early data.
    Quic,
    /// Connection set-up: all handshakes together, with a proxy's TLS and tunnel, from the end of `Resolve` until the
    /// request may leave.
    Setup,
    /// Handing the request over.
    Send,
    /// From the last byte of the request to the first of the response.
    Wait,
    /// From the first to the last byte of the response.
    Receive,
    /// From the origin to the first byte of the response.
    Ttfb,
    /// From the origin to the last byte of the response; of several requests, of the last response.
    Total,
}

impl Metric {
    /// Every metric, in the order in which they are shown.
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

    /// The name used in stored forms, and by the user.
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

    /// What it is called in a sentence.
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

    /// The metric with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Whether it also measures which response the server gave. Handshakes end before the response.
    pub const fn depends_on_answer(self) -> bool {
        matches!(self, Self::Wait | Self::Receive | Self::Ttfb | Self::Total)
    }

    /// The metric of a phase. A proxy's phases have none of their own: they are part of `Setup`.
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

/// A value for every metric that there is one for, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    values: [u64; Metric::ALL.len()],
    /// How far each may be off, either way, because of the steps of a clock that another program read; nanoseconds.
    pub resolution_ns: u32,
}

/// What stands for "absent" inside of [`Metrics`]: five centuries.
const ABSENT: u64 = u64::MAX;

impl Default for Metrics {
    fn default() -> Self {
        Self { values: [ABSENT; Metric::ALL.len()], resolution_ns: 0 }
    }
}

impl Metrics {
    /// The metrics of `connection`: those of phases that came to their end.
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
        // With early data over QUIC nothing is set up before the request leaves.
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

    /// These, of the sample's connection, where several requests were made: the total is until the last of their
    /// responses.
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
    /// 0 stands for "absent".
    status: u16,
    /// [`ABSENT`] stands for "absent".
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

    /// The answer to `sample`. Of several requests it has the first status that differs from the first request's, and
    /// the bytes of all bodies.
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

    /// Its status code.
    pub fn status(&self) -> Option<u16> {
        Some(self.status).filter(|status| *status != 0)
    }

    /// Bytes of its body as received.
    pub fn body_bytes(&self) -> Option<u64> {
        Some(self.body_bytes).filter(|bytes| *bytes != ABSENT)
    }
}

/// What the connections took whose responses redirected: nothing where there are none.
pub fn redirect_time(sample: &Sample) -> Duration {
    sample.redirects.iter().map(total).sum()
}

/// What the visit took: its redirects, and the connection that answered or failed; of several requests, until the last
/// of their responses.
pub fn visit_time(sample: &Sample) -> Duration {
    redirect_time(sample) + total(&sample.connection) + sample.time_after_first_response()
}

/// What a sample lacks of what its cell asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shortfall {
    /// No session was there to be offered.
    NoSession,
    /// The server did not take up the session that was offered.
    NotResumed,
    /// The session was taken up by another mechanism than the one asked for.
    OtherMechanism,
    /// A session was resumed where a full handshake was asked for.
    Resumed,
    /// The session that was offered does not allow early data.
    EarlyDataNotAllowed,
    /// No early data left before the server's handshake arrived, for another reason.
    EarlyDataNotSent,
    /// The server did not take the early data.
    EarlyDataRejected,
    /// The server took it and answered 425 (RFC 8470).
    TooEarly,
    /// Another version of TLS, or none.
    OtherTlsVersion,
    /// Another version of HTTP.
    OtherHttpVersion,
    /// Another key-exchange group.
    OtherGroup,
    /// Another address family.
    OtherFamily,
    /// Another address.
    OtherAddress,
    /// A new connection, where an open one was asked for.
    NotReused,
    /// Another client.
    OtherClient,
    /// Requests on more or fewer connections.
    OtherConnections,
    /// Not so many requests at once as there could have been.
    NotAtOnce,
    /// The client does not say.
    NotSaid,
    /// Another status than most connections of the same explanation.
    OtherStatus,
}

impl Shortfall {
    /// Every shortfall.
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

    /// The name used in stored forms.
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

    /// What it is called after a count: "2 with early data rejected".
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

    /// The shortfall with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shortfall| shortfall.name() == name)
    }
}

/// What a sample counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its facts prove all that its cell asked for.
    Proven,
    /// It came to its end as something else: kept, listed, not pooled.
    Unproven(Shortfall),
    /// It failed.
    Failed,
}

/// A sample, reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Index of its cell.
    pub cell: u16,
    /// Its round, from 0, warm-up included.
    pub round: u32,
    /// Measured to warm up.
    pub warmup: bool,
    /// What it counts for.
    pub standing: Standing,
    /// Wall-clock time of its origin, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How long after its time on the schedule it was begun, nanoseconds.
    pub lateness_ns: u64,
    /// See [`Taken::stands_for`], nanoseconds.
    pub stands_for_ns: Option<u64>,
    /// Its times.
    pub metrics: Metrics,
    /// Status and size of its response.
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
    /// What it is called in a table or a sentence: "TLS 1.3", "0-RTT", "Sydney".
    pub label: String,
}

/// One way to connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Its factors, in the order of the axes.
    pub factors: Vec<Factor>,
    /// The URL it visits.
    pub url: String,
    /// The same as the cell with this index, measured twice to check the experiment itself (A/A).
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

/// One sample of a run, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Index of its cell. Its round is the sample's `sequence`.
    pub cell: u16,
    /// What it counts for.
    pub standing: Standing,
    /// How long after its time on the schedule it was begun.
    pub lateness: Duration,
    /// How much time a monitor's sample stands for: the interval of its series, and those that passed while it was measured. Zero
    /// for an extra sample, which is measured at once after a failure. Other runs have none.
    pub stands_for: Option<Duration>,
    /// The sample.
    pub sample: Sample,
}

impl Taken {
    /// Its reduced form.
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
