//! Differences between two series that have no rounds in common: shares and medians.
//!
//! Input: both series, each in the order of time. Output: an [`Estimate`] of second minus first. Each
//! series' own interval respects that neighbours are alike; the two are put together by the method of
//! variance estimates recovery (Zou and Donner 2008), of which Newcombe's interval for a difference of
//! shares (1998, method 10) is one case.

use super::dependence::{block_length, blocks, critical, long_run_covariances, recolouring};
use super::{Estimate, FEWEST_ROUNDS, Interval, median_estimate};

/// A share and its interval.
struct Share {
    value: f64,
    interval: Interval,
    degrees: f64,
}

/// The difference between the shares of `true` in `after` and in `before`. Absent when one of them is
/// empty; without an interval when one has fewer than [`FEWEST_ROUNDS`].
pub fn share_difference(before: &[bool], after: &[bool]) -> Option<Estimate> {
    let value = share(after)? - share(before)?;
    if before.len().min(after.len()) < FEWEST_ROUNDS {
        return Some(Estimate::alone(value));
    }
    let degrees = blocks(before.len()).min(blocks(after.len()));
    let (before, after) = (Share::of(before, degrees)?, Share::of(after, degrees)?);
    Some(combined((before.value, before.interval), (after.value, after.interval), before.degrees))
}

/// The difference between the medians of `after` and of `before`. Absent when one of them is empty;
/// without an interval when one has fewer than [`FEWEST_ROUNDS`]. Values must be finite.
pub fn median_difference(before: &[f64], after: &[f64]) -> Option<Estimate> {
    let (first, second) = (median_estimate(before)?, median_estimate(after)?);
    let (Some(first_within), Some(second_within)) = (first.interval, second.interval) else {
        return Some(Estimate::alone(second.value - first.value));
    };
    let degrees = blocks(before.len()).min(blocks(after.len()));
    Some(combined((first.value, first_within), (second.value, second_within), degrees))
}

/// Two estimates with their intervals as one of their difference.
fn combined(before: (f64, Interval), after: (f64, Interval), degrees: f64) -> Estimate {
    let ((m1, i1), (m2, i2)) = (before, after);
    let value = m2 - m1;
    let low = value - (m2 - i2.low).hypot(i1.high - m1);
    let high = value + (i2.high - m2).hypot(m1 - i1.low);
    Estimate::within(value, low, high, degrees)
}

fn share(values: &[bool]) -> Option<f64> {
    let all = values.len();
    (all > 0).then(|| values.iter().filter(|value| **value).count() as f64 / all as f64)
}

impl Share {
    /// Wilson's interval (1927) for as many independent values as these are worth.
    fn of(values: &[bool], degrees: f64) -> Option<Self> {
        let value = share(values)?;
        let n = worth(values, value);
        let z2 = critical(degrees).powi(2);
        let centre = (value + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let reach = (z2 * (value * (1.0 - value) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
        let interval = Interval { low: (centre - reach).max(0.0), high: (centre + reach).min(1.0) };
        Some(Self { value, interval, degrees })
    }
}

/// As many independent values would tell as much of the share: the number of values over the ratio
/// between the long run's variance and that of independent ones, which is not taken below one.
fn worth(values: &[bool], share: f64) -> f64 {
    let n = values.len() as f64;
    let independent = share * (1.0 - share);
    if independent <= 0.0 {
        return n;
    }
    let series: Vec<f64> = values.iter().map(|value| f64::from(u8::from(*value))).collect();
    let [long_run, ..] = long_run_covariances(&series, &[], block_length(series.len()));
    let centred = series.iter().map(|x| x - share);
    let neighbours: f64 = centred.clone().zip(centred.skip(1)).map(|(a, b)| a * b).sum();
    let lag1 = neighbours / (n * independent);
    let long_run = long_run * recolouring(lag1, series.len()).powi(2);
    n / (long_run / independent).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(ones: usize, all: usize) -> Vec<bool> {
        // Spread evenly, so that neighbours tell nothing of each other beyond chance.
        (0..all).map(|i| (i + 1) * ones / all > i * ones / all).collect()
    }

    /// Newcombe (1998), Table II, 56/70 against 48/80 by method 10: 0.0524 to 0.3339 at 1.96. Ours
    /// takes Student's t, and so must reach a little further, and hold it.
    #[test]
    fn holds_newcombes_interval() {
        let difference = share_difference(&flags(48, 80), &flags(56, 70)).unwrap();
        let interval = difference.interval.unwrap();
        assert!((difference.value - 0.2).abs() < 1e-12);
        assert!(interval.low < 0.0524 && interval.low > 0.0, "{interval:?}");
        assert!(interval.high > 0.3339 && interval.high < 0.38, "{interval:?}");
        assert!(difference.p_value.unwrap() < 0.05);
    }

    #[test]
    fn all_against_none_is_a_difference_and_few_are_none() {
        let difference = share_difference(&flags(0, 40), &flags(40, 40)).unwrap();
        assert!(difference.interval.unwrap().low > 0.7, "{difference:?}");
        assert_eq!(share_difference(&flags(0, 5), &flags(5, 5)).unwrap().interval, None);
        assert_eq!(share_difference(&[], &flags(5, 5)), None);
        assert_eq!(median_difference(&[], &[1.0]), None);
    }

    /// The share of pairs without a difference whose interval does not hold zero.
    fn false_positives(mut series: impl FnMut(&mut fastrand::Rng) -> Vec<bool>) -> f64 {
        let mut random = fastrand::Rng::with_seed(3);
        let runs = 1_000;
        let wrong = (0..runs)
            .filter(|_| {
                let (before, after) = (series(&mut random), series(&mut random));
                let difference = share_difference(&before, &after).unwrap();
                difference.interval.unwrap().excludes_zero()
            })
            .count();
        wrong as f64 / f64::from(runs)
    }

    #[test]
    fn shares_of_runs_alike_differ_in_one_of_twenty_at_most() {
        for (n, share) in [(30, 0.5), (200, 0.8), (600, 0.03)] {
            let wrong = false_positives(|r| (0..n).map(|_| r.f64() < share).collect());
            assert!(wrong <= 0.055, "n {n} share {share}: {wrong}");
        }
        // Each value is the one before with probability one half.
        let wrong = false_positives(|r| {
            let mut last = r.f64() < 0.7;
            (0..400)
                .map(|_| {
                    if r.bool() {
                        last = r.f64() < 0.7;
                    }
                    last
                })
                .collect()
        });
        assert!(wrong <= 0.065, "sticky: {wrong}");
    }

    #[test]
    fn medians_of_unlike_length_are_compared() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut series = |n: usize, add: f64| -> Vec<f64> {
            (0..n).map(|_| 10.0 + add + random.f64()).collect()
        };
        let (same, other, moved) = (series(300, 0.0), series(80, 0.0), series(80, 1.0));
        assert!(!median_difference(&same, &other).unwrap().interval.unwrap().excludes_zero());
        let difference = median_difference(&same, &moved).unwrap();
        assert!((difference.value - 1.0).abs() < 0.2);
        assert!(difference.interval.unwrap().low > 0.7, "{difference:?}");
    }
}
