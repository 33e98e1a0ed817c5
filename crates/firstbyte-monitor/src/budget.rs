//! Promises (budgets) about a target, and whether samples keep them.
//!
//! In: promises as written in the configuration (`"ttfb.p95" = "300ms"`), the rollup of a period, and the expiry of the
//! certificate. Out: how many samples are beyond the limit, or how many days are left, and whether that breaks the
//! promise. Times and failures are judged as shares: a p95 within 300 ms means that at most 5 % of the samples take
//! longer. Pure. Definitions: `docs/statistics.md`, "Budgets".

use std::time::Duration;

use firstbyte_core::units::{BareShare, BareTime, parse_share, parse_time};
use time::{Date, Month, OffsetDateTime};

use crate::binomial::at_least;
use crate::rollup::{Measure, MonitoredFact, Rollup};

/// A promise is broken if chance alone brings this many samples beyond its limit, or more, with at most this
/// probability.
const BY_CHANCE: f64 = 1e-3;
/// Quantiles that a promise can name.
const QUANTILES: [(&str, f64); 5] =
    [("median", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];
/// The key of the promise about failures.
const FAILURES: &str = "failures";
/// The key of the promise about the server's certificate, which is written without a unit.
pub const CERTIFICATE_DAYS: &str = "certificate_days";
/// Certificates of public issuers are valid for 398 days at most, those of private ones for decades.
const MOST_CERTIFICATE_DAYS: u32 = 36_500;
/// Separates the issuer from the last day in [`MonitoredFact::Certificate`].
const CERTIFICATE_UNTIL: &str = ", until ";

/// One promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// The name as written: `ttfb.p95`, `failures`.
    pub name: String,
    kept: Kept,
}

/// The condition of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Within { measure: Measure, quantile: f64, limit: Duration },
    Failures { share: f64 },
    CertificateDays { fewest: u32 },
}

/// Whether a promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is kept.
    Within,
    /// More samples are beyond the limit than allowed, but chance can explain it.
    Unsure,
    /// It is broken.
    Over,
}

impl Standing {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Unsure => "unsure",
            Self::Over => "over",
        }
    }
}

/// The judgement of a promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The evidence for the judgement.
    pub evidence: Evidence,
    /// The conclusion.
    pub standing: Standing,
}

/// Evidence that a promise is judged by.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Evidence for a promise about a time or failures.
    SamplesBeyond(SamplesBeyond),
    /// Evidence for a promise about a certificate.
    CertificateEnd {
        /// Days from today to the last day, both in UTC; negative once it has expired.
        days_left: i64,
        /// Its last day, in UTC.
        last_day: Date,
    },
}

/// How many samples are beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplesBeyond {
    /// Samples beyond the limit. Failures are weighted by the time that they stand for.
    pub beyond: u64,
    /// Number of samples judged.
    pub of: u64,
    /// Share of samples that may be beyond the limit.
    pub allowed: f64,
    /// The quantile, if the promise names one.
    pub figure: Option<Duration>,
}

impl Judgement {
    /// The samples that the promise is judged by; `None` for a certificate.
    pub const fn samples_beyond(&self) -> Option<&SamplesBeyond> {
        match &self.evidence {
            Evidence::SamplesBeyond(samples) => Some(samples),
            Evidence::CertificateEnd { .. } => None,
        }
    }
}

impl Promise {
    /// Reads a promise from its `name` and `limit`.
    ///
    /// # Errors
    /// What is wrong with the name or the limit, and what to write instead.
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
        } else if name == CERTIFICATE_DAYS {
            let days = limit.parse().ok().filter(|days| (1..=MOST_CERTIFICATE_DAYS).contains(days));
            let fewest = days.ok_or_else(|| {
                let what = format!("{name} {limit:?} is not a number of days");
                (what, "write for example certificate_days = 14".to_owned())
            })?;
            Kept::CertificateDays { fewest }
        } else {
            let (measure, quantile) = quantile_named(name)?;
            let time = parse_time(limit, BareTime::Refused).map_err(|error| {
                (format!("{name} {limit:?} is {error}"), error.advice().to_owned())
            })?;
            Kept::Within { measure, quantile, limit: time }
        };
        Ok(Self { name: name.to_owned(), kept })
    }

    /// The measure that the promise needs from a rollup, besides counts.
    pub fn measure(&self) -> Option<Measure> {
        match self.kept {
            Kept::Within { measure, .. } => Some(measure),
            Kept::Failures { .. } | Kept::CertificateDays { .. } => None,
        }
    }

    /// The promised time, if the promise is about a time.
    pub fn limit(&self) -> Option<Duration> {
        match self.kept {
            Kept::Within { limit, .. } => Some(limit),
            Kept::Failures { .. } | Kept::CertificateDays { .. } => None,
        }
    }

    /// Whether the promise is about a certificate, which all series of a target usually share.
    pub const fn is_of_certificate(&self) -> bool {
        matches!(self.kept, Kept::CertificateDays { .. })
    }

    /// Judges the promise by the samples of `rollup`, or by a certificate that expires at `certificate_expiry`.
    ///
    /// Returns `None` without samples or without a certificate. Failed samples have no time and count only as failures.
    /// Moments are seconds since 1970.
    pub fn judge(
        &self,
        rollup: &Rollup,
        certificate_expiry: Option<i64>,
        now: i64,
    ) -> Option<Judgement> {
        let samples = match self.kept {
            Kept::Failures { share } => {
                let beyond = failed_by_time(rollup);
                SamplesBeyond { beyond, of: rollup.samples, allowed: share, figure: None }
            }
            Kept::Within { measure, quantile, limit } => {
                let times = rollup.times(measure)?;
                SamplesBeyond {
                    beyond: times.count() - times.count_up_to(limit).min(times.count()),
                    of: times.count(),
                    allowed: beyond_quantile(quantile),
                    figure: times.quantile(quantile).map(|figure| figure.value),
                }
            }
            Kept::CertificateDays { fewest } => {
                let last_day =
                    OffsetDateTime::from_unix_timestamp(certificate_expiry?).ok()?.date();
                let today = OffsetDateTime::from_unix_timestamp(now).ok()?.date();
                let days_left = (last_day - today).whole_days();
                let standing = match days_left < i64::from(fewest) {
                    true => Standing::Over,
                    false => Standing::Within,
                };
                let evidence = Evidence::CertificateEnd { days_left, last_day };
                return Some(Judgement { evidence, standing });
            }
        };
        let SamplesBeyond { beyond, of, allowed, .. } = samples;
        if of == 0 {
            return None;
        }
        let standing = match beyond as f64 <= allowed * of as f64 + 1e-9 {
            true => Standing::Within,
            false if at_least(beyond, of, allowed) <= BY_CHANCE => Standing::Over,
            false => Standing::Unsure,
        };
        Some(Judgement { evidence: Evidence::SamplesBeyond(samples), standing })
    }

    /// `ttfb p95 412 ms, limit 300 ms: 9 of 60 samples took longer, 5 % allowed`, or
    /// `certificate of shop expires in 9 days (2026-12-06), limit 14 days`.
    pub fn sentence(&self, judgement: &Judgement, target: &str) -> String {
        let name = self.name.replace('.', " ");
        match (&judgement.evidence, self.kept) {
            (
                Evidence::CertificateEnd { days_left, last_day },
                Kept::CertificateDays { fewest },
            ) => {
                let expires = match *days_left {
                    ..0 => "expired".to_owned(),
                    0 => "expires today".to_owned(),
                    days => format!("expires in {}", days_phrase(days)),
                };
                let limit = days_phrase(i64::from(fewest));
                format!("certificate of {target} {expires} ({last_day}), limit {limit}")
            }
            (
                Evidence::SamplesBeyond(SamplesBeyond {
                    beyond,
                    of,
                    allowed,
                    figure: Some(figure),
                }),
                Kept::Within { limit, .. },
            ) => format!(
                "{name} {} ms, limit {} ms: {beyond} of {of} samples took longer, {} allowed",
                millis(*figure),
                millis(limit),
                percent(*allowed),
            ),
            (Evidence::SamplesBeyond(SamplesBeyond { beyond, of, allowed, .. }), _) => format!(
                "failed for {} of the time ({of} samples), {} allowed",
                percent(*beyond as f64 / *of as f64),
                percent(*allowed),
            ),
            // Evidence that does not fit the promise.
            (Evidence::CertificateEnd { last_day, .. }, _) => format!("{name}: {last_day}"),
        }
    }
}

/// Failed samples of `rollup`, weighted by the time that each stands for. Extra samples stand for no time.
fn failed_by_time(rollup: &Rollup) -> u64 {
    let share = rollup.failed_share().unwrap_or_default();
    (share * rollup.samples as f64).round() as u64
}

/// The earliest expiry among the certificates that samples of `rollup` saw, seconds since 1970. Servers behind one name
/// may have several certificates.
pub fn earliest_certificate_end(rollup: &Rollup) -> Option<i64> {
    let shown = rollup.facts.get(&MonitoredFact::Certificate)?.keys();
    let last_day = |certificate: &String| {
        let (_, day) = certificate.rsplit_once(CERTIFICATE_UNTIL)?;
        let mut numbers = day.splitn(3, '-');
        let year = numbers.next()?.parse().ok()?;
        let month = Month::try_from(numbers.next()?.parse::<u8>().ok()?).ok()?;
        Date::from_calendar_date(year, month, numbers.next()?.parse().ok()?).ok()
    };
    shown.filter_map(last_day).min().map(|day| day.midnight().assume_utc().unix_timestamp())
}

fn days_phrase(days: i64) -> String {
    format!("{days} {}", if days == 1 { "day" } else { "days" })
}

/// The share of samples above a quantile, rounded to four decimals.
fn beyond_quantile(quantile: f64) -> f64 {
    ((1.0 - quantile) * 1e4).round() / 1e4
}

/// Milliseconds with three digits, which is the precision of histograms.
fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    let decimals = if ms < 1.0 { 3 } else { 2_usize.saturating_sub(ms.log10() as usize) };
    let text = format!("{ms:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Formats a share as `0.5 %`.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The measure and the quantile that a name such as `ttfb.p95` refers to.
fn quantile_named(name: &str) -> Result<(Measure, f64), (String, String)> {
    let all = || Measure::all().map(Measure::name).collect::<Vec<_>>().join(", ");
    let what = format!("unknown budget {name:?}");
    let Some((measure, quantile)) = name.rsplit_once('.') else {
        return Err((
            what,
            "write a time and a quantile, such as \"ttfb.p95\", or failures or certificate_days"
                .to_owned(),
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
        rollup.monitored = Duration::from_secs(60 * rollup.samples);
        rollup.failed_time = Duration::from_secs(60 * failed);
        rollup
    }

    /// 27 November 2026, 13:28 UTC.
    const NOW: i64 = 1_795_786_080;

    fn standing(promise: &Promise, rollup: &Rollup) -> Standing {
        promise.judge(rollup, None, NOW).unwrap().standing
    }

    #[test]
    fn few_samples_break_no_promise_and_many_do() {
        let promise = Promise::read("ttfb.p95", "300ms").unwrap();
        assert_eq!(promise.judge(&rollup(0, 0, 3), None, NOW), None);
        assert_eq!(standing(&promise, &rollup(57, 3, 0)), Standing::Within);
        assert_eq!(standing(&promise, &rollup(0, 1, 0)), Standing::Unsure);
        assert_eq!(standing(&promise, &rollup(0, 3, 0)), Standing::Over);
        assert_eq!(standing(&promise, &rollup(56, 4, 0)), Standing::Unsure);
        let over = promise.judge(&rollup(50, 10, 0), None, NOW).unwrap();
        assert_eq!(over.standing, Standing::Over);
        let said = promise.sentence(&over, "shop");
        assert_eq!(
            said,
            "ttfb p95 412 ms, limit 300 ms: 10 of 60 samples took longer, 5 % \
                          allowed"
        );
        // A time exactly at the limit keeps the promise.
        let exact = Promise::read("ttfb.median", "412ms").unwrap();
        assert_eq!(standing(&exact, &rollup(0, 100, 0)), Standing::Within);
    }

    #[test]
    fn failures_are_a_share_of_all_samples() {
        let promise = Promise::read("failures", "1%").unwrap();
        assert_eq!(standing(&promise, &rollup(99, 0, 1)), Standing::Within);
        assert_eq!(standing(&promise, &rollup(58, 0, 2)), Standing::Unsure);
        let over = promise.judge(&rollup(50, 0, 10), None, NOW).unwrap();
        assert_eq!(over.standing, Standing::Over);
        assert_eq!(
            promise.sentence(&over, "shop"),
            "failed for 16.67 % of the time (60 samples), 1 % allowed"
        );
        // An extra sample after each failure stands for no time.
        let mut with_extra = rollup(98, 0, 2);
        with_extra.monitored = Duration::from_secs(60 * 99);
        with_extra.failed_time = Duration::from_secs(60);
        let judged = promise.judge(&with_extra, None, NOW).unwrap();
        assert_eq!(judged.samples_beyond().unwrap().beyond, 1);
        let none = Promise::read("failures", "0%").unwrap();
        assert_eq!(standing(&none, &rollup(1_000, 0, 1)), Standing::Over);
        assert_eq!(standing(&none, &rollup(1_000, 0, 0)), Standing::Within);
    }

    #[test]
    fn a_certificate_is_promised_to_last_for_days() {
        let promise = Promise::read("certificate_days", "14").unwrap();
        let mut rollup = rollup(1, 0, 0);
        assert_eq!(promise.judge(&rollup, earliest_certificate_end(&rollup), NOW), None);
        let mut judge = |until: &str| {
            let value = format!("ECDSA P-256, issued by E7, until {until}");
            rollup.add_fact(MonitoredFact::Certificate, &value, 1);
            let judged = promise.judge(&rollup, earliest_certificate_end(&rollup), NOW).unwrap();
            (judged.standing, promise.sentence(&judged, "shop"))
        };
        // If there are several certificates, the one that expires first counts.
        for (until, standing, sentence) in [
            ("2027-02-28", Standing::Within, "expires in 93 days (2027-02-28), limit 14 days"),
            ("2026-12-11", Standing::Within, "expires in 14 days (2026-12-11), limit 14 days"),
            ("2026-12-10", Standing::Over, "expires in 13 days (2026-12-10), limit 14 days"),
            ("2026-12-06", Standing::Over, "expires in 9 days (2026-12-06), limit 14 days"),
            ("2027-03-01", Standing::Over, "expires in 9 days (2026-12-06), limit 14 days"),
            ("2026-11-28", Standing::Over, "expires in 1 day (2026-11-28), limit 14 days"),
            ("2026-11-27", Standing::Over, "expires today (2026-11-27), limit 14 days"),
            ("2026-11-20", Standing::Over, "expired (2026-11-20), limit 14 days"),
        ] {
            let expected = (standing, format!("certificate of shop {sentence}"));
            assert_eq!(judge(until), expected, "{until}");
        }
    }

    /// A promise kept exactly at its limit is reported as broken at most once in a thousand judgements.
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
            ("certificate_days", "0", "write for example certificate_days = 14"),
            ("certificate_days", "14d", "write for example certificate_days = 14"),
        ] {
            let (what, hint) = Promise::read(name, limit).unwrap_err();
            assert!(hint.contains(wrong), "{name} {limit}: {what}; {hint}");
        }
    }
}
