//! Proposes a change in the last days: the division into two parts with the largest energy distance (E-divisive:
//! Matteson and James 2014), if it is large enough to matter.

use super::blocks::Deseasoned;
use super::noise::Noise;
use super::segments::{Segments, level, residuals, sides};
use super::{BLOCK, Certainty, Change, DAY, LevelSettings, place};

/// How far back changes are proposed.
const WINDOW: i64 = 10 * DAY;
/// Fewest values of the level before.
const FEWEST_BEFORE: usize = 6;

/// The proposed change after all confirmed changes, if there is one.
pub(super) fn proposed(
    deseasoned: &Deseasoned,
    found: &Segments,
    settings: &LevelSettings,
) -> Option<Change> {
    let n = deseasoned.blocks.len();
    let start = found.bounds[found.bounds.len() - 2];
    let newest = deseasoned.blocks.last()?.at;
    let first = deseasoned.blocks.partition_point(|block| block.at + WINDOW < newest).max(start);
    let values: Vec<f64> = deseasoned.blocks[start..].iter().map(|block| block.value).collect();
    // The level before may begin before the window, but must be long enough.
    let fewest = FEWEST_BEFORE.saturating_sub(first - start).max(1);
    let split = first + division(&values[first - start..], fewest, settings.shortest[0])?;
    let [before, after] = sides(&values[..split - start], &values[split - start..]);
    let difference = (level(after) - level(before)).abs();
    let noise = Noise::from_values(&residuals(&values, &[0, split - start, values.len()]));
    let gate = settings.propose.least(level(before), noise.spread);
    let errors = settings.errors[0] * noise.error(before.len(), after.len());
    // Do not propose a change that has begun to recede.
    let last = deseasoned.blocks[n - 1];
    let holds = newest - deseasoned.blocks[split].at < WINDOW
        && (last.value - level(before)).abs() > difference / 2.0
        && newest + BLOCK > deseasoned.blocks[split].at;
    (difference >= gate.max(errors) && holds)
        .then(|| place::change(deseasoned, &[start, split, n], &noise, Certainty::Proposed))
}

/// The best division of `values` into two parts.
fn division(values: &[f64], before: usize, after: usize) -> Option<usize> {
    let n = values.len();
    // Cumulative sums of the distances between the first i and the first j values.
    let mut sums = vec![vec![0.0; n + 1]; n + 1];
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            sums[i + 1][j + 1] = sums[i][j + 1] + sums[i + 1][j] - sums[i][j] + (a - b).abs();
        }
    }
    let energy = |at: usize| {
        let (left, right) = (at as f64, (n - at) as f64);
        let across = sums[at][n] - sums[at][at];
        let within = [sums[at][at], sums[n][n] - 2.0 * sums[at][n] + sums[at][at]];
        left * right / (left + right)
            * (2.0 * across / (left * right)
                - within[0] / (left * left)
                - within[1] / (right * right))
    };
    let places = before..=n.checked_sub(after)?;
    places.max_by(|a, b| energy(*a).total_cmp(&energy(*b)))
}
