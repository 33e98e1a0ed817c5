//! Quantiles of a sample.

/// The `q` quantile of `sorted` (ascending), by linear interpolation between order statistics:
/// definition 7 of Hyndman and Fan 1996, the default of R and NumPy. Absent for an empty sample.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let fraction = position - below as f64;
    Some(sorted[below] + (sorted[above] - sorted[below]) * fraction)
}

/// The least of `sorted` (ascending) that at least so many percent do not exceed: definition 1 of Hyndman
/// and Fan, which is how a distribution is drawn step by step. Absent for an empty sample.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The median of `values`, which need not be sorted.
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
    fn interpolates_as_numpy_does() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile(&sorted, 0.5), Some(2.5));
        assert_eq!(quantile(&sorted, 0.9), Some(3.7));
        assert_eq!(quantile(&sorted, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
    }
}
