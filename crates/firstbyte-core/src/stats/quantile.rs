//! Quantiles of a sample: measured values, not mixtures of them.
//!
//! A mean of order statistics (Harrell and Davis 1982, or definition 7 of Hyndman and Fan 1996) lets the largest value
//! influence percentiles below it: 59 times 20 ms and once 30 s give a p95 of 2.2 s that nobody has waited for.

/// Indices, from 0, of the order statistics of `n` ≥ 1 values whose mean is the `q` quantile: the same one twice, or
/// the two in the middle for the median of an even number.
pub(super) fn places(n: usize, q: f64) -> (usize, usize) {
    if (q - 0.5).abs() < 1e-9 {
        return ((n - 1) / 2, n / 2);
    }
    // 0.07 × 1,000 is more than 70 in floating point.
    let rank = (n as f64 * q - 1e-9 * n as f64).ceil().max(1.0) as usize;
    let place = rank.min(n) - 1;
    (place, place)
}

/// The `q` quantile of `sorted` (ascending), or `None` for an empty sample.
///
/// The median is the value in the middle, or midway between the two there. Any other quantile is the smallest value
/// that at least the share `q` does not exceed (definition 1 of Hyndman and Fan).
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let (low, high) = places(sorted.len(), q.clamp(0.0, 1.0));
    Some(midway(*sorted.get(low)?, *sorted.get(high)?))
}

/// The midpoint, exact for equal values.
pub(super) fn midway(a: f64, b: f64) -> f64 {
    a + (b - a) / 2.0
}

/// The smallest of `sorted` (ascending) that at least `percent` percent do not exceed, or `None` for an empty sample.
///
/// This is definition 1 of Hyndman and Fan, also for the median if it must be a measured value.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The median of `values`, in any order.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        for (n, half) in [(1, 1), (2, 1), (5, 3), (10, 5), (100, 50), (101, 51), (1_000, 500)] {
            let sorted: Vec<u64> = (1..=n).collect();
            assert_eq!(percentile(&sorted, 50), Some(half), "of {n}");
            assert_eq!([0, 100].map(|p| percentile(&sorted, p)), [Some(1), Some(n)]);
        }
        // 0.07 × 1,000 is more than 70 in floating point.
        let sorted: Vec<u64> = (1..=1_000).collect();
        assert!((0..=100).all(|p| percentile(&sorted, p) == Some(p as u64 * 10).max(Some(1))));
        assert_eq!(percentile::<u64>(&[], 50), None);
    }

    #[test]
    fn both_definitions_are_one_but_for_the_median() {
        for n in [1, 2, 3, 7, 10, 20, 59, 60, 100, 1_000, 12_345] {
            let sorted: Vec<f64> = (0..n).map(f64::from).collect();
            for percent in (0..=100).filter(|percent| *percent != 50) {
                let found = quantile(&sorted, percent as f64 / 100.0);
                assert_eq!(found, percentile(&sorted, percent), "p{percent} of {n}");
            }
        }
    }

    #[test]
    fn one_late_value_is_nobodys_percentile() {
        let mut sorted = vec![20.0; 59];
        sorted.push(30_000.0);
        assert_eq!(
            [0.9, 0.95, 1.0].map(|q| quantile(&sorted, q)),
            [20.0, 20.0, 30_000.0].map(Some)
        );
        let mut sorted = vec![20.0; 99];
        sorted.push(30_000.0);
        assert_eq!(quantile(&sorted, 0.99), Some(20.0));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), Some(2.5));
        assert_eq!(quantile(&sorted, 0.9), Some(4.0));
        assert_eq!(quantile(&sorted, 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
    }
}
