//! What has to come out of a study, and whether it did.

use std::collections::BTreeMap;
use std::fmt::Write;

use firstbyte_core::compare::Table;
use firstbyte_core::run::{Cell, Metric};
use firstbyte_core::stats::{Estimate, median_estimate, paired_effect};
use firstbyte_core::toml_errors::describe_toml_message;
use firstbyte_core::units::{BareShare, parse_share};
use serde::Deserialize;

use crate::cli::plan::quantities::nanoseconds;

/// An expectation, as written in a plan. Every field is described in `docs/plans.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Expectation {
    /// What it says, for people.
    pub say: String,
    pub metric: String,
    /// Of the cells with these values.
    pub of: BTreeMap<String, String>,
    /// Compared with the cells that have these values instead.
    #[serde(default)]
    pub against: BTreeMap<String, String>,
    /// The change's bounds, shares or times; for `against`.
    pub change: Option<[String; 2]>,
    /// The median's bounds.
    pub median: Option<[String; 2]>,
    /// A median that others found, shown beside.
    pub published: Option<String>,
    /// How far from it is near enough, as a share and as a time: the larger one counts.
    #[serde(default)]
    pub within: Vec<String>,
}

/// An expectation held against the cells it is about.
pub(super) struct Outcome {
    pub say: String,
    pub lines: Vec<Line>,
}

pub(super) struct Line {
    pub cell: String,
    pub measured: String,
    pub expected: String,
    pub came_true: bool,
}

/// A bound: a share or a time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Share(f64),
    Nanoseconds(f64),
}

impl Bound {
    fn read(text: &str) -> Result<Self, String> {
        let (sign, rest) = match text.trim().strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text.trim().trim_start_matches('+')),
        };
        let share = parse_share(rest, BareShare::Refused).map(|share| Self::Share(sign * share));
        let time = || nanoseconds(rest).map(|ns| Self::Nanoseconds(sign * ns));
        share.or_else(|_| time()).map_err(|_| not_a_bound(text))
    }
}

fn not_a_bound(text: &str) -> String {
    format!("{text:?} is neither a share such as -50 % nor a time such as 12.1 ms")
}

impl Expectation {
    /// Reads the expectations of a plan.
    pub(in crate::cli) fn read(tables: &[toml::Table]) -> Result<Vec<Self>, String> {
        let read = |table: &toml::Table| {
            let expectation: Self = table.clone().try_into().map_err(|e: toml::de::Error| {
                format!("[[expect]]: {}", describe_toml_message(e.message(), None))
            })?;
            expectation.check()?;
            Ok(expectation)
        };
        tables.iter().map(read).collect()
    }

    fn check(&self) -> Result<(), String> {
        let about = |why: String| format!("expect {:?}: {why}", self.say);
        self.metric().map_err(about)?;
        let bounds = self.change.iter().chain(&self.median).flatten();
        for text in bounds.chain(&self.published).chain(&self.within) {
            Bound::read(text).map_err(about)?;
        }
        match (&self.change, &self.median, &self.published) {
            (Some(_), None, None) if !self.against.is_empty() => Ok(()),
            (None, Some(_), None) | (None, None, Some(_)) => Ok(()),
            _ => Err(about("one of change (with against), median, published is needed".into())),
        }
    }

    fn metric(&self) -> Result<Metric, String> {
        Metric::named(&self.metric).ok_or_else(|| format!("no metric is called {:?}", self.metric))
    }

    /// Holds it against the cells it is about.
    pub(super) fn hold(&self, cells: &[Cell], table: &Table) -> Outcome {
        let mut outcome = Outcome { say: self.say.clone(), lines: Vec::new() };
        let Ok(metric) = self.metric() else { return outcome };
        for (index, cell) in cells.iter().enumerate() {
            if cell.twin_of.is_some() || !has(cell, &self.of) {
                continue;
            }
            let line = if self.against.is_empty() {
                let median = median_estimate(&table.values(index, metric));
                self.hold_median(cell, median)
            } else {
                let Some(base) = cells.iter().position(|other| self.is_base(cell, other)) else {
                    continue;
                };
                let (before, after) = table.paired(base, index, metric);
                self.hold_change(cell, &before, &after)
            };
            outcome.lines.push(line);
        }
        outcome
    }

    /// Whether `other` is what `cell` is compared with: as `against` says, and else the same.
    fn is_base(&self, cell: &Cell, other: &Cell) -> bool {
        let same = |factor: &firstbyte_core::run::Factor| {
            self.against.contains_key(&factor.axis) || other.factors.contains(factor)
        };
        other.twin_of.is_none() && has(other, &self.against) && cell.factors.iter().all(same)
    }

    fn hold_median(&self, cell: &Cell, median: Option<Estimate>) -> Line {
        let measured = median.as_ref().map_or("nothing".into(), milliseconds);
        let value = median.map(|median| median.value);
        let (expected, came_true) = match (&self.median, &self.published) {
            (Some([low, high]), _) => {
                let inside = |ns: f64| at_least(ns, low) && at_most(ns, high);
                (format!("{low} to {high}"), value.is_some_and(inside))
            }
            (None, Some(published)) => {
                let near = value.is_some_and(|ns| self.is_near(ns, published));
                (format!("{published} published"), near)
            }
            (None, None) => (String::new(), false),
        };
        Line { cell: cell.name(), measured, expected, came_true }
    }

    /// Whether `ns` is as near to `published` as has to be; always, where nothing is asked.
    fn is_near(&self, ns: f64, published: &str) -> bool {
        let Ok(Bound::Nanoseconds(published)) = Bound::read(published) else { return false };
        let allowed =
            self.within.iter().filter_map(|text| Bound::read(text).ok()).map(|bound| match bound {
                Bound::Share(share) => share * published,
                Bound::Nanoseconds(ns) => ns,
            });
        allowed.reduce(f64::max).is_none_or(|allowed| (ns - published).abs() <= allowed)
    }

    fn hold_change(&self, cell: &Cell, before: &[f64], after: &[f64]) -> Line {
        let effect = paired_effect(before, after, 1);
        let [low, high] = self.change.clone().unwrap_or_default();
        let shares = low.trim().ends_with('%');
        let estimate = effect.and_then(|e| if shares { e.relative } else { Some(e.difference) });
        let inside = estimate.is_some_and(|e| at_least(e.value, &low) && at_most(e.value, &high));
        let measured = estimate.as_ref().map_or("nothing".into(), |estimate| {
            if shares { percent(estimate) } else { milliseconds(estimate) }
        });
        let expected = format!("{low} to {high}");
        Line { cell: cell.name(), measured, expected, came_true: inside }
    }
}

fn has(cell: &Cell, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(axis, value)| {
        cell.factors.iter().any(|f| f.axis == *axis && (f.value == *value || f.label == *value))
    })
}

fn at_least(value: f64, bound: &str) -> bool {
    number(bound).is_some_and(|bound| value >= bound)
}

fn at_most(value: f64, bound: &str) -> bool {
    number(bound).is_some_and(|bound| value <= bound)
}

fn number(bound: &str) -> Option<f64> {
    match Bound::read(bound).ok()? {
        Bound::Share(number) | Bound::Nanoseconds(number) => Some(number),
    }
}

fn milliseconds(estimate: &Estimate) -> String {
    let mut text = format!("{:.2} ms", estimate.value / 1e6);
    if let Some(interval) = estimate.interval {
        let _ = write!(text, " ({:.2} to {:.2})", interval.low / 1e6, interval.high / 1e6);
    }
    text
}

fn percent(estimate: &Estimate) -> String {
    let mut text = format!("{:+.1} %", estimate.value * 100.0);
    if let Some(interval) = estimate.interval {
        let _ = write!(text, " ({:+.1} to {:+.1})", interval.low * 100.0, interval.high * 100.0);
    }
    text
}

impl Outcome {
    /// Whether it came out for every cell, and there was one.
    pub(super) fn came_true(&self) -> bool {
        !self.lines.is_empty() && self.lines.iter().all(|line| line.came_true)
    }

    /// In words, at most `width` wide where the names allow it.
    pub(super) fn text(&self, unicode: bool) -> String {
        let sign = |came_true: bool| match (came_true, unicode) {
            (true, true) => "✓",
            (false, true) => "✗",
            (true, false) => "ok",
            (false, false) => "NO",
        };
        let mut text = format!("{} {}\n", sign(self.came_true()), self.say);
        if self.lines.is_empty() {
            text.push_str("    there is no way to connect that it is about\n");
        }
        let longest = |column: fn(&Line) -> &str| {
            self.lines.iter().map(|line| column(line).chars().count()).max().unwrap_or(0)
        };
        let (cells, measured) = (longest(|l| &l.cell), longest(|l| &l.measured));
        for line in &self.lines {
            let mark = if line.came_true { "" } else { "  <- not so" };
            let _ = writeln!(
                text,
                "    {:<cells$}  {:>measured$}  expected {}{mark}",
                line.cell, line.measured, line.expected
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::run::{Factor, Metrics, Row, Standing};

    use super::*;

    fn cell(value: &str) -> Cell {
        let factor =
            Factor { axis: "tls".into(), value: value.into(), label: format!("TLS {value}") };
        Cell { factors: vec![factor], ..Cell::default() }
    }

    fn table(medians: [u64; 2]) -> Table {
        let rows = (0..40u32).flat_map(|round| {
            medians.map(|ms| (round, ms)).into_iter().enumerate().map(|(cell, (round, ms))| {
                let mut metrics = Metrics::default();
                metrics.set_ns(Metric::Tls, ms * 1_000_000 + u64::from(round % 7) * 1_000);
                Row {
                    cell: cell as u16,
                    round,
                    warmup: false,
                    standing: Standing::Proven,
                    started_unix_ns: 0,
                    lateness_ns: 0,
                    metrics,
                }
            })
        });
        Table::from_rows(2, &rows.collect::<Vec<_>>())
    }

    fn expectation(text: &str) -> Expectation {
        Expectation::read(&[toml::from_str(text).unwrap()]).unwrap().remove(0)
    }

    #[test]
    fn a_change_is_held_against_its_bounds() {
        let halves = expectation(
            "say = 'halves'\nmetric = 'tls'\nof = { tls = '1.3' }\nagainst = { tls = '1.2' }\n\
             change = ['-55 %', '-45 %']",
        );
        let cells = [cell("1.2"), cell("1.3")];
        assert!(halves.hold(&cells, &table([100, 50])).came_true());
        let not_so = halves.hold(&cells, &table([100, 80]));
        assert!(!not_so.came_true());
        assert!(not_so.text(true).contains("-20.0 %"), "{}", not_so.text(true));
        assert!(!halves.hold(&cells[..1], &table([100, 50])).came_true());
    }

    #[test]
    fn a_published_median_is_near_by_the_larger_allowance() {
        let published = expectation(
            "say = 'as published'\nmetric = 'tls'\nof = { tls = '1.2' }\npublished = '12.1 ms'\n\
             within = ['2 %', '1 ms']",
        );
        assert!(published.hold(&[cell("1.2")], &table([13, 1])).came_true());
        assert!(!published.hold(&[cell("1.2")], &table([14, 1])).came_true());
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let bad = "say = 'x'\nmetric = 'tls'\nof = {}\nchange = ['-1 %', '1 %']";
        assert!(Expectation::read(&[toml::from_str(bad).unwrap()]).is_err());
    }
}
