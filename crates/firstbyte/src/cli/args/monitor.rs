//! What can be typed after `firstbyte monitor`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::typed::{AxisText, UrlText};
use crate::plans::ColorChoice;

const EXAMPLES: &str = "\
Each target is measured in each of its ways to connect, spread over time, until
Ctrl-C or SIGTERM. Samples go into DIR/raw, a run file a day, which report,
compare and explain read. A sample that fails is kept as one, and never
repeated before its time. See docs/monitor.md.

Examples:
  firstbyte monitor https://example.com/
  firstbyte monitor https://example.com/ --vary tls=1.2,1.3 --vary family=4,6 --every 5min
  firstbyte monitor --config monitor.toml --check-config
  firstbyte monitor --config monitor.toml --store /var/lib/firstbyte
  firstbyte report ~/.local/state/firstbyte/raw/2026-11-23.run";

/// Measure targets again and again, for months, and keep every sample
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorArgs {
    /// What to measure; https:// unless it says otherwise
    #[arg(value_name = "URL", required_unless_present = "config", conflicts_with = "config")]
    pub urls: Vec<UrlText>,

    /// Read targets and their settings from a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check FILE, say what would be measured, and every mistake with its line
    #[arg(long, requires = "config")]
    pub check_config: bool,

    /// Time from one sample of a target and way to the next [default: 1min]
    #[arg(long, value_name = "TIME", conflicts_with = "config", help_heading = "Sampling")]
    pub every: Option<String>,
    /// Most time for a sample [default: 30s]
    #[arg(
        short = 'm',
        long,
        value_name = "TIME",
        conflicts_with = "config",
        help_heading = "Sampling"
    )]
    pub max_time: Option<String>,
    /// Measure each value of an axis, as in compare
    #[arg(
        long,
        value_name = "AXIS=VALUE,VALUE",
        conflicts_with = "config",
        help_heading = "Sampling"
    )]
    pub vary: Vec<AxisText>,
    /// End after this time, as Ctrl-C does [default: never]
    #[arg(long = "for", value_name = "TIME", help_heading = "Sampling")]
    pub length: Option<String>,

    /// Keep samples in DIR [default: what FILE says, else ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub store: Option<PathBuf>,
    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub color: ColorChoice,
}
