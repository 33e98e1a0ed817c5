//! Quantities with units, as users write them: `80ms`, `20kB`, `50mbit`, `0.1%`.

use std::time::Duration;

use super::usage;
use crate::cli::exit::Problem;

/// A number and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// A time, in milliseconds where no unit is given.
pub(in crate::cli) fn time(flag: &str, text: &str) -> Result<Duration, Problem> {
    let seconds = split(text).and_then(|(number, unit)| {
        let factor = match unit {
            "us" | "µs" => 1e-6,
            "ms" | "" => 1e-3,
            "s" => 1.0,
            _ => return None,
        };
        Some(number * factor).filter(|seconds| (0.0..=3_600.0).contains(seconds))
    });
    let bad = || usage(format!("{flag} {text:?}: not a time")).hint("write 80ms, 0.2s or 500us");
    seconds.map(Duration::from_secs_f64).ok_or_else(bad)
}

/// Bytes: `4000`, `20kB`, `1.5MB`, `64KiB`.
pub(in crate::cli) fn bytes(flag: &str, text: &str, most: u64) -> Result<u64, Problem> {
    let bytes = split(text).and_then(|(number, unit)| {
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" => 1e3,
            "m" | "mb" => 1e6,
            "kib" => 1024.0,
            "mib" => 1024.0 * 1024.0,
            _ => return None,
        };
        Some((number * factor).round() as u64)
    });
    let bad = || {
        usage(format!("{flag} {text:?}: not a number of bytes up to {most}"))
            .hint("write 4000, 20kB or 1.5MB")
    };
    bytes.filter(|bytes| *bytes <= most).ok_or_else(bad)
}

/// Bits per second: `512kbit`, `20mbit`, `1gbit`.
pub(in crate::cli) fn rate(flag: &str, text: &str) -> Result<u64, Problem> {
    let rate = split(text).and_then(|(number, unit)| {
        let factor = match unit.to_ascii_lowercase().trim_end_matches("/s") {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => return None,
        };
        Some((number * factor).round() as u64)
    });
    let bad = || usage(format!("{flag} {text:?}: not a rate")).hint("write 512kbit or 20mbit");
    rate.filter(|rate| *rate > 0).ok_or_else(bad)
}

/// A share: `0.1%` or `0.001`.
pub(in crate::cli) fn share(flag: &str, text: &str) -> Result<f64, Problem> {
    let share = split(text).and_then(|(number, unit)| match unit {
        "%" => Some(number / 100.0),
        "" => Some(number),
        _ => None,
    });
    let bad = || usage(format!("{flag} {text:?}: not a share below 100 %")).hint("write 0.1%");
    share.filter(|share| (0.0..1.0).contains(share)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(time("--rtt", "80ms").unwrap(), Duration::from_millis(80));
        assert_eq!(time("--rtt", "0.2 s").unwrap(), Duration::from_millis(200));
        assert_eq!(time("--rtt", "12.5").unwrap(), Duration::from_micros(12_500));
        assert_eq!(bytes("--chain", "20kB", u64::MAX).unwrap(), 20_000);
        assert_eq!(bytes("--chain", "64KiB", u64::MAX).unwrap(), 65_536);
        assert_eq!(rate("--rate", "20mbit").unwrap(), 20_000_000);
        assert_eq!(share("--loss", "0.1%").unwrap(), 0.001);
        for bad in ["", "ms", "-1ms", "80 miles", "1e9s", "NaN"] {
            assert!(time("--rtt", bad).is_err(), "{bad}");
        }
        assert!(share("--loss", "100%").is_err());
        assert!(rate("--rate", "20").is_err());
        assert!(bytes("--chain", "2kB", 1_000).is_err());
    }
}
