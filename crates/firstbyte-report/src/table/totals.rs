//! The total times of one URL: mean and standard deviation, percentiles, a histogram, outliers.
//!
//! Mean, deviation, minimum and maximum cover all samples. The rest covers the values that a [`Column`] keeps.
//! Definitions: `docs/statistics.md`, "One URL".

use std::time::Duration;

use firstbyte_core::stats::quantile;

use super::pooled::Column;
use crate::style::{Ink, Style, wrap};
use crate::units::{Scale, count, grouped};

/// Minimum number of samples for a summary.
const ENOUGH_FOR_SUMMARY: u64 = 10;
/// With this many values, one is expected beyond the 95th percentile.
const ENOUGH_FOR_P95: u64 = 20;
/// Lines of a histogram, including those of outliers.
const HISTOGRAM_LINES: usize = 8;
const WIDEST_BAR: usize = 40;
/// Distance of an outlier from the quartile, in interquartile ranges (Tukey, *Exploratory Data Analysis*, 1977).
const OUTLIER_RANGES: f64 = 1.5;

/// Mean, deviation and extremes, updated with each sample (Welford 1962).
#[derive(Clone, Debug)]
pub(super) struct TotalMoments {
    count: u64,
    mean_ns: f64,
    /// Sum of squared deviations from the mean.
    squares_ns2: f64,
    min: Duration,
    max: Duration,
}

impl TotalMoments {
    pub(super) const fn new() -> Self {
        Self { count: 0, mean_ns: 0.0, squares_ns2: 0.0, min: Duration::MAX, max: Duration::ZERO }
    }

    pub(super) fn take(&mut self, total: Duration) {
        let ns = total.as_nanos() as f64;
        let deviation = ns - self.mean_ns;
        self.count += 1;
        self.mean_ns += deviation / self.count as f64;
        self.squares_ns2 += deviation * (ns - self.mean_ns);
        self.min = self.min.min(total);
        self.max = self.max.max(total);
    }

    /// Maximum; zero without samples.
    pub(super) const fn max(&self) -> Duration {
        self.max
    }

    /// Sample standard deviation: divided by n − 1.
    fn standard_deviation_ns(&self) -> f64 {
        (self.squares_ns2 / self.count.saturating_sub(1).max(1) as f64).sqrt()
    }
}

/// The lines below the table, in the unit and decimals of `scale`; empty for few samples.
pub(super) fn render_total_summary(
    moments: &TotalMoments,
    totals: &Column,
    scale: Scale,
    style: &Style,
) -> Vec<String> {
    if moments.count < ENOUGH_FOR_SUMMARY {
        return Vec::new();
    }
    let time = |ns: f64| scale.time(duration_from_ns(ns), style);
    let sigma = style.glyph("± σ", "+- sigma");
    let deviation = time(moments.standard_deviation_ns());
    let cells = [
        format!("mean {} {sigma} {deviation}", time(moments.mean_ns)),
        format!("min {}", scale.time(moments.min, style)),
        format!("max {}", scale.time(moments.max, style)),
    ];
    let mut lines = lay_out_cells("total", &cells, style.columns());
    lines.iter_mut().for_each(|line| *line = style.paint(Ink::Strong, line));

    let sorted = totals.sorted();
    let percentile =
        |name: &str, q| format!("{name} {}", time(quantile(&sorted, q).unwrap_or_default()));
    let mut percentiles = vec![percentile("p75", 0.75)];
    if moments.count >= ENOUGH_FOR_P95 {
        percentiles.push(percentile("p95", 0.95));
    }
    lines.extend(lay_out_cells("", &percentiles, style.columns()));

    if moments.min < moments.max {
        let fenced = FencedTotals::from_sorted(&sorted);
        let bins = fenced.bins();
        let scale = scale_for_bins(scale, &bins);
        lines.push(String::new());
        lines.extend(fenced.histogram(&bins, scale, style));
        lines.extend(fenced.outliers(totals.drawn(), scale, style));
    }
    lines
}

/// Sorted totals, and the number of outliers among them.
struct FencedTotals<'a> {
    low_fence: f64,
    high_fence: f64,
    below: usize,
    above: usize,
    /// The totals that are not outliers.
    within: &'a [f64],
}

/// The number of values from `low` up to `high`.
struct HistogramBin {
    low: f64,
    high: f64,
    count: usize,
}

impl<'a> FencedTotals<'a> {
    fn from_sorted(sorted: &'a [f64]) -> Self {
        let [q1, q3] = [0.25, 0.75].map(|q| quantile(sorted, q).unwrap_or_default());
        let reach = OUTLIER_RANGES * (q3 - q1);
        let (low_fence, high_fence) = (q1 - reach, q3 + reach);
        let below = sorted.partition_point(|ns| *ns < low_fence);
        let end = sorted.partition_point(|ns| *ns <= high_fence);
        let above = sorted.len() - end;
        Self { low_fence, high_fence, below, above, within: &sorted[below..end] }
    }

    /// Bins of equal width (Sturges 1926), excluding outliers, which would widen them.
    fn bins(&self) -> Vec<HistogramBin> {
        let (Some(&low), Some(&high)) = (self.within.first(), self.within.last()) else {
            return Vec::new();
        };
        let outlier_lines = usize::from(self.below > 0) + usize::from(self.above > 0);
        let sturges = self.within.len().next_power_of_two().ilog2() as usize + 1;
        let bins = if low < high { sturges.min(HISTOGRAM_LINES - outlier_lines) } else { 1 };
        let edge = |i: usize| low + (high - low) * i as f64 / bins as f64;
        let place = |i: usize| match i < bins {
            true => self.within.partition_point(|ns| *ns < edge(i)),
            false => self.within.len(),
        };
        let bin =
            |i| HistogramBin { low: edge(i), high: edge(i + 1), count: place(i + 1) - place(i) };
        (0..bins).map(bin).collect()
    }

    fn histogram(&self, bins: &[HistogramBin], scale: Scale, style: &Style) -> Vec<String> {
        let figure = |ns: f64| scale.time_figure(duration_from_ns(ns));
        let width = bins.iter().map(|bin| figure(bin.high).chars().count()).max().unwrap_or(0);
        let to = style.glyph("–", "-");
        let mut rows = Vec::new();
        if self.below > 0 {
            rows.push((format!("below {}", figure(self.low_fence)), self.below));
        }
        rows.extend(bins.iter().map(|bin| match bin.low < bin.high {
            true => (
                format!("{:>width$} {to} {:>width$}", figure(bin.low), figure(bin.high)),
                bin.count,
            ),
            false => (figure(bin.low), bin.count),
        }));
        if self.above > 0 {
            rows.push((format!("above {}", figure(self.high_fence)), self.above));
        }
        let most = rows.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
        let label_width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
        let count_width = grouped(most as u64).len();
        let unit = scale.name(style);
        let left = label_width + unit.chars().count() + count_width + "     ".len();
        let room = style.columns().saturating_sub(left).min(WIDEST_BAR);
        let row = |(label, n): &(String, usize)| {
            // A bar of at least one column if there is a sample.
            let bar = style.glyph("█", "#").repeat((n * room).div_ceil(most));
            let n = grouped(*n as u64);
            let text = format!("{label:>label_width$} {unit}  {n:>count_width$}  ");
            text + &style.paint(Ink::Faint, &bar)
        };
        rows.iter().map(row).collect()
    }

    fn outliers(&self, drawn: Option<u64>, scale: Scale, style: &Style) -> Vec<String> {
        let time = |ns: f64| scale.time(duration_from_ns(ns), style);
        let (below, above) = (time(self.low_fence), time(self.high_fence));
        let (times, minus) = (style.glyph("×", "x"), style.glyph("−", "-"));
        let range = format!("{OUTLIER_RANGES} {times} interquartile range");
        let rule = match (self.below, self.above) {
            (0, 0) => return Vec::new(),
            (0, _) => format!("above {above} (third quartile + {range})"),
            (_, 0) => format!("below {below} (first quartile {minus} {range})"),
            (few, many) => {
                let (few, many) = (grouped(few as u64), grouped(many as u64));
                format!("{few} below {below}, {many} above {above} ({range} beyond the quartiles)")
            }
        };
        let all = count((self.below + self.above) as u64, "outlier");
        let of = drawn.map_or_else(String::new, |n| format!(" of {} drawn", grouped(n)));
        let text = format!("{all}{of}: {rule}");
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        wrap("", &words, style.columns())
    }
}

/// As many decimals as necessary to distinguish the bins' edges.
fn scale_for_bins(mut scale: Scale, bins: &[HistogramBin]) -> Scale {
    let width = bins.first().map_or(0.0, |bin| bin.high - bin.low);
    while width > 0.0 && scale.step_ns() as f64 > width {
        match scale.finer() {
            Some(finer) => scale = finer,
            None => break,
        }
    }
    scale
}

fn duration_from_ns(ns: f64) -> Duration {
    Duration::from_nanos(ns.max(0.0).round() as u64)
}

const INDENT: usize = 8;

/// Cells separated by three blanks after `name`, on as few lines as `columns` permits.
fn lay_out_cells(name: &str, cells: &[String], columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = format!("{name:<INDENT$}");
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 && line.chars().count() + 3 + cell.chars().count() > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(INDENT)));
        } else if i > 0 {
            line += "   ";
        }
        line += cell;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(micros: impl IntoIterator<Item = u64>, style: &Style) -> String {
        let (mut moments, mut column) = (TotalMoments::new(), Column::new(1_000));
        for total in micros.into_iter().map(Duration::from_micros) {
            moments.take(total);
            column.take(total);
        }
        let scale = Scale::for_largest(moments.max());
        render_total_summary(&moments, &column, scale, style).join("\n")
    }

    #[test]
    fn ten_samples_have_a_summary_and_nine_have_none() {
        assert_eq!(summary(1..10, &Style::default()), "");
        // 1 to 10 ms: the variance is 110 / 12.
        let text = summary((1..=10).map(|ms| ms * 1_000), &Style::default());
        let total = "total   mean 5.50 ms ± σ 3.03 ms   min 1.00 ms   max 10.00 ms\n";
        assert!(text.starts_with(&format!("{total}        p75 8.00 ms\n\n")), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains('█')).count(), 5, "{text}");
        assert!(!text.contains("outlier"), "{text}");
    }

    #[test]
    fn outliers_are_told_by_their_fence() {
        // Quartiles 125 and 176 ms.
        let late = [252_000, 900_000, 901_000];
        let totals = (100..199).map(|ms| ms * 1_000).chain(late);
        let text = summary(totals, &Style::default());
        let rule = "2 outliers: above 252.5 ms (third quartile + 1.5 × interquartile range)";
        assert!(text.ends_with(rule), "{text}");
    }

    #[test]
    fn equal_totals_have_no_histogram() {
        let text = summary([2_000; 12], &Style::default());
        let total = "total   mean 2.000 ms ± σ 0.000 ms   min 2.000 ms   max 2.000 ms";
        assert_eq!(text, format!("{total}\n        p75 2.000 ms"));
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_bar(
            totals in prop::collection::vec(1..3_000_000u64, 10..200),
            width in 0usize..120,
            unicode: bool,
        ) {
            let style = Style { color: false, width, unicode };
            let text = summary(totals.iter().copied(), &style);
            prop_assert!(unicode || text.is_ascii(), "{text}");
            prop_assert!(text.lines().all(|line| line.chars().count() <= style.columns()), "{text}");
            let mut sorted: Vec<f64> = totals.iter().map(|us| *us as f64).collect();
            sorted.sort_by(f64::total_cmp);
            let fenced = FencedTotals::from_sorted(&sorted);
            let bins = fenced.bins();
            let lines = bins.len() + usize::from(fenced.below > 0) + usize::from(fenced.above > 0);
            prop_assert!(lines <= HISTOGRAM_LINES);
            let counted: usize = bins.iter().map(|bin| bin.count).sum();
            prop_assert_eq!(counted + fenced.below + fenced.above, totals.len());
        }

        #[test]
        fn moments_are_those_of_the_definition(
            totals in prop::collection::vec(1..3_000_000u64, 2..200),
        ) {
            let mut moments = TotalMoments::new();
            totals.iter().for_each(|us| moments.take(Duration::from_micros(*us)));
            let n = totals.len() as f64;
            let mean = totals.iter().sum::<u64>() as f64 * 1_000.0 / n;
            let squares: f64 =
                totals.iter().map(|us| (*us as f64 * 1_000.0 - mean).powi(2)).sum();
            let deviation = (squares / (n - 1.0)).sqrt();
            prop_assert!((moments.mean_ns - mean).abs() < 1.0);
            prop_assert!((moments.standard_deviation_ns() - deviation).abs() < 1.0);
        }
    }
}
