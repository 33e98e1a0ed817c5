//! Arguments of `firstbyte monitor annotate`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Events within 15 minutes of it name it, unless its tags contradict every series
that they affect. WHEN is a time ago (7d, 12h), a day, a time such as
2026-11-23T12:00:00Z, or seconds since 1970, all in UTC. A monitor may run
meanwhile.

Examples:
  firstbyte monitor annotate 'deploy 4812'
  firstbyte monitor annotate 'deploy 4812' --tag service=shop
  firstbyte monitor annotate 'new certificate' --at 2026-11-23T12:00:00Z";

/// Note in a store what happened, such as a deployment
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorAnnotateArgs {
    /// What happened
    #[arg(value_name = "TEXT")]
    pub text: String,
    /// When it happened [default: now]
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Series that it is about: those with all of these tags; repeatable [default: all]
    #[arg(long, value_name = "NAME=VALUE")]
    pub tag: Vec<String>,
    /// Directory of the monitor's store [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}
