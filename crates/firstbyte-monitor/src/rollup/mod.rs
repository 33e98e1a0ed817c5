//! Summaries of the samples of a period. Rollups of shorter periods add up to those of longer ones.
//!
//! In: samples. Out: their number, failures by type, how often each fact had each value, and a histogram of every time.
//! The sum of two rollups is the rollup of all their samples, in any order (except that facts with many values keep
//! only some of them apart). Definitions: `docs/monitor.md`, "Rollups".

mod stored;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::run::{Metric, Metrics, Shortfall, Standing, Taken};
use firstbyte_core::split::{Parts, Split};
use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_core::timeline::{Certificate, Connection, FailureType};
use time::OffsetDateTime;

pub use stored::StoredRollupError;

/// Most distinct values kept of one fact; further ones are counted as [`OTHER_VALUES`].
pub const MOST_VALUES: usize = 32;
/// Stands for further values of a fact.
pub const OTHER_VALUES: &str = "(others)";

/// A time that rollups have a histogram of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// A time of the visit, such as a phase or the time to the first byte.
    Metric(Metric),
    /// The time of one part of the connection's total time.
    Part(MonitoredPart),
    /// The round-trip time used to attribute the parts.
    Rtt,
}

/// Who or what a time is attributed to. The name service's time is the metric "resolve".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MonitoredPart {
    /// Number of round trips times the round-trip time.
    Network,
    /// Time of the TCP handshake beyond one round trip.
    Variation,
    /// Server time.
    Server,
    /// Client time.
    Client,
    /// Between the first and the last byte of flights.
    Transfer,
    /// Time in which the sender stood still.
    Pause,
    /// Failed attempts.
    Fallback,
    /// Not attributable.
    Unexplained,
}

impl MonitoredPart {
    /// Every part.
    pub const ALL: [Self; 8] = [
        Self::Network,
        Self::Variation,
        Self::Server,
        Self::Client,
        Self::Transfer,
        Self::Pause,
        Self::Fallback,
        Self::Unexplained,
    ];

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Variation => "variation",
            Self::Server => "server",
            Self::Client => "client",
            Self::Transfer => "transfer",
            Self::Pause => "pause",
            Self::Fallback => "fallback",
            Self::Unexplained => "unexplained",
        }
    }

    const fn time_in(self, parts: &Parts) -> Duration {
        match self {
            Self::Network => parts.network,
            Self::Variation => parts.variation,
            Self::Server => parts.server,
            Self::Client => parts.client,
            Self::Transfer => parts.transfer,
            Self::Pause => parts.pause,
            Self::Fallback => parts.fallback,
            Self::Unexplained => parts.unexplained,
        }
    }
}

impl Measure {
    /// Number of measures.
    pub const COUNT: usize = Metric::ALL.len() + MonitoredPart::ALL.len() + 1;

    /// Every measure, in stored order.
    pub fn all() -> impl Iterator<Item = Self> {
        let metrics = Metric::ALL.into_iter().map(Self::Metric);
        let parts = MonitoredPart::ALL.into_iter().map(Self::Part);
        metrics.chain(parts).chain(std::iter::once(Self::Rtt))
    }

    /// The name used in stored forms: "ttfb", "part.server", "rtt".
    pub fn name(self) -> String {
        match self {
            Self::Metric(metric) => metric.name().to_owned(),
            Self::Part(part) => format!("part.{}", part.name()),
            Self::Rtt => "rtt".to_owned(),
        }
    }

    /// The measure with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|measure| measure.name() == name)
    }

    const fn place(self) -> usize {
        match self {
            Self::Metric(metric) => metric as usize,
            Self::Part(part) => Metric::ALL.len() + part as usize,
            Self::Rtt => Self::COUNT - 1,
        }
    }
}

macro_rules! monitored_facts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A negotiated or proven property that may explain why times changed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MonitoredFact {
            $($(#[$doc])* $variant,)*
        }

        impl MonitoredFact {
            /// Every fact.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name used in stored forms.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

monitored_facts! {
    /// The address connected to.
    Address = "address";
    /// "TLSv1.3" or "TLSv1.2".
    TlsVersion = "tls.version";
    /// IANA name of the cipher suite.
    CipherSuite = "tls.cipher_suite";
    /// The key-exchange group.
    Group = "tls.group";
    /// "full", "full-hello-retry-request" or "resumed".
    Handshake = "tls.handshake";
    /// "accepted" or "rejected"; absent if no early data was sent.
    EarlyData = "tls.early_data";
    /// The server's certificate: key, issuer, and expiry.
    Certificate = "tls.certificate";
    /// Size of the certificate chain in DER, bytes.
    ChainBytes = "tls.chain_bytes";
    /// "1.1", "2" or "3".
    HttpVersion = "http.version";
    /// The status code.
    HttpStatus = "http.status";
    /// Round trips counted from the origin to the last byte.
    RoundTrips = "round_trips";
    /// How many of these round trips the server waited with a full window.
    Stalls = "stalls";
    /// "retry" if the server first asked for address validation (RFC 9000 §8.1.2).
    QuicRetry = "quic.retry";
    /// "stalled" if the server's first flight stopped at the amplification limit (RFC 9000 §8.1).
    QuicAmplification = "quic.amplification";
}

impl MonitoredFact {
    /// The fact with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fact| fact.name() == name)
    }
}

/// Summary of the samples of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Number of all samples.
    pub samples: u64,
    /// Time that the samples stand for, in whole milliseconds.
    pub monitored: Duration,
    /// Time that the failed samples stand for.
    pub failed_time: Duration,
    /// Failed samples, by type.
    pub failures: BTreeMap<FailureType, u64>,
    /// Samples that succeeded, but not in the requested way.
    pub unproven: BTreeMap<Shortfall, u64>,
    /// Samples that did not fail, by fact and value.
    pub facts: BTreeMap<MonitoredFact, BTreeMap<String, u64>>,
    /// Times of samples that neither failed nor are unproven.
    pub(crate) times: BTreeMap<Measure, ExponentialHistogram>,
}

impl Rollup {
    /// A rollup with a number of samples, and without times and facts.
    pub fn from_count(samples: u64) -> Self {
        Self { samples, ..Self::default() }
    }

    /// Adds the sample `taken`.
    pub fn add(&mut self, taken: &Taken) {
        self.samples += 1;
        let stands_for = whole_milliseconds(taken.stands_for.unwrap_or_default());
        self.monitored = self.monitored.saturating_add(stands_for);
        if taken.standing == Standing::Failed || taken.sample.failure().is_some() {
            self.failed_time = self.failed_time.saturating_add(stands_for);
        }
        let sample = &taken.sample;
        if let Some(failure) = sample.failure() {
            *self.failures.entry(failure.failure_type()).or_default() += 1;
            return;
        }
        let connection = &sample.connection;
        let split = Split::attribute(connection);
        self.add_facts(connection, &split);
        match taken.standing {
            Standing::Unproven(shortfall) => *self.unproven.entry(shortfall).or_default() += 1,
            Standing::Failed => *self.failures.entry(FailureType::Unknown).or_default() += 1,
            Standing::Proven => {
                self.add_times(&Metrics::from_sample(sample), &split);
            }
        }
    }

    fn add_times(&mut self, metrics: &Metrics, split: &Split) {
        for metric in Metric::ALL {
            if let Some(ns) = metrics.get(metric) {
                self.add_time(Measure::Metric(metric), Duration::from_nanos(ns));
            }
        }
        for part in MonitoredPart::ALL {
            self.add_time(Measure::Part(part), part.time_in(&split.parts));
        }
        if let Some(rtt) = split.rtt {
            self.add_time(Measure::Rtt, rtt);
        }
    }

    /// Adds one value of `measure`.
    pub fn add_time(&mut self, measure: Measure, time: Duration) {
        self.times.entry(measure).or_default().add(time);
    }

    fn add_facts(&mut self, connection: &Connection, split: &Split) {
        use MonitoredFact as Fact;
        let facts = &connection.facts;
        if let Some(remote) = facts.remote {
            self.add_fact(Fact::Address, &remote.ip().to_string(), 1);
        }
        if let Some(tls) = &facts.tls {
            let mut text = |fact, value: &Option<String>| {
                if let Some(value) = value {
                    self.add_fact(fact, value, 1);
                }
            };
            text(Fact::TlsVersion, &tls.version);
            text(Fact::CipherSuite, &tls.cipher_suite);
            text(Fact::Group, &tls.group);
            if let Some(handshake) = tls.handshake {
                self.add_fact(Fact::Handshake, handshake.name(), 1);
            }
            if let Some(accepted) = tls.early_data.and_then(|early| early.accepted) {
                let what = if accepted { "accepted" } else { "rejected" };
                self.add_fact(Fact::EarlyData, what, 1);
            }
            if let Some(leaf) = tls.certificates.first() {
                self.add_fact(Fact::Certificate, &certificate(leaf), 1);
            }
            if let Some(bytes) = tls.certificate_chain_bytes() {
                self.add_fact(Fact::ChainBytes, &bytes.to_string(), 1);
            }
        }
        if let Some(http) = &facts.http {
            if let Some(version) = &http.version {
                self.add_fact(Fact::HttpVersion, version, 1);
            }
            if let Some(status) = http.status {
                self.add_fact(Fact::HttpStatus, &status.to_string(), 1);
            }
        }
        if let Some(quic) = &facts.quic {
            let retry = if quic.retry { "retry" } else { "none" };
            self.add_fact(Fact::QuicRetry, retry, 1);
            let stalled = if quic.amplification_stall.is_some() { "stalled" } else { "none" };
            self.add_fact(Fact::QuicAmplification, stalled, 1);
        }
        if split.rtt.is_some() {
            self.add_fact(Fact::RoundTrips, &split.round_trips.to_string(), 1);
            let stalls: u32 = split.phases.iter().map(|phase| phase.stalls).sum();
            self.add_fact(Fact::Stalls, &stalls.to_string(), 1);
        }
    }

    /// Adds `number` samples in which `fact` was `value`.
    pub fn add_fact(&mut self, fact: MonitoredFact, value: &str, number: u64) {
        let values = self.facts.entry(fact).or_default();
        match values.get_mut(value) {
            Some(count) => *count += number,
            None => {
                let value = if values.len() < MOST_VALUES { value } else { OTHER_VALUES };
                *values.entry(value.to_owned()).or_default() += number;
            }
        }
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.monitored = self.monitored.saturating_add(other.monitored);
        self.failed_time = self.failed_time.saturating_add(other.failed_time);
        for (failure, number) in &other.failures {
            *self.failures.entry(*failure).or_default() += number;
        }
        for (shortfall, number) in &other.unproven {
            *self.unproven.entry(*shortfall).or_default() += number;
        }
        for (fact, values) in &other.facts {
            for (value, number) in values {
                self.add_fact(*fact, value, *number);
            }
        }
        for (measure, histogram) in &other.times {
            self.times.entry(*measure).or_default().merge(histogram);
        }
    }

    /// The histogram of `measure`, if any sample had a value.
    pub fn times(&self, measure: Measure) -> Option<&ExponentialHistogram> {
        self.times.get(&measure)
    }

    /// Adds the values of `histogram` to those of `measure`.
    pub fn add_times_of(&mut self, measure: Measure, histogram: &ExponentialHistogram) {
        self.times.entry(measure).or_default().merge(histogram);
    }

    /// A copy without times.
    pub fn without_times(&self) -> Self {
        Self {
            samples: self.samples,
            monitored: self.monitored,
            failed_time: self.failed_time,
            failures: self.failures.clone(),
            unproven: self.unproven.clone(),
            facts: self.facts.clone(),
            times: BTreeMap::new(),
        }
    }

    /// Every measure that has times, with its histogram.
    pub fn all_times(&self) -> impl Iterator<Item = (Measure, &ExponentialHistogram)> {
        self.times.iter().map(|(measure, times)| (*measure, times))
    }

    /// Samples that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The share of monitored time in which the server failed. If the samples stand for no time, the share of samples
    /// that failed.
    pub fn failed_share(&self) -> Option<f64> {
        match (self.monitored.is_zero(), self.samples) {
            (_, 0) => None,
            (true, samples) => Some(self.failed() as f64 / samples as f64),
            (false, _) => {
                Some((self.failed_time.as_secs_f64() / self.monitored.as_secs_f64()).min(1.0))
            }
        }
    }

    /// Whether the rollup has no samples.
    pub const fn is_empty(&self) -> bool {
        self.samples == 0
    }
}

/// Rounds down to whole milliseconds, which the stored form keeps exactly.
fn whole_milliseconds(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Text that distinguishes certificates: a new one of the same issuer expires at another time.
fn certificate(leaf: &Certificate) -> String {
    let end = leaf.not_after_unix.and_then(|end| OffsetDateTime::from_unix_timestamp(end).ok());
    let until = end.map(|end| format!(", until {}", end.date())).unwrap_or_default();
    format!("{}, issued by {}{until}", leaf.key, leaf.issuer)
}
