//! What can be typed after `firstbyte monitor`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{MonitorEventsArgs, MonitorExportArgs};
use crate::cli::typed::{AxisText, UrlText};
use crate::plans::ColorChoice;

const EXAMPLES: &str = "\
Each target is measured in each of its ways to connect, spread over time, until
Ctrl-C or SIGTERM. Samples go into DIR/raw, a run file a day, which report,
compare and explain read. A sample that fails is kept as one, and never
repeated before its time. See docs/monitor.md.

Examples:
  firstbyte monitor --demo
  firstbyte monitor https://example.com/
  firstbyte monitor https://example.com/ --vary tls=1.2,1.3 --vary family=4,6 --every 5min
  firstbyte monitor --config monitor.toml --check-config
  firstbyte monitor --config monitor.toml --store /var/lib/firstbyte
  firstbyte monitor https://example.com/ --listen 127.0.0.1:9115
  firstbyte monitor events --since 7d
  firstbyte report ~/.local/state/firstbyte/raw/2026-11-23.run";

/// Measure targets again and again, for months, and keep every sample
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(in crate::cli) struct MonitorArgs {
    #[command(subcommand)]
    pub command: Option<MonitorCommand>,

    /// What to measure; https:// unless it says otherwise
    #[arg(value_name = "URL", required_unless_present_any = ["config", "demo"], conflicts_with = "config")]
    pub urls: Vec<UrlText>,

    /// Read targets and their settings from a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check FILE, say what would be measured, and every mistake with its line
    #[arg(long, requires = "config")]
    pub check_config: bool,
    /// Watch three edges in a lab on this machine, one of which changes after 20 s
    #[arg(long, conflicts_with_all = ["config", "urls", "every", "max_time", "vary"])]
    pub demo: bool,

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
    /// Answer there: /metrics for Prometheus, /api/v1/ as JSON [default: what FILE
    /// says, else nowhere]; beyond this machine FILE has to name a token_file
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Show no progress
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MonitorCommand {
    Events(MonitorEventsArgs),
    Export(MonitorExportArgs),
}

fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, such as 127.0.0.1:9115 or [::1]:9115")
}
