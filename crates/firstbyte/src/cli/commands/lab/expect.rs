//! Figures of a study: what was published or is expected, held against what was measured.
//!
//! In: `[[expect]]` of a plan, the run's variants and its rows. Out: [`StoryFigure`]s, each of them judged. How they are shown
//! is the story's.

use std::collections::BTreeMap;

use firstbyte_core::compare::Table;
use firstbyte_core::run::{Cell, Factor, Metric};
use firstbyte_core::stats::{self, median_estimate, paired_effect};
use firstbyte_core::units::{BareShare, parse_share};
use firstbyte_report::study::{
    Estimate, FigureUnit, MeasuredFigure, PublishedFigure, StoryFigure,
};
use serde::Deserialize;

use crate::cli::plan::quantities::nanoseconds;

/// An expectation, as written in a plan. Every field is described in `docs/plans.md`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Expectation {
    /// The figure's name, for people.
    pub say: String,
    pub metric: String,
    /// Of the variants with these values: one of them each, or several with commas between.
    pub of: BTreeMap<String, String>,
    /// Compared with the variants that have these values instead.
    #[serde(default)]
    pub against: BTreeMap<String, String>,
    /// The change's bounds, shares or times; for `against`.
    pub change: Option<[String; 2]>,
    /// The median's bounds.
    pub median: Option<[String; 2]>,
    /// What others found: a value, or "A to B".
    pub published: Option<String>,
    /// How far from it is near enough, as a share and as a time: the larger one counts.
    #[serde(default)]
    pub within: Vec<String>,
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

    const fn number(self) -> f64 {
        match self {
            Self::Share(number) | Self::Nanoseconds(number) => number,
        }
    }
}

fn not_a_bound(text: &str) -> String {
    format!("{text:?} is neither a share such as -50 % nor a time such as 12.1 ms")
}

/// Both ends of "A to B"; of one value, that value twice.
fn ends(published: &str) -> Result<[Bound; 2], String> {
    let (low, high) = published.split_once(" to ").unwrap_or((published, published));
    Ok([Bound::read(low)?, Bound::read(high)?])
}

impl Expectation {
    /// Reads the expectations of a plan.
    pub(in crate::cli) fn read(tables: &[toml::Table]) -> Result<Vec<Self>, String> {
        let read = |table: &toml::Table| {
            let expectation: Self =
                table.clone().try_into().map_err(|e: toml::de::Error| e.message().to_owned())?;
            expectation.check()?;
            Ok(expectation)
        };
        tables.iter().map(read).collect()
    }

    fn check(&self) -> Result<(), String> {
        let about = |why: String| format!("expect {:?}: {why}", self.say);
        self.metric().map_err(about)?;
        for text in self.change.iter().chain(&self.median).flatten().chain(&self.within) {
            Bound::read(text).map_err(about)?;
        }
        if let Some(published) = &self.published {
            ends(published).map_err(about)?;
        }
        match (&self.change, &self.median, self.against.is_empty()) {
            (Some(_), None, false) | (None, Some(_), true) => Ok(()),
            (None, None, _) if self.published.is_some() => Ok(()),
            _ => Err(about("one of change (with against), median, published is needed".into())),
        }
    }

    fn metric(&self) -> Result<Metric, String> {
        Metric::named(&self.metric).ok_or_else(|| format!("no metric is called {:?}", self.metric))
    }

    /// Its figures: one of each variant that it is about, also of those that were left out, and why.
    pub(super) fn judge(
        &self,
        cells: &[Cell],
        left_out: &[(Cell, String)],
        table: &Table,
    ) -> Vec<StoryFigure> {
        let Ok(metric) = self.metric() else { return Vec::new() };
        let mut figures = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if cell.twin_of.is_some() || !has(cell, &self.of) {
                continue;
            }
            let estimate = if self.against.is_empty() {
                median_estimate(&table.values(index, metric))
            } else {
                let Some(base) = cells.iter().position(|other| self.is_base(cell, other)) else {
                    continue;
                };
                let (before, after) = table.paired(base, index, metric);
                self.change(&before, &after)
            };
            let estimate = estimate.map(|e| Estimate { value: e.value, interval: e.interval });
            let measured = MeasuredFigure::judge(estimate, |value| self.reproduced_by(value));
            figures.push(self.figure(self.variant(cell), measured));
        }
        for (cell, why) in left_out.iter().filter(|(cell, _)| has(cell, &self.of)) {
            let measured = MeasuredFigure::Unavailable(why.clone());
            figures.push(self.figure(self.variant(cell), measured));
        }
        if figures.is_empty() {
            figures.push(self.figure(String::new(), MeasuredFigure::Missed(None)));
        }
        figures
    }

    fn figure(&self, variant: String, measured: MeasuredFigure) -> StoryFigure {
        let (name, unit, published) = (self.say.clone(), self.unit(), self.published());
        StoryFigure { name, variant, unit, published, measured }
    }

    /// What sets `cell` apart from others that the figure is about. Clients are always named: each has its panel.
    fn variant(&self, cell: &Cell) -> String {
        let apart = |factor: &&Factor| {
            let axis = &factor.axis;
            axis == "client" || !(self.of.contains_key(axis) || self.against.contains_key(axis))
        };
        let labels: Vec<&str> =
            cell.factors.iter().filter(apart).map(|factor| factor.label.as_str()).collect();
        labels.join(", ")
    }

    /// Whether `other` is what `cell` is compared with: as `against` says, and else the same.
    fn is_base(&self, cell: &Cell, other: &Cell) -> bool {
        let same = |factor: &Factor| {
            self.against.contains_key(&factor.axis) || other.factors.contains(factor)
        };
        other.twin_of.is_none() && has(other, &self.against) && cell.factors.iter().all(same)
    }

    fn change(&self, before: &[f64], after: &[f64]) -> Option<stats::Estimate> {
        let effect = paired_effect(before, after, 1)?;
        match self.unit() {
            FigureUnit::ShareChange => effect.relative,
            _ => Some(effect.difference),
        }
    }

    /// The bounds that the measured figure has to be within.
    fn bounds(&self) -> Option<[Bound; 2]> {
        if let Some([low, high]) = self.change.as_ref().or(self.median.as_ref()) {
            return Some([Bound::read(low).ok()?, Bound::read(high).ok()?]);
        }
        ends(self.published.as_deref()?).ok()
    }

    fn unit(&self) -> FigureUnit {
        match (self.bounds(), self.against.is_empty()) {
            (Some([Bound::Share(_), _]), _) => FigureUnit::ShareChange,
            (_, false) => FigureUnit::TimeChange,
            (_, true) => FigureUnit::Time,
        }
    }

    /// Whether `value` is within the bounds, or as near to what was published as has to be.
    fn reproduced_by(&self, value: f64) -> bool {
        let Some([low, high]) = self.bounds().map(|ends| ends.map(Bound::number)) else {
            return false;
        };
        let allowed =
            self.within.iter().filter_map(|text| Bound::read(text).ok()).map(|bound| match bound {
                Bound::Share(share) => share * low.abs(),
                Bound::Nanoseconds(ns) => ns,
            });
        match allowed.reduce(f64::max) {
            Some(allowed) => (low - allowed..=high + allowed).contains(&value),
            // One value, and nothing says how near is near enough.
            None if low == high => true,
            None => (low..=high).contains(&value),
        }
    }

    fn published(&self) -> PublishedFigure {
        let own = || self.change.as_ref().or(self.median.as_ref());
        let own = || own().map(|[low, high]| format!("{low} to {high}"));
        let text = self.published.clone().or_else(own).unwrap_or_default();
        let [low, high] = ends(&text).map_or([0.0; 2], |ends| ends.map(Bound::number));
        PublishedFigure { text, low, high, is_own_bound: self.published.is_none() }
    }
}

fn has(cell: &Cell, wanted: &BTreeMap<String, String>) -> bool {
    let is_one = |f: &Factor, values: &str| {
        f.value == values || values.split(',').any(|v| f.value == v.trim() || f.label == v.trim())
    };
    wanted.iter().all(|(axis, values)| {
        cell.factors.iter().any(|factor| factor.axis == *axis && is_one(factor, values))
    })
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
        let judged = |cells: &[Cell], medians| halves.judge(cells, &[], &table(medians)).remove(0);
        let found = judged(&cells, [100, 50]);
        assert!(matches!(found.measured, MeasuredFigure::Reproduced(_)), "{found:?}");
        assert_eq!((found.unit, found.variant.as_str()), (FigureUnit::ShareChange, ""));
        let MeasuredFigure::Missed(Some(missed)) = judged(&cells, [100, 80]).measured else {
            panic!("-20 % is not within -55 to -45 %");
        };
        assert!((missed.value + 0.2).abs() < 0.001, "{missed:?}");
        assert_eq!(judged(&cells[..1], [100, 50]).measured, MeasuredFigure::Missed(None));
        // One that cannot be measured is neither.
        let left_out = [(cell("1.3"), "too old".to_owned())];
        let figures = halves.judge(&cells[..1], &left_out, &table([100, 50]));
        assert_eq!(figures[0].measured, MeasuredFigure::Unavailable("too old".to_owned()));
    }

    #[test]
    fn a_published_median_is_near_by_the_larger_allowance() {
        let published = expectation(
            "say = 'as published'\nmetric = 'tls'\nof = { tls = '1.2' }\npublished = '12.1 ms'\n\
             within = ['2 %', '1 ms']",
        );
        let judged = |ms| published.judge(&[cell("1.2")], &[], &table([ms, 1])).remove(0);
        assert!(matches!(judged(13).measured, MeasuredFigure::Reproduced(_)));
        assert!(matches!(judged(14).measured, MeasuredFigure::Missed(Some(_))));
        assert!(!judged(13).published.is_own_bound);
    }

    #[test]
    fn what_was_published_may_be_a_range_and_a_variant_one_of_several() {
        let range = expectation(
            "say = 'x'\nmetric = 'tls'\nof = { tls = '1.3' }\nagainst = { tls = '1.2' }\n\
             published = '-30 % to -10 %'",
        );
        let [inside, outside] = [80, 60].map(|ms| {
            range.judge(&[cell("1.2"), cell("1.3")], &[], &table([100, ms])).remove(0).measured
        });
        assert!(matches!(inside, MeasuredFigure::Reproduced(_)), "{inside:?}");
        assert!(matches!(outside, MeasuredFigure::Missed(Some(_))), "{outside:?}");
        let wanted = BTreeMap::from([("tls".to_owned(), "1.2, 1.3".to_owned())]);
        assert!(has(&cell("1.3"), &wanted) && !has(&cell("1.1"), &wanted));
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let bad = "say = 'x'\nmetric = 'tls'\nof = {}\nchange = ['-1 %', '1 %']";
        assert!(Expectation::read(&[toml::from_str(bad).unwrap()]).is_err());
    }
}
