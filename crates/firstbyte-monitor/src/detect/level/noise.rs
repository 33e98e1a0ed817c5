//! Noise of six-hour medians of one level: how large it is, and how it grows with the time between them.
//!
//! Noise is estimated from differences of medians at some distance in time (a variogram: Matheron 1963), so the times
//! of level changes need not be known. A change affects only few of these differences, and robust scales ignore them.

use super::blocks::middle;

/// Most medians compared on either side of a change: ten days.
pub(super) const COMPARED: usize = 40;
/// Largest distance at which differences are measured: five days. Values farther apart are taken to differ as much.
const LAGS: usize = 20;
/// Standard error of a median relative to that of a mean: √(π/2) for independent normal values, less for correlated
/// values. Intervals hold with this value (`docs/statistics.md`).
const MEDIAN: f64 = 1.1;
/// Relative limit of precision: a level is known to one part in a million at best.
const FINEST: f64 = 1e-6;
/// Correlations of neighbours at which noise begins to wander, and at which it wanders fully.
const COMMON: [f64; 2] = [0.45, 0.6];
/// Fewest differences at one distance.
const FEWEST: usize = 6;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Noise {
    /// Usual spread of a single value.
    pub(super) spread: f64,
    /// Variance of the difference of two values, indexed by their distance. Index 0 is distance 0.
    variogram: Vec<f64>,
}

impl Noise {
    /// Estimates noise from the differences of `values`.
    pub(super) fn from_values(values: &[f64]) -> Self {
        let level = middle(&mut values.to_vec());
        let finest = (FINEST * level.abs()).max(f64::MIN_POSITIVE);
        // At short distances, a single change affects only few differences.
        let lags = LAGS.min(values.len() / 6).min(values.len().saturating_sub(FEWEST)).max(1);
        let squares: Vec<f64> = (1..=lags)
            .map(|lag| {
                let apart = values.iter().zip(values.get(lag..).unwrap_or_default());
                let sizes = apart.map(|(a, b)| (b - a).abs()).collect();
                robust_scale(sizes).max(finest).powi(2)
            })
            .collect();
        // Adjacent distances have nearly the same variance, and their mean is more precise.
        let smooth = |place: usize| {
            let near = &squares[place.saturating_sub(1)..(place + 2).min(squares.len())];
            near.iter().sum::<f64>() / near.len() as f64
        };
        let first = squares.first().copied().into_iter();
        let variogram: Vec<f64> =
            std::iter::once(0.0).chain(first).chain((1..lags).map(smooth)).collect();
        // Values half a day apart show how much a single value varies.
        let near = variogram.get(2).or(variogram.last()).copied().unwrap_or_default();
        Self { spread: (near / 2.0).sqrt().max(finest), variogram }
    }

    fn between(&self, apart: usize) -> f64 {
        let last = self.variogram.len() - 1;
        self.variogram[apart.min(last)]
    }

    /// How much noise wanders, from 0 if neighbours have little in common to 1 if they have most in common.
    pub(super) fn wandering(&self) -> f64 {
        let far = self.between(LAGS);
        let common = if far > 0.0 { 1.0 - self.between(1) / far } else { 0.0 };
        ((common - COMMON[0]) / (COMMON[1] - COMMON[0])).clamp(0.0, 1.0)
    }

    /// Standard error of the difference between the medians of `before` and `after` values around a change.
    pub(super) fn error(&self, before: usize, after: usize) -> f64 {
        let [a, b] = [before, after].map(|n| n.clamp(1, COMPARED));
        let across: f64 = (0..a)
            .flat_map(|i| (0..b).map(move |j| i + j + 1))
            .map(|apart| self.between(apart))
            .sum();
        let within = |n: usize| -> f64 {
            (1..n).map(|apart| 2.0 * (n - apart) as f64 * self.between(apart)).sum()
        };
        let [a_f, b_f] = [a as f64, b as f64];
        let variance =
            across / (a_f * b_f) - within(a) / (2.0 * a_f * a_f) - within(b) / (2.0 * b_f * b_f);
        // At least the variance of independent values.
        let least = self.between(1) / 2.0 * (1.0 / a_f + 1.0 / b_f);
        MEDIAN * variance.max(least).sqrt()
    }
}

/// A robust scale of the `sizes` of differences.
fn robust_scale(mut sizes: Vec<f64>) -> f64 {
    let n = sizes.len().max(1) as f64;
    let deviation = 1.4826 * middle(&mut sizes);
    if deviation > 0.0 {
        return deviation;
    }
    // If more than half are zero, the mean of all sizes shows how large noise is.
    1.2533 * sizes.iter().sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::super::drawn::normal;
    use super::*;

    /// Noise with a correlation of 0.83 between values, as six-hour medians of AR(1) hours with 0.97 have.
    #[test]
    fn errors_are_those_of_correlated_noise_and_a_step_hardly_matters() {
        let mut random = fastrand::Rng::with_seed(1);
        let keeps: f64 = 0.83;
        let mut draw = |n: usize| -> Vec<f64> {
            let mut value = normal(&mut random);
            let mut next = |_| {
                value = keeps * value + (1.0 - keeps * keeps).sqrt() * normal(&mut random);
                value
            };
            (0..n).map(&mut next).collect()
        };
        let difference = |values: &[f64]| {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            mean(&values[28..56]) - mean(&values[..28])
        };
        let differences: Vec<f64> = (0..2_000).map(|_| difference(&draw(56))).collect();
        let truth = (differences.iter().map(|d| d * d).sum::<f64>() / 2_000.0).sqrt();
        let mut errors: Vec<f64> =
            (0..200).map(|_| Noise::from_values(&draw(160)).error(28, 28)).collect();
        let usual = middle(&mut errors) / MEDIAN;
        assert!((0.8..1.3).contains(&(usual / truth)), "{usual} for {truth}");
        let stepped = |mut values: Vec<f64>| {
            values[100..].iter_mut().for_each(|value| *value += 20.0);
            Noise::from_values(&values).error(28, 28)
        };
        let mut errors: Vec<f64> = (0..200).map(|_| stepped(draw(160))).collect();
        let with_step = middle(&mut errors) / MEDIAN;
        assert!(with_step < 2.5 * truth, "{with_step} for {truth}");
    }
}
