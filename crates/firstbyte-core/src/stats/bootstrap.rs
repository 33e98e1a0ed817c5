//! The paired circular block bootstrap: what would other runs of the same length have given?
//!
//! Blocks of neighbouring rounds are drawn with replacement; the first round follows the last (Politis and Romano, *A
//! circular block-resampling procedure*, 1992). A round stays whole: both cells' values are drawn together, so that
//! shared effects cancel as they did in the run.

use super::quantile::{midway, places};

/// Number of resamples for `n` rounds: enough that the ends of an interval vary by 3 to 4 % of its half-width from
/// seed to seed.
pub(super) fn resamples(n: usize) -> usize {
    (1_000_000 / n.max(1)).clamp(1_000, 2_000)
}

/// A series of rounds in ascending order, with the round of each value.
pub(super) struct Ranked {
    /// The values, ascending.
    pub(super) sorted: Vec<f64>,
    /// The round of each value.
    round: Vec<u32>,
}

impl Ranked {
    pub(super) fn new(values: &[f64]) -> Self {
        let mut pairs: Vec<(f64, u32)> =
            values.iter().zip(0u32..).map(|(value, round)| (*value, round)).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let (sorted, round) = pairs.into_iter().unzip();
        Self { sorted, round }
    }

    /// The quantiles `of` (indices of order statistics, ascending) of a resample that contains round r `times[r]`
    /// times.
    pub(super) fn quantiles(&self, times: &[u32], of: &[(usize, usize)]) -> Vec<f64> {
        let mut found = Vec::with_capacity(of.len());
        let (mut seen, mut low) = (0, None);
        for (value, round) in self.sorted.iter().zip(&self.round) {
            seen += times[*round as usize] as usize;
            while let Some((first, last)) = of.get(found.len()) {
                if seen > *first {
                    low.get_or_insert(*value);
                }
                if seen <= *last {
                    break;
                }
                found.push(midway(low.take().unwrap_or(*value), *value));
            }
            if found.len() == of.len() {
                break;
            }
        }
        found
    }
}

/// Counts how often each of `n` rounds is in a resample made of blocks of `block` rounds.
pub(super) fn draw(times: &mut [u32], block: usize, random: &mut fastrand::Rng) {
    times.fill(0);
    let n = times.len();
    let mut left = n;
    while left > 0 {
        let start = random.usize(0..n);
        let length = block.min(left);
        for round in start..start + length {
            times[if round < n { round } else { round - n }] += 1;
        }
        left -= length;
    }
}

/// Resampled differences between quantiles of two cells, for each of `quantiles` (ascending).
pub(super) fn resample(
    base: &Ranked,
    variant: &Ranked,
    quantiles: &[f64],
    (block, count, seed): (usize, usize, u64),
) -> Vec<Vec<f64>> {
    let n = base.sorted.len();
    let of: Vec<(usize, usize)> = quantiles.iter().map(|q| places(n, *q)).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut times = vec![0; n];
    let mut draws = vec![Vec::with_capacity(count); of.len()];
    for _ in 0..count {
        draw(&mut times, block, &mut random);
        let both = variant.quantiles(&times, &of).into_iter().zip(base.quantiles(&times, &of));
        for (differences, (variant, base)) in draws.iter_mut().zip(both) {
            differences.push(variant - base);
        }
    }
    draws
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{QUANTILES, quantile};

    #[test]
    fn a_resample_has_as_many_rounds_and_keeps_blocks() {
        let mut random = fastrand::Rng::with_seed(1);
        for (n, block) in [(1, 1), (7, 3), (20, 5), (100, 9)] {
            let mut times = vec![9; n];
            draw(&mut times, block, &mut random);
            assert_eq!(times.iter().sum::<u32>() as usize, n);
        }
        let mut times = vec![0; 9];
        draw(&mut times, 9, &mut random);
        assert_eq!(times, [1; 9], "one block around the whole circle");
    }

    #[test]
    fn counting_gives_what_sorting_the_resample_would() {
        let mut random = fastrand::Rng::with_seed(2);
        for n in 1..40 {
            let values: Vec<f64> = (0..n).map(|_| random.f64()).collect();
            let mut times = vec![0; n];
            draw(&mut times, 3.min(n), &mut random);
            let mut drawn: Vec<f64> = values
                .iter()
                .zip(&times)
                .flat_map(|(value, times)| std::iter::repeat_n(*value, *times as usize))
                .collect();
            drawn.sort_by(f64::total_cmp);
            let of = QUANTILES.map(|q| places(n, q));
            let expected = QUANTILES.map(|q| quantile(&drawn, q).unwrap());
            assert_eq!(Ranked::new(&values).quantiles(&times, &of), expected, "n = {n}");
        }
    }
}
