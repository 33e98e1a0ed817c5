//! Input of the detector: series with their labels, and their rollups. A store implements [`History`]; [`InMemory`] is
//! for tests, and for data that fits into memory.

use std::collections::BTreeMap;

use super::latest::LatestSample;
use super::level::{HOUR, WINDOW};
use super::notes::Note;
use crate::rollup::{Measure, Rollup};

/// Selects the times of rollups to restore: unpacking them takes the most time.
pub type WantedTimes = dyn Fn(Measure) -> bool;

/// A series: one target, visited in one way from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesLabels {
    /// Number of the series in the store.
    pub id: u64,
    /// The name of its target.
    pub target: String,
    /// All other properties that distinguish series, by name: "family", "edge", "place", axes, tags.
    pub tags: BTreeMap<String, String>,
}

/// The samples to examine. Times are milliseconds since the Unix epoch.
pub trait History {
    /// All series measured at present.
    fn series(&self) -> &[SeriesLabels];

    /// Time of the last sample of `series` before `until`, if known. The detector examines a series again when this
    /// changes.
    fn newest(&self, series: u64, until: i64) -> Option<i64>;

    /// The latest samples of `series` in `from..until`, at most `most`, in order of time. If single samples are not
    /// kept, the finest rollups instead.
    fn samples(&self, series: u64, from: i64, until: i64, most: usize) -> Vec<LatestSample>;

    /// The hours of `series` that begin in `from..until`, in order of time, with the `wanted` times. Hours without
    /// samples are left out.
    fn hours(&self, series: u64, from: i64, until: i64, wanted: &WantedTimes)
    -> Vec<(i64, Rollup)>;

    /// Outages of `series`, each from its first time to its second, which may be far in the future.
    fn outages(&self, series: u64) -> Vec<[i64; 2]>;

    /// Annotations in `from..until`.
    fn notes(&self, from: i64, until: i64) -> Vec<Note>;
}

/// Samples in memory.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    series: Vec<SeriesLabels>,
    samples: BTreeMap<u64, BTreeMap<i64, LatestSample>>,
    hours: BTreeMap<u64, BTreeMap<i64, Rollup>>,
    notes: Vec<Note>,
    outages: BTreeMap<u64, Vec<[i64; 2]>>,
}

impl InMemory {
    /// Adds a series.
    pub fn add_series(&mut self, labels: SeriesLabels) {
        self.series.push(labels);
    }

    /// Adds an annotation.
    pub fn add_note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Adds the sample taken at `at`.
    pub fn add(&mut self, series: u64, at: i64, rollup: &Rollup) {
        self.add_hours(series, at, rollup);
        let samples = self.samples.entry(series).or_default();
        samples.insert(at, LatestSample::from_rollup(at, rollup));
        // The detector reads no more.
        if samples.len() > 4 * WINDOW {
            samples.pop_first();
        }
    }

    /// Adds an outage.
    pub fn add_outage(&mut self, series: u64, outage: [i64; 2]) {
        self.outages.entry(series).or_default().push(outage);
    }

    /// Adds a rollup to the hour of `at`, without keeping single samples.
    pub fn add_hours(&mut self, series: u64, at: i64, rollup: &Rollup) {
        let hour = at.div_euclid(HOUR) * HOUR;
        self.hours.entry(series).or_default().entry(hour).or_default().merge(rollup);
    }
}

impl History for InMemory {
    fn series(&self) -> &[SeriesLabels] {
        &self.series
    }

    fn newest(&self, series: u64, until: i64) -> Option<i64> {
        let (at, _) = self.samples.get(&series)?.range(..until).next_back()?;
        Some(*at)
    }

    fn samples(&self, series: u64, from: i64, until: i64, most: usize) -> Vec<LatestSample> {
        let kept = self.samples.get(&series).filter(|_| from < until);
        let latest = kept.into_iter().flat_map(|all| all.range(from..until).rev()).take(most);
        let mut latest: Vec<LatestSample> = latest.map(|(_, sample)| sample.clone()).collect();
        latest.reverse();
        latest
    }

    fn hours(&self, series: u64, from: i64, until: i64, _: &WantedTimes) -> Vec<(i64, Rollup)> {
        let kept = self.hours.get(&series).filter(|_| from < until);
        let within = kept.into_iter().flat_map(|all| all.range(from..until));
        within.map(|(at, rollup)| (*at, rollup.clone())).collect()
    }

    fn outages(&self, series: u64) -> Vec<[i64; 2]> {
        self.outages.get(&series).cloned().unwrap_or_default()
    }

    fn notes(&self, from: i64, until: i64) -> Vec<Note> {
        self.notes.iter().filter(|note| (from..until).contains(&note.at)).cloned().collect()
    }
}
