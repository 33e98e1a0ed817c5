//! Counts of sampled events: each event seen is weighted by the inverse of its sampling fraction.

use firstbyte_core::stats::Interval;

/// Standard errors on either side that contain 95 % of the normal distribution.
const NORMAL_CRITICAL: f64 = 1.959_964;

/// Estimated number of events, from a sample with weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedCount {
    /// Events seen.
    pub seen: u64,
    /// Events that they stand for.
    pub estimate: f64,
    squares: f64,
    heaviest: f64,
}

impl WeightedCount {
    /// Counts one event with this weight, at least 1.
    pub fn add(&mut self, weight: f64) {
        self.add_many(1, weight);
    }

    /// Counts `seen` events with this weight each.
    pub fn add_many(&mut self, seen: u64, weight: f64) {
        self.seen = self.seen.saturating_add(seen);
        self.estimate += weight * seen as f64;
        self.squares += weight * weight * seen as f64;
        self.heaviest = self.heaviest.max(weight);
    }

    /// Kish's effective sample size: the number of equally weighted events with the same precision.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.estimate * self.estimate / self.squares } else { 0.0 }
    }

    /// The 95 % interval of the expected count: that of a weighted sum of Poisson counts (Fay and Feuer 1997), with χ²
    /// by Wilson and Hilferty (1931).
    ///
    /// For weights of 1 it is Garwood's interval, exact except for that approximation. If nothing was seen, the upper
    /// bound allows for one unseen event of the largest weight, at least 1.
    pub fn interval(&self) -> Interval {
        let heaviest = self.heaviest.max(1.0);
        let low = match self.seen {
            0 => 0.0,
            _ => scaled_chi_square(self.estimate, self.squares, -NORMAL_CRITICAL),
        };
        let high = scaled_chi_square(
            self.estimate + heaviest,
            self.squares + heaviest * heaviest,
            NORMAL_CRITICAL,
        );
        Interval { low: low.min(self.estimate), high: high.max(self.estimate) }
    }
}

/// Quantile of a gamma distribution with this mean and variance: a scaled χ² quantile at `z` standard errors.
fn scaled_chi_square(mean: f64, variance: f64, z: f64) -> f64 {
    let degrees = 2.0 * mean * mean / variance;
    let step = 2.0 / (9.0 * degrees);
    let root = 1.0 - step + z * step.sqrt();
    (variance / (2.0 * mean) * degrees * root.max(0.0).powi(3)).max(0.0)
}

/// The share of `part` in `part` and `rest` together, with its 95 % interval; absent if `rest` is empty, since nobody
/// knows then how much was left out.
///
/// The two intervals are combined on the logarithm of the ratio by the method of variance estimates recovery (Zou and
/// Donner 2008).
pub fn weighted_share(part: &WeightedCount, rest: &WeightedCount) -> Option<(f64, Interval)> {
    if rest.seen == 0 {
        return None;
    }
    let share = part.estimate / (part.estimate + rest.estimate);
    let (of_part, of_rest) = (part.interval(), rest.interval());
    let logarithm = (part.estimate / rest.estimate).ln();
    let off = |a: f64, b: f64, c: f64, d: f64| {
        let (one, other) = ((a / b).ln(), (c / d).ln());
        one.hypot(other)
    };
    let from_logarithm = |log: f64| 1.0 / (1.0 + (-log).exp());
    let low = match part.seen {
        0 => 0.0,
        _ if of_part.low <= 0.0 => 0.0,
        _ => {
            from_logarithm(logarithm - off(part.estimate, of_part.low, of_rest.high, rest.estimate))
        }
    };
    let high = match part.seen {
        0 => of_part.high / (of_part.high + rest.estimate),
        _ if of_rest.low <= 0.0 => 1.0,
        _ => {
            from_logarithm(logarithm + off(of_part.high, part.estimate, rest.estimate, of_rest.low))
        }
    };
    Some((share, Interval { low: low.min(share), high: high.max(share) }))
}
