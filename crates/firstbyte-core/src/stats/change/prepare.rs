//! Preparation for fitting: weights of the values, and outliers.

use super::SeriesPoint;
use super::regression::Grid;
use crate::stats::outliers::OUTLIER_MADS;
use crate::stats::quantile::median;

/// Slots on either side that form a value's surroundings.
const AROUND: i64 = 7;
/// Standard deviation of a normal distribution divided by its median absolute deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;
/// Standard deviation of a normal distribution divided by its mean absolute deviation.
const MEAN_TO_DEVIATION: f64 = 1.2533;
/// If at least this share of the values is far off, most of them are not outliers.
const MANY: f64 = 0.05;

/// A series ready to be fitted.
pub(super) struct Prepared {
    pub(super) grid: Grid,
    pub(super) values: Vec<f64>,
    pub(super) outliers: Vec<usize>,
}

/// Weights the values. Moves those that are more than 3 scaled median absolute deviations from the median of their
/// surroundings to that distance.
pub(super) fn prepare(points: &[SeriesPoint], season: usize) -> Prepared {
    let slots: Vec<i64> = points.iter().map(|p| p.slot).collect();
    let mut values: Vec<f64> = points.iter().map(|p| p.value).collect();
    let even = Grid::new(slots.clone(), vec![1.0; points.len()], season);
    let expected = expected(&even, &values);
    let apart: Vec<f64> = values.iter().zip(&expected).map(|(v, e)| v - e).collect();
    let weights = weights(points, &apart);
    let mut scaled: Vec<f64> =
        apart.iter().zip(&weights).map(|(a, w)| a.abs() * w.sqrt()).collect();
    let sizes = scaled.clone();
    scaled.sort_unstable_by(f64::total_cmp);
    let limit = OUTLIER_MADS * deviation(&scaled);
    let mut outliers = Vec::new();
    if limit > 0.0 {
        for (index, size) in sizes.iter().enumerate().filter(|(_, size)| **size > limit) {
            values[index] = expected[index] + apart[index] * limit / size;
            outliers.push(index);
        }
    }
    Prepared { grid: Grid::new(slots, weights, season), values, outliers }
}

/// Standard deviation, from deviations in ascending order: from their median.
///
/// If more than half of them are zero, as in a coarse unit, from the median of the others; and if these are too few,
/// from the mean (Iglewicz and Hoaglin 1993).
fn deviation(sizes: &[f64]) -> f64 {
    let usual = median(sizes).unwrap_or(0.0);
    // Rounding leaves more than zero.
    let nothing = 1e-12 * sizes.last().copied().unwrap_or(0.0);
    if usual > nothing {
        return MAD_TO_DEVIATION * usual;
    }
    let off = &sizes[sizes.partition_point(|size| *size <= nothing)..];
    match median(off) {
        Some(usual) if off.len() as f64 >= MANY * sizes.len() as f64 => MAD_TO_DEVIATION * usual,
        _ => MEAN_TO_DEVIATION * off.iter().sum::<f64>() / sizes.len().max(1) as f64,
    }
}

/// For each value the median of its surroundings, plus the usual offset of its part of the season.
fn expected(grid: &Grid, values: &[f64]) -> Vec<f64> {
    let mut season = vec![0.0; grid.parts];
    let mut around = Vec::new();
    for _ in 0..2 {
        let rest: Vec<f64> = values.iter().zip(&grid.season).map(|(v, p)| v - season[*p]).collect();
        around = surroundings(grid, &rest);
        for (part, level) in season.iter_mut().enumerate() {
            let members = (0..grid.len()).filter(|i| grid.season[*i] == part);
            let mut apart: Vec<f64> = members.map(|i| values[i] - around[i]).collect();
            apart.sort_unstable_by(f64::total_cmp);
            *level = median(&apart).unwrap_or(0.0);
        }
    }
    around.iter().zip(&grid.season).map(|(a, part)| a + season[*part]).collect()
}

fn surroundings(grid: &Grid, values: &[f64]) -> Vec<f64> {
    let (mut from, mut until) = (0, 0);
    let mut near = Vec::new();
    (0..grid.len())
        .map(|index| {
            while grid.slots[from] < grid.slots[index] - AROUND {
                from += 1;
            }
            while until < grid.len() && grid.slots[until] <= grid.slots[index] + AROUND {
                until += 1;
            }
            near.clear();
            near.extend_from_slice(&values[from..until]);
            near.sort_unstable_by(f64::total_cmp);
            median(&near).unwrap_or(0.0)
        })
        .collect()
}

/// Weight of each value, 1 on average.
///
/// A day's variance is that of the day itself, which no number of samples reduces, plus that of the sample: `1 − γ + γ
/// / n`. γ maximises the likelihood of the deviations under Laplace's distribution, which tolerates outliers. If some
/// numbers of samples are unknown, all values have the same weight.
fn weights(points: &[SeriesPoint], apart: &[f64]) -> Vec<f64> {
    let n = points.len() as f64;
    let samples: Option<Vec<f64>> =
        points.iter().map(|p| p.samples.filter(|samples| *samples > 0.0)).collect();
    let Some(samples) = samples else { return vec![1.0; points.len()] };
    let harmonic = n / samples.iter().map(|s| 1.0 / s).sum::<f64>();
    let mut best = (f64::INFINITY, vec![1.0; points.len()]);
    for step in 0..=10 {
        let chance = 0.1 * f64::from(step);
        let deviations: Vec<f64> =
            samples.iter().map(|s| (1.0 - chance + chance * harmonic / s).sqrt()).collect();
        let logs: f64 = deviations.iter().map(|d| d.ln()).sum();
        let sizes: f64 = apart.iter().zip(&deviations).map(|(a, d)| a.abs() / d).sum();
        let cost = n * sizes.max(f64::MIN_POSITIVE).ln() + logs;
        if cost < best.0 - 1e-9 {
            let weights: Vec<f64> = deviations.iter().map(|d| 1.0 / (d * d)).collect();
            let mean = weights.iter().sum::<f64>() / n;
            best = (cost, weights.into_iter().map(|w| w / mean).collect());
        }
    }
    best.1
}
