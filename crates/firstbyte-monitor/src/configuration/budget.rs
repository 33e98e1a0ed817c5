//! Budgets: what is allowed, in figures of a target's samples.

use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::stats::named_quantile;
use firstbyte_core::units::{BareShare, BareTime, parse_share, parse_time};

/// What a figure may be at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// As written: `ttfb.p95`.
    pub name: String,
    /// What it is about, and its limit.
    pub figure: BudgetFigure,
}

/// A figure with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetFigure {
    /// A quantile of a time.
    Time {
        /// Of what.
        metric: Metric,
        /// Which quantile.
        quantile: f64,
        /// The most that it may be.
        most: Duration,
    },
    /// The share of samples that fail, at most.
    Failures(f64),
}

impl Budget {
    /// Reads `"ttfb.p95" = "300ms"` or `failures = "1%"`.
    pub(super) fn read(name: &str, limit: &str) -> Result<Self, String> {
        let figure = if name == "failures" {
            let share = parse_share(limit, BareShare::Refused);
            let share = share.map_err(|error| format!("{limit:?} is {error}"))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{limit:?} is not a share from 0% to 100%"));
            }
            BudgetFigure::Failures(share)
        } else {
            let (metric, statistic) = name.split_once('.').unwrap_or((name, "median"));
            let metric = Metric::named(metric).ok_or_else(|| {
                let names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
                format!(
                    "no figure is called {metric:?}; there are {} and failures",
                    names.join(", ")
                )
            })?;
            let quantile = named_quantile(statistic).ok_or_else(|| {
                format!("{statistic:?} is none of median, p50, p75, p90, p95, p99")
            })?;
            let most = parse_time(limit, BareTime::Refused);
            let most = most.map_err(|error| format!("{limit:?} is {error}"))?;
            BudgetFigure::Time { metric, quantile, most }
        };
        Ok(Self { name: name.to_owned(), figure })
    }
}
