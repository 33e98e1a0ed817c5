//! A comparison in the form that its views need: the pictures, the page and the terminal tables.
//!
//! Input: cells and rows of a run, the median sample of each cell, and the rows' statistics. Nothing here computes
//! statistics: the caller provides estimates, intervals and verdicts. `Digest` reduces any number of rows to what a
//! picture can show.

mod compared;
mod digest;
mod examined;
#[cfg(test)]
pub(crate) mod fixtures;
mod grouping;
mod panels;
mod processors;
mod story;

use firstbyte_core::compare::{PercentileEffects, Role};
use firstbyte_core::cross_examination::WayExamined;
use firstbyte_core::run::{Cell, FILE_AXIS, Metric, Row};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::stats::Interval;

pub(crate) use digest::{Column, Digest, PHASES, SPREADS, STEPS, Series, percentiles};
pub(crate) use examined::{TestimonyFigures, figures as examined_figures, held};
pub(crate) use grouping::{Group, Grouping, pair_names};
pub(crate) use panels::panel_time;
pub use panels::{PanelTimes, PanelView};
pub use processors::{ProcessorTimes, ProcessorView};
pub(crate) use story::BarGroup;
pub use story::{
    FigureUnit, MeasuredFigure, PublishedFigure, StoryFigure, StorySentence, StudyStory,
    figures_of_sentence,
};

/// A complete comparison.
#[derive(Clone, Debug, Default)]
pub struct Study<'a> {
    /// One-line title.
    pub title: &'a str,
    /// Date of the measurement, as text.
    pub date: &'a str,
    /// Links to related pages, if the page is one of several: label and address.
    pub links: &'a [(String, String)],
    /// The command line that repeats it.
    pub command: &'a str,
    /// Measurement environment: names and values.
    pub environment: &'a [(String, String)],
    /// The ways to connect.
    pub cells: &'a [Cell],
    /// Every sample, in any order.
    pub rows: &'a [Row],
    /// For each cell the sample with the median total time, if any sample counts.
    pub medians: &'a [Option<AttributedConnection>],
    /// Findings in words, the most important first.
    pub sentences: Vec<Sentence>,
    /// Each cell's quantiles.
    pub summaries: Vec<SummaryView>,
    /// Each variant's difference from its base.
    pub effects: Vec<EffectView>,
    /// Descriptions of comparisons without data.
    pub missing: Vec<String>,
    /// Reasons why samples failed.
    pub failures: Vec<FailureView>,
    /// Clients' reports compared with a capture; absent without one.
    pub examined: Option<&'a Examined>,
    /// Times from browsers' network panels, for ways that have them.
    pub panels: &'a [PanelView],
    /// Client processor time per visit, for ways where it is known.
    pub processors: &'a [ProcessorView],
    /// Differences by percentile, if requested.
    pub percentiles: &'a [PercentileEffects],
    /// Published figures beside measured ones, for the lab's studies.
    pub story: Option<&'a StudyStory>,
}

/// Clients' reports compared with a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examined {
    /// Results for every way to connect, by name.
    pub ways: Vec<(String, WayExamined)>,
    /// Results for every client, over all its ways.
    pub clients: Vec<(String, WayExamined)>,
}

/// The conclusion that an effect permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The variant takes less time.
    Faster,
    /// The variant takes more time.
    Slower,
    /// The difference is too small to matter.
    Same,
    /// Their answers differ, so their times are not compared.
    Unlike,
    /// The interval contains zero, or there is no interval.
    #[default]
    Open,
}

impl Verdict {
    /// Its name in a table.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "no difference",
            Self::Unlike => "no verdict",
            Self::Open => "undecided",
        }
    }

    /// Its class in a style sheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Unlike | Self::Open => "open",
        }
    }

    /// Its symbol, distinguishable by shape as well as by colour.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Faster => "▼",
            Self::Slower => "▲",
            Self::Same => "=",
            Self::Unlike => "≠",
            Self::Open => "○",
        }
    }

    pub(crate) const fn ascii(self) -> &'static str {
        match self {
            Self::Faster => "v",
            Self::Slower => "^",
            Self::Same => "=",
            Self::Unlike => "!",
            Self::Open => "o",
        }
    }
}

/// A finding in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The sentence.
    pub text: String,
    /// Its verdict.
    pub verdict: Verdict,
}

/// A value with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value, nanoseconds.
    pub value: f64,
    /// Its interval, if there were enough rounds.
    pub interval: Option<Interval>,
}

/// Quantiles of one metric in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryView {
    /// Index of the cell.
    pub cell: usize,
    /// The metric.
    pub metric: Metric,
    /// Number of samples that count.
    pub samples: usize,
    /// Quantiles (0.5 is the median) and their values, ascending.
    pub quantiles: Vec<(f64, Estimate)>,
    /// Number of values far from the median; they are flagged, but included in every figure.
    pub outliers: usize,
    /// Autocorrelation of neighbouring rounds (lag 1).
    pub autocorrelation: Option<f64>,
    /// Whether the autocorrelation is significant and large enough to matter.
    pub notable: bool,
}

/// The difference between two cells in one metric, paired by round.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectView {
    /// The purpose of the comparison.
    pub role: Role,
    /// Index of the base's cell.
    pub base: usize,
    /// Index of the variant's cell.
    pub variant: usize,
    /// The metric.
    pub metric: Metric,
    /// Number of rounds in which both count.
    pub pairs: usize,
    /// Number of rounds in which only one counts; they are excluded from the comparison.
    pub unpaired: usize,
    /// Median of the paired differences, variant minus base.
    pub difference: Estimate,
    /// The same as a share of the base's median; −0.5 is "half as long".
    pub relative: Option<f64>,
    /// Hodges and Lehmann's estimate of the difference, nanoseconds.
    pub hodges_lehmann: f64,
    /// The p-value of the difference, and the same adjusted for all comparisons of its kind.
    pub p_values: Option<[f64; 2]>,
    /// Quantiles and their differences between the cells, ascending; only those with an interval.
    pub quantiles: Vec<(f64, Estimate)>,
    /// The verdict.
    pub verdict: Verdict,
}

/// Samples of one cell that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureView {
    /// Index of the cell.
    pub cell: usize,
    /// The cause.
    pub cause: String,
    /// Number of occurrences.
    pub count: u64,
}

impl Study<'_> {
    /// Heading of the counts, and the word for samples that count. Tables of browsers' timers prove nothing about
    /// the wire.
    pub(crate) fn proof_words(&self) -> (&'static str, &'static str) {
        let has_table =
            self.cells.iter().flat_map(|cell| &cell.factors).any(|f| f.axis == FILE_AXIS);
        match has_table {
            true => ("Samples that count", "counted"),
            false => ("Samples verified on the wire", "verified"),
        }
    }

    pub(crate) fn summary(&self, cell: usize, metric: Metric) -> Option<&SummaryView> {
        self.summaries.iter().find(|s| s.cell == cell && s.metric == metric)
    }
}

impl SummaryView {
    pub(crate) fn quantile(&self, wanted: f64) -> Option<Estimate> {
        self.quantiles.iter().find(|(q, _)| (q - wanted).abs() < 1e-9).map(|(_, e)| *e)
    }
}

/// "p99", "p99.9"; the median has its own name.
pub(crate) fn quantile_name(q: f64) -> String {
    if (q - 0.5).abs() < 1e-9 {
        return "median".into();
    }
    format!("p{}", crate::chart::round(q * 100.0, 2))
}
