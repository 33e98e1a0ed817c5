//! Judges once a minute whether each series keeps its promises, and reports when one is broken and when it is kept
//! again.
//!
//! In: the promises of each series, and its rollups of the current hour and the one before it. Out: messages, and the
//! state of each promise for displays. An expiring certificate is reported once for all series of a target that were
//! shown it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_monitor::budget::{Judgement, Promise, Standing, earliest_certificate_end};
use firstbyte_monitor::rollup::{Measure, Rollup};
use firstbyte_monitor::store::{SeriesId, SeriesLabels, Step};

use super::observed::Board;

/// Interval between judgements.
const JUDGE_EVERY: Duration = Duration::from_secs(60);
/// Delay of the first judgement, until the store has been updated once.
const FIRST_AFTER: Duration = Duration::from_secs(12);

/// Maximum number of variants named in a certificate message.
const MOST_NAMED: usize = 3;

/// Certificate messages, with the series that were shown the certificate.
type CertificateNews<'a> = BTreeMap<String, (&'a SeriesLabels, Vec<&'a str>)>;
/// Returns the merged hours of a series from a time on, with the wanted measures.
type ReadHours<'a> = dyn FnMut(SeriesId, i64, &dyn Fn(Measure) -> bool) -> Rollup + 'a;

/// A series with promises.
#[derive(Clone, Debug)]
pub(super) struct Promised {
    pub(super) id: SeriesId,
    pub(super) labels: SeriesLabels,
    pub(super) budget: Vec<Promise>,
}

/// A promise and its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) promise: Promise,
    /// Absent if there are no samples to judge by.
    pub(crate) judgement: Option<Judgement>,
    /// Whether it is broken. It stays so until fewer samples are beyond the limit than allowed; fewer than chance
    /// explains are not enough.
    pub(crate) over: bool,
}

/// Place, target and variant, which identify a series.
pub(crate) type SeriesName = (String, String, String);
/// Judged promises of each series that has any.
pub(crate) type Budgets = BTreeMap<SeriesName, Vec<Judged>>;

pub(crate) fn series_name(labels: &SeriesLabels) -> SeriesName {
    (labels.place.clone(), labels.target.clone(), labels.variant.clone())
}

/// Judges the promises.
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

    /// Judges `series` from now on. Unchanged promises keep their state.
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

    /// Judges all promises if it is time; `now` is in seconds since 1970.
    pub(super) fn look(&mut self, now: i64, read: &mut ReadHours<'_>, tell: &dyn Fn(&str)) {
        if self.series.is_empty() || Monotonic::now().since(self.due) == Duration::ZERO {
            return;
        }
        self.due = Monotonic::now() + JUDGE_EVERY;
        let from = (Step::Hour.number(now) - 1).max(0) * Step::Hour.seconds();
        let mut certificates = CertificateNews::new();
        for Promised { id, labels, budget } in &self.series {
            let wanted = |measure| budget.iter().any(|promise| promise.measure() == Some(measure));
            let rollup = read(*id, from, &wanted);
            let Some(all) = self.standings.get_mut(&series_name(labels)) else { continue };
            for judged in all {
                let Some(sentence) = judge(judged, &rollup, &labels.target, now) else { continue };
                let state = if judged.over { "over budget" } else { "within budget again" };
                if judged.promise.is_of_certificate() {
                    let news = format!("{state}: {sentence}");
                    let (_, variants) = certificates.entry(news).or_insert((labels, Vec::new()));
                    variants.push(labels.variant_label.as_str());
                    continue;
                }
                let SeriesLabels { target, variant_label, .. } = labels;
                let variant = if variant_label.is_empty() { "" } else { ", " };
                tell(&format!("{state}: {target}{variant}{variant_label}: {sentence}"));
            }
        }
        for (news, (labels, variants)) in certificates {
            let is_of_target = |one: &&Promised| one.labels.target == labels.target;
            let all = self.series.iter().filter(is_of_target).count();
            match variants.len() {
                number if number == all => tell(&news),
                number @ 1..=MOST_NAMED => {
                    tell(&format!("{news}: {} ({number} of {all} series)", variants.join("; ")));
                }
                number => tell(&format!("{news}: {number} of {all} series")),
            }
        }
        self.board.show(Arc::new(self.standings.clone()));
    }
}

/// Judges a promise again and returns a message if its state changed.
fn judge(judged: &mut Judged, rollup: &Rollup, target: &str, now: i64) -> Option<String> {
    judged.judgement = judged.promise.judge(rollup, earliest_certificate_end(rollup), now);
    let judgement = judged.judgement.as_ref()?;
    let over = match judgement.standing {
        Standing::Over => true,
        Standing::Unsure => judged.over,
        Standing::Within => false,
    };
    let is_news = std::mem::replace(&mut judged.over, over) != over;
    is_news.then(|| judged.promise.sentence(judgement, target))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use firstbyte_core::run::Metric;
    use firstbyte_monitor::rollup::MonitoredFact;

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
        // Fewer, but still more than allowed.
        look(&mut watch, 56, 4);
        let shown = observer.figures().budgets;
        let [judged] = &shown[&series_name(&labels)][..] else { panic!("{shown:?}") };
        let judgement = judged.judgement.as_ref().unwrap();
        assert!(judged.over && judgement.samples_beyond().unwrap().beyond == 4);
        // An unchanged promise keeps its state, whatever else changes.
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

    /// Three series of a target; one address of its name still serves the old certificate.
    #[test]
    fn a_certificate_is_told_once_for_all_series_that_were_shown_it() {
        let (_, seen) = observed(Vec::new(), 0);
        let mut watch = BudgetWatch::new(seen.board());
        let promised = |id, variant: &str| Promised {
            id,
            labels: SeriesLabels {
                target: "shop".into(),
                variant: variant.into(),
                variant_label: variant.into(),
                ..SeriesLabels::default()
            },
            budget: vec![Promise::read("certificate_days", "14").unwrap()],
        };
        watch.follow(vec![promised(1, "a"), promised(2, "b"), promised(3, "c")]);
        let told = RefCell::new(Vec::new());
        // 27 November 2026.
        let now = 1_795_786_080;
        let look = |watch: &mut BudgetWatch, ends: [&str; 3]| {
            watch.due = Monotonic::now() - Duration::from_secs(1);
            let mut read = |id: SeriesId, _, _: &dyn Fn(Measure) -> bool| {
                let mut rollup = rollup(1, 0);
                let end = ends[id as usize - 1];
                let value = format!("ECDSA P-256, issued by E7, until {end}");
                rollup.add_fact(MonitoredFact::Certificate, &value, 1);
                rollup
            };
            watch.look(now, &mut read, &|what| told.borrow_mut().push(what.to_owned()));
        };
        look(&mut watch, ["2026-12-20"; 3]);
        look(&mut watch, ["2026-12-06"; 3]);
        look(&mut watch, ["2026-12-06"; 3]);
        look(&mut watch, ["2027-02-20", "2026-12-06", "2027-02-20"]);
        assert_eq!(
            told.take(),
            [
                "over budget: certificate of shop expires in 9 days (2026-12-06), limit 14 days",
                "within budget again: certificate of shop expires in 85 days (2027-02-20), limit \
                 14 days: a; c (2 of 3 series)",
            ]
        );
    }
}
