//! `firstbyte monitor export`: exports rollups from a monitor's store, which the monitor may be writing meanwhile.

use std::collections::BTreeMap;
use std::io;

use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{SeriesLabels, Step, StoreError};
use firstbyte_report::rollups::{RollupRow, RollupWriter};
use firstbyte_report::units::count;

use super::reading::{Reading, problem};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::sink;
use crate::cli::files::cannot_write;
use crate::cli::terminal::note;
use crate::plans::{Destination, MonitorExportPlan, RollupForm, RollupStep};

/// Number of periods read at once: a year of minutes would take too much memory.
const AT_ONCE: i64 = 1_000;

pub(in crate::cli) fn run(plan: &MonitorExportPlan) -> Result<u8, Problem> {
    let reading = Reading::begin(plan.store.as_deref(), [plan.since, plan.until], &plan.targets)?;
    let to = Destination::StandardOutput;
    let unwritten = |error: io::Error| cannot_write(to.path(), &error);
    let out = sink(&to).map_err(unwritten)?;
    let mut writer = match plan.form {
        RollupForm::Csv => RollupWriter::csv(out).map_err(unwritten)?,
        RollupForm::Ndjson => RollupWriter::ndjson(out),
    };
    let damaged = write(plan, reading, &mut |row| writer.row(row).map_err(unwritten))?;
    writer.finish().map_err(unwritten)?;
    if damaged > 0 {
        note(&format!(
            "{} of the store cannot be read: left out",
            count(damaged, "damaged rollup")
        ));
    }
    Ok(exit::OK)
}

/// Passes every row to `put`; returns how many rollups could not be read.
fn write(
    plan: &MonitorExportPlan,
    reading: Reading,
    put: &mut dyn FnMut(&RollupRow<'_>) -> Result<(), Problem>,
) -> Result<u64, Problem> {
    let Reading { mut reader, path, period } = reading;
    let failed = |error: StoreError| problem(&path, &error);
    let step = match plan.step {
        RollupStep::Minute => Step::Minute,
        RollupStep::Hour => Step::Hour,
        RollupStep::Day => Step::Day,
    };
    let measures: Vec<Measure> = match plan.metrics.as_slice() {
        [] => Measure::all().collect(),
        names => names.iter().filter_map(|name| Measure::named(name)).collect(),
    };
    for (series, labels) in reader.series().map_err(failed)? {
        if !plan.targets.is_empty() && !plan.targets.contains(&labels.target) {
            continue;
        }
        let mut from = period.start;
        while from < period.end {
            let until = period.end.min(from + AT_ONCE * step.seconds());
            let wanted = |measure| measures.contains(&measure);
            for at in reader.rollups(series, step, from, until, wanted).map_err(failed)? {
                rows(&labels, step, at.start, &at.rollup, &measures, put)?;
            }
            from = until;
        }
    }
    Ok(reader.damaged())
}

/// The rows of one rollup: one per metric, or a single one without a metric if there are no times.
fn rows(
    labels: &SeriesLabels,
    step: Step,
    start: i64,
    rollup: &Rollup,
    measures: &[Measure],
    put: &mut dyn FnMut(&RollupRow<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let failures: BTreeMap<String, u64> =
        rollup.failures.iter().map(|(kind, number)| (kind.to_string(), *number)).collect();
    let facts: BTreeMap<&str, &BTreeMap<String, u64>> =
        rollup.facts.iter().map(|(fact, values)| (fact.name(), values)).collect();
    let json = |error: serde_json::Error| Problem::new(exit::WRITE, error.to_string());
    let tags = serde_json::to_string(&labels.tags).map_err(json)?;
    let failures_by_type = serde_json::to_string(&failures).map_err(json)?;
    let facts = serde_json::to_string(&facts).map_err(json)?;
    let bare = RollupRow {
        start,
        step: step.name(),
        target: &labels.target,
        variant: &labels.variant,
        variant_label: &labels.variant_label,
        place: &labels.place,
        tags: &tags,
        samples: rollup.samples,
        failures: rollup.failed(),
        failures_by_type: &failures_by_type,
        unproven: rollup.unproven.values().sum(),
        metric: None,
        count: 0,
        median: None,
        p90: None,
        p95: None,
        p99: None,
        facts: &facts,
    };
    let mut is_bare = true;
    for measure in measures {
        let Some(times) = rollup.times(*measure) else { continue };
        let quantile = |q| times.quantile(q).map(|quantile| quantile.value);
        let name = measure.name();
        put(&RollupRow {
            metric: Some(&name),
            count: times.count(),
            median: quantile(0.5),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            ..bare
        })?;
        is_bare = false;
    }
    if is_bare { put(&bare) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_core::timeline::FailureType;
    use firstbyte_monitor::rollup::MonitoredFact;
    use firstbyte_monitor::store::Store;

    use super::*;
    use crate::plans::Moment;

    /// The writer keeps the store open meanwhile.
    #[test]
    fn a_row_is_of_a_series_a_period_and_a_metric() {
        let directory = tempfile::tempdir().unwrap();
        let at = 1_795_392_000_i64;
        let mut store = Store::open(&directory.path().join("store.sqlite")).unwrap();
        let labels =
            |target: &str| SeriesLabels { target: target.into(), ..SeriesLabels::default() };
        let ids = store.enrol(&[labels("shop"), labels("news")]).unwrap();
        for (id, minute, ms) in
            [(0, 0, Some(10)), (0, 0, Some(20)), (0, 1_100, None), (1, 5, Some(5))]
        {
            let mut rollup = Rollup::default();
            rollup.samples = 1;
            match ms {
                Some(ms) => {
                    let total = Measure::named("total").unwrap();
                    rollup.add_time(total, Duration::from_millis(ms));
                    let versions = rollup.facts.entry(MonitoredFact::TlsVersion).or_default();
                    versions.insert("TLSv1.3".to_owned(), 1);
                }
                None => _ = rollup.failures.insert(FailureType::Unknown, 1),
            }
            store.add_rollup(ids[id], (at + minute * 60) as u64 * 1_000_000_000, &rollup);
        }
        store.flush(&[]).unwrap();
        let plan = MonitorExportPlan {
            store: Some(directory.path().to_owned()),
            step: RollupStep::Minute,
            since: Some(Moment::At(at)),
            until: Some(Moment::At(at + 86_400)),
            targets: vec!["shop".to_owned()],
            metrics: Vec::new(),
            form: RollupForm::Csv,
        };
        let mut found = Vec::new();
        let since_until = [plan.since, plan.until];
        let reading = Reading::begin(plan.store.as_deref(), since_until, &plan.targets).unwrap();
        let damaged = write(&plan, reading, &mut |row| {
            let metric = row.metric.map(str::to_owned);
            found.push((row.start - at, metric, row.samples, row.failures, row.count, row.median));
            assert_eq!(row.facts.contains("TLSv1.3\":2"), row.start == at, "{}", row.facts);
            Ok(())
        });
        assert_eq!(damaged.unwrap(), 0);
        let [(0, Some(total), 2, 0, 2, Some(median)), (66_000, None, 1, 1, 0, None)] = &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(total, "total");
        assert!((9..=21).contains(&median.as_millis()), "{median:?}");
        let none = Reading::begin(plan.store.as_deref(), since_until, &["x".to_owned()]);
        assert!(none.is_err());
    }
}
