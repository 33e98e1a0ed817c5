//! Ten thousand samples a second through the whole monitor, for a minute, while old rollups and raw files are deleted
//! and its server is queried all the time.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstbyte::cli::monitor_by;
use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_monitor::rollup::Rollup;
use firstbyte_monitor::store::{Folded, SeriesLabels, Step, Store, StoreReader};

use crate::ask::{ask, free_address, median_and_worst};
use crate::generated::{Level, drawn_hours};
use crate::many::plan;
use crate::options::Options;
use crate::processor::{most_resident, thread_times, used_times};
use crate::synthetic::Drawn;
use crate::{barred, figure};

const LATENESS_BAR: Duration = Duration::from_secs(1);
const DAY: i64 = 86_400;
/// Expired minute rollups, for each of `OLD_SERIES` series that no longer exist.
const OLD_MINUTES: i64 = 400;
const OLD_SERIES: usize = 400;
/// Raw files that are too old or exceed the size limit.
const OLD_FILES: i64 = 20;
const OLD_FILE_BYTES: u64 = 20_000_000;

pub(crate) fn measure(options: &Options) -> bool {
    let directory = tempfile::tempdir_in(&options.tmpdir).unwrap();
    let (store, raw) =
        (directory.path().join("store/store.sqlite"), directory.path().join("store/raw"));
    fs::create_dir_all(&raw).unwrap();
    let now = (Realtime::now().unix_nanos() / 1_000_000_000).cast_signed();
    leave_old(&store, &raw, now);
    let old_files = files(&raw);
    let old_minutes = minutes(&store, now);
    let file = directory.path().join("monitor.toml");
    fs::write(&file, configuration(options)).unwrap();
    let length = Duration::from_secs(options.seconds);
    let mut plan = plan(&file, directory.path(), length);
    let address = free_address();
    plan.listen = Some(address);
    let drawn = Drawn::new(1);
    let is_over = AtomicBool::new(false);
    let disk = sync_times(&raw.join("probe"));
    let before = used_times();
    let (monitored, asked) = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().name("asks".into());
        let asks = || keep_asking(address, options.series, &is_over);
        let asks = reader.spawn_scoped(scope, asks).unwrap();
        let monitored = monitor_by(&plan, &|series, equipment| drawn.visitor(series, equipment));
        is_over.store(true, Ordering::Relaxed);
        (monitored, asks.join().unwrap())
    });
    let (all, ours) = used_times();
    let (all, ours) = (all.saturating_sub(before.0), ours.saturating_sub(before.1));
    let monitored = monitored.unwrap();
    let (samples, lost) = (monitored.watched.samples, monitored.lost);
    let kept = samples_in(&store, now);
    let new_bytes: u64 = files(&raw)
        .iter()
        .filter(|(name, _)| !old_files.contains_key(*name))
        .map(|(_, bytes)| bytes)
        .sum();
    let gone = old_files.keys().filter(|name| !raw.join(name).exists()).count();
    let late = monitored.watched.lateness_p99.unwrap_or(Duration::MAX);
    let rate = samples as f64 / length.as_secs_f64();
    let mut held = barred(
        "samples a second",
        &format!("{rate:.0}"),
        &format!("{} (99 % of it)", options.rate),
        rate >= 0.99 * f64::from(options.rate),
    );
    held &= barred(
        "lateness, 99 of 100",
        &format!("{:.1} ms", late.as_secs_f64() * 1e3),
        "1 s at most",
        late < LATENESS_BAR,
    );
    held &= barred(
        "left out because their time had passed",
        &monitored.watched.missed.to_string(),
        "none",
        monitored.watched.missed == 0,
    );
    held &= barred("lost", &lost.to_string(), "none", lost == 0);
    held &= barred(
        "in the store's sums, of those taken",
        &format!("{kept}"),
        &format!("all {samples}"),
        kept == samples,
    );
    figure("bytes of a sample, raw", &format!("{:.0}", new_bytes as f64 / samples as f64));
    figure("series", &options.series.to_string());
    figure("old rollups deleted meanwhile", &format!("{}", old_minutes - minutes(&store, now)));
    figure("old raw files deleted meanwhile", &format!("{gone} of {}", old_files.len()));
    figure("resident at most", &format!("{:.0} MB", most_resident() as f64 / 1e6));
    for (name, times) in &asked.times {
        let (median, worst) = median_and_worst(times);
        let text = format!(
            "{:.0} ms, {:.0} at worst",
            median.as_secs_f64() * 1e3,
            worst.as_secs_f64() * 1e3
        );
        figure(&format!("{name}, {} times", times.len()), &text);
    }
    held &=
        barred("answers that were not valid", &asked.failed.to_string(), "none", asked.failed == 0);
    for (name, time) in &asked.threads {
        let each = time.as_secs_f64() / samples as f64 * 1e6;
        if each >= 0.05 {
            figure(&format!("processor time a sample, thread {name}"), &format!("{each:.1} µs"));
        }
    }
    let share = |time: Duration| format!("{:.2}", time.as_secs_f64() / length.as_secs_f64());
    figure("processors used by it", &share(ours));
    figure("processors used by others meanwhile", &share(all.saturating_sub(ours)));
    let (median, worst) = median_and_worst(&disk);
    let text =
        format!("{:.0} ms, {:.0} at worst", median.as_secs_f64() * 1e3, worst.as_secs_f64() * 1e3);
    figure("a megabyte written and synced before it began", &text);
    held
}

/// Times for appending a megabyte to a file, sync included.
fn sync_times(path: &Path) -> Vec<Duration> {
    const TIMES: usize = 20;
    let (mut file, megabyte) = (fs::File::create(path).unwrap(), vec![1; 1 << 20]);
    let one = |_| {
        let begun = Monotonic::now();
        std::io::Write::write_all(&mut file, &megabyte).unwrap();
        file.sync_data().unwrap();
        Monotonic::now().since(begun)
    };
    let times = (0..TIMES).map(one).collect();
    fs::remove_file(path).unwrap();
    times
}

fn configuration(options: &Options) -> String {
    let every = f64::from(options.series) / f64::from(options.rate);
    let targets = options.series / 2;
    format!(
        "place = \"here\"\n[keep]\nraw = \"30d\"\nraw_size = \"2GB\"\nminutes = \"14d\"\n[limits]\nin_flight = 10000\n\
         [defaults]\nevery = \"{:.0}ms\"\nvary = [\"tls=1.2,1.3\"]\n[[target]]\nurl = \"https://s{{1..{targets}}}.test/\"\n",
        every * 1e3
    )
}

/// Creates old data for retention to delete.
fn leave_old(path: &Path, raw: &Path, now: i64) {
    let mut random = fastrand::Rng::with_seed(2);
    let level = Level::some(1, &mut random)[0];
    let minute: &Rollup = &drawn_hours(&level, 1, &mut random)[0];
    let mut store = Store::open(path).unwrap();
    let labels: Vec<SeriesLabels> = (0..OLD_SERIES)
        .map(|number| SeriesLabels { target: format!("gone{number}"), ..SeriesLabels::default() })
        .collect();
    let ids = store.enrol(&labels).unwrap();
    let rows = ids
        .iter()
        .flat_map(|id| (0..OLD_MINUTES).map(move |at| (*id, now - 20 * DAY + at * 60, minute)));
    store.put_rollups(Step::Minute, rows).unwrap();
    let mut folded = Vec::new();
    for day in 0..OLD_FILES {
        let name = format!("{}.run", firstbyte_clock::day_stamp_of(now - (20 + day) * DAY));
        let file = fs::File::create(raw.join(&name)).unwrap();
        // Writing the zeros allocates blocks, so that deleting the file has to free them.
        let zeros = vec![0; 1 << 20];
        for _ in 0..OLD_FILE_BYTES >> 20 {
            std::io::Write::write_all(&mut &file, &zeros).unwrap();
        }
        folded.push(Folded { file: name, bytes: OLD_FILE_BYTES });
    }
    store.flush(&folded).unwrap();
}

fn files(raw: &Path) -> BTreeMap<String, u64> {
    let entry = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    };
    fs::read_dir(raw).unwrap().map(|found| entry(found.unwrap())).collect()
}

/// Counts the expired minute rollups.
fn minutes(path: &Path, now: i64) -> usize {
    let mut reader = StoreReader::open(path).unwrap();
    let all = reader.series().unwrap();
    let old = all.iter().filter(|(_, labels)| labels.target.starts_with("gone"));
    old.map(|(id, _)| reader.rollups(*id, Step::Minute, 0, now, |_| false).unwrap().len()).sum()
}

/// Counts the samples in the days of the store.
fn samples_in(path: &Path, now: i64) -> u64 {
    let mut reader = StoreReader::open(path).unwrap();
    let all = reader.series().unwrap();
    let days = |(id, _): &(u32, SeriesLabels)| {
        let days = reader.rollups(*id, Step::Day, now - DAY, now + DAY, |_| false).unwrap();
        days.iter().map(|day| day.rollup.samples).sum::<u64>()
    };
    all.iter().map(days).sum()
}

const BY_HOUR: &str = "/api/v1/series by hour";

/// Results of querying the server.
#[derive(Default)]
struct Asked {
    times: BTreeMap<&'static str, Vec<Duration>>,
    failed: u32,
    /// Processor time of all threads at the last query.
    threads: BTreeMap<String, Duration>,
}

/// Sends one request after the other, a few per second, as an open page does.
fn keep_asking(address: SocketAddr, series: u32, is_over: &AtomicBool) -> Asked {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut asked = Asked::default();
    let mut random = fastrand::Rng::with_seed(3);
    let mut turn = 0;
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let target = format!("s{}.test", random.u32(1..=series / 2));
        let point = format!("/api/v1/series?target={target}&variant=tls%3D1.3&metric=total");
        let (name, path) = match turn % 20 {
            0 => ("/metrics", "/metrics".to_owned()),
            10 => ("/api/v1/targets", "/api/v1/targets".to_owned()),
            5 | 15 => ("/api/v1/events", "/api/v1/events".to_owned()),
            turn if turn % 2 == 0 => ("/api/v1/series by minute", format!("{point}&step=minute")),
            _ => (BY_HOUR, format!("{point}&step=hour")),
        };
        let begun = Monotonic::now();
        match ask(address, &path) {
            // The series may not be known yet.
            Ok(answered) if answered.status == 200 => {
                asked.times.entry(name).or_default().push(answered.took);
                turn += 1;
            }
            // The server does not listen yet, has no data yet, or has stopped listening.
            _ if !asked.times.contains_key(BY_HOUR) || is_over.load(Ordering::Relaxed) => {}
            Ok(answered) => {
                println!("  {path}: status {}", answered.status);
                asked.failed += 1;
            }
            // The monitor may be shutting down.
            Err(_) if is_ending(is_over, begun) => {}
            Err(error) => {
                println!("  {path}: {error}");
                asked.failed += 1;
            }
        }
        let threads = thread_times();
        if threads.contains_key("recorder") {
            asked.threads = threads;
        }
    }
    asked
}

/// Whether the benchmark ends within the time that shutdown takes.
fn is_ending(is_over: &AtomicBool, since: Monotonic) -> bool {
    while Monotonic::now().since(since) < Duration::from_secs(15) {
        if is_over.load(Ordering::Relaxed) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
