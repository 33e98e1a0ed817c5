//! Tests of intervals on simulated rounds with known effects, and laws of the analysis.
//!
//! `cargo test -p firstbyte-core --release -- --ignored --nocapture coverage_table` prints the table of
//! `docs/statistics.md`; it takes some minutes.

use proptest::prelude::*;

use super::effect::{Method, analyse};
use super::*;

/// Dependence of the noise in neighbouring rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// Independent.
    Independent,
    /// Shared by both cells, AR(1) with this coefficient; independent noise of each cell adds a third of the variance.
    Shared(f64),
    /// Separate for each cell, AR(1) with this coefficient.
    PerPath(f64),
    /// Separate for each cell: two levels that change every 25 rounds on average, as routes do, plus independent
    /// noise.
    ///
    /// This violates the assumptions of recolouring. Its quantiles are not [`true_difference`].
    Steps,
    /// Independent, with a tenth of the rounds four deviations late.
    Outliers,
}

fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// An AR(1) series of unit variance, in equilibrium from its first value on.
fn autoregressive(n: usize, rho: f64, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut next = normal(random);
    (0..n)
        .map(|_| {
            let now = next;
            next = rho * next + (1.0 - rho * rho).sqrt() * normal(random);
            now
        })
        .collect()
}

fn stepped(n: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut level = if random.bool() { 0.8 } else { -0.8 };
    (0..n)
        .map(|_| {
            level *= if random.u8(0..25) == 0 { -1.0 } else { 1.0 };
            0.6 * normal(random) + level
        })
        .collect()
}

fn with_outliers(n: usize, random: &mut fastrand::Rng) -> Vec<f64> {
    (0..n).map(|_| normal(random) + if random.u8(0..10) == 0 { 4.0 } else { 0.0 }).collect()
}

/// Converts a standard normal value to a skewed latency in milliseconds: 20 ms plus log-normal noise of 2 ms.
fn latency(z: f64) -> f64 {
    20.0 + 2.0 * (0.8 * z).exp()
}

/// Ratio of the variant's latencies to the base's.
const RATIO: f64 = 0.9;

/// A run of `n` rounds. Both cells' noise is exchangeable, so the median of the relative change is
/// exactly `RATIO − 1`, and the q quantiles differ by exactly `RATIO − 1` times the base's.
fn simulate(n: usize, noise: Noise, random: &mut fastrand::Rng) -> (Vec<f64>, Vec<f64>) {
    let mut series = |rho| autoregressive(n, rho, random);
    let (base, variant) = match noise {
        Noise::Independent => (series(0.0), series(0.0)),
        Noise::PerPath(rho) => (series(rho), series(rho)),
        Noise::Shared(rho) => {
            let (shared, base, variant) = (series(rho), series(0.0), series(0.0));
            let mix = |own: Vec<f64>| -> Vec<f64> {
                own.iter().zip(&shared).map(|(o, s)| 0.6 * o + 0.8 * s).collect()
            };
            (mix(base), mix(variant))
        }
        Noise::Steps => (stepped(n, random), stepped(n, random)),
        Noise::Outliers => (with_outliers(n, random), with_outliers(n, random)),
    };
    (
        base.into_iter().map(latency).collect(),
        variant.into_iter().map(|z| RATIO * latency(z)).collect(),
    )
}

fn true_difference(q: f64) -> f64 {
    let z = match q {
        0.5 => 0.0,
        0.75 => 0.674_490,
        0.9 => 1.281_552,
        0.95 => 1.644_854,
        _ => 2.326_348,
    };
    (RATIO - 1.0) * latency(z)
}

/// Shares of runs, and mean half-widths.
#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    /// Share of runs whose interval of the relative change covers the true one. It also equals one minus the share of
    /// false positives, because shifting all changes makes the true one zero.
    median: f64,
    /// The same share for the difference of each quantile; zero if the rounds support no interval.
    quantiles: [f64; 5],
    /// Mean half-widths of those intervals.
    widths: [f64; 5],
}

fn coverage(n: usize, noise: Noise, runs: u64, method: impl Fn(u64) -> Method) -> Coverage {
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut coverage = Coverage::default();
    let holds = |e: &Estimate, truth: f64| {
        e.interval.is_some_and(|i| i.low <= truth && truth <= i.high) as u64 as f64 / runs as f64
    };
    for run in 0..runs {
        let (base, variant) = simulate(n, noise, &mut random);
        let effect = analyse(&base, &variant, method(run)).unwrap();
        coverage.median += holds(&effect.relative.unwrap(), RATIO - 1.0);
        for (i, quantile) in effect.quantiles.iter().enumerate() {
            coverage.quantiles[i] += holds(&quantile.difference, true_difference(quantile.q));
            let width = quantile.difference.interval.map_or(0.0, |i| i.half_width());
            coverage.widths[i] += width / runs as f64;
        }
    }
    coverage
}

/// The usual comparison of two benchmarks: each cell is resampled separately, value by value.
fn unpaired_coverage(n: usize, noise: Noise, runs: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(n as u64);
    let mut held = 0;
    for _ in 0..runs {
        let (base, variant) = simulate(n, noise, &mut random);
        let mut resampled_median = |values: &[f64]| {
            let mut drawn: Vec<f64> = (0..n).map(|_| values[random.usize(0..n)]).collect();
            *drawn.select_nth_unstable_by(n / 2, f64::total_cmp).1
        };
        let mut draws: Vec<f64> =
            (0..200).map(|_| resampled_median(&variant) - resampled_median(&base)).collect();
        draws.sort_by(f64::total_cmp);
        let (low, high) = (quantile(&draws, 0.025).unwrap(), quantile(&draws, 0.975).unwrap());
        held += u32::from(low <= true_difference(0.5) && true_difference(0.5) <= high);
    }
    f64::from(held) / runs as f64
}

/// Few resamples keep this affordable without optimisation; the table below uses as many as real runs.
fn quick(seed: u64) -> Method {
    Method::Resampled { resamples: 200, seed }
}

/// With 800 runs, the standard error of a share near 0.95 is 0.8 percentage points.
#[test]
fn nominal_95_percent_are_95_percent() {
    for (noise, least) in
        [(Noise::Independent, 0.93), (Noise::Shared(0.8), 0.93), (Noise::PerPath(0.8), 0.88)]
    {
        let coverage = coverage(100, noise, 800, quick);
        assert!(coverage.median >= least, "{noise:?}: {coverage:?}");
        assert!(coverage.quantiles[..3].iter().all(|c| *c >= least), "{noise:?}: {coverage:?}");
        assert_eq!(coverage.quantiles[3..], [0.0, 0.0], "p95 needs 200 rounds");
        // Width alone is not enough: an interval that covers everything is useless.
        assert!(coverage.median <= 0.985, "{noise:?}: {coverage:?}");
    }
}

#[test]
fn unpaired_and_independent_resampling_would_not_be() {
    let coverage = unpaired_coverage(100, Noise::PerPath(0.8), 300);
    assert!((0.45..0.72).contains(&coverage), "{coverage}");
}

/// At the size where linearisation takes over from resampling, the two agree.
#[test]
fn linearisation_agrees_with_resampling() {
    for noise in [Noise::Independent, Noise::PerPath(0.8)] {
        let resampled = coverage(RESAMPLED_UP_TO, noise, 40, quick);
        let linearised = coverage(RESAMPLED_UP_TO, noise, 40, |_| Method::Linearised);
        for (i, q) in QUANTILES.iter().enumerate() {
            let ratio = linearised.widths[i] / resampled.widths[i];
            let tolerance = if *q > 0.98 { 0.35 } else { 0.15 };
            assert!((ratio - 1.0).abs() < tolerance, "{noise:?}, q = {q}: {ratio}");
        }
    }
}

#[test]
#[ignore = "minutes; prints the table of docs/statistics.md"]
fn coverage_table() {
    let noises = [
        Noise::Independent,
        Noise::Shared(0.8),
        Noise::PerPath(0.5),
        Noise::PerPath(0.8),
        Noise::Steps,
        Noise::Outliers,
    ];
    for noise in noises {
        println!("{noise:?}\nrounds | median p50 p75 p90 p95 p99 | unpaired");
        for n in [20, 50, 100, 200, 500, 1_000, 2_000, 5_000] {
            let c = coverage(n, noise, 2_000, |seed| Method::for_rounds(n, seed));
            let unpaired = unpaired_coverage(n, noise, if n <= 1_000 { 500 } else { 100 });
            let quantiles: Vec<String> = c.quantiles.iter().map(|c| format!("{c:.3}")).collect();
            println!("{n} | {:.3} {} | {unpaired:.2}", c.median, quantiles.join(" "));
        }
    }
    let n = RESAMPLED_UP_TO;
    let resampled = coverage(n, Noise::Independent, 400, |seed| Method::for_rounds(n, seed));
    let linearised = coverage(n, Noise::Independent, 400, |_| Method::Linearised);
    let ratios = linearised.widths.iter().zip(&resampled.widths).map(|(l, r)| l / r);
    println!("widths linearised to resampled, {n}: {:.2?}", ratios.collect::<Vec<f64>>());
}

/// Compares runs that continue until the interval is ±1 % of the median, checked every twenty rounds, with runs that
/// continue until it excludes zero: the first barely change coverage, the second do.
#[test]
fn stopping_on_precision_is_harmless_and_on_significance_is_not() {
    let mut random = fastrand::Rng::with_seed(12);
    let (runs, mut precise_holds, mut significant_holds) = (400, 0, 0);
    for _ in 0..runs {
        let (base, variant) = simulate(300, Noise::Shared(0.8), &mut random);
        let looks = (1..=15).map(|look| {
            let change = median_change(&base[..20 * look], &variant[..20 * look]).unwrap();
            (change.interval.unwrap(), change.reach().unwrap())
        });
        let holds = |i: &Interval| i.low <= RATIO - 1.0 && RATIO - 1.0 <= i.high;
        let all: Vec<(Interval, f64)> = looks.collect();
        let precise = all.iter().find(|(_, reach)| *reach <= 0.01).unwrap_or(&all[14]);
        precise_holds += usize::from(holds(&precise.0));
        significant_holds += usize::from(all.iter().all(|(interval, _)| holds(interval)));
    }
    let share = |held: usize| held as f64 / f64::from(runs);
    assert!(share(precise_holds) >= 0.92, "{}", share(precise_holds));
    assert!(share(significant_holds) <= 0.85, "{}", share(significant_holds));
}

/// Quantiles of one cell have intervals of the same kind.
#[test]
fn one_cells_quantiles_are_covered() {
    let mut random = fastrand::Rng::with_seed(13);
    for (n, q) in [(100, 0.75), (100, 0.9), (RESAMPLED_UP_TO + 1, 0.95)] {
        let runs = 200;
        let mut held = 0;
        for _ in 0..runs {
            let (base, _) = simulate(n, Noise::Independent, &mut random);
            let interval = quantile_estimate(&base, q).unwrap().interval.unwrap();
            let truth = true_difference(q) / (RATIO - 1.0);
            held += u64::from(interval.low <= truth && truth <= interval.high);
        }
        assert!(held * 100 >= runs * 91, "n = {n}, q = {q}: {held} of {runs}");
    }
    assert_eq!(quantile_estimate(&[], 0.5), None);
    assert_eq!(quantile_estimate(&[2.0; 50], 0.9).unwrap(), Estimate::alone(2.0));
}

/// Noise that violates the assumptions of recolouring; only the median's true value is known.
#[test]
fn other_noise_is_covered_too() {
    for (noise, least) in [(Noise::Steps, 0.89), (Noise::Outliers, 0.93)] {
        let coverage = coverage(200, noise, 400, |_| Method::Linearised);
        assert!(coverage.median >= least, "{noise:?}: {coverage:?}");
    }
}

#[test]
fn an_effect_is_found_where_there_is_one() {
    let mut random = fastrand::Rng::with_seed(11);
    let (base, variant) = simulate(100, Noise::Shared(0.8), &mut random);
    let effect = paired_effect(&base, &variant, 1).unwrap();
    let relative = effect.relative.unwrap();
    assert!((relative.value - (RATIO - 1.0)).abs() < 0.02, "{relative:?}");
    assert!(relative.interval.unwrap().excludes_zero() && relative.p_value.unwrap() < 0.001);
    assert!((effect.hodges_lehmann - effect.difference.value).abs() < 0.5);
    assert_eq!(effect, paired_effect(&base, &variant, 1).unwrap(), "the seed decides");
}

#[test]
fn what_rounds_do_not_support_is_absent() {
    let values: Vec<f64> = (0..FEWEST_ROUNDS - 1).map(|i| 1.0 + i as f64).collect();
    let effect = paired_effect(&values, &values, 1).unwrap();
    assert_eq!(effect.difference.interval, None);
    assert_eq!(effect.difference.p_value, None);
    assert!(effect.quantiles.iter().all(|q| q.difference.interval.is_none()));
    assert_eq!(paired_effect(&[], &[], 1), None);
    // A change relative to zero is undefined.
    assert_eq!(paired_effect(&[0.0, 1.0], &[1.0, 1.0], 1).unwrap().relative, None);
}

#[test]
fn equal_cells_have_no_difference_at_all() {
    let values: Vec<f64> = (0..100).map(|i| 1.0 + f64::from(i % 7)).collect();
    let effect = paired_effect(&values, &values, 1).unwrap();
    assert_eq!(effect.difference.interval, Some(Interval { low: 0.0, high: 0.0 }));
    assert_eq!(effect.difference.p_value, Some(1.0));
}

fn estimates(effect: &Effect) -> Vec<Estimate> {
    let mut all = vec![effect.difference];
    all.extend(effect.relative);
    all.extend(effect.quantiles.iter().map(|q| q.difference));
    all
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// Rounds of any shape: ties, outliers, steps.
fn any_rounds() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    let value = prop_oneof![(1u32..50).prop_map(f64::from), 1e-3..1e3f64, 1e6..1e9f64, Just(20.0),];
    proptest::collection::vec((value.clone(), value), 1..60)
        .prop_map(|rounds| rounds.into_iter().unzip())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_number_is_one_and_intervals_hold_their_estimates((base, variant) in any_rounds()) {
        for method in [quick(1), Method::Linearised] {
            let effect = analyse(&base, &variant, method).unwrap();
            prop_assert!(effect.hodges_lehmann.is_finite());
            for estimate in estimates(&effect) {
                prop_assert!(estimate.value.is_finite());
                let (Some(interval), Some(p)) = (estimate.interval, estimate.p_value) else {
                    prop_assert!(estimate.interval.is_none() && estimate.p_value.is_none());
                    continue;
                };
                prop_assert!(interval.low <= estimate.value && estimate.value <= interval.high);
                prop_assert!((0.0..=1.0).contains(&p));
                prop_assert_eq!(p < 0.05, interval.excludes_zero());
            }
        }
    }

    #[test]
    fn the_unit_does_not_matter((base, variant) in any_rounds(), power in -20i32..20) {
        let scale = 2f64.powi(power);
        let scaled = |values: &[f64]| -> Vec<f64> { values.iter().map(|x| x * scale).collect() };
        let one = analyse(&base, &variant, quick(2)).unwrap();
        let other = analyse(&scaled(&base), &scaled(&variant), quick(2)).unwrap();
        prop_assert_eq!(one.relative, other.relative);
        prop_assert_eq!(one.hodges_lehmann * scale, other.hodges_lehmann);
        for (a, b) in estimates(&one).into_iter().zip(estimates(&other)).skip(2) {
            prop_assert!(close(a.value * scale, b.value));
        }
    }

    #[test]
    fn what_both_cells_pay_cancels((base, variant) in any_rounds()) {
        // Use integers, so that addition is exact.
        let whole = |values: &[f64]| -> Vec<f64> { values.iter().map(|x| x.round()).collect() };
        let shifted = |values: &[f64]| -> Vec<f64> { values.iter().map(|x| x + 4096.0).collect() };
        let (base, variant) = (whole(&base), whole(&variant));
        let one = analyse(&base, &variant, quick(3)).unwrap();
        let other = analyse(&shifted(&base), &shifted(&variant), quick(3)).unwrap();
        prop_assert_eq!(one.difference, other.difference);
        prop_assert_eq!(one.hodges_lehmann, other.hodges_lehmann);
        for (a, b) in one.quantiles.iter().zip(&other.quantiles) {
            let size = 1e-9 * (a.base.abs() + a.variant.abs() + 4096.0);
            prop_assert!((a.difference.value - b.difference.value).abs() <= size);
        }
    }

    #[test]
    fn the_other_way_round_it_is_the_opposite((base, variant) in any_rounds()) {
        for method in [quick(4), Method::Linearised] {
                let there = analyse(&base, &variant, method).unwrap();
            let back = analyse(&variant, &base, method).unwrap();
            prop_assert!(close(there.hodges_lehmann, -back.hodges_lehmann));
            let pairs = |effect: &Effect| {
                let mut all = vec![effect.difference];
                all.extend(effect.quantiles.iter().map(|q| q.difference));
                all
            };
            for (a, b) in pairs(&there).into_iter().zip(pairs(&back)) {
                prop_assert!(close(a.value, -b.value));
                prop_assert_eq!(a.interval.is_some(), b.interval.is_some());
                if let (Some(a), Some(b)) = (a.interval, b.interval) {
                    prop_assert!(close(a.low, -b.high) && close(a.high, -b.low));
                }
            }
        }
    }

    #[test]
    fn the_order_of_rounds_moves_no_estimate((base, variant) in any_rounds(), seed in any::<u64>()) {
        let mut order: Vec<usize> = (0..base.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let shuffled = |values: &[f64]| -> Vec<f64> { order.iter().map(|i| values[*i]).collect() };
        let one = analyse(&base, &variant, quick(5)).unwrap();
        let other = analyse(&shuffled(&base), &shuffled(&variant), quick(5)).unwrap();
        prop_assert_eq!(one.hodges_lehmann, other.hodges_lehmann);
        for (a, b) in estimates(&one).into_iter().zip(estimates(&other)) {
            prop_assert_eq!(a.value, b.value);
        }
    }
}

/// Reads of times by a clock with this resolution; times begin and end anywhere within a step.
fn read_in_steps(times: &[f64], step: f64, random: &mut fastrand::Rng) -> Vec<f64> {
    let read = |time: &f64| {
        let begin = random.f64() * step;
        ((begin + time) / step).floor() * step
    };
    times.iter().map(read).collect()
}

#[test]
fn steps_of_clocks_are_in_every_interval() {
    let mut random = fastrand::Rng::with_seed(5);
    for (base_step, variant_step) in [(1.0, 1.0), (0.1, 1.0), (5.0, 0.0)] {
        let times = |around: f64, random: &mut fastrand::Rng| -> Vec<f64> {
            (0..60).map(|_| around + random.f64() * 3.0).collect()
        };
        let base = times(40.0, &mut random);
        let variant = times(41.0, &mut random);
        let mut read = |times: &[f64], step: f64| match step > 0.0 {
            true => read_in_steps(times, step, &mut random),
            false => times.to_vec(),
        };
        let (base_read, variant_read) = (read(&base, base_step), read(&variant, variant_step));
        let steps = ClockSteps { base: base_step, variant: variant_step };
        let effect = paired_effect_in_steps(&base_read, &variant_read, steps, 1).unwrap();
        let holds = |estimate: &Estimate, truth: f64| {
            let Interval { low, high } = estimate.interval.unwrap();
            assert!(low <= truth && truth <= high, "{truth}: {estimate:?}, {steps:?}");
        };
        let truth = paired_effect(&base, &variant, 1).unwrap();
        holds(&effect.difference, truth.difference.value);
        holds(effect.relative.as_ref().unwrap(), truth.relative.unwrap().value);
        for (found, truth) in effect.quantiles.iter().zip(&truth.quantiles) {
            if found.difference.interval.is_some() {
                holds(&found.difference, truth.difference.value);
            }
        }
        let half = effect.difference.interval.unwrap().half_width();
        assert!(half >= steps.of_difference(), "{half}");
        assert!(effect.relative_steps >= steps.of_difference() / 44.0);
    }
}

#[test]
fn without_steps_nothing_changes_and_a_base_within_its_step_has_no_relative_change() {
    let values: Vec<f64> = (0..100).map(|i| 1.0 + f64::from(i % 7)).collect();
    let without = paired_effect(&values, &values, 1);
    let none = ClockSteps::default();
    assert_eq!(paired_effect_in_steps(&values, &values, none, 1), without);
    let steps = ClockSteps { base: 1.0, variant: 0.0 };
    let effect = paired_effect_in_steps(&values, &values, steps, 1).unwrap();
    assert_eq!((effect.relative, effect.hodges_lehmann_relative), (None, None));
    assert_eq!(effect.difference.interval, Some(Interval { low: -1.0, high: 1.0 }));
}
