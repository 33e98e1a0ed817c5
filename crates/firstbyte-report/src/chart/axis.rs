//! Axes: round numbers, one unit per chart, and positions of values.

use std::time::Duration;

use crate::Style;
use crate::chart::round;
use crate::units::Scale;

/// Multiples of 1, 2 or 5 times a power of ten from `low` to `high`, about `count` of them.
pub(crate) fn ticks(low: f64, high: f64, count: f64) -> Vec<f64> {
    let rough = ((high - low) / count).max(f64::MIN_POSITIVE);
    let magnitude = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * magnitude)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(magnitude * 10.0);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last.min(first.saturating_add(100))).map(|i| i as f64 * step).collect()
}

/// A time axis with one unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    /// Ends of the axis, nanoseconds.
    pub low: f64,
    pub high: f64,
    scale: Scale,
}

impl TimeAxis {
    pub(crate) fn new(low: f64, high: f64) -> Self {
        // Keep the ends distinguishable as floating-point numbers.
        let high = high.max(low + 1e3).max(low + low.abs() * 1e-9);
        let largest = Duration::from_nanos(high.abs().max(low.abs()) as u64);
        Self { low, high, scale: Scale::for_largest(largest) }
    }

    /// Position of `ns` between the ends, from 0 to 1.
    pub(crate) fn share(&self, ns: f64) -> f64 {
        ((ns - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Round times and their labels, without the unit.
    pub(crate) fn ticks(&self, count: f64) -> Vec<(f64, String)> {
        let unit = self.unit_ns();
        ticks(self.low / unit, self.high / unit, count)
            .into_iter()
            .map(|at| (at * unit, round(at, 4).replace('-', "−")))
            .collect()
    }

    /// The unit's symbol.
    pub(crate) fn unit(&self) -> &'static str {
        self.scale.name(&Style::default())
    }

    /// Nanoseconds in the unit.
    pub(crate) fn unit_ns(&self) -> f64 {
        self.scale.step_ns() as f64 * 10f64.powi(self.scale.decimals.cast_signed())
    }

    /// The smallest step of a figure, nanoseconds.
    pub(crate) fn step_ns(&self) -> u64 {
        self.scale.step_ns()
    }

    /// Number of decimals of a figure.
    pub(crate) fn decimals(&self) -> u32 {
        self.scale.decimals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 43.0, 5.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(-12.0, 3.0, 4.0), [-10.0, -5.0, 0.0]);
        assert!(ticks(0.0, 0.0, 5.0).len() < 3);
        let axis = TimeAxis::new(0.0, 420e6);
        assert_eq!((axis.unit(), axis.ticks(4.0)[1].1.as_str()), ("ms", "200"));
    }
}
