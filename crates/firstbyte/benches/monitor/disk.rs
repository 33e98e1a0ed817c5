//! Bytes written to disk per byte of raw samples, for 2,000 series that are each measured once a minute.
//!
//! Runs a whole monitor for some minutes, from its second minute on, and adds one minute's share of closing an hour:
//! the hourly rows of all series are written once an hour.

use std::fs;
use std::path::Path;
use std::time::Duration;

use firstbyte::cli::monitor_by;
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::{SeriesLabels, Store};

use crate::generated::{Level, drawn_hours};
use crate::many::plan;
use crate::options::Options;
use crate::processor::written_bytes;
use crate::synthetic::Drawn;
use crate::{barred, figure};

const SERIES: usize = 2_000;
const MINUTES: u64 = 4;
const MINUTE: Duration = Duration::from_secs(60);
const BAR: f64 = 4.0;
/// Start of an hour.
const HOUR: i64 = 1_795_392_000;

/// Bytes by kind.
#[derive(Clone, Copy)]
struct Bytes {
    /// Written to raw files.
    raw: u64,
    /// Passed to write calls.
    calls: u64,
    /// In pages written back to disk.
    pages: u64,
}

impl Bytes {
    fn now(raw: &Path) -> Self {
        let length = |entry: fs::DirEntry| entry.metadata().map_or(0, |metadata| metadata.len());
        let files = fs::read_dir(raw).into_iter().flatten().flatten();
        let (calls, pages) = written_bytes();
        Self { raw: files.map(length).sum(), calls, pages }
    }
}

pub(crate) fn measure(options: &Options) -> bool {
    let directory = tempfile::tempdir_in(&options.tmpdir).unwrap();
    let file = directory.path().join("monitor.toml");
    let text = format!(
        "[limits]\nin_flight = 1000\n[defaults]\nevery = \"1min\"\n[[target]]\nurl = \"https://s{{1..{SERIES}}}.test/\"\n"
    );
    fs::write(&file, text).unwrap();
    let length = MINUTE * u32::try_from(MINUTES + 1).unwrap() + Duration::from_secs(10);
    let plan = plan(&file, directory.path(), length);
    let raw = directory.path().join("store/raw");
    let drawn = Drawn::new(1);
    let (monitored, first, last) = std::thread::scope(|scope| {
        let looks = || {
            std::thread::sleep(MINUTE);
            let first = Bytes::now(&raw);
            std::thread::sleep(MINUTE * u32::try_from(MINUTES).unwrap());
            (first, Bytes::now(&raw))
        };
        let looks = scope.spawn(looks);
        let monitored = monitor_by(&plan, &|series, equipment| drawn.visitor(series, equipment));
        let (first, last) = looks.join().unwrap();
        (monitored.unwrap(), first, last)
    });
    let of_hour = closing_bytes(&directory.path().join("hours.sqlite"));
    let each = |bytes: u64| bytes as f64 / MINUTES as f64;
    let samples = each(last.raw - first.raw);
    let (calls, pages) = (each(last.calls - first.calls), each(last.pages - first.pages));
    let (calls, pages) = (calls + of_hour.0 as f64 / 60.0, pages + of_hour.1 as f64 / 60.0);
    let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
    figure("bytes of samples a minute, 2,000 series", &megabytes(samples));
    figure("written a minute: by write calls", &megabytes(calls));
    figure("  by pages on their way to the disk", &megabytes(pages));
    figure("  of them for hours that are over", &megabytes(of_hour.1 as f64 / 60.0));
    // The kernel counts no pages for files in memory.
    let written = if last.pages > first.pages { pages } else { calls };
    if last.pages == first.pages {
        println!("  the files are in memory: write calls count; give --tmpdir DIR for pages");
    }
    let ratio = written / samples;
    let is_little = barred(
        "bytes written for each byte of samples",
        &format!("{ratio:.2}"),
        "4 at most",
        ratio <= BAR,
    );
    let lost = monitored.lost;
    barred("lost", &lost.to_string(), "none", lost == 0) && is_little
}

/// Bytes passed to write calls, and bytes of pages, for closing an hour of all series.
fn closing_bytes(path: &Path) -> (u64, u64) {
    let mut random = fastrand::Rng::with_seed(3);
    let levels = Level::some(8, &mut random);
    let minutes: Vec<Rollup> =
        levels.iter().flat_map(|level| drawn_hours(level, 1, &mut random)).collect();
    let mut store = Store::open(path).unwrap();
    let labels: Vec<SeriesLabels> = (0..SERIES)
        .map(|number| SeriesLabels { target: number.to_string(), ..SeriesLabels::default() })
        .collect();
    let ids = store.enrol(&labels).unwrap();
    // Add earlier hours, so that each series already has rows on its own pages.
    for hour in 0..12 {
        for minute in [0, 59] {
            let at = (HOUR + hour * 3_600 + minute * 60).cast_unsigned() * 1_000_000_000;
            for (place, id) in ids.iter().enumerate() {
                store.add_rollup(*id, at, &minutes[place % minutes.len()]);
            }
        }
        store.flush(&[]).unwrap();
        close(&mut store, HOUR + hour * 3_600);
    }
    let hour = HOUR + 12 * 3_600;
    for id in &ids {
        store.add_rollup(*id, hour.cast_unsigned() * 1_000_000_000, &minutes[0]);
    }
    store.flush(&[]).unwrap();
    drop(store);
    let before = written_bytes();
    let mut store = Store::open(path).unwrap();
    close(&mut store, hour + 3_900);
    drop(store);
    let after = written_bytes();
    (after.0 - before.0, after.1 - before.1)
}

/// Closes all hours that are over.
fn close(store: &mut Store, now: i64) {
    while store.close_periods(now).unwrap().closed > 0 {}
}
