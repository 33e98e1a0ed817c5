//! What can be typed after `firstbyte monitor events`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
WHEN is a time ago (7d, 12h), a day, a time as 2026-11-23T12:00:00Z, or seconds
since 1970. Times are in UTC. The store can be read while a monitor writes it.

Examples:
  firstbyte monitor events
  firstbyte monitor events --since 7d --target www.example.com
  firstbyte monitor events --since 2026-11-01 --state confirmed
  firstbyte monitor events --store /var/lib/firstbyte --format ndjson";

/// List the changes that a monitor found, the newest last
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorEventsArgs {
    /// Where the monitor keeps samples [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Changes from then on [default: 30 days before the end]
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Changes before then [default: now]
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Changes in these states [default: provisional,confirmed]
    #[arg(long, value_enum, value_name = "STATE,STATE", value_delimiter = ',')]
    pub state: Vec<StateChoice>,
    /// Changes of this target, by its name. Can be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// How they are written
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub format: FormChoice,
}

/// A state of events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum StateChoice {
    /// May be withdrawn
    Provisional,
    /// Held
    Confirmed,
    /// Went away, or was something else
    Withdrawn,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum FormChoice {
    /// Sentences
    #[default]
    Text,
    /// One object
    Json,
    /// An event a line
    Ndjson,
}
