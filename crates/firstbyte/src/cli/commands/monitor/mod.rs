//! `firstbyte monitor`: measures targets again and again, and keeps every sample.

mod annotate;
mod demo;
pub(super) mod events;
mod export;
mod following;
mod keeper;
pub(super) mod reading;
mod serving;
mod source;
mod status;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::units::print_time;
use firstbyte_monitor::budget::Promise;
use firstbyte_monitor::configuration::{Configuration, Keep, TargetSettings};
use firstbyte_monitor::edges::Edges;
use firstbyte_monitor::store::Retention;
use firstbyte_monitor::watch::{
    LeftOut, MOST_SERIES, Series, WatchControl, Watched, Watchlist, series, watch,
};
use firstbyte_probe::experiment::Visitor;
use firstbyte_probe::probe::{Equipment, SetupError};
use firstbyte_report::Style;
use firstbyte_report::units::{count, grouped};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::probe::setup_problem;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::measuring::Measuring;
use crate::cli::run_problem;
use crate::cli::signals::{Attention, hang_ups};
use crate::cli::terminal::note;
use crate::exposition::MOST_EXPOSED;
use crate::monitor_server::reload_channel;
use crate::plans::{MonitorPlan, MonitorSource};
use crate::recording::{
    RawLimits, Recorded, RecordedSeries, Recorder, RecorderError, RecorderSettings, observed,
    series_labels,
};
use crate::runs::environment;
use crate::webhooks::Tell;
pub(in crate::cli) use annotate::run as annotate;
pub(in crate::cli) use events::run as events;
pub(in crate::cli) use export::run as export;
use following::{Follower, look_up};
use keeper::{Keeper, Teller};
use source::{Files, read};
pub(in crate::cli) use status::run as status;

/// How many items of a long list are named.
const NAMED: usize = 10;

/// Creates the visitor of a series.
pub(in crate::cli) type MakeVisitor<'a> =
    &'a dyn Fn(&Series, &Equipment) -> Result<Visitor, SetupError>;

pub(in crate::cli) fn run(plan: &MonitorPlan) -> Result<u8, Problem> {
    if plan.check_only {
        return check(plan);
    }
    if let MonitorSource::Demo = plan.source {
        return demo::run(plan);
    }
    let (watched, recorded) = measure(plan, &Series::visitor)?;
    conclude(plan, &watched, &recorded)
}

/// How a monitor handles signals, from its start.
struct MonitorSignals {
    attention: Attention,
    /// Counts SIGHUPs; present if a configuration file is followed, which SIGHUP rereads.
    hang_ups: Option<Receiver<u64>>,
}

impl MonitorSignals {
    /// Starts handling signals. Must come before the monitor says that it runs: an early SIGHUP would end it.
    fn heed(source: &MonitorSource) -> Self {
        Self {
            attention: Attention::begin(),
            hang_ups: matches!(source, MonitorSource::File(_)).then(hang_ups),
        }
    }
}

/// Whether the samples outlive the run. A demo's samples are deleted unless the user names a store.
const fn keeps_samples(plan: &MonitorPlan) -> bool {
    plan.store.is_some() || !matches!(plan.source, MonitorSource::Demo)
}

/// Reports the result, and the store if the samples are kept.
fn conclude(plan: &MonitorPlan, watched: &Watched, recorded: &Recorded) -> Result<u8, Problem> {
    let Recorded { path, lost } = recorded;
    note(&ended(watched, keeps_samples(plan).then_some(path)));
    if *lost > 0 {
        let what = format!("{} could not be written", count(*lost, "sample"));
        return Err(Problem::new(exit::WRITE, what));
    }
    Ok(exit::OK)
}

/// Reports what would be measured, or every mistake.
fn check(plan: &MonitorPlan) -> Result<u8, Problem> {
    let configuration = read(&plan.source, &mut Files::default())?;
    let all = all_series(&configuration, &Edges::default(), &Measuring::new()?)?;
    serving::check(plan, &configuration)?;
    print(&checked(&configuration, &all)).map(|()| exit::OK)
}

/// Measures until it is asked to stop, with visitors that `visitor` creates.
pub(in crate::cli) fn measure(
    plan: &MonitorPlan,
    visitor: MakeVisitor<'_>,
) -> Result<(Watched, Recorded), Problem> {
    let signals = MonitorSignals::heed(&plan.source);
    let mut files = Files::default();
    let configuration = read(&plan.source, &mut files)?;
    let store = store(plan.store.as_deref().or(configuration.store.as_deref()))?;
    let listening = serving::listen(plan, &configuration)?;
    watch_all(plan, configuration, files, &store, listening, visitor, signals)
}

/// Measures `configuration`, keeps samples in `store` and answers requests, until it is asked to stop.
fn watch_all(
    plan: &MonitorPlan,
    configuration: Configuration,
    files: Files,
    store: &Path,
    listening: Option<serving::Listening>,
    visitor: MakeVisitor<'_>,
    signals: MonitorSignals,
) -> Result<(Watched, Recorded), Problem> {
    let MonitorSignals { attention, hang_ups } = signals;
    let measuring = Measuring::new()?;
    let mut edges = Edges::default();
    measuring.wait_for(look_up(&mut edges, &configuration.edge_hosts()));
    let all = all_series(&configuration, &edges, &measuring)?;
    let webhooks = serving::webhooks(plan, &configuration)?;
    let pushes = serving::pushes(plan, &configuration)?;
    let list = measuring
        .wait_for(async { watchlist(configuration, all, &measuring, visitor) })
        .map_err(setup_problem)?;
    let teller = Teller::new(plan.silent, plan.json);
    let tell = teller.clone();
    let event_teller = teller.clone();
    let tell: Tell = Arc::new(move |what: &str| tell.tell(what));
    let (webhooks, notices) = serving::prepare_webhooks(webhooks, Arc::clone(&tell))?;
    let recorded = recorded(&list);
    let labels = series_labels(&recorded.header).unwrap_or_default();
    let is_exposed = listening.is_some() || !pushes.is_empty();
    let (observer, observed) = observed(labels, if is_exposed { MOST_EXPOSED } else { 0 });
    let pushes = serving::push(pushes, &observer, Arc::clone(&tell))?;
    let (reloads, reload_requests) = reload_channel();
    let reloads = matches!(plan.source, MonitorSource::File(_)).then_some(reloads);
    let answer = |listening: serving::Listening| {
        listening.answer(store.join("store.sqlite"), observer, reloads)
    };
    let server = listening.map(answer).transpose()?;
    let recorder = Recorder::start(RecorderSettings {
        raw: store.join("raw"),
        store: store.join("store.sqlite"),
        recorded,
        tell,
        tell_event: Arc::new(move |line, json| event_teller.tell_event(line, json)),
        observed,
        notices,
    });
    let recorder = recorder.map_err(recorder_problem)?;
    let webhooks = serving::begin_webhooks(webhooks, store)?;
    note(&format!("measuring {}", overview(&list.configuration, &list.series)));
    match keeps_samples(plan) {
        true => {
            note(&format!("samples are written to {}; stop with Ctrl-C", recorder.path().display()))
        }
        false => note("stop with Ctrl-C; --store DIR keeps the samples"),
    }
    let mut keeper = Keeper::new(&list, recorder, teller.clone());
    let control = WatchControl::default();
    let mut follower = Follower::new(plan, &list.configuration, files, edges, teller, visitor);
    follower.heed(hang_ups, reload_requests);
    let watched = measuring.wait_for(async {
        let mut watching = std::pin::pin!(watch(list, seed(), &control, &mut keeper));
        let end = async {
            match plan.length {
                Some(length) => tokio::time::sleep(length).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            watched = &mut watching => return watched,
            _ = attention.wait() => control.stop(),
            () = end => control.stop(),
            never = follower.follow(&measuring, &control) => match never {},
        }
        watching.await
    });
    let Ok(watched) = watched;
    if let Some(server) = server {
        server.finish();
    }
    let recorded = keeper.finish();
    webhooks.finish();
    pushes.finish();
    Ok((watched, recorded))
}

/// All series of `configuration`. Reports those that cannot be measured.
fn all_series(
    configuration: &Configuration,
    edges: &Edges,
    measuring: &Measuring,
) -> Result<Vec<Series>, Problem> {
    let (all, left_out) = series(configuration, edges, measuring.clients());
    tell_left_out(&left_out);
    if all.len() > MOST_SERIES {
        let (found, most) = (all.len(), MOST_SERIES);
        return Err(Problem::new(
            exit::USAGE,
            format!("{found} series: at most {most} are possible"),
        )
        .hint("watch fewer targets or variants, or use several monitors"));
    }
    Ok(all)
}

/// The series with their visitors. Must be called within the runtime that measures them.
fn watchlist(
    configuration: Configuration,
    series: Vec<Series>,
    measuring: &Measuring,
    visitor: MakeVisitor<'_>,
) -> Result<Watchlist, SetupError> {
    let visitors = series.iter().map(|one| visitor(one, measuring.equipment()).map(Rc::new));
    Ok(Watchlist { visitors: visitors.collect::<Result<_, _>>()?, configuration, series })
}

/// The parts of `list` that a recorder needs.
fn recorded(list: &Watchlist) -> RecordedSeries {
    let keep = &list.configuration.keep;
    let targets = &list.configuration.targets;
    let budgets: HashMap<&str, &Vec<Promise>> =
        targets.iter().map(|target| (target.name.as_str(), &target.budget)).collect();
    let budget = |series: &Series| {
        let target = series.cell.factors.first().map_or("", |factor| factor.value.as_str());
        budgets.get(target).copied().cloned().unwrap_or_default()
    };
    RecordedSeries {
        header: Arc::new(header(&list.configuration, &list.series)),
        periods: list.series.iter().map(|one| one.timing.every).collect(),
        budgets: list.series.iter().map(budget).collect(),
        raw_limits: RawLimits { age: keep.raw, bytes: keep.raw_size },
        retention: retention(keep),
    }
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
                true => problem.hint("wait until the other process ends, or give another --store"),
                false => problem,
            }
        }
        RecorderError::Thread(error) => {
            Problem::new(exit::USAGE, format!("could not start a thread: {error}"))
        }
    }
}

/// Makes text safe for a terminal: a configuration may come from anybody.
fn safe(line: &str) -> String {
    Style::default().safe(line)
}

fn tell_left_out(left_out: &[LeftOut]) {
    for LeftOut { target, variant, why } in left_out.iter().take(NAMED) {
        note(&safe(&format!("left out: {target}, {variant}: {why}")));
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
        // "series" is its own plural.
        format_args!("{} series", grouped(all.len() as u64)),
    )
}

/// The output of `--check-config` for a valid file.
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
    let names = configuration.edge_hosts().len() as u64;
    if names > 0 {
        text.push_str(&format!(
            "{} looked up at the start: one series per address and variant\n",
            count(names, "name")
        ));
    }
    text
}

/// The directory that samples are kept in.
fn store(asked: Option<&Path>) -> Result<PathBuf, Problem> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let set = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
    state.map(|state| state.join("firstbyte")).ok_or_else(|| {
        Problem::new(exit::USAGE, "no directory for samples: HOME is not set")
            .hint("give --store DIR")
    })
}

fn header(configuration: &Configuration, all: &[Series]) -> RunHeader {
    let axis = |index: usize| {
        let factor = |one: &Series| one.cell.factors.get(index).cloned();
        let (mut values, mut known) = (Vec::new(), HashSet::new());
        for factor in all.iter().filter_map(factor) {
            if known.insert(factor.value.clone()) {
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

/// The parts of a configuration that run files keep besides the cells.
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

/// Seed of the jitter. It varies, so that monitors with the same configuration do not send at the same moments.
fn seed() -> u64 {
    firstbyte_clock::Realtime::now().unix_nanos()
}

fn ended(watched: &Watched, kept: Option<&Path>) -> String {
    let Watched { samples, missed, lateness_p99 } = watched;
    let mut text = format!("ended: {}", count(*samples, "sample"));
    if *missed > 0 {
        text.push_str(&format!(", {missed} skipped because they were overdue"));
    }
    if let Some(late) = lateness_p99.filter(|late| *late > Duration::from_millis(100)) {
        let late = late.as_millis();
        text.push_str(&format!(", 99 % started within {late} ms of their due time"));
    }
    if let Some(path) = kept {
        text.push_str(&format!("\nsee: firstbyte report {}", path.display()));
    }
    text
}
