//! A monitor in a lab: the lines it prints and when, the events it leaves, and its samples.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use firstbyte_clock::Realtime;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::support::{PROGRAM, Scene, firstbyte, firstbyte_within, run, text};

/// Time for starting and ending a lab and a monitor, in seconds.
const BESIDES: u32 = 60;

/// All times are seconds since the Unix epoch.
pub(crate) struct WatchedLab {
    /// When the lab was ready; its changes are timed from here.
    pub(crate) ready: f64,
    pub(crate) told: Vec<ToldLine>,
    /// Output of `monitor events` after the run.
    pub(crate) events: Vec<Value>,
    /// Ordered by when they began.
    pub(crate) samples: Vec<RawSample>,
}

/// A line on standard error that begins with a time.
pub(crate) struct ToldLine {
    /// When the test read it.
    pub(crate) at: f64,
    /// The line without its time.
    pub(crate) line: String,
}

impl ToldLine {
    /// The text before the first colon.
    pub(crate) fn state(&self) -> &str {
        self.line.split(": ").next().unwrap()
    }
}

/// A sample in the monitor's run file.
pub(crate) struct RawSample {
    pub(crate) target: String,
    pub(crate) series: u64,
    pub(crate) began: f64,
    pub(crate) is_failed: bool,
    /// Taken immediately after a failure, so it does not belong to the regular grid.
    pub(crate) is_extra: bool,
}

/// Runs a monitor on the client of a new lab.
pub(crate) fn watch(scene: &Scene, configuration: &str, seconds: u32) -> WatchedLab {
    fs::write(scene.path("monitor.toml"), configuration).unwrap();
    let store = scene.path("store");
    let mut command = firstbyte_within(seconds + BESIDES, &["lab", "run"]);
    command.arg(scene.file()).args(["--", PROGRAM, "monitor"]);
    command.arg("--for").arg(format!("{seconds}s"));
    command.arg("--config").arg(scene.path("monitor.toml")).arg("--store").arg(&store);
    let mut running = command.stderr(Stdio::piped()).spawn().unwrap();
    let (mut ready, mut told, mut all) = (None, Vec::new(), Vec::new());
    for line in BufReader::new(running.stderr.take().unwrap()).lines() {
        let (at, line) = (now(), line.unwrap());
        if line.starts_with("lab test: ") {
            ready.get_or_insert(at);
        }
        if let Some((_, line)) = line.split_once(' ').filter(|(time, _)| is_time(time)) {
            told.push(ToldLine { at, line: line.to_owned() });
        }
        all.push(line);
    }
    let status = running.wait().unwrap();
    assert!(status.success(), "{status}: {all:#?}");
    let ready = ready.unwrap_or_else(|| panic!("the lab was not ready: {all:#?}"));
    let mut events = firstbyte(&["monitor", "events", "--format", "ndjson", "--store"]);
    let events = run(events.arg(&store));
    assert!(events.status.success(), "{}", text(&events.stderr));
    let events = text(&events.stdout);
    let events = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    WatchedLab { ready, told, events, samples: raw_samples(&store) }
}

fn raw_samples(store: &Path) -> Vec<RawSample> {
    let mut all = Vec::new();
    for file in fs::read_dir(store.join("raw")).unwrap() {
        let file = fs::read_to_string(file.unwrap().path()).unwrap();
        let mut lines = file.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let variants = lines.next().unwrap()["variants"].take();
        for line in lines.filter(|line| line["variant"].is_u64()) {
            let series = line["variant"].as_u64().unwrap();
            let variant = &variants[usize::try_from(series).unwrap()];
            all.push(RawSample {
                target: variant["factors"][0]["value"].as_str().unwrap().to_owned(),
                series,
                began: line["started_unix_ns"].as_u64().unwrap() as f64 / 1e9,
                is_failed: line["outcome"] == "failed",
                is_extra: line["stands_for_ns"] == 0,
            });
        }
    }
    all.sort_by(|a, b| a.began.total_cmp(&b.began));
    all
}

fn now() -> f64 {
    Realtime::now().unix_nanos() as f64 / 1e9
}

fn is_time(text: &str) -> bool {
    OffsetDateTime::parse(text, &Rfc3339).is_ok()
}

/// The time in a field of an event, or NaN, which compares as near nothing.
pub(crate) fn seconds(time: &Value) -> f64 {
    let time = time.as_str().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    time.map_or(f64::NAN, |time| time.unix_timestamp_nanos() as f64 / 1e9)
}
