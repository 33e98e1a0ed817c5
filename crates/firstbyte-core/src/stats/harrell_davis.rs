//! The Harrell–Davis quantile estimator: a weighted mean of all order statistics.
//!
//! Harrell and Davis, *A new distribution-free quantile estimator*, Biometrika 69 (1982): order
//! statistic `i` of `n` has the weight that Beta((n+1)q, (n+1)(1−q)) gives to `((i−1)/n, i/n]`. It
//! varies less than one or two order statistics do, and it is smooth, which resampling needs.

use super::special::incomplete_beta;

/// Up to here weights come from the incomplete beta function, beyond from its density by Simpson's
/// rule: the density is then so smooth over one rank that both agree to 1e-7.
const EXACT_UP_TO: usize = 2_000;

/// Order statistics this many standard deviations of the Beta distribution from `q` have no weight.
const REACH: f64 = 8.0;

/// The weights of the estimator for one sample size and quantile; they can be used again.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// Which quantile.
    pub(super) q: f64,
    /// Rank, from 0, of the first order statistic that has a weight.
    first: usize,
    /// Weights from there on; their sum is one.
    weights: Vec<f64>,
}

impl Weights {
    /// For samples of `n` ≥ 1 values and 0 < `q` < 1.
    pub(super) fn new(n: usize, q: f64) -> Self {
        let size = n as f64;
        let (a, b) = ((size + 1.0) * q, (size + 1.0) * (1.0 - q));
        let deviation = (q * (1.0 - q) / (size + 2.0)).sqrt();
        let first = ((q - REACH * deviation) * size).floor().max(0.0) as usize;
        let end = (((q + REACH * deviation) * size).ceil() as usize).clamp(first + 1, n);
        let mut weights: Vec<f64> = if n <= EXACT_UP_TO {
            let cumulative: Vec<f64> =
                (first..=end).map(|i| incomplete_beta(i as f64 / size, a, b)).collect();
            cumulative.windows(2).map(|pair| pair[1] - pair[0]).collect()
        } else {
            // Relative to the density at q: only ratios matter, the sum is set to one below.
            let (ln_q, ln_rest) = (q.ln(), (-q).ln_1p());
            let density = |x: f64| {
                if x <= 0.0 || x >= 1.0 {
                    return 0.0;
                }
                ((a - 1.0) * (x.ln() - ln_q) + (b - 1.0) * ((-x).ln_1p() - ln_rest)).exp()
            };
            let mut left = density(first as f64 / size);
            (first..end)
                .map(|i| {
                    let middle = density((i as f64 + 0.5) / size);
                    let right = density((i as f64 + 1.0) / size);
                    let area = left + 4.0 * middle + right;
                    left = right;
                    area
                })
                .collect()
        };
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        Self { q, first, weights }
    }

    /// The estimate from `sorted`, which has the `n` values these weights are for.
    pub(super) fn estimate(&self, sorted: &[f64]) -> f64 {
        // Around a value of the middle: a sample of equal values gives exactly that value.
        let values = &sorted[self.first..self.first + self.weights.len()];
        let centre = values[values.len() / 2];
        centre + values.iter().zip(&self.weights).map(|(x, w)| w * (x - centre)).sum::<f64>()
    }

    /// The distribution function of the weights: entry `k` is the weight of the `k` smallest values.
    pub(super) fn cumulative(&self, n: usize) -> Vec<f64> {
        let mut sum = 0.0;
        let mut cumulative = Vec::with_capacity(n + 1);
        cumulative.push(0.0);
        for i in 0..n {
            let weight = i.checked_sub(self.first).and_then(|i| self.weights.get(i));
            sum += weight.copied().unwrap_or(0.0);
            cumulative.push(sum);
        }
        cumulative
    }
}

/// The Harrell–Davis estimate of the `q` quantile (held between 0 and 1) of `sorted` (ascending).
/// Absent for an empty sample.
pub fn harrell_davis(sorted: &[f64], q: f64) -> Option<f64> {
    let (first, last) = (sorted.first()?, sorted.last()?);
    if q <= 0.0 || sorted.len() == 1 {
        return Some(*first);
    }
    if q >= 1.0 {
        return Some(*last);
    }
    Some(Weights::new(sorted.len(), q).estimate(sorted))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For n = 2 and the median the weights are ½ and ½; for n = 3 Beta(2, 2) gives 7/27, 13/27,
    /// 7/27 (from x²(3 − 2x) at ⅓ and ⅔).
    #[test]
    fn small_samples_by_hand() {
        assert_eq!(harrell_davis(&[], 0.5), None);
        assert_eq!(harrell_davis(&[4.0], 0.9), Some(4.0));
        assert!((harrell_davis(&[1.0, 3.0], 0.5).unwrap() - 2.0).abs() < 1e-12);
        let estimate = harrell_davis(&[0.0, 0.0, 27.0], 0.5).unwrap();
        assert!((estimate - 7.0).abs() < 1e-10, "{estimate}");
        let estimate = harrell_davis(&[0.0, 27.0, 27.0], 0.5).unwrap();
        assert!((estimate - 20.0).abs() < 1e-10, "{estimate}");
    }

    #[test]
    fn equal_values_are_their_own_quantile() {
        assert_eq!(harrell_davis(&[0.3; 100], 0.95), Some(0.3));
    }

    /// Both ways to weights agree where one takes over from the other.
    #[test]
    fn the_density_takes_over_smoothly() {
        for q in [0.5, 0.9, 0.99] {
            let n = EXACT_UP_TO;
            let normal_like = |n: usize| -> Vec<f64> {
                (0..n).map(|i| ((i as f64 + 0.5) / n as f64).powi(3)).collect()
            };
            let exact = Weights::new(n, q).estimate(&normal_like(n));
            let beyond = Weights::new(n + 1, q).estimate(&normal_like(n + 1));
            assert!((exact - beyond).abs() < 1e-5, "q = {q}: {exact} and {beyond}");
        }
    }

    #[test]
    fn of_a_uniform_grid_it_is_the_quantile() {
        let grid: Vec<f64> = (0..100_000).map(|i| (f64::from(i) + 0.5) / 100_000.0).collect();
        for q in [0.5, 0.75, 0.9, 0.95, 0.99] {
            assert!((harrell_davis(&grid, q).unwrap() - q).abs() < 1e-5);
        }
    }

    #[test]
    fn cumulative_weights_end_at_one() {
        for (n, q) in [(1, 0.5), (7, 0.9), (300, 0.99), (5_000, 0.5)] {
            let cumulative = Weights::new(n, q).cumulative(n);
            assert_eq!(cumulative.len(), n + 1);
            assert!((cumulative[n] - 1.0).abs() < 1e-12);
        }
    }
}
