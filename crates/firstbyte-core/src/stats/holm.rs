//! Several tests at once.

/// Holm's step-down adjustment (*A simple sequentially rejective multiple test procedure*, 1979).
///
/// If all adjusted values below 5 % are accepted as real, the chance that any of them is not is at most 5 %, whatever
/// the dependence between the tests. The order of the input is kept.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut so_far = 0.0f64;
    for (rank, index) in order.into_iter().enumerate() {
        so_far = so_far.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = so_far;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand; R's `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` gives the same.
    #[test]
    fn steps_down() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (a, b) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((a - b).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(holm(&[0.7, 0.6]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.02]), [0.02]);
    }
}
