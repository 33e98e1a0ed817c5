//! Finds where the residuals of a series change level, if anywhere: contrasts over seeded intervals.
//!
//! Kovács, Bühlmann, Li and Munk, *Seeded binary segmentation* (2023). The whole series alone hides a change that
//! another one reverses, so the search examines a fixed set of intervals, whose lengths shrink by √2 and which overlap
//! by half. Their total length grows with n log n, and nothing is random.

use super::regression::Grid;

/// Candidate places of the first, coarse search for pairs of changes.
const PLACES: usize = 80;

/// A place where the level may change, and the strength of the evidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Contrast {
    /// First index at the other level.
    pub(super) at: usize,
    /// Difference of means, in standard deviations of one value of weight 1; positive if the later mean is larger.
    pub(super) z: f64,
}

/// Half-open intervals of indices, the whole series first.
pub(super) fn seeded_intervals(n: usize, shortest: usize) -> Vec<(usize, usize)> {
    let mut intervals = Vec::new();
    let mut layer = 0;
    loop {
        let length = n as f64 * 0.5_f64.sqrt().powi(layer);
        if length < 2.0 * shortest as f64 {
            return intervals;
        }
        let count = (2.0 * 2.0_f64.sqrt().powi(layer)).ceil() as usize - 1;
        let step = if count > 1 { (n as f64 - length) / (count - 1) as f64 } else { 0.0 };
        for i in 0..count {
            let from = (i as f64 * step).floor() as usize;
            let until = ((i as f64 * step + length).ceil() as usize).min(n);
            intervals.push((from, until));
        }
        layer += 1;
    }
}

/// Search space: intervals, and the indices that may begin another level.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    intervals: Vec<(usize, usize)>,
    shortest: usize,
    /// Whether each index is far enough from known changes.
    allowed: Vec<bool>,
    /// Starts and ends of known changes, and both ends of the series.
    bounds: Vec<usize>,
    /// Smooth curves: a constant, a line, a parabola and a cubic; orthogonal, each with a weighted sum of squares of
    /// 1.
    smooth: Vec<Vec<f64>>,
}

impl Scan {
    /// Creates a scan between `bounds`, the indices at which known changes begin or end, ascending.
    pub(super) fn new(grid: &Grid, shortest: usize, bounds: &[usize]) -> Self {
        let n = grid.len();
        let inner = bounds.iter().copied().filter(|at| (1..n).contains(at));
        let mut bounds: Vec<usize> = [0].into_iter().chain(inner).chain([n]).collect();
        bounds.dedup();
        let mut intervals = Vec::new();
        let mut allowed = vec![false; n + 1];
        for (from, until) in bounds.iter().zip(&bounds[1..]) {
            let within = seeded_intervals(until - from, shortest);
            intervals.extend(within.into_iter().map(|(a, b)| (from + a, from + b)));
            if until - from >= 2 * shortest {
                allowed[from + shortest..=until - shortest].fill(true);
            }
        }
        Self { intervals, shortest, allowed, bounds, smooth: smooth(grid) }
    }

    /// Residuals after removing the two changes of level that explain most. Both are fitted together, because a change
    /// that the other one reverses does not show by itself.
    pub(super) fn without_stairs(&self, values: &[f64], weights: &[f64]) -> Vec<f64> {
        let sums = sums(values, weights);
        let n = values.len();
        let all: Vec<usize> =
            (self.shortest..n + 1 - self.shortest.min(n)).filter(|at| self.allowed[*at]).collect();
        let stride = all.len().div_ceil(PLACES).max(1);
        let coarse: Vec<usize> = all.iter().copied().step_by(stride).collect();
        // Reduction of the sum of squares by a level between these places.
        let level = |from: usize, until: usize| {
            let (weight, sum) = (sums[until].0 - sums[from].0, sums[until].1 - sums[from].1);
            if weight > 0.0 { sum * sum / weight } else { 0.0 }
        };
        // Levels also end at known changes: cumulative reduction by whole levels up to each of them.
        let mut whole = vec![0.0];
        for (from, until) in self.bounds.iter().zip(&self.bounds[1..]) {
            whole.push(whole[whole.len() - 1] + level(*from, *until));
        }
        let between = |from: usize, until: usize| -> f64 {
            let first = self.bounds.partition_point(|bound| *bound <= from);
            let last = self.bounds.partition_point(|bound| *bound < until);
            if last <= first {
                return level(from, until);
            }
            let last = last - 1;
            level(from, self.bounds[first]) + whole[last] - whole[first]
                + level(self.bounds[last], until)
        };
        let gain = |[a, b]: [usize; 2]| between(0, a) + between(a, b) + between(b, n);
        let mut best = ([0, n], gain([0, n]));
        let try_pair = |best: &mut ([usize; 2], f64), pair: [usize; 2]| {
            let found = gain(pair);
            if found > best.1 {
                *best = (pair, found);
            }
        };
        for (index, a) in coarse.iter().enumerate() {
            try_pair(&mut best, [*a, n]);
            let later = coarse[index..].iter().filter(|b| **b >= a + self.shortest);
            later.for_each(|b| try_pair(&mut best, [*a, *b]));
        }
        for side in 0..2 {
            let pair = best.0;
            if pair[side] == 0 || pair[side] == n {
                continue;
            }
            let near = |at: &&usize| at.abs_diff(pair[side]) < stride;
            for at in all.iter().filter(near) {
                let mut moved = pair;
                moved[side] = *at;
                if moved[1] >= moved[0] + self.shortest {
                    try_pair(&mut best, moved);
                }
            }
        }
        let [a, b] = best.0;
        let mut rest = values.to_vec();
        let mut ends = self.bounds.clone();
        ends.extend([a, b]);
        ends.sort_unstable();
        for (from, until) in ends.iter().zip(&ends[1..]) {
            let weight = sums[*until].0 - sums[*from].0;
            if weight > 0.0 {
                let mean = (sums[*until].1 - sums[*from].1) / weight;
                rest[*from..*until].iter_mut().for_each(|value| *value -= mean);
            }
        }
        rest
    }

    /// Residuals after removing a smooth curve.
    pub(super) fn without_smooth(&self, values: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut rest = values.to_vec();
        for course in &self.smooth {
            project_off(&mut rest, course, weights);
        }
        rest
    }

    pub(super) fn largest(&self, values: &[f64], weights: &[f64]) -> Option<Contrast> {
        let sums = sums(values, weights);
        let mut best: Option<Contrast> = None;
        let mut most = 0.0;
        for (from, until) in &self.intervals {
            let (start, end) = (sums[*from], sums[*until]);
            let (weight, sum) = (end.0 - start.0, end.1 - start.1);
            // The interval lies between known changes, and so do all places in it.
            let places = from + self.shortest..=until.saturating_sub(self.shortest);
            for (at, here) in places.clone().zip(sums.get(places).unwrap_or_default()) {
                let (left, right) = (here.0 - start.0, end.0 - here.0);
                // The difference of means is `-apart / (left * right)`. Divide only where necessary: this runs
                // millions of times.
                let apart = (here.1 - start.1) * weight - sum * left;
                let scale = weight * left * right;
                if apart * apart > most * scale {
                    most = apart * apart / scale;
                    best = Some(Contrast { at, z: most.sqrt().copysign(-apart) });
                }
            }
        }
        best
    }
}

/// Cumulative weights, and weighted values, up to each index.
fn sums(values: &[f64], weights: &[f64]) -> Vec<(f64, f64)> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    let (mut weight, mut sum) = (0.0, 0.0);
    sums.push((weight, sum));
    for (value, w) in values.iter().zip(weights) {
        weight += w;
        sum += w * value;
        sums.push((weight, sum));
    }
    sums
}

fn smooth(grid: &Grid) -> Vec<Vec<f64>> {
    let (first, last) = (grid.slots[0], grid.slots[grid.len() - 1]);
    let place = |slot: &i64| 2.0 * (slot - first) as f64 / (last - first).max(1) as f64 - 1.0;
    let mut courses: Vec<Vec<f64>> = Vec::new();
    for degree in 0..=3 {
        let mut course: Vec<f64> = grid.slots.iter().map(|slot| place(slot).powi(degree)).collect();
        for other in &courses {
            project_off(&mut course, other, &grid.weights);
        }
        let square: f64 = course.iter().zip(&grid.weights).map(|(c, w)| c * c * w).sum();
        if square > 1e-9 {
            courses.push(course.into_iter().map(|c| c / square.sqrt()).collect());
        }
    }
    courses
}

fn project_off(values: &mut [f64], course: &[f64], weights: &[f64]) {
    let size: f64 = values.iter().zip(course).zip(weights).map(|((v, c), w)| v * c * w).sum();
    values.iter_mut().zip(course).for_each(|(value, c)| *value -= size * c);
}
