//! Arguments of `firstbyte monitor export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Writes one row for each series, period and metric to standard output: samples,
failures by type, median, p90, p95, p99, facts. WHEN is a time ago (7d, 12h), a
day, a time such as 2026-11-23T12:00:00Z, or seconds since 1970, all in UTC. A
running monitor can be read. Columns: docs/formats.md.

Examples:
  firstbyte monitor export --step hour --since 7d > hours.csv
  firstbyte monitor export --step day --since 2026-01-01 --metric total
  firstbyte monitor export --step minute --since 1h --format ndjson";

/// Write statistics by minute, hour or day as CSV or NDJSON
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorExportArgs {
    /// Directory of the monitor's store [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Length of a period
    #[arg(long, value_enum, value_name = "STEP")]
    pub step: StepChoice,
    /// Start of the time range [default: 30 days before the end]
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// End of the time range [default: now]
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Only this target; repeatable [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Only this metric, such as total, ttfb, part.server or rtt; repeatable [default: all]
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// Output format
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    pub format: RowForm,
}

/// A step of rollups.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum StepChoice {
    Minute,
    Hour,
    /// In UTC
    Day,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(in crate::cli) enum RowForm {
    /// Times in microseconds
    #[default]
    Csv,
    /// One object per line, times in nanoseconds
    Ndjson,
}
