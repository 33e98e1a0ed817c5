//! The latest samples of every series, small enough to be kept in memory.
//!
//! In: the rollup of one sample, or of a minute. Out: the same rollup with one time per measure. A sample shares its
//! facts and counts with the previous sample if they are equal; times have single precision, seven digits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::stats::ExponentialHistogram;

use crate::rollup::{Measure, Rollup};

/// Most samples of one series; the detector looks at no more.
const MOST_OF_ONE: usize = super::level::WINDOW;
/// Most samples of all series, which take about 100 MB.
const MOST_OF_ALL: usize = 400_000;
/// With room for fewer samples per series than this, the detector cannot find anything, so no samples are kept.
const FEWEST: usize = 60;

/// The latest samples of every series.
#[derive(Clone, Debug, Default)]
pub struct LatestSamples {
    series: BTreeMap<u64, VecDeque<LatestSample>>,
    most: usize,
}

/// One sample, or the samples of a minute with their medians.
#[derive(Clone, Debug)]
pub struct LatestSample {
    /// When it was taken, milliseconds since the Unix epoch.
    pub at: i64,
    /// All of the rollup except the times.
    counted: Arc<Rollup>,
    times: Arc<[(Measure, f32)]>,
}

impl LatestSamples {
    /// Makes room for the samples of these series, and drops those of all other series.
    pub fn keep_alone(&mut self, series: &BTreeSet<u64>) {
        let most = (MOST_OF_ALL / series.len().max(1)).min(MOST_OF_ONE);
        self.most = if most < FEWEST { 0 } else { most };
        self.series.retain(|id, _| self.most > 0 && series.contains(id));
        for kept in self.series.values_mut() {
            kept.drain(..kept.len().saturating_sub(self.most));
        }
    }

    /// Keeps `sample`, the rollup of a sample taken at `at`.
    pub fn add(&mut self, series: u64, at: i64, sample: &Rollup) {
        if self.most == 0 {
            return;
        }
        let kept = self.series.entry(series).or_default();
        let latest = LatestSample::from_rollup(at, sample);
        let counted = match kept.back() {
            Some(last) if last.counted == latest.counted => Arc::clone(&last.counted),
            _ => latest.counted,
        };
        let place = kept.partition_point(|other| other.at <= at);
        kept.insert(place, LatestSample { counted, ..latest });
        if kept.len() > self.most {
            kept.pop_front();
        }
    }

    /// When the last sample of `series` before `until` was taken.
    pub fn newest(&self, series: u64, until: i64) -> Option<i64> {
        self.series.get(&series)?.iter().rev().map(|latest| latest.at).find(|at| *at < until)
    }

    /// Number of kept samples of `series`.
    pub fn len(&self, series: u64) -> usize {
        self.series.get(&series).map_or(0, VecDeque::len)
    }

    /// Most samples kept per series.
    pub const fn room(&self) -> usize {
        self.most
    }

    /// When the oldest kept sample of `series` was taken.
    pub fn oldest(&self, series: u64) -> Option<i64> {
        Some(self.series.get(&series)?.front()?.at)
    }

    /// The latest samples of `series` in `from..until`, at most `most`, in order of time.
    pub fn samples(&self, series: u64, from: i64, until: i64, most: usize) -> Vec<LatestSample> {
        let kept = self.series.get(&series).into_iter().flatten().rev();
        let within = kept.skip_while(|latest| latest.at >= until);
        let within = within.take_while(|latest| latest.at >= from).take(most);
        let mut samples: Vec<LatestSample> = within.cloned().collect();
        samples.reverse();
        samples
    }
}

impl LatestSample {
    /// Creates it from the rollup of one sample, or of a minute.
    pub fn from_rollup(at: i64, rollup: &Rollup) -> Self {
        let middle = |(measure, times): (Measure, &ExponentialHistogram)| {
            Some((measure, times.quantile(0.5)?.value.as_nanos() as f32))
        };
        Self {
            at,
            counted: Arc::new(rollup.without_times()),
            times: rollup.all_times().filter_map(middle).collect(),
        }
    }

    /// Its time of `measure`, nanoseconds.
    pub(super) fn time(&self, measure: Measure) -> Option<f64> {
        let found = self.times.iter().find(|(known, _)| *known == measure)?;
        Some(f64::from(found.1))
    }

    /// Its counts: all of a rollup except the times.
    pub(super) fn counted(&self) -> &Rollup {
        &self.counted
    }

    /// A rollup with one time for each measure.
    pub fn rollup(&self) -> Rollup {
        let mut rollup = Rollup::clone(&self.counted);
        for (measure, ns) in self.times.iter() {
            rollup.add_time(*measure, Duration::from_nanos(*ns as u64));
        }
        rollup
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::run::Metric;

    use super::*;
    use crate::rollup::MonitoredFact;

    fn sample(ms: f64, version: &str) -> Rollup {
        let mut rollup = Rollup { samples: 1, ..Rollup::default() };
        rollup.add_time(Measure::Metric(Metric::Total), Duration::from_secs_f64(ms / 1e3));
        rollup.add_fact(MonitoredFact::TlsVersion, version, 1);
        rollup
    }

    /// Creates room for `series` series, numbered from 7.
    fn with_room_for(series: u64) -> LatestSamples {
        let mut latest = LatestSamples::default();
        latest.keep_alone(&(7..7 + series).collect());
        latest
    }

    #[test]
    fn samples_come_back_as_they_were_and_the_oldest_go() {
        let mut latest = with_room_for(1);
        for at in 0..MOST_OF_ONE as i64 + 10 {
            let version = if at < 100 { "TLSv1.2" } else { "TLSv1.3" };
            latest.add(7, at, &sample(20.0 + at as f64, version));
        }
        assert_eq!(latest.oldest(7), Some(10));
        assert_eq!(latest.newest(7, 200), Some(199));
        let samples = latest.samples(7, 98, 200, 1_000);
        assert_eq!(samples.len(), 102);
        for (at, rollup) in samples.iter().map(|sample| (sample.at, sample.rollup())) {
            let as_it_was = sample(20.0 + at as f64, if at < 100 { "TLSv1.2" } else { "TLSv1.3" });
            assert_eq!(rollup.without_times(), as_it_was.without_times());
            let total = |rollup: &Rollup| {
                let times = rollup.times(Measure::Metric(Metric::Total)).unwrap();
                times.quantile(0.5).unwrap().value.as_secs_f64()
            };
            assert!((total(&rollup) / total(&as_it_was) - 1.0).abs() < 0.006, "{at}");
        }
        // The latest three, in order of time.
        let few: Vec<i64> = latest.samples(7, 0, 200, 3).iter().map(|sample| sample.at).collect();
        assert_eq!(few, [197, 198, 199]);
        assert!(latest.samples(8, 0, 200, 3).is_empty());
    }

    #[test]
    fn what_samples_have_in_common_is_kept_once() {
        let mut latest = with_room_for(1);
        for at in 0..100 {
            latest.add(1, at, &sample(20.0, if at < 50 { "TLSv1.2" } else { "TLSv1.3" }));
        }
        let kept: std::collections::BTreeSet<_> =
            latest.series[&1].iter().map(|latest| Arc::as_ptr(&latest.counted)).collect();
        assert_eq!(kept.len(), 2);
    }

    #[test]
    fn far_too_many_series_keep_none() {
        let mut latest = with_room_for(50_000);
        latest.add(1, 0, &sample(20.0, "TLSv1.3"));
        assert_eq!(latest.newest(1, 10), None);
    }
}
