//! Rounds whose true effects are known.

use super::effect::{Method, analyse};
use super::*;

/// How the noise of neighbouring rounds hangs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Noise {
    /// Independent.
    Independent,
    /// AR(1) with this coefficient, the same for both cells, plus independent noise of each.
    Shared(f64),
    /// AR(1) with this coefficient, of each cell by itself.
    PerPath(f64),
}

/// Standard normal values.
pub(super) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// An AR(1) series of unit variance, in equilibrium from its first value on.
pub(super) fn autoregressive(n: usize, rho: f64, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut last = normal(random);
    (0..n)
        .map(|_| {
            let now = last;
            last = rho * last + (1.0 - rho * rho).sqrt() * normal(random);
            now
        })
        .collect()
}
pub(super) fn pair(n: usize, noise: Noise, random: &mut fastrand::Rng) -> (Vec<f64>, Vec<f64>) {
    let mut z = |rho: f64| autoregressive(n, rho, random);
    let (b, v) = match noise {
        Noise::Independent => (z(0.0), z(0.0)),
        Noise::PerPath(rho) => (z(rho), z(rho)),
        Noise::Shared(rho) => {
            let shared = z(rho);
            let own = (z(0.0), z(0.0));
            let mix = |own: Vec<f64>| {
                own.iter().zip(&shared).map(|(o, s)| 0.8 * s + 0.6 * o).collect::<Vec<f64>>()
            };
            (mix(own.0), mix(own.1))
        }
    };
    let latency =
        |z: Vec<f64>| z.into_iter().map(|z| 20.0 * (1.0 + 0.1 * (0.8 * z).exp())).collect();
    (latency(b), latency(v))
}

#[test]
#[ignore]
fn experiment() {
    for noise in [Noise::Independent, Noise::Shared(0.8), Noise::PerPath(0.8)] {
        for n in [20, 50, 100, 200, 500, 1000] {
            let runs = if n == 1000 { 1000 } else { 2000 };
            let mut cache = WeightCache::default();
            let mut hit = [[0; 6]; 2];
            let mut width = [[0.0; 6]; 2];
            let mut random = fastrand::Rng::with_seed(7);
            for run in 0..runs {
                let (b, v) = pair(n, noise, &mut random);
                for (k, method) in
                    [Method::Resampled { resamples: 400, seed: run }, Method::Linearised]
                        .into_iter()
                        .enumerate()
                {
                    let e = analyse(&b, &v, method, &mut cache).unwrap();
                    let mut note = |i: usize, e: &Estimate, sd: f64| {
                        if let Some(x) = e.interval {
                            hit[k][i] += usize::from(x.low <= 0.0 && 0.0 <= x.high);
                            width[k][i] += x.half_width() / sd / runs as f64;
                        }
                    };
                    note(0, &e.difference, 1.0);
                    for (i, q) in e.quantiles.iter().enumerate() {
                        note(i + 1, &q.difference, 1.0);
                    }
                }
            }
            for k in 0..2 {
                print!("{noise:?} n={n} {}: ", ["boot", "lin "][k]);
                for i in 0..6 {
                    print!(" {:.3}({:.3})", hit[k][i] as f64 / runs as f64, width[k][i]);
                }
                println!();
            }
        }
    }
}

#[test]
#[ignore = "timing"]
fn timing() {
    for n in std::env::var("N").unwrap().split(',').map(|n| n.parse().unwrap()) {
        let mut random = fastrand::Rng::with_seed(7);
        let (b, v) = pair(n, Noise::Shared(0.8), &mut random);
        let mut cache = WeightCache::default();
        for _ in 0..110 {
            paired_effect_with(&b, &v, 1, &mut cache).unwrap();
        }
    }
}
