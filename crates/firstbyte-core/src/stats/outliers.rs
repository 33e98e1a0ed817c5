//! Values far from the rest: flagged and counted, never left out.

use super::quantile;

/// For normal noise, the standard deviation is this multiple of the median absolute deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// Number of scaled MADs from the median beyond which a value is flagged (Leys et al., *Detecting outliers*, J. Exp.
/// Soc. Psych. 49, 2013, "very conservative"); with normal noise 1 in 370.
pub const OUTLIER_MADS: f64 = 3.0;

/// Median and scaled median absolute deviation of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Median absolute deviation times 1.4826; zero if more than half of the values are equal.
    pub mad: f64,
}

impl Spread {
    /// Computes the spread of `sorted` (ascending). `None` for an empty sample.
    pub fn from_sorted(sorted: &[f64]) -> Option<Self> {
        let median = quantile(sorted, 0.5)?;
        // Deviations grow on both sides of the median: merging the sides sorts them.
        let split = sorted.partition_point(|x| *x < median);
        let (mut left, mut right) = (split, split);
        let mut next = || {
            let below = left.checked_sub(1).map(|i| median - sorted[i]);
            let above = sorted.get(right).map(|x| x - median);
            match (below, above) {
                (Some(b), a) if a.is_none_or(|a| b < a) => {
                    left -= 1;
                    b
                }
                (_, Some(a)) => {
                    right += 1;
                    a
                }
                (_, None) => 0.0,
            }
        };
        let n = sorted.len();
        let mut deviation = 0.0;
        for _ in 0..n.div_ceil(2) {
            deviation = next();
        }
        if n.is_multiple_of(2) {
            deviation += (next() - deviation) / 2.0;
        }
        Some(Self { median, mad: MAD_TO_SIGMA * deviation })
    }

    /// Whether `value` is flagged. With a MAD of zero the scale is unknown, so nothing is flagged: flagging every
    /// value that differs would flag up to half of the sample.
    pub fn flags(&self, value: f64) -> bool {
        self.mad > 0.0 && (value - self.median).abs() > OUTLIER_MADS * self.mad
    }

    /// Number of flagged values in `sorted`.
    pub fn count(&self, sorted: &[f64]) -> usize {
        sorted.iter().filter(|x| self.flags(**x)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_taken_in_order() {
        // Deviations from 3: 2, 1, 0, 1, 97 → median 1.
        let spread = Spread::from_sorted(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert_eq!((spread.median, spread.mad), (3.0, 1.4826));
        assert_eq!(spread.count(&[1.0, 2.0, 3.0, 4.0, 100.0]), 1);
        // Deviations from 2.5: 1.5, 0.5, 0.5, 1.5 → median 1.
        assert_eq!(Spread::from_sorted(&[1.0, 2.0, 3.0, 4.0]).unwrap().mad, 1.4826);
        assert_eq!(Spread::from_sorted(&[]), None);
    }

    #[test]
    fn without_spread_nothing_is_flagged() {
        let sorted = [5.0, 5.0, 5.0, 5.0, 90.0];
        let spread = Spread::from_sorted(&sorted).unwrap();
        assert_eq!((spread.mad, spread.count(&sorted)), (0.0, 0));
        assert!(!Spread::from_sorted(&[7.0]).unwrap().flags(7.0));
    }

    #[test]
    fn agrees_with_sorting_the_deviations() {
        let mut random = fastrand::Rng::with_seed(8);
        for n in 1..100 {
            let mut values: Vec<f64> = (0..n).map(|_| random.f64().powi(2)).collect();
            values.sort_by(f64::total_cmp);
            let median = quantile(&values, 0.5).unwrap();
            let deviations: Vec<f64> = values.iter().map(|x| (x - median).abs()).collect();
            let expected = MAD_TO_SIGMA * crate::stats::median(&deviations).unwrap();
            assert!(
                (Spread::from_sorted(&values).unwrap().mad - expected).abs() < 1e-12,
                "n = {n}"
            );
        }
    }
}
