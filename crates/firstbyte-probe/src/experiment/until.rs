//! When enough was measured: `median±1%`.
//!
//! The criterion looks at the width of intervals, never at whether something differs: stopping at the first significant
//! difference finds one in a fifth of all experiments without any. It is never met with fewer rounds than an interval
//! needs (`stats::FEWEST_ROUNDS`).

use std::collections::HashMap;

use firstbyte_core::run::{Metric, Row};
use firstbyte_core::stats;
use firstbyte_core::units::{BareShare, parse_share};

/// The target width of the intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    written: String,
    metric: Metric,
    /// Half the interval's width, relative to the median.
    half_width: f64,
}

impl Until {
    /// Reads `[METRIC.]median±WIDTH%`.
    ///
    /// # Errors
    /// The expected form.
    pub fn read(text: &str) -> Result<Self, String> {
        let bad =
            || format!("{text:?}: expected median±1% or ttfb.median±0.5% (or +- instead of ±)");
        let (what, width) =
            text.split_once('±').or_else(|| text.split_once("+-")).ok_or_else(bad)?;
        let metric = match what.trim().rsplit_once('.') {
            None if what.trim() == "median" => Metric::Total,
            Some((name, "median")) => Metric::named(name).ok_or_else(|| {
                let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).collect();
                format!("{text:?}: unknown metric {name:?}; known metrics: {}", names.join(", "))
            })?,
            _ => return Err(bad()),
        };
        let half_width = parse_share(width, BareShare::Refused).map_err(|_| bad())?;
        if !(half_width > 0.0 && half_width < 1.0) {
            return Err(bad());
        }
        Ok(Self { written: text.to_owned(), metric, half_width })
    }

    /// Whether `rows` suffice for each of `cells` cells.
    pub fn is_reached(&self, rows: &[Row], cells: usize) -> bool {
        // Values, and the coarsest resolution of the clocks that they were read from.
        let mut by_cell: HashMap<u16, (Vec<f64>, u32)> = HashMap::new();
        for row in rows.iter().filter(|row| row.counts()) {
            if let Some(ns) = row.metric(self.metric) {
                let (values, steps) = by_cell.entry(row.cell).or_default();
                values.push(ns as f64);
                *steps = (*steps).max(row.metrics.resolution_ns);
            }
        }
        let suffices = |(values, steps): &(Vec<f64>, u32)| self.suffices(values, *steps);
        by_cell.len() == cells && by_cell.values().all(suffices)
    }

    fn suffices(&self, values: &[f64], steps_ns: u32) -> bool {
        let Some(median) = stats::median_estimate(values) else { return false };
        let median = stats::in_steps(median, f64::from(steps_ns), values.len());
        median.interval.is_some_and(|i| i.half_width() <= self.half_width * median.value)
    }

    /// The text that it was read from.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// A description for messages.
    pub fn describe(&self) -> String {
        format!("median {} within ±{} %", self.metric.name(), self.half_width * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_read_as_they_are_written() {
        let read = |text| Until::read(text).map(|until| (until.metric, until.half_width));
        assert_eq!(read("median±1%"), Ok((Metric::Total, 0.01)));
        assert_eq!(read("median+-1 %"), Ok((Metric::Total, 0.01)));
        assert_eq!(read("ttfb.median±0.5%"), Ok((Metric::Ttfb, 0.005)));
        for bad in ["1%", "mean±1%", "median±1", "median±0%", "latency.median±1%"] {
            assert!(Until::read(bad).is_err(), "{bad}");
        }
    }
}
