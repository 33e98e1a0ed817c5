//! What the detector reads: series with their labels, and their rollups. A store implements [`History`]; [`InMemory`] is for
//! tests, and for what fits into memory.

use std::collections::BTreeMap;

use super::level::HOUR;
use crate::rollup::Rollup;

/// A series: one target, visited in one way from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesLabels {
    /// What the store calls it.
    pub id: u64,
    /// The name of its target.
    pub target: String,
    /// Everything else that series are told apart by, by name: "family", "edge", "place", axes, tags.
    pub tags: BTreeMap<String, String>,
}

/// How finely time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A rollup for each sample, with the time that it was taken at; where these are not kept, the finest rollups that are.
    Sample,
    /// Hours.
    Hour,
}

/// What was measured.
pub trait History {
    /// All series that are measured now.
    fn series(&self) -> Vec<SeriesLabels>;

    /// Rollups that begin at `from` or after and before `until` (milliseconds since the Unix epoch), in the order of time, with when
    /// they begin. Slots without samples have none.
    fn rollups(&self, series: u64, step: Step, from: i64, until: i64) -> Vec<(i64, Rollup)>;
}

/// Samples in memory.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    series: Vec<SeriesLabels>,
    samples: BTreeMap<u64, BTreeMap<i64, Rollup>>,
    hours: BTreeMap<u64, BTreeMap<i64, Rollup>>,
}

impl InMemory {
    /// Has a series.
    pub fn add_series(&mut self, labels: SeriesLabels) {
        self.series.push(labels);
    }

    /// Counts what was taken at `at`.
    pub fn add(&mut self, series: u64, at: i64, rollup: &Rollup) {
        self.add_hours(series, at, rollup);
        self.samples.entry(series).or_default().entry(at).or_default().merge(rollup);
    }

    #[cfg(test)]
    pub(super) fn samples_only(&mut self, series: u64, at: i64, rollup: &Rollup) {
        self.samples.entry(series).or_default().entry(at).or_default().merge(rollup);
    }

    /// Counts what was taken within the hour of `at`, of which no single samples are kept.
    pub fn add_hours(&mut self, series: u64, at: i64, rollup: &Rollup) {
        let hour = at.div_euclid(HOUR) * HOUR;
        self.hours.entry(series).or_default().entry(hour).or_default().merge(rollup);
    }
}

impl History for InMemory {
    fn series(&self) -> Vec<SeriesLabels> {
        self.series.clone()
    }

    fn rollups(&self, series: u64, step: Step, from: i64, until: i64) -> Vec<(i64, Rollup)> {
        let kept = match step {
            Step::Sample => self.samples.get(&series),
            Step::Hour => self.hours.get(&series),
        };
        let within =
            kept.filter(|_| from < until).into_iter().flat_map(|all| all.range(from..until));
        within.map(|(at, rollup)| (*at, rollup.clone())).collect()
    }
}
