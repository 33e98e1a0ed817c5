//! Aggregated field data: entries of each class by origin and protocol, phases of new connections, and failures.

use std::collections::BTreeMap;

use super::entry::{EntryClass, FieldPhase, TimeRange};
use super::line::{BeaconRecord, FieldLine, ReportRecord};
use super::weighted::{WeightedCount, weighted_share};
use firstbyte_core::stats::{Interval, fewest_for_quantile};
use firstbyte_core::timeline::FailureType;

/// Standard errors on either side that contain 95 % of the normal distribution.
const NORMAL_CRITICAL: f64 = 1.959_964;

/// Summary of all lines of field data.
#[derive(Clone, Debug, Default)]
pub struct FieldSummary {
    /// Page views that sent a beacon, weighted by sampling.
    pub pages: WeightedCount,
    /// Groups in the order of origin and protocol.
    pub groups: Vec<FieldGroup>,
    /// Failures in the order of origin and type, without downgraded reports, which say nothing about DNS.
    pub failures: Vec<ReportCount>,
    /// Share of failed requests among all reported ones, by origin.
    pub shares: Vec<FailureShare>,
    /// Reports from another address than the policy's (`dns.address_changed`): they do not say whether the requests
    /// failed.
    pub downgraded: WeightedCount,
    /// Entries with impossible times.
    pub impossible: u64,
    /// Entries that pages had but did not send.
    pub left_out: u64,
    /// Number of refused uploads, by reason.
    pub refused: BTreeMap<String, u64>,
    /// When the first and the last arrived, to the minute, seconds since the Unix epoch.
    pub received_unix_s: Option<(u64, u64)>,
    /// Finest and coarsest clock step of the browsers, microseconds.
    pub steps_us: Option<(f64, f64)>,
}

/// Entries of one origin over one protocol.
#[derive(Clone, Debug)]
pub struct FieldGroup {
    /// The origin.
    pub origin: String,
    /// `h1`, `h2`, `h3`, `other` or `unknown`.
    pub protocol: String,
    /// Counts of the classes that occur.
    pub counts: Vec<EntryCount>,
    /// Phases that occur among new connections.
    pub phases: Vec<PhaseFigures>,
}

impl FieldGroup {
    /// Number of entries of a class that were seen.
    pub fn entries(&self, class: EntryClass) -> u64 {
        let found = self.counts.iter().find(|count| count.class == class);
        found.map_or(0, |count| count.count.seen)
    }

    /// Number of entries that were seen.
    pub fn all_entries(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(count.count.seen))
    }
}

/// Number of entries of a class.
#[derive(Clone, Copy, Debug)]
pub struct EntryCount {
    /// The class.
    pub class: EntryClass,
    /// The count, corrected for sampling.
    pub count: WeightedCount,
}

/// A phase of the new connections in a group.
#[derive(Clone, Debug)]
pub struct PhaseFigures {
    /// The phase.
    pub phase: FieldPhase,
    /// Connections that have it.
    pub connections: u64,
    /// Median, p75 and p95, as far as there are enough values.
    pub quantiles: Vec<RangeQuantile>,
}

/// A quantile of times that are known only to clock steps, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeQuantile {
    /// The probability, between 0 and 1.
    pub q: f64,
    /// Quantile of the measured times, and of their minimum and maximum possible values.
    pub range: TimeRange,
    /// 95 % interval, covering both clock steps and chance; absent if there are too few pages.
    pub interval: Option<Interval>,
}

/// Failures of one type at one origin.
#[derive(Clone, Debug)]
pub struct ReportCount {
    /// The origin.
    pub origin: String,
    /// The type.
    pub failure: FailureType,
    /// The count, corrected for sampling.
    pub count: WeightedCount,
}

/// Share of requests to an origin that failed.
#[derive(Clone, Debug)]
pub struct FailureShare {
    /// The origin.
    pub origin: String,
    /// Requests that failed.
    pub failed: WeightedCount,
    /// Requests that succeeded.
    pub succeeded: WeightedCount,
}

impl FailureShare {
    /// The failed share and its interval; absent if the policy does not report successes.
    pub fn share(&self) -> Option<(f64, Interval)> {
        weighted_share(&self.failed, &self.succeeded)
    }
}

/// One connection's phase: its duration and weight.
#[derive(Clone, Copy)]
struct Weighed {
    range: TimeRange,
    weight: f64,
    /// Number of its beacon: pages are independent of each other, connections of one page are not.
    beacon: u64,
}

type Phases = BTreeMap<FieldPhase, Vec<Weighed>>;

/// Accumulates lines into a summary.
#[derive(Default)]
pub struct FieldLines {
    summary: FieldSummary,
    counts: BTreeMap<(String, String), BTreeMap<EntryClass, WeightedCount>>,
    phases: BTreeMap<(String, String), Phases>,
    failures: BTreeMap<(String, FailureType), WeightedCount>,
    shares: BTreeMap<String, [WeightedCount; 2]>,
    beacons: u64,
}

impl FieldLines {
    /// Adds a line.
    pub fn add(&mut self, line: &FieldLine) {
        match line {
            FieldLine::Beacon(beacon) => self.add_beacon(beacon),
            FieldLine::Report(report) => self.add_report(report),
            FieldLine::Refused(refused) => {
                for (why, times) in refused {
                    let all = self.summary.refused.entry(why.clone()).or_default();
                    *all = all.saturating_add(*times);
                }
            }
        }
    }

    fn came(&mut self, at: u64) {
        let seen = self.summary.received_unix_s.get_or_insert((at, at));
        *seen = (seen.0.min(at), seen.1.max(at));
    }

    fn add_beacon(&mut self, beacon: &BeaconRecord) {
        let Some(weight) = super::sampling(beacon.sampling).map(|fraction| 1.0 / fraction) else {
            return;
        };
        self.came(beacon.received_unix_s);
        self.beacons += 1;
        let number = self.beacons;
        self.summary.pages.add(weight);
        self.summary.impossible = self.summary.impossible.saturating_add(beacon.impossible);
        self.summary.left_out = self.summary.left_out.saturating_add(beacon.left_out);
        let steps = self.summary.steps_us.get_or_insert((beacon.step_us, beacon.step_us));
        *steps = (steps.0.min(beacon.step_us), steps.1.max(beacon.step_us));
        for counted in &beacon.counted {
            let key = (counted.origin.clone(), counted.protocol.clone());
            let count = self.counts.entry(key).or_default().entry(counted.class).or_default();
            count.add_many(counted.entries, weight);
        }
        for connection in &beacon.new {
            let key = (connection.origin.clone(), connection.protocol.clone());
            let counts = self.counts.entry(key.clone()).or_default();
            counts.entry(EntryClass::New).or_default().add(weight);
            let phases = self.phases.entry(key).or_default();
            for phase in FieldPhase::ALL {
                if let Some(range) = connection.phase(phase, beacon.step_us) {
                    let weighed = Weighed { range, weight, beacon: number };
                    phases.entry(phase).or_default().push(weighed);
                }
            }
        }
    }

    fn add_report(&mut self, report: &ReportRecord) {
        let Some(weight) = super::sampling(report.sampling).map(|fraction| 1.0 / fraction) else {
            return;
        };
        self.came(report.received_unix_s);
        let failure = report.failure.as_deref().map(FailureType::nearest);
        if failure == Some(FailureType::DnsAddressChanged) {
            self.summary.downgraded.add(weight);
            return;
        }
        let [failed, succeeded] = self.shares.entry(report.origin.clone()).or_default();
        match failure {
            Some(failure) => {
                failed.add(weight);
                let key = (report.origin.clone(), failure);
                self.failures.entry(key).or_default().add(weight);
            }
            None => succeeded.add(weight),
        }
    }

    /// Summarizes all lines added.
    pub fn into_summary(self) -> FieldSummary {
        let Self { mut summary, counts, mut phases, failures, shares, beacons: _ } = self;
        for (key, counts) in counts {
            let phases = phases.remove(&key).unwrap_or_default();
            let figures = phases.into_iter().map(|(phase, values)| PhaseFigures {
                phase,
                connections: values.len() as u64,
                quantiles: quantiles(&values),
            });
            let (origin, protocol) = key;
            summary.groups.push(FieldGroup {
                origin,
                protocol,
                counts: counts
                    .into_iter()
                    .map(|(class, count)| EntryCount { class, count })
                    .collect(),
                phases: figures.collect(),
            });
        }
        let failures = failures.into_iter();
        summary.failures = failures
            .map(|((origin, failure), count)| ReportCount { origin, failure, count })
            .collect();
        let shares = shares.into_iter();
        summary.shares = shares
            .map(|(origin, [failed, succeeded])| FailureShare { origin, failed, succeeded })
            .collect();
        summary
    }
}

const QUANTILES: [f64; 3] = [0.5, 0.75, 0.95];

fn quantiles(values: &[Weighed]) -> Vec<RangeQuantile> {
    let pages = effective_pages(values);
    let sorted = |value: fn(&TimeRange) -> f64| {
        let mut pairs: Vec<(f64, f64)> =
            values.iter().map(|one| (value(&one.range), one.weight)).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs
    };
    let least = sorted(|range| range.least_us);
    let seen = sorted(|range| range.seen_us);
    let most = sorted(|range| range.most_us);
    let one = |q: f64| {
        // With fewer values, less than one of them is expected above the quantile.
        if q > 0.5 && (values.len() as f64) < 1.0 / (1.0 - q) {
            return None;
        }
        let range = TimeRange {
            least_us: weighted_quantile(&least, q)?,
            seen_us: weighted_quantile(&seen, q)?,
            most_us: weighted_quantile(&most, q)?,
        };
        let enough = pages >= fewest_for_quantile(q) as f64;
        let reach = NORMAL_CRITICAL * (q * (1.0 - q) / pages).sqrt();
        let interval = enough.then(|| {
            Some(Interval {
                low: weighted_quantile(&least, (q - reach).max(0.0))?,
                high: weighted_quantile(&most, (q + reach).min(1.0))?,
            })
        });
        Some(RangeQuantile { q, range, interval: interval.flatten() })
    };
    QUANTILES.into_iter().filter_map(one).collect()
}

/// Kish's effective sample size, in beacons rather than connections: the number of equally weighted pages with the same
/// precision.
fn effective_pages(values: &[Weighed]) -> f64 {
    let (mut pages, mut weight) = (WeightedCount::default(), 0.0);
    for (at, value) in values.iter().enumerate() {
        weight += value.weight;
        // Values of one beacon are adjacent.
        if values.get(at + 1).is_none_or(|next| next.beacon != value.beacon) {
            pages.add(weight);
            weight = 0.0;
        }
    }
    pages.effective()
}

/// The smallest of the `sorted` values (paired with weights) such that at least the share `q` of all weight is at or
/// below it.
fn weighted_quantile(sorted: &[(f64, f64)], q: f64) -> Option<f64> {
    let all: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    for (value, weight) in sorted {
        below += weight;
        if below >= q * all - 1e-9 * all {
            return Some(*value);
        }
    }
    sorted.last().map(|(value, _)| *value)
}
