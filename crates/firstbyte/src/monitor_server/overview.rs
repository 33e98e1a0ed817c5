//! Every series over a period, one row each: the data of the page's first view.
//!
//! In: a period. Out: for each series its sample counts, its median and p95 step by step, and its current state. A read
//! takes one histogram of each rollup, and no facts. Sums of finished steps stay in memory, so later reads only need
//! the new steps.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_monitor::budget::{Evidence, Judgement, SamplesBeyond};
use firstbyte_monitor::rollup::{Measure, MonitoredPart, Rollup};
use firstbyte_monitor::store::{RollupAt, SeriesId, SeriesLabels, Step, StoreError, StoreReader};
use serde::Serialize;

use crate::recording::{Budgets, Judged, series_name};

use super::annotations::now;
use super::answers::Refusal;
use super::parameters::{Parameters, period};
use super::series::{quantile, step_named, unreadable};

const TOTAL: Measure = Measure::Metric(Metric::Total);
const DAY: i64 = 86_400;
/// Maximum number of points per row; a row is 100 to 200 pixels wide.
const MOST_POINTS: i64 = 200;
/// Maximum number of rollups per read, if the step may be lengthened.
const MOST_READ: i64 = 60_000;
/// Seconds after the end of a step when nothing is added to it any more: its samples are over, and the recorder writes
/// every few seconds.
const SETTLED: i64 = 600;
/// Number of periods whose closed steps stay in memory: a day, a week, a month.
const MOST_KEPT: usize = 3;
/// Maximum number of concurrent readers, and the minimum number of series per reader.
const READERS: usize = 4;
const FEWEST_OF_READER: usize = 200;

/// A period named in a query.
pub(super) struct OverviewQuery {
    target: Option<String>,
    step: Option<Step>,
    period: Range<i64>,
    /// Only these series, by position.
    part: Option<Range<usize>>,
}

#[derive(Serialize)]
pub(super) struct Overview {
    format: &'static str,
    version: u32,
    step: &'static str,
    step_seconds: i64,
    from: i64,
    until: i64,
    #[serde(skip_serializing_if = "is_none")]
    damaged: u64,
    rows: Vec<OverviewRow>,
    /// Number of series in the store.
    #[serde(skip)]
    pub(super) series: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
const fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct OverviewRow {
    series: SeriesId,
    target: String,
    variant: String,
    variant_label: String,
    place: String,
    url: String,
    tags: BTreeMap<String, String>,
    measured: bool,
    #[serde(flatten)]
    sum: Sum,
    now: Option<Now>,
    /// Promises and whether they are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<BudgetShown>,
    /// Numbers of the steps with samples, from 0 at the start of the period.
    steps: Vec<i64>,
    medians_ns: Vec<Option<u64>>,
    p95s_ns: Vec<Option<u64>>,
    failures_of_steps: Vec<u64>,
}

/// Summary of the samples in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Sum {
    samples: u64,
    failures: u64,
    /// Share of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_share: Option<f64>,
    failures_by_type: BTreeMap<String, u64>,
    unverified: u64,
    /// Samples that the quantiles are computed from.
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p90_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ns: Option<u64>,
}

impl Sum {
    pub(super) fn from_rollup(rollup: &Rollup) -> Self {
        let total = rollup.times(TOTAL);
        let of_total = |q| total.and_then(|times| quantile(times, q));
        Self {
            samples: rollup.samples,
            failures: rollup.failed(),
            failed_share: rollup.failed_share(),
            failures_by_type: failures_by_type(rollup),
            unverified: rollup.unproven.values().sum(),
            count: total.map_or(0, ExponentialHistogram::count),
            median_ns: of_total(0.5),
            p90_ns: of_total(0.9),
            p95_ns: of_total(0.95),
            p99_ns: of_total(0.99),
        }
    }
}

fn failures_by_type(rollup: &Rollup) -> BTreeMap<String, u64> {
    rollup.failures.iter().map(|(kind, number)| (kind.to_string(), *number)).collect()
}

/// Summary of the current hour and the one before it.
#[derive(Serialize)]
struct Now {
    from: i64,
    #[serde(flatten)]
    sum: Sum,
    /// Medians of the name lookup and of each part, in nanoseconds.
    parts_ns: BTreeMap<&'static str, u64>,
}

impl Now {
    fn from_rollup(from: i64, rollup: &Rollup) -> Self {
        let resolve = rollup.times(Measure::Metric(Metric::Resolve)).and_then(|t| quantile(t, 0.5));
        let parts = MonitoredPart::ALL.into_iter().filter_map(|part| {
            Some((part.name(), quantile(rollup.times(Measure::Part(part))?, 0.5)?))
        });
        let parts_ns = resolve.map(|ns| ("resolve", ns)).into_iter().chain(parts).collect();
        Self { from, sum: Sum::from_rollup(rollup), parts_ns }
    }
}

/// A promise and its state with the current samples.
#[derive(Serialize)]
struct BudgetShown {
    budget: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_ns: Option<u64>,
    over: bool,
    #[serde(flatten)]
    judged: Option<JudgementShown>,
}

#[derive(Serialize)]
struct JudgementShown {
    #[serde(flatten)]
    evidence: EvidenceShown,
    sentence: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EvidenceShown {
    Samples {
        #[serde(skip_serializing_if = "Option::is_none")]
        figure_ns: Option<u64>,
        beyond: u64,
        of: u64,
        allowed_share: f64,
    },
    Certificate {
        days_left: i64,
    },
}

impl BudgetShown {
    fn from_judged(judged: &Judged, target: &str) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let shown = |one: &Judgement| JudgementShown {
            evidence: match one.evidence {
                Evidence::SamplesBeyond(SamplesBeyond { beyond, of, allowed, figure }) => {
                    let figure_ns = figure.map(ns);
                    EvidenceShown::Samples { figure_ns, beyond, of, allowed_share: allowed }
                }
                Evidence::CertificateEnd { days_left, .. } => {
                    EvidenceShown::Certificate { days_left }
                }
            },
            sentence: judged.promise.sentence(one, target),
        };
        Self {
            budget: judged.promise.name.clone(),
            limit_ns: judged.promise.limit().map(ns),
            over: judged.over,
            judged: judged.judgement.as_ref().map(shown),
        }
    }
}

/// One step of a row.
#[derive(Clone)]
struct StepFigures {
    start: i64,
    median_ns: Option<u64>,
    p95_ns: Option<u64>,
    failures: u64,
}

/// Figures and sum of a series' steps.
#[derive(Clone, Default)]
struct Summed {
    steps: Vec<StepFigures>,
    sum: Rollup,
}

impl Summed {
    fn add(&mut self, rollups: Vec<RollupAt>) {
        for RollupAt { start, rollup } in rollups {
            let total = rollup.times(TOTAL);
            let of_total = |q| total.and_then(|times| quantile(times, q));
            self.steps.push(StepFigures {
                start,
                median_ns: of_total(0.5),
                p95_ns: of_total(0.95),
                failures: rollup.failed(),
            });
            self.sum.merge(&rollup);
        }
    }
}

/// Store, step, start and end.
type ClosedKey = (u64, &'static str, i64, i64);
/// Closed steps of each series.
type ClosedSeries = Arc<Mutex<HashMap<SeriesId, Arc<Summed>>>>;

/// Sums of closed steps for the last few requested periods.
#[derive(Clone, Default)]
pub(super) struct ClosedSteps(Arc<Mutex<VecDeque<(ClosedKey, ClosedSeries)>>>);

impl ClosedSteps {
    fn of_period(&self, key: ClosedKey) -> ClosedSeries {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(known, _)| *known == key);
        let series = match found.and_then(|place| kept.remove(place)) {
            Some((_, series)) => series,
            None => ClosedSeries::default(),
        };
        kept.push_back((key, Arc::clone(&series)));
        if kept.len() > MOST_KEPT {
            kept.pop_front();
        }
        series
    }
}

/// Hour numbers of now and of the latest settled time. The closed steps stay the same as long as these do.
pub(super) fn steps_over() -> [i64; 2] {
    [now(), now() - SETTLED].map(|at| Step::Hour.number(at))
}

/// Inputs of a read.
pub(super) struct Look {
    /// Series being measured now.
    pub(super) measured: Arc<Vec<SeriesLabels>>,
    pub(super) budgets: Arc<Budgets>,
    pub(super) closed: ClosedSteps,
    /// Whether earlier steps may still grow, because raw samples are being summed up again.
    pub(super) catches_up: bool,
}

impl OverviewQuery {
    pub(super) fn read(query: Option<&str>) -> Result<Self, Refusal> {
        let parameters = Parameters::read(query, &["target", "step", "from", "until"])?;
        let target = parameters.get("target").map(str::to_owned);
        let step = parameters.get("step").map(step_named).transpose()?;
        let until = parameters.moment("until")?.unwrap_or_else(now);
        let from = parameters.moment("from")?.unwrap_or((until - DAY).max(0));
        let period = period(["from", "until"], from, until)?;
        if let Some(step) = step {
            let points = (period.end - period.start) / step.seconds();
            if points > MOST_POINTS {
                let what = format!(
                    "{points} times a {} requested, at most {MOST_POINTS} are \
                                    allowed",
                    step.name()
                );
                return Err(Refusal::Bad(what));
            }
        }
        Ok(Self { target, step, period, part: None })
    }

    /// The last `days` up to now, as the page requests them, for some of the series.
    pub(super) fn ahead(days: i64, part: Range<usize>) -> Self {
        let until = now();
        Self { target: None, step: None, period: until - days * DAY..until, part: Some(part) }
    }

    pub(super) fn rows(self, store: &Path, look: &Look) -> Result<Overview, Refusal> {
        let mut all = StoreReader::open(store).and_then(|r| r.series()).map_err(unreadable)?;
        if let Some(target) = &self.target {
            all.retain(|(_, labels)| labels.target == *target);
        }
        let mut step = self.step.unwrap_or_else(|| step_for(&self.period, all.len()));
        loop {
            let part = self.part.clone().unwrap_or(0..all.len());
            let part = part.start.min(all.len())..part.end.min(all.len());
            let mut answer = self.by_step(store, &all[part], step, look)?;
            answer.series = all.len();
            let has_samples = answer.rows.iter().any(|row| row.sum.samples > 0);
            match longer(step).filter(|_| self.step.is_none() && !has_samples) {
                // Minutes are not kept as long as hours.
                Some(next) => step = next,
                None => return Ok(answer),
            }
        }
    }

    fn by_step(
        &self,
        store: &Path,
        all: &[(SeriesId, SeriesLabels)],
        step: Step,
        look: &Look,
    ) -> Result<Overview, Refusal> {
        let until = self.period.end;
        let from = step.number(self.period.start) * step.seconds();
        let closed_until = step.number(until.min(now() - SETTLED)) * step.seconds();
        let closed_until = if look.catches_up { from } else { closed_until.max(from) };
        let inode = std::fs::metadata(store).map_or(0, |data| data.ino());
        let closed = look.closed.of_period((inode, step.name(), from, closed_until));
        let mut closed = closed.lock().unwrap_or_else(PoisonError::into_inner);
        let stretch = Stretch { step, from, closed_until, until };
        let known: Vec<Option<Arc<Summed>>> =
            all.iter().map(|(id, _)| closed.get(id).cloned()).collect();
        // A disk answers several readers in the time of one.
        let each = all.len().div_ceil(READERS).max(FEWEST_OF_READER);
        let parts: Vec<Result<Part, Refusal>> = std::thread::scope(|scope| {
            let begin = |(all, known)| {
                scope.spawn(move || {
                    let mut reader = StoreReader::open(store).map_err(unreadable)?.without_facts();
                    stretch.part(&mut reader, all, known, look)
                })
            };
            let threads: Vec<_> = all.chunks(each).zip(known.chunks(each)).map(begin).collect();
            let ended = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
            });
            ended.collect()
        });
        let (mut rows, mut damaged) = (Vec::with_capacity(all.len()), 0);
        for part in parts {
            let part = part?;
            rows.extend(part.rows);
            closed.extend(part.closed);
            damaged += part.damaged;
        }
        Ok(Overview {
            format: "firstbyte/monitor-overview",
            version: 1,
            step: step.name(),
            step_seconds: step.seconds(),
            from,
            until,
            damaged,
            rows,
            series: 0,
        })
    }
}

/// Result of one reader.
struct Part {
    rows: Vec<OverviewRow>,
    /// Closed steps that were not in memory.
    closed: Vec<(SeriesId, Arc<Summed>)>,
    damaged: u64,
}

/// A period divided into steps; steps before `closed_until` are closed.
#[derive(Clone, Copy)]
struct Stretch {
    step: Step,
    from: i64,
    closed_until: i64,
    until: i64,
}

impl Stretch {
    /// Rows of `all`, whose closed steps are in `known`.
    fn part(
        self,
        reader: &mut StoreReader,
        all: &[(SeriesId, SeriesLabels)],
        known: &[Option<Arc<Summed>>],
        look: &Look,
    ) -> Result<Part, Refusal> {
        let Self { step, from, closed_until, until } = self;
        let measured: HashSet<(&str, &str, &str)> =
            look.measured.iter().map(|l| (&*l.target, &*l.variant, &*l.place)).collect();
        let mut part = Part { rows: Vec::with_capacity(all.len()), closed: Vec::new(), damaged: 0 };
        for ((id, labels), known) in all.iter().zip(known) {
            let mut summed = match known {
                Some(known) => Summed::clone(known),
                None => {
                    let mut summed = Summed::default();
                    let read = reader.rollups(*id, step, from, closed_until, |m| m == TOTAL);
                    summed.add(read.map_err(unreadable)?);
                    part.closed.push((*id, Arc::new(summed.clone())));
                    summed
                }
            };
            let open = reader.rollups(*id, step, closed_until, until, |m| m == TOTAL);
            summed.add(open.map_err(unreadable)?);
            let measured = measured.contains(&(&*labels.target, &*labels.variant, &*labels.place));
            if measured || !summed.steps.is_empty() {
                let now = now_of(reader, *id, until).map_err(unreadable)?;
                let mut row = row(*id, labels, measured, &summed, now, from, step);
                let judged = look.budgets.get(&series_name(labels)).into_iter().flatten();
                let shown = |judged| BudgetShown::from_judged(judged, &labels.target);
                row.budgets = judged.map(shown).collect();
                part.rows.push(row);
            }
        }
        part.damaged = reader.damaged();
        Ok(part)
    }
}

/// Summary of the hour that contains the last second before `until`, and of the hour before it.
fn now_of(reader: &mut StoreReader, id: SeriesId, until: i64) -> Result<Option<Now>, StoreError> {
    let hour = Step::Hour.seconds();
    let from = (Step::Hour.number(until - 1) - 1).max(0) * hour;
    let is_wanted = |measure| match measure {
        Measure::Metric(metric) => matches!(metric, Metric::Total | Metric::Resolve),
        Measure::Part(_) => true,
        Measure::Rtt => false,
    };
    let mut sum = Rollup::default();
    for at in reader.rollups(id, Step::Hour, from, until, is_wanted)? {
        sum.merge(&at.rollup);
    }
    Ok((sum.samples > 0).then(|| Now::from_rollup(from, &sum)))
}

fn row(
    series: SeriesId,
    labels: &SeriesLabels,
    measured: bool,
    summed: &Summed,
    now: Option<Now>,
    from: i64,
    step: Step,
) -> OverviewRow {
    let SeriesLabels { target, variant, place, variant_label, url, tags } = labels.clone();
    let steps = &summed.steps;
    OverviewRow {
        series,
        target,
        variant,
        variant_label,
        place,
        url,
        tags,
        measured,
        sum: Sum::from_rollup(&summed.sum),
        now,
        budgets: Vec::new(),
        steps: steps.iter().map(|one| (one.start - from) / step.seconds()).collect(),
        medians_ns: steps.iter().map(|one| one.median_ns).collect(),
        p95s_ns: steps.iter().map(|one| one.p95_ns).collect(),
        failures_of_steps: steps.iter().map(|one| one.failures).collect(),
    }
}

/// The shortest step with which neither one row nor all `series` rows together exceed their limits.
fn step_for(period: &Range<i64>, series: usize) -> Step {
    let fits = |step: &Step| {
        let points = (period.end - period.start) / step.seconds();
        let series = i64::try_from(series).unwrap_or(i64::MAX);
        points <= MOST_POINTS && points.saturating_mul(series) <= MOST_READ
    };
    Step::ALL.into_iter().find(fits).unwrap_or(Step::Day)
}

/// The next longer step.
pub(super) const fn longer(step: Step) -> Option<Step> {
    match step {
        Step::Minute => Some(Step::Hour),
        Step::Hour => Some(Step::Day),
        Step::Day => None,
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::FailureType;
    use firstbyte_monitor::store::Store;

    use super::*;

    fn look(measured: Vec<SeriesLabels>) -> Look {
        Look {
            measured: Arc::new(measured),
            budgets: Arc::default(),
            closed: ClosedSteps::default(),
            catches_up: false,
        }
    }

    fn labels(target: &str) -> SeriesLabels {
        SeriesLabels { target: target.into(), ..SeriesLabels::default() }
    }

    fn add(store: &mut Store, id: SeriesId, at: i64, total: Option<u64>) {
        let mut rollup = Rollup::default();
        rollup.samples = 1;
        match total {
            Some(ms) => {
                rollup.add_time(TOTAL, Duration::from_millis(ms));
                rollup
                    .add_time(Measure::Part(MonitoredPart::Server), Duration::from_millis(ms / 2));
            }
            None => _ = rollup.failures.insert(FailureType::TcpRefused, 1),
        }
        store.add_rollup(id, at.unsigned_abs() * 1_000_000_000, &rollup);
    }

    #[test]
    fn a_row_has_its_period_its_steps_and_what_is_now() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let mut store = Store::open(&path).unwrap();
        let all = [labels("shop"), labels("gone"), labels("idle")];
        let ids = store.enrol(&all).unwrap();
        let until = Step::Hour.number(now()) * 3_600 + 1_800;
        let from = until - 1_800 - 23 * 3_600;
        for (at, ms) in [(from + 5, Some(10)), (from + 7, Some(10)), (until - 60, Some(30))] {
            add(&mut store, ids[0], at, ms);
        }
        add(&mut store, ids[0], until - 5_000, None);
        store.flush(&[]).unwrap();
        let look = look(vec![labels("shop"), labels("idle")]);
        let ask = |query: &str| OverviewQuery::read(Some(query)).unwrap().rows(&path, &look);
        let query = format!("from={from}&until={until}&step=hour");
        let answer = ask(&query).unwrap();
        let [shop, idle] = &answer.rows[..] else { panic!("{}", answer.rows.len()) };
        assert_eq!((idle.target.as_str(), idle.sum.samples, idle.now.is_none()), ("idle", 0, true));
        assert_eq!((shop.sum.samples, shop.sum.failures, shop.sum.count), (4, 1, 3));
        assert_eq!(shop.sum.failures_by_type, BTreeMap::from([("tcp.refused".to_owned(), 1)]));
        assert_eq!((shop.steps[0], *shop.steps.last().unwrap()), (0, 23));
        let near = |ns: Option<u64>, ms: f64| (ns.unwrap() as f64 / (ms * 1e6) - 1.0).abs() < 0.01;
        assert!(near(shop.sum.median_ns, 10.0) && near(shop.medians_ns[0], 10.0));
        let now = shop.now.as_ref().unwrap();
        assert!(near(now.sum.median_ns, 30.0) && near(now.parts_ns.get("server").copied(), 15.0));
        // Later samples are included even though the rest comes from memory.
        add(&mut store, ids[0], until - 30, Some(30));
        store.flush(&[]).unwrap();
        assert_eq!(ask(&query).unwrap().rows[0].sum.samples, 5);
        let one = ask(&format!("{query}&target=idle")).unwrap();
        assert_eq!(one.rows.len(), 1);
        let by_day = format!("from={}&until={until}", until - 300 * DAY);
        assert_eq!(ask(&by_day).unwrap().step, "day");
    }

    #[test]
    fn the_step_is_as_short_as_what_is_read_allows() {
        for (seconds, series, step) in [
            (3_600, 10, Step::Minute),
            (3_600, 2_000, Step::Hour),
            (DAY, 2_000, Step::Hour),
            (7 * DAY, 100, Step::Hour),
            (7 * DAY, 2_000, Step::Day),
            (30 * DAY, 1, Step::Day),
        ] {
            assert_eq!(step_for(&(0..seconds), series), step, "{seconds} s, {series} series");
        }
        let refused = OverviewQuery::read(Some("from=0&until=864000&step=minute"));
        assert!(matches!(refused, Err(Refusal::Bad(_))));
    }
}
