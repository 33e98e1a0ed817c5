//! What makes six-hour medians of one level differ: how large it is, how long it lasts.

use super::blocks::middle;

/// Correlations are added up to this lag: five days.
const LAGS: usize = 20;
/// A value farther away than so many spreads counts as one that far away, where correlations are concerned.
const FAR: f64 = 3.0;
/// The standard error of a median against that of a mean: √(π/2) of independent normal values, less of values that hang
/// together. Intervals hold with this (`docs/statistics.md`).
const MEDIAN: f64 = 1.1;
/// No level is known better than to one part in a million.
const FINEST: f64 = 1e-6;

/// Noise around levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// The usual spread of a value: 1.4826 median absolute deviations.
    pub(super) spread: f64,
    /// The variance of a long sum against that of independent noise.
    pub(super) inflation: f64,
}

impl Noise {
    /// Of what `residuals` of values of about `level` show.
    pub(super) fn around_levels(residuals: &[f64], level: f64, levels: usize) -> Self {
        let n = residuals.len();
        let mut sizes: Vec<f64> = residuals.iter().map(|r| r.abs()).collect();
        // A median of few values is nearer to them than the truth is.
        let freedom = (n as f64 / n.saturating_sub(levels).max(1) as f64).sqrt();
        let deviation = 1.4826 * middle(&mut sizes) * freedom;
        // Where more than half are the same value, the others say how large noise is.
        let mean = 1.2533 * sizes.iter().map(|size| size.min(5.0 * deviation)).sum::<f64>()
            / n.max(1) as f64;
        let all = 1.2533 * sizes.iter().sum::<f64>() / n.max(1) as f64;
        let spread = if deviation > 0.0 { deviation.max(0.9 * mean) } else { all };
        let spread = spread.max(FINEST * level.abs()).max(f64::MIN_POSITIVE);
        let held: Vec<f64> =
            residuals.iter().map(|r| r.clamp(-FAR * spread, FAR * spread)).collect();
        let square: f64 = held.iter().map(|r| r * r).sum();
        let mut inflation = 1.0;
        for lag in 1..=LAGS.min(n / 4) {
            let product: f64 = held.iter().zip(&held[lag..]).map(|(a, b)| a * b).sum();
            let correlation = product / square.max(f64::MIN_POSITIVE);
            // What chance makes of none: its standard error.
            if correlation < 1.0 / (n as f64).sqrt() {
                break;
            }
            inflation += 2.0 * correlation;
        }
        Self { spread, inflation }
    }

    /// The standard error of the difference of the medians of so many values each.
    pub(super) fn error(&self, before: usize, after: usize) -> f64 {
        let [before, after] = [before, after].map(|n| n.max(1) as f64);
        MEDIAN * self.spread * (self.inflation * (1.0 / before + 1.0 / after)).sqrt()
    }
}
