//! Arguments of `firstbyte check`.

use std::path::PathBuf;

use clap::Args;

use super::at_least_one;
use crate::plans::Destination;

#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub(in crate::cli) struct CheckArgs {
    /// Plan of the experiment, as for `compare`
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    pub plan: Option<PathBuf>,
    /// Rounds [default: as the plan says]
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one,
          allow_negative_numbers = true, conflicts_with = "from")]
    pub samples: Option<u32>,
    /// Check this run instead of measuring
    #[arg(long, value_name = "RUN", conflicts_with = "plan")]
    pub from: Option<PathBuf>,
    /// Run to compare with, for conditions such as 'tls +5%'
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Fail if any variant meets this condition; repeatable
    #[arg(long, value_name = "CONDITION", required = true)]
    pub fail_if: Vec<String>,
    /// File for the summary in Markdown [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub summary: Option<Destination>,
    /// Run file that keeps every sample [default: firstbyte-DATE-TIME.run]
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub run: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long)]
    pub silent: bool,
}

const CHECK_HELP: &str = "\
Exit code 101: a condition is met, because its whole 95 % interval lies beyond
the limit. Exit code 102: undecided, because the interval contains the limit or
there are too few samples (p95 needs 200, p99 needs 1,000).

Conditions:
  ttfb.p95 > 300ms                the value itself; < works too
  tls.median +5%                  its growth since the baseline
  family=6 tls=1.3: total +20ms   only for some variants
Values: resolve, connect, tls, quic, setup, send, wait, receive, ttfb, total;
Percentiles: median (the default), p50, p75, p90, p95, p99

Examples:
  firstbyte compare --plan site.toml --run baseline.run
  firstbyte check --plan site.toml --baseline baseline.run \\
                  --fail-if 'tls.median +5%'
  firstbyte check --plan site.toml --fail-if 'ttfb.p95 > 300ms' --summary out.md
  firstbyte check --from tuesday.run --baseline monday.run --fail-if 'tls +5%'";
