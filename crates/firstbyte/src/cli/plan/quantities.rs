//! Quantities in flags, in the grammar of [`firstbyte_core::units`], with errors that name the flag.

use std::time::Duration;

use firstbyte_core::units::{
    BareShare, BareSize, BareTime, UnitError, parse_rate, parse_share, parse_size_within,
    parse_time, parse_time_within,
};

use super::usage;
use crate::cli::exit::Problem;

const MOST_TIME: Duration = Duration::from_secs(3_600);
/// Longer than anyone waits, and short enough to be added to any point in time.
const MOST_LIMIT: Duration = Duration::from_secs(1_000_000_000);

/// A time limit, in seconds unless it has a unit; zero means no limit, as with curl.
pub(in crate::cli) fn limit(flag: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let time = parse_time_within(text, BareTime::Seconds, Duration::ZERO..=MOST_LIMIT);
    let time = time.map_err(|error| refused(flag, text, &error))?;
    Ok((!time.is_zero()).then_some(time))
}

/// A time of up to an hour, in milliseconds unless it has a unit.
pub(in crate::cli) fn time(flag: &str, text: &str) -> Result<Duration, Problem> {
    parse_time_within(text, BareTime::Milliseconds, Duration::ZERO..=MOST_TIME)
        .map_err(|error| refused(flag, text, &error))
}

/// A number of bytes, up to `most`.
pub(in crate::cli) fn bytes(flag: &str, text: &str, most: u64) -> Result<u64, Problem> {
    parse_size_within(text, BareSize::Bytes, 0..=most).map_err(|error| refused(flag, text, &error))
}

/// Bits per second.
pub(in crate::cli) fn rate(flag: &str, text: &str) -> Result<u64, Problem> {
    parse_rate(text).map_err(|error| refused(flag, text, &error))
}

/// A share below one: `0.1%` or `0.001`.
pub(in crate::cli) fn share(flag: &str, text: &str) -> Result<f64, Problem> {
    let share = parse_share(text, BareShare::OfOne);
    let share = share.map_err(|error| refused(flag, text, &error))?;
    let bad = || {
        let hint = match text.trim() {
            "1" => "write 1% for one percent".to_owned(),
            percent if share < 100.0 && !percent.ends_with('%') => {
                format!("write {percent}% for {percent} percent")
            }
            _ => "write 0.1%".to_owned(),
        };
        usage(format!("{flag} {text:?}: expected a share below 100 %")).hint(hint)
    };
    Some(share).filter(|share| *share < 1.0).ok_or_else(bad)
}

/// A time in a condition, in nanoseconds; the unit is required.
pub(in crate::cli) fn nanoseconds(text: &str) -> Result<f64, UnitError> {
    parse_time(text, BareTime::Refused).map(|time| time.as_nanos() as f64)
}

/// The message for a refused value, in the form that clap needs.
pub(in crate::cli) fn told(error: &UnitError) -> String {
    format!("{error}; {}", error.advice())
}

fn refused(flag: &str, text: &str, error: &UnitError) -> Problem {
    usage(format!("{flag} {text:?}: {error}")).hint(error.advice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_means_what_it_does_at_its_flag() {
        assert_eq!(time("--rtt", "80ms").unwrap(), Duration::from_millis(80));
        assert_eq!(time("--rtt", "12.5").unwrap(), Duration::from_micros(12_500));
        assert_eq!(limit("-m", Some("0.5")).unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(limit("-m", Some("500ms")).unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(limit("-m", Some("0")).unwrap(), None);
        assert_eq!(share("--loss", "0.1%").unwrap(), 0.001);
        assert!(share("--loss", "100%").is_err());
        let hint = |text: &str| share("--loss", text).unwrap_err().to_string();
        assert!(hint("1").contains("write 1% for one percent"), "{}", hint("1"));
        assert!(hint("2.5").contains("write 2.5% for 2.5 percent"), "{}", hint("2.5"));
        assert!(bytes("--chain", "2kB", 1_000).is_err() && time("--rtt", "2h").is_err());
    }
}
