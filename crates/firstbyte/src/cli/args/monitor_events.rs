//! Arguments of `firstbyte monitor events`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
WHEN is a time ago (7d, 12h), a day, a time such as 2026-11-23T12:00:00Z, or
seconds since 1970, all in UTC. A running monitor can be read.

Examples:
  firstbyte monitor events
  firstbyte monitor events --since 7d --target www.example.com
  firstbyte monitor events --since 2026-11-01 --state confirmed
  firstbyte monitor events --store /var/lib/firstbyte --format ndjson";

/// List the changes and outages that a monitor found, the newest last
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorEventsArgs {
    /// Directory of the monitor's store [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Start of the period [default: 30 days before the end]
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// End of the period [default: now]
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Events in these states [default: all but withdrawn]
    #[arg(long, value_enum, value_name = "STATE,STATE", value_delimiter = ',')]
    pub state: Vec<StateChoice>,
    /// Only events of this target; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Output format
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub format: FormChoice,
}

/// A state of events.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum StateChoice {
    /// Change: seen, may be withdrawn
    Provisional,
    /// Change: lasted
    Confirmed,
    /// Change: disappeared, or had another cause
    Withdrawn,
    /// Outage: not over
    Began,
    /// Outage: over
    Ended,
    /// Outage: began again soon after its end
    Flapping,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum FormChoice {
    /// Sentences
    #[default]
    Text,
    /// One object
    Json,
    /// One object per line
    Ndjson,
}
