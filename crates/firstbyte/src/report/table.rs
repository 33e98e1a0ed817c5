//! Many samples: percentiles per URL, and where the median went.
//!
//! Warm-up samples and failures are counted and shown apart; only samples that came to their end
//! are pooled. Quantiles are those of `firstbyte_core::stats`.

use std::time::Duration;

use firstbyte_core::run::{redirect_time, visit_time};
use firstbyte_core::split::Split;
use firstbyte_core::stats::{median, quantile};
use firstbyte_core::timeline::{Mark, Offset, PhaseName, Sample};

use super::equation::Ledger;
use super::style::{Ink, Style, wrap};
use super::units::{Scale, count};
use crate::probe::shown_url::shown_url;

/// A table for each URL that was asked for, in the order in which they first appear.
pub fn table(samples: &[Sample], style: &Style) -> String {
    let mut urls: Vec<&str> = Vec::new();
    for sample in samples {
        if !urls.contains(&sample.requested_url.as_str()) {
            urls.push(&sample.requested_url);
        }
    }
    let tables: Vec<String> =
        urls.iter().map(|url| Group::of(url, samples).lines(style).join("\n")).collect();
    tables.join("\n\n") + if tables.is_empty() { "" } else { "\n" }
}

/// The samples of one URL.
struct Group<'a> {
    url: &'a str,
    pooled: Vec<Measured<'a>>,
    warmups: Vec<&'a Sample>,
    failed: Vec<&'a Sample>,
}

struct Measured<'a> {
    sample: &'a Sample,
    /// Of the last connection.
    split: Split,
    /// What the connections before it took.
    redirects: Duration,
}

impl Measured<'_> {
    /// Of the visit.
    fn total(&self) -> Duration {
        self.redirects + self.split.total()
    }
}

impl<'a> Group<'a> {
    fn of(url: &'a str, samples: &'a [Sample]) -> Self {
        let all = || samples.iter().filter(|s| s.requested_url == url);
        Self {
            url,
            pooled: all()
                .filter(|s| !s.warmup && s.failure().is_none())
                .map(|sample| Measured {
                    sample,
                    split: Split::of(&sample.connection),
                    redirects: redirect_time(sample),
                })
                .collect(),
            warmups: all().filter(|s| s.warmup).collect(),
            failed: all().filter(|s| !s.warmup && s.failure().is_some()).collect(),
        }
    }

    fn lines(&self, style: &Style) -> Vec<String> {
        let mut lines = self.header(style);
        if !self.pooled.is_empty() {
            lines.push(String::new());
            lines.extend(self.percentiles(style));
            lines.push(String::new());
            lines.extend(self.median_sample(style));
        }
        let apart: Vec<String> =
            self.warmups.iter().map(|s| warmup(s, style)).chain(self.failures(style)).collect();
        if !apart.is_empty() {
            lines.push(String::new());
            lines.extend(apart);
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    fn header(&self, style: &Style) -> Vec<String> {
        let url = style.safe(&shown_url(self.url));
        let right = count(self.pooled.len() as u64, "sample");
        let failed = match self.failed.len() {
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

    /// Phases, first byte and total; below them what the total consists of; below those the path.
    fn percentiles(&self, style: &Style) -> Vec<String> {
        let totals: Vec<Duration> = self.pooled.iter().map(Measured::total).collect();
        let scale = Scale::for_largest(totals.iter().max().copied().unwrap_or_default());
        let mut sections = vec![self.phases(&totals), self.parts(), self.path()];
        sections.retain(|section| !section.is_empty());
        let numbers: Vec<Vec<[String; 5]>> = sections
            .iter()
            .map(|rows| {
                let figures = |row: &Row| row.figures(self.pooled.len(), scale, style);
                rows.iter().map(figures).collect()
            })
            .collect();
        let last = if self.pooled.len() >= ENOUGH_FOR_P99 { "p99" } else { "max" };
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
        lines
    }

    fn phases(&self, totals: &[Duration]) -> Vec<Row> {
        // Connections of their own, before the one that the phases are of.
        let redirected = self.pooled.iter().filter(|m| !m.sample.redirects.is_empty());
        let mut rows: Vec<Row> =
            Row::times("redirects", redirected.map(|m| m.redirects), Ink::Plain)
                .into_iter()
                .collect();
        rows.extend(PhaseName::ALL.into_iter().filter_map(|name| {
            let durations = self.pooled.iter().filter_map(|m| m.split.phase(name));
            Row::times(name.name(), durations.map(|p| p.phase.duration()), Ink::Plain)
        }));
        let first_bytes = self.pooled.iter().filter_map(|m| {
            let at = m.sample.connection.marks.at(Mark::ResponseStart)?;
            Some(m.redirects + at.since(Offset::ZERO))
        });
        rows.extend(Row::times("first byte", first_bytes, Ink::Strong));
        rows.extend(Row::times("total", totals.iter().copied(), Ink::Strong));
        rows
    }

    fn parts(&self) -> Vec<Row> {
        let names = firstbyte_core::split::Parts::default().named().map(|(name, _)| name);
        names
            .into_iter()
            .enumerate()
            .filter_map(|(i, name)| {
                let durations: Vec<Duration> =
                    self.pooled.iter().map(|m| m.split.parts.named()[i].1).collect();
                let happened = durations.iter().any(|d| !d.is_zero());
                happened.then(|| Row::times(name, durations.into_iter(), Ink::Plain)).flatten()
            })
            .collect()
    }

    fn path(&self) -> Vec<Row> {
        let rtt = Row::times("rtt", self.pooled.iter().filter_map(|m| m.split.rtt), Ink::Plain);
        let trips = self.pooled.iter().map(|m| f64::from(m.split.round_trips)).collect();
        rtt.into_iter().chain(Row::of("round trips", trips, false, Ink::Plain)).collect()
    }

    /// The parts' medians need not add up; those of one sample do. This is the one in the middle.
    fn median_sample(&self, style: &Style) -> Option<String> {
        let mut by_total: Vec<&Measured<'_>> = self.pooled.iter().collect();
        by_total.sort_by_key(|m| (m.total(), m.sample.sequence));
        let middle = by_total.get((by_total.len() - 1) / 2)?;
        let ledger = Ledger::of(&middle.split);
        let total = ledger.scale.steps(middle.total());
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
        Some(format!(
            "{}\n{}",
            lines.join("\n"),
            style.paint(
                Ink::Faint,
                &format!("        (sample {}, in the middle by total)", middle.sample.sequence)
            )
        ))
    }

    /// Each cause and how often, the most frequent first.
    fn failures(&self, style: &Style) -> Vec<String> {
        let mut causes: Vec<(String, usize)> = Vec::new();
        for failure in self.failed.iter().filter_map(|s| s.failure()) {
            let cause = style.safe(&failure.to_string());
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, n)) => *n += 1,
                None => causes.push((cause, 1)),
            }
        }
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        causes
            .into_iter()
            .map(|(cause, n)| {
                let times = style.glyph("×", "x");
                let label = style.paint(Ink::Loss, &format!("failed  {n} {times}"));
                format!("{label} {cause}")
            })
            .collect()
    }
}

const NAME_WIDTH: usize = 12;

/// Below this many values the 99th percentile is the largest under another name, and that is shown.
const ENOUGH_FOR_P99: usize = 100;
/// The same of the 90th.
const ENOUGH_FOR_P90: usize = 10;

/// A line of the table: sorted values, nanoseconds or plain numbers.
struct Row {
    name: &'static str,
    sorted: Vec<f64>,
    is_time: bool,
    ink: Ink,
}

impl Row {
    fn times(
        name: &'static str,
        durations: impl Iterator<Item = Duration>,
        ink: Ink,
    ) -> Option<Self> {
        Self::of(name, durations.map(|d| d.as_nanos() as f64).collect(), true, ink)
    }

    fn of(name: &'static str, mut values: Vec<f64>, is_time: bool, ink: Ink) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self { name, sorted: values, is_time, ink })
    }

    /// n, minimum, p50, p90, and p99 or the maximum.
    fn figures(&self, pooled: usize, scale: Scale, style: &Style) -> [String; 5] {
        let last = if pooled >= ENOUGH_FOR_P99 { 0.99 } else { 1.0 };
        let [min, p50, p90, last] = [0.0, 0.5, 0.9, last].map(|q| self.figure(q, scale));
        let p90 = if pooled >= ENOUGH_FOR_P90 { p90 } else { style.glyph("–", "-").into() };
        [self.sorted.len().to_string(), min, p50, p90, last]
    }

    fn figure(&self, q: f64, scale: Scale) -> String {
        let value = quantile(&self.sorted, q).unwrap_or_default();
        if self.is_time {
            return scale.time_figure(Duration::from_nanos(value.round() as u64));
        }
        let text = format!("{value:.1}");
        text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
    }
}

fn warmup(sample: &Sample, style: &Style) -> String {
    let what = match sample.failure() {
        Some(failure) => format!("failed: {}", style.safe(&failure.to_string())),
        None => {
            let split = Split::of(&sample.connection);
            let total = visit_time(sample);
            let scale = Scale::for_largest(total);
            let trips = count(u64::from(split.round_trips), "round trip");
            format!("total {}, {trips}", scale.time(total, style))
        }
    };
    format!("{} {what} (not pooled)", style.paint(Ink::Faint, "warm-up"))
}

/// The median total of the samples that are pooled, for a one-line summary.
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
        assert_eq!(text.matches("(not pooled)").count(), 2);
        assert!(text.contains("10 samples · 2 failed"));
        assert!(text.contains("failed  2 × connect: no answer from 198.51.100.7:443 within 2 s"));
        assert!(text.contains("max") && !text.contains("p99"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn p99_needs_a_hundred_samples() {
        let text = table(&fixtures::run(100), &Style::default());
        assert!(text.contains("p99") && !text.contains("max"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_median_is_what_the_statistics_say() {
        let samples: Vec<Sample> =
            fixtures::run(11).into_iter().filter(|s| s.requested_url.contains("sydney")).collect();
        // Delays of 37 i mod 101 times 60 µs, i < 11: the middle one is 47.
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
        // 87.03 ms with the resolution of the total.
        assert_eq!(figures[3], "87.0", "{text}");
        let total = text.lines().find(|l| l.starts_with("total")).unwrap();
        let figures: Vec<&str> = total.split_whitespace().collect();
        // Least without redirects, median with them.
        assert_eq!(figures[2..4], ["347.0", "434.1"], "{text}");
        assert!(
            text.contains("median  434.1 ms = redirects 87.1 ms + resolver 2.1 ms +"),
            "{text}"
        );
        assert!(!table(&samples[2..], &Style::default()).contains("redirects"));
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
        for samples in [fixtures::run(3), fixtures::all()] {
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
