//! Arguments of `firstbyte monitor demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::monitor::listen_address;
use crate::plans::ColorChoice;

const EXAMPLES: &str = "\
Runs three servers of one name in a lab on this machine and monitors them until
Ctrl-C. One of them changes after 20 s. Needs no privileges and no network.

Examples:
  firstbyte monitor demo
  firstbyte monitor demo --for 2min --store demo
  firstbyte monitor demo --listen 127.0.0.1:9115";

/// Try it: a lab on this machine has a change and an outage
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorDemoArgs {
    /// Stop after this time [default: never]
    #[arg(long = "for", value_name = "TIME")]
    pub length: Option<String>,
    /// Address of the status page and /metrics [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,
    /// Keep samples in DIR [default: they are deleted at the end]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// No progress line
    #[arg(short, long)]
    pub silent: bool,
    /// When to use colours
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    pub color: ColorChoice,
}
