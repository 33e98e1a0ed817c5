//! Size of rollups in bytes, for visits with every metric.

use firstbyte_core::run::{Standing, Taken};
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::Step;

use crate::generated::{Level, drawn_hours, number_of, store_bytes};
use crate::options::Options;
use crate::{barred, figure};

const HOUR_BAR: f64 = 1_500.0;
/// One sample per minute.
const MINUTES_KEPT: f64 = 14.0 * 1_440.0;
const HOURS: f64 = 8_760.0;
const DAYS: f64 = 365.0;

pub(crate) fn measure(_: &Options) -> bool {
    let mut random = fastrand::Rng::with_seed(1);
    let levels = Level::some(40, &mut random);
    let one = |random: &mut fastrand::Rng, level: &Level, number| {
        let mut rollup = Rollup::default();
        let sample = level.visit("https://example.com/", number).sample(random);
        rollup.add(&Taken {
            stands_for: None,
            cell: 0,
            standing: Standing::Proven,
            lateness: Default::default(),
            sample,
        });
        rollup
    };
    let minutes: Vec<Rollup> = levels.iter().map(|level| one(&mut random, level, 0)).collect();
    let hours: Vec<Rollup> =
        levels.iter().flat_map(|level| drawn_hours(level, 4, &mut random)).collect();
    let days: Vec<Rollup> = levels
        .iter()
        .map(|level| {
            let mut day = Rollup::default();
            for hour in drawn_hours(level, 24, &mut random) {
                day.merge(&hour);
            }
            day
        })
        .collect();
    let measures = hours.iter().map(|hour| hour.all_times().count()).min().unwrap();
    let [minute, hour, day] = [&minutes, &hours, &days].map(|all| mean(all));
    let held = barred(
        "bytes of an hour, 60 samples, at the mean",
        &format!("{hour:.0}"),
        &format!("{HOUR_BAR:.0} at most"),
        hour <= HOUR_BAR,
    );
    let most = hours.iter().map(bytes).max().unwrap();
    figure("  the largest of 160, of different paths", &most.to_string());
    figure("  metrics that each has", &measures.to_string());
    figure("bytes of a minute, 1 sample", &format!("{minute:.0}"));
    figure("bytes of a day, 1,440 samples", &format!("{day:.0}"));
    let in_file = |step: Step, all: &[Rollup]| store_bytes(step, all) / all.len() as f64;
    let file = in_file(Step::Hour, &hours);
    figure("  of an hour in the file, as it is filled in time", &format!("{file:.0}"));
    let kib = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    figure("a series for a year, a sample a minute: 14 d of minutes", &kib(minute * MINUTES_KEPT));
    figure("  hours", &kib(hour * HOURS));
    figure("  days", &kib(day * DAYS));
    held
}

fn mean(all: &[Rollup]) -> f64 {
    all.iter().map(|rollup| bytes(rollup) as f64).sum::<f64>() / all.len() as f64
}

/// Size in bytes as stored.
fn bytes(rollup: &Rollup) -> usize {
    let mut body = Vec::new();
    let Ok(()) = rollup.store(&mut body, number_of);
    body.len()
}
