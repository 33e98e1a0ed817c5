//! What can be typed after `firstbyte monitor export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
A row for each series, period and metric goes to standard output: samples,
failures by type, median, p90, p95, p99, facts. WHEN is a time ago (7d, 12h), a
day, a time as 2026-11-23T12:00:00Z, or seconds since 1970. The store can be
read while a monitor writes it. Columns: docs/formats.md.

Examples:
  firstbyte monitor export --step hour --since 7d > hours.csv
  firstbyte monitor export --step day --since 2026-01-01 --metric total
  firstbyte monitor export --step minute --since 1h --format ndjson";

/// Write what samples came to by minute, hour or day
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct MonitorExportArgs {
    /// Where the monitor keeps samples [default: ~/.local/state/firstbyte]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Periods that samples are summed up over
    #[arg(long, value_enum, value_name = "STEP")]
    pub step: StepChoice,
    /// Periods that begin from then on [default: 30 days before the end]
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Periods that begin before then [default: now]
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Of this target, by its name. Can be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// This metric, such as total, ttfb, part.server or rtt. Can be given several times [default: all]
    #[arg(long, value_name = "METRIC")]
    pub metric: Vec<String>,
    /// How rows are written
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
    /// An object a line, times in nanoseconds
    Ndjson,
}
