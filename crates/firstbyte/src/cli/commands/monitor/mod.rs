//! `firstbyte monitor`: targets measured again and again, every sample kept.

mod keeper;

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::run::Taken;
use firstbyte_core::units::print_time;
use firstbyte_monitor::configuration::{Configuration, Keep, TargetSettings, UrlSettings};
use firstbyte_monitor::store::Retention;
use firstbyte_monitor::watch::{
    LeftOut, MOST_SERIES, Series, WatchControl, Watched, series, watch,
};
use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::describe_io;
use firstbyte_report::Style;
use firstbyte_report::units::count;
use serde_json::{Value, json};

use super::probe::setup_problem;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::measuring::Measuring;
use crate::cli::run_problem;
use crate::cli::signals::asked_to_end;
use crate::cli::terminal::note;
use crate::plans::{MonitorPlan, MonitorSource};
use crate::recording::{RawLimits, Recorded, Recorder, RecorderError, RecorderSettings};
use crate::runs::environment;
use keeper::{Keeper, Teller};

/// Of a configuration, or of a list of URLs.
const MOST_BYTES: u64 = 16 << 20;
/// Of a list that is long, so many are named.
const NAMED: usize = 10;

pub(in crate::cli) fn run(plan: &MonitorPlan) -> Result<u8, Problem> {
    let configuration = configuration(&plan.source)?;
    let measuring = Measuring::new()?;
    let (all, left_out) = series(&configuration, measuring.clients());
    tell_left_out(&left_out);
    if all.len() > MOST_SERIES {
        let (found, most) = (all.len(), MOST_SERIES);
        return Err(Problem::new(exit::USAGE, format!("{found} series: {most} are the most"))
            .hint("watch fewer targets, or in fewer ways, or by several monitors"));
    }
    if plan.check_only {
        return print(&checked(&configuration, &all)).map(|()| exit::OK);
    }
    let store = store(plan.store.as_deref().or(configuration.store.as_deref()))?;
    let visitors = measuring.wait_for(async {
        let visitors = all.iter().map(|one| one.visitor(measuring.equipment()).map(Rc::new));
        visitors.collect::<Result<Vec<_>, _>>()
    });
    let visitors = visitors.map_err(setup_problem)?;
    let periods = all.iter().map(|one| one.timing.every).collect();
    let teller = Teller::new(plan.silent);
    let tell = teller.clone();
    let recorder = Recorder::start(RecorderSettings {
        raw: store.join("raw"),
        store: store.join("store.sqlite"),
        header: header(&configuration, &all),
        periods,
        raw_limits: RawLimits { age: configuration.keep.raw, bytes: configuration.keep.raw_size },
        retention: retention(&configuration.keep),
        tell: Arc::new(move |what| tell.tell(what)),
    });
    let recorder = recorder.map_err(recorder_problem)?;
    note(&format!("measuring {}", overview(&configuration, &all)));
    note(&format!("samples go into {}; Ctrl-C ends it", recorder.path().display()));
    let mut keeper = Keeper::new(&all, recorder, teller);
    let control = WatchControl::default();
    let watched = measuring.wait_for(async {
        let mut keep = |taken: Taken| {
            keeper.keep(taken);
            Ok::<(), Infallible>(())
        };
        let watching = watch(&all, &visitors, configuration.limits, seed(), &control, &mut keep);
        let mut watching = std::pin::pin!(watching);
        let end = async {
            match plan.length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            watched = &mut watching => return watched,
            _ = asked_to_end() => control.stop(),
            () = end => control.stop(),
        }
        watching.await
    });
    let Ok(watched) = watched;
    let Recorded { path, lost } = keeper.finish();
    note(&ended(&watched, &path));
    if lost > 0 {
        let what = format!("{} could not be written", count(lost, "sample"));
        return Err(Problem::new(exit::WRITE, what));
    }
    Ok(exit::OK)
}

fn retention(keep: &Keep) -> Retention {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Retention {
        minutes: Some(seconds(keep.minutes)),
        hours: keep.hours.map(seconds),
        days: keep.days.map(seconds),
    }
}

fn recorder_problem(error: RecorderError) -> Problem {
    match error {
        RecorderError::Raw(error) => run_problem(error),
        RecorderError::Store(error) => {
            let problem = Problem::new(exit::WRITE, error.to_string());
            match error.is_locked() {
                true => problem.hint("wait for the other process to end, or give another --store"),
                false => problem,
            }
        }
        RecorderError::Thread(error) => {
            Problem::new(exit::USAGE, format!("could not start a thread: {error}"))
        }
    }
}

/// For a terminal: a configuration may be anybody's.
fn safe(line: &str) -> String {
    Style::default().safe(line)
}

/// What is watched, read and checked.
fn configuration(source: &MonitorSource) -> Result<Configuration, Problem> {
    match source {
        MonitorSource::File(file) => configuration_file(file),
        MonitorSource::Urls { urls, every, max_time, vary } => {
            let urls: Vec<String> = urls.iter().map(|url| url.reveal().clone()).collect();
            let axes: Result<Vec<Axis>, String> =
                vary.iter().map(|axis| Axis::read(axis.reveal())).collect();
            let axes = axes.map_err(|why| Problem::new(exit::USAGE, format!("--vary: {why}")))?;
            let settings = UrlSettings { every: *every, timeout: *max_time, axes };
            Configuration::of_urls(&urls, settings).map_err(|(url, why)| {
                let url = firstbyte_core::shown_url::shown_url(&url);
                Problem::new(exit::USAGE, format!("{url:?}: {why}"))
            })
        }
    }
}

fn configuration_file(file: &Path) -> Result<Configuration, Problem> {
    let name = file.display();
    let text = text_of(file)
        .map_err(|error| Problem::new(exit::READ, format!("cannot read {name}: {error}")))?;
    // Files that it names are beside it.
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut read_file = |name: &str| text_of(&directory.join(name));
    Configuration::read(&text, &mut read_file).map_err(|mistakes| {
        let lines: Vec<String> =
            mistakes.iter().map(|mistake| safe(&format!("{name}:{mistake}"))).collect();
        let all = count(mistakes.len() as u64, "mistake");
        Problem::new(exit::USAGE, format!("{name}: {all}\n{}", lines.join("\n")))
    })
}

/// A text file of a size that people write, or have written by a script.
fn text_of(file: &Path) -> io::Result<String> {
    let described = |error: io::Error| io::Error::new(error.kind(), describe_io(&error));
    let mut text = String::new();
    let read =
        File::open(file).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    match read.map_err(described)? as u64 {
        bytes if bytes > MOST_BYTES => {
            Err(io::Error::other(format!("more than {MOST_BYTES} bytes")))
        }
        _ => Ok(text),
    }
}

fn tell_left_out(left_out: &[LeftOut]) {
    for LeftOut { target, way, why } in left_out.iter().take(NAMED) {
        note(&safe(&format!("left out: {target}, {way}: {why}")));
    }
    if left_out.len() > NAMED {
        note(&format!("left out: {} more", left_out.len() - NAMED));
    }
}

/// `3 targets in 2 ways, 6 series: 0.1 samples a second`.
fn overview(configuration: &Configuration, all: &[Series]) -> String {
    let rate: f64 = all.iter().map(|one| 1.0 / one.timing.every.as_secs_f64()).sum();
    format!(
        "{}, {}, {rate:.2} samples a second",
        count(configuration.targets.len() as u64, "target"),
        // The plural is the same.
        format_args!("{} series", all.len()),
    )
}

/// What `--check-config` says of a file without a mistake.
fn checked(configuration: &Configuration, all: &[Series]) -> String {
    let mut text = format!("{}\n", overview(configuration, all));
    for target in configuration.targets.iter().take(NAMED) {
        let of_target = |one: &&Series| {
            one.cell.factors.first().is_some_and(|factor| factor.value == target.name)
        };
        let ways: Vec<String> = all
            .iter()
            .filter(of_target)
            .filter_map(|one| one.cell.factors.get(1).map(|factor| factor.label.clone()))
            .collect();
        let every = print_time(target.every);
        let line = format!("  {}: every {every}: {}", target.name, ways.join("; "));
        text.push_str(&format!("{}\n", safe(&line)));
    }
    if configuration.targets.len() > NAMED {
        text.push_str(&format!("  and {} more\n", configuration.targets.len() - NAMED));
    }
    text
}

/// Where samples are kept.
fn store(asked: Option<&Path>) -> Result<PathBuf, Problem> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let set = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
    state.map(|state| state.join("firstbyte")).ok_or_else(|| {
        Problem::new(exit::USAGE, "nowhere to keep samples: HOME is not set")
            .hint("give --store DIR")
    })
}

fn header(configuration: &Configuration, all: &[Series]) -> RunHeader {
    let axis = |index: usize| {
        let factor = |one: &Series| one.cell.factors.get(index).cloned();
        let mut values: Vec<String> = Vec::new();
        for factor in all.iter().filter_map(factor) {
            if !values.contains(&factor.value) {
                values.push(factor.value);
            }
        }
        let name = all.first().and_then(|one| one.cell.factors.get(index));
        AxisRecord { name: name.map_or_else(String::new, |factor| factor.axis.clone()), values }
    };
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: firstbyte_clock::Realtime::now().unix_nanos(),
        firstbyte_version: env!("CARGO_PKG_VERSION").into(),
        command: vec!["firstbyte".into(), "monitor".into()],
        plan: kept(configuration),
        design: DesignRecord {
            warmup: 0,
            rounds: None,
            until: None,
            seed: 0,
            concurrent: u32::try_from(configuration.limits.in_flight).unwrap_or(u32::MAX),
            interval_ns: None,
        },
        axes: vec![axis(0), axis(1)],
        cells: all.iter().map(|one| CellRecord::from_cell(&one.cell)).collect(),
        environment: environment::gather(),
    }
}

/// What run files keep of a configuration, beside their cells.
fn kept(configuration: &Configuration) -> Value {
    let target = |target: &TargetSettings| {
        json!({
            "name": target.name,
            "every_ns": u64::try_from(target.every.as_nanos()).unwrap_or(u64::MAX),
            "tags": target.tags,
        })
    };
    let targets: Vec<Value> = configuration.targets.iter().map(target).collect();
    json!({ "command": "monitor", "place": configuration.place, "targets": targets })
}

/// Of jitter: monitors of one configuration at several places are not to ask at once.
fn seed() -> u64 {
    firstbyte_clock::Realtime::now().unix_nanos()
}

fn ended(watched: &Watched, path: &Path) -> String {
    let Watched { samples, missed, lateness_p99 } = watched;
    let mut text = format!("ended: {}", count(*samples, "sample"));
    if *missed > 0 {
        text.push_str(&format!(", {missed} left out because their time had passed"));
    }
    if let Some(late) = lateness_p99.filter(|late| *late > Duration::from_millis(100)) {
        let late = late.as_millis();
        text.push_str(&format!(", 99 of 100 begun within {late} ms of their time"));
    }
    text.push_str(&format!("\nsee: firstbyte report {}", path.display()));
    text
}
