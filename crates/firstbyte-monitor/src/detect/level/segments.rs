//! Levels of six-hour medians: finds the cheapest division by absolute deviations (PELT's problem, Killick, Fearnhead
//! and Eckley 2012, solved exactly), and drops changes that noise explains.

use super::LevelSettings;
use super::blocks::middle;
use super::noise::{COMPARED, Noise};

/// Cost of another level, in mean absolute deviations times the logarithm of the number of values.
const PENALTY: f64 = 2.0;
/// Number of values compared right before and after a change. Wandering noise changes little between them.
const NEAREST: usize = 2;
/// Standard errors that a change needs against noise from which no level was removed.
const RAW_ERRORS: f64 = 3.5;
/// Standard errors that the difference of the nearest values needs if noise wanders.
const JUMP: f64 = 4.0;
/// Fewest values of a level that has ended. A shorter excursion is reported while it lasts, not days later.
const SHORTEST_ENDED: usize = 12;

/// A division of values into levels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segments {
    /// Index of the first value of each level, followed by the number of values: one entry more than levels.
    pub(super) bounds: Vec<usize>,
    pub(super) noise: Noise,
}

/// Divides `values` into levels whose changes are all confirmed.
///
/// The cheapest division proposes changes, and they are accepted one by one, strongest first. Each is compared with
/// noise from which its own level and those accepted before are removed. Wandering noise is cheap to divide into many
/// levels, but removing one of these levels hardly changes it.
pub(super) fn confirmed(values: &[f64], shortest: usize, settings: &LevelSettings) -> Segments {
    let penalty = PENALTY * rough_scale(values) * (values.len() as f64).ln();
    let mut candidates = cheapest(values, shortest, penalty);
    let mut bounds = vec![0, values.len()];
    candidates.retain(|at| *at > 0 && *at < values.len());
    loop {
        let strengths = candidates.iter().map(|at| {
            let with = with_bound(&bounds, *at);
            let noise = Noise::from_values(&residuals(values, &with));
            (*at, strength_at(values, &with, *at, &noise, settings))
        });
        let strongest = strengths.max_by(|a, b| a.1.total_cmp(&b.1));
        match strongest {
            Some((at, strength)) if strength >= 1.0 => {
                bounds = with_bound(&bounds, at);
                candidates.retain(|other| *other != at);
            }
            _ => break,
        }
    }
    // A change that was strong alone may be weak among others.
    loop {
        let noise = Noise::from_values(&residuals(values, &bounds));
        let inner = bounds[1..bounds.len() - 1].iter();
        let weakest = inner
            .map(|at| (*at, strength_at(values, &bounds, *at, &noise, settings)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match weakest {
            Some((at, strength)) if strength < 1.0 => bounds.retain(|bound| *bound != at),
            _ => return Segments { bounds, noise },
        }
    }
}

fn with_bound(bounds: &[usize], at: usize) -> Vec<usize> {
    let mut with = bounds.to_vec();
    let place = with.partition_point(|bound| *bound < at);
    with.insert(place, at);
    with
}

/// `values` minus the levels between `bounds`; the overall level stays.
pub(super) fn residuals(values: &[f64], bounds: &[usize]) -> Vec<f64> {
    let whole = level(values);
    let mut residuals = Vec::with_capacity(values.len());
    for pair in bounds.windows(2) {
        let own = level(&values[pair[0]..pair[1]]) - whole;
        residuals.extend(values[pair[0]..pair[1]].iter().map(|value| value - own));
    }
    residuals
}

/// Strength of the change at `at`, one of `bounds`.
fn strength_at(
    values: &[f64],
    bounds: &[usize],
    at: usize,
    noise: &Noise,
    settings: &LevelSettings,
) -> f64 {
    let place = bounds.iter().position(|bound| *bound == at).unwrap_or_default();
    match (place.checked_sub(1), bounds.get(place + 1)) {
        (Some(before), Some(_)) => strength(values, &bounds[before..=place + 1], noise, settings),
        _ => 0.0,
    }
}

/// Ratio of the difference to the required one: the smallest ratio over gate, standard errors and jump.
fn strength(values: &[f64], bounds: &[usize], noise: &Noise, settings: &LevelSettings) -> f64 {
    let [from, at, until] = [bounds[0], bounds[1], bounds[2]];
    let [old, new] = sides(&values[from..at], &values[at..until]);
    let (before, after) = (level(old), level(new));
    let has_ended = |from: usize, until: usize| until < values.len() && from > 0;
    if (has_ended(from, at) && at - from < SHORTEST_ENDED)
        || (until < values.len() && until - at < SHORTEST_ENDED)
        || !holds(new, before, after)
    {
        return 0.0;
    }
    let difference = (after - before).abs();
    let gate = settings.confirm.least(before, noise.spread);
    let errors = settings.errors[1] * noise.error(old.len(), new.len());
    // Removing levels also removes a part of wandering noise, so measure how it wanders on the raw values.
    let raw = Noise::from_values(values);
    let needed = JUMP * raw.wandering() * raw.error(NEAREST, NEAREST);
    let jump = if needed > 0.0 { jump(values, at, after > before) / needed } else { f64::INFINITY };
    let raw_errors = RAW_ERRORS * raw.error(old.len(), new.len());
    (difference / gate).min(difference / errors).min(difference / raw_errors).min(jump)
}

/// The largest difference, in the direction of the change, between the values right before and right after it. The
/// value during which the change happened may belong to neither side.
fn jump(values: &[f64], at: usize, grows: bool) -> f64 {
    let jump = |(end, start): (usize, usize)| {
        let before = values.get(end.checked_sub(NEAREST)?..end)?;
        let after = values.get(start..start + NEAREST)?;
        let difference = level(after) - level(before);
        Some(if grows { difference } else { -difference })
    };
    let places = [(at, at), (at - 1, at), (at, at + 1), (at - 1, at - 1), (at + 1, at + 1)];
    places.into_iter().filter_map(jump).fold(0.0, f64::max)
}

/// The values on either side that are nearest to the change.
pub(super) fn sides<'a>(before: &'a [f64], after: &'a [f64]) -> [&'a [f64]; 2] {
    [&before[before.len().saturating_sub(COMPARED)..], &after[..after.len().min(COMPARED)]]
}

/// Whether a short level persists: its last value and most others are nearer to it than to the one before.
fn holds(new: &[f64], before: f64, after: f64) -> bool {
    let is_near = |value: &f64| (value - after).abs() < (value - before).abs();
    let near = new.iter().filter(|value| is_near(value)).count();
    new.len() >= SHORTEST_ENDED || (new.last().is_some_and(is_near) && 4 * near >= 3 * new.len())
}

pub(super) fn level(values: &[f64]) -> f64 {
    middle(&mut values.to_vec())
}

/// Rough mean absolute deviation, from differences of neighbours, which levels do not affect.
fn rough_scale(values: &[f64]) -> f64 {
    let mut steps: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    let usual = middle(&mut steps);
    let scale = if usual > 0.0 { usual } else { mean };
    scale.max(1e-9 * level(values).abs()).max(f64::MIN_POSITIVE)
}

/// Index of the first value of each level in the cheapest division, followed by the number of values.
fn cheapest(values: &[f64], shortest: usize, penalty: f64) -> Vec<usize> {
    let n = values.len();
    let mut cost = vec![f64::INFINITY; n + 1];
    let mut from = vec![0; n + 1];
    cost[0] = 0.0;
    let mut costs = RunningCost::with_capacity(n);
    for start in (0..n).filter(|start| *start == 0 || *start >= shortest) {
        if !cost[start].is_finite() {
            continue;
        }
        costs.clear();
        for (end, value) in (start + 1..=n).zip(&values[start..]) {
            let own = costs.add(*value);
            let all = cost[start] + own + penalty;
            if end - start >= shortest && all < cost[end] {
                cost[end] = all;
                from[end] = start;
            }
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

/// Sum of absolute deviations from the median, updated value by value.
struct RunningCost {
    sorted: Vec<f64>,
    low: f64,
    sum: f64,
}

impl RunningCost {
    fn with_capacity(n: usize) -> Self {
        Self { sorted: Vec::with_capacity(n), low: 0.0, sum: 0.0 }
    }

    fn clear(&mut self) {
        self.sorted.clear();
        (self.low, self.sum) = (0.0, 0.0);
    }

    /// Adds `value` and returns the new cost.
    fn add(&mut self, value: f64) -> f64 {
        let half = self.sorted.len() / 2;
        let was_odd = self.sorted.len() % 2 == 1;
        let place = self.sorted.partition_point(|other| *other < value);
        self.sorted.insert(place, value);
        self.sum += value;
        // `low` is the sum of the lower half. With an odd number of values, the middle one is in neither half.
        if was_odd {
            self.low += if place <= half { value } else { self.sorted[half] };
            self.sum - 2.0 * self.low
        } else {
            if place < half {
                self.low += value - self.sorted[half];
            }
            self.sum - 2.0 * self.low - self.sorted[half]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_cost_is_the_sum_of_absolute_deviations() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut costs = RunningCost::with_capacity(100);
        let mut values = Vec::new();
        for _ in 0..100 {
            let value = (random.f64() * 20.0).round();
            values.push(value);
            let own = level(&values);
            let expected: f64 = values.iter().map(|value| (value - own).abs()).sum();
            assert!((costs.add(value) - expected).abs() < 1e-9, "{values:?}");
        }
    }
}
