//! A comparison as its views need it: what the pictures, the page and the terminal tables read.
//!
//! Input: cells and rows of a run, the median sample of each cell, and what statistics made of the
//! rows. Nothing here computes statistics: estimates, intervals and verdicts come from the caller.
//! `Digest` reduces the rows, however many there are, to what a picture can show.

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

/// A comparison, whole.
#[derive(Clone, Debug, Default)]
pub struct Study<'a> {
    /// What is compared, in one line.
    pub title: &'a str,
    /// When it was measured, as text.
    pub date: &'a str,
    /// Where else to look, of a page that is one of several: what it is called, and its address.
    pub links: &'a [(String, String)],
    /// The command line that repeats it.
    pub command: &'a str,
    /// What it was measured on and with: names and values.
    pub environment: &'a [(String, String)],
    /// The ways to connect.
    pub cells: &'a [Cell],
    /// Every sample, in any order.
    pub rows: &'a [Row],
    /// For each cell the sample in the middle by total time, where one counts.
    pub medians: &'a [Option<AttributedConnection>],
    /// What was found, in words, the most important first.
    pub sentences: Vec<Sentence>,
    /// Each cell's quantiles.
    pub summaries: Vec<SummaryView>,
    /// Each variant's difference from its base.
    pub effects: Vec<EffectView>,
    /// Comparisons that there are none of, in words.
    pub missing: Vec<String>,
    /// Why samples failed.
    pub failures: Vec<FailureView>,
    /// How what clients say stands beside a capture; nothing without one.
    pub examined: Option<&'a Examined>,
    /// What browsers' network panels show, of ways that have one.
    pub panels: &'a [PanelView],
    /// What visits take of the client's processor, of ways of which that is known.
    pub processors: &'a [ProcessorView],
    /// Differences percentile by percentile, where they were asked for.
    pub percentiles: &'a [PercentileEffects],
    /// Published figures next to measured ones, for the lab's studies.
    pub story: Option<&'a StudyStory>,
}

/// What clients say, held against a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examined {
    /// Of every way to connect, by its name.
    pub ways: Vec<(String, WayExamined)>,
    /// Of every client, all its ways taken together.
    pub clients: Vec<(String, WayExamined)>,
}

/// What an effect allows to be said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The variant takes less time.
    Faster,
    /// The variant takes more time.
    Slower,
    /// They differ by less than matters.
    Same,
    /// Their answers differ, so their times are not compared.
    Unlike,
    /// The interval holds zero, or there is none.
    #[default]
    Open,
}

impl Verdict {
    /// What it is called in a table.
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

    /// Its symbol: told apart by shape, not by colour alone.
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
    /// What it says.
    pub verdict: Verdict,
}

/// A value with the interval that covers it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value, nanoseconds.
    pub value: f64,
    /// Its interval, where there were enough rounds for one.
    pub interval: Option<Interval>,
}

/// Quantiles of one metric in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryView {
    /// Index of the cell.
    pub cell: usize,
    /// Of what.
    pub metric: Metric,
    /// Samples that count.
    pub samples: usize,
    /// Quantile (0.5 is the median) and its value, ascending.
    pub quantiles: Vec<(f64, Estimate)>,
    /// Values far from the median: flagged, and part of every figure.
    pub outliers: usize,
    /// How alike neighbouring rounds are (lag 1).
    pub autocorrelation: Option<f64>,
    /// Whether that is more than chance gives, and enough to matter.
    pub notable: bool,
}

/// The difference between two cells in one metric, paired by round.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectView {
    /// What the two are compared for.
    pub role: Role,
    /// Index of the cell that is compared against.
    pub base: usize,
    /// Index of the cell that is compared.
    pub variant: usize,
    /// In what.
    pub metric: Metric,
    /// Rounds in which both count.
    pub pairs: usize,
    /// Rounds in which only one does; they are in no figure of the two.
    pub unpaired: usize,
    /// Median of the paired differences, variant minus base.
    pub difference: Estimate,
    /// The same as a share of the base's median; −0.5 is "half as long".
    pub relative: Option<f64>,
    /// Hodges and Lehmann's estimate of the difference, nanoseconds.
    pub hodges_lehmann: f64,
    /// The p-value of the difference, and the same adjusted for all comparisons of its kind.
    pub p_values: Option<[f64; 2]>,
    /// Quantile and the difference of both cells' quantiles, ascending: those with an interval.
    pub quantiles: Vec<(f64, Estimate)>,
    /// What it allows to be said.
    pub verdict: Verdict,
}

/// Samples of one cell that failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureView {
    /// Index of the cell.
    pub cell: usize,
    /// What happened.
    pub cause: String,
    /// How often.
    pub count: u64,
}

impl Study<'_> {
    /// Heading of the counts, and the word for samples that count. A table of timers proves nothing about the wire.
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

/// "p99", "p99.9"; the median by its name.
pub(crate) fn quantile_name(q: f64) -> String {
    if (q - 0.5).abs() < 1e-9 {
        return "median".into();
    }
    format!("p{}", crate::chart::round(q * 100.0, 2))
}
