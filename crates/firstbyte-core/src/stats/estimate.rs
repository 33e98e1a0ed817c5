//! An estimate with its uncertainty, and the rules for when to omit the uncertainty.

use super::dependence::{ALPHA, critical};
use super::special::student_two_sided;

/// An interval that covers the true value with the stated confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the interval lies on one side of zero.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Largest absolute effect in the interval.
    pub fn largest(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }
}

/// The fewest rounds that give an interval: four blocks of five. Fewer blocks say next to nothing about how much
/// blocks vary.
pub const FEWEST_ROUNDS: usize = 20;

/// Fewest values expected on the thinner side of a quantile for an interval.
///
/// The number beyond the quantile varies by about its square root, so the interval's upper end lies where about 10 −
/// 2·√10 ≈ 4 of 10 values are left: still among the data. With fewer values it would always be the largest one. Hence
/// p50 from 20 rounds, p75 from 40, p90 from 100, p95 from 200 and p99 from 1,000.
pub const FEWEST_BEYOND: f64 = 10.0;

/// Whether `n` rounds are enough for an interval of the quantile `q`.
pub fn supports_quantile(n: usize, q: f64) -> bool {
    n >= fewest_for_quantile(q)
}

/// The fewest rounds that give an interval of the quantile `q`.
pub fn fewest_for_quantile(q: f64) -> usize {
    // A bit of slack, because 1 − 0.99 is not quite 0.01.
    let needed = (FEWEST_BEYOND / q.min(1.0 - q) - 1e-6).ceil() as usize;
    needed.max(FEWEST_ROUNDS)
}

/// An estimate, its 95 % interval, and its compatibility with a true value of zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// 95 % interval, which always includes the estimate; absent with too few rounds.
    pub interval: Option<Interval>,
    /// Two-sided p-value of "the true value is zero"; below 5 % exactly if the interval excludes zero.
    pub p_value: Option<f64>,
}

impl Estimate {
    /// Distance from the estimate to the farther end of the interval: the ± that an experiment aims to reduce.
    pub fn reach(&self) -> Option<f64> {
        let interval = self.interval?;
        Some((self.value - interval.low).max(interval.high - self.value))
    }

    /// [`Self::reach`] relative to the estimate. `None` for an estimate of zero.
    pub fn relative_reach(&self) -> Option<f64> {
        let reach = self.reach()?;
        (self.value != 0.0).then(|| reach / self.value.abs())
    }

    /// The estimate divided by `unit`, which is positive.
    pub fn per(&self, unit: f64) -> Self {
        let interval = self.interval.map(|i| Interval { low: i.low / unit, high: i.high / unit });
        Self { value: self.value / unit, interval, p_value: self.p_value }
    }

    /// Widens the interval for readings that may be off by `steps` in either direction: clocks have steps, and no
    /// number of rounds makes them smaller. `degrees` are those of the original interval.
    pub(super) fn off_by(self, steps: f64, degrees: f64) -> Self {
        match self.interval {
            Some(i) if steps > 0.0 => {
                Self::within(self.value, i.low - steps, i.high + steps, degrees)
            }
            _ => self,
        }
    }

    /// An estimate without an interval.
    pub(super) const fn alone(value: f64) -> Self {
        Self { value, interval: None, p_value: None }
    }

    /// An estimate with the interval `low..high`, whose width was found with `degrees` degrees of freedom.
    ///
    /// The p-value is the interval's own: the share of Student's t as far out as zero is, in units of the interval's
    /// reach towards zero. It needs no second resampling and has no lower limit.
    pub(super) fn within(value: f64, low: f64, high: f64, degrees: f64) -> Self {
        let interval = Interval { low: low.min(value), high: high.max(value) };
        let reach = if value > 0.0 { value - interval.low } else { interval.high - value };
        let p_value = if value == 0.0 {
            1.0
        } else if reach > 0.0 {
            student_two_sided(value.abs() / reach * critical(degrees), degrees)
        } else {
            0.0
        };
        // At the border, rounding must not make the two disagree.
        let p_value = match interval.excludes_zero() {
            true => p_value.min(ALPHA - f64::EPSILON),
            false => p_value.max(ALPHA),
        };
        Self { value, interval: Some(interval), p_value: Some(p_value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_need_rounds() {
        let least = |q: f64| (1..5_000).find(|n| supports_quantile(*n, q)).unwrap();
        assert_eq!([0.5, 0.75, 0.9, 0.95, 0.99].map(least), [20, 40, 100, 200, 1_000]);
    }

    #[test]
    fn p_value_and_interval_agree() {
        let on_the_border = Estimate::within(2.0, 0.0, 5.0, 8.0).p_value.unwrap();
        assert!((on_the_border - 0.05).abs() < 1e-9);
        assert!(Estimate::within(2.0, 0.5, 5.0, 8.0).p_value.unwrap() < 0.05);
        assert!(Estimate::within(-2.0, -9.0, 0.1, 8.0).p_value.unwrap() > 0.05);
        assert_eq!(Estimate::within(0.0, -1.0, 1.0, 8.0).p_value, Some(1.0));
        assert_eq!(Estimate::within(3.0, 3.0, 3.0, 8.0).p_value, Some(0.0));
    }
}
