//! `firstbyte report` of a monitor's store: summarises a period from its rollups, without reading raw files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use firstbyte_core::run::Metric;
use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_monitor::rollup::{Measure, MonitoredPart, Rollup};
use firstbyte_monitor::store::{SeriesId, SeriesLabels, Step, StoreError, StoreReader};
use firstbyte_report::monitor_period::{self, MonitorPeriod, PeriodPoint, SeriesPeriod};
use firstbyte_report::style::wrap;
use firstbyte_report::units::{count, grouped};
use firstbyte_report::{Style, chart};
use serde_json::{Value, json};

use super::forms::check_forms;
use crate::cli::commands::monitor::events::{PeriodEvents, period_events};
use crate::cli::commands::monitor::reading::{DAY, Reading, minute, problem};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::files::Files;
use crate::cli::{render, terminal};
use crate::plans::ReportPlan;

/// First bytes of a store.
pub(super) const BEGIN: &[u8] = b"SQLite format 3\0";
/// Up to this many series get a block and a picture each; if there are more, only the table is shown.
const MOST_BLOCKS: usize = 12;
/// Most points of a picture.
const MOST_POINTS: i64 = 240;
/// Possible lengths of the part of the period behind each point, in seconds.
const POINT_STEPS: [i64; 10] =
    [60, 300, 900, 1_800, 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600, DAY, 7 * DAY];
/// How many values of a fact are named.
const MOST_VALUES: usize = 4;
const TTFB: Measure = Measure::Metric(Metric::Ttfb);
const TOTAL: Measure = Measure::Metric(Metric::Total);

/// The store in `path`: the file itself, or the one in a monitor's directory.
pub(super) fn store_file(path: &Path) -> Option<PathBuf> {
    let inside = path.join("store.sqlite");
    inside.is_file().then_some(inside)
}

pub(super) fn run(path: &Path, plan: &ReportPlan) -> Result<u8, Problem> {
    const HINT: &str = "use text, --html, --svg, --png or --json; for rows use monitor export, for \
                        single samples report on its raw files";
    check_forms(plan, &["--html", "--svg", "--png"], "not possible for a monitor's store", HINT)?;
    let outputs = &plan.render.outputs;
    let files = Files::default().reads(&files_of_store(path)).exports(outputs);
    files.check()?;
    let mut reading = Reading::of_file(path.to_owned(), [plan.since, plan.until], &plan.targets)?;
    let with_points = outputs.html.is_some() || outputs.draw();
    if plan.since.is_none() {
        reading.begin_with_oldest()?;
    }
    let report = StoreReport::read(reading, &plan.targets, with_points)?;
    let opened = files.open()?;
    let page = with_points.then(|| report.page());
    if let (Some(to), Some(page)) = (&outputs.html, &page) {
        whole(to, monitor_period::page(page).as_bytes())?;
    }
    if let Some(page) = page.filter(|_| outputs.draw()) {
        render::pictures(&[chart::monitor_period(&page)], outputs)?;
    }
    if let Some(to) = &outputs.json {
        whole(to, format!("{}\n", report.json()).as_bytes())?;
    }
    if !outputs.use_stdout() {
        print(&report.text(&terminal::style(plan.render.colors)))?;
    }
    if report.damaged > 0 {
        let rollups = count(report.damaged, "damaged rollup");
        terminal::note(&format!("{rollups} of the store cannot be read: left out"));
    }
    opened.keep();
    Ok(exit::OK)
}

/// All files of the monitor whose store is `path`: no output may overwrite any of them.
fn files_of_store(path: &Path) -> Vec<PathBuf> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let entries = |directory: &Path| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let own = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let of_store = entries(directory).into_iter().filter(|file| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&own))
    });
    let below = ["raw", "webhooks"].iter().flat_map(|name| entries(&directory.join(name)));
    of_store.chain(below).collect()
}

/// One series: a target measured in one way.
struct Row {
    id: SeriesId,
    labels: SeriesLabels,
    sum: Rollup,
    /// Points of the picture.
    points: Vec<PeriodPoint>,
}

/// Quantiles of the times of a series.
const QUANTILES: [f64; monitor_period::QUANTILES.len()] = [0.5, 0.9, 0.95, 0.99];
/// Columns of the table of all series.
const HEADS: [&str; 7] = ["samples", "failed", "ttfb", "p95", "total", "p95", "server"];

impl Row {
    fn name(&self) -> String {
        let SeriesLabels { target, variant_label, place, .. } = &self.labels;
        let parts = [target, variant_label, place].into_iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    fn quantile(&self, measure: Measure, q: f64) -> Option<u64> {
        let value = self.sum.times(measure)?.quantile(q)?.value;
        u64::try_from(value.as_nanos()).ok()
    }

    /// The metrics that have times.
    fn measured(&self) -> impl Iterator<Item = Measure> {
        let all = Metric::ALL.map(Measure::Metric).into_iter();
        all.filter(|measure| self.quantile(*measure, 0.5).is_some())
    }

    /// The text for each of [`HEADS`], absent if unknown.
    fn figures(&self) -> [Option<String>; 7] {
        let ms = |measure, q| self.quantile(measure, q).map(ms);
        [
            Some(grouped(self.sum.samples)),
            Some(failed_share(&self.sum)),
            ms(TTFB, 0.5),
            ms(TTFB, 0.95),
            ms(TOTAL, 0.5),
            ms(TOTAL, 0.95),
            ms(Measure::Part(MonitoredPart::Server), 0.5),
        ]
    }
}

/// The course of `series` in at most [`MOST_POINTS`] parts of `period`, aligned with minutes, hours or days.
fn points(
    reader: &mut StoreReader,
    series: SeriesId,
    period: &Range<i64>,
) -> Result<Vec<PeriodPoint>, StoreError> {
    let length = period.end - period.start;
    let fits = |step: &i64| length <= step * MOST_POINTS;
    let step = POINT_STEPS.into_iter().find(fits).unwrap_or(28 * DAY);
    let mut points = Vec::new();
    let mut begin = period.start.div_euclid(step) * step;
    while begin < period.end {
        let between = [begin.max(period.start), (begin + step).min(period.end)];
        begin += step;
        let sum = reader.sum(series, between[0], between[1], |measure| measure == TTFB)?;
        let quantile = |q| Some(sum.times(TTFB)?.quantile(q)?.value);
        points.push(PeriodPoint {
            between,
            median: quantile(0.5),
            p90: quantile(0.9),
            failed: sum.failed_share(),
        });
    }
    Ok(points)
}

struct StoreReport {
    period: Range<i64>,
    rows: Vec<Row>,
    events: PeriodEvents,
    damaged: u64,
}

impl StoreReport {
    fn read(reading: Reading, targets: &[String], with_points: bool) -> Result<Self, Problem> {
        let Reading { mut reader, path, period } = reading;
        let failed = |error: StoreError| problem(&path, &error);
        let period = in_kept_steps(&reader, period).map_err(failed)?;
        let mut rows = Vec::new();
        for (series, labels) in reader.series().map_err(failed)? {
            if !targets.is_empty() && !targets.contains(&labels.target) {
                continue;
            }
            let sum = reader.sum(series, period.start, period.end, |_| true).map_err(failed)?;
            if sum.samples > 0 {
                rows.push(Row { id: series, labels, sum, points: Vec::new() });
            }
        }
        if with_points {
            for row in rows.iter_mut().take(MOST_BLOCKS) {
                row.points = points(&mut reader, row.id, &period).map_err(failed)?;
            }
        }
        let events = period_events(&reader, period.clone(), targets).map_err(failed)?;
        let damaged = reader.damaged();
        Ok(Self { period, rows, events, damaged })
    }

    fn text(&self, style: &Style) -> String {
        let [from, until] = [self.period.start, self.period.end].map(minute);
        let samples: u64 = self.rows.iter().map(|row| row.sum.samples).sum();
        let mut text = format!("{from} to {until}\n");
        if self.rows.is_empty() {
            text.push_str("No samples in this period.\n");
            return text;
        }
        let _ = writeln!(
            text,
            "{}, {}\n",
            count(samples, "sample"),
            match self.rows.len() {
                1 => "1 series".to_owned(),
                number => format!("{} series", grouped(number as u64)),
            }
        );
        self.table(style, &mut text);
        if self.rows.len() <= MOST_BLOCKS {
            for row in &self.rows {
                text.push('\n');
                block(row, style, &mut text);
            }
        }
        let _ = write!(text, "\nChanges\n{}", self.events.text(style.columns()));
        text
    }

    /// Appends a line for each series.
    fn table(&self, style: &Style, text: &mut String) {
        let lines = self.rows.iter().map(|row| {
            let figures = row.figures().map(|figure| figure.unwrap_or_else(nothing));
            (style.safe(&row.name()), figures)
        });
        let lines: Vec<(String, [String; 7])> = lines.collect();
        let widths: Vec<usize> = HEADS
            .iter()
            .enumerate()
            .map(|(column, head)| {
                let widest = lines.iter().map(|(_, cells)| cells[column].chars().count()).max();
                widest.unwrap_or(0).max(head.len())
            })
            .collect();
        let figures: usize = widths.iter().map(|width| width + 2).sum();
        let longest = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let room = style.columns().saturating_sub(figures).max(16).min(longest.max(6));
        let mut line = |name: &str, cells: [&str; 7]| {
            // A name that is too long gets its own line.
            match name.chars().count() <= room {
                true => _ = write!(text, "{name:<room$}"),
                false => _ = write!(text, "{name}\n{:room$}", ""),
            }
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        };
        line("ms", HEADS);
        for (name, cells) in &lines {
            line(name, std::array::from_fn(|column| cells[column].as_str()));
        }
    }

    fn page(&self) -> MonitorPeriod {
        let [from, until] = [self.period.start, self.period.end].map(minute);
        let series = self.rows.iter().map(|row| {
            let properties = properties(row).into_iter();
            let times = row.measured().map(|measure| {
                let quantile = |q| row.quantile(measure, q).map(ms);
                (measure.name(), QUANTILES.map(quantile))
            });
            SeriesPeriod {
                number: row.id.into(),
                name: row.name(),
                figures: row.figures().to_vec(),
                times: times.collect(),
                properties: match row.points.is_empty() {
                    true => Vec::new(),
                    false => properties.map(|(name, values)| (name, values.join(", "))).collect(),
                },
                points: row.points.clone(),
            }
        });
        let columns = HEADS.iter().enumerate().map(|(place, head)| match place {
            0 | 1 => (*head).to_owned(),
            _ => format!("{head}, ms"),
        });
        MonitorPeriod {
            period: [self.period.start, self.period.end],
            period_text: format!("{from} to {until}"),
            samples: self.rows.iter().map(|row| row.sum.samples).sum(),
            entries: self.events.entries(),
            series: series.collect(),
            columns: columns.collect(),
        }
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        json!({
            "format": "firstbyte/monitor-report",
            "version": 1,
            "from": self.period.start,
            "until": self.period.end,
            "damaged": self.damaged,
            "rows": rows,
            "events": self.events.json(),
        })
    }
}

/// Aligns `period` with steps that are still stored: minutes are kept for days, hours for a year or two.
fn in_kept_steps(reader: &StoreReader, period: Range<i64>) -> Result<Range<i64>, StoreError> {
    let [minutes, hours] = [reader.oldest(Step::Minute)?, reader.oldest(Step::Hour)?];
    let seconds = |at: i64| {
        let reaches = |oldest: Option<i64>| oldest.is_some_and(|oldest| oldest <= at);
        let step = match (reaches(minutes), reaches(hours)) {
            (true, _) => Step::Minute,
            (false, true) => Step::Hour,
            (false, false) => Step::Day,
        };
        step.seconds()
    };
    let (first, last) = (seconds(period.start), seconds(period.end));
    let down = |at: i64, step: i64| at.div_euclid(step) * step;
    Ok(down(period.start, first)..down(period.end + last - 1, last))
}

/// Appends everything about one series: phases, parts, facts.
fn block(row: &Row, style: &Style, text: &mut String) {
    let _ = writeln!(text, "{}", style.safe(&row.name()));
    let mut known = row.measured().peekable();
    if known.peek().is_some() {
        let [a, b, c, d] = monitor_period::QUANTILES;
        let _ = writeln!(text, "  {:<12}{a:>10}{b:>10}{c:>10}{d:>10}", "ms");
    }
    for measure in known {
        let _ = write!(text, "  {:<12}", measure.name());
        for q in QUANTILES {
            let _ = write!(text, "{:>10}", row.quantile(measure, q).map_or_else(nothing, ms));
        }
        text.push('\n');
    }
    for (name, values) in properties(row) {
        let values: Vec<String> = values.iter().map(|value| style.safe(value)).collect();
        let last = values.len() - 1;
        let words: Vec<String> = values
            .into_iter()
            .enumerate()
            .map(|(place, value)| if place < last { format!("{value},") } else { value })
            .collect();
        for line in wrap(&format!("  {name:<18}"), &words, style.columns()) {
            let _ = writeln!(text, "{line}");
        }
    }
}

/// Properties of a series: name and values.
fn properties(row: &Row) -> Vec<(String, Vec<String>)> {
    let sum = &row.sum;
    let mut facts: Vec<(String, Vec<String>)> = Vec::new();
    if sum.failed() > 0 {
        let kinds = sum.failures.iter().map(|(kind, n)| (kind.to_string(), *n));
        facts.push((
            "failures".to_owned(),
            kinds.map(|(kind, n)| format!("{kind} {}", grouped(n))).collect(),
        ));
    }
    let unproven: u64 = sum.unproven.values().sum();
    if unproven > 0 {
        facts.push(("unverified".to_owned(), vec![percent(unproven, sum.samples)]));
    }
    let parts = MonitoredPart::ALL.into_iter().filter_map(|part| {
        let median = row.quantile(Measure::Part(part), 0.5).filter(|ns| *ns > 0)?;
        Some(format!("{} {}", part.name(), ms(median)))
    });
    let parts: Vec<String> = parts.collect();
    if !parts.is_empty() {
        facts.push(("parts, ms".to_owned(), parts));
    }
    for (fact, values) in &sum.facts {
        let of = values.values().sum();
        let values = values.iter().map(|(value, n)| (value.clone(), *n));
        facts.push((fact.name().to_owned(), shares(values, of)));
    }
    facts
}

/// Shares such as `value 97 %`, most frequent first.
fn shares(values: impl Iterator<Item = (String, u64)>, of: u64) -> Vec<String> {
    let mut all: Vec<(String, u64)> = values.collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest = all.len().saturating_sub(MOST_VALUES);
    let mut words: Vec<String> = all
        .iter()
        .take(MOST_VALUES)
        .map(|(value, number)| format!("{value} {}", percent(*number, of)))
        .collect();
    if rest > 0 {
        words.push(format!("{rest} more"));
    }
    words
}

fn row_json(row: &Row) -> Value {
    let Row { id: _, labels, sum, points: _ } = row;
    let times: BTreeMap<String, Value> = sum
        .all_times()
        .map(|(measure, times): (Measure, &ExponentialHistogram)| {
            let ns = |q| row.quantile(measure, q);
            let value = json!({
                "count": times.count(),
                "median_ns": ns(0.5),
                "p90_ns": ns(0.9),
                "p95_ns": ns(0.95),
                "p99_ns": ns(0.99),
            });
            (measure.name(), value)
        })
        .collect();
    let failures: BTreeMap<String, u64> =
        sum.failures.iter().map(|(kind, number)| (kind.to_string(), *number)).collect();
    let facts: BTreeMap<&str, &BTreeMap<String, u64>> =
        sum.facts.iter().map(|(fact, values)| (fact.name(), values)).collect();
    json!({
        "target": labels.target,
        "variant": labels.variant,
        "variant_label": labels.variant_label,
        "place": labels.place,
        "url": labels.url,
        "tags": labels.tags,
        "samples": sum.samples,
        "failures": sum.failed(),
        "failed_share": sum.failed_share(),
        "failures_by_type": failures,
        "unverified": sum.unproven.values().sum::<u64>(),
        "times": times,
        "facts": facts,
    })
}

fn nothing() -> String {
    "–".to_owned()
}

/// Milliseconds with one decimal, or two below one.
fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 1.0 { format!("{ms:.2}") } else { format!("{ms:.1}") }
}

/// Share of the time that failed.
fn failed_share(sum: &Rollup) -> String {
    match sum.failed_share() {
        Some(0.0) | None => percent(0, 1),
        Some(share) => percent((share * 1e6).round() as u64, 1_000_000),
    }
}

fn percent(number: u64, of: u64) -> String {
    let share = 100.0 * number as f64 / of.max(1) as f64;
    match number {
        0 => "0 %".to_owned(),
        _ if number == of => "100 %".to_owned(),
        _ if share < 0.1 => "<0.1 %".to_owned(),
        _ if share > 99.9 => ">99.9 %".to_owned(),
        _ => format!("{share:.1} %"),
    }
}
