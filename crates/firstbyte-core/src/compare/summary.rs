//! Summary of a single cell.

use super::table::{Counts, Table};
use crate::run::Metric;
use crate::stats::{
    Estimate, Interval, Precision, QUANTILES, Series, in_steps, notable_autocorrelation,
};

/// A quantile of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// The quantile.
    pub q: f64,
    /// The value, nanoseconds; absent if not even one value is expected beyond it (p99 below 100 values): it would
    /// equal the largest value.
    pub ns: Option<f64>,
    /// Its interval, nanoseconds, if there are enough values.
    pub interval: Option<Interval>,
}

/// One metric of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSummary {
    /// The metric.
    pub metric: Metric,
    /// Number of values.
    pub n: usize,
    /// The median with its interval, nanoseconds.
    pub median: Estimate,
    /// Smallest value, nanoseconds.
    pub min: f64,
    /// Largest value, nanoseconds.
    pub max: f64,
    /// One for each of [`QUANTILES`].
    pub percentiles: Vec<Percentile>,
    /// Values more than three scaled MADs from the median: flagged, but included in all results.
    pub outliers: usize,
    /// Lag-1 autocorrelation.
    pub autocorrelation: Option<f64>,
    /// Whether the autocorrelation is notable: more than chance gives, and enough to matter.
    pub notable_autocorrelation: bool,
}

/// Summary of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Index of the cell.
    pub cell: usize,
    /// Counts of its rows by outcome.
    pub counts: Counts,
    /// Metrics with values, in the order of [`Metric::ALL`].
    pub metrics: Vec<MetricSummary>,
}

impl CellSummary {
    /// The summary of `metric`.
    pub fn metric(&self, metric: Metric) -> Option<&MetricSummary> {
        self.metrics.iter().find(|m| m.metric == metric)
    }
}

/// Summarises one cell.
pub fn summarise(table: &Table, cell: usize) -> CellSummary {
    let metrics = Metric::ALL
        .into_iter()
        .filter_map(|metric| {
            summarise_metric(metric, &table.values(cell, metric), table.resolution_ns(cell))
        })
        .collect();
    CellSummary { cell, counts: table.counts(cell), metrics }
}

/// Summarises one metric; every value may be off by `steps`, the clock's resolution.
fn summarise_metric(metric: Metric, values: &[f64], steps: f64) -> Option<MetricSummary> {
    let n = values.len();
    let known_to = |estimate: Estimate| in_steps(estimate, steps, n);
    let series = Series::from_values(values)?;
    let precision = Precision::for_rounds(n);
    let percentiles = QUANTILES
        .into_iter()
        .map(|q| {
            let enough = n as f64 * (1.0 - q) >= 1.0 - 1e-9;
            let estimate = series.quantile_estimate(q, &precision).filter(|_| enough);
            let estimate = estimate.map(known_to);
            let interval = estimate.and_then(|e| e.interval);
            Percentile { q, ns: estimate.map(|e| e.value), interval }
        })
        .collect();
    Some(MetricSummary {
        metric,
        n,
        median: known_to(series.median_estimate(&precision)),
        min: *series.sorted.first()?,
        max: *series.sorted.last()?,
        percentiles,
        outliers: series.spread.count(&series.sorted),
        autocorrelation: series.autocorrelation,
        notable_autocorrelation: series
            .autocorrelation
            .is_some_and(|rho| rho.abs() >= notable_autocorrelation(n)),
    })
}
