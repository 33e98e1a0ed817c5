//! The Hodges–Lehmann estimate: the median of the means of all pairs (Walsh averages).
//!
//! Hodges and Lehmann, *Estimates of location based on rank tests* (1963). If differences are symmetric it estimates
//! their centre with 95 % of the mean's efficiency, compared with the median's 64 %; if they are not, it and the
//! median differ, which is why both are shown.

/// Largest sample for which all pairs count.
///
/// A larger sample is first reduced to this many means of neighbouring order statistics: the reduction moves each
/// Walsh average by less than the distance between neighbouring groups, which is far below the estimate's own
/// uncertainty (tested).
const ALL_PAIRS_UP_TO: usize = 4_096;

/// The Hodges–Lehmann estimate of `sorted` (ascending). `None` for an empty sample.
pub fn hodges_lehmann(sorted: &[f64]) -> Option<f64> {
    if sorted.len() <= ALL_PAIRS_UP_TO {
        return median_of_walsh_averages(sorted);
    }
    let n = sorted.len();
    let reduced: Vec<f64> = (0..ALL_PAIRS_UP_TO)
        .map(|i| {
            let group = &sorted[i * n / ALL_PAIRS_UP_TO..(i + 1) * n / ALL_PAIRS_UP_TO];
            // Relative to the first value, so that the mean of equal values is exact.
            group[0] + group.iter().map(|x| x - group[0]).sum::<f64>() / group.len() as f64
        })
        .collect();
    median_of_walsh_averages(&reduced)
}

/// The median of `(x[i] + x[j]) / 2` over i ≤ j, without storing the averages.
///
/// Row i of the triangle is ascending, so a staircase counts the averages below a pivot in linear time. The pivot is
/// the weighted median of the middles of the rows' remaining parts (Johnson and Mizoguchi 1978): each step discards a
/// quarter or more of the rest.
fn median_of_walsh_averages(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let pairs = n.checked_mul(n + 1)? / 2;
    match pairs {
        0 => None,
        _ if pairs % 2 == 1 => Some(select_walsh(sorted, pairs / 2)),
        _ => {
            let (low, high) =
                (select_walsh(sorted, pairs / 2 - 1), select_walsh(sorted, pairs / 2));
            Some(low + (high - low) / 2.0)
        }
    }
}

/// The Walsh average of rank `rank` (from 0).
fn select_walsh(sorted: &[f64], rank: usize) -> f64 {
    let n = sorted.len();
    let average = |i: usize, j: usize| sorted[i] + (sorted[j] - sorted[i]) / 2.0;
    // The remaining candidates in row i are the columns low[i]..high[i].
    let mut low: Vec<usize> = (0..n).collect();
    let mut high = vec![n; n];
    let mut below = 0;
    let mut middles: Vec<(f64, usize)> = Vec::with_capacity(n);
    loop {
        middles.clear();
        for i in 0..n {
            if low[i] < high[i] {
                let width = high[i] - low[i];
                middles.push((average(i, low[i] + (width - 1) / 2), width));
            }
        }
        let left: usize = middles.iter().map(|(_, width)| width).sum();
        if left <= n.max(16) {
            let mut rest: Vec<f64> =
                (0..n).flat_map(|i| (low[i]..high[i]).map(move |j| average(i, j))).collect();
            let (_, value, _) = rest.select_nth_unstable_by(rank - below, f64::total_cmp);
            return *value;
        }
        let pivot = weighted_median(&mut middles, left);
        // Columns of each row that are below, and not above, the pivot. Both ends move left in lower rows.
        let (mut less, mut not_more) = (n, n);
        let (mut count_less, mut count_not_more) = (0, 0);
        let mut ends = Vec::with_capacity(n);
        for i in 0..n {
            while less > i && average(i, less - 1) >= pivot {
                less -= 1;
            }
            while not_more > i && average(i, not_more - 1) > pivot {
                not_more -= 1;
            }
            let (row_less, row_not_more) = (less.max(i), not_more.max(i));
            count_less += row_less - i;
            count_not_more += row_not_more - i;
            ends.push((row_less, row_not_more));
        }
        if rank < count_less {
            for (i, (row_less, _)) in ends.into_iter().enumerate() {
                high[i] = high[i].min(row_less);
            }
        } else if rank >= count_not_more {
            for (i, (_, row_not_more)) in ends.into_iter().enumerate() {
                low[i] = low[i].max(row_not_more);
            }
        } else {
            return pivot;
        }
        below = (0..n).map(|i| low[i] - i).sum();
    }
}

/// The value at which half of the total weight is reached.
fn weighted_median(values: &mut [(f64, usize)], total: usize) -> f64 {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut weight = 0;
    for (value, w) in values.iter() {
        weight += w;
        if 2 * weight >= total {
            return *value;
        }
    }
    values[values.len() - 1].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    fn by_hand(values: &[f64]) -> f64 {
        let averages: Vec<f64> = (0..values.len())
            .flat_map(|i| (i..values.len()).map(move |j| (i, j)))
            .map(|(i, j)| values[i] + (values[j] - values[i]) / 2.0)
            .collect();
        median(&averages).unwrap()
    }

    #[test]
    fn is_the_median_of_all_walsh_averages() {
        let mut random = fastrand::Rng::with_seed(3);
        for n in 1..=60 {
            for ties in [false, true] {
                let mut values: Vec<f64> = (0..n)
                    .map(|_| if ties { f64::from(random.u8(0..4)) } else { random.f64().powi(3) })
                    .collect();
                values.sort_by(f64::total_cmp);
                let estimate = hodges_lehmann(&values).unwrap();
                assert!((estimate - by_hand(&values)).abs() < 1e-12, "n = {n}: {values:?}");
            }
        }
        assert_eq!(hodges_lehmann(&[]), None);
    }

    #[test]
    fn reduction_moves_it_by_a_fiftieth_of_its_standard_error_at_most() {
        let mut random = fastrand::Rng::with_seed(4);
        let mut values: Vec<f64> = (0..9_000).map(|_| -random.f64().ln()).collect();
        values.sort_by(f64::total_cmp);
        let standard_error = 1.0 / 9_000f64.sqrt();
        let (reduced, all) =
            (hodges_lehmann(&values).unwrap(), median_of_walsh_averages(&values).unwrap());
        assert!((reduced - all).abs() < 0.02 * standard_error, "{reduced} and {all}");
    }
}
