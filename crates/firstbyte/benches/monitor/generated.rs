//! Generated stores with any number of series, hours and days, filled with rollups of synthetic visits.
//!
//! In: names of the series, and a period. Out: the store of a monitor that measured each series once a minute: hours
//! and days, events, annotations, but neither minutes nor raw files. Rows are written in time order, as a monitor
//! writes them, since their place in the file determines the cost of reading them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::run::{Standing, Taken};
use firstbyte_monitor::rollup::{MonitoredFact, Rollup};
use firstbyte_monitor::store::{Annotation, SeriesLabels, Step, Store, StoreError, StoredEvent};

use crate::visits::Visit;

const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;
/// Number of different paths, for each TLS version.
const PATHS: usize = 8;
/// Number of different hours, and of different days, for each path.
const HOURS_DRAWN: usize = 24;
const DAYS_DRAWN: usize = 6;
/// Approximate events of a series per year.
const EVENTS_A_SERIES: u64 = 2;
/// Annotations per day.
const ANNOTATIONS_A_DAY: i64 = 2;

/// Properties shared by the visits of a series.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    pub(crate) is_tls12: bool,
    pub(crate) rtt: Duration,
}

impl Level {
    /// `number` levels, alternating between both versions, with round trips from half a millisecond to eighty.
    pub(crate) fn some(number: usize, random: &mut fastrand::Rng) -> Vec<Self> {
        let level = |index: usize| Self {
            is_tls12: index.is_multiple_of(2),
            rtt: Duration::from_secs_f64(0.5e-3 * 160_f64.powf(random.f64())),
        };
        (0..number).map(level).collect()
    }

    pub(crate) fn visit<'a>(&self, url: &'a str, number: u32) -> Visit<'a> {
        // Queues on the path add up to a fifth.
        let Self { is_tls12, rtt } = *self;
        let busy = 1.0 + f64::from(number % 7) / 30.0;
        Visit { url, is_tls12, rtt: rtt.mul_f64(busy), started_unix_ns: 0, number }
    }
}

/// `number` hours of `level`, of sixty samples each.
pub(crate) fn drawn_hours(level: &Level, number: usize, random: &mut fastrand::Rng) -> Vec<Rollup> {
    let mut hour = |_| {
        let mut rollup = Rollup::default();
        for minute in 0..60 {
            let sample = level.visit("https://example.com/", minute).sample(random);
            let (standing, lateness) = (Standing::Proven, Duration::ZERO);
            rollup.add(&Taken { stands_for: None, cell: 0, standing, lateness, sample });
        }
        rollup
    };
    (0..number).map(&mut hour).collect()
}

/// A number that stands for a value, as large as those a store assigns.
pub(crate) fn number_of(fact: MonitoredFact, value: &str) -> Result<u64, Infallible> {
    Ok(200 + (fact as u64) * 8 + value.len() as u64 % 8)
}

/// Size in bytes of these rollups of one step in a store's file, written in time order for several series in turn.
pub(crate) fn store_bytes(step: Step, rollups: &[Rollup]) -> f64 {
    const SERIES: u32 = 40;
    const TIMES: i64 = 50;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let mut store = Store::open(&path).unwrap();
    let mut place = 0;
    for time in 0..TIMES {
        let rows = (1..=SERIES).map(|series| {
            place = (place + 1) % rollups.len();
            (series, time * step.seconds(), &rollups[place])
        });
        store.put_rollups(step, rows).unwrap();
    }
    drop(store);
    let bytes = std::fs::metadata(&path).unwrap().len() as f64;
    bytes / (f64::from(SERIES) * TIMES as f64) * rollups.len() as f64
}

/// Makes the store of `series` at `path`, for the `days` whole days before `until` (seconds since 1970).
///
/// Calls `progress` for each day.
///
/// # Errors
/// If the store cannot be written.
pub(crate) fn generate(
    path: &Path,
    series: &[SeriesLabels],
    days: u32,
    until: i64,
    mut progress: impl FnMut(u32),
) -> Result<(), StoreError> {
    let mut random = fastrand::Rng::with_seed(1);
    let levels = Level::some(2 * PATHS, &mut random);
    let hours: Vec<Vec<Rollup>> =
        levels.iter().map(|level| drawn_hours(level, HOURS_DRAWN, &mut random)).collect();
    let sums: Vec<Vec<Rollup>> = hours.iter().map(|hours| drawn_days(hours, &mut random)).collect();
    let mut store = Store::open(path)?;
    let ids = store.enrol(series)?;
    // The levels of both versions alternate, as the ways of a target do.
    let level_of = |place: usize| (place / 2 % PATHS) * 2 + place % 2;
    let first = (until / DAY - i64::from(days)) * DAY;
    for day in 0..days {
        let start = first + i64::from(day) * DAY;
        let rows = (0..24).flat_map(|hour| {
            ids.iter().enumerate().map(move |(place, id)| (place, *id, start + hour * HOUR))
        });
        let mut draw = fastrand::Rng::with_seed(u64::from(day));
        let rows = rows.map(|(place, id, start)| {
            (id, start, &hours[level_of(place)][draw.usize(..HOURS_DRAWN)])
        });
        store.put_rollups(Step::Hour, rows)?;
        let rows = ids
            .iter()
            .enumerate()
            .map(|(place, id)| (*id, start, &sums[level_of(place)][random.usize(..DAYS_DRAWN)]));
        store.put_rollups(Step::Day, rows)?;
        progress(day);
    }
    let span = i64::from(days) * DAY;
    for number in 0..series.len() as u64 * EVENTS_A_SERIES {
        let at = first + random.i64(0..span);
        let place = random.usize(..series.len());
        store.put_event(&event(number, at, ids[place], &series[place]))?;
    }
    for number in 0..i64::from(days) * ANNOTATIONS_A_DAY {
        let text = format!("deploy {number}");
        let at = first + random.i64(0..span);
        let tags = BTreeMap::from([("service".to_owned(), "shop".to_owned())]);
        store.put_annotation(&Annotation { at, text, tags })?;
    }
    Ok(())
}

/// Days, each the sum of 24 of `hours`.
fn drawn_days(hours: &[Rollup], random: &mut fastrand::Rng) -> Vec<Rollup> {
    let mut day = |_| {
        let mut day = Rollup::default();
        for _ in 0..24 {
            day.merge(&hours[random.usize(..hours.len())]);
        }
        day
    };
    (0..DAYS_DRAWN).map(&mut day).collect()
}

fn event(number: u64, at: i64, id: u32, labels: &SeriesLabels) -> StoredEvent {
    let stamp = |at: i64| {
        let at = time::OffsetDateTime::from_unix_timestamp(at).unwrap();
        at.format(&time::format_description::well_known::Rfc3339).unwrap()
    };
    let state = ["confirmed", "confirmed", "provisional", "withdrawn"][number as usize % 4];
    let body = serde_json::json!({
        "format": "firstbyte/event", "version": 1, "id": number.to_string(), "state": state,
        "metric": "tls", "statistic": "median",
        "before_ns": 20_000_000, "after_ns": 10_000_000, "difference_ns": -10_000_000,
        "interval_ns": [-10_500_000, -9_500_000],
        "at": stamp(at), "at_between": [stamp(at - 600), stamp(at + 600)], "cause": [],
        "scope": { "targets": [labels.target], "of": 1, "tags": {}, "quorum": {} },
        "samples": { "before": 600, "after": 600 }, "series": [id],
    });
    StoredEvent { id: number.to_string(), at, state: state.to_owned(), json: body.to_string() }
}
