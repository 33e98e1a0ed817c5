//! The change from one variant to another, measured in rounds, with its uncertainty.
//!
//! Input: both variants' values of the same rounds. Output: the median of the per-round relative
//! changes and the distribution-free interval for a median from order statistics (Conover,
//! Practical Nonparametric Statistics, §3.2): it assumes nothing about the distribution, only that
//! rounds are independent.

use super::{Interval, quantile};

/// A paired effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedEffect {
    /// Rounds in which both variants were measured.
    pub rounds: usize,
    /// Median over rounds of `(variant − base) / base`; −0.5 is "half as long".
    pub change: f64,
    /// Interval of `change` with a confidence of at least 95 %; absent below six rounds, which
    /// cannot give one.
    pub interval: Option<Interval>,
}

/// The relative change from `base` to `variant`, paired by round. Absent without a common round.
///
/// `base[i]` and `variant[i]` belong to the same round; a round that lacks either is left out by
/// the caller.
pub fn paired_median_change(base: &[f64], variant: &[f64]) -> Option<PairedEffect> {
    let mut changes: Vec<f64> =
        base.iter().zip(variant).filter(|(b, _)| **b > 0.0).map(|(b, v)| (v - b) / b).collect();
    changes.sort_by(f64::total_cmp);
    let change = quantile(&changes, 0.5)?;
    let interval = median_rank(changes.len())
        .map(|rank| Interval { low: changes[rank], high: changes[changes.len() - 1 - rank] });
    Some(PairedEffect { rounds: changes.len(), change, interval })
}

/// The largest `rank` (from 0) for which the order statistics `rank` and `n − 1 − rank` enclose
/// the median with at least 95 % confidence: `2·P(Binomial(n, ½) ≤ rank) ≤ 0.05`.
fn median_rank(n: usize) -> Option<usize> {
    let mut probability = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut tail = probability;
    let mut rank = None;
    for k in 0..n / 2 {
        if tail > 0.025 {
            break;
        }
        rank = Some(k);
        probability *= (n - k) as f64 / (k + 1) as f64;
        tail += probability;
    }
    // Beyond about a thousand values ½ⁿ underflows to zero; the normal limit serves there.
    if n > 1000 {
        let z_half_width = 1.96 * (n as f64).sqrt() / 2.0;
        rank = Some((n as f64 / 2.0 - z_half_width).floor().max(1.0) as usize - 1);
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_is_minus_fifty_percent() {
        let base = [100.0, 102.0, 98.0, 101.0, 99.0, 100.0, 103.0, 97.0];
        let half: Vec<f64> = base.iter().map(|b| b / 2.0).collect();
        let effect = paired_median_change(&base, &half).unwrap();
        assert_eq!(effect.change, -0.5);
        assert_eq!(effect.interval, Some(Interval { low: -0.5, high: -0.5 }));
    }

    #[test]
    fn too_few_rounds_promise_no_interval() {
        let effect = paired_median_change(&[1.0; 5], &[2.0; 5]).unwrap();
        assert_eq!((effect.rounds, effect.interval), (5, None));
        assert_eq!(paired_median_change(&[], &[]), None);
    }

    /// Ranks as tabulated (Conover, table A3): n, lower rank from 1.
    #[test]
    fn ranks_are_the_tabulated_ones() {
        for (n, rank) in [(6, 1), (9, 2), (12, 3), (20, 6), (40, 14), (100, 40), (1000, 469)] {
            assert_eq!(median_rank(n), Some(rank - 1), "n = {n}");
        }
        assert_eq!(median_rank(2000), Some(955));
        assert_eq!(median_rank(5), None);
    }
}
