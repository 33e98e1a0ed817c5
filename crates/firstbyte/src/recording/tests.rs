//! Recorders that end in every possible way, and successors that continue their files.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstbyte_clock::Realtime;
use firstbyte_core::document::run::{CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader};
use firstbyte_core::run::{Cell, Factor, Metric, Standing, Taken};
use firstbyte_core::timeline::{Cause, Failure, Mark, Offset, PhaseName, Sample, Stamp};
use firstbyte_monitor::rollup::{Measure, MonitoredFact, Rollup};
use firstbyte_monitor::store::{Retention, StoreReader};
use serde_json::json;

use super::*;
use crate::runs::environment;
use crate::webhooks::Notices;

const DAY: Duration = Duration::from_secs(86_400);

fn header(targets: &[&str]) -> RunHeader {
    let factor = |axis: &str, value: &str| Factor {
        axis: axis.into(),
        value: value.into(),
        label: value.into(),
    };
    let cell = |target: &&str| Cell {
        factors: vec![factor("site", target), factor("variant", "as negotiated")],
        url: format!("https://{target}/"),
        twin_of: None,
    };
    let target =
        |name: &&str| json!({ "name": name, "every_ns": 1, "tags": { "service": "shop" } });
    let plan: Vec<_> = targets.iter().map(target).collect();
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: Realtime::now().unix_nanos(),
        firstbyte_version: "0".into(),
        command: Vec::new(),
        plan: json!({ "command": "monitor", "place": "fra1", "targets": plan }),
        design: DesignRecord {
            warmup: 0,
            rounds: None,
            until: None,
            seed: 0,
            concurrent: 1,
            interval_ns: None,
        },
        axes: Vec::new(),
        cells: targets.iter().map(cell).map(|cell| CellRecord::from_cell(&cell)).collect(),
        environment: environment::gather(),
    }
}

fn recorded(targets: &[&str]) -> RecordedSeries {
    RecordedSeries {
        header: Arc::new(header(targets)),
        periods: vec![Duration::from_secs(1); targets.len()],
        budgets: vec![Vec::new(); targets.len()],
        raw_limits: RawLimits { age: 30 * DAY, bytes: u64::MAX },
        retention: Retention::default(),
    }
}

pub(super) struct Scene {
    directory: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    pub(super) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), told: Arc::default() }
    }

    pub(super) fn store(&self) -> std::path::PathBuf {
        self.directory.path().join("store.sqlite")
    }

    pub(super) fn settings(&self, targets: &[&str]) -> RecorderSettings {
        let told = Arc::clone(&self.told);
        RecorderSettings {
            raw: self.directory.path().join("raw"),
            store: self.store(),
            recorded: recorded(targets),
            tell: Arc::new(move |what| told.lock().unwrap().push(what.to_owned())),
            tell_event: Arc::new(|_, _| {}),
            observed: observed(Vec::new(), 0).1,
            notices: Notices::default(),
        }
    }

    /// Records `number` samples of each target.
    fn record(&self, targets: &[&str], number: u64) -> Recorded {
        let recorder = Recorder::start(self.settings(targets)).unwrap();
        for n in 0..number {
            for cell in 0..targets.len() {
                recorder.keep(taken(cell as u16, n));
            }
        }
        recorder.finish()
    }

    fn sum(&self, target: &str) -> Rollup {
        let mut reader = StoreReader::open(&self.store()).unwrap();
        let series = reader.series().unwrap();
        let (id, labels) = series.iter().find(|(_, labels)| labels.target == target).unwrap();
        assert_eq!((labels.place.as_str(), labels.tags["service"].as_str()), ("fra1", "shop"));
        let now = (Realtime::now().unix_nanos() / 1_000_000_000) as i64;
        reader.sum(*id, now - 86_400, now + 86_400, |_| true).unwrap()
    }

    pub(super) fn told(&self) -> String {
        self.told.lock().unwrap().join("\n")
    }
}

fn taken(cell: u16, n: u64) -> Taken {
    let mut sample = Sample::default();
    let connection = &mut sample.connection;
    connection.started_unix_ns = Some(Realtime::now().unix_nanos());
    connection.facts.remote = Some(SocketAddr::from(([192, 0, 2, 1], 443)));
    let at = |ms: u64| Stamp::user(Offset::from_nanos(ms as i64 * 1_000_000));
    connection.marks.set(Mark::ResponseStart, at(20 + n % 5));
    connection.marks.set(Mark::ResponseEnd, at(30));
    Taken { stands_for: None, cell, standing: Standing::Proven, lateness: Duration::ZERO, sample }
}

fn samples(rollup: &Rollup) -> u64 {
    let ttfb = rollup.times(Measure::Metric(Metric::Ttfb)).unwrap();
    assert_eq!(ttfb.count(), rollup.samples);
    assert_eq!(rollup.facts[&MonitoredFact::Address]["192.0.2.1"], rollup.samples);
    rollup.samples
}

fn raw_names(scene: &Scene) -> Vec<String> {
    let files = raw::raw_files(&scene.directory.path().join("raw")).unwrap();
    files.into_iter().map(|file| file.name).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn samples_are_in_raw_files_and_in_the_store_over_starts() {
    let scene = Scene::new();
    for start in 1..=3 {
        let recorded = scene.record(&["a", "b"], 1_500);
        assert_eq!(recorded.lost, 0);
        assert_eq!(samples(&scene.sum("a")), start * 1_500);
        assert_eq!(samples(&scene.sum("b")), start * 1_500);
    }
    // Other targets start another file of the day; the series stay.
    scene.record(&["b", "c"], 10);
    assert_eq!((samples(&scene.sum("b")), samples(&scene.sum("c"))), (4_510, 10));
    assert_eq!(scene.told(), "");
}

/// A killed process leaves raw files that are ahead of the store, and perhaps a partial line.
#[test]
fn what_a_killed_process_left_is_summed_up_once() {
    let scene = Scene::new();
    let recorder = Recorder::start(scene.settings(&["a", "b"])).unwrap();
    for n in 0..500 {
        recorder.keep(taken(0, n));
        recorder.keep(taken(1, n));
    }
    // The raw file is complete soon, the store only after seconds.
    let raw = recorder.path().to_owned();
    let lines =
        || fs::read(&raw).unwrap().windows(12).filter(|bytes| *bytes == b"{\"variant\":0").count();
    while lines() < 500 {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(50));
    let after = Scene::new();
    copy(scene.directory.path(), after.directory.path());
    recorder.finish();
    let name = raw.file_name().unwrap();
    let copied = after.directory.path().join("raw").join(name);
    let mut torn = fs::read(&copied).unwrap();
    torn.extend_from_slice(b"{\"variant\":0,\"round\":9");
    fs::write(&copied, torn).unwrap();
    after.record(&["a", "b"], 7);
    assert_eq!((samples(&after.sum("a")), samples(&after.sum("b"))), (507, 507));
    assert!(
        after.told().contains("samples of raw files were added to the store again"),
        "{}",
        after.told()
    );
}

#[test]
fn a_store_that_is_gone_or_damaged_is_made_again_from_raw_files() {
    let scene = Scene::new();
    scene.record(&["a"], 300);
    fs::remove_file(scene.store()).unwrap();
    scene.record(&["a"], 10);
    assert_eq!(samples(&scene.sum("a")), 310);
    fs::write(scene.store(), "no database at all, but a text ".repeat(500)).unwrap();
    scene.record(&["a"], 10);
    assert_eq!(samples(&scene.sum("a")), 320);
    let told = scene.told();
    assert!(told.contains("store.sqlite: cannot ") && told.contains("moved to "), "{told}");
    let aside = fs::read_dir(scene.directory.path()).unwrap();
    let kept = aside.filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"no database at all"))
    });
    assert_eq!(kept.count(), 1);
}

#[test]
fn damaged_lines_of_raw_files_are_told() {
    let scene = Scene::new();
    let path = scene.record(&["a"], 3).path;
    let mut text = fs::read_to_string(&path).unwrap();
    let last = text.rfind("{\"variant\":0").unwrap();
    text.replace_range(last..=last, "[");
    let line = text.lines().count();
    fs::write(&path, text).unwrap();
    fs::remove_file(scene.store()).unwrap();
    scene.record(&["a"], 1);
    assert_eq!(samples(&scene.sum("a")), 3);
    let told = scene.told();
    assert!(told.contains(&format!("{}, line {line}: ", path.display())), "{told}");
}

/// Overwrites pages in the middle of a store while it is being written.
#[test]
fn a_store_that_is_damaged_under_way_is_made_again() {
    let scene = Scene::new();
    let targets: Vec<String> = (0..200).map(|n| format!("target-{n}")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    scene.record(&targets, 5);
    let mut bytes = fs::read(scene.store()).unwrap();
    bytes[16_384..].iter_mut().for_each(|byte| *byte = 0xa5);
    fs::write(scene.store(), bytes).unwrap();
    scene.record(&targets, 5);
    scene.record(&targets, 0);
    assert!(scene.told().contains("rebuilt from raw samples"), "{}", scene.told());
    assert_eq!(samples(&scene.sum("target-0")), 10);
    assert_eq!(samples(&scene.sum("target-199")), 10);
}

/// The observed figures equal the store's contents, also if raw files are read again first.
#[test]
fn what_is_shown_is_what_is_kept() {
    let scene = Scene::new();
    let labels = recorded(&["a", "b"]).labels();
    let (observer, shown) = observed(labels, 1);
    assert_eq!(observer.health(), Health::default());
    let settings = RecorderSettings { observed: shown, ..scene.settings(&["a", "b"]) };
    let recorder = Recorder::start(settings).unwrap();
    for n in 0..7 {
        recorder.keep(taken(0, n));
        recorder.keep(taken(1, n));
    }
    let mut failed = taken(0, 7);
    failed.sample.connection.failure =
        Some(Failure { phase: PhaseName::Connect, cause: Cause::Reset, at: Some(Offset::ZERO) });
    let kind = failed.sample.failure().unwrap().failure_type();
    recorder.keep(failed);
    recorder.finish();
    let figures = observer.figures();
    assert_eq!(figures.health, Health { runs: true, ..Health::default() });
    assert_eq!((figures.series.len(), figures.lateness.count()), (1, 15));
    let (shown, sum) = (&figures.series[0], scene.sum("a"));
    assert_eq!((shown.samples, shown.failures[&kind]), (8, 1));
    assert_eq!((sum.samples, &sum.failures), (8, &shown.failures));
    assert!(shown.last.is_some_and(|(_, failed)| failed));
    for (measure, histogram) in MEASURES.iter().zip(&shown.times) {
        let kept = sum.times(*measure);
        assert_eq!(histogram.count(), kept.map_or(0, |times| times.count()), "{}", measure.name());
        assert_eq!(histogram.exponential.sum_ns(), kept.map_or(0, |times| times.sum_ns()));
    }
}

/// The series change during recording: remaining ones continue, and each sample counts for its own series.
#[test]
fn series_change_under_way() {
    let scene = Scene::new();
    let recorder = Recorder::start(scene.settings(&["a", "b"])).unwrap();
    let keep = |cell, number| (0..number).for_each(|n| recorder.keep(taken(cell, n)));
    keep(0, 30);
    keep(1, 20);
    recorder.follow(recorded(&["b", "c", "d"]));
    keep(0, 5);
    keep(2, 7);
    // Switched back before any sample arrived: the recorder continues the ended file.
    recorder.follow(recorded(&["c"]));
    recorder.follow(recorded(&["a", "b"]));
    keep(0, 1);
    assert_eq!(recorder.finish().lost, 0);
    let of_all = ["a", "b", "d"].map(|target| samples(&scene.sum(target)));
    assert_eq!(of_all, [31, 25, 7]);
    assert_eq!(raw_names(&scene).len(), 2, "{:?}", raw_names(&scene));
    // The next start knows all of it.
    scene.record(&["a", "b"], 1);
    assert_eq!(["a", "b", "d"].map(|target| samples(&scene.sum(target))), [32, 26, 7]);
    assert_eq!(scene.told(), "");
}

#[test]
fn two_do_not_write_the_same_store() {
    let scene = Scene::new();
    let first = Recorder::start(scene.settings(&["a"])).unwrap();
    let second = Recorder::start(scene.settings(&["b"]));
    assert!(matches!(second, Err(RecorderError::Raw(crate::runs::RunError::Locked { .. }))));
    first.finish();
    Recorder::start(scene.settings(&["b"])).unwrap().finish();
}

#[test]
fn days_that_are_too_old_go_and_other_files_stay() {
    let scene = Scene::new();
    let raw = scene.directory.path().join("raw");
    fs::create_dir_all(&raw).unwrap();
    fs::write(raw.join("notes.txt"), "mine").unwrap();
    scene.record(&["a"], 3);
    let current = raw_names(&scene).remove(0);
    fs::copy(raw.join(&current), raw.join("2020-01-01.run")).unwrap();
    let files = raw::raw_files(&raw).unwrap();
    let gone = raw::outdated(&files, &raw.join(&current), "2026-01-01", u64::MAX);
    assert_eq!(gone.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["2020-01-01.run"]);
    assert!(raw.join("notes.txt").exists());
}

/// Age does not depend on the clock: a day is old once newer days have samples.
#[test]
fn old_days_go_when_newer_ones_have_samples() {
    let scene = Scene::new();
    let raw = scene.directory.path().join("raw");
    scene.record(&["a"], 3);
    let current = raw.join(raw_names(&scene).remove(0));
    let old = raw.join("2020-01-01.run");
    fs::rename(current, &old).unwrap();
    let settings = || {
        let mut settings = scene.settings(&["a"]);
        settings.recorded.raw_limits.age = DAY;
        settings
    };
    let recorder = Recorder::start(settings()).unwrap();
    // Two checks for old files, the first after a second.
    std::thread::sleep(Duration::from_millis(2_500));
    recorder.finish();
    assert!(old.exists());
    let now = (Realtime::now().unix_nanos() / 1_000_000_000) as i64;
    let yesterday = firstbyte_clock::day_stamp_of(now - 86_400);
    fs::copy(&old, raw.join(format!("{yesterday}.run"))).unwrap();
    let recorder = Recorder::start(settings()).unwrap();
    let begun = firstbyte_clock::Monotonic::now();
    while old.exists() {
        assert!(firstbyte_clock::Monotonic::now().since(begun) < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    recorder.finish();
    assert!(raw.join(format!("{yesterday}.run")).exists());
}
