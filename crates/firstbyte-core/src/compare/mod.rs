//! Comparisons: the cost of each way of connecting relative to one that differs in a single factor.
//!
//! Input: the cells of a run and its rows, collected in a [`Table`]. Output: a [`Comparison`]: a summary of every
//! cell, and for every pair of cells the effects on every metric with a verdict in words. Only proven rows that are
//! not warm-up are pooled. Definitions: `docs/statistics.md`.
//!
//! [`effects`] and [`summarise`] do the work for one pair and one cell. They can run in parallel, followed by
//! [`conclude`]; [`compare`] runs them sequentially. The result is the same, and depends only on the rows and the
//! settings.

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

/// Settings of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Seed of the resampling.
    pub seed: u64,
    /// Relative differences up to this do not matter: an interval that includes zero and nothing beyond this is "no
    /// difference", a wider one is open.
    pub negligible: f64,
    /// Differences up to this, nanoseconds, mean nothing: a timestamp's error can produce them.
    pub floor_ns: f64,
    /// Whether times get verdicts even if the answers differ.
    pub compare_unlike: bool,
}

impl Default for Settings {
    /// 1 %, and 10 µs: the 99th percentile of the error of kernel timestamps (`docs/measurement.md`, "Accuracy").
    fn default() -> Self {
        Self { seed: 1, negligible: 0.01, floor_ns: 10_000.0, compare_unlike: false }
    }
}

/// The effect of a variant on one metric, and the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricEffect {
    /// The metric.
    pub metric: Metric,
    /// The effect, nanoseconds; relative effects are shares of the base.
    pub effect: Effect,
    /// The p-value of the verdict's estimate, adjusted for all comparisons of the same kind (Holm); absent with too
    /// few rounds, or if the answers differ.
    pub p_adjusted: Option<f64>,
    /// Difference of the answers that the metric depends on, which rules out a verdict.
    pub unlike: Option<AnswerDifference>,
    /// The verdict.
    pub verdict: Verdict,
}

impl MetricEffect {
    /// The estimate that the verdict uses: the median of the relative per-round changes, or of the absolute ones if a
    /// base is zero.
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
    /// The compared pair.
    pub pair: Pair,
    /// Rounds in which both were proven.
    pub rounds: usize,
    /// Rounds in which only one of them was proven; they do not count.
    pub unpaired: usize,
    /// Effects on every metric that both have, in the order of [`Metric::ALL`].
    pub metrics: Vec<MetricEffect>,
}

impl PairEffects {
    /// The effect on `metric`.
    pub fn metric(&self, metric: Metric) -> Option<&MetricEffect> {
        self.metrics.iter().find(|m| m.metric == metric)
    }
}

/// All comparisons of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Summary of each cell, in order.
    pub cells: Vec<CellSummary>,
    /// All pairs: of the first axis, of the others, twins.
    pub pairs: Vec<PairEffects>,
    /// Cells without a base along an axis.
    pub base_missing: Vec<BaseMissing>,
}

/// Compares the cells of a run.
pub fn compare(cells: &[Cell], axes: &[Axis], table: &Table, settings: &Settings) -> Comparison {
    let design = Design::new(cells, axes);
    let summaries = (0..cells.len()).map(|cell| summarise(table, cell)).collect();
    let pairs = design.pairs.iter().map(|pair| effects(table, *pair, settings)).collect();
    conclude(summaries, pairs, design.base_missing, settings)
}

/// The effects of one pair on all metrics, with verdicts as if it were the only pair.
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

/// Combines the results of all pairs: adjusts p-values for their number, and verdicts accordingly.
///
/// Verdicts of comparisons along the leading axis stand alone, along with the adjusted p-value. Those along other axes
/// count only if they pass together with all others of the same metric. Twins are one check of the whole run, over all
/// metrics.
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
