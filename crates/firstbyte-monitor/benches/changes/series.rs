//! Simulates series sample by sample, and collects what the detector finds in them as time passes.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_core::run::Metric;
use firstbyte_core::timeline::FailureType;
use firstbyte_monitor::detect::{
    Detector, History, LatestSample, LevelEvent, Note, SeriesLabels, Settings, State, WantedTimes,
};
use firstbyte_monitor::rollup::{Measure, Rollup};

pub(crate) const DAY: i64 = 24 * HOUR;
const HOUR: i64 = 3_600_000;
/// 1 April 2026, a Wednesday.
pub(crate) const START: i64 = 1_775_001_600_000;
/// Samples that the program keeps in memory.
const KEPT: usize = 240;

/// Composition of the times of a series: 60 ms, ±5 ms over the day, and noise of 1 ms each for the hour and the sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Hourly noise with an autocorrelation of 0.8; one sample in fifty is 10 to 500 ms late.
    Normal,
    /// 8 ms more from Monday to Friday.
    Weekdays,
    /// Student's t with two degrees of freedom replaces normal noise, for hours and samples.
    StudentT2,
    /// Hourly noise with an autocorrelation of 0.97.
    Slow,
    /// One packet in a hundred is lost, which adds 200 ms or a second.
    Losses,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] =
        [Self::Normal, Self::Weekdays, Self::StudentT2, Self::Slow, Self::Losses];

    pub(crate) const fn phrase(self) -> &'static str {
        match self {
            Self::Normal => "normal noise",
            Self::Weekdays => "8 ms more on working days",
            Self::StudentT2 => "Student's t, 2 degrees of freedom",
            Self::Slow => "noise with an AR(1) of 0.97 an hour",
            Self::Losses => "1 % losses",
        }
    }
}

/// The change simulated in a series.
#[derive(Clone, Debug)]
pub(crate) enum Alteration {
    Nothing,
    /// Every sample takes longer.
    Step {
        at: i64,
        ms: f64,
    },
    /// A share of the samples takes longer.
    Tail {
        at: i64,
        share: f64,
        ms: f64,
    },
    /// A share of the samples fails; before the change it is one in a thousand.
    Failures {
        at: i64,
        share: f64,
    },
}

impl Alteration {
    /// When the change happens, milliseconds since the Unix epoch; `i64::MAX` without a change.
    pub(crate) const fn at(&self) -> i64 {
        match self {
            Self::Nothing => i64::MAX,
            Self::Step { at, .. } | Self::Tail { at, .. } | Self::Failures { at, .. } => {
                START + *at
            }
        }
    }
}

/// The events found in a series.
#[derive(Debug, Default)]
pub(crate) struct SeriesFindings {
    /// Events that were only ever provisional.
    pub(crate) provisional: usize,
    /// Provisional events that only a few samples showed.
    pub(crate) provisional_by_samples: usize,
    /// Confirmed events in their final form, and when each was confirmed.
    pub(crate) confirmed: Vec<(LevelEvent, i64)>,
    /// Number of samples from the change to its first event.
    pub(crate) first_samples: Option<i64>,
    /// Number of looks, and the processor time that they took.
    pub(crate) looks: (u64, Duration),
}

pub(crate) fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

fn student_t2(random: &mut fastrand::Rng) -> f64 {
    let chi = (normal(random).powi(2) + normal(random).powi(2)) / 2.0;
    normal(random) / chi.sqrt()
}

/// One series in memory, as the program holds it: the latest samples, and hours.
struct OneSeries {
    labels: [SeriesLabels; 1],
    latest: std::collections::VecDeque<LatestSample>,
    hours: BTreeMap<i64, Rollup>,
}

impl History for OneSeries {
    fn series(&self) -> &[SeriesLabels] {
        &self.labels
    }

    fn newest(&self, _: u64, _: i64) -> Option<i64> {
        self.latest.back().map(|sample| sample.at)
    }

    fn samples(&self, _: u64, from: i64, _: i64, _: usize) -> Vec<LatestSample> {
        self.latest.iter().filter(|sample| sample.at >= from).cloned().collect()
    }

    fn hours(&self, _: u64, from: i64, until: i64, _: &WantedTimes) -> Vec<(i64, Rollup)> {
        self.hours.range(from..until).map(|(at, rollup)| (*at, rollup.clone())).collect()
    }

    fn outages(&self, _: u64) -> Vec<[i64; 2]> {
        Vec::new()
    }

    fn notes(&self, _: i64, _: i64) -> Vec<Note> {
        Vec::new()
    }
}

/// Simulates a series of this shape for `days`, with a sample every `every` seconds, and runs the detector after each
/// sample.
pub(crate) fn watch(
    shape: Shape,
    alteration: &Alteration,
    days: i64,
    every: i64,
    seed: u64,
) -> SeriesFindings {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut noise = Noise::new(shape, &mut random);
    let labels = SeriesLabels { id: 1, target: "shop".to_owned(), tags: BTreeMap::new() };
    let mut history = OneSeries { labels: [labels], latest: [].into(), hours: BTreeMap::new() };
    let mut detector = Detector::new(Settings::default(), Vec::new());
    let mut watched = SeriesFindings::default();
    let (mut seen, mut sure) = (BTreeMap::new(), BTreeMap::new());
    let step = every * 1_000;
    let mut at = START;
    while at < START + days * DAY {
        let sample = noise.sample(at, alteration, &mut random);
        let hour = at.div_euclid(HOUR) * HOUR;
        history.hours.entry(hour).or_default().merge(&sample);
        history.latest.push_back(LatestSample::from_rollup(at, &sample));
        if history.latest.len() > KEPT {
            history.latest.pop_front();
        }
        let began = Monotonic::now();
        let found = detector.look(&history, at);
        watched.looks.0 += 1;
        watched.looks.1 += Monotonic::now().since(began);
        for event in found {
            if alteration.at() <= at && watched.first_samples.is_none() {
                watched.first_samples = Some((at - alteration.at()) / step + 1);
            }
            if event.state == State::Confirmed {
                let told = sure.get(&event.id).map_or(at, |(_, told)| *told);
                sure.insert(event.id.clone(), (event.clone(), told));
            }
            seen.entry(event.id).or_insert(event.samples.after < 300);
        }
        at += step;
    }
    seen.retain(|id, _| !sure.contains_key(id));
    watched.provisional = seen.len();
    watched.provisional_by_samples = seen.values().filter(|by_samples| **by_samples).count();
    watched.confirmed = sure.into_values().collect();
    watched
}

/// Noise that is correlated from one hour to the next.
struct Noise {
    shape: Shape,
    keeps: f64,
    phase: f64,
    hour: i64,
    level: f64,
}

impl Noise {
    fn new(shape: Shape, random: &mut fastrand::Rng) -> Self {
        let keeps = if shape == Shape::Slow { 0.97 } else { 0.8 };
        Self { shape, keeps, phase: random.f64(), hour: i64::MIN, level: normal(random) }
    }

    fn sample(&mut self, at: i64, change: &Alteration, random: &mut fastrand::Rng) -> Rollup {
        let hour = at.div_euclid(HOUR);
        if hour != self.hour {
            self.hour = hour;
            let step = match self.shape {
                Shape::StudentT2 => student_t2(random),
                _ => normal(random),
            };
            self.level = self.keeps * self.level + (1.0 - self.keeps * self.keeps).sqrt() * step;
        }
        let is_after = at >= change.at();
        let failing = match change {
            Alteration::Failures { share, .. } if is_after => *share,
            Alteration::Failures { .. } => 0.001,
            _ => 0.0,
        };
        let mut rollup = Rollup::from_count(1);
        if random.f64() < failing {
            rollup.failures.insert(FailureType::TcpTimedOut, 1);
            return rollup;
        }
        let day = (std::f64::consts::TAU * (at as f64 / DAY as f64 + self.phase)).sin();
        let own = match self.shape {
            Shape::StudentT2 => student_t2(random),
            _ => normal(random),
        };
        let mut ms = 60.0 + 5.0 * day + self.level + own;
        match self.shape {
            Shape::Losses if random.f64() < 0.01 => {
                ms += if random.bool() { 200.0 } else { 1_000.0 };
            }
            Shape::Losses => {}
            _ if random.f64() < 0.02 => ms += 10.0 + 490.0 * random.f64(),
            _ => {}
        }
        // START is a Wednesday.
        let weekday = (at.div_euclid(DAY) - START.div_euclid(DAY) + 2).rem_euclid(7);
        if self.shape == Shape::Weekdays && weekday < 5 {
            ms += 8.0;
        }
        match change {
            Alteration::Step { ms: more, .. } if is_after => ms += more,
            Alteration::Tail { share, ms: more, .. } if is_after && random.f64() < *share => {
                ms += more;
            }
            _ => {}
        }
        let ms = ms.max(1.0);
        let mut add = |metric, ms: f64| {
            rollup.add_time(Measure::Metric(metric), Duration::from_secs_f64(ms / 1e3));
        };
        add(Metric::Ttfb, ms);
        add(Metric::Total, ms + 2.0 + random.f64());
        rollup
    }
}
