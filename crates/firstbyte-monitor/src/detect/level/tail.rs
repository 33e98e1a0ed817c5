//! A change of the upper tail that leaves the median unchanged: more, or fewer, samples far above their neighbours'
//! median.

use std::sync::LazyLock;

use firstbyte_core::stats::Interval;

use super::blocks::middle;
use super::{Certainty, Change, KnownHours, LevelSettings, Point, WINDOW};

/// Fewest samples before and after a change to propose it, and after it to confirm it.
const FEWEST: [usize; 3] = [40, 12, 40];
/// Twice the log-likelihood ratio of two shares against one, required to propose and to confirm a change.
const RATIO: [f64; 2] = [22.0, 40.0];
/// Fewest slow samples on the side that has more of them.
const FEWEST_SLOW: usize = 4;
/// If a larger share than this is slow, the median has changed.
const MOST_SLOW: f64 = 0.6;
/// If this many of the last samples are all slow, the median may be changing right now.
const LAST: usize = 5;
/// A sample is compared with the median of this many samples before and after it.
const REACH: usize = 15;
/// Quantiles of the distances from that median, tried as the limit between slow and other samples.
const LIMITS: [f64; 5] = [0.7, 0.8, 0.87, 0.93, 0.97];
/// Samples on each side of the change whose p90 is reported.
const NEAR: usize = 100;

/// The change of the tail in the last of `samples`, in order of time, if it is larger than chance explains.
///
/// `known` is what the hours show of the p90. While there are too few hours, samples alone confirm a change.
pub fn sudden_tail(
    samples: &[Point],
    known: &KnownHours,
    settings: &LevelSettings,
) -> Option<Change> {
    let samples = &samples[samples.len().saturating_sub(WINDOW)..];
    let n = samples.len();
    if n < FEWEST[0] + FEWEST[1] {
        return None;
    }
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let distances = distances_from_median(&values);
    let mut sorted = distances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let least = settings.sudden.absolute.max(settings.sudden.share * middle(&mut values.clone()));
    let mut limits: Vec<f64> = LIMITS
        .iter()
        .map(|quantile| sorted[(quantile * (n - 1) as f64) as usize])
        .map(|limit| limit.max(least / 2.0))
        .chain([least, 2.0 * least])
        .collect();
    limits.dedup();
    let best = limits
        .iter()
        .filter_map(|limit| Split::likeliest(&distances, *limit))
        .max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let (before, after) = values.split_at(best.at);
    let before = Tail::from_values(&before[before.len().saturating_sub(NEAR)..]);
    let after = Tail::from_values(&after[..after.len().min(NEAR)]);
    let difference = after.p90 - before.p90;
    let grows = best.slow[1] > best.slow[0];
    // A burst that has ended did not change the tail.
    let is_burst = !best.holds[0] || (n - best.at >= 2 * FEWEST[1] && !best.holds[1]);
    if best.ratio < RATIO[0]
        || is_burst
        || difference.abs() < least.max(settings.sudden.share * before.p90)
        || difference.abs() < known.floor(0)
        || (difference > 0.0) != grows
    {
        return None;
    }
    let held =
        known.is_young() && n - best.at >= FEWEST[2] && best.ratio >= RATIO[1] && best.holds[1];
    let at = |index: usize| samples[index.min(n - 1)].at;
    let width = samples.windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap_or_default();
    Some(Change {
        certainty: if held { Certainty::Confirmed } else { Certainty::Proposed },
        at: at(best.at),
        between: [at(best.between[0].saturating_sub(1)), at(best.between[1]) + width],
        before: before.p90,
        after: after.p90,
        interval: Interval {
            low: after.interval.low - before.interval.high,
            high: after.interval.high - before.interval.low,
        },
        samples: [best.at as u64, (n - best.at) as u64],
    })
}

/// How far each value is above the median of the values around it.
fn distances_from_median(values: &[f64]) -> Vec<f64> {
    let mut window: Vec<f64> = Vec::with_capacity(2 * REACH + 1);
    let insert = |window: &mut Vec<f64>, value: f64| {
        let place = window.partition_point(|other| *other < value);
        window.insert(place, value);
    };
    values.iter().take(REACH).for_each(|value| insert(&mut window, *value));
    (0..values.len())
        .map(|index| {
            if let Some(next) = values.get(index + REACH) {
                insert(&mut window, *next);
            }
            if let Some(gone) = index.checked_sub(REACH + 1) {
                let place = window.partition_point(|other| *other < values[gone]);
                window.remove(place);
            }
            values[index] - window[window.len() / 2]
        })
        .collect()
}

/// The best division between fewer and more slow samples.
struct Split {
    at: usize,
    ratio: f64,
    /// The share of slow samples before and after.
    slow: [f64; 2],
    /// First and last place that are about as likely.
    between: [usize; 2],
    /// For each side of the change, whether both of its halves are nearer to its own share than to the other.
    holds: [bool; 2],
}

impl Split {
    fn likeliest(distances: &[f64], limit: f64) -> Option<Self> {
        let n = distances.len();
        let mut sums = Vec::with_capacity(n + 1);
        let mut slow = 0_usize;
        sums.push(0);
        for distance in distances {
            slow += usize::from(*distance > limit);
            sums.push(slow);
        }
        if slow < FEWEST_SLOW {
            return None;
        }
        let count = |from: usize, until: usize| (sums[until] - sums[from], until - from);
        let cost =
            |(slow, all): (usize, usize)| -> f64 { XLOGX[all] - XLOGX[slow] - XLOGX[all - slow] };
        let whole = cost((slow, n));
        let ratio = |at: usize| 2.0 * (whole - cost(count(0, at)) - cost(count(at, n)));
        let places = FEWEST[0]..=n - FEWEST[1];
        let at = places.clone().max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))?;
        let best = ratio(at);
        let share = |(slow, all): (usize, usize)| slow as f64 / all.max(1) as f64;
        let sides = [share(count(0, at)), share(count(at, n))];
        if sides.iter().any(|share| *share > MOST_SLOW) {
            return None;
        }
        let (last, _) = count(n - LAST, n);
        if last == LAST {
            return None;
        }
        let possible = |place: &usize| ratio(*place) >= best - 4.0;
        let middle = (sides[0] + sides[1]) / 2.0;
        let holds = |from: usize, until: usize, own: f64| {
            let half = from + (until - from) / 2;
            let is_own = |share: f64| (share > middle) == (own > middle);
            is_own(share(count(from, half))) && is_own(share(count(half, until)))
        };
        Some(Self {
            at,
            ratio: best,
            slow: sides,
            between: [places.clone().find(possible)?, places.rev().find(possible)?],
            holds: [holds(0, at, sides[0]), holds(at, n, sides[1])],
        })
    }
}

/// Precomputed `n ln n` for all possible counts.
static XLOGX: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..=WINDOW).map(|n| if n == 0 { 0.0 } else { n as f64 * (n as f64).ln() }).collect()
});

/// The p90 of some values, with its interval by order statistics.
struct Tail {
    p90: f64,
    interval: Interval,
}

impl Tail {
    fn from_values(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let last = n.saturating_sub(1);
        let at = |rank: f64| {
            let index = rank.clamp(0.0, last as f64) as usize;
            sorted.get(index).copied().unwrap_or_default()
        };
        let rank = 0.9 * last as f64;
        let reach = 1.96 * (0.09 * n as f64).sqrt();
        Self {
            p90: at(rank.round()),
            interval: Interval { low: at(rank - reach), high: at((rank + reach).ceil()) },
        }
    }
}
