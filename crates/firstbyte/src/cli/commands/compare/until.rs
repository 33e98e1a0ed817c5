//! `--until median±1%`: when enough has been measured.
//!
//! It looks at how wide intervals are, never at whether something differs: stopping at the first
//! significant difference finds one in a fifth of all experiments in which there is none. Below the fewest rounds
//! that give an interval (`stats::FEWEST_ROUNDS`) it goes on.

use std::collections::HashMap;

use firstbyte_core::run::{Metric, Row};
use firstbyte_core::stats;
use firstbyte_core::units::{BareShare, parse_share};

/// The width to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) struct Until {
    metric: Metric,
    /// Half the interval's width, relative to the median.
    half_width: f64,
}

impl Until {
    /// Reads `[METRIC.]median±WIDTH%`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("--until {text:?}: not like median±1% or ttfb.median±0.5% (+- will do for ±)")
        };
        let (what, width) =
            text.split_once('±').or_else(|| text.split_once("+-")).ok_or_else(bad)?;
        let metric = match what.trim().rsplit_once('.') {
            None if what.trim() == "median" => Metric::Total,
            Some((name, "median")) => Metric::named(name).ok_or_else(|| {
                let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).collect();
                format!("--until {text:?}: no metric is called {name:?}: {}", names.join(", "))
            })?,
            _ => return Err(bad()),
        };
        let half_width = parse_share(width, BareShare::Refused).map_err(|_| bad())?;
        if !(half_width > 0.0 && half_width < 1.0) {
            return Err(bad());
        }
        Ok(Self { metric, half_width })
    }

    /// Whether `rows` are enough for each of `cells` cells.
    pub(super) fn is_reached(&self, rows: &[Row], cells: usize) -> bool {
        let mut values: HashMap<u16, Vec<f64>> = HashMap::new();
        for row in rows.iter().filter(|row| row.counts()) {
            if let Some(ns) = row.metric(self.metric) {
                values.entry(row.cell).or_default().push(ns as f64);
            }
        }
        values.len() == cells && values.values().all(|values| self.suffices(values))
    }

    fn suffices(&self, values: &[f64]) -> bool {
        let Some(median) = stats::median_estimate(values) else { return false };
        median.interval.is_some_and(|i| i.half_width() <= self.half_width * median.value)
    }

    /// What it is called.
    pub(super) fn describe(&self) -> String {
        format!("{} within ±{} % at the median", self.metric.name(), self.half_width * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_read_as_they_are_written() {
        let total = Until { metric: Metric::Total, half_width: 0.01 };
        assert_eq!(Until::read("median±1%"), Ok(total));
        assert_eq!(Until::read("median+-1 %"), Ok(total));
        let ttfb = Until { metric: Metric::Ttfb, half_width: 0.005 };
        assert_eq!(Until::read("ttfb.median±0.5%"), Ok(ttfb));
        for bad in ["1%", "mean±1%", "median±1", "median±0%", "latency.median±1%"] {
            assert!(Until::read(bad).is_err(), "{bad}");
        }
    }
}
