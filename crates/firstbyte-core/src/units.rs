//! Times, sizes, rates and shares as people write them: `250ms`, `1.5min`, `20kB`, `100Mbit/s`, `0.5%`.
//!
//! One grammar for command lines, plans, scenarios and conditions (`docs/units.md`). Input: a text, and the meaning of
//! a number without a unit in that place, if it has one. Output: the quantity in its base unit, computed in integers,
//! or a [`UnitError`] that says what is wrong and what to write. Table layout of quantities is decided elsewhere.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

mod decimal;
#[cfg(test)]
mod tests;

use decimal::Decimal;

/// Unit of a time written without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareTime {
    /// A bare number is not accepted.
    Refused,
    /// Milliseconds.
    Milliseconds,
    /// Seconds, as with curl.
    Seconds,
}

/// Unit of a size written without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareSize {
    /// Bytes.
    Bytes,
    /// Mebibytes, as usual for buffers.
    Mebibytes,
}

/// Meaning of a share without a percent sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareShare {
    /// A bare number is not accepted.
    Refused,
    /// A fraction of one: 0.01 is 1 %.
    OfOne,
}

/// Why a text is not the expected quantity. Displays as a lower-case fragment that follows the place and the text
/// found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    asked: Asked,
    fault: UnitFault,
}

/// Expected quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Time,
    Size,
    Rate,
    Share,
}

/// What is wrong with the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnitFault {
    /// The text does not begin with a decimal number.
    NoNumber,
    /// The number lacks a required unit.
    NoUnit,
    /// The unit does not exist.
    UnknownUnit(String),
    /// Not a whole number of bytes, or of bits per second.
    NotWhole,
    /// Exceeds the largest representable quantity.
    TooLarge,
    /// Outside the allowed range, which is given here.
    OutOfRange(String),
}

impl UnitError {
    const fn new(asked: Asked, fault: UnitFault) -> Self {
        Self { asked, fault }
    }

    /// A phrase that says what to write instead: "write 5s, 250ms or 1.5min".
    pub const fn advice(&self) -> &'static str {
        match self.asked {
            Asked::Time => "write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)",
            Asked::Size => "write 4000, 20kB or 1.5MiB (units: B, kB, MB, GB, KiB, MiB, GiB)",
            Asked::Rate => {
                "write 512kbit/s or 100Mbit (units: bit, kbit, Mbit, Gbit; /s may follow)"
            }
            Asked::Share => "write 0.5%",
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = match self.asked {
            Asked::Time => "time",
            Asked::Size => "number of bytes",
            Asked::Rate => "rate",
            Asked::Share => "share",
        };
        match &self.fault {
            UnitFault::NoNumber => write!(f, "not a {asked}"),
            UnitFault::NoUnit => write!(f, "not a {asked}: it has no unit"),
            UnitFault::UnknownUnit(unit) => write!(f, "not a {asked}: unknown unit {unit:?}"),
            UnitFault::NotWhole => write!(f, "not a whole {asked}"),
            UnitFault::TooLarge => write!(f, "the {asked} is too large"),
            UnitFault::OutOfRange(allowed) => write!(f, "not a {asked} {allowed}"),
        }
    }
}

impl std::error::Error for UnitError {}

/// Parses a time: a decimal number and `ns`, `us` (`µs`), `ms`, `s`, `min` (`m`), `h` or `d`, to the nearest
/// nanosecond.
///
/// # Errors
/// The text is not a time, or exceeds 584 years.
pub fn parse_time(text: &str, bare: BareTime) -> Result<Duration, UnitError> {
    let failed = |fault| UnitError::new(Asked::Time, fault);
    let (number, unit) = Decimal::read(text).ok_or_else(|| failed(UnitFault::NoNumber))?;
    let ns_per_unit = match (unit, bare) {
        ("", BareTime::Refused) => return Err(failed(UnitFault::NoUnit)),
        ("ns", _) => 1,
        // The micro sign and the Greek letter.
        ("us" | "\u{b5}s" | "\u{3bc}s", _) => 1_000,
        ("ms", _) | ("", BareTime::Milliseconds) => 1_000_000,
        ("s", _) | ("", BareTime::Seconds) => 1_000_000_000,
        ("min" | "m", _) => 60 * 1_000_000_000,
        ("h", _) => 3_600 * 1_000_000_000,
        ("d", _) => 86_400 * 1_000_000_000,
        _ => return Err(failed(UnitFault::UnknownUnit(unit.to_owned()))),
    };
    let ns = number.times_rounded(ns_per_unit).ok_or_else(|| failed(UnitFault::TooLarge))?;
    Ok(Duration::from_nanos(ns))
}

/// Parses a time within `allowed`, like [`parse_time`].
///
/// # Errors
/// As [`parse_time`], and times outside `allowed`.
pub fn parse_time_within(
    text: &str,
    bare: BareTime,
    allowed: RangeInclusive<Duration>,
) -> Result<Duration, UnitError> {
    let time = parse_time(text, bare)?;
    if allowed.contains(&time) {
        return Ok(time);
    }
    let words = format!("from {} to {}", print_time(*allowed.start()), print_time(*allowed.end()));
    Err(UnitError::new(Asked::Time, UnitFault::OutOfRange(words)))
}

/// Parses a size: a decimal number and `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000; the B is optional), `KiB`, `MiB`,
/// `GiB` or `TiB` (powers of 1024), in any case.
///
/// # Errors
/// The text is not a size, not a whole number of bytes, or more than 2^64 - 1.
pub fn parse_size(text: &str, bare: BareSize) -> Result<u64, UnitError> {
    let failed = |fault| UnitError::new(Asked::Size, fault);
    let (number, unit) = Decimal::read(text).ok_or_else(|| failed(UnitFault::NoNumber))?;
    let bytes_per_unit = match unit.to_ascii_lowercase().as_str() {
        "" if bare == BareSize::Mebibytes => 1 << 20,
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        "ti" | "tib" => 1 << 40,
        _ => return Err(failed(UnitFault::UnknownUnit(unit.to_owned()))),
    };
    whole(number, bytes_per_unit).map_err(failed)
}

/// Parses a size within `allowed`, like [`parse_size`].
///
/// # Errors
/// As [`parse_size`], and sizes outside `allowed`.
pub fn parse_size_within(
    text: &str,
    bare: BareSize,
    allowed: RangeInclusive<u64>,
) -> Result<u64, UnitError> {
    let size = parse_size(text, bare)?;
    if allowed.contains(&size) {
        return Ok(size);
    }
    let (least, most) = (print_size(*allowed.start()), print_size(*allowed.end()));
    let words = format!("from {least} to {most}");
    Err(UnitError::new(Asked::Size, UnitFault::OutOfRange(words)))
}

/// Parses a rate in bits per second: a decimal number and `bit`, `kbit`, `Mbit`, `Gbit` or `Tbit`, in any case, with
/// or without `/s`; or `bps`, `kbps` and so on.
///
/// Never zero. `MB/s` is refused: too many people write it for `Mb/s`.
///
/// # Errors
/// The text is not a rate, lacks a unit, is zero, or is not a whole number of bits per second.
pub fn parse_rate(text: &str) -> Result<u64, UnitError> {
    let failed = |fault| UnitError::new(Asked::Rate, fault);
    let (number, unit) = Decimal::read(text).ok_or_else(|| failed(UnitFault::NoNumber))?;
    let lower = unit.to_ascii_lowercase();
    let per_second = lower.strip_suffix("/s").unwrap_or(&lower);
    let bits_per_unit = match per_second {
        "" if lower.is_empty() => return Err(failed(UnitFault::NoUnit)),
        "bit" | "bps" => 1,
        "kbit" | "kbps" => 1_000,
        "mbit" | "mbps" => 1_000_000,
        "gbit" | "gbps" => 1_000_000_000,
        "tbit" | "tbps" => 1_000_000_000_000,
        _ => return Err(failed(UnitFault::UnknownUnit(unit.to_owned()))),
    };
    let rate = whole(number, bits_per_unit).map_err(failed)?;
    if rate == 0 {
        return Err(failed(UnitFault::OutOfRange("above zero".to_owned())));
    }
    Ok(rate)
}

/// Parses a share: `0.5%` is 0.005. At least 0, without an upper bound.
///
/// # Errors
/// The text is not a share.
pub fn parse_share(text: &str, bare: BareShare) -> Result<f64, UnitError> {
    let failed = |fault| UnitError::new(Asked::Share, fault);
    let (number, unit) = Decimal::read(text).ok_or_else(|| failed(UnitFault::NoNumber))?;
    match (unit, bare) {
        ("%", _) => Ok(number.as_f64() / 100.0),
        ("", BareShare::OfOne) => Ok(number.as_f64()),
        ("", BareShare::Refused) => Err(failed(UnitFault::NoUnit)),
        _ => Err(failed(UnitFault::UnknownUnit(unit.to_owned()))),
    }
}

/// Prints `time` exactly, in the largest unit that gives a whole number: "90s", "1500ms", "2h".
/// [`parse_time`] reads it back, up to 584 years.
pub fn print_time(time: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let ns = time.as_nanos();
    if ns == 0 {
        return "0s".to_owned();
    }
    let whole = UNITS.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or((1, "ns"));
    format!("{}{name}", ns / unit)
}

/// Prints `bytes` exactly, in the largest unit that gives a whole number; powers of 1024 from a whole KiB on:
/// "20kB", "256KiB", "1448B".
pub fn print_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (1_000_000_000, "GB"),
        (1 << 30, "GiB"),
        (1_000_000, "MB"),
        (1 << 20, "MiB"),
        (1_000, "kB"),
        (1 << 10, "KiB"),
    ];
    print_whole(bytes, &UNITS, "B")
}

/// Prints `bits_per_second` exactly, in the largest unit that gives a whole number: "100Mbit/s".
pub fn print_rate(bits_per_second: u64) -> String {
    const UNITS: [(u64, &str); 3] =
        [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1_000, "kbit/s")];
    print_whole(bits_per_second, &UNITS, "bit/s")
}

fn print_whole(number: u64, units: &[(u64, &str)], base: &str) -> String {
    let fits = |(unit, _): &&(u64, &str)| number > 0 && number.is_multiple_of(*unit);
    match units.iter().find(fits) {
        Some((unit, name)) => format!("{}{name}", number / unit),
        None => format!("{number}{base}"),
    }
}

/// Converts to base units, if the result is a whole number.
fn whole(number: Decimal, unit: u64) -> Result<u64, UnitFault> {
    match number.times_exact(unit) {
        Some(Some(whole)) => Ok(whole),
        Some(None) => Err(UnitFault::NotWhole),
        None => Err(UnitFault::TooLarge),
    }
}
