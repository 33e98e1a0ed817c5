//! Upper tail of the binomial distribution.

/// The probability of `least` or more successes in `n` trials that each succeed with probability `share`. Returns 1 if
/// `least` is at or below the expected number.
pub(crate) fn at_least(least: u64, n: u64, share: f64) -> f64 {
    if least as f64 <= share * n as f64 {
        return 1.0;
    }
    if share <= 0.0 || least > n {
        return 0.0;
    }
    // Use logarithms, because the first term may be too small for an `f64`. The other terms follow from it.
    let rest = n - least;
    let ways: f64 =
        (1..=least.min(rest)).map(|i| ((n - least.min(rest) + i) as f64 / i as f64).ln()).sum();
    let first = ways + least as f64 * share.ln() + rest as f64 * (-share).ln_1p();
    let (mut term, mut sum) = (1.0, 1.0);
    for count in least..n {
        term *= (n - count) as f64 / (count + 1) as f64 * share / (1.0 - share);
        sum += term;
        if term < 1e-17 * sum {
            break;
        }
    }
    (first.exp() * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::at_least;

    #[test]
    fn it_is_the_sum_of_all_that_may_come() {
        for (n, share) in [(1, 0.3_f64), (7, 0.2), (30, 0.05), (60, 0.5)] {
            let mut term = (1.0 - share).powi(n as i32);
            let mut below = 0.0;
            for least in 0..=n {
                let told = at_least(least, n, share);
                if least as f64 > share * n as f64 {
                    assert!((told - (1.0 - below)).abs() < 1e-9, "{least} of {n}: {told}");
                }
                below += term;
                term *= (n - least) as f64 / (least + 1) as f64 * share / (1.0 - share);
            }
        }
    }

    #[test]
    fn many_are_no_trouble() {
        // Ten standard deviations above the mean, and one.
        assert!(at_least(51_000, 1_000_000, 0.05) < 1e-5);
        let one = at_least(50_218, 1_000_000, 0.05);
        assert!((one - 0.159).abs() < 0.003, "{one}");
        assert_eq!(at_least(3, 10, 0.0), 0.0);
        assert_eq!(at_least(11, 10, 0.5), 0.0);
        assert_eq!(at_least(10, 10, 1.0), 1.0);
    }
}
