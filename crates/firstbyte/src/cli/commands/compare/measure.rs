//! Takes the samples of a study and writes each to the run file before the next one starts.

use std::path::{Path, PathBuf};

use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::{Row, Taken};
use firstbyte_core::timeline::Failure;

use super::{RunFile, Study};
use crate::cli::exit::{self, Problem};
use crate::cli::files::{Files, Opened};
use crate::cli::measuring::Measuring;
use crate::cli::progress::Progress;
use crate::cli::signals;
use crate::cli::terminal::{self, note};
use crate::cli::{render, run_problem};
use crate::plans::RenderPlan;
use crate::runs::{Creation, Done, Run, RunError, RunWriter, run_header};
use firstbyte_probe::experiment::{Before, Control, RunPlan};
use firstbyte_report::warning::Warning;

/// Result of a study's measurement.
pub(in crate::cli) struct Measured {
    /// The run file.
    pub path: PathBuf,
    pub interrupted: bool,
    /// The last failure of a sample that counts.
    failure: Option<Failure>,
    /// Outputs for the results.
    opened: Opened,
}

impl Measured {
    /// Shows the run and returns the exit code.
    pub(in crate::cli) fn render(self, plan: &RenderPlan) -> Result<u8, Problem> {
        render::run(self.read_run()?, plan)?;
        let code = self.code();
        self.opened.keep();
        if self.interrupted {
            note(&format!(
                "interrupted: only complete samples are shown; continue with: firstbyte compare --continue {}",
                self.path.display()
            ));
            return Ok(signals::exit_code());
        }
        Ok(code)
    }

    pub(in crate::cli) fn read_run(&self) -> Result<Run, Problem> {
        Run::read(&self.path).map_err(run_problem)
    }

    /// The exit code of the last sample that failed.
    pub(in crate::cli) fn code(&self) -> u8 {
        self.failure.as_ref().map_or(exit::OK, |failure| exit::code(&failure.cause))
    }
}

pub(in crate::cli) fn measure(study: &Study) -> Result<Measured, Problem> {
    let campaign = study.experiment.campaign();
    let plan = stored(&RunPlan::Compare(Box::new(study.plan.clone())))?;
    let header = run_header(&campaign, &study.experiment.axes, &study.command, plan);
    let measuring = Measuring::new()?;
    let visitors = measuring.visitors(&campaign)?;
    // Report everything that can be known in advance before writing.
    let opened = Files::default()
        .reads(&study.reads)
        .keeps(study.run.path())
        .exports_of_responses(&study.render.outputs)
        .open()?;
    let (mut writer, done, rows) = open(study, &header)?;
    let path = writer.path().to_owned();
    note(&format!("run file: {}", path.display()));

    let samples = campaign.design.samples(campaign.cells.len());
    let progress = Progress::new(samples, study.silent);
    progress.skip(done.len() as u64);
    let control = Control::default();
    let is_done = |round: u32, cell: usize| done.contains(round, cell);
    let before = Before { done: Some(&is_done), samples: done.len() as u64, rows };
    let mut sink = |taken: Taken| {
        progress.took_as(control.taken(), &taken.sample);
        writer.append(&taken).map_err(|error| full(&path, &error))
    };
    let ended = measuring.conduct(&campaign, &visitors, before, &control, &mut sink);
    progress.finish();
    let ended = ended?;
    for (variant, failure) in campaign.cells.iter().zip(&ended.unprepared) {
        if let Some(failure) = failure {
            let (cell, cause) = (variant.cell.name(), failure.cause.to_string());
            let needs_open = variant.visit.options.reuse;
            let need = if needs_open { "an open connection" } else { "a session" };
            terminal::warn(&Warning::Unprepared { cell, need, cause });
        }
    }
    if let (Some(until), Some(narrow), false) =
        (&study.experiment.until, ended.narrow_enough, ended.stopped || ended.all_failed)
    {
        let reached = if narrow { "reached" } else { "not reached" };
        note(&format!("{reached} after {} rounds: {}", ended.rounds, until.describe()));
    }
    if ended.all_failed {
        let why = ended.failure.as_ref().map_or_else(String::new, |failure| format!(": {failure}"));
        note(&format!("all attempts of the warm-up failed, and nothing more was measured{why}"));
        note("hint: --warmup 0 measures however many fail");
    }
    Ok(Measured { path, interrupted: ended.stopped, failure: ended.failure, opened })
}

/// A plan in the form that a run file stores.
pub(in crate::cli) fn stored(plan: &RunPlan) -> Result<serde_json::Value, Problem> {
    // Only file names can fail to be UTF-8.
    serde_json::to_value(plan).map_err(|_| {
        Problem::new(exit::USAGE, "a file's name is not UTF-8, and a run file keeps it as text")
            .hint("give the file another name")
    })
}

/// Starts the run file, or continues an existing one.
fn open(study: &Study, header: &RunHeader) -> Result<(RunWriter, Done, Vec<Row>), Problem> {
    let begin = |path: &Path, creation| {
        let writer = RunWriter::create(path, header, creation).map_err(run_problem)?;
        Ok((writer, Done::default(), Vec::new()))
    };
    let path = match &study.run {
        RunFile::Continued(path) => path,
        RunFile::Overwritten(path) => return begin(path, Creation::Overwrite),
        RunFile::New(Some(path)) => return begin(path, Creation::New),
        RunFile::New(None) => {
            let stamp = firstbyte_clock::file_stamp();
            let writer = create_anywhere(Path::new(""), &stamp, header).map_err(run_problem)?;
            return Ok((writer, Done::default(), Vec::new()));
        }
    };
    let (writer, resumed) = RunWriter::resume(path, Some(header)).map_err(run_problem)?;
    if let Some(bad) = &resumed.damaged {
        let kept = resumed.aside.as_ref();
        let kept = kept.map_or_else(String::new, |file| format!(", and are in {}", file.display()));
        note(&format!(
            "line {} of {} is damaged: {}; the run goes on from the line before it: {} bytes were cut off{kept}",
            bad.line,
            path.display(),
            bad.detail,
            resumed.torn_bytes
        ));
    } else if resumed.torn_bytes > 0 {
        note(&format!(
            "{}: the last {} bytes were half a sample and were cut off",
            path.display(),
            resumed.torn_bytes
        ));
    }
    Ok((writer, resumed.done, resumed.run.rows))
}

/// Starts a run in `directory` under the first unused name, even if another run started in the same second.
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

fn full(path: &Path, error: &std::io::Error) -> Problem {
    let why = firstbyte_probe::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
        .hint("the file has all earlier samples; continue with --continue")
}
