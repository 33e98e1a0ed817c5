//! Counts of what was sampled: each of what came in stands for as many as its sampling fraction left out.

use firstbyte_core::stats::Interval;

/// Standard errors to either side that hold 95 % of the normal distribution.
const NORMAL_CRITICAL: f64 = 1.959_964;

/// How many there were, by a sample of them whose members stand for different numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedCount {
    /// How many came in.
    pub seen: u64,
    /// How many they stand for.
    pub estimate: f64,
    squares: f64,
    heaviest: f64,
}

impl WeightedCount {
    /// Counts one that stands for `weight`, at least 1.
    pub fn add(&mut self, weight: f64) {
        self.add_many(1, weight);
    }

    /// Counts `seen` that stand for `weight` each.
    pub fn add_many(&mut self, seen: u64, weight: f64) {
        self.seen = self.seen.saturating_add(seen);
        self.estimate += weight * seen as f64;
        self.squares += weight * weight * seen as f64;
        self.heaviest = self.heaviest.max(weight);
    }

    /// As many, all counted alike, would say as much: Kish's effective size.
    pub fn effective(&self) -> f64 {
        if self.squares > 0.0 { self.estimate * self.estimate / self.squares } else { 0.0 }
    }

    /// How many there are to be expected in such a time, with 95 %: the interval of a weighted sum of Poisson counts (Fay and
    /// Feuer 1997), χ² by Wilson and Hilferty (1931). For weights of 1 it is Garwood's, exact for counts but for that
    /// approximation. With nothing seen it reaches to what one unseen may stand for: at least 1.
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

/// The quantile of a gamma distribution with this mean and variance: that of χ² at `z` standard errors, scaled.
fn scaled_chi_square(mean: f64, variance: f64, z: f64) -> f64 {
    let degrees = 2.0 * mean * mean / variance;
    let step = 2.0 / (9.0 * degrees);
    let root = 1.0 - step + z * step.sqrt();
    (variance / (2.0 * mean) * degrees * root.max(0.0).powi(3)).max(0.0)
}

/// The share of `part` in `part` and `rest` together, with its 95 % interval: those of both, put together on the logarithm of
/// their ratio by the method of variance estimates recovery (Zou and Donner 2008). Absent where `rest` is nothing:
/// nobody knows then how much was left out.
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
