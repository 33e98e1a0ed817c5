//! Daily averages, as exported by analytics products, and when they changed.
//!
//! Input: the bytes of an export. Output: days with their averages and sample counts, and changes of level found by
//! [`stats::find_changes`](firstbyte_core::stats::find_changes). Products' column names are in `columns`; the formats
//! are in `docs/formats.md`, the statistics in `docs/statistics.md`.

mod calendar;
mod columns;
mod fields;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;

pub use calendar::{date_of_day, day_number};
pub use columns::{AveragedTime, AveragesProduct};

use firstbyte_core::stats::{ChangeForm, ChangeSettings, SeriesChanges, SeriesPoint, find_changes};

/// A file with more days than this is not an export of daily averages.
pub const MOST_DAYS: usize = 4_000;

/// Days, each with an average.
#[derive(Clone, Debug, PartialEq)]
pub struct DailyAverages {
    /// The product that uses these column names.
    pub product: AveragesProduct,
    /// The time that is averaged.
    pub time: AveragedTime,
    /// Name of its column.
    pub header: String,
    /// Whether the file names the unit; otherwise milliseconds are assumed.
    pub unit_was_said: bool,
    /// In chronological order, without duplicates, at least one.
    pub days: Vec<DayAverage>,
    /// Lines with a date but no average.
    pub without_average: u64,
    /// Lines of totals, which were skipped.
    pub passed_over: u64,
}

/// The average of a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DayAverage {
    /// Days since 1 January 1970.
    pub day: i64,
    /// Line number in the file.
    pub line: usize,
    /// The average, nanoseconds.
    pub average_ns: f64,
    /// Number of samples in the average.
    pub samples: Option<u64>,
    /// Page views of the day, timed or not.
    pub page_views: Option<u64>,
}

/// An error in an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AveragesError {
    /// The line, from 1.
    pub line: usize,
    /// The field, from 1.
    pub column: usize,
    /// What is wrong there.
    pub detail: String,
}

impl AveragesError {
    fn at(line: usize, column: usize, detail: impl Into<String>) -> Self {
        Self { line, column, detail: detail.into() }
    }
}

impl fmt::Display for AveragesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.detail)
    }
}

impl std::error::Error for AveragesError {}

impl DailyAverages {
    /// First and last day.
    pub fn span(&self) -> [i64; 2] {
        [self.days.first(), self.days.last()].map(|day| day.map_or(0, |day| day.day))
    }

    /// Days without an average between the first and the last.
    pub fn missing_days(&self) -> u64 {
        let [first, last] = self.span();
        u64::try_from(last - first + 1).unwrap_or(0).saturating_sub(self.days.len() as u64)
    }

    /// Total over all days, if every day has a number of samples.
    pub fn samples(&self) -> Option<u64> {
        self.days.iter().map(|day| day.samples).sum()
    }

    /// Total over all days, if every day has page views.
    pub fn page_views(&self) -> Option<u64> {
        self.days.iter().map(|day| day.page_views).sum()
    }

    /// Precision of the averages, nanoseconds: the largest power of ten that all of them are multiples of.
    pub fn step_ns(&self) -> f64 {
        let mut step = 1e9;
        while step > 1.0 {
            let whole = |day: &DayAverage| {
                let steps = day.average_ns / step;
                (steps - steps.round()).abs() < 1e-6 * steps.max(1.0)
            };
            if self.days.iter().all(whole) {
                return step;
            }
            step /= 10.0;
        }
        1.0
    }

    /// When the averages changed. Days are weighted by samples, or else by page views.
    ///
    /// `None` with too few days ([`firstbyte_core::stats::FEWEST_SLOTS`]), or if all averages are equal.
    pub fn changes(&self) -> Option<SeriesChanges> {
        let samples = self.samples().is_some();
        let points: Vec<SeriesPoint> = self
            .days
            .iter()
            .map(|day| SeriesPoint {
                slot: day.day,
                value: day.average_ns,
                samples: if samples { day.samples } else { day.page_views }.map(|n| n as f64),
            })
            .collect();
        find_changes(&points, &ChangeSettings::DAILY)
    }

    /// Ratio of the median daily page views (or samples, if page views are unknown) after and before the change of
    /// `form`, over up to four weeks on either side.
    ///
    /// `None` if neither is known, or if a side has less than a week.
    pub fn visits_ratio(&self, form: ChangeForm) -> Option<f64> {
        const DAYS: i64 = 28;
        let side = |from: i64, until: i64| {
            let days = self.days.iter().filter(|day| (from..until).contains(&day.day));
            let counts: Option<Vec<f64>> =
                days.map(|day| day.page_views.or(day.samples).map(|n| n as f64)).collect();
            let counts = counts.filter(|counts| counts.len() >= 7)?;
            firstbyte_core::stats::median(&counts)
        };
        let before = side(form.begins() - DAYS, form.begins())?;
        let after = side(form.ends(), form.ends() + DAYS)?;
        (before > 0.0).then_some(after / before)
    }
}
