//! Logging for users who investigate a problem: `FIRSTBYTE_LOG` logs each action on standard error as it happens.
//!
//! Events are emitted when something has ended, never between two marks of a measurement. Without the variable, each
//! event costs one integer comparison. Events contain no secrets: URLs are shown as everywhere else, and events of
//! other crates are left out, as they may contain request fields.

use std::io::{self, IsTerminal};

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

use super::exit::{self, Problem};

const VARIABLE: &str = "FIRSTBYTE_LOG";
/// Modules that emit events: the name users write, and the module path.
const MODULES: [(&str, &str); 5] = [
    ("capture", "firstbyte_capture"),
    ("experiment", "firstbyte_probe::experiment"),
    ("net", "firstbyte_probe::net"),
    ("probe", "firstbyte_probe::probe"),
    ("runs", "firstbyte::runs"),
];
/// Common prefix of the module paths of all our crates.
const OURS: &str = "firstbyte";

/// Starts logging if the environment asks for it.
pub(super) fn begin() -> Result<(), Problem> {
    let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let text = text.to_string_lossy();
    let targets = targets(&text).map_err(|word| {
        Problem::new(exit::USAGE, format!("{VARIABLE}={text}: {word:?} is not a level")).hint(
            format!(
                "write error, warn, info, debug or trace, or MODULE=LEVEL for one of {}; several \
             separated by commas",
                MODULES.map(|(name, _)| name).join(", ")
            ),
        )
    })?;
    let layer = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_timer(fmt::time::uptime());
    // If a subscriber is already set, as in a test, keep it.
    let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
    Ok(())
}

/// Parses `debug`, `probe=trace` or `info,runs=debug`; the error is the first word that is invalid.
fn targets(text: &str) -> Result<Targets, String> {
    let mut targets = Targets::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (target, level) = match word.split_once('=') {
            Some((module, level)) => {
                let found = MODULES.iter().find(|(name, _)| *name == module);
                (found.ok_or_else(|| word.to_owned())?.1, level)
            }
            None => (OURS, word),
        };
        let level: Level = level.parse().map_err(|_| word.to_owned())?;
        targets = targets.with_target(target, level);
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_of_all_or_of_a_module_and_never_of_other_crates() {
        let is_on = |text: &str, target: &str, level: Level| {
            targets(text).unwrap().would_enable(target, &level)
        };
        assert!(is_on("debug", "firstbyte_probe::probe::resolve", Level::DEBUG));
        assert!(!is_on("debug", "firstbyte_probe::probe::resolve", Level::TRACE));
        assert!(!is_on("trace", "h2::codec", Level::ERROR));
        assert!(is_on("info, probe=trace", "firstbyte_probe::probe::resolve", Level::TRACE));
        assert!(!is_on("info,probe=trace", "firstbyte::runs", Level::DEBUG));
        for bad in ["loud", "h2=trace", "probe=", "debug,x"] {
            assert!(targets(bad).is_err(), "{bad}");
        }
    }
}
