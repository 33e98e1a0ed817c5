//! False alarms, coverage and power of the search, on series whose changes are known.
//!
//! `cargo test -p firstbyte-core --release -- --ignored --nocapture changes_table` prints the tables of
//! `docs/statistics.md`.

use super::*;

/// Noise of the days.
#[derive(Clone, Copy, Debug)]
pub(super) enum DayNoise {
    /// Independent, normal.
    Independent,
    /// AR(1).
    Lasting(f64),
    /// Half of the variance from an AR(1) state, half independent.
    Mixed(f64),
    /// Student's t with three degrees of freedom.
    HeavyTails,
    /// Three in a hundred days are six deviations late.
    Outliers,
    /// Exponentially distributed.
    Skewed,
}

const NOISES: [DayNoise; 8] = [
    DayNoise::Independent,
    DayNoise::Lasting(0.3),
    DayNoise::Lasting(0.5),
    DayNoise::Lasting(0.7),
    DayNoise::Mixed(0.8),
    DayNoise::HeavyTails,
    DayNoise::Outliers,
    DayNoise::Skewed,
];

fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

impl DayNoise {
    /// `n` values of unit variance.
    fn draw(self, n: usize, random: &mut fastrand::Rng) -> Vec<f64> {
        let series = |rho: f64, random: &mut fastrand::Rng| -> Vec<f64> {
            let mut state = normal(random);
            (0..n)
                .map(|_| {
                    let now = state;
                    state = rho * state + (1.0 - rho * rho).sqrt() * normal(random);
                    now
                })
                .collect()
        };
        match self {
            Self::Independent => series(0.0, random),
            Self::Lasting(rho) => series(rho, random),
            Self::Mixed(rho) => {
                let state = series(rho, random);
                state.into_iter().map(|s| 0.5_f64.sqrt() * (s + normal(random))).collect()
            }
            Self::HeavyTails => (0..n)
                .map(|_| {
                    let chi: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
                    // The variance of Student's t with three degrees of freedom is 3.
                    normal(random) / (chi / 3.0).sqrt() / 3.0_f64.sqrt()
                })
                .collect(),
            Self::Outliers => (0..n)
                .map(|_| normal(random) + if random.u8(0..100) < 3 { 6.0 } else { 0.0 })
                .collect(),
            Self::Skewed => (0..n).map(|_| -(1.0 - random.f64()).ln() - 1.0).collect(),
        }
    }
}

/// A series of days as in web analytics: weekends differ by three deviations and have half as many samples, and one
/// day in twenty is missing. `level` is added to each day, in deviations.
pub(super) fn series(
    n: usize,
    noise: DayNoise,
    level: impl Fn(usize) -> f64,
    random: &mut fastrand::Rng,
) -> Vec<SeriesPoint> {
    let drawn = noise.draw(n, random);
    let mut points = Vec::new();
    for (day, noise) in drawn.into_iter().enumerate() {
        if random.u8(0..20) == 0 {
            continue;
        }
        let weekend = day % 7 >= 5;
        points.push(SeriesPoint {
            slot: day as i64,
            value: 60.0 + level(day) + noise + if weekend { 3.0 } else { 0.0 },
            samples: Some((if weekend { 500.0 } else { 1000.0 }) * (0.8 + 0.4 * random.f64())),
        });
    }
    points
}

pub(super) fn settings(draws: usize) -> ChangeSettings {
    ChangeSettings { draws, ..ChangeSettings::DAILY }
}

fn false_alarms(n: usize, noise: DayNoise, runs: u32, draws: usize, seed: u64) -> f64 {
    let mut alarms = 0;
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(seed + u64::from(run));
        let points = series(n, noise, |_| 0.0, &mut random);
        let found = find_changes(&points, &settings(draws)).expect("long enough");
        alarms += u32::from(!found.changes.is_empty());
    }
    f64::from(alarms) / f64::from(runs)
}

/// Results of the search for a step.
#[derive(Default, Debug)]
struct Outcomes {
    runs: u32,
    /// Exactly one change, of the right sign and within 10 days.
    found: u32,
    at_once: u32,
    covered: u32,
    day_covered: u32,
    others: u32,
    width: f64,
}

fn steps(n: usize, noise: DayNoise, at: usize, size: f64, runs: u32, draws: usize) -> Outcomes {
    let mut all = Outcomes { runs, ..Outcomes::default() };
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(5_000_000 + u64::from(run));
        let points = series(n, noise, |day| if day >= at { size } else { 0.0 }, &mut random);
        let found = find_changes(&points, &settings(draws)).expect("long enough");
        let near = |change: &&LevelChange| {
            (change.form.begins() - at as i64).abs() <= 10 && change.difference * size > 0.0
        };
        let change = found.changes.iter().find(near);
        all.others += u32::from(found.changes.len() > 1);
        let Some(change) = change else { continue };
        all.found += 1;
        all.at_once += u32::from(change.pace == Pace::AtOnce);
        all.covered += u32::from(change.interval.low <= size && size <= change.interval.high);
        all.day_covered +=
            u32::from(change.between[0] <= at as i64 && at as i64 <= change.between[1]);
        all.width += change.interval.high - change.interval.low;
    }
    all
}

/// For series that drift: shares of results with a step, with a drift, with something unclear, without a change.
fn drifts(n: usize, noise: DayNoise, size: f64, runs: u32, draws: usize) -> [f64; 4] {
    let mut counts = [0u32; 4];
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(9_000_000 + u64::from(run));
        let points = series(n, noise, |day| size * day as f64 / n as f64, &mut random);
        let found = find_changes(&points, &settings(draws)).expect("long enough");
        let of = |pace| found.changes.iter().any(|change| change.pace == pace);
        let which = if of(Pace::AtOnce) {
            0
        } else if of(Pace::Slow) {
            1
        } else if of(Pace::Unclear) {
            2
        } else {
            3
        };
        counts[which] += 1;
    }
    counts.map(|count| f64::from(count) / f64::from(runs))
}

/// A small version that runs with the other tests: the tables use 2,000 series each.
#[test]
fn unchanged_series_have_no_changes() {
    for noise in [DayNoise::Independent, DayNoise::Lasting(0.5), DayNoise::Outliers] {
        let alarms = false_alarms(150, noise, 25, 99, 77);
        assert!(alarms <= 0.12, "{noise:?}: {alarms}");
    }
}

#[test]
fn a_step_is_found_where_it_is() {
    for noise in [DayNoise::Independent, DayNoise::Lasting(0.3), DayNoise::Skewed] {
        let all = steps(150, noise, 88, 3.0, 20, 199);
        assert!(
            all.found >= 18 && all.covered >= 16 && all.day_covered >= 16,
            "{noise:?}: {all:?}"
        );
        assert!(all.at_once * 2 >= all.found && all.others <= 4, "{noise:?}: {all:?}");
    }
}

#[test]
fn a_drift_is_no_step() {
    let [at_once, slow, ..] = drifts(150, DayNoise::Independent, 6.0, 15, 99);
    // One series in twenty-five has a step as well (docs/statistics.md), so one of 15 may.
    assert!(at_once < 0.07 && slow > 0.8, "{at_once} {slow}");
}

#[test]
fn a_change_that_is_undone_is_two() {
    let mut random = fastrand::Rng::with_seed(8);
    let level = |day| if (60..95).contains(&day) { 4.0 } else { 0.0 };
    let points = series(150, DayNoise::Independent, level, &mut random);
    let found = find_changes(&points, &settings(199)).unwrap();
    let days: Vec<i64> = found.changes.iter().map(|change| change.form.begins()).collect();
    assert_eq!(days.len(), 2, "{found:#?}");
    assert!((days[0] - 60).abs() <= 2 && (days[1] - 95).abs() <= 2, "{days:?}");
    assert!(found.changes[0].difference > 0.0 && found.changes[1].difference < 0.0);
}

#[test]
fn what_cannot_be_searched() {
    let point = |slot: i64, value| SeriesPoint { slot, value, samples: None };
    let flat: Vec<SeriesPoint> = (0..100).map(|slot| point(slot, 5.0)).collect();
    assert_eq!(find_changes(&flat, &ChangeSettings::DAILY), None);
    assert_eq!(find_changes(&flat[..20], &ChangeSettings::DAILY), None);
    let broken: Vec<SeriesPoint> = (0..100).map(|slot| point(slot, f64::NAN)).collect();
    assert_eq!(find_changes(&broken, &ChangeSettings::DAILY), None);
    let twice: Vec<SeriesPoint> = (0..100).map(|slot| point(slot / 2, slot as f64)).collect();
    assert_eq!(find_changes(&twice, &ChangeSettings::DAILY), None);
}

/// Only two values for a weekday, or a step without noise: found without dividing by zero.
#[test]
fn values_without_noise() {
    let points: Vec<SeriesPoint> = (0..100)
        .map(|slot| SeriesPoint { slot, value: if slot < 50 { 1.0 } else { 2.0 }, samples: None })
        .collect();
    if let Some(found) = find_changes(&points, &settings(99)) {
        assert!(found.changes.iter().all(|change| change.interval.low.is_finite()), "{found:?}");
        assert_eq!(found.changes[0].form, ChangeForm::Step { at: 50 });
    }
}

#[test]
#[ignore = "takes an hour: prints the tables of docs/statistics.md"]
#[allow(clippy::print_stdout, reason = "it is asked for by name")]
fn changes_table() {
    let percent = |share: u32, of: u32| 100.0 * f64::from(share) / f64::from(of.max(1));
    for noise in NOISES {
        let alarms = [60, 150, 365].map(|n| 100.0 * false_alarms(n, noise, 2_000, 499, 1));
        println!("{noise:?}: false alarms {alarms:.1?}");
        for size in [1.0, 2.0, 3.0] {
            let all = steps(150, noise, 88, size, 1_000, 499);
            println!(
                "  step {size}: found {:.1}, at once {:.1}, covered {:.1}, day {:.1}, more {:.1}, width {:.2}",
                percent(all.found, all.runs),
                percent(all.at_once, all.found),
                percent(all.covered, all.found),
                percent(all.day_covered, all.found),
                percent(all.others, all.runs),
                all.width / f64::from(all.found.max(1)),
            );
        }
        for size in [2.0, 4.0] {
            let shares = drifts(150, noise, size, 500, 499).map(|share| 100.0 * share);
            println!("  drift {size}: at once, slow, unclear, nothing {shares:.1?}");
        }
    }
}
