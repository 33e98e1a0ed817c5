//! Figures of a series that raise events, by the hour and by the sample: the median and p90 of the time to the first
//! byte and of the total time, and the shares of samples that fail (outside of outages) or succeed in another way than
//! requested.

use firstbyte_core::run::Metric;
use firstbyte_core::stats::ExponentialHistogram;

use super::cause::{self, Explanation};
use super::event::Statistic;
use super::history::History;
use super::latest::LatestSample;
use super::level::failures::{Counted, failure_changes, sudden_failures};
use super::level::{
    BLOCK, Certainty, Change, DAY, HOUR, KnownHours, LevelSettings, Point, WINDOW, changes, sudden,
    sudden_tail,
};
use super::together::Found;
use crate::rollup::{Measure, Rollup};

/// How far back single samples are examined, milliseconds.
pub(super) const RECENT: i64 = 6 * HOUR;
/// The same for series with few samples, and the number of samples below which it applies.
const RARE: (i64, usize) = (2 * DAY, 60);
/// Examined times. If both changed, the first one leads.
const METRICS: [Metric; 2] = [Metric::Ttfb, Metric::Total];
/// Examined shares of samples, the worst first.
const SHARES: [Statistic; 2] = [Statistic::Failures, Statistic::Shortfalls];
/// A slot needs at least this many samples to have a p90.
const FEWEST_FOR_TAILS: u64 = 10;
/// Rollups within this time before and after a change are compared.
const COMPARED: i64 = 3 * DAY;

/// Figures computed for each of the times.
const TIMES: [(Statistic, LevelSettings); 2] =
    [(Statistic::Median, LevelSettings::TIMES), (Statistic::P90, LevelSettings::TAILS)];

/// What the hours of a series show of each time, in the order of [`METRICS`] and [`TIMES`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownFigures([[KnownHours; TIMES.len()]; METRICS.len()]);

impl KnownFigures {
    /// Whether no figure has any known hour.
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_flattened().iter().all(KnownHours::is_empty)
    }
}

/// The value of a figure, in nanoseconds.
fn figure(times: &ExponentialHistogram, statistic: Statistic) -> Option<f64> {
    let at = |q: f64| Some(times.quantile(q)?.value.as_nanos() as f64);
    match statistic {
        Statistic::Median => at(0.5),
        Statistic::P90 if times.count() >= FEWEST_FOR_TAILS => at(0.9),
        _ => None,
    }
}

fn points(slots: &[(i64, Rollup)], metric: Metric, statistic: Statistic) -> Vec<Point> {
    let point = |(at, rollup): &(i64, Rollup)| {
        let times = rollup.times(Measure::Metric(metric))?;
        Some(Point { at: *at, value: figure(times, statistic)?, samples: times.count() })
    };
    slots.iter().filter_map(point).collect()
}

/// Number of samples that count towards a share, and the number of all samples.
fn counted(at: i64, rollup: &Rollup, share: Statistic) -> Option<Counted> {
    let (failed, samples) = match share {
        // A failed sample cannot also be a shortfall.
        Statistic::Shortfalls => (rollup.unproven.values().sum(), rollup.samples - rollup.failed()),
        _ => (rollup.failed(), rollup.samples),
    };
    (samples > 0).then_some(Counted { at, failed, samples })
}

/// Whether a slot of this length is outside of all outages.
fn is_outside(outages: &[[i64; 2]], at: i64, length: i64) -> bool {
    outages.iter().all(|[began, ended]| at + length <= *began || at >= *ended)
}

/// Changes in the hours from `from` on that have ended at `now`.
pub(super) fn in_hours(
    history: &dyn History,
    series: u64,
    from: i64,
    now: i64,
) -> (Vec<Found>, KnownFigures) {
    let until = now.div_euclid(HOUR) * HOUR;
    let wanted = |measure| METRICS.iter().any(|metric| measure == Measure::Metric(*metric));
    let slots = history.hours(series, from, until, &wanted);
    let mut all: Vec<(Metric, Statistic, Change)> = Vec::new();
    let mut known = KnownFigures::default();
    for (metric, known) in METRICS.into_iter().zip(&mut known.0) {
        for ((statistic, settings), known) in TIMES.into_iter().zip(known) {
            let points = points(&slots, metric, statistic);
            let found = changes(&points, &settings);
            *known = KnownHours::from_points(&points, &found);
            all.extend(found.into_iter().map(|change| (metric, statistic, change)));
        }
    }
    let outages = history.outages(series);
    for share in SHARES {
        let slots = slots.iter().filter(|(at, _)| is_outside(&outages, *at, HOUR));
        let slots: Vec<Counted> =
            slots.filter_map(|(at, rollup)| counted(*at, rollup, share)).collect();
        let found = failure_changes(&slots).into_iter();
        all.extend(found.map(|change| (Metric::Total, share, change)));
    }
    let around = |change: &Change| {
        let [from, until] = [change.at - COMPARED, until.min(change.at + COMPARED)];
        history.hours(series, from, until, &|_| true)
    };
    (shifts(series, &around, all, BLOCK), known)
}

/// Changes in the latest samples.
pub(super) fn in_samples(
    history: &dyn History,
    series: u64,
    now: i64,
    known: &KnownFigures,
) -> Vec<Found> {
    let mut samples = history.samples(series, now - RECENT, now + 1, WINDOW);
    if samples.len() < RARE.1 {
        samples = history.samples(series, now - RARE.0, now + 1, WINDOW);
    }
    let mut all = Vec::new();
    for (metric, [of_median, of_p90]) in METRICS.into_iter().zip(&known.0) {
        let measure = Measure::Metric(metric);
        let point = |sample: &LatestSample| {
            let samples = sample.counted().samples;
            Some(Point { at: sample.at, value: sample.time(measure)?, samples })
        };
        let points: Vec<Point> = samples.iter().filter_map(point).collect();
        // Report the tail only if the median is unchanged.
        let found = match sudden(&points, of_median, &LevelSettings::TIMES) {
            Some(change) => Some((metric, Statistic::Median, change)),
            None => sudden_tail(&points, of_p90, &LevelSettings::TAILS)
                .map(|change| (metric, Statistic::P90, change)),
        };
        all.extend(found);
    }
    let outages = history.outages(series);
    for share in SHARES {
        let samples = samples.iter().filter(|sample| is_outside(&outages, sample.at, 1));
        let samples: Vec<Counted> =
            samples.filter_map(|sample| counted(sample.at, sample.counted(), share)).collect();
        let found = sudden_failures(&samples).into_iter();
        all.extend(found.map(|change| (Metric::Total, share, change)));
    }
    let around = |_: &Change| samples.iter().map(|sample| (sample.at, sample.rollup())).collect();
    shifts(series, &around, all, 0)
}

/// Returns the rollups around a change.
type Around<'a> = dyn Fn(&Change) -> Vec<(i64, Rollup)> + 'a;

/// Merges changes that are at most `grain` apart into one. Failures take precedence, then shortfalls, then the time to
/// the first byte, by its median if that changed.
fn shifts(
    series: u64,
    around: &Around<'_>,
    mut all: Vec<(Metric, Statistic, Change)>,
    grain: i64,
) -> Vec<Found> {
    // Changes whose time is known most precisely come first.
    all.sort_by_key(|(metric, statistic, change)| {
        (change.between[1] - change.between[0], *metric, *statistic)
    });
    let mut groups: Vec<Vec<(Metric, Statistic, Change)>> = Vec::new();
    for one in all {
        let same = |group: &&mut Vec<(Metric, Statistic, Change)>| {
            group.iter().all(|other| other.2.overlaps(&one.2, grain))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.into_iter().filter_map(|group| shift(series, around, &group, grain)).collect()
}

fn shift(
    series: u64,
    around: &Around<'_>,
    group: &[(Metric, Statistic, Change)],
    grain: i64,
) -> Option<Found> {
    let rank = |(metric, statistic, change): &(Metric, Statistic, Change)| {
        let median = *statistic == Statistic::Median;
        let share = SHARES.iter().rev().position(|share| share == statistic).map(|at| at + 1);
        (share, change.certainty, median, *metric == METRICS[0])
    };
    let (metric, statistic, leading) = *group.iter().max_by_key(|one| rank(one))?;
    // The time comes from the figure that shows it most precisely, whichever that is.
    let sharpest =
        group.iter().min_by_key(|(_, _, change)| change.between[1] - change.between[0])?;
    let mut change = Change { at: sharpest.2.at, between: sharpest.2.between, ..leading };
    let sure = group.iter().any(|one| one.2.certainty == Certainty::Confirmed);
    change.certainty = if sure { Certainty::Confirmed } else { Certainty::Proposed };
    let near = around(&change);
    let Explanation { causes, also, key } = cause::explain(&near, &change, statistic);
    let metric = statistic.share_name().unwrap_or(metric.name());
    Some(Found { series, metric: metric.to_owned(), statistic, change, grain, causes, also, key })
}
