//! Memory of 50,000 targets, and the time until the first is measured, in a separate process.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use firstbyte::cli::monitor_by;
use firstbyte::plans::{MonitorPlan, MonitorSource};
use firstbyte_clock::Monotonic;

use crate::options::Options;
use crate::processor::{most_resident, resident};
use crate::synthetic::Drawn;
use crate::{barred, figure};

pub(crate) const CHILD: &str = "many-child";
const TARGETS: u32 = 50_000;
const BAR_BYTES: f64 = 500e6;
const START_BAR_SECONDS: f64 = 2.0;
/// Long enough for a sample of each.
const LENGTH: Duration = Duration::from_secs(70);
/// 50,000 targets by the minute are 833 samples a second.
const EVERY: &str = "1min";

pub(crate) fn measure(_: &Options) -> bool {
    let program = std::env::current_exe().unwrap();
    // The monitor's own messages on the terminal are not needed.
    let child = Command::new(program).arg(CHILD).stderr(Stdio::null()).output().unwrap();
    let told = String::from_utf8(child.stdout).unwrap();
    let numbers: Vec<f64> =
        told.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [most, samples, seconds, bare] = numbers[..] else {
        println!("  the process failed: {told}");
        return false;
    };
    figure("targets, a sample of each every minute", &TARGETS.to_string());
    figure("samples in that time", &format!("{samples:.0}"));
    figure("resident before it began", &format!("{:.0} MB", bare / 1e6));
    let is_soon = barred(
        "start, until the first sample",
        &format!("{seconds:.2} s"),
        "2 s at most",
        seconds <= START_BAR_SECONDS,
    );
    let is_small = barred(
        "resident at most",
        &format!("{:.0} MB", most / 1e6),
        "500 MB at most",
        most <= BAR_BYTES && samples > 0.0,
    );
    is_soon && is_small
}

/// Runs in the separate process.
pub(crate) fn child() -> ExitCode {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("monitor.toml");
    let text = format!(
        "store = \"store\"\n[limits]\nin_flight = 1000\n[defaults]\nevery = \"{EVERY}\"\n[[target]]\nurl = \"https://s{{1..{TARGETS}}}.test/\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let drawn = Drawn::new(1);
    let bare = resident();
    let begun = Monotonic::now();
    let plan = plan(&file, directory.path(), LENGTH);
    let monitored = monitor_by(&plan, &|series, equipment| drawn.visitor(series, equipment));
    let monitored = match monitored {
        Ok(monitored) => monitored,
        Err(what) => {
            println!("{what}");
            return ExitCode::FAILURE;
        }
    };
    let samples = monitored.watched.samples;
    let start = drawn.first().map_or(LENGTH, |first| first.since(begun));
    println!("{} {samples} {} {bare}", most_resident(), start.as_secs_f64());
    ExitCode::SUCCESS
}

/// A monitor of the targets in `file` that keeps samples below `directory`.
pub(crate) fn plan(file: &Path, directory: &Path, length: Duration) -> MonitorPlan {
    MonitorPlan {
        source: MonitorSource::File(file.to_owned()),
        check_only: false,
        store: Some(directory.join("store")),
        listen: None,
        length: Some(length),
        silent: true,
        json: false,
    }
}
