//! Many samples: percentiles per URL, and where the time of the median sample went.
//!
//! Warm-up samples and failures are counted and shown separately; only successful samples are pooled. Quantiles are
//! those of `firstbyte_core::stats`. Memory does not grow with the number of samples, because `pooled` keeps a
//! bounded summary.

mod pooled;
mod totals;

use std::time::Duration;

use firstbyte_core::compare::{AnswerCounts, describe_answers, find_difference};
use firstbyte_core::run::{VisitAnswer, redirect_time, visit_time};
use firstbyte_core::split::Split;
use firstbyte_core::stats::median;
use firstbyte_core::timeline::{Mark, Offset, PhaseName, Sample};

use self::pooled::Column;
pub use self::pooled::Middle;
use self::totals::{TotalMoments, render_total_summary};
use super::equation::Ledger;
use super::style::{Ink, Style, wrap};
use super::units::{Scale, count, grouped};
use firstbyte_core::shown_url::shown_url;

/// One table per requested URL, in order of first appearance.
///
/// Uses bounded memory: with more than `VALUES` samples, percentiles are of a random sample, and the table says so.
#[derive(Debug)]
pub struct Tables {
    groups: Vec<Group>,
    limit: usize,
}

/// Number of values kept per quantity, for all URLs together.
const VALUES: usize = 1 << 18;
/// Number of samples around the median whose split is kept.
const AROUND_MIDDLE: usize = 2_048;
/// Number of distinct failure causes.
const CAUSES: usize = 100;
/// Number of warm-up samples shown individually.
const WARMUPS: usize = 1_000;

impl Tables {
    /// Creates tables for samples of `urls` URLs.
    pub fn new(urls: usize) -> Self {
        Self { groups: Vec::new(), limit: VALUES / urls.clamp(1, VALUES / 4_096) }
    }

    /// Adds one sample.
    pub fn take(&mut self, sample: &Sample) {
        let known = self.groups.iter().position(|group| group.url == sample.requested_url);
        let at = known.unwrap_or_else(|| {
            self.groups.push(Group::new(&sample.requested_url, self.limit));
            self.groups.len() - 1
        });
        self.groups[at].take(sample);
    }

    /// The tables.
    pub fn render(&self, style: &Style) -> String {
        let tables: Vec<String> =
            self.groups.iter().map(|group| group.lines(style).join("\n")).collect();
        tables.join("\n\n") + if tables.is_empty() { "" } else { "\n" }
    }

    /// The answers of each URL whose samples are in one table although their answers differ.
    pub fn list_unlike_answers(&self) -> Vec<String> {
        let unlike = self.groups.iter().filter(|group| group.has_unlike_answers());
        unlike
            .map(|group| format!("{}: {}", shown_url(&group.url), describe_answers(&group.answers)))
            .collect()
    }
}

/// The tables of existing samples.
pub fn table(samples: &[Sample], style: &Style) -> String {
    let mut tables = Tables::new(1);
    samples.iter().for_each(|sample| tables.take(sample));
    tables.render(style)
}

/// The samples of one URL.
#[derive(Debug)]
struct Group {
    url: String,
    proxy: Option<String>,
    /// Number of successful samples.
    pooled: u64,
    failed: u64,
    /// Each cause with its count.
    causes: Vec<(String, u64)>,
    /// Failures with causes beyond the limit.
    other_causes: u64,
    warmups: Vec<Warmup>,
    /// Answers of the successful samples.
    answers: AnswerCounts,
    redirects: Column,
    phases: [Column; PhaseName::ALL.len()],
    first_byte: Column,
    total: Column,
    total_moments: TotalMoments,
    parts: [Column; PARTS],
    rtt: Column,
    round_trips: Column,
    /// Splits of the samples around the median total.
    middle: Middle<Split>,
}

/// Number of named parts.
const PARTS: usize = 9;

/// A sample that is not pooled.
#[derive(Debug)]
enum Warmup {
    Failed(String),
    Took { total: Duration, round_trips: u32 },
}

impl Group {
    fn new(url: &str, limit: usize) -> Self {
        let column = || Column::new(limit);
        Self {
            url: url.to_owned(),
            proxy: None,
            pooled: 0,
            failed: 0,
            causes: Vec::new(),
            other_causes: 0,
            warmups: Vec::new(),
            answers: AnswerCounts::default(),
            redirects: column(),
            phases: PhaseName::ALL.map(|_| column()),
            first_byte: column(),
            total: column(),
            total_moments: TotalMoments::new(),
            parts: std::array::from_fn(|_| column()),
            rtt: column(),
            round_trips: column(),
            middle: Middle::new(AROUND_MIDDLE),
        }
    }

    fn take(&mut self, sample: &Sample) {
        if self.proxy.is_none() {
            self.proxy = sample.connection.facts.proxy.as_ref().map(ToString::to_string);
        }
        let failure = sample.failure().map(ToString::to_string);
        match (sample.warmup, failure) {
            (true, _) if self.warmups.len() >= WARMUPS => {}
            (true, Some(failure)) => self.warmups.push(Warmup::Failed(failure)),
            (true, None) => self.warmups.push(Warmup::Took {
                total: visit_time(sample),
                round_trips: Split::attribute(&sample.connection).round_trips,
            }),
            (false, Some(failure)) => self.take_failure(failure),
            (false, None) => self.pool(sample),
        }
    }

    fn take_failure(&mut self, cause: String) {
        self.failed += 1;
        let known = self.causes.iter().position(|(known, _)| *known == cause);
        match known {
            Some(at) => self.causes[at].1 += 1,
            None if self.causes.len() < CAUSES => self.causes.push((cause, 1)),
            None => self.other_causes += 1,
        }
    }

    fn pool(&mut self, sample: &Sample) {
        let split = Split::attribute(&sample.connection);
        // Redirects use connections of their own, made before the one whose phases are shown.
        let redirects = redirect_time(sample);
        self.pooled += 1;
        self.answers.add(VisitAnswer::from_sample(sample));
        if !sample.redirects.is_empty() {
            self.redirects.take(redirects);
        }
        for (name, column) in PhaseName::ALL.into_iter().zip(&mut self.phases) {
            if let Some(phase) = split.phase(name) {
                column.take(phase.phase.duration());
            }
        }
        if let Some(at) = sample.connection.marks.at(Mark::ResponseStart) {
            self.first_byte.take(redirects + at.since(Offset::ZERO));
        }
        for ((_, part), column) in split.parts.named().into_iter().zip(&mut self.parts) {
            column.take(part);
        }
        if let Some(rtt) = split.rtt {
            self.rtt.take(rtt);
        }
        self.round_trips.take_number(u64::from(split.round_trips));
        let total = redirects + split.total() + sample.time_after_first_response();
        self.total.take(total);
        self.total_moments.take(total);
        self.middle.take(total, sample.sequence, || split);
    }

    fn lines(&self, style: &Style) -> Vec<String> {
        let mut lines = self.header(style);
        let proxy =
            self.proxy.iter().map(|proxy| style.safe(&format!("through the proxy {proxy}")));
        lines.extend(proxy.map(|line| style.paint(Ink::Faint, &line)));
        lines.extend(self.answers(style));
        if self.pooled > 0 {
            lines.push(String::new());
            lines.extend(self.percentiles(style));
            lines.push(String::new());
            lines.extend(self.median_sample(style));
            let summary =
                render_total_summary(&self.total_moments, &self.total, self.scale(), style);
            if !summary.is_empty() {
                lines.push(String::new());
                lines.extend(summary);
            }
        }
        let apart: Vec<String> =
            self.warmups.iter().map(|w| warmup(w, style)).chain(self.failures(style)).collect();
        if !apart.is_empty() {
            lines.push(String::new());
            lines.extend(apart);
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    fn header(&self, style: &Style) -> Vec<String> {
        let url = style.safe(&shown_url(&self.url));
        let right = count(self.pooled, "sample");
        let failed = match self.failed {
            0 => String::new(),
            n => format!("{}{n} failed", style.glyph(" · ", ", ")),
        };
        let used = url.chars().count() + right.chars().count() + failed.chars().count();
        let painted = format!("{right}{}", style.paint(Ink::Loss, &failed));
        let url = style.paint(Ink::Strong, &url);
        if used + 2 <= style.columns() {
            return vec![format!("{url}{}{painted}", " ".repeat(style.columns() - used))];
        }
        vec![url, painted]
    }

    fn has_unlike_answers(&self) -> bool {
        find_difference([&self.answers]).is_some()
    }

    /// Statuses and sizes of the answers, if they differ or some are errors.
    fn answers(&self, style: &Style) -> Vec<String> {
        let is_unlike = self.has_unlike_answers();
        if !is_unlike && !self.answers.has_errors() {
            return Vec::new();
        }
        let but = if is_unlike { " (their times are pooled)" } else { "" };
        let text = format!("{}{but}", describe_answers(&self.answers));
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        let lines = wrap("answers  ", &words, style.columns());
        lines.iter().map(|line| style.paint(Ink::Strong, line)).collect()
    }

    fn scale(&self) -> Scale {
        Scale::for_largest(self.total_moments.max())
    }

    /// Phases, first byte and total, followed by the parts of the total and by the path.
    fn percentiles(&self, style: &Style) -> Vec<String> {
        let scale = self.scale();
        let mut sections = vec![self.phases(), self.parts(), self.path()];
        sections.retain(|section| !section.is_empty());
        let numbers: Vec<Vec<[String; 5]>> = sections
            .iter()
            .map(|rows| rows.iter().map(|row| self.figures(row, scale, style)).collect())
            .collect();
        let last = if self.pooled >= ENOUGH_FOR_P99 { "p99" } else { "max" };
        let heading = ["n", "min", "p50", "p90", last].map(String::from);
        let width = numbers
            .iter()
            .flatten()
            .chain([&heading])
            .flatten()
            .map(|figure| figure.chars().count())
            .max()
            .unwrap_or(0)
            .max(8);
        let line = |name: &str, [n, figures @ ..]: &[String; 5]| {
            let cells: String = figures.iter().map(|f| format!(" {f:>width$}")).collect();
            format!("{name:<NAME_WIDTH$}{n:>6}{cells}")
        };
        let mut lines = vec![style.paint(Ink::Faint, &line(scale.name(style), &heading))];
        for (i, (rows, figures)) in sections.iter().zip(&numbers).enumerate() {
            if i > 0 {
                lines.push(String::new());
            }
            for (row, figures) in rows.iter().zip(figures) {
                lines.push(style.paint(row.ink, &line(row.name, figures)));
            }
        }
        if let Some(drawn) = self.total.drawn() {
            let of_all = grouped(self.pooled);
            let drawn = grouped(drawn);
            let text = format!("percentiles and histogram of {drawn} drawn at random of {of_all}");
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            let wrapped = wrap("", &words, style.columns());
            lines.extend(wrapped.iter().map(|line| style.paint(Ink::Faint, line)));
        }
        lines
    }

    fn phases(&self) -> Vec<Row<'_>> {
        let mut rows = vec![Row::time("redirects", &self.redirects, Ink::Plain)];
        rows.extend(
            PhaseName::ALL
                .into_iter()
                .zip(&self.phases)
                .map(|(name, column)| Row::time(name.label(), column, Ink::Plain)),
        );
        rows.push(Row::time("first byte", &self.first_byte, Ink::Strong));
        rows.push(Row::time("total", &self.total, Ink::Strong));
        rows.retain(|row| row.column.count() > 0);
        rows
    }

    fn parts(&self) -> Vec<Row<'_>> {
        let names = firstbyte_core::split::Parts::default().named().map(|(name, _)| name);
        let rows = names.into_iter().zip(&self.parts);
        // Show only parts that occurred.
        let rows = rows.filter(|(_, column)| column.others() > 0);
        rows.map(|(name, column)| Row::time(name, column, Ink::Plain)).collect()
    }

    fn path(&self) -> Vec<Row<'_>> {
        let trips =
            Row { is_time: false, ..Row::time("round trips", &self.round_trips, Ink::Plain) };
        let mut rows = vec![Row::time("rtt", &self.rtt, Ink::Plain), trips];
        rows.retain(|row| row.column.count() > 0);
        rows
    }

    /// n, minimum, p50, p90, and p99 or the maximum.
    fn figures(&self, row: &Row<'_>, scale: Scale, style: &Style) -> [String; 5] {
        let last = if self.pooled >= ENOUGH_FOR_P99 { 0.99 } else { 1.0 };
        let quantiles = row.column.quantiles([0.0, 0.5, 0.9, last]);
        let [min, p50, p90, last] = quantiles.map(|value| row.figure(value, scale));
        let p90 = if self.pooled >= ENOUGH_FOR_P90 { p90 } else { style.glyph("–", "-").into() };
        [row.column.count().to_string(), min, p50, p90, last]
    }

    /// The split of the median sample. The medians of the parts need not add up, but the parts of one sample do.
    fn median_sample(&self, style: &Style) -> Option<String> {
        let (visit, sequence, split, exact) = self.middle.middle()?;
        let ledger = Ledger::from_split(split);
        let total = ledger.scale.steps(visit);
        let redirects = total.saturating_sub(ledger.total.steps);
        let first = format!("median  {} = ", ledger.scale.print(total, style));
        let mut words = ledger.total.words(ledger.scale, style);
        if redirects > 0 {
            if let Some(first) = words.first_mut() {
                first.insert_str(0, "+ ");
            }
            words.insert(0, format!("redirects {}", ledger.scale.print(redirects, style)));
        }
        let lines = wrap(&first, &words, style.columns());
        let place = if exact { "the" } else { "near the" };
        let note = format!("        (sample {sequence}, {place} median sample)");
        Some(format!("{}\n{}", lines.join("\n"), style.paint(Ink::Faint, &note)))
    }

    /// Each cause with its count, the most frequent first.
    fn failures(&self, style: &Style) -> Vec<String> {
        let mut causes = self.causes.clone();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        if self.other_causes > 0 {
            causes.push(("other causes".into(), self.other_causes));
        }
        causes
            .into_iter()
            .map(|(cause, n)| {
                let times = style.glyph("×", "x");
                let cause = style.safe(&cause);
                let label = style.paint(Ink::Loss, &format!("failed  {n} {times}"));
                format!("{label} {cause}")
            })
            .collect()
    }
}

const NAME_WIDTH: usize = 12;

/// With fewer values, the 99th percentile is the maximum, so the maximum is shown instead.
const ENOUGH_FOR_P99: u64 = 100;
/// The same limit for the 90th percentile.
const ENOUGH_FOR_P90: u64 = 10;

/// A line of the table, in nanoseconds or plain numbers.
struct Row<'a> {
    name: &'static str,
    column: &'a Column,
    is_time: bool,
    ink: Ink,
}

impl<'a> Row<'a> {
    const fn time(name: &'static str, column: &'a Column, ink: Ink) -> Self {
        Self { name, column, is_time: true, ink }
    }

    fn figure(&self, value: f64, scale: Scale) -> String {
        if self.is_time {
            return scale.time_figure(Duration::from_nanos(value.round() as u64));
        }
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    }
}

fn warmup(warmup: &Warmup, style: &Style) -> String {
    let what = match warmup {
        Warmup::Failed(failure) => format!("failed: {}", style.safe(failure)),
        Warmup::Took { total, round_trips } => {
            let scale = Scale::for_largest(*total);
            let trips = count(u64::from(*round_trips), "round trip");
            format!("total {}, {trips}", scale.time(*total, style))
        }
    };
    format!("{} {what} (not counted)", style.paint(Ink::Faint, "warm-up"))
}

/// The median total of the pooled samples, for a one-line summary.
pub fn median_total(samples: &[Sample]) -> Option<Duration> {
    let pooled = samples.iter().filter(|s| !s.warmup && s.failure().is_none());
    let totals: Vec<f64> = pooled.map(|s| visit_time(s).as_nanos() as f64).collect();
    median(&totals).map(|ns| Duration::from_nanos(ns.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn two_urls_give_two_tables() {
        let text = table(&fixtures::run(10), &Style::default());
        assert_eq!(text.matches("first byte").count(), 2);
        assert_eq!(text.matches("(not counted)").count(), 2);
        assert!(text.contains("10 samples · 2 failed"));
        assert!(text.contains("failed  2 × connect: no answer from 198.51.100.7:443 within 2 s"));
        assert!(text.contains("max") && !text.contains("p99"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn p99_needs_a_hundred_samples() {
        let text = table(&fixtures::run(100), &Style::default());
        assert!(text.contains("p90      p99\n") && !text.contains("p90      max"));
        assert_eq!(text.matches("total   mean").count(), 2);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_median_is_what_the_statistics_say() {
        let samples: Vec<Sample> =
            fixtures::run(11).into_iter().filter(|s| s.requested_url.contains("sydney")).collect();
        // Delays of (37 i mod 101) × 60 µs for i < 11; the median is 47 × 60 µs.
        assert_eq!(median_total(&samples), Some(Duration::from_micros(347_020 + 47 * 60)));
        let text = table(&samples, &Style::default());
        assert!(text.contains("median  349.8 ms = resolver 2.1 ms + 4 round trips × 81.1 ms"));
    }

    #[test]
    fn redirects_are_part_of_the_total() {
        let mut samples = vec![fixtures::redirects(); 3];
        samples[2].redirects.clear();
        let text = table(&samples, &Style::default());
        let line = text.lines().find(|l| l.starts_with("redirects")).unwrap();
        let figures: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(figures[1], "2", "{text}");
        // 87.03 ms at the resolution of the total.
        assert_eq!(figures[3], "87.0", "{text}");
        let total = text.lines().find(|l| l.starts_with("total")).unwrap();
        let figures: Vec<&str> = total.split_whitespace().collect();
        // Minimum without redirects, median with them.
        assert_eq!(figures[2..4], ["347.0", "434.1"], "{text}");
        assert!(
            text.contains("median  434.1 ms = redirects 87.1 ms + resolver 2.1 ms +"),
            "{text}"
        );
        assert!(!table(&samples[2..], &Style::default()).contains("redirects"));
    }

    #[test]
    fn unlike_answers_are_told_with_their_table() {
        let answered = |status: u16, bytes: u64| {
            let mut sample = fixtures::run(1).swap_remove(0);
            let http = sample.connection.facts.http.get_or_insert_default();
            (http.status, http.body_bytes) = (Some(status), Some(bytes));
            sample
        };
        let render = |samples: &[Sample]| {
            let mut tables = Tables::new(1);
            samples.iter().for_each(|sample| tables.take(sample));
            (tables.render(&Style::default()), tables.list_unlike_answers())
        };
        let mut samples = [vec![answered(200, 5); 6], vec![answered(429, 0); 6]].concat();
        samples.iter_mut().for_each(|sample| sample.warmup = false);
        let (text, unlike) = render(&samples);
        let answers = "6 with status 200, 6 with status 429, 0 to 5 bytes";
        assert!(text.contains(&format!("\nanswers  {answers} (their times")), "{text}");
        assert!(unlike.len() == 1 && unlike[0].ends_with(answers), "{unlike:?}");
        // Identical answers are listed if they are errors.
        let (text, unlike) = render(&samples[6..]);
        assert!(text.contains("\nanswers  6 with status 429, 0 bytes\n"), "{text}");
        assert_eq!(unlike, [""; 0]);
        let (text, unlike) = render(&samples[..6]);
        assert!(!text.contains("answers") && unlike.is_empty(), "{text}");
    }

    #[test]
    fn failures_alone_have_no_percentiles() {
        let text = table(&[fixtures::expired_certificate()], &Style::default());
        assert!(!text.contains("p50"));
        assert!(text.contains("0 samples · 1 failed"));
        assert!(text.contains("failed  1 × tls: certificate expired"));
        assert_eq!(table(&[], &Style::default()), "");
    }

    #[test]
    fn fits_the_width_and_colours_only_dress() {
        for samples in [fixtures::run(3), fixtures::run(20), fixtures::all()] {
            for width in [60, 80, 120] {
                let plain = Style { width, ..Style::default() };
                let text = table(&samples, &plain);
                for line in text.lines().filter(|l| !l.starts_with("failed  ")) {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
                let colored = table(&samples, &Style { color: true, ..plain });
                assert_eq!(fixtures::undressed(&colored), text);
            }
        }
    }
}
