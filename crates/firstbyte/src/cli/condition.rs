//! Conditions on a run, as users write them: `ttfb.p95 > 300ms`, `tls.median +5%`.
//!
//! A condition is met if the whole confidence interval lies beyond the limit. If the interval contains the limit, or
//! there are too few samples for one, the condition is open: neither met nor passed.

use std::fmt;

use firstbyte_core::compare::{AnswerCounts, AnswerDifference, find_difference};
use firstbyte_core::run::{Cell, Metric, Row};
use firstbyte_core::stats::{
    Estimate, Interval, QUANTILES, fewest_for_quantile, in_steps, quantile_estimate,
    supports_quantile,
};
use firstbyte_core::units::{BareShare, parse_share};

use super::plan::quantities::nanoseconds;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    /// As written.
    pub text: String,
    /// Restricts the condition to cells with these values.
    pub only: Vec<(String, String)>,
    pub metric: Metric,
    /// The quantile.
    pub q: f64,
    pub limit: Limit,
}

/// The limit that a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    /// Above this many nanoseconds.
    Above(f64),
    /// Below this many nanoseconds.
    Below(f64),
    /// Grown by more than this share of the baseline.
    GrownByShare(f64),
    /// Grown by more than this many nanoseconds.
    GrownBy(f64),
}

/// Whether a condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Met,
    NotMet,
    /// The interval contains the limit.
    Open,
    /// The responses that the time depends on differ.
    Unlike(AnswerDifference),
    /// There are too few samples for an interval.
    TooFew {
        there: usize,
        needed: usize,
    },
    /// Connections of this kind do not have this time.
    NoSuchTime,
    /// Nothing to compare: there are no samples, or none of this kind in the baseline.
    Unmeasured(&'static str),
}

impl Finding {
    /// Whether it is undecided, neither met nor not met.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Unlike(_) | Self::TooFew { .. })
    }
}

/// Result of a condition for one cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub finding: Finding,
    /// The figure in nanoseconds, or its growth if there is a baseline.
    pub figure: Option<Estimate>,
    pub baseline: Option<f64>,
}

impl Condition {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let bad = |what: &str| {
            format!(
                "{text:?}: {what}; examples: 'ttfb.p95 > 300ms', 'tls.median +5%' or \
                 'family=6: total.p90 +20ms'"
            )
        };
        let (only, rest) = match text.split_once(':') {
            Some((only, rest)) => (only, rest),
            None => ("", text),
        };
        let only = only.split_whitespace().map(|word| {
            let (axis, value) = word.split_once('=').ok_or_else(|| bad("no = before the colon"))?;
            Ok((axis.to_owned(), value.to_owned()))
        });
        let only = only.collect::<Result<_, String>>()?;
        let rest = rest.trim();
        let at = rest.find(['>', '<', '+']).ok_or_else(|| bad("it needs >, < or +"))?;
        let (what, limit) = rest.split_at(at);
        let (name, statistic) = what.trim().split_once('.').unwrap_or((what.trim(), "median"));
        let metric = Metric::named(name).ok_or_else(|| {
            let names: Vec<&str> = Metric::ALL.iter().map(|m| m.name()).collect();
            bad(&format!("unknown metric {name:?}; known: {}", names.join(", ")))
        })?;
        let q = quantile_named(statistic).ok_or_else(|| {
            bad(&format!("unknown statistic {statistic:?}; known: median, p50, p75, p90, p95, p99"))
        })?;
        let (sign, value) = limit.split_at(1);
        let value = value.trim();
        let limit = match (sign, value.strip_suffix('%')) {
            ("+", Some(_)) => {
                let share = parse_share(value, BareShare::Refused);
                Limit::GrownByShare(share.map_err(|error| bad(&format!("{value:?} is {error}")))?)
            }
            (_, Some(_)) => return Err(bad("a share is given with +")),
            (sign, None) => {
                let ns =
                    nanoseconds(value).map_err(|error| bad(&format!("{value:?} is {error}")))?;
                match sign {
                    ">" => Limit::Above(ns),
                    "<" => Limit::Below(ns),
                    _ => Limit::GrownBy(ns),
                }
            }
        };
        Ok(Self { text: text.trim().to_owned(), only, metric, q, limit })
    }

    /// Whether it needs a baseline run.
    pub(super) const fn needs_baseline(&self) -> bool {
        matches!(self.limit, Limit::GrownBy(_) | Limit::GrownByShare(_))
    }

    /// Whether it applies to `cell`.
    pub(super) fn is_about(&self, cell: &Cell) -> bool {
        let has = |(axis, value): &(String, String)| {
            cell.factors.iter().any(|f| f.axis == *axis && (f.value == *value || f.label == *value))
        };
        cell.twin_of.is_none() && self.only.iter().all(has)
    }

    /// Evaluates the condition for one cell, and the same cell of a baseline.
    pub(super) fn hold(&self, values: &Values, baseline: Option<&Values>) -> Held {
        let nothing = |finding| Held { finding, figure: None, baseline: None };
        if self.needs_baseline() && baseline.is_none() {
            return nothing(Finding::Unmeasured("not in the baseline"));
        }
        if self.needs_baseline() && baseline.is_some_and(|values| values.ns.is_empty()) {
            return nothing(Finding::Unmeasured("no sample in the baseline"));
        }
        if let Some(difference) = self.find_unlike(values, baseline) {
            return nothing(Finding::Unlike(difference));
        }
        let too_few = |there: usize| Finding::TooFew { there, needed: fewest_for_quantile(self.q) };
        let figure = values.quantile(self.q);
        let Some(figure) = figure else { return nothing(too_few(values.ns.len())) };
        let whole_baseline = baseline;
        let (limit, figure, baseline) = match self.limit {
            Limit::Above(limit) => (limit, figure, None),
            Limit::Below(limit) => (-limit, negated(&figure), None),
            Limit::GrownBy(limit) | Limit::GrownByShare(limit) => {
                let before = baseline.and_then(|values| values.quantile(self.q));
                let Some(before) = before else {
                    return nothing(too_few(baseline.map_or(0, |values| values.ns.len())));
                };
                let grown = match self.limit {
                    Limit::GrownBy(_) => growth(&before, &figure),
                    _ => relative_growth(&before, &figure),
                };
                (limit, grown, Some(before.value))
            }
        };
        let finding = match figure.interval {
            Some(interval) if interval.low > limit => Finding::Met,
            Some(interval) if interval.high <= limit => Finding::NotMet,
            Some(_) => Finding::Open,
            None if supports_quantile(values.ns.len(), self.q) => {
                too_few(whole_baseline.map_or(0, |values| values.ns.len()))
            }
            None => too_few(values.ns.len()),
        };
        let figure = if matches!(self.limit, Limit::Below(_)) { negated(&figure) } else { figure };
        Held { finding, figure: Some(figure), baseline }
    }

    /// How the responses that its times depend on differ: from the baseline's, or by status if there is no baseline.
    fn find_unlike(&self, values: &Values, baseline: Option<&Values>) -> Option<AnswerDifference> {
        if !self.metric.depends_on_answer() {
            return None;
        }
        let baseline = baseline.filter(|_| self.needs_baseline());
        let compared = [Some(values), baseline];
        let difference = find_difference(compared.into_iter().flatten().map(|v| &v.answers))?;
        let is_status = matches!(difference, AnswerDifference::Statuses(..));
        (is_status || baseline.is_some()).then_some(difference)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Values of a metric in the rows of one cell that count.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// In the order of rounds, in nanoseconds.
    pub ns: Vec<f64>,
    /// Largest resolution of the clocks that recorded the times, in nanoseconds; zero if the times were measured.
    pub steps_ns: f64,
    /// The responses of these rows.
    pub answers: AnswerCounts,
}

impl Values {
    /// Quantile `q`, or `None` if no value is expected beyond it.
    fn quantile(&self, q: f64) -> Option<Estimate> {
        let enough = self.ns.len() as f64 * (1.0 - q) >= 1.0 - 1e-9;
        let estimate = quantile_estimate(&self.ns, q).filter(|_| enough)?;
        Some(in_steps(estimate, self.steps_ns, self.ns.len()))
    }
}

/// The values of `metric` in the rows of `cell`.
pub(super) fn values(rows: &[Row], cell: usize, metric: Metric) -> Values {
    let mut rows: Vec<&Row> =
        rows.iter().filter(|row| usize::from(row.cell) == cell && row.counts()).collect();
    rows.sort_by_key(|row| row.round);
    let steps = rows.iter().map(|row| row.metrics.resolution_ns).max().unwrap_or_default();
    let ns = rows.iter().filter_map(|row| row.metric(metric)).map(|ns| ns as f64).collect();
    let mut answers = AnswerCounts::default();
    rows.iter().for_each(|row| answers.add(row.answer));
    Values { ns, steps_ns: f64::from(steps), answers }
}

/// Whether any row of `cell` counts.
pub(super) fn is_measured(rows: &[Row], cell: usize) -> bool {
    rows.iter().any(|row| usize::from(row.cell) == cell && row.counts())
}

/// How much larger `after` is. The runs are independent, so the half-widths of their intervals add as squares.
fn growth(before: &Estimate, after: &Estimate) -> Estimate {
    let value = after.value - before.value;
    let interval = before.interval.zip(after.interval).map(|(b, a)| Interval {
        low: value - (after.value - a.low).hypot(b.high - before.value),
        high: value + (a.high - after.value).hypot(before.value - b.low),
    });
    Estimate { value, interval, p_value: None }
}

/// The growth as a share of `before`. Relative half-widths add as squares (to first order).
fn relative_growth(before: &Estimate, after: &Estimate) -> Estimate {
    let ratio = after.value / before.value;
    let interval = before.interval.zip(after.interval).map(|(b, a)| {
        let below =
            ((after.value - a.low) / after.value).hypot((b.high - before.value) / before.value);
        let above =
            ((a.high - after.value) / after.value).hypot((before.value - b.low) / before.value);
        Interval { low: ratio * (1.0 - below) - 1.0, high: ratio * (1.0 + above) - 1.0 }
    });
    Estimate { value: ratio - 1.0, interval, p_value: None }
}

fn negated(estimate: &Estimate) -> Estimate {
    let interval = estimate.interval.map(|i| Interval { low: -i.high, high: -i.low });
    Estimate { value: -estimate.value, interval, p_value: None }
}

/// Parses "median" or "p95".
fn quantile_named(name: &str) -> Option<f64> {
    if name == "median" {
        return Some(0.5);
    }
    let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
    QUANTILES.into_iter().find(|q| (q * 100.0 - percent).abs() < 1e-9)
}

#[cfg(test)]
mod tests {
    use firstbyte_core::run::VisitAnswer;
    use firstbyte_core::stats::median_estimate;

    use super::*;

    fn measured(ns: &[f64]) -> Values {
        Values { ns: ns.to_vec(), ..Values::default() }
    }

    fn noisy(center: f64, n: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(3);
        (0..n).map(|_| center * (1.0 + 0.01 * (random.f64() - 0.5))).collect()
    }

    #[test]
    fn conditions_are_read_as_they_are_written() {
        let p95 = Condition::read("ttfb.p95 > 300ms").unwrap();
        assert_eq!((p95.metric, p95.q, p95.limit), (Metric::Ttfb, 0.95, Limit::Above(3e8)));
        let grown = Condition::read("family=6: tls.median +5%").unwrap();
        assert_eq!((grown.metric, grown.limit), (Metric::Tls, Limit::GrownByShare(0.05)));
        assert_eq!(grown.only, [("family".to_owned(), "6".to_owned())]);
        assert_eq!(Condition::read("total +1.5 s").unwrap().limit, Limit::GrownBy(1.5e9));
        for bad in ["ttfb.p95", "ttfb.p42 > 3ms", "latency > 3ms", "ttfb > 3", "ttfb > 5%"] {
            assert!(Condition::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_is_met_when_the_whole_interval_is_beyond_the_limit() {
        let values = noisy(100e6, 60);
        let hold =
            |text: &str| Condition::read(text).unwrap().hold(&measured(&values), None).finding;
        assert_eq!(hold("ttfb > 90ms"), Finding::Met);
        assert_eq!(hold("ttfb > 110ms"), Finding::NotMet);
        assert_eq!(hold("ttfb < 110ms"), Finding::Met);
        // Times from a clock with steps of 20 ms may be off by as much.
        let read = Values { ns: values.clone(), steps_ns: 20e6, ..Values::default() };
        let held = Condition::read("ttfb > 90ms").unwrap().hold(&read, None);
        assert_eq!(held.finding, Finding::Open);
        let median = median_estimate(&values).unwrap().value;
        assert_eq!(hold(&format!("ttfb > {median}ns")), Finding::Open);
        // 60 rounds are too few for p99.
        let too_few = Finding::TooFew { there: 60, needed: 1_000 };
        assert_eq!((hold("ttfb.p99 > 1ms"), too_few.is_open()), (too_few, true));
        // One late value among them does not decide about p95 either.
        let mut late = vec![20e6; 59];
        late.push(30e9);
        let held = Condition::read("ttfb.p95 > 1s").unwrap().hold(&measured(&late), None);
        assert_eq!(held.finding, Finding::TooFew { there: 60, needed: 200 });
        assert_eq!(held.figure.unwrap().value, 20e6);
    }

    #[test]
    fn unlike_answers_leave_a_condition_open() {
        let answered = |answers: &[(u16, u64)]| {
            let mut counts = AnswerCounts::default();
            for (status, bytes) in answers {
                counts.add(VisitAnswer::new(Some(*status), Some(*bytes)));
            }
            Values { answers: counts, ..measured(&noisy(100e6, 60)) }
        };
        let finding = |text: &str, values: &Values, baseline: &Values| {
            Condition::read(text).unwrap().hold(values, Some(baseline)).finding
        };
        let statuses = Finding::Unlike(AnswerDifference::Statuses(200, 429));
        assert!(statuses.is_open());
        let (page, large) = (answered(&[(200, 5); 60]), answered(&[(200, 500_000); 60]));
        let mixed = answered(&[(200, 5), (429, 0)]);
        let varied = answered(&[(200, 5), (200, 500_000), (200, 900_000)]);
        for (text, values, baseline, expected) in [
            ("ttfb < 110ms", &page, &page, Finding::Met),
            ("ttfb < 110ms", &mixed, &page, statuses),
            ("connect < 110ms", &mixed, &page, Finding::Met),
            ("ttfb < 110ms", &varied, &page, Finding::Met),
            ("total +5%", &page, &page, Finding::NotMet),
            ("total +5%", &large, &page, Finding::Unlike(AnswerDifference::Sizes(5, 500_000))),
            ("total +5ms", &page, &mixed, statuses),
            ("tls +5%", &large, &page, Finding::NotMet),
        ] {
            assert_eq!(finding(text, values, baseline), expected, "{text}");
        }
    }

    #[test]
    fn growth_is_held_against_the_uncertainty_of_both_runs() {
        let (before, after) = (noisy(100e6, 60), noisy(108e6, 60));
        let hold = |text: &str, after: &[f64]| {
            Condition::read(text).unwrap().hold(&measured(after), Some(&measured(&before))).finding
        };
        assert_eq!(hold("tls +5%", &after), Finding::Met);
        assert_eq!(hold("tls +10%", &after), Finding::NotMet);
        assert_eq!(hold("tls +5ms", &after), Finding::Met);
        assert_eq!(hold("tls +5%", &before), Finding::NotMet);
        assert_eq!(hold("tls +8%", &after), Finding::Open);
        // Too few samples in either run.
        let few = Finding::TooFew { there: 10, needed: 20 };
        assert_eq!(hold("tls +5%", &after[..10]), few);
        let held = Condition::read("tls +5%")
            .unwrap()
            .hold(&measured(&after), Some(&measured(&before[..10])));
        assert_eq!(held.finding, few);
    }
}
