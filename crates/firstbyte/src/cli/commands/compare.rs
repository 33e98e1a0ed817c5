//! `firstbyte compare URL --vary …`: measures several ways to connect side by side.

mod dry_run;
mod measure;

use std::path::{Path, PathBuf};

use crate::cli::exit::{self, Problem};
use crate::cli::terminal::note;
use crate::cli::{plan, render, run_problem};
use crate::plans::{ComparisonPlan, ComparisonSource, RenderPlan};
use crate::runs::Run;
use firstbyte_probe::experiment::{Experiment, ExperimentPlan, PlanError, RunPlan};

pub(in crate::cli) use measure::{measure, stored};

/// What to compare, how, and where the results go.
#[derive(Debug)]
pub(in crate::cli) struct Study {
    pub plan: ExperimentPlan,
    pub experiment: Experiment,
    pub run: RunFile,
    pub render: RenderPlan,
    pub silent: bool,
    /// The command as shown to people.
    pub command: Vec<String>,
    /// Files that the study reads.
    pub reads: Vec<PathBuf>,
}

#[derive(Debug)]
pub(in crate::cli) enum RunFile {
    /// A new file, with a generated name if `None`.
    New(Option<PathBuf>),
    /// An existing run to continue.
    Continued(PathBuf),
    /// A file that is overwritten if it exists.
    Overwritten(PathBuf),
}

impl RunFile {
    const fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::New(path) => path.as_ref(),
            Self::Continued(path) | Self::Overwritten(path) => Some(path),
        }
    }
}

pub(in crate::cli) fn run(plan: &ComparisonPlan) -> Result<u8, Problem> {
    let study = Study::new(plan.clone())?;
    if plan.dry_run {
        return dry_run::print(&study);
    }
    study.note_left_out();
    let measured = measure(&study)?;
    measured.render(&study.render)
}

impl Study {
    /// The study that `plan` asks for. For a new study, no file is read or opened.
    pub(in crate::cli) fn new(plan: ComparisonPlan) -> Result<Self, Problem> {
        let ComparisonPlan { what, command, reads, dry_run: _, render, silent } = plan;
        match what {
            ComparisonSource::New { experiment: plan, run } => {
                let experiment = prepare(&plan)?;
                let varied = experiment.axes.iter().filter(|axis| axis.values.len() > 1);
                let varied: Vec<&str> = varied.map(|axis| axis.name).collect();
                render::check_by(&render, &varied)?;
                let run = RunFile::New(run);
                Ok(Self { plan: *plan, experiment, run, render, silent, command, reads })
            }
            ComparisonSource::Continued { run, rounds, max_rounds } => {
                let (plan, command) = begun(&run)?;
                let experiment = more_of(&plan, rounds, max_rounds)?;
                let tls = &plan.options.tls;
                let certificate = tls.client_certificate.iter();
                let certificate =
                    certificate.flat_map(|(own, key)| [Some(own), key.as_ref()]).flatten();
                let reads = tls.ca_file.iter().chain(certificate).cloned().collect();
                let run = RunFile::Continued(run);
                Ok(Self { plan, experiment, run, render, silent, command, reads })
            }
        }
    }

    /// Reports the combinations that will not be measured.
    pub(in crate::cli) fn note_left_out(&self) {
        for (cell, why) in &self.experiment.matrix.left_out {
            note(&format!("left out: {}: {why}", cell.name()));
        }
    }
}

/// The plan and the command that the run in `file` was started with.
fn begun(file: &Path) -> Result<(ExperimentPlan, Vec<String>), Problem> {
    let header = Run::read_header(file).map_err(run_problem)?;
    if header.plan.get("command").is_some_and(|command| command == "monitor") {
        return Err(usage(format!("{}: samples of `monitor`", file.display()))
            .hint("firstbyte monitor continues the day's file by itself"));
    }
    match serde_json::from_value(header.plan) {
        Ok(RunPlan::Compare(plan)) => Ok((*plan, header.command)),
        Ok(RunPlan::Explain(_)) => Err(usage(format!("{}: a run of `explain`", file.display()))
            .hint("an explanation cannot be continued: start another run")),
        Err(_) => Err(usage(format!(
            "{}: contains no plan to continue: another version of firstbyte started it",
            file.display()
        ))
        .hint("start another run")),
    }
}

/// The experiment of `plan` with a different number of rounds, for this run only: the plan itself does not change.
fn more_of(
    plan: &ExperimentPlan,
    rounds: Option<u32>,
    max_rounds: Option<u32>,
) -> Result<Experiment, Problem> {
    match (&plan.until, rounds, max_rounds) {
        (Some(_), Some(_), _) => {
            return Err(usage("-n: the run measures until its intervals are narrow enough")
                .hint("--max-samples N allows more rounds"));
        }
        (None, _, Some(_)) => {
            return Err(usage("--max-samples: the run has a fixed number of rounds")
                .hint("-n N allows more"));
        }
        _ => {}
    }
    let mut experiment = prepare(plan)?;
    let more = max_rounds.or(rounds);
    experiment.design.rounds = more.unwrap_or(experiment.design.rounds);
    Ok(experiment)
}

fn prepare(plan: &ExperimentPlan) -> Result<Experiment, Problem> {
    let target = plan::target(plan.url.reveal())?;
    plan.prepare(target, &firstbyte_clients::clients()).map_err(|PlanError { what, hint }| {
        match hint {
            Some(hint) => usage(what).hint(hint),
            None => usage(what),
        }
    })
}

fn usage(message: impl Into<String>) -> Problem {
    Problem::new(exit::USAGE, message)
}
