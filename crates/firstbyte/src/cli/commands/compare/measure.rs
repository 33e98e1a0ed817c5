//! Takes the samples of a study, each of them into the run file before the next one is begun.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::run::{Row, Standing, Taken};
use firstbyte_core::timeline::{Failure, Sample};

use super::Study;
use crate::cli::args::RenderArgs;
use crate::cli::commands::probe::{interrupt, setup_problem};
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::progress::Progress;
use crate::cli::terminal::{self, note};
use crate::cli::{render, run_problem};
use crate::experiment::{Lanes, Visited, Visitor};
use crate::probe::NetProber;
use crate::runs::{Creation, Done, Run, RunError, RunWriter, environment};

/// What came of a study.
pub(in crate::cli) struct Measured {
    /// The run file.
    pub path: PathBuf,
    pub interrupted: bool,
    /// The last failure of a sample that counts.
    failure: Option<Failure>,
}

impl Measured {
    /// Shows the run, and gives the exit code.
    pub(in crate::cli) fn render(&self, args: &RenderArgs) -> Result<u8, Problem> {
        let run = Run::read(&self.path).map_err(run_problem)?;
        render::run(&run, args)?;
        if self.interrupted {
            note(&format!(
                "interrupted: what was complete is shown; go on with: firstbyte compare --continue {}",
                self.path.display()
            ));
            return Ok(exit::INTERRUPTED);
        }
        Ok(self.code())
    }

    /// The exit code: that of the last sample that failed.
    pub(in crate::cli) fn code(&self) -> u8 {
        self.failure.as_ref().map_or(exit::OK, |failure| exit::code(&failure.cause))
    }
}

/// Measures.
pub(in crate::cli) fn measure(study: &Study) -> Result<Measured, Problem> {
    let header = header(study);
    let runtime = terminal::runtime()?;
    let variants = &study.matrix.variants;
    let visitors: Vec<Visitor<NetProber>> = runtime.block_on(async {
        let visitor = |variant: &crate::experiment::Variant| {
            let prober = variant.prober().map_err(setup_problem)?;
            Ok(Rc::new((prober, variant.visit.target.clone())))
        };
        variants.iter().map(visitor).collect::<Result<_, Problem>>()
    })?;
    // What can be told before is told before anything is written.
    Files::default()
        .reads(&study.plan)
        .visits(&study.args.visit)
        .keeps(study.args.resume.as_ref().or(study.args.run.as_ref()))
        .renders(&study.args.render)
        .open()?;
    let (writer, done, mut rows) = open(study, &header)?;
    let path = writer.path().to_owned();
    note(&format!("run file: {}", path.display()));

    let samples = study.design.samples(variants.len());
    let progress = Progress::new(samples, study.args.silent);
    progress.skip(done.len() as u64);
    let mut last_failure = None;
    let mut unprepared: Vec<Option<Failure>> = vec![None; variants.len()];
    let mut reached = false;
    let rows_so_far = RefCell::new(std::mem::take(&mut rows));
    let writer = RefCell::new(writer);
    let goes_on = |round: u32| {
        let Some(until) = &study.until else { return true };
        if round > study.design.warmup {
            reached = until.is_reached(&rows_so_far.borrow(), variants.len());
        }
        !reached
    };
    let took = |visited: Visited| {
        let Visited { cell, sample, lateness, unprepared: failure } = visited;
        progress.took(&sample);
        if let Some(failure) = failure {
            unprepared[cell].get_or_insert(failure);
        }
        if !sample.warmup {
            last_failure = sample.failure().cloned().or(last_failure.take());
        }
        let standing = standing(study, cell, &sample);
        let cell = u16::try_from(cell).unwrap_or(u16::MAX);
        let taken = Taken { cell, standing, lateness, sample };
        rows_so_far.borrow_mut().push(taken.row());
        writer.borrow_mut().append(&taken).map_err(|error| full(&path, &error))
    };
    let finished =
        study.design.run(&visitors, |round, cell| done.contains(round, cell), goes_on, took);
    let interrupted = tokio::task::LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            biased;
            () = interrupt() => Ok(true),
            result = finished => result.map(|()| false),
        }
    });
    progress.finish();
    let interrupted = interrupted?;
    for (variant, failure) in variants.iter().zip(unprepared) {
        if let Some(failure) = failure {
            let name = variant.cell.name();
            note(&format!("{name}: what samples take for granted failed: {}", failure.cause));
        }
    }
    if let Some(until) = &study.until
        && !interrupted
    {
        let counted = rounds(&rows_so_far.borrow());
        if !reached && !until.is_reached(&rows_so_far.borrow(), variants.len()) {
            note(&format!("not reached after {counted} rounds: {}", until.describe()));
        } else {
            note(&format!("reached after {counted} rounds: {}", until.describe()));
        }
    }
    Ok(Measured { path, interrupted, failure: last_failure })
}

fn rounds(rows: &[Row]) -> usize {
    let mut rounds: Vec<u32> = rows.iter().filter(|r| !r.warmup).map(|r| r.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.len()
}

fn standing(study: &Study, cell: usize, sample: &Sample) -> Standing {
    study.matrix.variants[cell].standing(&sample.connection)
}

/// Begins the run file, or goes on with one.
fn open(study: &Study, header: &RunHeader) -> Result<(RunWriter, Done, Vec<Row>), Problem> {
    let Some(path) = &study.args.resume else {
        let writer = match &study.args.run {
            Some(path) => {
                let creation = if study.overwrite { Creation::Overwrite } else { Creation::New };
                RunWriter::create(path, header, creation)
            }
            None => create_anywhere(Path::new(""), &crate::clock::file_stamp(), header),
        };
        return Ok((writer.map_err(run_problem)?, Done::default(), Vec::new()));
    };
    let (writer, resumed) = RunWriter::resume(path, Some(header)).map_err(run_problem)?;
    if resumed.torn_bytes > 0 {
        note(&format!(
            "{}: the last {} bytes were half a sample and were cut off",
            path.display(),
            resumed.torn_bytes
        ));
    }
    let rows = Run::read(path).map_err(run_problem)?.rows;
    Ok((writer, resumed.done, rows))
}

/// Begins a run in `directory` under the first name that no other has, also of those begun in the
/// same second.
fn create_anywhere(
    directory: &Path,
    stamp: &str,
    header: &RunHeader,
) -> Result<RunWriter, RunError> {
    let mut name = format!("firstbyte-{stamp}.run");
    for number in 2.. {
        match RunWriter::create(&directory.join(&name), header, Creation::New) {
            Err(RunError::Exists { .. } | RunError::Locked { .. }) if number < 1_000 => {
                name = format!("firstbyte-{stamp}-{number}.run");
            }
            result => return result,
        }
    }
    unreachable!("a thousand names are tried, and the last one's result is given")
}

fn header(study: &Study) -> RunHeader {
    let design = &study.design;
    let axes = study.axes.iter().map(|axis| AxisRecord {
        name: axis.name.to_owned(),
        values: axis.values.iter().map(|value| value.written.clone()).collect(),
    });
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: crate::clock::Realtime::now().unix_nanos(),
        firstbyte_version: env!("CARGO_PKG_VERSION").into(),
        command: study.command.clone(),
        plan: serde_json::Value::Null,
        design: DesignRecord {
            warmup: design.warmup,
            rounds: study.until.is_none().then_some(design.rounds),
            until: study.args.until.clone(),
            seed: design.seed,
            concurrent: match &design.lanes {
                Lanes::One => 1,
                Lanes::Abreast => study.matrix.variants.len() as u32,
                Lanes::Several(lanes) => lanes.len() as u32,
            },
            interval_ns: design.interval.map(|i| u64::try_from(i.as_nanos()).unwrap_or(u64::MAX)),
        },
        axes: axes.collect(),
        cells: study.matrix.variants.iter().map(|v| CellRecord::of(&v.cell)).collect(),
        environment: environment::gather(),
    }
}

fn full(path: &Path, error: &std::io::Error) -> Problem {
    let why = crate::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
        .hint("what was measured before is in the file; go on with --continue")
}
