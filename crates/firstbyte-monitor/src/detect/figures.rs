//! What is looked at in a series: its phases' median, p90 and spread, its failures, by the hour and by the sample.

use firstbyte_core::run::Metric;
use firstbyte_core::stats::ExponentialHistogram;

use super::cause::{self, Explanation};
use super::event::Statistic;
use super::history::History;
use super::level::failures::{Counted, failure_changes, sudden_failures};
use super::level::{
    BLOCK, Certainty, Change, DAY, HOUR, LevelSettings, Point, WINDOW, changes, sudden,
};
use super::together::Found;
use crate::rollup::{Measure, Rollup};

/// How far back single samples are looked at.
pub(super) const RECENT: i64 = 6 * HOUR;
/// The same, of series with few samples, and how many are few.
const RARE: (i64, usize) = (2 * DAY, 60);
/// Metrics that are looked at: the phases, and the whole, for what no phase shows.
const METRICS: [Metric; 8] = [
    Metric::Resolve,
    Metric::Connect,
    Metric::Tls,
    Metric::Quic,
    Metric::Send,
    Metric::Wait,
    Metric::Receive,
    Metric::Total,
];
/// Shares of samples that are looked at, the worst first.
const SHARES: [Statistic; 2] = [Statistic::Failures, Statistic::Shortfalls];
/// Fewest samples of a slot for its p90 and its spread to be figures.
const FEWEST_FOR_TAILS: u64 = 10;
/// Around a change rollups of so many hours are compared.
const COMPARED: i64 = 3 * DAY;

/// A figure, in nanoseconds.
fn figure(times: &ExponentialHistogram, statistic: Statistic) -> Option<f64> {
    let at = |q: f64| Some(times.quantile(q)?.value.as_nanos() as f64);
    let enough = times.count() >= FEWEST_FOR_TAILS;
    match statistic {
        Statistic::Median => at(0.5),
        Statistic::P90 if enough => at(0.9),
        Statistic::Spread if enough => Some(at(0.75)? - at(0.25)?),
        _ => None,
    }
}

fn points(slots: &[(i64, Rollup)], metric: Metric, statistic: Statistic) -> Vec<Point> {
    let of = |(at, rollup): &(i64, Rollup)| {
        let times = rollup.times(Measure::Metric(metric))?;
        Some(Point { at: *at, value: figure(times, statistic)?, samples: times.count() })
    };
    slots.iter().filter_map(of).collect()
}

/// Of shares: how many samples count for it, of how many.
fn counted(slots: &[(i64, Rollup)], share: Statistic) -> Vec<Counted> {
    let count = |(at, rollup): &(i64, Rollup)| {
        let (failed, samples) = match share {
            // Who failed came to no end that could be another.
            Statistic::Shortfalls => {
                (rollup.unproven.values().sum(), rollup.samples - rollup.failed())
            }
            _ => (rollup.failed(), rollup.samples),
        };
        (samples > 0).then_some(Counted { at: *at, failed, samples })
    };
    slots.iter().filter_map(count).collect()
}

/// Changes in the hours from `from` on that have ended at `now`.
pub(super) fn in_hours(history: &dyn History, series: u64, from: i64, now: i64) -> Vec<Found> {
    let slots = history.hours(series, from, now.div_euclid(HOUR) * HOUR);
    let mut all: Vec<(Metric, Statistic, Change)> = Vec::new();
    for metric in METRICS {
        for statistic in [Statistic::Median, Statistic::P90, Statistic::Spread] {
            let settings = match statistic {
                Statistic::Median => LevelSettings::TIMES,
                _ => LevelSettings::TAILS,
            };
            let found = changes(&points(&slots, metric, statistic), &settings);
            all.extend(found.into_iter().map(|change| (metric, statistic, change)));
        }
    }
    for share in SHARES {
        let found = failure_changes(&counted(&slots, share)).into_iter();
        all.extend(found.map(|change| (Metric::Total, share, change)));
    }
    shifts(series, &slots, all, BLOCK)
}

/// Changes in the latest samples.
pub(super) fn in_samples(history: &dyn History, series: u64, now: i64) -> Vec<Found> {
    let mut slots = history.samples(series, now - RECENT, now + 1, WINDOW);
    if slots.len() < RARE.1 {
        slots = history.samples(series, now - RARE.0, now + 1, WINDOW);
    }
    let mut all = Vec::new();
    for metric in METRICS {
        let points = points(&slots, metric, Statistic::Median);
        let found = sudden(&points, None, &LevelSettings::TIMES);
        all.extend(found.map(|change| (metric, Statistic::Median, change)));
    }
    for share in SHARES {
        let found = sudden_failures(&counted(&slots, share)).into_iter();
        all.extend(found.map(|change| (Metric::Total, share, change)));
    }
    shifts(series, &slots, all, 0)
}

/// Changes of one time, by no more than `grain` apart, are one: of failures if there are any, else of shortfalls, else of the phase that changed most, by its median if that did.
fn shifts(
    series: u64,
    slots: &[(i64, Rollup)],
    mut all: Vec<(Metric, Statistic, Change)>,
    grain: i64,
) -> Vec<Found> {
    // Those whose time is known best come first.
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
    groups.into_iter().filter_map(|group| shift(series, slots, &group, grain)).collect()
}

fn shift(
    series: u64,
    slots: &[(i64, Rollup)],
    group: &[(Metric, Statistic, Change)],
    grain: i64,
) -> Option<Found> {
    let rank = |(metric, statistic, change): &(Metric, Statistic, Change)| {
        let phase = *metric != Metric::Total;
        let median = *statistic == Statistic::Median;
        let share = SHARES.iter().rev().position(|share| share == statistic).map(|at| at + 1);
        (share, change.certainty, median, phase, change.difference().abs() as u64)
    };
    let (metric, statistic, leading) = *group.iter().max_by_key(|one| rank(one))?;
    // When it was, is known by whichever figure shows it best.
    let sharpest =
        group.iter().min_by_key(|(_, _, change)| change.between[1] - change.between[0])?;
    let mut change = Change { at: sharpest.2.at, between: sharpest.2.between, ..leading };
    let sure = group.iter().any(|one| one.2.certainty == Certainty::Confirmed);
    change.certainty = if sure { Certainty::Confirmed } else { Certainty::Proposed };
    let near =
        slots.iter().filter(|(at, _)| (change.at - COMPARED..change.at + COMPARED).contains(at));
    let near: Vec<(i64, Rollup)> = near.cloned().collect();
    let Explanation { causes, also, key } = cause::explain(&near, &change, statistic);
    let metric = statistic.share_name().unwrap_or(metric.name());
    Some(Found { series, metric: metric.to_owned(), statistic, change, grain, causes, also, key })
}
