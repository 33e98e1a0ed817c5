//! Times as text: one unit and one number of decimals for all compared times.

use std::time::Duration;

use super::style::Style;

/// Unit of a table's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Micros,
    Millis,
    Seconds,
}

impl Unit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
            Self::Seconds => 1_000_000_000,
        }
    }

    /// Number of decimals down to a nanosecond.
    const fn max_decimals(self) -> u32 {
        match self {
            Self::Micros => 3,
            Self::Millis => 6,
            Self::Seconds => 9,
        }
    }
}

/// Unit and decimals shared by the times of one table.
///
/// A time is printed as a whole number of *steps*, the value of the last decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub unit: Unit,
    pub decimals: u32,
}

impl Scale {
    /// The scale for a table whose largest time is `largest`, which then has three or four digits.
    pub(crate) fn for_largest(largest: Duration) -> Self {
        let micros = largest.as_micros();
        let (unit, decimals) = match micros {
            0..1_000 => (Unit::Micros, 0),
            1_000..10_000 => (Unit::Millis, 3),
            10_000..100_000 => (Unit::Millis, 2),
            100_000..10_000_000 => (Unit::Millis, 1),
            _ => (Unit::Seconds, 3),
        };
        Self { unit, decimals }
    }

    /// The same unit with one more decimal, down to nanoseconds.
    pub(crate) fn finer(self) -> Option<Self> {
        (self.decimals < self.unit.max_decimals())
            .then_some(Self { decimals: self.decimals + 1, ..self })
    }

    /// Nanoseconds per step.
    pub(crate) fn step_ns(self) -> u64 {
        self.unit.nanos() / 10u64.pow(self.decimals)
    }

    /// `duration` in steps, rounded half up.
    pub(crate) fn steps(self, duration: Duration) -> u64 {
        let step = u128::from(self.step_ns());
        u64::try_from((duration.as_nanos() + step / 2) / step).unwrap_or(u64::MAX)
    }

    /// The figure without its unit.
    pub(crate) fn figure(self, steps: u64) -> String {
        let whole = 10u64.pow(self.decimals);
        if self.decimals == 0 {
            return steps.to_string();
        }
        format!("{}.{:0width$}", steps / whole, steps % whole, width = self.decimals as usize)
    }

    /// The figure with its unit.
    pub(crate) fn print(self, steps: u64, style: &Style) -> String {
        format!("{} {}", self.figure(steps), self.name(style))
    }

    /// A time with its unit; a non-zero time shorter than a step is "<" one step.
    pub(crate) fn time(self, duration: Duration, style: &Style) -> String {
        format!("{} {}", self.time_figure(duration), self.name(style))
    }

    /// The same as [`Self::time`], without the unit.
    pub(crate) fn time_figure(self, duration: Duration) -> String {
        match self.steps(duration) {
            0 if !duration.is_zero() => format!("<{}", self.figure(1)),
            steps => self.figure(steps),
        }
    }

    /// The unit's symbol.
    pub(crate) fn name(self, style: &Style) -> &'static str {
        match self.unit {
            Unit::Micros => style.glyph("µs", "us"),
            Unit::Millis => "ms",
            Unit::Seconds => "s",
        }
    }
}

/// `n` with its noun, in the plural if necessary, with thousands separators.
pub fn count(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `n` bytes, with thousands separators.
pub(crate) fn bytes(n: u64) -> String {
    format!("{} byte{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// `n` with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(ns: u64) -> (Scale, String) {
        let duration = Duration::from_nanos(ns);
        let scale = Scale::for_largest(duration);
        (scale, scale.time(duration, &Style::default()))
    }

    #[test]
    fn the_unit_follows_the_largest_time() {
        assert_eq!(scale(312_400).1, "312 µs");
        assert_eq!(scale(3_124_400).1, "3.124 ms");
        assert_eq!(scale(31_244_000).1, "31.24 ms");
        assert_eq!(scale(312_440_000).1, "312.4 ms");
        assert_eq!(scale(30_124_400_000).1, "30.124 s");
    }

    #[test]
    fn a_time_that_was_is_never_printed_as_zero() {
        let style = Style::default();
        let scale = Scale { unit: Unit::Millis, decimals: 1 };
        assert_eq!(scale.time(Duration::from_nanos(3_000), &style), "<0.1 ms");
        assert_eq!(scale.time(Duration::ZERO, &style), "0.0 ms");
    }

    #[test]
    fn finer_ends_at_the_nanosecond() {
        let mut scale = Scale { unit: Unit::Seconds, decimals: 0 };
        while let Some(finer) = scale.finer() {
            scale = finer;
        }
        assert_eq!(scale.step_ns(), 1);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([grouped(1), grouped(1_234), grouped(1_234_567)], ["1", "1,234", "1,234,567"]);
        assert_eq!((bytes(1), count(2, "certificate")), ("1 byte".into(), "2 certificates".into()));
    }
}
