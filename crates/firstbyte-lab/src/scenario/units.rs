//! Quantities as scenario files write them (`firstbyte_core::units`), within the bounds of a lab.

use std::fmt;
use std::time::Duration;

use firstbyte_core::units::{
    BareShare, BareSize, BareTime, parse_rate, parse_share, parse_size, parse_time,
};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

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

    /// Bits per second.
    pub fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }

    /// How long a packet of this many bytes takes to leave.
    pub fn serialisation_ns(self, bytes: usize) -> u64 {
        let bits = bytes as u128 * 8;
        u64::try_from(bits * 1_000_000_000 / u128::from(self.bits_per_second)).unwrap_or(u64::MAX)
    }
}

/// `"4.5ms"`, `"81ms"`, `"1.5s"`: at most a minute, with a unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    parse_time(text, BareTime::Refused).ok().filter(|time| *time <= Duration::from_secs(60))
}

/// A duration of at least one millisecond, and of whole ones.
pub(super) fn milliseconds(text: &str) -> Option<Duration> {
    duration(text)
        .filter(|duration| !duration.is_zero() && duration.subsec_nanos().is_multiple_of(1_000_000))
}

/// `"0.5%"` as 0.005.
pub(super) fn share(text: &str) -> Option<f64> {
    parse_share(text, BareShare::Refused).ok().filter(|share| *share <= 1.0)
}

/// `"512kbit"`, `"100Mbit/s"`, `"1gbit"`.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let bits_per_second = parse_rate(text).ok().filter(|rate| *rate <= 1_000_000_000_000)?;
    Rate::from_bits_per_second(bits_per_second)
}

/// A size in TOML: `20000` or `"20kB"`.
#[derive(Debug)]
pub(super) enum WrittenSize {
    Bytes(u64),
    Text(String),
}

impl WrittenSize {
    /// Bytes; `None` for a text that is not a size.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(*bytes),
            Self::Text(text) => parse_size(text, BareSize::Bytes).ok(),
        }
    }
}

impl fmt::Display for WrittenSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = WrittenSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or text such as \"20kB\"")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<WrittenSize, E> {
                let bad = || E::invalid_value(de::Unexpected::Signed(number), &self);
                number.try_into().map(WrittenSize::Bytes).map_err(|_| bad())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<WrittenSize, E> {
                Ok(WrittenSize::Bytes(number))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<WrittenSize, E> {
                Ok(WrittenSize::Text(text.to_owned()))
            }
        }
        from.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_a_ceiling() {
        assert_eq!(duration("4.5ms"), Some(Duration::from_micros(4_500)));
        assert_eq!(duration("60s"), Some(Duration::from_secs(60)));
        assert_eq!(duration("1min"), Some(Duration::from_secs(60)));
        for bad in ["", "5", "-5ms", "61s", "5min", "ms", "1e3ms"] {
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
    fn shares_and_rates_have_bounds() {
        assert_eq!(share("0.5%"), Some(0.005));
        for bad in ["0.5", "101%", "-1%", "%"] {
            assert_eq!(share(bad), None, "{bad}");
        }
        assert_eq!(rate("100Mbit/s"), Rate::from_bits_per_second(100_000_000));
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
