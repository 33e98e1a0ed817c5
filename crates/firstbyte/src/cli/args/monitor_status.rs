//! Arguments of `firstbyte monitor status`.

use std::path::PathBuf;

use clap::Args;

use crate::plans::Destination;

const EXAMPLES: &str = "\
Shares of failures are by time. A running monitor can be read; what it measured
in the last seconds is not in the store yet.

Examples:
  firstbyte monitor status
  firstbyte monitor status --store /var/lib/firstbyte
  firstbyte monitor status --json | jq .outages";

/// Show what a store has, how each series stands, and whether a monitor runs
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorStatusArgs {
    /// Directory of the monitor's store [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// All series as one JSON object, to stdout or FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = Destination::STREAM)]
    pub json: Option<Destination>,
}
