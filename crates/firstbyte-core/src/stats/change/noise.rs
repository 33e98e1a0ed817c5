//! The noise of days with the same level: its size and its persistence.
//!
//! Daily averages of samples vary for two reasons: a slow state of the world (campaigns, the audience, a provider's
//! bad week), which persists, and chance, which is independent. The model is a state with the share `share` of the
//! variance, which fades by `decay` per slot, plus independent noise: correlations `share · decay^lag`. AR(1) has
//! share 1, white noise share 0.

use super::regression::Grid;

/// Largest lag of the correlations.
const LAGS: usize = 10;

/// Correlations by lag in slots, from 1 on.
pub(super) type Correlations = [f64; LAGS];

/// Correlations plus the amount by which they are known to look too small.
pub(super) fn added(seen: &Correlations, missed: &Correlations) -> Correlations {
    std::array::from_fn(|lag| (seen[lag] + missed[lag]).min(0.99))
}

/// Correlation structure of noise of weight 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NoiseModel {
    pub(super) share: f64,
    pub(super) decay: f64,
}

impl NoiseModel {
    /// Correlations implied by the model.
    pub(super) fn correlations(self) -> Correlations {
        std::array::from_fn(|lag| self.share * self.decay.powi(lag as i32 + 1))
    }

    /// Variance of a long sum relative to that of independent noise.
    pub(super) fn inflation(self) -> f64 {
        1.0 + 2.0 * self.share * self.decay / (1.0 - self.decay)
    }

    /// The model with the closest correlations, with lags weighted by their number of observations.
    pub(super) fn closest_to(correlations: &Correlations, n: usize) -> Self {
        let mut best = (f64::INFINITY, Self { share: 0.0, decay: 0.0 });
        for step in 1..=47_u32 {
            let decay = 0.02 * f64::from(step);
            let (mut with, mut own) = (0.0, 0.0);
            let mut power = 1.0;
            for (lag, correlation) in correlations.iter().enumerate() {
                power *= decay;
                let count = n.saturating_sub(lag + 1) as f64;
                with += count * power * correlation;
                own += count * power * power;
            }
            let share = (with / own).clamp(0.0, 1.0);
            let model = Self { share, decay };
            let misses = correlations.iter().zip(model.correlations()).enumerate();
            let cost = misses
                .map(|(lag, (seen, meant))| {
                    n.saturating_sub(lag + 1) as f64 * (seen - meant) * (seen - meant)
                })
                .sum();
            if cost < best.0 {
                best = (cost, model);
            }
        }
        best.1
    }

    /// Random noise on `grid`: a value of weight 1 has variance 1.
    pub(super) fn draw(self, grid: &Grid, random: &mut fastrand::Rng) -> Vec<f64> {
        let mut normal = Normal { random, spare: None };
        let (lasting, rest) = (self.share.sqrt(), (1.0 - self.share).sqrt());
        let mut state = normal.next();
        let mut last: Option<i64> = None;
        let slots = grid.slots.iter().zip(&grid.weights);
        slots
            .map(|(slot, weight)| {
                let apart = last.map_or(0, |last| slot - last).min(10_000) as i32;
                last = Some(*slot);
                let kept = self.decay.powi(apart);
                if apart > 0 {
                    state = kept * state + (1.0 - kept * kept).sqrt() * normal.next();
                }
                (lasting * state + rest * normal.next()) / weight.sqrt()
            })
            .collect()
    }
}

struct Normal<'a> {
    random: &'a mut fastrand::Rng,
    spare: Option<f64>,
}

impl Normal<'_> {
    fn next(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.random.f64()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

/// Variance and correlations of residuals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moments {
    /// Variance of a value of weight 1.
    pub(super) variance: f64,
    pub(super) correlations: Correlations,
    /// Variance of a long sum relative to that of independent values, by Bartlett's kernel: for the size of a
    /// contrast.
    pub(super) inflation: f64,
}

/// Variance of a value of weight 1.
pub(super) fn variance(grid: &Grid, residuals: &[f64]) -> f64 {
    let squares = residuals.iter().zip(&grid.weights).map(|(r, w)| r * r * w);
    squares.sum::<f64>() / grid.len() as f64
}

impl Moments {
    pub(super) fn from_residuals(grid: &Grid, residuals: &[f64]) -> Self {
        let n = grid.len();
        let standard: Vec<f64> =
            residuals.iter().zip(&grid.weights).map(|(r, w)| r * w.sqrt()).collect();
        let variance = variance(grid, residuals);
        let mut sums = [0.0; LAGS];
        let mut counts = [0_usize; LAGS];
        for (i, value) in standard.iter().enumerate() {
            let later = standard.iter().zip(&grid.slots).skip(i + 1).take(LAGS);
            for (other, slot) in later {
                let lag = usize::try_from(slot - grid.slots[i]).unwrap_or(usize::MAX);
                if lag > LAGS {
                    break;
                }
                sums[lag - 1] += value * other;
                counts[lag - 1] += 1;
            }
        }
        let correlations: Correlations = std::array::from_fn(|lag| {
            if counts[lag] == 0 || variance <= 0.0 {
                return 0.0;
            }
            // Weight lags by the possible pairs, not by the observed ones, so that the correlations remain those of a
            // series.
            sums[lag] / counts[lag] as f64 / variance * (1.0 - (lag + 1) as f64 / n as f64)
        });
        let bandwidth = (2.0 * (n as f64).cbrt()).min(LAGS as f64 + 1.0);
        let mut inflation = 1.0;
        for (lag, correlation) in correlations.iter().enumerate() {
            inflation += 2.0 * (1.0 - (lag + 1) as f64 / bandwidth).max(0.0) * correlation;
        }
        Self { variance, correlations, inflation: inflation.max(0.5) }
    }

    /// Standard deviation that a value of weight 1 would have if values were independent and sums as uncertain as they
    /// are.
    pub(super) fn long_run_deviation(&self) -> f64 {
        (self.variance * self.inflation).sqrt()
    }
}
