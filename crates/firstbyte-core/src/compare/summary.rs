//! What one cell gave, by itself.

use super::table::{Counts, Table};
use crate::run::Metric;
use crate::stats::{
    Estimate, Interval, Precision, QUANTILES, Series, in_steps, notable_autocorrelation,
};

/// A quantile of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// Which.
    pub q: f64,
    /// The value, nanoseconds; absent when not even one value is expected beyond
    /// it (p99 below 100 values): it would be the largest value under another name.
    pub ns: Option<f64>,
    /// Its interval, nanoseconds, where there are values enough.
    pub interval: Option<Interval>,
}

/// One metric of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSummary {
    /// Which.
    pub metric: Metric,
    /// How many values.
    pub n: usize,
    /// The median with its interval, nanoseconds.
    pub median: Estimate,
    /// Least value, nanoseconds.
    pub min: f64,
    /// Largest value, nanoseconds.
    pub max: f64,
    /// One for each of [`QUANTILES`].
    pub percentiles: Vec<Percentile>,
    /// Values more than three scaled MADs from the median: flagged, and part of everything here.
    pub outliers: usize,
    /// Lag-1 autocorrelation.
    pub autocorrelation: Option<f64>,
    /// Whether that is notable: more than chance gives, and enough to matter.
    pub notable_autocorrelation: bool,
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSummary {
    /// Index of the cell.
    pub cell: usize,
    /// What became of its rows.
    pub counts: Counts,
    /// The metrics it has values of, in the order of [`Metric::ALL`].
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

/// `steps` are those of the clock: every value may be off by as much.
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
