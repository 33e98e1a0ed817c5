//! Similarity of neighbouring rounds, and its effect on the precision of an average.
//!
//! Queues and routes change more slowly than rounds follow each other. So n such rounds are worth fewer independent
//! ones, and an interval that ignores this is too narrow.

use super::Spread;
use super::special::student_critical;

/// One minus the confidence of every interval; p-values below it count as significant.
pub const ALPHA: f64 = 0.05;

/// Largest autocorrelation that is corrected for. Beyond it, a few hundred rounds reveal too little about the long
/// run.
const MOST_CORRELATION: f64 = 0.95;

/// Length of the blocks of rounds that stay together, at least 1.
///
/// It is `2·n^(1/3)`, the rate that minimises the error of the block bootstrap's variance (Künsch 1989; Hall, Horowitz
/// and Jing 1995).
pub fn block_length(n: usize) -> usize {
    ((2.0 * (n as f64).cbrt()).round() as usize).clamp(1, n.max(1))
}

/// Correlation of each value with the next, for `values` in the order of rounds; `None` below three values or if all
/// are equal.
///
/// Values beyond three scaled MADs from the median count as three MADs away: a single outlier would otherwise hide the
/// correlation of all others.
pub fn lag1_autocorrelation(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    lag1_within(values, &Spread::from_sorted(&sorted)?)
}

/// [`lag1_autocorrelation`] for values whose spread is known.
pub(super) fn lag1_within(values: &[f64], spread: &Spread) -> Option<f64> {
    autocorrelation(values, spread, 1)
}

fn autocorrelation(values: &[f64], spread: &Spread, lag: usize) -> Option<f64> {
    if values.len() < lag + 2 {
        return None;
    }
    let reach = super::OUTLIER_MADS * spread.mad;
    let clipped = |x: f64| (x - spread.median).clamp(-reach, reach);
    let mean = values.iter().map(|x| clipped(*x)).sum::<f64>() / values.len() as f64;
    let centred = |x: &f64| clipped(*x) - mean;
    let variance: f64 = values.iter().map(|x| centred(x).powi(2)).sum();
    let covariance: f64 =
        values.iter().zip(&values[lag..]).map(|(x, later)| centred(x) * centred(later)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

/// The autocorrelation from which on it deserves a mention: beyond `1.96/√n` it exceeds chance (Bartlett 1946), and
/// below 0.1 it hardly matters for any interval.
pub fn notable_autocorrelation(n: usize) -> f64 {
    (1.96 / (n.max(1) as f64).sqrt()).max(0.1)
}

/// Factor ≥ 1 by which the block bootstrap underestimates the long-run standard error of a series ("recolouring",
/// after Andrews and Monahan 1992).
///
/// Blocks of length l only see correlations up to lag l, and those at lag k with the weight `1 − k/l`. For
/// geometrically decaying correlations, both the variance of the mean and the blocks' view of it have closed forms;
/// their ratio corrects the error. The model is a slow state of the path plus independent noise (ARMA(1,1)): the first
/// correlation gives the state's share of the variance, another one a third of a block later gives its decay.
pub(super) fn recolouring_of(values: &[f64], spread: &Spread, lag1: f64) -> f64 {
    let n = values.len();
    let block = block_length(n);
    // The decay cannot be estimated from chance correlations.
    if lag1 < notable_autocorrelation(n) {
        return recolouring(lag1, n);
    }
    let apart = (block / 3).max(1);
    let later = autocorrelation(values, spread, 1 + apart).map_or(0.0, |r| unbiased(r, n));
    let first = unbiased(lag1, n);
    let decay = (later.max(0.0) / first).powf(1.0 / apart as f64);
    shortfall(first, decay.clamp(first, MOST_CORRELATION), block)
}

/// Like [`recolouring_of`], for a series with only a known lag-1 autocorrelation, modelled as AR(1).
pub(super) fn recolouring(lag1: f64, n: usize) -> f64 {
    let rho = unbiased(lag1, n);
    shortfall(rho, rho, block_length(n))
}

/// An autocorrelation estimated from `n` values, corrected for its bias of `−(1 + 3r)/n` (Kendall 1954).
fn unbiased(r: f64, n: usize) -> f64 {
    (r + (1.0 + 3.0 * r) / n as f64).clamp(0.0, MOST_CORRELATION)
}

/// The factor for correlations `first · decay^(k−1)` at lag k.
fn shortfall(first: f64, decay: f64, block: usize) -> f64 {
    let length = block as f64;
    let whole = 1.0 + 2.0 * first / (1.0 - decay);
    let unseen = 2.0 * first * (1.0 - decay.powf(length)) / (length * (1.0 - decay).powi(2));
    (whole / (whole - unseen)).sqrt()
}

/// Number of standard errors on either side of an interval: Student's t with one degree of freedom per block.
///
/// The standard error is itself an estimate, from n/l blocks. Kiefer and Vogelsang (*A new asymptotic theory for
/// heteroskedasticity-autocorrelation robust tests*, 2005) derive the critical values for fixed l/n; Student's t stays
/// within 0.03 of them up to l/n = 0.14, and also has tails for p-values.
pub(super) fn critical(degrees: f64) -> f64 {
    student_critical(ALPHA, degrees)
}

/// Number of blocks among `n` rounds.
pub(super) fn blocks(n: usize) -> f64 {
    n as f64 / block_length(n) as f64
}

/// Long-run variance of `a`, of `b`, and their covariance: mean products of circular block sums, per value of a block.
/// `b` may be empty, for the variance of `a` alone.
///
/// This is the limit of the circular block bootstrap without drawing any sample (Politis and Romano 1992): its square
/// root over √n is the bootstrap's standard error of the mean.
pub(super) fn long_run_covariances(a: &[f64], b: &[f64], block: usize) -> [f64; 3] {
    let n = a.len();
    let length = block as f64;
    let expected = |x: &[f64]| x.iter().sum::<f64>() / n as f64 * length;
    let (mean_a, mean_b) = (expected(a), expected(b));
    let first = |x: &[f64]| x.iter().take(block).sum::<f64>();
    let (mut sum_a, mut sum_b) = (first(a), first(b));
    let mut totals = [0.0; 3];
    for leaving in 0..n {
        let entering = if leaving + block < n { leaving + block } else { leaving + block - n };
        let centred_a = sum_a - mean_a;
        totals[0] += centred_a * centred_a;
        sum_a += a[entering] - a[leaving];
        if !b.is_empty() {
            let centred_b = sum_b - mean_b;
            totals[1] += centred_b * centred_b;
            totals[2] += centred_a * centred_b;
            sum_b += b[entering] - b[leaving];
        }
    }
    totals.map(|total| total / (n as f64 * length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_cube_root() {
        assert_eq!([0, 1, 8, 20, 100, 1_000, 100_000].map(block_length), [1, 1, 4, 5, 9, 20, 93]);
    }

    #[test]
    fn alternation_and_trend_are_told_apart() {
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let trend: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(lag1_autocorrelation(&alternating).unwrap() < -0.9);
        assert!(lag1_autocorrelation(&trend).unwrap() > 0.9);
        assert_eq!(lag1_autocorrelation(&[3.0; 50]), None);
        assert_eq!(lag1_autocorrelation(&[1.0, 2.0]), None);
        assert_eq!(lag1_autocorrelation(&[]), None);
    }

    #[test]
    fn an_outlier_does_not_hide_correlation() {
        let mut values: Vec<f64> = (0..200).map(|i| (f64::from(i) / 10.0).sin()).collect();
        values[50] = 1e6;
        assert!(lag1_autocorrelation(&values).unwrap() > 0.8);
    }

    /// For independent noise it is the variance; for constant blocks, the variance times the block length.
    #[test]
    fn long_run_variance_counts_what_moves_together() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<f64> = (0..20_000).map(|_| random.f64()).collect();
        let runs: Vec<f64> = (0..20_000).map(|i| noise[i / 4]).collect();
        let of = |x: &[f64]| long_run_covariances(x, &[], 50)[0];
        assert!((of(&noise) * 12.0 - 1.0).abs() < 0.1, "{}", of(&noise));
        assert!((of(&runs) * 12.0 - 4.0).abs() < 0.6, "{}", of(&runs));
        let opposite: Vec<f64> = noise.iter().map(|x| 1.0 - x).collect();
        let [a, b, both] = long_run_covariances(&noise, &opposite, 50);
        assert!((a - b).abs() < 1e-9 && (a + both).abs() < 1e-9, "{a} {b} {both}");
    }

    #[test]
    fn recolouring_is_only_ever_wider() {
        assert_eq!(recolouring(-0.5, 100), 1.0);
        assert!(recolouring(0.0, 100) < 1.002);
        // 1 + ρ over 1 − ρ is 9; weighted to lag 12 it is 5.9.
        assert!((shortfall(0.8, 0.8, 12).powi(2) - 9.0 / 5.9).abs() < 0.02);
        assert!(recolouring(1.5, 20).is_finite());
    }

    #[test]
    fn critical_values_are_close_to_fixed_b_theory() {
        for share in [0.02f64, 0.05, 0.1, 0.14] {
            let fixed_b: f64 =
                1.96 + 2.9694 * share + 0.416 * share * share - 0.5324 * share.powi(3);
            assert!((critical(1.0 / share) - fixed_b).abs() < 0.04, "l/n = {share}");
        }
    }
}
