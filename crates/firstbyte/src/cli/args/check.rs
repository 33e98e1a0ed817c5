//! What can be typed after `firstbyte check`.

use std::path::PathBuf;

use clap::Args;

use super::at_least_one;
use crate::plans::Destination;

#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(in crate::cli) struct CheckArgs {
    /// What to measure: a plan, as for `compare`
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    pub plan: Option<PathBuf>,
    /// Rounds that count [default: the plan's]
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one,
          allow_negative_numbers = true, conflicts_with = "from")]
    pub samples: Option<u32>,
    /// Hold this run against the conditions instead of measuring
    #[arg(long, value_name = "RUN", conflicts_with = "plan")]
    pub from: Option<PathBuf>,
    /// The run that growth is counted from
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Fail when any way to connect meets this, or one of those named before its colon
    #[arg(long, value_name = "CONDITION", required = true)]
    pub fail_if: Vec<String>,
    /// Where the summary goes, in Markdown [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub summary: Option<Destination>,
    /// File that every sample is written to [default: firstbyte-DATE-TIME.run]
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub run: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long)]
    pub silent: bool,
}

const CHECK_HELP: &str = "\
A condition is met when the whole 95 % interval lies beyond its limit; the exit
code is then 101. When the interval holds the limit, or there are too few
samples for one (p95 takes 200, p99 1,000), nothing is decided, and it is 102.

Unless the plan says otherwise, connection and handshakes may take 300 s, and a
sample 30 s.

Conditions:
  ttfb.p95 > 300ms                the value itself
  tls.median +5%                  its growth since the baseline
  family=6 tls=1.3: total +20ms   of some ways to connect only
Values: resolve, connect, tls, quic, setup, send, wait, receive, ttfb, total;
  of each: median (when none is named), p50, p75, p90, p95, p99

Examples:
  firstbyte compare --plan site.toml --run baseline.run
  firstbyte check --plan site.toml --baseline baseline.run \\
                  --fail-if 'tls.median +5%'
  firstbyte check --plan site.toml --fail-if 'ttfb.p95 > 300ms' --summary out.md
  firstbyte check --from tuesday.run --baseline monday.run --fail-if 'tls +5%'";
