//! One series over a period in full detail: phases, failures and facts step by step.
//!
//! In: a series and a period. Out: points with the medians of phases, quantiles of the total, failures by type, and the
//! number of samples for each value of each fact.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use firstbyte_core::run::Metric;
use firstbyte_monitor::rollup::{Measure, MonitoredPart, Rollup};
use firstbyte_monitor::store::{RollupAt, SeriesId, SeriesLabels, Step, StoreReader};
use serde::Serialize;

use super::annotations::now;
use super::answers::Refusal;
use super::overview::{Sum, longer};
use super::parameters::{Parameters, period};
use super::series::{SeriesName, quantile, step_named, unreadable};

const DAY: i64 = 86_400;
/// Number of points if the server chooses the step: as many as fit into a chart.
const USUAL_POINTS: i64 = 400;
const MOST_POINTS: i64 = 11_000;

/// A series and a period named in a query.
pub(super) struct HistoryQuery {
    name: SeriesName,
    step: Option<Step>,
    period: Range<i64>,
}

#[derive(Serialize)]
pub(super) struct History {
    format: &'static str,
    version: u32,
    series: SeriesId,
    target: String,
    variant: String,
    variant_label: String,
    place: String,
    url: String,
    tags: BTreeMap<String, String>,
    step: &'static str,
    step_seconds: i64,
    from: i64,
    until: i64,
    /// Rollups of the period that cannot be read.
    damaged: u64,
    /// Summary of the whole period.
    sum: HistoryPoint,
    points: Vec<HistoryPoint>,
}

#[derive(Serialize)]
struct HistoryPoint {
    at: i64,
    #[serde(flatten)]
    total: Sum,
    /// Median of each phase, in nanoseconds.
    phases_ns: BTreeMap<&'static str, u64>,
    parts_ns: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ns: Option<u64>,
    facts: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

impl HistoryPoint {
    fn from_rollup(at: i64, rollup: &Rollup) -> Self {
        let median = |measure| quantile(rollup.times(measure)?, 0.5);
        let phases = Metric::ALL.into_iter();
        let phases = phases.filter_map(|m| Some((m.name(), median(Measure::Metric(m))?)));
        let parts = MonitoredPart::ALL.into_iter();
        let parts = parts.filter_map(|part| Some((part.name(), median(Measure::Part(part))?)));
        let facts = rollup.facts.iter().map(|(fact, values)| (fact.name(), values.clone()));
        Self {
            at,
            total: Sum::from_rollup(rollup),
            phases_ns: phases.collect(),
            parts_ns: parts.collect(),
            rtt_ns: median(Measure::Rtt),
            facts: facts.collect(),
        }
    }
}

impl HistoryQuery {
    pub(super) fn read(query: Option<&str>, place: &str) -> Result<Self, Refusal> {
        let known = ["target", "variant", "place", "step", "from", "until"];
        let parameters = Parameters::read(query, &known)?;
        let name = SeriesName::from_parameters(&parameters, place)?;
        let step = parameters.get("step").map(step_named).transpose()?;
        let until = parameters.moment("until")?.unwrap_or_else(now);
        let from = parameters.moment("from")?.unwrap_or((until - DAY).max(0));
        let period = period(["from", "until"], from, until)?;
        let most = step.map(|step| (period.end - period.start) / step.seconds());
        if let Some(points) = most.filter(|points| *points > MOST_POINTS) {
            let what = format!(
                "{points} steps requested, at most {MOST_POINTS} are allowed: \
                                request a longer step"
            );
            return Err(Refusal::Bad(what));
        }
        Ok(Self { name, step, period })
    }

    pub(super) fn points(self, store: &Path) -> Result<History, Refusal> {
        let mut reader = StoreReader::open(store).map_err(unreadable)?;
        let (series, labels) = self.name.find(reader.series().map_err(unreadable)?)?;
        let Range { start, end: until } = self.period;
        let fits = |step: &Step| (until - start) / step.seconds() <= USUAL_POINTS;
        let chosen = Step::ALL.into_iter().find(fits).unwrap_or(Step::Day);
        let mut step = self.step.unwrap_or(chosen);
        let (from, rollups) = loop {
            let from = step.number(start) * step.seconds();
            let read = reader.rollups(series, step, from, until, |_| true).map_err(unreadable)?;
            match longer(step).filter(|_| self.step.is_none() && read.is_empty()) {
                // Minutes are not kept as long as hours.
                Some(next) => step = next,
                None => break (from, read),
            }
        };
        let mut sum = Rollup::default();
        rollups.iter().for_each(|at| sum.merge(&at.rollup));
        let point = |at: &RollupAt| HistoryPoint::from_rollup(at.start, &at.rollup);
        let SeriesLabels { target, variant, place, variant_label, url, tags } = labels;
        Ok(History {
            format: "firstbyte/monitor-history",
            version: 1,
            series,
            target,
            variant,
            variant_label,
            place,
            url,
            tags,
            step: step.name(),
            step_seconds: step.seconds(),
            from,
            until,
            damaged: reader.damaged(),
            sum: HistoryPoint::from_rollup(from, &sum),
            points: rollups.iter().map(point).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_monitor::rollup::MonitoredFact;
    use firstbyte_monitor::store::Store;

    use super::*;

    #[test]
    fn a_point_has_phases_facts_and_failures_and_the_step_follows_what_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let labels = SeriesLabels { target: "shop".into(), ..SeriesLabels::default() };
        let id = store.enrol(&[labels]).unwrap()[0];
        let at = 1_795_392_000_i64;
        for (minute, version) in [(0, "TLSv1.2"), (1, "TLSv1.3"), (61, "TLSv1.3")] {
            let mut rollup = Rollup::default();
            rollup.samples = 1;
            rollup.add_time(Measure::Metric(Metric::Tls), Duration::from_millis(20));
            rollup.add_time(Measure::Metric(Metric::Total), Duration::from_millis(30));
            rollup.add_fact(MonitoredFact::TlsVersion, version, 1);
            store.add_rollup(id, (at + minute * 60).unsigned_abs() * 1_000_000_000, &rollup);
        }
        store.flush(&[]).unwrap();
        let ask = |query: &str| HistoryQuery::read(Some(query), "").unwrap().points(&path).unwrap();
        let history = ask(&format!("target=shop&from={at}&until={}", at + 7_200));
        let found =
            (history.step, history.points.len(), serde_json::to_value(&history.sum).unwrap());
        assert_eq!((found.0, found.1, found.2["samples"].as_u64()), ("minute", 3, Some(3)));
        let hours = ask(&format!("target=shop&from={at}&until={}&step=hour", at + 7_200));
        let first = serde_json::to_value(&hours.points[0]).unwrap();
        assert_eq!(first["facts"]["tls.version"]["TLSv1.2"], 1);
        assert_eq!((first["samples"].as_u64(), first["at"].as_i64()), (Some(2), Some(at)));
        let tls = first["phases_ns"]["tls"].as_f64().unwrap();
        assert!((tls / 20e6 - 1.0).abs() < 0.01, "{tls}");
        assert_eq!(hours.sum.facts["tls.version"]["TLSv1.3"], 2);
        assert!(matches!(
            HistoryQuery::read(Some("target=a&from=0&until=86400000&step=minute"), ""),
            Err(Refusal::Bad(_))
        ));
    }
}
