//! Changes that no median shows, or that affect one of several series, over weeks of hours. Each must be one event of
//! its kind, and an unchanged target must have no events.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::run::{Metric, Shortfall};
use firstbyte_core::timeline::FailureType;

use super::level::HOUR;
use super::*;
use crate::rollup::{Measure, MonitoredFact as Fact, MonitoredPart, Rollup};

/// 1 April 2026.
const START: i64 = 1_775_001_600_000;
const HOURS: i64 = 16 * 24;
/// Hour of the change.
const CHANGE: i64 = 9 * 24;
/// Visits of each series per hour.
const VISITS: usize = 30;

/// Change of one of the series.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Nothing,
    /// A third of visits take a path that is 40 ms longer.
    SlowPath,
    /// One visit in 25 fails, after one in 500.
    Failures,
    /// A third of the sessions are no longer resumed.
    Declined,
    /// One of four edges takes 4 ms longer.
    OneEdge,
}

const ALL: [Kind; 4] = [Kind::SlowPath, Kind::Failures, Kind::Declined, Kind::OneEdge];

impl Kind {
    /// Whether the change affects the series `id`.
    fn is_of(self, id: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::OneEdge => id == 3,
            Self::SlowPath | Self::Failures | Self::Declined => true,
        }
    }

    fn statistics(self) -> &'static [Statistic] {
        match self {
            Self::Nothing => &[],
            Self::SlowPath => &[Statistic::P90],
            Self::Failures => &[Statistic::Failures],
            Self::Declined => &[Statistic::Shortfalls],
            Self::OneEdge => &[Statistic::Median],
        }
    }
}

/// Simulates one visit, `hour` hours after the start. `changed` selects the behaviour after the change.
fn visit(random: &mut fastrand::Rng, kind: Kind, changed: bool, hour: i64, level: f64) -> Rollup {
    let mut rollup = Rollup { samples: 1, ..Rollup::default() };
    let failing = if changed && kind == Kind::Failures { 0.04 } else { 0.002 };
    if random.f64() < failing {
        rollup.failures.insert(FailureType::TcpTimedOut, 1);
        return rollup;
    }
    let declined = changed && kind == Kind::Declined && random.f64() < 0.33;
    rollup.add_fact(Fact::Handshake, if declined { "full" } else { "resumed" }, 1);
    rollup.add_fact(Fact::Address, "192.0.2.1", 1);
    if declined {
        rollup.unproven.insert(Shortfall::NotResumed, 1);
        return rollup;
    }
    let slow = changed && kind == Kind::SlowPath && random.f64() < 0.33;
    let rtt = 30.0 + level + if slow { 40.0 } else { 0.0 } + random.f64();
    let late = if random.f64() < 0.02 { 10.0 + 200.0 * random.f64() } else { 0.0 };
    let day = (hour % 24) as f64 / 24.0 * std::f64::consts::TAU;
    let more = if changed && kind == Kind::OneEdge { 4.0 } else { 0.0 };
    let server = 10.0 + 2.0 * day.sin() + more + late + random.f64();
    let mut time = |measure, ms: f64| rollup.add_time(measure, Duration::from_secs_f64(ms / 1e3));
    time(Measure::Metric(Metric::Connect), rtt);
    time(Measure::Metric(Metric::Wait), rtt + server);
    time(Measure::Metric(Metric::Ttfb), 2.0 * rtt + server);
    time(Measure::Metric(Metric::Total), 2.0 * rtt + server);
    time(Measure::Part(MonitoredPart::Network), 2.0 * rtt);
    time(Measure::Part(MonitoredPart::Server), server);
    time(Measure::Rtt, rtt);
    rollup.add_fact(Fact::RoundTrips, "2", 1);
    rollup
}

/// All events reported in 16 days of four edges.
fn events(kind: Kind, seed: u64) -> Vec<LevelEvent> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut history = InMemory::default();
    for id in 1..=4 {
        let tags = BTreeMap::from([("edge".to_owned(), format!("192.0.2.{id}"))]);
        history.add_series(SeriesLabels { id, target: "shop".to_owned(), tags });
    }
    let mut detector = Detector::new(Settings::default(), Vec::new());
    // Hourly noise with an autocorrelation of 0.8.
    let mut level = [0.0_f64; 4];
    for hour in 0..HOURS {
        for (id, level) in (1..).zip(&mut level) {
            *level = 0.8 * *level + 0.3 * level::drawn::normal(&mut random);
            let changed = hour >= CHANGE && kind.is_of(id);
            let mut sum = Rollup::default();
            for _ in 0..VISITS {
                sum.merge(&visit(&mut random, kind, changed, hour, *level));
            }
            history.add_hours(id, START + hour * HOUR, &sum);
        }
        detector.look(&history, START + (hour + 1) * HOUR);
    }
    detector.events().to_vec()
}

/// The distance in hours of the event from the change, or what is wrong with the events.
fn check(kind: Kind, seed: u64) -> Result<f64, String> {
    let events = events(kind, seed);
    let told: Vec<String> = events.iter().map(LevelEvent::sentence).collect();
    if kind == Kind::Nothing {
        let sure = events.iter().any(|event| event.state == State::Confirmed);
        return if sure { Err(format!("{told:#?}")) } else { Ok(0.0) };
    }
    let [event] = events.as_slice() else { return Err(format!("{told:#?}")) };
    let series: Vec<u64> = (1..=4).filter(|id| kind.is_of(*id)).collect();
    let right = event.state == State::Confirmed
        && kind.statistics().contains(&event.statistic)
        && event.series == series;
    let off = (event.at - (START + CHANGE * HOUR)) as f64 / HOUR as f64;
    if right && off.abs() <= 24.0 { Ok(off) } else { Err(format!("{told:#?} {:?}", event.series)) }
}

#[test]
fn each_kind_of_change_is_one_event() {
    for kind in ALL {
        check(kind, 7).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
    }
}

/// `cargo test -p firstbyte-monitor --release --lib -- --ignored --nocapture kinds_of_changes`; set `SEED` for other
/// draws.
#[test]
#[ignore = "minutes"]
fn kinds_of_changes() {
    let first = std::env::var("SEED").map_or(40_000, |seed| seed.parse().unwrap());
    let runs = 20;
    for kind in [Kind::Nothing].into_iter().chain(ALL) {
        let mut right = 0;
        for seed in first..first + runs {
            match check(kind, seed) {
                Ok(_) => right += 1,
                Err(why) => println!("{kind:?}, {seed}: {why}"),
            }
        }
        println!("{kind:?}: {right} of {runs} right");
        assert!(right >= 17, "{kind:?}: {right} of {runs} right");
    }
}
