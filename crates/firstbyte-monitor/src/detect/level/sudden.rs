//! Sudden changes: so large that a few samples show them.

use firstbyte_core::stats::Interval;

use super::blocks::middle;
use super::place::place;
use super::{Certainty, Change, KnownHours, LevelSettings, Point};
use crate::binomial::at_least;

/// Number of latest samples that are examined.
pub const WINDOW: usize = 240;
/// Fewest samples before and after a change to propose it, and after it to confirm it.
const FEWEST: [usize; 3] = [20, 7, 40];
/// Fewest samples before a change to confirm it: fewer would not show slow variation.
const FEWEST_BEFORE: usize = 36;
/// Number of samples compared on each side of the change, few enough that the daily pattern does not matter.
const NEAR: usize = 30;
/// Largest share of samples on the wrong side of the middle between both levels, before and after.
const ASTRAY: [f64; 2] = [0.3, 0.15];
/// Greatest probability that chance puts this many values after the change on the new side, given the share before.
const BY_CHANCE: f64 = 3e-6;
/// Samples per batch. The usual spread is that of batch medians.
const BATCH: usize = 8;
/// Least share of the difference that must lie between the samples next to the change. A drift is not sudden.
const SHARP: f64 = 0.6;
/// Without known hours, least ratio of the difference to the range of batch medians before, to propose and to confirm.
const RANGES: [f64; 2] = [1.5, 3.0];

/// The change among the latest of `samples`, which are in order of time, if it is much larger than usual variation.
///
/// `known` holds the findings from hours. While there are too few hours, samples alone confirm a change.
pub fn sudden(samples: &[Point], known: &KnownHours, settings: &LevelSettings) -> Option<Change> {
    let samples = &samples[samples.len().saturating_sub(WINDOW)..];
    let n = samples.len();
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    if n < FEWEST[0] + FEWEST[1] || !may_have_changed(&values, settings) {
        return None;
    }
    let split = (FEWEST[0]..=n.checked_sub(FEWEST[1])?)
        .map(|at| (at, difference(&values, at).abs()))
        .filter(|(at, _)| apart(&values, *at))
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?
        .0;
    // Medians of thirty samples place the change roughly, single samples exactly.
    let near = &samples[split.saturating_sub(NEAR)..(split + NEAR).min(n)];
    let levels = [near_level(&values[..split], true), near_level(&values[split..], false)];
    let (at, between) = place(near, levels[0], levels[1])?;
    let begin = samples.partition_point(|sample| sample.at < at);
    if begin < FEWEST[0] || n - begin < FEWEST[1] {
        return None;
    }
    let before = near_level(&values[..begin], true);
    let after = near_level(&values[begin..], false);
    let spread = batch_spread(&values[..begin]);
    let size = (after - before).abs();
    let range = range_of_batches(&values[..begin]);
    let apart = samples[(begin + NEAR).min(n) - 1].at - samples[begin.saturating_sub(NEAR)].at;
    let floor = if known.is_young() { RANGES[0] * range } else { known.floor(apart / 2) };
    if size < settings.sudden.least(before, spread).max(floor)
        || !is_sharp(&values, begin, after - before)
        || !stayed(&values[begin..], before, after)
    {
        return None;
    }
    let held = known.is_young()
        && begin >= FEWEST_BEFORE
        && n - begin >= FEWEST[2]
        && size >= RANGES[1] * range;
    // Scale the spread of batch medians to the number of samples: the median of more samples varies less.
    let error = |count: usize| spread * (BATCH as f64 / count.min(NEAR) as f64).sqrt().max(0.5);
    let error = 2.1 * error(begin).hypot(error(n - begin));
    Some(Change {
        certainty: if held { Certainty::Confirmed } else { Certainty::Proposed },
        at,
        between,
        before,
        after,
        interval: Interval { low: after - before - error, high: after - before + error },
        samples: [begin as u64, (n - begin) as u64],
    })
}

/// Quick check whether batch medians differ by about the required size, to avoid the full examination.
fn may_have_changed(values: &[f64], settings: &LevelSettings) -> bool {
    let medians: Vec<f64> = values.chunks(BATCH).map(|batch| middle(&mut batch.to_vec())).collect();
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let most = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Use half of the least change, because the compared medians of thirty may lie slightly outside of this range.
    most - least >= 0.5 * settings.sudden.least(least, 0.0)
}

/// The range of the batch medians.
fn range_of_batches(values: &[f64]) -> f64 {
    let batches = values.rchunks(BATCH).filter(|batch| batch.len() == BATCH);
    let (least, most) = batches
        .map(|batch| middle(&mut batch.to_vec()))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    (most - least).max(0.0)
}

/// Whether most of the difference lies between the few samples on either side of the change.
fn is_sharp(values: &[f64], split: usize, difference: f64) -> bool {
    let before = middle(&mut values[split.saturating_sub(BATCH)..split].to_vec());
    let after = middle(&mut values[split..(split + BATCH).min(values.len())].to_vec());
    (after - before) / difference >= SHARP
}

/// The median of the values next to the change.
fn near_level(values: &[f64], at_end: bool) -> f64 {
    let near = match at_end {
        true => &values[values.len().saturating_sub(NEAR)..],
        false => &values[..values.len().min(NEAR)],
    };
    middle(&mut near.to_vec())
}

fn difference(values: &[f64], at: usize) -> f64 {
    near_level(&values[at..], false) - near_level(&values[..at], true)
}

/// Whether values next to `at` are on their own side of the middle: nearly all after it, and enough before it that
/// chance does not explain the ones after.
///
/// Even before a server stops issuing tickets, a tenth of the visits or more may have no session.
fn apart(values: &[f64], at: usize) -> bool {
    let (before, after) = (near_level(&values[..at], true), near_level(&values[at..], false));
    let half = before + (after - before) / 2.0;
    let crossed =
        |values: &[f64]| values.iter().filter(|value| (**value > half) == (after > before)).count();
    let left = &values[at.saturating_sub(NEAR)..at];
    let right = &values[at..(at + NEAR).min(values.len())];
    let (astray, over) = (crossed(left), crossed(right));
    let share = (astray as f64 + 1.0) / (left.len() as f64 + 2.0);
    astray as f64 <= ASTRAY[0] * left.len() as f64
        && (right.len() - over) as f64 <= ASTRAY[1] * right.len() as f64
        && at_least(over as u64, right.len() as u64, share) <= BY_CHANCE
}

/// Whether every quarter of the values after the change is nearer to the new level than to the old one.
fn stayed(values: &[f64], before: f64, after: f64) -> bool {
    let quarter = values.len().div_ceil(4).max(3);
    values.chunks(quarter).all(|chunk| {
        let own = middle(&mut chunk.to_vec());
        (own - after).abs() < (own - before).abs()
    })
}

/// The usual spread of a batch median: the larger of the estimates from batches and from single samples.
fn batch_spread(values: &[f64]) -> f64 {
    let steps = |values: &[f64]| {
        let mut steps: Vec<f64> =
            values.windows(2).map(|pair| (pair[1] - pair[0]).abs() / 2_f64.sqrt()).collect();
        1.4826 * middle(&mut steps)
    };
    let medians: Vec<f64> = values
        .rchunks(BATCH)
        .filter(|batch| batch.len() == BATCH)
        .map(|batch| middle(&mut batch.to_vec()))
        .collect();
    let single = 1.2533 * steps(values) / (BATCH as f64).sqrt();
    if medians.len() >= 6 { single.max(steps(&medians)) } else { single }
}
