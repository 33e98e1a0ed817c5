//! Times, sizes, rates and shares as people write them: `250ms`, `1.5min`, `20kB`, `100Mbit/s`, `0.5%`.
//!
//! One grammar for command lines, plans, scenarios and conditions (`docs/units.md`). In: a text, and
//! what a number without a unit means at that place, if anything. Out: the quantity in its base unit,
//! computed in whole numbers, or an [`UnitError`] that says what is wrong and what to write. How
//! quantities are laid out in tables is not decided here.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

mod decimal;
#[cfg(test)]
mod tests;

use decimal::Decimal;

/// What a time without a unit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareTime {
    /// A number alone is no time.
    Refused,
    /// Milliseconds.
    Milliseconds,
    /// Seconds, as with curl.
    Seconds,
}

/// What a size without a unit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareSize {
    /// Bytes.
    Bytes,
    /// Mebibytes, as with buffers.
    Mebibytes,
}

/// What a share without a percent sign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareShare {
    /// A number alone is no share.
    Refused,
    /// A part of one: 0.01 is 1 %.
    OfOne,
}

/// Why a text is not the quantity that was asked for. Its text is a lower-case fragment, to stand after
/// the place and what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    asked: Asked,
    fault: UnitFault,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Time,
    Size,
    Rate,
    Share,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
enum UnitFault {
    /// It does not begin with a decimal number.
    NoNumber,
    /// There is a number and no unit, where one is needed.
    NoUnit,
    /// No unit is called so.
    UnknownUnit(String),
    /// Not a whole number of bytes, or of bits a second.
    NotWhole,
    /// More than can be counted.
    TooLarge,
    /// Outside what is allowed here, which is this.
    OutOfRange(String),
}

impl UnitError {
    const fn new(asked: Asked, fault: UnitFault) -> Self {
        Self { asked, fault }
    }

    /// What to write instead, as a phrase: "write 5s, 250ms or 1.5min".
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

/// A time: a decimal number and `ns`, `us` (`µs`), `ms`, `s`, `min` (`m`), `h` or `d`, to the nearest
/// nanosecond.
///
/// # Errors
/// Text that is no such time, or one of more than 584 years.
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

/// A time within `allowed`, as [`parse_time`].
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

/// Bytes: a decimal number and `B`, `kB`, `MB`, `GB`, `TB` (powers of 1000; the B may be left out), `KiB`,
/// `MiB`, `GiB` or `TiB` (powers of 1024), in capitals or not.
///
/// # Errors
/// Text that is no such size, or not a whole number of bytes, or more than 2^64 - 1.
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

/// A size within `allowed`, as [`parse_size`].
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

/// Bits a second: a decimal number and `bit`, `kbit`, `Mbit`, `Gbit` or `Tbit`, in capitals or not, with or
/// without `/s`; or `bps`, `kbps` and so on. Never zero. `MB/s` is refused: too many write it for `Mb/s`.
///
/// # Errors
/// Text that is no such rate, no unit, zero, or not a whole number of bits a second.
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

/// A share: `0.5%` is 0.005; no less than 0, and no bound above.
///
/// # Errors
/// Text that is no such share.
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

/// `time` exactly, in the largest unit of which it is a whole number: "90s", "1500ms", "2h".
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

/// `bytes` exactly, in the largest unit of which it is a whole number; powers of 1024 from a whole KiB on:
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

/// `bits_per_second` exactly, in the largest unit of which it is a whole number: "100Mbit/s".
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

/// `number` of units, where that is a whole number.
fn whole(number: Decimal, unit: u64) -> Result<u64, UnitFault> {
    match number.times_exact(unit) {
        Some(Some(whole)) => Ok(whole),
        Some(None) => Err(UnitFault::NotWhole),
        None => Err(UnitFault::TooLarge),
    }
}
