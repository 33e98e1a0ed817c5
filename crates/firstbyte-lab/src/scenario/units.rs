//! Numbers with a unit as scenario files write them: `"81ms"`, `"0.5%"`, `"100mbit"`.

use std::time::Duration;

/// A bit rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    bits_per_second: u64,
}

impl Rate {
    /// A rate of this many bits per second; `None` for 0.
    pub fn from_bits_per_second(bits_per_second: u64) -> Option<Self> {
        (bits_per_second > 0).then_some(Self { bits_per_second })
    }

    /// How long a packet of this many bytes takes to leave.
    pub fn serialisation_ns(self, bytes: usize) -> u64 {
        let bits = bytes as u128 * 8;
        u64::try_from(bits * 1_000_000_000 / u128::from(self.bits_per_second)).unwrap_or(u64::MAX)
    }
}

/// `"4.5ms"`, `"81ms"`, `"200us"`, `"1s"`, `"0ms"`: at most a minute, a whole number of nanoseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let nanoseconds_per_unit = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let nanoseconds = (number * nanoseconds_per_unit).round();
    (nanoseconds <= 60e9).then(|| Duration::from_nanos(nanoseconds as u64))
}

/// A duration of at least one millisecond, and of whole ones.
pub(super) fn milliseconds(text: &str) -> Option<Duration> {
    duration(text)
        .filter(|duration| !duration.is_zero() && duration.subsec_nanos().is_multiple_of(1_000_000))
}

/// `"0.5%"` as 0.005.
pub(super) fn share(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit == "%" && number <= 100.0).then_some(number / 100.0)
}

/// `"512kbit"`, `"100mbit"`, `"1gbit"`.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (number, unit) = split(text)?;
    let bits_per_unit = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    let bits_per_second = number * bits_per_unit;
    (bits_per_second <= 1e12).then(|| Rate::from_bits_per_second(bits_per_second as u64))?
}

/// A non-negative decimal number and the unit that follows it directly.
fn split(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_ceiling() {
        assert_eq!(duration("4.5ms"), Some(Duration::from_micros(4_500)));
        assert_eq!(duration("200us"), Some(Duration::from_micros(200)));
        assert_eq!(duration("60s"), Some(Duration::from_secs(60)));
        for bad in ["", "5", "-5ms", "61s", "5 ms", "5min", "ms", "1.2.3ms", "1e3ms", "infs"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn milliseconds_are_whole() {
        assert_eq!(milliseconds("20ms"), Some(Duration::from_millis(20)));
        assert_eq!(milliseconds("1000us"), Some(Duration::from_millis(1)));
        for bad in ["0ms", "1.5ms", "999us", "61s"] {
            assert_eq!(milliseconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(share("0.5%"), Some(0.005));
        assert_eq!(share("100%"), Some(1.0));
        for bad in ["0.5", "101%", "-1%", "%"] {
            assert_eq!(share(bad), None, "{bad}");
        }
    }

    #[test]
    fn rates_are_in_bits() {
        assert_eq!(rate("100mbit"), Rate::from_bits_per_second(100_000_000));
        assert_eq!(rate("1.5kbit"), Rate::from_bits_per_second(1_500));
        for bad in ["0mbit", "100", "100MB", "2000gbit"] {
            assert_eq!(rate(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_full_frame_takes_120_us_at_100_mbit() {
        let rate = rate("100mbit").unwrap();
        assert_eq!(rate.serialisation_ns(1_500), 120_000);
    }
}
