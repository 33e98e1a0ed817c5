//! Intervals without resampling: through the empirical distribution function.
//!
//! The share of values below a quantile is a mean, and the circular block bootstrap's standard error of a mean is a
//! sum over blocks ([`long_run_covariances`]). Woodruff (*Confidence intervals for medians and other position
//! measures*, 1952) translates the interval of that share to the quantile through the order statistics. It costs one
//! pass, and assumes no density.

use super::Interval;
use super::dependence::long_run_covariances;

/// Share of each value below `value`: 1 below, 0 above, ½ for a tie.
fn shares(values: &[f64], value: f64) -> Vec<f64> {
    // Branchless: the branches would be as random as the data.
    values.iter().map(|x| 0.5 * (f64::from(*x < value) + f64::from(*x <= value))).collect()
}

/// The value at the fractional rank `rank` (from 0), clamped to the sample.
pub(super) fn at_rank(sorted: &[f64], rank: f64) -> f64 {
    let last = sorted.len() - 1;
    let rank = rank.clamp(0.0, last as f64);
    let lower = rank.floor() as usize;
    let upper = (lower + 1).min(last);
    sorted[lower] + (sorted[upper] - sorted[lower]) * (rank - lower as f64)
}

/// The interval of the `q` quantile of a series, `reach` standard errors on either side.
pub(super) fn quantile_interval(side: &Side<'_>, q: f64, block: usize, reach: f64) -> Interval {
    let n = side.values.len() as f64;
    let shares = shares(side.values, side.quantile);
    let [variance, _, _] = long_run_covariances(&shares, &[], block);
    let ranks = reach * (n * variance.max(0.0)).sqrt();
    let middle = n * q - 0.5;
    Interval {
        low: at_rank(side.sorted, middle - ranks),
        high: at_rank(side.sorted, middle + ranks),
    }
}

/// A series in time order and sorted, with one of its quantiles.
pub(super) struct Side<'a> {
    /// In the order of rounds.
    pub(super) values: &'a [f64],
    /// Ascending.
    pub(super) sorted: &'a [f64],
    pub(super) quantile: f64,
}

/// Half-width of the interval of the difference between two quantiles of the same rounds.
///
/// `reach` gives the number of standard errors for the lag-1 autocorrelation of the averaged values. Both shares'
/// variances and covariance are taken over blocks, and translated to the quantiles by the distance between the order
/// statistics around them.
pub(super) fn difference_reach(
    base: &Side<'_>,
    variant: &Side<'_>,
    q: f64,
    block: usize,
    reach: impl Fn(f64) -> f64,
) -> f64 {
    let size = base.values.len() as f64;
    let (base_shares, variant_shares) =
        (shares(base.values, base.quantile), shares(variant.values, variant.quantile));
    let [vv, bb, vb] = long_run_covariances(&variant_shares, &base_shares, block);
    // Values per unit of share within a standard error of the quantile, at least one rank on either side. Further out
    // the tail's own growth would be mistaken for uncertainty: by half at p99 of 1,000.
    let per_share = |side: &Side<'_>, variance: f64| {
        let ranks = (size * variance.max(0.0)).sqrt().max(1.0);
        let middle = size * q - 0.5;
        let (low, high) = ((middle - ranks).max(0.0), (middle + ranks).min(size - 1.0));
        (at_rank(side.sorted, high) - at_rank(side.sorted, low)) / (high - low) * size
    };
    let (v, b) = (per_share(variant, vv), per_share(base, bb));
    let weighted = |[vv, bb, vb]: [f64; 3]| v * v * vv + b * b * bb - 2.0 * v * b * vb;
    let (now, next) = lag1_products(&variant_shares, &base_shares);
    let of_shares = if weighted(now) > 0.0 { weighted(next) / weighted(now) } else { 0.0 };
    reach(of_shares) * (weighted([vv, bb, vb]).max(0.0) / size).sqrt()
}

/// Lag-1 autocorrelation of the difference between both shares.
pub(super) fn difference_autocorrelation(base: &Side<'_>, variant: &Side<'_>) -> f64 {
    let (now, next) = lag1_products(
        &shares(variant.values, variant.quantile),
        &shares(base.values, base.quantile),
    );
    let of = |products: [f64; 3]| products[0] + products[1] - 2.0 * products[2];
    if of(now) > 0.0 { of(next) / of(now) } else { 0.0 }
}

/// Products of both series with themselves and each other (variant², base², both), within a round and from one round
/// to the next: enough for the autocorrelation of any weighted difference.
fn lag1_products(variant: &[f64], base: &[f64]) -> ([f64; 3], [f64; 3]) {
    let n = base.len() as f64;
    let (mean_v, mean_b) = (variant.iter().sum::<f64>() / n, base.iter().sum::<f64>() / n);
    let (mut now, mut next) = ([0.0; 3], [0.0; 3]);
    let (mut last_v, mut last_b) = (0.0, 0.0);
    for (v, b) in variant.iter().zip(base) {
        let (v, b) = (v - mean_v, b - mean_b);
        now[0] += v * v;
        now[1] += b * b;
        now[2] += v * b;
        next[0] += v * last_v;
        next[1] += b * last_b;
        next[2] += 0.5 * (v * last_b + b * last_v);
        (last_v, last_b) = (v, b);
    }
    (now, next)
}
