//! All lines of field data together: by origin and protocol how many entries of each class, the phases of connections
//! that were new, and what failed.

use std::collections::BTreeMap;

use super::entry::{EntryClass, FieldPhase, TimeRange};
use super::line::{BeaconRecord, FieldLine, ReportRecord};
use super::weighted::{WeightedCount, weighted_share};
use firstbyte_core::stats::{Interval, fewest_for_quantile};
use firstbyte_core::timeline::FailureType;

/// Standard errors to either side that hold 95 % of the normal distribution.
const NORMAL_CRITICAL: f64 = 1.959_964;

/// What the lines of field data say together.
#[derive(Clone, Debug, Default)]
pub struct FieldSummary {
    /// Page views that sent a beacon, and how many they stand for.
    pub pages: WeightedCount,
    /// By origin and protocol, in this order.
    pub groups: Vec<FieldGroup>,
    /// By origin and type of failure, in this order: without those that were downgraded, which say nothing of DNS.
    pub failures: Vec<ReportCount>,
    /// By origin: how many failed of all that are reported.
    pub shares: Vec<FailureShare>,
    /// Reports of another address than the policy's (`dns.address_changed`): whether these requests failed is not said.
    pub downgraded: WeightedCount,
    /// Entries whose times cannot be.
    pub impossible: u64,
    /// Entries that pages had more of than they sent.
    pub left_out: u64,
    /// What the server refused, by why.
    pub refused: BTreeMap<String, u64>,
    /// When the first and the last came, to the minute, seconds since the Unix epoch.
    pub received_unix_s: Option<(u64, u64)>,
    /// The finest and the coarsest step of browsers' clocks, microseconds.
    pub steps_us: Option<(f64, f64)>,
}

/// The entries of an origin over a protocol.
#[derive(Clone, Debug)]
pub struct FieldGroup {
    /// Whose.
    pub origin: String,
    /// `h1`, `h2`, `h3`, `other` or `unknown`.
    pub protocol: String,
    /// Of each class that there is.
    pub counts: Vec<EntryCount>,
    /// Of connections that were new, those that there are.
    pub phases: Vec<PhaseFigures>,
}

impl FieldGroup {
    /// How many entries of a class came in.
    pub fn entries(&self, class: EntryClass) -> u64 {
        let found = self.counts.iter().find(|count| count.class == class);
        found.map_or(0, |count| count.count.seen)
    }

    /// How many entries came in.
    pub fn all_entries(&self) -> u64 {
        self.counts.iter().fold(0, |all, count| all.saturating_add(count.count.seen))
    }
}

/// How many entries of a class.
#[derive(Clone, Copy, Debug)]
pub struct EntryCount {
    /// What they are.
    pub class: EntryClass,
    /// How many.
    pub count: WeightedCount,
}

/// A phase of the new connections of a group.
#[derive(Clone, Debug)]
pub struct PhaseFigures {
    /// Which.
    pub phase: FieldPhase,
    /// How many connections have it.
    pub connections: u64,
    /// The median, p75 and p95, as far as there are enough.
    pub quantiles: Vec<RangeQuantile>,
}

/// A quantile of times that are known up to the steps of clocks, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RangeQuantile {
    /// Which.
    pub q: f64,
    /// Of the times as clocks showed them, and of the least and the most that they can have been.
    pub range: TimeRange,
    /// Where it is with 95 %, clocks' steps and chance together; absent where there are too few pages.
    pub interval: Option<Interval>,
}

/// Failures of one type.
#[derive(Clone, Debug)]
pub struct ReportCount {
    /// Whose.
    pub origin: String,
    /// The type.
    pub failure: FailureType,
    /// How many, sampling undone.
    pub count: WeightedCount,
}

/// How much of what was asked of an origin failed.
#[derive(Clone, Debug)]
pub struct FailureShare {
    /// Whose.
    pub origin: String,
    /// Requests that failed.
    pub failed: WeightedCount,
    /// Requests that did not.
    pub succeeded: WeightedCount,
}

impl FailureShare {
    /// The share that failed, and its interval; absent where the policy has no successes reported.
    pub fn share(&self) -> Option<(f64, Interval)> {
        weighted_share(&self.failed, &self.succeeded)
    }
}

/// One connection's phase: how long, and what it stands for.
#[derive(Clone, Copy)]
struct Weighed {
    range: TimeRange,
    weight: f64,
    /// Which beacon it is of: pages are independent of each other, connections of a page are not.
    beacon: u64,
}

/// The values of one phase.
type Phases = BTreeMap<FieldPhase, Vec<Weighed>>;

/// Lines, as they are being read.
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
    /// Takes a line in.
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

    /// What all of them say together.
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

/// Those that are shown.
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
        // Fewer say nothing of what so few exceed.
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

/// How many pages, alike in weight, would say as much: Kish's effective size of beacons, not of connections.
fn effective_pages(values: &[Weighed]) -> f64 {
    let (mut pages, mut weight) = (WeightedCount::default(), 0.0);
    for (at, value) in values.iter().enumerate() {
        weight += value.weight;
        // Those of a beacon stand behind each other.
        if values.get(at + 1).is_none_or(|next| next.beacon != value.beacon) {
            pages.add(weight);
            weight = 0.0;
        }
    }
    pages.effective()
}

/// The least of `sorted` values (with their weights) that at least the share `q` of all weight does not exceed.
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
