//! Comparisons: what each way to connect costs against the one it differs from in one thing.
//!
//! Input: the cells of a run and its rows, gathered in a [`Table`]. Output: a [`Comparison`]: a
//! summary of every cell, and for every pair of cells the effects on every metric with a verdict in
//! words. Only rows that are proven and no warm-up are pooled. Definitions: `docs/statistics.md`.
//!
//! The work is in [`effects`] and [`summarise`], which look at one pair and one cell: they can be
//! called side by side and [`conclude`]d afterwards; [`compare`] calls them one after the other. The
//! result is the same, and depends on the rows, the settings and nothing else.

mod answers;
mod design;
mod percentiles;
mod summary;
mod table;
mod verdict;
mod words;

#[cfg(test)]
mod tests;

pub use answers::{AnswerCounts, AnswerDifference, find_difference};
pub use design::{Axis, BaseMissing, Design, Pair, Role, axes_of, put_in_order};
pub use percentiles::{PERCENTILES, PercentileEffects, percentile_effects};
pub use summary::{CellSummary, MetricSummary, Percentile, summarise};
pub use table::{Counts, Table};
pub use verdict::{Verdict, judge, judge_quantile};
pub use words::{
    TIMES_FROM, base_missing_sentence, describe_answers, describe_difference, percent,
    quantile_sentence, sentence, times,
};

use crate::run::{Cell, Metric};
use crate::stats::{ClockSteps, Effect, Estimate, holm, paired_effect_in_steps};

/// What a comparison goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of what is resampled.
    pub seed: u64,
    /// Relative differences up to this do not matter: an interval that holds zero and nothing beyond
    /// is "no difference", a wider one is open.
    pub negligible: f64,
    /// Differences up to this, nanoseconds, do not mean anything: a stamp's error can make them.
    pub floor_ns: f64,
    /// Times get verdicts even where the answers differ.
    pub compare_unlike: bool,
}

impl Default for Settings {
    /// 1 %, and 10 µs: what kernel stamps are off by at their 99th percentile (`docs/measurement.md`,
    /// "Accuracy").
    fn default() -> Self {
        Self { seed: 1, negligible: 0.01, floor_ns: 10_000.0, compare_unlike: false }
    }
}

/// The effect of a variant on one metric, and what it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricEffect {
    /// Which metric.
    pub metric: Metric,
    /// The effect, nanoseconds; relative ones as shares of the base.
    pub effect: Effect,
    /// The p-value of the verdict's estimate, adjusted for all comparisons of the same kind (Holm);
    /// absent with too few rounds, and where answers are unlike.
    pub p_adjusted: Option<f64>,
    /// How the answers differ that the metric depends on: then there is no verdict.
    pub unlike: Option<AnswerDifference>,
    /// What it comes to.
    pub verdict: Verdict,
}

impl MetricEffect {
    /// What the verdict is about: the median of the relative per-round changes; where a base is zero,
    /// of the absolute ones.
    pub fn estimate(&self) -> &Estimate {
        estimate_of(&self.effect)
    }
}

fn estimate_of(effect: &Effect) -> &Estimate {
    effect.relative.as_ref().unwrap_or(&effect.difference)
}

/// A variant compared with its base.
#[derive(Clone, Debug, PartialEq)]
pub struct PairEffects {
    /// Which.
    pub pair: Pair,
    /// Rounds in which both were proven.
    pub rounds: usize,
    /// Rounds in which only one of them was; they do not count.
    pub unpaired: usize,
    /// For every metric that both have, in the order of [`Metric::ALL`].
    pub metrics: Vec<MetricEffect>,
}

impl PairEffects {
    /// The effect on `metric`.
    pub fn metric(&self, metric: Metric) -> Option<&MetricEffect> {
        self.metrics.iter().find(|m| m.metric == metric)
    }
}

/// All that a run says.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// One for each cell, in their order.
    pub cells: Vec<CellSummary>,
    /// Every pair: of the first axis, of the others, twins.
    pub pairs: Vec<PairEffects>,
    /// Cells that have nothing to be compared with along an axis.
    pub base_missing: Vec<BaseMissing>,
}

/// Compares the cells of a run.
pub fn compare(cells: &[Cell], axes: &[Axis], table: &Table, settings: &Settings) -> Comparison {
    let design = Design::new(cells, axes);
    let summaries = (0..cells.len()).map(|cell| summarise(table, cell)).collect();
    let pairs = design.pairs.iter().map(|pair| effects(table, *pair, settings)).collect();
    conclude(summaries, pairs, design.base_missing, settings)
}

/// The effects of one pair on all metrics; verdicts are as if it were the only pair.
pub fn effects(table: &Table, pair: Pair, settings: &Settings) -> PairEffects {
    let (rounds, unpaired) = table.common_rounds(pair.base, pair.variant);
    let steps = ClockSteps {
        base: table.resolution_ns(pair.base),
        variant: table.resolution_ns(pair.variant),
    };
    let answers = [table.answers(pair.base), table.answers(pair.variant)];
    let difference = find_difference(answers.into_iter().flatten());
    let difference = difference.filter(|_| !settings.compare_unlike);
    let metrics = Metric::ALL
        .into_iter()
        .filter_map(|metric| {
            let (base, variant) = table.paired(pair.base, pair.variant, metric);
            let effect = paired_effect_in_steps(&base, &variant, steps, settings.seed)?;
            let unlike = difference.filter(|_| metric.depends_on_answer());
            let p_adjusted = estimate_of(&effect).p_value.filter(|_| unlike.is_none());
            let verdict = match unlike {
                Some(difference) => Verdict::Unlike(difference),
                None => judge(&effect, p_adjusted, settings),
            };
            Some(MetricEffect { metric, effect, p_adjusted, unlike, verdict })
        })
        .collect();
    PairEffects { pair, rounds, unpaired, metrics }
}

/// Puts together what was found pair by pair: adjusts p-values for their number, and verdicts with
/// them.
///
/// Verdicts of comparisons along the leading axis stand alone, the adjusted p-value beside. Those along other axes count only if they pass together with all others
/// of the same metric. Twins are one check of the whole run, over all metrics.
pub fn conclude(
    cells: Vec<CellSummary>,
    mut pairs: Vec<PairEffects>,
    base_missing: Vec<BaseMissing>,
    settings: &Settings,
) -> Comparison {
    let by_metric = |role: Role| Metric::ALL.map(|metric| (role, Some(metric)));
    let families = by_metric(Role::Primary)
        .into_iter()
        .chain(by_metric(Role::Secondary))
        .chain([(Role::SelfCheck, None)]);
    for (role, metric) in families {
        let mut family: Vec<&mut MetricEffect> = pairs
            .iter_mut()
            .filter(|pair| pair.pair.role == role)
            .flat_map(|pair| &mut pair.metrics)
            .filter(|m| metric.is_none_or(|metric| m.metric == metric))
            .filter(|m| m.unlike.is_none() && m.estimate().p_value.is_some())
            .collect();
        let raw: Vec<f64> = family.iter().filter_map(|m| m.estimate().p_value).collect();
        for (member, adjusted) in family.iter_mut().zip(holm(&raw)) {
            member.p_adjusted = Some(adjusted);
            let counted =
                if role == Role::Primary { member.estimate().p_value } else { Some(adjusted) };
            member.verdict = judge(&member.effect, counted, settings);
        }
    }
    Comparison { cells, pairs, base_missing }
}
