//! Random series, and the changes found in them as time passes.

use super::failures::Counted;
use super::*;

/// Length of a series in days.
pub(super) const DAYS: i64 = 40;

/// Composition of hourly values. Sizes are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// AR(0.8) noise of 1 ms; 2 % of the hours are 10 to 500 ms late.
    Plain,
    /// 8 ms more from Monday to Friday.
    Weekly,
    /// Student's t with 2 degrees of freedom replaces normal noise.
    HeavyTails,
    /// AR(0.97) noise.
    Slow,
    /// AR(0.99) noise of 1 ms: the level wanders for days.
    Wandering,
    /// Two gaps of one day each, and one hour in ten is missing.
    Outages,
    /// Always the same.
    Constant,
    /// Each hour is randomly at 60 or 75 ms.
    TwoModes,
    /// Values are rounded to whole milliseconds.
    Coarse,
}

impl Shape {
    pub(super) const ALL: [Self; 9] = [
        Self::Plain,
        Self::Weekly,
        Self::HeavyTails,
        Self::Slow,
        Self::Wandering,
        Self::Outages,
        Self::Constant,
        Self::TwoModes,
        Self::Coarse,
    ];
}

pub(in crate::detect) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// Hours of a series that does not change: nanoseconds, with a base of 60 ms and a daily pattern of ±5 ms.
pub(super) fn hours(shape: Shape, seed: u64) -> Vec<Point> {
    let mut random = fastrand::Rng::with_seed(seed);
    let keeps: f64 = match shape {
        Shape::Slow => 0.97,
        Shape::Wandering => 0.99,
        _ => 0.8,
    };
    let phase = random.f64();
    let mut noise = normal(&mut random);
    let dark: Vec<i64> = (0..2).map(|_| random.i64(0..DAYS * 24 - 24)).collect();
    let mut points = Vec::new();
    for hour in 0..DAYS * 24 {
        let step = match shape {
            Shape::HeavyTails => {
                let chi = (normal(&mut random).powi(2) + normal(&mut random).powi(2)) / 2.0;
                normal(&mut random) / chi.sqrt()
            }
            _ => normal(&mut random),
        };
        noise = keeps * noise + (1.0 - keeps * keeps).sqrt() * step;
        let day = (std::f64::consts::TAU * (hour as f64 / 24.0 + phase)).sin();
        let mut value = 60.0 + 5.0 * day + noise;
        if random.f64() < 0.02 {
            value += 10.0 + 490.0 * random.f64();
        }
        let missing =
            random.f64() < 0.1 || dark.iter().any(|from| (0..24).contains(&(hour - from)));
        match shape {
            Shape::Outages if missing => continue,
            Shape::Weekly if hour / 24 % 7 < 5 => value += 8.0,
            Shape::Constant => value = 60.0,
            Shape::TwoModes => value += if random.bool() { 15.0 } else { 0.0 },
            Shape::Coarse => value = value.round(),
            _ => {}
        }
        points.push(Point { at: hour * HOUR, value: value * 1e6, samples: 60 });
    }
    points
}

/// Adds `change` nanoseconds to all points from `at` on.
pub(super) fn changed(mut points: Vec<Point>, at: i64, change: f64) -> Vec<Point> {
    points.iter_mut().filter(|point| point.at >= at).for_each(|point| point.value += change);
    points
}

/// Changes reported of a series over time.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Proposed changes, each once: its latest version, and when it was first reported.
    pub(super) proposed: Vec<(Change, i64)>,
    /// Confirmed changes, and when each was first reported.
    pub(super) confirmed: Vec<(Change, i64)>,
}

impl Said {
    fn hear(&mut self, change: Change, now: i64) {
        let list = match change.certainty {
            Certainty::Confirmed => &mut self.confirmed,
            Certainty::Proposed => &mut self.proposed,
        };
        let near = |old: &Change| {
            let slack = 2 * BLOCK;
            old.between[0] - slack <= change.between[1]
                && change.between[0] <= old.between[1] + slack
        };
        match list.iter_mut().find(|(old, _)| near(old)) {
            Some(known) => known.0 = change,
            None => list.push((change, now)),
        }
    }

    /// Number of changes that were proposed but never confirmed.
    pub(super) fn withdrawn(&self) -> usize {
        let kept = |change: &Change| {
            self.confirmed.iter().any(|(other, _)| {
                other.between[0] - DAY <= change.between[1]
                    && change.between[0] <= other.between[1] + DAY
            })
        };
        self.proposed.iter().filter(|(change, _)| !kept(change)).count()
    }
}

/// Examines all values so far every `every` hours.
pub(super) fn watched(points: &[Point], settings: &LevelSettings, every: i64) -> Said {
    let mut said = Said::default();
    let Some(last) = points.last().map(|point| point.at) else { return said };
    let mut now = 2 * DAY;
    while now <= last + HOUR {
        let known = points.partition_point(|point| point.at + HOUR <= now);
        changes(&points[..known], settings).into_iter().for_each(|change| said.hear(change, now));
        now += every * HOUR;
    }
    said
}

/// Visits of 60 ms with noise of 1 ms; one in fifty is 10 to 500 ms late.
pub(super) fn visits(n: usize, seed: u64) -> Vec<Point> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..n as i64)
        .map(|index| {
            let day = (std::f64::consts::TAU * index as f64 / 1_440.0).sin();
            let late = if random.f64() < 0.02 { 10.0 + 490.0 * random.f64() } else { 0.0 };
            let value = 60.0 + 5.0 * day + normal(&mut random) + late;
            Point { at: index * 60_000, value: value * 1e6, samples: 1 }
        })
        .collect()
}

/// Hours of `n` samples; `share` gives the probability that a sample of an hour fails.
pub(super) fn failing(n: u64, seed: u64, share: impl Fn(i64) -> f64) -> Vec<Counted> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..DAYS * 24)
        .map(|hour| {
            let p = share(hour);
            let failed = (0..n).filter(|_| random.f64() < p).count() as u64;
            Counted { at: hour * HOUR, failed, samples: n }
        })
        .collect()
}
