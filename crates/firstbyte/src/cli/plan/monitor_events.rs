//! Turns the arguments of `monitor events` into a plan.

use firstbyte_core::units::{BareTime, parse_time};
use firstbyte_monitor::event_state::EventState;

use super::usage;
use crate::cli::args::{FormChoice, MonitorEventsArgs, StateChoice};
use crate::cli::exit::Problem;
use crate::monitor_server;
use crate::plans::{EventsForm, Moment, MonitorEventsPlan};

/// 1973-03-03, the first time of nine digits: seconds since 1970.
const EARLIEST: i64 = 100_000_000;

pub(super) fn events(args: &MonitorEventsArgs) -> Result<MonitorEventsPlan, Problem> {
    Ok(MonitorEventsPlan {
        store: args.store.clone(),
        since: moment("--since", args.since.as_deref())?,
        until: moment("--until", args.until.as_deref())?,
        states: args.state.iter().map(|state| state_of(*state)).collect(),
        targets: args.target.clone(),
        form: match args.format {
            FormChoice::Text => EventsForm::Text,
            FormChoice::Json => EventsForm::Json,
            FormChoice::Ndjson => EventsForm::Ndjson,
        },
    })
}

const fn state_of(choice: StateChoice) -> EventState {
    match choice {
        StateChoice::Provisional => EventState::Provisional,
        StateChoice::Confirmed => EventState::Confirmed,
        StateChoice::Withdrawn => EventState::Withdrawn,
        StateChoice::Began => EventState::Began,
        StateChoice::Ended => EventState::Ended,
        StateChoice::Flapping => EventState::Flapping,
    }
}

/// Parses a duration ago, a day, a time, or seconds since 1970.
pub(super) fn moment(flag: &str, text: Option<&str>) -> Result<Option<Moment>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let at = monitor_server::moment(text);
    let at = at.or_else(|| monitor_server::moment(&format!("{text}T00:00:00Z")));
    let ago = || {
        let time = parse_time(text, BareTime::Refused).ok()?;
        i64::try_from(time.as_secs()).ok().map(Moment::SecondsAgo)
    };
    // `7` lacks its unit: nobody means the first weeks of 1970.
    let at = at.filter(|at| *at >= EARLIEST);
    at.map(Moment::At).or_else(ago).map(Some).ok_or_else(|| {
        usage(format!("{flag} {text:?} is not a time"))
            .hint(format!("write {flag} 7d, {flag} 2026-11-23 or {flag} 2026-11-23T12:00:00Z"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_days_times_seconds_or_ago() {
        let read = |text: &str| moment("--since", Some(text)).unwrap();
        assert_eq!(read("2026-11-23"), Some(Moment::At(1_795_392_000)));
        assert_eq!(read("2026-11-23T01:00:00+01:00"), Some(Moment::At(1_795_392_000)));
        assert_eq!(read("1795392000"), Some(Moment::At(1_795_392_000)));
        assert_eq!(read("1.5h"), Some(Moment::SecondsAgo(5_400)));
        assert_eq!(moment("--since", None).unwrap(), None);
        for bad in ["", "yesterday", "2026-13-01", "-1", "7", "99999999", "7 fortnights"] {
            let problem = moment("--since", Some(bad)).unwrap_err().to_string();
            assert!(
                problem.contains("--since") && problem.contains("write --since 7d"),
                "{problem}"
            );
        }
    }
}
