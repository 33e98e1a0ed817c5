//! Compares two ways of connecting, percentile by percentile.

use super::{Pair, Settings, Table};
use crate::run::Metric;
use crate::stats::{ClockSteps, QuantileEffect, paired_quantile_effects};

/// Compared percentiles, as shares: every fifth, and the 99th.
pub const PERCENTILES: [f64; 20] = [
    0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85,
    0.9, 0.95, 0.99,
];

/// Differences of one pair in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentileEffects {
    /// The compared pair.
    pub pair: Pair,
    /// The metric.
    pub metric: Metric,
    /// Rounds in which both were proven.
    pub rounds: usize,
    /// Differences at those of [`PERCENTILES`] with at least one expected value on either side, nanoseconds.
    pub percentiles: Vec<QuantileEffect>,
}

/// The differences of one pair, in all metrics that both cells have.
pub fn percentile_effects(
    table: &Table,
    pair: Pair,
    settings: &Settings,
) -> Vec<PercentileEffects> {
    let steps = ClockSteps {
        base: table.resolution_ns(pair.base),
        variant: table.resolution_ns(pair.variant),
    };
    let of_metric = |metric| {
        let (base, variant) = table.paired(pair.base, pair.variant, metric);
        let rounds = base.len();
        let expected_beyond = |q: f64| rounds as f64 * q.min(1.0 - q);
        let given: Vec<f64> =
            PERCENTILES.into_iter().filter(|q| expected_beyond(*q) >= 1.0 - 1e-9).collect();
        let percentiles = paired_quantile_effects(&base, &variant, &given, steps, settings.seed);
        let found = PercentileEffects { pair, metric, rounds, percentiles };
        (!found.percentiles.is_empty()).then_some(found)
    };
    Metric::ALL.into_iter().filter_map(of_metric).collect()
}
