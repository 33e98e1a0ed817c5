//! Changes in the share of samples that fail.

use firstbyte_core::stats::Interval;

use super::{BLOCK, Certainty, Change};

/// Number of failed samples in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// When the slot begins, or the sample was taken, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Samples that failed.
    pub failed: u64,
    /// All samples.
    pub samples: u64,
}

/// Least difference of shares that counts.
const GATE: f64 = 0.01;
/// Twice the log-likelihood ratio required to propose and to confirm a change: at least five standard errors.
const RATIO: [f64; 2] = [22.0, 30.0];
/// The same for single samples, which are examined often.
const SUDDEN_RATIO: [f64; 2] = [30.0, 45.0];
/// Cost of another level: a level that saves less is not considered.
const PENALTY: f64 = 8.0;
/// Fewest samples before a change (and after it, to confirm it), and fewest after it to propose it.
const FEWEST: [usize; 2] = [20, 4];
/// Fewest samples on a side that lasts as long as `FEWEST` samples usually take.
const FEWEST_OF_LONG: usize = 8;
/// Number of samples examined one by one.
const WINDOW: usize = 400;
/// A level of fewer blocks than this is only proposed until it has ended.
const CONFIRMED_AFTER: usize = 4;

/// Changes of the share, in order of time. `points` are hours.
pub fn failure_changes(points: &[Counted]) -> Vec<Change> {
    let ordered = points.windows(2).all(|pair| pair[0].at < pair[1].at);
    let failed: u64 = points.iter().map(|point| point.failed).sum();
    let samples: u64 = points.iter().map(|point| point.samples).sum();
    // If almost no sample failed or almost all did, nothing can have changed.
    if !ordered || failed < 3 || samples < failed + 3 {
        return Vec::new();
    }
    let same = |a: &Counted, b: &Counted| a.at.div_euclid(BLOCK) == b.at.div_euclid(BLOCK);
    let blocks: Vec<Counted> = points
        .chunk_by(same)
        .map(|chunk| Counted {
            at: chunk[0].at,
            failed: chunk.iter().map(|point| point.failed).sum(),
            samples: chunk.iter().map(|point| point.samples).sum(),
        })
        .filter(|block| block.samples > 0)
        .collect();
    let sums = Sums::up_to_each(&blocks);
    let mut bounds = sums.cheapest(PENALTY);
    let dispersion = loop {
        let dispersion = sums.dispersion(&blocks, &bounds);
        let weakest = (1..bounds.len() - 1)
            .map(|index| (index, sums.strength(&bounds[index - 1..=index + 1], dispersion)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match weakest {
            Some((index, strength)) if strength < 1.0 => bounds.remove(index),
            _ => break dispersion,
        };
    };
    let triples = bounds.windows(3);
    let all = triples.map(|bounds| {
        let certain = bounds[2] - bounds[1] >= CONFIRMED_AFTER
            && sums.ratio(bounds[0], bounds[1], bounds[2]) / dispersion >= RATIO[1];
        // A short level between two others counts as certain once it has ended.
        let certain = certain || bounds[2] < blocks.len();
        let end = |index: usize| blocks.get(index).map_or(i64::MAX, |block| block.at);
        let near = points.iter().copied().filter(|point| {
            point.at >= end(bounds[0]).max(end(bounds[1]) - 2 * BLOCK)
                && point.at < end(bounds[2]).min(end(bounds[1]).saturating_add(2 * BLOCK))
        });
        let near: Vec<Counted> = near.collect();
        let certainty = if certain { Certainty::Confirmed } else { Certainty::Proposed };
        change(
            &near,
            sums.count(bounds[0], bounds[1]),
            sums.count(bounds[1], bounds[2]),
            dispersion,
            certainty,
        )
    });
    all.collect()
}

/// Changes of the share in the last of `samples` (one or a few samples each) that are beyond doubt, in order of time.
pub fn sudden_failures(samples: &[Counted]) -> Vec<Change> {
    let samples = &samples[samples.len().saturating_sub(WINDOW)..];
    let n = samples.len();
    let sums = Sums::up_to_each(samples);
    let (failed, all) = sums.count(0, n);
    // If too few samples failed or all did, nothing can have changed.
    if failed < FEWEST[1] as f64 || failed >= all {
        return Vec::new();
    }
    let mut steps: Vec<i64> = samples.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(i64::MAX);
    // A level needs enough samples, or enough time: failing samples take longer, so fewer of them fit.
    let long = |from: usize, until: usize| {
        let lasted = samples[until - 1].at - samples[from].at;
        until - from >= FEWEST[0]
            || (until - from >= FEWEST_OF_LONG && lasted >= usual.saturating_mul(FEWEST[0] as i64))
    };
    let strength = |bounds: &[usize]| {
        let [from, at, until] = [bounds[0], bounds[1], bounds[2]];
        let [before, after] = [sums.count(from, at), sums.count(at, until)];
        // Skip a level that has begun to recede.
        let last = sums.count(at.max(until.saturating_sub(10)), until);
        let half = (share(before) + share(after)) / 2.0;
        let stays = (share(last) > half) == (share(after) > half);
        let gate = (share(after) - share(before)).abs() >= 10.0 * GATE;
        match stays && gate && until - at >= FEWEST[1] && long(from, at) {
            true => sums.ratio(from, at, until) / SUDDEN_RATIO[0],
            false => 0.0,
        }
    };
    let mut bounds = sums.cheapest(PENALTY);
    loop {
        let weakest = (1..bounds.len() - 1)
            .map(|index| (index, strength(&bounds[index - 1..=index + 1])))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match weakest {
            Some((index, strength)) if strength < 1.0 => bounds.remove(index),
            _ => break,
        };
    }
    let changes = bounds.windows(3).map(|bounds| {
        let [from, at, until] = [bounds[0], bounds[1], bounds[2]];
        let held = long(at, until) && sums.ratio(from, at, until) >= SUDDEN_RATIO[1];
        let certainty = if held { Certainty::Confirmed } else { Certainty::Proposed };
        let (before, after) = (sums.count(from, at), sums.count(at, until));
        change(&samples[from..until], before, after, 1.0, certainty)
    });
    changes.collect()
}

/// Numbers of failed samples and of all samples.
type Count = (f64, f64);

fn share(count: Count) -> f64 {
    count.0 / count.1.max(1.0)
}

fn change(
    near: &[Counted],
    before: Count,
    after: Count,
    dispersion: f64,
    certainty: Certainty,
) -> Change {
    let sums = Sums::up_to_each(near);
    let n = near.len();
    let (best, most) = (1..n)
        .map(|at| (at, -sums.cost(0, at) - sums.cost(at, n)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0));
    let possible = |at: &usize| -sums.cost(0, *at) - sums.cost(*at, n) >= most - 2.0 * dispersion;
    let first = (1..n).find(possible).unwrap_or(best);
    let last = (1..n).rev().find(possible).unwrap_or(best);
    let at = |index: usize| near.get(index).or(near.last()).map_or(0, |point| point.at);
    let width = near.windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap_or_default();
    let ends = [before, after].map(|(failed, all)| wilson(all / dispersion, share((failed, all))));
    let [p, q] = [share(before), share(after)];
    let reach = |a: f64, b: f64| a.hypot(b);
    Change {
        certainty,
        at: at(best),
        between: [at(first.saturating_sub(1)), at(last) + width],
        before: p,
        after: q,
        // Newcombe's method 10 (1998).
        interval: Interval {
            low: q - p - reach(q - ends[1].0, ends[0].1 - p),
            high: q - p + reach(ends[1].1 - q, p - ends[0].0),
        },
        samples: [before.1 as u64, after.1 as u64],
    }
}

/// Wilson's interval (1927) of a share of `n` independent samples.
fn wilson(n: f64, p: f64) -> (f64, f64) {
    let z = 1.96_f64;
    let n = n.max(1.0);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let reach = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((middle - reach).max(0.0), (middle + reach).min(1.0))
}

/// Cumulative counts up to each index.
struct Sums(Vec<Count>);

impl Sums {
    fn up_to_each(points: &[Counted]) -> Self {
        let mut sums = vec![(0.0, 0.0)];
        let mut all = (0.0, 0.0);
        for point in points {
            all = (all.0 + point.failed as f64, all.1 + point.samples as f64);
            sums.push(all);
        }
        Self(sums)
    }

    fn count(&self, from: usize, until: usize) -> Count {
        let (from, until) = (self.0[from], self.0[until]);
        (until.0 - from.0, until.1 - from.1)
    }

    /// Negative log-likelihood of a single share.
    fn cost(&self, from: usize, until: usize) -> f64 {
        let (failed, all) = self.count(from, until);
        let term = |k: f64| if k > 0.0 { k * (k / all).ln() } else { 0.0 };
        -term(failed) - term(all - failed)
    }

    /// Twice the log-likelihood ratio of two shares against one.
    fn ratio(&self, from: usize, at: usize, until: usize) -> f64 {
        2.0 * (self.cost(from, until) - self.cost(from, at) - self.cost(at, until))
    }

    fn strength(&self, bounds: &[usize], dispersion: f64) -> f64 {
        let [from, at, until] = [bounds[0], bounds[1], bounds[2]];
        let difference = share(self.count(at, until)) - share(self.count(from, at));
        let ratio = self.ratio(from, at, until) / dispersion;
        (difference.abs() / GATE).min(ratio / RATIO[0])
    }

    /// How much more blocks of one level vary than chance explains: Pearson's χ² over its degrees of freedom, at least
    /// one.
    fn dispersion(&self, blocks: &[Counted], bounds: &[usize]) -> f64 {
        let mut square = 0.0;
        for pair in bounds.windows(2) {
            let (failed, all) = self.count(pair[0], pair[1]);
            // Add one failure and one success, so that no probability is 0 or 1.
            let p = (failed + 0.5) / (all + 1.0);
            for block in &blocks[pair[0]..pair[1]] {
                let n = block.samples as f64;
                let apart = block.failed as f64 - n * p;
                square += apart * apart / (n * p * (1.0 - p));
            }
        }
        (square / blocks.len().saturating_sub(bounds.len() - 1).max(1) as f64).max(1.0)
    }

    fn cheapest(&self, penalty: f64) -> Vec<usize> {
        let n = self.0.len() - 1;
        let mut cost = vec![0.0; n + 1];
        let mut from = vec![0; n + 1];
        for end in 1..=n {
            let all = |start: &usize| cost[*start] + self.cost(*start, end) + penalty;
            let best =
                (0..end).map(|start| (start, all(&start))).min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((start, least)) = best {
                (from[end], cost[end]) = (start, least);
            }
        }
        let mut bounds = vec![n];
        let mut at = n;
        while at > 0 {
            at = from[at];
            bounds.push(at);
        }
        bounds.reverse();
        bounds
    }
}
