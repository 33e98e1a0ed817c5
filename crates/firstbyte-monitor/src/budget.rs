//! What is promised of a target, and whether it is kept.
//!
//! In: promises as people write them (`"ttfb.p95" = "300ms"`), the rollup of a time. Out: how many samples are beyond, and whether that
//! breaks the promise. Every promise is one of a share: p95 within 300 ms says that no more than a twentieth takes longer. Pure.
//! Definitions: `docs/statistics.md`, "Budgets".

use std::time::Duration;

use firstbyte_core::units::{BareShare, BareTime, parse_share, parse_time};

use crate::binomial::at_least;
use crate::rollup::{Measure, Rollup};

/// A promise is broken where chance brings so many beyond it, or more, in no more than one of so many times.
const BY_CHANCE: f64 = 1e-3;
/// Quantiles that promises are of.
const QUANTILES: [(&str, f64); 5] =
    [("median", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
/// The key of the promise about failures.
const FAILURES: &str = "failures";

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// As it is written: `ttfb.p95`, `failures`.
    pub name: String,
    kept: Kept,
}

/// What has to be so.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Within { measure: Measure, quantile: f64, limit: Duration },
    Failures { share: f64 },
}

/// How a promise stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is kept.
    Within,
    /// More are beyond it than may be, but few enough for chance.
    Unsure,
    /// It is broken.
    Over,
}

impl Standing {
    /// Its name in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Unsure => "unsure",
            Self::Over => "over",
        }
    }
}

/// What samples came to, for a promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Samples beyond the limit.
    pub beyond: u64,
    /// Of so many.
    pub of: u64,
    /// Which share may be beyond it.
    pub allowed: f64,
    /// The quantile, where the promise is of one.
    pub figure: Option<Duration>,
    /// What follows from it.
    pub standing: Standing,
}

impl Promise {
    /// The promise that `name` and `limit` write.
    ///
    /// # Errors
    /// What is wrong with either, and what to write.
    pub fn read(name: &str, limit: &str) -> Result<Self, (String, String)> {
        let kept = if name == FAILURES {
            let share = parse_share(limit, BareShare::Refused).map_err(|error| {
                (format!("{name} {limit:?} is {error}"), error.advice().to_owned())
            })?;
            if !(0.0..1.0).contains(&share) {
                let hint = "write for example failures = \"1%\"".to_owned();
                return Err((format!("{name} {limit:?} is not from 0% to less than 100%"), hint));
            }
            Kept::Failures { share }
        } else {
            let (measure, quantile) = quantile_named(name)?;
            let time = parse_time(limit, BareTime::Refused).map_err(|error| {
                (format!("{name} {limit:?} is {error}"), error.advice().to_owned())
            })?;
            Kept::Within { measure, quantile, limit: time }
        };
        Ok(Self { name: name.to_owned(), kept })
    }

    /// What it takes from a rollup, besides counts.
    pub fn measure(&self) -> Option<Measure> {
        match self.kept {
            Kept::Within { measure, .. } => Some(measure),
            Kept::Failures { .. } => None,
        }
    }

    /// The time that is promised, where it is one.
    pub fn limit(&self) -> Option<Duration> {
        match self.kept {
            Kept::Within { limit, .. } => Some(limit),
            Kept::Failures { .. } => None,
        }
    }

    /// How it stands with the samples of `rollup`; absent where there are none to judge by. Samples that failed have no time: they count for
    /// failures alone.
    pub fn judge(&self, rollup: &Rollup) -> Option<Judgement> {
        let (beyond, of, allowed, figure) = match self.kept {
            Kept::Failures { share } => (rollup.failed(), rollup.samples, share, None),
            Kept::Within { measure, quantile, limit } => {
                let times = rollup.times(measure)?;
                let beyond = times.count() - times.count_up_to(limit).min(times.count());
                let figure = times.quantile(quantile).map(|figure| figure.value);
                (beyond, times.count(), beyond_quantile(quantile), figure)
            }
        };
        if of == 0 {
            return None;
        }
        let standing = match beyond as f64 <= allowed * of as f64 + 1e-9 {
            true => Standing::Within,
            false if at_least(beyond, of, allowed) <= BY_CHANCE => Standing::Over,
            false => Standing::Unsure,
        };
        Some(Judgement { beyond, of, allowed, figure, standing })
    }

    /// `ttfb p95 412 ms, limit 300 ms: 9 of 60 samples took longer, 5 % allowed`.
    pub fn sentence(&self, judgement: &Judgement) -> String {
        let Judgement { beyond, of, allowed, figure, .. } = judgement;
        let may = percent(*allowed);
        let name = self.name.replace('.', " ");
        match (self.kept, figure) {
            (Kept::Within { limit, .. }, Some(figure)) => format!(
                "{name} {} ms, limit {} ms: {beyond} of {of} samples took longer, {may} allowed",
                millis(*figure),
                millis(limit),
            ),
            _ => format!("{beyond} of {of} samples failed, {may} allowed"),
        }
    }
}

/// The share that is above a quantile, as it is written.
fn beyond_quantile(quantile: f64) -> f64 {
    ((1.0 - quantile) * 1e4).round() / 1e4
}

/// Milliseconds, to three digits: histograms know no more.
fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    let decimals = if ms < 1.0 { 3 } else { 2_usize.saturating_sub(ms.log10() as usize) };
    let text = format!("{ms:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `0.5 %`.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The measure and the quantile of `ttfb.p95`.
fn quantile_named(name: &str) -> Result<(Measure, f64), (String, String)> {
    let all = || Measure::all().map(Measure::name).collect::<Vec<_>>().join(", ");
    let what = format!("unknown budget {name:?}");
    let Some((measure, quantile)) = name.rsplit_once('.') else {
        return Err((
            what,
            "write a time and a quantile, such as \"ttfb.p95\", or failures".to_owned(),
        ));
    };
    let Some(measure) = Measure::named(measure) else {
        return Err((what, format!("before the dot write one of {}", all())));
    };
    match QUANTILES.iter().find(|(known, _)| *known == quantile) {
        Some((_, quantile)) => Ok((measure, *quantile)),
        None => {
            let known = QUANTILES.map(|(known, _)| known).join(", ");
            Err((what, format!("after the dot write one of {known}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::FailureType;

    use super::*;

    fn rollup(fast: u64, slow: u64, failed: u64) -> Rollup {
        let mut rollup = Rollup { samples: fast + slow + failed, ..Rollup::default() };
        let ttfb = Measure::named("ttfb").unwrap();
        (0..fast).for_each(|_| rollup.add_time(ttfb, Duration::from_millis(100)));
        (0..slow).for_each(|_| rollup.add_time(ttfb, Duration::from_millis(412)));
        if failed > 0 {
            rollup.failures.insert(FailureType::TcpRefused, failed);
        }
        rollup
    }

    fn standing(promise: &Promise, rollup: &Rollup) -> Standing {
        promise.judge(rollup).unwrap().standing
    }

    #[test]
    fn few_samples_break_no_promise_and_many_do() {
        let promise = Promise::read("ttfb.p95", "300ms").unwrap();
        assert_eq!(promise.judge(&rollup(0, 0, 3)), None);
        assert_eq!(standing(&promise, &rollup(57, 3, 0)), Standing::Within);
        assert_eq!(standing(&promise, &rollup(0, 1, 0)), Standing::Unsure);
        assert_eq!(standing(&promise, &rollup(0, 3, 0)), Standing::Over);
        assert_eq!(standing(&promise, &rollup(56, 4, 0)), Standing::Unsure);
        let over = promise.judge(&rollup(50, 10, 0)).unwrap();
        assert_eq!(over.standing, Standing::Over);
        let said = promise.sentence(&over);
        assert_eq!(
            said,
            "ttfb p95 412 ms, limit 300 ms: 10 of 60 samples took longer, 5 % \
                          allowed"
        );
        // What takes as long as promised is within.
        let exact = Promise::read("ttfb.median", "412ms").unwrap();
        assert_eq!(standing(&exact, &rollup(0, 100, 0)), Standing::Within);
    }

    #[test]
    fn failures_are_a_share_of_all_samples() {
        let promise = Promise::read("failures", "1%").unwrap();
        assert_eq!(standing(&promise, &rollup(99, 0, 1)), Standing::Within);
        assert_eq!(standing(&promise, &rollup(58, 0, 2)), Standing::Unsure);
        let over = promise.judge(&rollup(50, 0, 10)).unwrap();
        assert_eq!(over.standing, Standing::Over);
        assert_eq!(promise.sentence(&over), "10 of 60 samples failed, 1 % allowed");
        let none = Promise::read("failures", "0%").unwrap();
        assert_eq!(standing(&none, &rollup(1_000, 0, 1)), Standing::Over);
        assert_eq!(standing(&none, &rollup(1_000, 0, 0)), Standing::Within);
    }

    /// A promise that is kept at its limit is said to be broken once in a thousand times, not more often.
    #[test]
    fn what_is_kept_is_seldom_said_to_be_broken() {
        let mut random = fastrand::Rng::with_seed(1);
        let promise = Promise::read("ttfb.p90", "300ms").unwrap();
        let draws = 20_000;
        let over = (0..draws).filter(|_| {
            let slow = (0..60).filter(|_| random.f64() < 0.1).count() as u64;
            standing(&promise, &rollup(60 - slow, slow, 0)) == Standing::Over
        });
        let over = over.count();
        assert!((1..=30).contains(&over), "{over} of {draws}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (name, limit, wrong) in [
            ("ttfb.p96", "1s", "after the dot write one of median, p75, p90, p95, p99"),
            ("tfb.p95", "1s", "before the dot write one of resolve, connect, tls"),
            ("ttfb", "1s", "write a time and a quantile, such as \"ttfb.p95\", or failures"),
            ("failures", "100%", "write for example failures = \"1%\""),
            ("failures", "3ms", "%"),
            ("ttfb.p95", "300", "250ms"),
        ] {
            let (what, hint) = Promise::read(name, limit).unwrap_err();
            assert!(hint.contains(wrong), "{name} {limit}: {what}; {hint}");
        }
    }
}
