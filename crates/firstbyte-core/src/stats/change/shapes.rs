//! Whether the search recognises the shape of a series: simulated series of eight shapes, and how often the answer is
//! right.
//!
//! These commands check and print the rates of 208 series, and those of `docs/statistics.md`, from 200 of each shape:
//!
//!     cargo test -p firstbyte-core --lib shapes_of_208 -- --ignored --nocapture
//!     cargo test -p firstbyte-core --lib --release every_shape_at_length -- --ignored --nocapture

use super::simulated::{DayNoise, series, settings};
use super::*;

/// Shape of a series of 200 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    NoChange,
    OneStep,
    TwoStepsAlike,
    TwoStepsOpposite,
    SlowDrift,
    DriftAndStep,
    OutlierDays,
    WeeklyPattern,
}

const DAYS: usize = 200;

impl Shape {
    const ALL: [Self; 8] = [
        Self::NoChange,
        Self::OneStep,
        Self::TwoStepsAlike,
        Self::TwoStepsOpposite,
        Self::SlowDrift,
        Self::DriftAndStep,
        Self::OutlierDays,
        Self::WeeklyPattern,
    ];

    /// Offset of `day`, in standard deviations of a day; a step has 3.
    fn level(self, day: usize) -> f64 {
        let step = |at: usize| if day >= at { 3.0 } else { 0.0 };
        match self {
            Self::NoChange => 0.0,
            Self::OneStep => step(90),
            Self::TwoStepsAlike => step(60) + step(130),
            Self::TwoStepsOpposite => step(60) - step(130),
            Self::SlowDrift => 6.0 * (day as f64 - 30.0).clamp(0.0, 140.0) / 140.0,
            // A sudden drop within a slow rise.
            Self::DriftAndStep => 5.0 * day as f64 / DAYS as f64 - 2.0 * step(110),
            // One day in twenty is far off, to either side.
            Self::OutlierDays => match day % 40 {
                7 => 15.0,
                27 => -12.0,
                _ => 0.0,
            },
            // In addition to the weekend that all series have.
            Self::WeeklyPattern => [0.0, 2.0, 4.0, 2.0, -3.0, -6.0, -6.0][day % 7],
        }
    }

    /// Whether the result matches the shape: steps within five days of the right ones, and no step elsewhere.
    fn is_named(self, found: &SeriesChanges) -> bool {
        let steps: Vec<(i64, bool)> = found
            .changes
            .iter()
            .filter(|change| matches!(change.form, ChangeForm::Step { .. }))
            .map(|change| (change.form.begins(), change.difference > 0.0))
            .collect();
        let at_once: Vec<i64> = found
            .changes
            .iter()
            .filter(|change| change.pace == Pace::AtOnce)
            .map(|change| change.form.begins())
            .collect();
        let has_drift = steps.len() < found.changes.len();
        let are_steps = |expected: &[(i64, bool)]| {
            steps.len() == expected.len()
                && steps.iter().zip(expected).all(|(found, expected)| {
                    (found.0 - expected.0).abs() <= 5 && found.1 == expected.1
                })
        };
        match self {
            Self::NoChange | Self::OutlierDays | Self::WeeklyPattern => found.changes.is_empty(),
            Self::OneStep => !has_drift && are_steps(&[(90, true)]),
            Self::TwoStepsAlike => !has_drift && are_steps(&[(60, true), (130, true)]),
            Self::TwoStepsOpposite => !has_drift && are_steps(&[(60, true), (130, false)]),
            Self::SlowDrift => has_drift && steps.is_empty(),
            // So slow a drift may be reported as a drift, as a change of unclear pace, or not at all.
            Self::DriftAndStep => {
                steps.iter().any(|(at, up)| (at - 110).abs() <= 5 && !up)
                    && at_once.iter().all(|at| (at - 110).abs() <= 5)
            }
        }
    }
}

/// Number of correctly recognised series and of series with an extra change, among `runs` series of a shape under a
/// noise.
fn named(shape: Shape, noise: DayNoise, runs: u32, draws: usize) -> (u32, u32) {
    let most = match shape {
        Shape::NoChange | Shape::OutlierDays | Shape::WeeklyPattern => 0,
        Shape::OneStep | Shape::SlowDrift => 1,
        Shape::TwoStepsAlike | Shape::TwoStepsOpposite => 2,
        Shape::DriftAndStep => 3,
    };
    let (mut right, mut too_many) = (0, 0);
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(31_000 + u64::from(run));
        let points = series(DAYS, noise, |day| shape.level(day), &mut random);
        let found = find_changes(&points, &settings(draws)).expect("long enough");
        right += u32::from(shape.is_named(&found));
        too_many += u32::from(found.changes.len() > most);
    }
    (right, too_many)
}

#[allow(clippy::print_stdout, reason = "rates that a person may look at")]
fn rates(shapes: &[Shape], noises: &[DayNoise], runs: u32, draws: usize) -> Vec<(Shape, u32, u32)> {
    let mut all = Vec::new();
    for shape in shapes {
        let (mut right, mut too_many) = (0, 0);
        for noise in noises {
            let (named, more) = named(*shape, *noise, runs, draws);
            println!("{shape:?}, {noise:?}: {named} of {runs} right, {more} with one too many");
            right += named;
            too_many += more;
        }
        all.push((*shape, right, too_many));
    }
    all
}

const NOISES: [DayNoise; 3] =
    [DayNoise::Independent, DayNoise::Lasting(0.3), DayNoise::Lasting(0.5)];

/// Asserts on `each` series of each shape, half of them with persistent noise: at most three of twenty-six are wrong,
/// as `docs/statistics.md` reports; six for a drift with a step.
fn hold(shapes: &[Shape], each: u32) {
    for (shape, right, too_many) in rates(shapes, &NOISES[..2], each / 2, 99) {
        let missed = if shape == Shape::DriftAndStep { 6 } else { 3 };
        assert!(
            each - right <= (missed * each).div_ceil(26),
            "{shape:?}: {right} of {each} are right"
        );
        assert!(
            too_many <= (4 * each).div_ceil(26),
            "{shape:?}: {too_many} of {each} have a change too many"
        );
    }
}

#[test]
fn shapes_are_named() {
    hold(&Shape::ALL, 6);
}

#[test]
#[ignore = "minutes: 208 series"]
fn shapes_of_208_series_are_named() {
    hold(&Shape::ALL, 26);
}

/// A coarse unit gives most days the same average: a day far off is an outlier, and the search still finds the change
/// next to it.
#[test]
fn a_coarse_unit_hides_no_change() {
    let points = |outlier: f64, step: f64| -> Vec<SeriesPoint> {
        let mut random = fastrand::Rng::with_seed(6);
        let mut value = |day: i64| {
            let odd = if random.u8(0..6) == 0 { 1.0 } else { 0.0 };
            let level = if day >= 80 { step } else { 0.0 };
            50.0 + odd + level + if day == 40 { outlier } else { 0.0 }
        };
        (0..150).map(|slot| SeriesPoint { slot, value: value(slot), samples: None }).collect()
    };
    for outlier in [0.0, 50.0, 5_000.0] {
        let found = find_changes(&points(outlier, 1.0), &settings(199)).unwrap();
        let forms: Vec<ChangeForm> = found.changes.iter().map(|change| change.form).collect();
        assert_eq!(forms, [ChangeForm::Step { at: 80 }], "{outlier}: {found:?}");
        let expected: &[usize] = if outlier > 0.0 { &[40] } else { &[] };
        assert_eq!(found.outliers, expected, "a step of the unit is not an outlier");
        let found = find_changes(&points(outlier, 0.0), &settings(199)).unwrap();
        assert_eq!(found.changes, [], "{outlier}");
    }
}

/// Time for a long series, with a loose bound for an unoptimised build on a busy machine.
#[test]
#[ignore = "of a release build: 4,000 days in 2 seconds"]
#[allow(clippy::print_stdout, reason = "it is asked for by name")]
fn four_thousand_days() {
    for steps in [0_usize, 1, 9] {
        let mut random = fastrand::Rng::with_seed(4);
        let level = |day: usize| if day * (steps + 1) / 4_000 % 2 == 1 { 2.0 } else { 0.0 };
        let points = series(4_000, DayNoise::Lasting(0.3), level, &mut random);
        let found = find_changes(&points, &ChangeSettings::DAILY).unwrap();
        println!("{steps} steps in 4,000 days: {} changes", found.changes.len());
        assert_eq!(found.changes.len(), steps);
    }
}

#[test]
#[ignore = "minutes: prints the rates of docs/statistics.md"]
fn every_shape_at_length() {
    let all = rates(&Shape::ALL, &NOISES, 200, 499);
    assert_eq!(all.len(), 8);
}
