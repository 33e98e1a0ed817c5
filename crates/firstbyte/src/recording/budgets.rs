//! Whether what is promised of each series is kept: judged once a minute, told when it no longer is, and when it is again.
//!
//! In: the promises of each series, and its rollups of the hour that is under way and the one before it. Out: words, and how each
//! promise stands, for whoever shows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_monitor::budget::{Judgement, Promise, Standing};
use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{SeriesId, SeriesLabels, Step};

use super::observed::Board;

/// From one look to the next.
const JUDGE_EVERY: Duration = Duration::from_secs(60);
/// The first look: what was measured before the start is judged soon.
const FIRST_AFTER: Duration = Duration::from_secs(6);

/// Gives the hours of a series from a time on, together, with the measures that are wanted.
type ReadHours<'a> = dyn FnMut(SeriesId, i64, &dyn Fn(Measure) -> bool) -> Rollup + 'a;

/// A series with promises.
#[derive(Clone, Debug)]
pub(super) struct Promised {
    pub(super) id: SeriesId,
    pub(super) labels: SeriesLabels,
    pub(super) budget: Vec<Promise>,
}

/// A promise, and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) promise: Promise,
    /// Absent where there are no samples to judge by.
    pub(crate) judgement: Option<Judgement>,
    /// It was broken, and is not kept again: fewer beyond than chance would bring do not end that, fewer than may be do.
    pub(crate) over: bool,
}

/// Place, target and variant: no two series have the same.
pub(crate) type SeriesName = (String, String, String);
/// Of the series that have promises.
pub(crate) type Budgets = BTreeMap<SeriesName, Vec<Judged>>;

pub(crate) fn series_name(labels: &SeriesLabels) -> SeriesName {
    (labels.place.clone(), labels.target.clone(), labels.variant.clone())
}

/// Who judges.
pub(super) struct BudgetWatch {
    series: Vec<Promised>,
    standings: Budgets,
    due: Monotonic,
    board: Board,
}

impl BudgetWatch {
    pub(super) fn new(board: Board) -> Self {
        let due = Monotonic::now() + FIRST_AFTER;
        Self { series: Vec::new(), standings: Budgets::new(), due, board }
    }

    /// Judges `series` from now on. Promises that are the same stand as they did.
    pub(super) fn follow(&mut self, series: Vec<Promised>) {
        let mut before = std::mem::take(&mut self.standings);
        for one in &series {
            let known = before.remove(&series_name(&one.labels)).unwrap_or_default();
            let stands = |promise: &Promise| {
                let same = known.iter().find(|judged| judged.promise == *promise).cloned();
                let new = || Judged { promise: promise.clone(), judgement: None, over: false };
                same.unwrap_or_else(new)
            };
            let all = one.budget.iter().map(stands).collect();
            self.standings.insert(series_name(&one.labels), all);
        }
        self.series = series;
        self.board.show(Arc::new(self.standings.clone()));
    }

    /// Judges all, if it is time to; `now` in seconds since 1970.
    pub(super) fn look(&mut self, now: i64, read: &mut ReadHours<'_>, tell: &dyn Fn(&str)) {
        if self.series.is_empty() || Monotonic::now().since(self.due) == Duration::ZERO {
            return;
        }
        self.due = Monotonic::now() + JUDGE_EVERY;
        let from = (Step::Hour.number(now) - 1).max(0) * Step::Hour.seconds();
        for Promised { id, labels, budget } in &self.series {
            let wanted = |measure| budget.iter().any(|promise| promise.measure() == Some(measure));
            let rollup = read(*id, from, &wanted);
            let Some(all) = self.standings.get_mut(&series_name(labels)) else { continue };
            for judged in all {
                judge(judged, &rollup, labels, tell);
            }
        }
        self.board.show(Arc::new(self.standings.clone()));
    }
}

fn judge(judged: &mut Judged, rollup: &Rollup, labels: &SeriesLabels, tell: &dyn Fn(&str)) {
    judged.judgement = judged.promise.judge(rollup);
    let Some(judgement) = &judged.judgement else { return };
    let over = match judgement.standing {
        Standing::Over => true,
        Standing::Unsure => judged.over,
        Standing::Within => false,
    };
    if std::mem::replace(&mut judged.over, over) != over {
        let state = if over { "over budget" } else { "within budget again" };
        let variant = if labels.variant_label.is_empty() { "" } else { ", " };
        let sentence = judged.promise.sentence(judgement);
        tell(&format!("{state}: {}{variant}{}: {sentence}", labels.target, labels.variant_label));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use firstbyte_core::run::Metric;

    use super::super::observed::observed;
    use super::*;

    const TTFB: Measure = Measure::Metric(Metric::Ttfb);

    fn rollup(fast: u64, slow: u64) -> Rollup {
        let mut rollup = Rollup::default();
        rollup.samples = fast + slow;
        (0..fast).for_each(|_| rollup.add_time(TTFB, Duration::from_millis(100)));
        (0..slow).for_each(|_| rollup.add_time(TTFB, Duration::from_millis(400)));
        rollup
    }

    #[test]
    fn what_is_broken_is_told_once_and_once_when_it_is_kept_again() {
        let (observer, seen) = observed(Vec::new(), 0);
        let mut watch = BudgetWatch::new(seen.board());
        let labels = SeriesLabels {
            target: "shop".into(),
            variant_label: "TLS 1.3".into(),
            ..SeriesLabels::default()
        };
        let promised = Promised {
            id: 7,
            labels: labels.clone(),
            budget: vec![Promise::read("ttfb.p95", "300ms").unwrap()],
        };
        watch.follow(vec![promised.clone()]);
        let told = RefCell::new(Vec::new());
        let look = |watch: &mut BudgetWatch, fast, slow| {
            watch.due = Monotonic::now() - Duration::from_secs(1);
            let mut read = |id, from, wanted: &dyn Fn(Measure) -> bool| {
                assert_eq!((id, from, wanted(TTFB), wanted(Measure::Rtt)), (7, 3_600, true, false));
                rollup(fast, slow)
            };
            watch.look(7_300, &mut read, &|what| told.borrow_mut().push(what.to_owned()));
        };
        look(&mut watch, 0, 0);
        look(&mut watch, 58, 2);
        look(&mut watch, 50, 10);
        look(&mut watch, 50, 10);
        // Fewer, but still more than may be.
        look(&mut watch, 56, 4);
        let shown = observer.figures().budgets;
        let [judged] = &shown[&series_name(&labels)][..] else { panic!("{shown:?}") };
        assert!(judged.over && judged.judgement.as_ref().unwrap().beyond == 4);
        // The same promise stands as it did, whatever else is new.
        watch.follow(vec![promised]);
        look(&mut watch, 57, 3);
        assert_eq!(
            told.take(),
            [
                "over budget: shop, TLS 1.3: ttfb p95 399 ms, limit 300 ms: 10 of 60 samples took \
                 longer, 5 % allowed",
                "within budget again: shop, TLS 1.3: ttfb p95 100 ms, limit 300 ms: 3 of 60 \
                 samples took longer, 5 % allowed",
            ]
        );
        watch.follow(Vec::new());
        assert!(observer.figures().budgets.is_empty());
    }
}
