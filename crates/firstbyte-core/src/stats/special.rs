//! The few special functions that estimators and intervals need.

use std::f64::consts::PI;

/// ln Γ(x) for x > 0: Lanczos' approximation with g = 7 and nine coefficients (Press et al.,
/// *Numerical Recipes*, 3rd ed., §6.1, in Godfrey's form); relative error below 1e-13.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const C: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = C
        .iter()
        .enumerate()
        .fold(0.999_999_999_999_809_9, |sum, (i, c)| sum + c / (x + i as f64 + 1.0));
    let t = x + G + 0.5;
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + series.ln()
}

/// ln of the density of Beta(a, b) at x in (0, 1).
fn ln_beta_density(x: f64, a: f64, b: f64) -> f64 {
    ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + (a - 1.0) * x.ln() + (b - 1.0) * (-x).ln_1p()
}

/// The regularised incomplete beta function I_x(a, b): the distribution function of Beta(a, b).
///
/// Continued fraction 8.17.22 of the NIST *Digital Library of Mathematical Functions*, evaluated by
/// Lentz's method.
pub(super) fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast on this side of the mean; on the other use I_x(a,b) = 1 − I_1−x(b,a).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - lower_tail(1.0 - x, b, a);
    }
    lower_tail(x, a, b)
}

fn lower_tail(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let front = (ln_beta_density(x, a, b) + x.ln() + (-x).ln_1p()).exp() / a;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut c = 1.0;
    let mut fraction = d;
    // √max(a, b) terms are needed; 10,000 suffice for samples far beyond a million.
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (front * fraction).clamp(0.0, 1.0)
}

/// P(|T| ≥ t) of Student's t with `df` degrees of freedom (not necessarily an integer).
pub(super) fn student_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// The t with the probability `alpha` beyond ±t, for Student's t with `df` degrees of freedom.
pub(super) fn student_critical(alpha: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 2.0);
    while student_two_sided(high, df) > alpha && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if student_two_sided(middle, df) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not {b}");
    }

    #[test]
    fn ln_gamma_is_the_factorial() {
        close(ln_gamma(1.0), 0.0, 1e-13);
        close(ln_gamma(0.5), PI.sqrt().ln(), 1e-13);
        let ln_factorial: f64 = (1..=170).map(|i| f64::from(i).ln()).sum();
        close(ln_gamma(171.0), ln_factorial, 1e-10);
    }

    /// Closed forms: I_x(1, b) = 1 − (1−x)^b; I_x(a, 1) = x^a; I_x(2, 2) = x²(3 − 2x); and for integer a and b the
    /// binomial tail.
    #[test]
    fn incomplete_beta_has_its_closed_forms() {
        for x in [0.001, 0.1, 0.35, 0.5, 0.8, 0.99] {
            close(incomplete_beta(x, 1.0, 7.5), 1.0 - (1.0 - x).powf(7.5), 1e-13);
            close(incomplete_beta(x, 3.25, 1.0), x.powf(3.25), 1e-13);
            close(incomplete_beta(x, 2.0, 2.0), x * x * (3.0 - 2.0 * x), 1e-13);
            let binomial: f64 = (4..=10)
                .map(|k| {
                    let choose = (ln_gamma(11.0)
                        - ln_gamma(f64::from(k) + 1.0)
                        - ln_gamma(11.0 - f64::from(k)))
                    .exp();
                    choose * x.powi(k) * (1.0 - x).powi(10 - k)
                })
                .sum();
            close(incomplete_beta(x, 4.0, 7.0), binomial, 1e-12);
        }
        close(incomplete_beta(0.5, 50_000.5, 50_000.5), 0.5, 1e-10);
        assert_eq!(incomplete_beta(0.0, 2.0, 3.0), 0.0);
        assert_eq!(incomplete_beta(1.0, 2.0, 3.0), 1.0);
    }

    /// The usual table of Student's t, 95 % two-sided.
    #[test]
    fn student_is_the_tabulated_one() {
        for (df, t) in [(1.0, 12.706_2), (4.0, 2.776_4), (10.0, 2.228_1), (30.0, 2.042_3)] {
            close(student_critical(0.05, df), t, 5e-5);
        }
        close(student_critical(0.05, 1e7), 1.959_96, 1e-5);
        close(student_two_sided(0.0, 3.0), 1.0, 1e-12);
    }
}
