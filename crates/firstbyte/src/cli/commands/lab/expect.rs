//! Figures of a study: published or expected values, compared with measured ones.
//!
//! In: `[[expect]]` of a plan, and measurements of each variant. Out: [`StoryFigure`]s, each judged. The story
//! decides how they are shown.

use std::collections::BTreeMap;

use firstbyte_core::compare::Table;
use firstbyte_core::run::{Cell, Factor, Metric, Taken};
use firstbyte_core::stats::{self, median_estimate, paired_effect};
use firstbyte_core::toml_errors::describe_toml_message;
use firstbyte_core::units::{BareShare, parse_share};
use firstbyte_report::study::{Estimate, FigureUnit, MeasuredFigure, PublishedFigure, StoryFigure};
use serde::Deserialize;

use crate::cli::plan::quantities::nanoseconds;
use crate::runs::{Dataset, RunError};

/// An expectation as written in a plan. `docs/plans.md` describes every field.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Expectation {
    /// The figure's name, for people.
    pub say: String,
    /// One of our metrics.
    pub metric: Option<String>,
    /// Alternatively, a name from the client's own network panel.
    pub panel: Option<String>,
    /// Selects variants by these values: one value per axis, or several separated by commas.
    pub of: BTreeMap<String, String>,
    /// Compares them with the variants that have these values instead.
    #[serde(default)]
    pub against: BTreeMap<String, String>,
    /// Bounds of the change, as shares or times; used with `against`.
    pub change: Option<[String; 2]>,
    /// Bounds of the median.
    pub median: Option<[String; 2]>,
    /// The published value, or "A to B".
    pub published: Option<String>,
    /// Tolerance around the published value, as a share and as a time; the larger one applies.
    #[serde(default)]
    pub within: Vec<String>,
}

pub(super) struct StudyMeasurements<'a> {
    cells: &'a [Cell],
    /// Variants that could not be measured, and why.
    left_out: &'a [(Cell, String)],
    table: Table,
    /// Times in clients' own network panels, by cell and the panel's name for them, in nanoseconds.
    panels: BTreeMap<(usize, String), Vec<f64>>,
}

impl<'a> StudyMeasurements<'a> {
    /// Takes the measurements of a run. Panels are read only if `expectations` refer to them.
    pub(super) fn from_dataset(
        data: &'a Dataset,
        left_out: &'a [(Cell, String)],
        expectations: &[Expectation],
    ) -> Result<Self, RunError> {
        let mut panels: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
        if expectations.iter().any(|expectation| expectation.panel.is_some()) {
            for taken in data.each_taken() {
                let Taken { cell, sample, .. } = taken?;
                let counts = !sample.warmup && sample.failure().is_none();
                for time in sample.connection.facts.panel.into_iter().filter(|_| counts) {
                    let of_label = panels.entry((usize::from(cell), time.label)).or_default();
                    of_label.push(time.took.as_nanos() as f64);
                }
            }
        }
        let table = Table::from_rows(data.cells.len(), &data.rows);
        Ok(Self { cells: &data.cells, left_out, table, panels })
    }
}

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

/// Both ends of "A to B"; a single value is returned twice.
fn ends(published: &str) -> Result<[Bound; 2], String> {
    let (low, high) = published.split_once(" to ").unwrap_or((published, published));
    Ok([Bound::read(low)?, Bound::read(high)?])
}

impl Expectation {
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
        match (&self.metric, &self.panel) {
            (Some(name), None) if Metric::named(name).is_none() => {
                return Err(about(format!("unknown metric {name:?}")));
            }
            (Some(_), None) => {}
            (None, Some(_)) if self.against.is_empty() => {}
            _ => {
                return Err(about("give either metric or panel; panel cannot have against".into()));
            }
        }
        for text in self.change.iter().chain(&self.median).flatten().chain(&self.within) {
            Bound::read(text).map_err(about)?;
        }
        if let Some(published) = &self.published {
            ends(published).map_err(about)?;
        }
        match (&self.change, &self.median, self.against.is_empty()) {
            (Some(_), None, false) | (None, Some(_), true) => Ok(()),
            (None, None, _) if self.is_one_value() && self.within.is_empty() => {
                Err(about("how near is near enough? add within, such as within = [\"3 %\"]".into()))
            }
            (None, None, _) if self.published.is_some() => Ok(()),
            _ => Err(about("it needs change (with against), median or published".into())),
        }
    }

    /// Whether a single value was published, not "A to B".
    fn is_one_value(&self) -> bool {
        let ends = self.published.as_deref().and_then(|text| ends(text).ok());
        ends.is_some_and(|[low, high]| low == high)
    }

    /// One figure for each matching variant, including those that were left out, with the reason.
    pub(super) fn judge(&self, measured: &StudyMeasurements<'_>) -> Vec<StoryFigure> {
        let StudyMeasurements { cells, left_out, table, panels } = measured;
        let metric = self.metric.as_deref().and_then(Metric::named);
        let mut figures = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            if cell.twin_of.is_some() || !has(cell, &self.of) {
                continue;
            }
            let base = cells.iter().position(|other| self.is_base(cell, other));
            let estimate = match (metric, &self.panel, base) {
                (Some(metric), _, _) if self.against.is_empty() => {
                    median_estimate(&table.values(index, metric))
                }
                (Some(metric), _, Some(base)) => {
                    let (before, after) = table.paired(base, index, metric);
                    self.change(&before, &after)
                }
                (Some(_), _, None) => continue,
                (None, label, _) => {
                    let label = label.clone().unwrap_or_default();
                    panels.get(&(index, label)).and_then(|times| median_estimate(times))
                }
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

    /// The factors that set `cell` apart from the figure's others. Clients are always named, as each has its panel.
    fn variant(&self, cell: &Cell) -> String {
        let apart = |factor: &&Factor| {
            let axis = &factor.axis;
            axis == "client" || !(self.of.contains_key(axis) || self.against.contains_key(axis))
        };
        let labels: Vec<&str> =
            cell.factors.iter().filter(apart).map(|factor| factor.label.as_str()).collect();
        labels.join(", ")
    }

    /// Whether `cell` is compared with `other`, which has the values of `against` and otherwise the same ones.
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

    /// Whether `value` is within the bounds, or close enough to the published value.
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
    use firstbyte_core::run::{Factor, Metrics, Row, Standing, VisitAnswer};

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
                    stands_for_ns: None,
                    answer: VisitAnswer::default(),
                    metrics,
                }
            })
        });
        Table::from_rows(2, &rows.collect::<Vec<_>>())
    }

    fn measured<'a>(
        cells: &'a [Cell],
        left_out: &'a [(Cell, String)],
        medians: [u64; 2],
    ) -> StudyMeasurements<'a> {
        StudyMeasurements { cells, left_out, table: table(medians), panels: BTreeMap::new() }
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
        let judged =
            |cells: &[Cell], medians| halves.judge(&measured(cells, &[], medians)).remove(0);
        let found = judged(&cells, [100, 50]);
        assert!(matches!(found.measured, MeasuredFigure::Reproduced(_)), "{found:?}");
        assert_eq!((found.unit, found.variant.as_str()), (FigureUnit::ShareChange, ""));
        let missed = judged(&cells, [100, 80]).measured;
        let MeasuredFigure::Missed(Some(missed)) = missed else {
            panic!("-20 % is not within -55 to -45 %");
        };
        assert!((missed.value + 0.2).abs() < 0.001, "{missed:?}");
        assert_eq!(judged(&cells[..1], [100, 50]).measured, MeasuredFigure::Missed(None));
        // A variant that cannot be measured is neither reproduced nor missed.
        let left_out = [(cell("1.3"), "too old".to_owned())];
        let figures = halves.judge(&measured(&cells[..1], &left_out, [100, 50]));
        assert_eq!(figures[0].measured, MeasuredFigure::Unavailable("too old".to_owned()));
    }

    #[test]
    fn a_published_median_is_near_by_the_larger_allowance() {
        let published = expectation(
            "say = 'as published'\nmetric = 'tls'\nof = { tls = '1.2' }\npublished = '12.1 ms'\n\
             within = ['2 %', '1 ms']",
        );
        let cells = [cell("1.2")];
        let judged = |ms| published.judge(&measured(&cells, &[], [ms, 1])).remove(0);
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
        let cells = [cell("1.2"), cell("1.3")];
        let [inside, outside] =
            [80, 60].map(|ms| range.judge(&measured(&cells, &[], [100, ms])).remove(0).measured);
        assert!(matches!(inside, MeasuredFigure::Reproduced(_)), "{inside:?}");
        assert!(matches!(outside, MeasuredFigure::Missed(Some(_))), "{outside:?}");
        let wanted = BTreeMap::from([("tls".to_owned(), "1.2, 1.3".to_owned())]);
        assert!(has(&cell("1.3"), &wanted) && !has(&cell("1.1"), &wanted));
    }

    #[test]
    fn a_panels_time_is_the_clients_own() {
        let panel = expectation(
            "say = 'x'\npanel = 'SSL'\nof = { tls = '1.2' }\nmedian = ['0 ms', '5 ms']",
        );
        let cells = [cell("1.2")];
        let mut with_panel = measured(&cells, &[], [100, 50]);
        assert_eq!(panel.judge(&with_panel)[0].measured, MeasuredFigure::Missed(None));
        with_panel.panels.insert((0, "SSL".to_owned()), vec![0.4e6, 0.5e6, 0.6e6]);
        let found = panel.judge(&with_panel).remove(0).measured;
        assert_eq!(found.estimate().map(|estimate| estimate.value), Some(0.5e6));
        assert!(matches!(found, MeasuredFigure::Reproduced(_)));
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let bad = "say = 'x'\nmetric = 'tls'\nof = {}\nchange = ['-1 %', '1 %']";
        assert!(Expectation::read(&[toml::from_str(bad).unwrap()]).is_err());
    }

    #[test]
    fn a_published_value_that_could_not_be_missed_is_refused() {
        let read = |more: &str| {
            let text = format!("say = 'x'\nmetric = 'tls'\nof = {{}}\n{more}");
            Expectation::read(&[toml::from_str(&text).unwrap()])
        };
        let why = read("published = '12 ms'").unwrap_err();
        assert!(why.contains("add within"), "{why}");
        assert!(read("published = '12 ms'\nwithin = ['3 %']").is_ok());
        assert!(read("published = '12 ms to 14 ms'").is_ok());
        let exact = &read("median = ['12 ms', '12 ms']").unwrap()[0];
        assert!(exact.reproduced_by(12e6) && !exact.reproduced_by(12.1e6));
    }
}
