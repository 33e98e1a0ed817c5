//! Differences between two series without common rounds, comparing like with like: shares and medians within strata,
//! combined.
//!
//! Input: the values of each stratum on both sides, with their positions in the side's time order, and the stratum's
//! weight. Output: both sides with the same weights, and an [`Estimate`] of second minus first. The interval of each
//! stratum accounts for similar neighbours, and the interval of their sum for similar strata: a path that is slow for
//! one is slow for all. The method of variance estimates recovery combines the intervals (Zou and Donner 2008);
//! Newcombe's interval for a difference of shares (1998, method 10) is a special case.

use super::dependence::{block_length, blocks, critical, long_run_covariances, recolouring};
use super::{Estimate, FEWEST_ROUNDS, Interval, median, median_estimate};

/// The values of one stratum.
#[derive(Clone, Debug)]
pub struct Stratum<T> {
    /// Weight on both sides; only ratios matter.
    pub weight: f64,
    /// Values of each side, each with its position among all values of the side, ascending.
    pub sides: [Vec<(usize, T)>; 2],
}

/// Both sides with the same weights, and their difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stratified {
    /// Weighted mean over strata, of each side.
    pub sides: [f64; 2],
    /// Second minus first.
    pub difference: Estimate,
    /// Standard error of the difference, from the differences between each side's quarters. It includes long-lasting
    /// effects that no interval shows. Absent if the difference has none.
    pub wander: Option<f64>,
}

/// The difference between shares of `true`. `None` without strata, or if one has no values on a side; without an
/// interval if one has fewer than [`FEWEST_ROUNDS`].
pub fn stratified_shares(strata: &[Stratum<bool>]) -> Option<Stratified> {
    let figure = |values: &[bool], degrees| {
        let share = Share::estimate_share(values, degrees)?;
        let centred = values.iter().map(|value| f64::from(u8::from(*value)) - share.value);
        Some(Figure { value: share.value, interval: share.interval, centred: centred.collect() })
    };
    combine(strata, figure, share)
}

/// A share of `true` in one series, with Wilson's interval for the equivalent number of independent values.
///
/// `None` without values; without an interval if there are fewer than [`FEWEST_ROUNDS`].
pub fn share_estimate(values: &[bool]) -> Option<Estimate> {
    let Share { value, interval } = Share::estimate_share(values, blocks(values.len().max(1)))?;
    let interval = Some(interval).filter(|_| values.len() >= FEWEST_ROUNDS);
    Some(Estimate { value, interval, p_value: None })
}

/// The difference between medians, like [`stratified_shares`]. Values must be finite.
pub fn stratified_medians(strata: &[Stratum<f64>]) -> Option<Stratified> {
    let figure = |values: &[f64], _| {
        let Estimate { value, interval, .. } = median_estimate(values)?;
        let above: Vec<f64> = values.iter().map(|x| f64::from(u8::from(*x > value))).collect();
        let mean = above.iter().sum::<f64>() / above.len() as f64;
        let centred = above.into_iter().map(|above| above - mean).collect();
        let interval = interval.unwrap_or(Interval { low: value, high: value });
        Some(Figure { value, interval, centred })
    };
    combine(strata, figure, median)
}

/// A share or a median of one stratum on one side.
struct Figure {
    value: f64,
    interval: Interval,
    /// Influence of each value on the figure, in the figure's unit.
    centred: Vec<f64>,
}

fn combine<T: Copy>(
    strata: &[Stratum<T>],
    figure: impl Fn(&[T], f64) -> Option<Figure>,
    value_of: impl Fn(&[T]) -> Option<f64>,
) -> Option<Stratified> {
    let all: f64 = strata.iter().map(|stratum| stratum.weight).sum();
    if all <= 0.0 {
        return None;
    }
    let weights: Vec<f64> = strata.iter().map(|stratum| stratum.weight / all).collect();
    let mut figures: [Vec<Figure>; 2] = Default::default();
    for stratum in strata {
        let [before, after] = stratum.sides.each_ref().map(|side| side.len());
        let degrees = blocks(before.max(1)).min(blocks(after.max(1)));
        for (side, figures) in stratum.sides.iter().zip(&mut figures) {
            let values: Vec<T> = side.iter().map(|(_, value)| *value).collect();
            figures.push(figure(&values, degrees)?);
        }
    }
    let means = figures.each_ref().map(|side| {
        side.iter().zip(&weights).map(|(figure, weight)| weight * figure.value).sum::<f64>()
    });
    let [m1, m2] = means;
    let value = m2 - m1;
    let fewest = strata.iter().flat_map(|stratum| stratum.sides.each_ref().map(|side| side.len()));
    if fewest.min().unwrap_or(0) < FEWEST_ROUNDS {
        let difference = Estimate::alone(value);
        return Some(Stratified { sides: means, difference, wander: None });
    }
    let reaches = [0, 1].map(|side| reach(strata, side, &weights, &figures[side]));
    let degrees = reaches[0].degrees.min(reaches[1].degrees);
    let low = value - reaches[1].down.hypot(reaches[0].up);
    let high = value + reaches[1].up.hypot(reaches[0].down);
    let wander = [0, 1].map(|side| wander(strata, side, &weights, &figures[side], &value_of));
    Some(Stratified {
        sides: means,
        difference: Estimate::within(value, low, high, degrees),
        wander: Some(wander[0].hypot(wander[1])),
    })
}

/// Number of parts of a side to compare with each other.
const QUARTERS: usize = 4;

/// Standard error of a side's weighted mean, from its quarters.
fn wander<T: Copy>(
    strata: &[Stratum<T>],
    side: usize,
    weights: &[f64],
    figures: &[Figure],
    value_of: impl Fn(&[T]) -> Option<f64>,
) -> f64 {
    let mut places: Vec<usize> =
        strata.iter().flat_map(|it| it.sides[side].iter().map(|(place, _)| *place)).collect();
    places.sort_unstable();
    let ends = [1, 2, 3].map(|n| places[n * places.len() / QUARTERS]);
    let mut off: [(f64, f64); QUARTERS] = Default::default();
    for ((stratum, weight), figure) in strata.iter().zip(weights).zip(figures) {
        let values = &stratum.sides[side];
        let mut from = 0;
        for (quarter, (sum, all)) in off.iter_mut().enumerate() {
            let to = ends
                .get(quarter)
                .map_or(values.len(), |end| values.partition_point(|(place, _)| place < end));
            let own: Vec<T> = values[from..to].iter().map(|(_, value)| *value).collect();
            from = to;
            if let Some(value) = value_of(&own) {
                *sum += weight * (value - figure.value);
                *all += weight;
            }
        }
    }
    let off: Vec<f64> =
        off.iter().filter(|(_, all)| *all > 0.0).map(|(sum, all)| sum / all).collect();
    let n = off.len() as f64;
    let mean = off.iter().sum::<f64>() / n;
    let squares: f64 = off.iter().map(|off| (off - mean).powi(2)).sum();
    (squares / (n - 1.0).max(1.0) / n).sqrt()
}

/// Uncertainty of a side's weighted mean in each direction.
struct Reach {
    down: f64,
    up: f64,
    degrees: f64,
}

fn reach<T>(strata: &[Stratum<T>], side: usize, weights: &[f64], figures: &[Figure]) -> Reach {
    let reaches = |end: fn(&Figure) -> f64| -> Vec<f64> {
        figures.iter().zip(weights).map(|(figure, weight)| weight * end(figure)).collect()
    };
    let down = reaches(|figure| figure.value - figure.interval.low);
    let up = reaches(|figure| figure.interval.high - figure.value);
    let alike = alike(strata, side, figures);
    let sum = |reaches: &[f64]| -> f64 {
        let pairs = reaches.iter().zip(&alike);
        let squares = pairs.map(|(one, alike)| {
            one * alike.iter().zip(reaches).map(|(alike, other)| alike * other).sum::<f64>()
        });
        squares.sum::<f64>().max(0.0).sqrt()
    };
    // Satterthwaite (1946): wider intervals have more influence.
    let degrees = {
        let parts = strata.iter().zip(down.iter().zip(&up));
        let parts: Vec<(f64, f64)> = parts
            .map(|(stratum, (down, up))| ((down + up).powi(2), blocks(stratum.sides[side].len())))
            .collect();
        let whole: f64 = parts.iter().map(|(part, _)| part).sum();
        let by: f64 = parts.iter().map(|(part, degrees)| part * part / degrees).sum();
        match by > 0.0 {
            true => whole * whole / by,
            false => parts.iter().map(|(_, degrees)| *degrees).fold(f64::INFINITY, f64::min),
        }
    };
    Reach { down: sum(&down), up: sum(&up), degrees }
}

/// How much the strata of a side move together, from 0 to 1, for each pair: the correlation of their block sums.
fn alike<T>(strata: &[Stratum<T>], side: usize, figures: &[Figure]) -> Vec<Vec<f64>> {
    let places = strata.iter().flat_map(|stratum| stratum.sides[side].last()).map(|(at, _)| at + 1);
    let length = places.max().unwrap_or(0);
    let series: Vec<Vec<f64>> = match strata {
        [_] => vec![Vec::new()],
        _ => strata
            .iter()
            .zip(figures)
            .map(|(stratum, figure)| {
                let mut series = vec![0.0; length];
                for ((place, _), centred) in stratum.sides[side].iter().zip(&figure.centred) {
                    series[*place] = *centred;
                }
                series
            })
            .collect(),
    };
    let mut alike = vec![vec![1.0; strata.len()]; strata.len()];
    for first in 0..strata.len() {
        for second in first + 1..strata.len() {
            let block = block_length(length);
            let [a, b, both] = long_run_covariances(&series[first], &series[second], block);
            let scale = (a * b).sqrt();
            let correlation = if scale > 0.0 { (both / scale).clamp(0.0, 1.0) } else { 0.0 };
            alike[first][second] = correlation;
            alike[second][first] = correlation;
        }
    }
    alike
}

struct Share {
    value: f64,
    interval: Interval,
}

fn share(values: &[bool]) -> Option<f64> {
    let all = values.len();
    (all > 0).then(|| values.iter().filter(|value| **value).count() as f64 / all as f64)
}

impl Share {
    /// Wilson's interval (1927) for the equivalent number of independent values.
    fn estimate_share(values: &[bool], degrees: f64) -> Option<Self> {
        let value = share(values)?;
        let n = worth(values, value);
        let z2 = critical(degrees).powi(2);
        let centre = (value + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let reach = (z2 * (value * (1.0 - value) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
        let interval = Interval { low: (centre - reach).max(0.0), high: (centre + reach).min(1.0) };
        Some(Self { value, interval })
    }
}

/// Equivalent number of independent values for the share: the number of values divided by the ratio of the long-run
/// variance to that of independent values, which is at least one.
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

    /// A single stratum.
    fn alone<T: Copy>(before: &[T], after: &[T]) -> [Stratum<T>; 1] {
        let side = |values: &[T]| values.iter().copied().enumerate().collect();
        [Stratum { weight: 1.0, sides: [side(before), side(after)] }]
    }

    #[test]
    fn a_share_has_wilsons_interval_from_twenty_values_on() {
        assert_eq!(share_estimate(&[]), None);
        let few = share_estimate(&[true; 19]).unwrap();
        assert_eq!((few.value, few.interval), (1.0, None));
        let none = share_estimate(&[false; 400]).unwrap().interval.unwrap();
        // The rule of three: up to 3 / n, and a little more for t.
        assert!(none.low == 0.0 && (0.007..0.013).contains(&none.high), "{none:?}");
    }

    fn share_difference(before: &[bool], after: &[bool]) -> Option<Estimate> {
        Some(stratified_shares(&alone(before, after))?.difference)
    }

    fn median_difference(before: &[f64], after: &[f64]) -> Option<Estimate> {
        Some(stratified_medians(&alone(before, after))?.difference)
    }

    fn flags(ones: usize, all: usize) -> Vec<bool> {
        // Spread evenly, so that neighbours are not correlated beyond chance.
        (0..all).map(|i| (i + 1) * ones / all > i * ones / all).collect()
    }

    /// Newcombe (1998), Table II, 56/70 against 48/80 by method 10: 0.0524 to 0.3339 at 1.96. Our interval uses
    /// Student's t, so it must reach slightly further, and cover Newcombe's.
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

    /// The share of pairs without a difference whose interval excludes zero.
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
        // Each value repeats the previous one with probability one half.
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

    /// Two kinds of connections of which only the mix changes; part of the noise is persistent, for both.
    fn mixes(random: &mut fastrand::Rng, n: usize, lasting: f64, add: f64) -> [Stratum<f64>; 2] {
        let mut sides: [[Vec<(usize, f64)>; 2]; 2] = Default::default();
        for (side, fast) in [(0, 0.8), (1, 0.3)] {
            let mut state = 0.0;
            for place in 0..n {
                state = 0.8 * state + 0.6 * (random.f64() - 0.5);
                let kind = usize::from(random.f64() >= fast);
                let noise = lasting.sqrt() * state + (1.0 - lasting).sqrt() * (random.f64() - 0.5);
                let shift = if side == 1 { add } else { 0.0 };
                sides[kind][side].push((place, 10.0 + 20.0 * kind as f64 + noise + shift));
            }
        }
        sides.map(|sides| Stratum { weight: 1.0, sides })
    }

    #[test]
    fn a_mix_that_changed_is_no_difference_and_a_difference_is_none_of_the_mix() {
        let mut random = fastrand::Rng::with_seed(17);
        for lasting in [0.0, 0.9] {
            let runs = 500;
            let wrong = (0..runs)
                .filter(|_| {
                    let found = stratified_medians(&mixes(&mut random, 240, lasting, 0.0)).unwrap();
                    found.difference.interval.unwrap().excludes_zero()
                })
                .count();
            assert!(wrong <= runs * 6 / 100, "{lasting}: {wrong} of {runs}");
        }
        let found = stratified_medians(&mixes(&mut random, 400, 0.0, 1.0)).unwrap();
        assert!((found.difference.value - 1.0).abs() < 0.2, "{found:?}");
        assert!((found.sides[0] - 20.0).abs() < 0.2, "{found:?}");
        assert!(found.difference.interval.unwrap().low > 0.5, "{found:?}");
    }

    /// If everything occurs twice, two strata are worth no more than one.
    #[test]
    fn strata_that_move_together_count_once() {
        let mut random = fastrand::Rng::with_seed(4);
        let values: Vec<f64> = (0..200).map(|_| random.f64()).collect();
        let at = |first: usize| -> Vec<(usize, f64)> {
            values.iter().enumerate().map(|(n, x)| (2 * n + first, *x)).collect()
        };
        let strata = |weight| Stratum { weight, sides: [at(0), at(1)] };
        let one = stratified_medians(&[strata(1.0)]).unwrap().difference.interval.unwrap();
        let other = Stratum { weight: 1.0, sides: [at(1), at(0)] };
        let two = stratified_medians(&[strata(1.0), other]).unwrap().difference.interval.unwrap();
        assert!((two.half_width() / one.half_width() - 1.0).abs() < 0.05, "{one:?} {two:?}");
    }

    #[test]
    fn what_lasts_for_a_quarter_of_a_side_is_seen() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut side = |levels: [f64; 4]| -> Vec<f64> {
            (0..200).map(|n| levels[n / 50] + 0.1 * random.f64()).collect()
        };
        let (steady, other) = (side([1.0; 4]), side([2.0; 4]));
        let wandering = side([1.0, 1.0, 5.0, 5.0]);
        let wander = |before: &[f64], after: &[f64]| {
            let found = stratified_medians(&alone(before, after)).unwrap();
            found.difference.value / found.wander.unwrap()
        };
        assert!(wander(&steady, &other) > 20.0);
        assert!(wander(&wandering, &other) < 2.0);
    }
}
