//! The time and the size of a change, with intervals.

use firstbyte_core::stats::Interval;

use super::blocks::{Deseasoned, middle};
use super::noise::Noise;
use super::segments::{level, sides};
use super::{BLOCK, Certainty, Change, DAY, HOUR, Point, YOUNG};

/// How far from a change of six-hour medians its exact time is searched.
///
/// A level shorter than the shortest allowed one takes the missing medians from the one before, so the actual change is
/// later by that time.
const REACH: i64 = YOUNG as i64 * BLOCK + DAY;
/// Places are possible if their cost is within this many mean absolute deviations, scaled by the correlation of noise.
const POSSIBLE: f64 = 5.0;
/// Standard errors of a 95 % interval: more than 1.96, because noise is estimated.
const ERRORS: f64 = 2.1;
/// Largest lag of the correlations that are added up.
const LAGS: usize = 20;
/// For correlations, a value farther away than this many spreads counts as this far away.
const FAR: f64 = 3.0;

/// The changes between levels that `bounds` of blocks divide.
pub(super) fn changes(
    deseasoned: &Deseasoned,
    bounds: &[usize],
    noise: &Noise,
    certainty: Certainty,
) -> Vec<Change> {
    let triples = bounds.windows(3);
    triples.map(|bounds| change(deseasoned, bounds, noise, certainty)).collect()
}

/// The change between two levels, whose blocks are `bounds[0]..bounds[1]` and `bounds[1]..bounds[2]`.
pub(super) fn change(
    deseasoned: &Deseasoned,
    bounds: &[usize],
    noise: &Noise,
    certainty: Certainty,
) -> Change {
    let blocks =
        [&deseasoned.blocks[bounds[0]..bounds[1]], &deseasoned.blocks[bounds[1]..bounds[2]]];
    let values = blocks.map(|side| side.iter().map(|block| block.value).collect::<Vec<f64>>());
    let near = sides(&values[0], &values[1]);
    let [before, after] = near.map(level);
    let samples = blocks.map(|side| side.iter().map(|block| block.samples).sum());
    let error = ERRORS * noise.error(near[0].len(), near[1].len());
    let rough = blocks[1].first().map_or(0, |block| block.at);
    let start = blocks[0].first().map_or(i64::MIN, |block| block.at);
    let end = deseasoned.blocks.get(bounds[2]).map_or(i64::MAX, |block| block.at);
    let near = between(&deseasoned.points, start.max(rough - REACH), end.min(rough + REACH));
    let (at, between) = place(near, before, after).unwrap_or((rough, [rough - DAY, rough + DAY]));
    Change {
        certainty,
        at,
        between,
        before,
        after,
        interval: Interval { low: after - before - error, high: after - before + error },
        samples,
    }
}

/// The variance of a long sum of `residuals`, relative to that of independent residuals.
fn lasting(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    let spread = (1.4826 * middle(&mut sizes)).max(f64::MIN_POSITIVE);
    let held: Vec<f64> = residuals.iter().map(|r| r.clamp(-FAR * spread, FAR * spread)).collect();
    let square: f64 = held.iter().map(|r| r * r).sum();
    let mut inflation = 1.0;
    for lag in 1..=LAGS.min(held.len() / 4) {
        let product: f64 = held.iter().zip(&held[lag..]).map(|(a, b)| a * b).sum();
        let correlation = product / square.max(f64::MIN_POSITIVE);
        // Stop below the standard error, which chance alone reaches.
        if correlation < 1.0 / (held.len() as f64).sqrt() {
            break;
        }
        inflation += 2.0 * correlation;
    }
    inflation
}

/// The points in `from..until`.
fn between(points: &[Point], from: i64, until: i64) -> &[Point] {
    let first = points.partition_point(|point| point.at < from);
    let end = points.partition_point(|point| point.at < until);
    &points[first..end.max(first)]
}

/// Where `points` change from one level to the other, and the range of possible places: the cheapest by absolute
/// deviations.
pub(super) fn place(points: &[Point], before: f64, after: f64) -> Option<(i64, [i64; 2])> {
    let width = points.windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap_or(HOUR);
    // How much cheaper each value is in the level after. The amount is bounded for values beyond both levels.
    let saved: Vec<f64> = points
        .iter()
        .map(|point| (point.value - before).abs() - (point.value - after).abs())
        .collect();
    // The new level begins at the index from which the sum of savings is largest.
    let mut sums = vec![0.0; points.len() + 1];
    for index in (0..points.len()).rev() {
        sums[index] = sums[index + 1] + saved[index];
    }
    let (best, most) = sums[..points.len()]
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    let residuals = points
        .iter()
        .enumerate()
        .map(|(index, point)| point.value - if index < best { before } else { after });
    let residuals: Vec<f64> = residuals.collect();
    let mut sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
    let slack = POSSIBLE
        * middle(&mut sizes).max(1e-3 * (after - before).abs())
        * lasting(&residuals).sqrt();
    let possible = |index: &usize| sums[*index] >= most - slack;
    let first = (0..points.len()).find(possible).unwrap_or(best);
    let last = (0..points.len()).rev().find(possible).unwrap_or(best);
    // A slot that contains the change counts as one of the two levels.
    let from = first.checked_sub(1).map_or(points[0].at - width, |index| points[index].at);
    Some((points[best].at, [from, points[last].at + width]))
}
