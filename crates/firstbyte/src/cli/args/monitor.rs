//! Arguments of `firstbyte monitor`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    MonitorAnnotateArgs, MonitorDemoArgs, MonitorEventsArgs, MonitorExportArgs, MonitorStatusArgs,
};
use crate::cli::typed::{AxisText, UrlText};
use crate::plans::ColorChoice;

const EXAMPLES: &str = "\
Measures every variant of every target, spread over time, until Ctrl-C or
SIGTERM. Samples go into DIR/raw, one run file a day; report, compare and
explain read them. See docs/monitor.md.

Examples:
  firstbyte monitor demo
  firstbyte monitor https://example.com/
  firstbyte monitor https://example.com/ --vary tls=1.2,1.3 --every 5min
  firstbyte monitor --config monitor.toml --check-config
  firstbyte monitor --config monitor.toml --store /var/lib/firstbyte
  firstbyte monitor https://example.com/ --listen 127.0.0.1:9115
  firstbyte monitor https://example.com/ --json | jq .state
  firstbyte monitor status
  firstbyte monitor events --since 7d
  firstbyte report ~/.local/state/firstbyte/raw/2026-11-23.run";

/// Measure targets for months, keep every sample, report changes
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(in crate::cli) struct MonitorArgs {
    #[command(subcommand)]
    pub command: Option<MonitorCommand>,

    /// URLs to measure; https:// is assumed
    #[arg(value_name = "URL", required_unless_present = "config", conflicts_with = "config")]
    pub urls: Vec<UrlText>,

    /// Read targets and their settings from a TOML file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check FILE: list what would be measured, and every mistake with its line
    #[arg(long, requires = "config")]
    pub check_config: bool,

    /// Time between two samples of a variant of a target [default: 1min]
    #[arg(long, value_name = "TIME", conflicts_with = "config", help_heading = "Sampling")]
    pub every: Option<String>,
    /// Time limit for a sample [default: 30s]
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
    /// Stop after this time [default: never]
    #[arg(long = "for", value_name = "TIME", help_heading = "Sampling")]
    pub length: Option<String>,

    /// Keep samples in DIR [default: as FILE says, else ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub store: Option<PathBuf>,
    /// Serve a status page, /metrics for Prometheus and a JSON API here [default: as FILE says, else
    /// nowhere]; other than on loopback, FILE must name a token_file
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Write each event to stdout as it is told: one JSON object per line
    #[arg(long, conflicts_with = "check_config", help_heading = "Output")]
    pub json: bool,
    /// No progress line
    #[arg(short, long, help_heading = "Output")]
    pub silent: bool,
    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    pub color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum MonitorCommand {
    Demo(MonitorDemoArgs),
    Status(MonitorStatusArgs),
    Events(MonitorEventsArgs),
    Annotate(MonitorAnnotateArgs),
    Export(MonitorExportArgs),
}

pub(super) fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "not an address and a port, such as 127.0.0.1:9115 or [::1]:9115")
}
