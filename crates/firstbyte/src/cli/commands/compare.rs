//! `firstbyte compare URL --vary …`: several ways to connect, measured side by side.

mod dry_run;
mod measure;
mod plan_file;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::args::{Command, CompareArgs, RenderArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::files::needed_by_visits;
use crate::cli::terminal::note;
use crate::cli::typed::Typed;
use crate::cli::{plan, render, run_problem};
use crate::runs::Run;
use firstbyte_probe::experiment::{Experiment, ExperimentPlan, PlanError, RunPlan};
use firstbyte_probe::probe::Secret;

pub(in crate::cli) use measure::{measure, stored};
pub(in crate::cli) use plan_file::{NumberOrText, PlanFile};

/// Rounds after which `--until` gives up, unless told otherwise.
const MAX_ROUNDS: u32 = 1_000;

/// What will be compared, how, and where that goes.
#[derive(Debug)]
pub(in crate::cli) struct Study {
    pub plan: ExperimentPlan,
    pub experiment: Experiment,
    pub outputs: Outputs,
    /// The command, for people.
    command: Vec<String>,
    /// Files that it needs.
    pub reads: Vec<PathBuf>,
}

/// Where a study goes.
#[derive(Debug, Default)]
pub(in crate::cli) struct Outputs {
    /// The run file; under a name of its own when absent.
    pub run: Option<PathBuf>,
    /// It is there and is gone on with.
    pub continues: bool,
    /// It is there and is overwritten.
    pub overwrite: bool,
    pub render: RenderArgs,
    pub silent: bool,
}

pub(in crate::cli) fn run(args: &CompareArgs, typed: &Typed) -> Result<u8, Problem> {
    let study = match (&args.resume, &args.plan) {
        (Some(file), _) => Study::continued(file, args, typed)?,
        (None, Some(file)) => {
            let mut study = PlanFile::read(file)?.study_beside(args, typed, &whence(file))?;
            study.reads.push(file.clone());
            study
        }
        (None, None) => Study::new(args, typed)?,
    };
    if args.dry_run {
        return dry_run::print(&study);
    }
    study.note_left_out();
    let measured = measure(&study)?;
    measured.render(&study.outputs.render)
}

fn whence(file: &Path) -> String {
    format!("--plan {}", file.display())
}

impl Study {
    /// The study that these words ask for, which come from `whence`.
    fn of_words(words: Vec<OsString>, whence: &str) -> Result<Self, Problem> {
        let words =
            [OsString::from("firstbyte"), OsString::from("compare")].into_iter().chain(words);
        let (cli, typed) = Typed::read(words).map_err(|error| {
            let text = error.to_string();
            // What follows the first paragraph is about a command that was not typed so.
            let what = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
            usage(format!("{whence}: {}", what.trim_end()))
        })?;
        match cli.command {
            Some(Command::Compare(args)) => Self::new(&args, &typed),
            _ => Err(usage(format!("{whence}: not what `compare` takes"))),
        }
    }

    /// The study that was typed; nothing is read or opened for it.
    pub(in crate::cli) fn new(args: &CompareArgs, typed: &Typed) -> Result<Self, Problem> {
        let plan = experiment_plan(args)?;
        let experiment = prepare(&plan)?;
        let varied = experiment.axes.iter().filter(|axis| axis.values.len() > 1);
        let varied: Vec<&str> = varied.map(|axis| axis.name).collect();
        render::check_by(&args.render, &varied)?;
        let outputs = Outputs {
            run: args.run.clone(),
            render: args.render.clone(),
            silent: args.silent,
            ..Outputs::default()
        };
        let reads = needed_by_visits(&args.visit);
        Ok(Self { plan, experiment, outputs, command: typed.shown(), reads })
    }

    /// Goes on with the run in `file`, by the plan in it.
    fn continued(file: &Path, args: &CompareArgs, typed: &Typed) -> Result<Self, Problem> {
        let header = Run::read(file).map_err(run_problem)?.header;
        let plan = match serde_json::from_value(header.plan) {
            Ok(RunPlan::Compare(plan)) => *plan,
            Ok(RunPlan::Explain(_)) => {
                return Err(usage(format!("{}: a run of `explain`", file.display()))
                    .hint("an explanation is measured as a whole: begin another run"));
            }
            Err(_) => {
                return Err(usage(format!(
                    "{}: it holds no plan to go on with: another version of firstbyte has begun it",
                    file.display()
                ))
                .hint("begin another run"));
            }
        };
        if let Some(other) = typed.other_than(&beside_continue()) {
            return Err(usage(format!(
                "{other}: --continue goes on with the experiment as it was begun"
            ))
            .hint("-n, --max-samples and outputs can be given beside it; begin another run for all else"));
        }
        match (&plan.until, typed.has("samples"), args.max_samples) {
            (Some(_), true, _) => {
                return Err(usage("-n: the run goes on until its intervals are narrow enough")
                    .hint("--max-samples N allows more rounds"));
            }
            (None, _, Some(_)) => {
                return Err(
                    usage("--max-samples: the run has a number of rounds").hint("-n N allows more")
                );
            }
            _ => {}
        }
        // The plan stays what it was; this once, there are more rounds of it.
        let mut experiment = prepare(&plan)?;
        let more = args.max_samples.or(typed.has("samples").then_some(args.samples));
        experiment.design.rounds = more.unwrap_or(experiment.design.rounds);
        let outputs = Outputs {
            run: Some(file.to_owned()),
            continues: true,
            render: args.render.clone(),
            silent: args.silent,
            ..Outputs::default()
        };
        let tls = &plan.options.tls;
        let certificate = tls.client_certificate.iter();
        let certificate = certificate.flat_map(|(own, key)| [Some(own), key.as_ref()]).flatten();
        let reads = tls.ca_file.iter().chain(certificate).cloned().collect();
        Ok(Self { plan, experiment, outputs, command: header.command, reads })
    }

    /// Says which combinations will not be measured.
    pub(in crate::cli) fn note_left_out(&self) {
        for (cell, why) in &self.experiment.matrix.left_out {
            note(&format!("left out: {cell}: {why}"));
        }
    }
}

/// What can be typed beside `--continue`, by name.
fn beside_continue() -> Vec<String> {
    let outputs = RenderArgs::augment_args(clap::Command::new("outputs"));
    let outputs = outputs.get_arguments().map(|argument| argument.get_id().to_string());
    let others = ["resume", "samples", "max_samples", "silent", "dry_run"].map(str::to_owned);
    outputs.chain(others).collect()
}

/// What these arguments mean.
fn experiment_plan(args: &CompareArgs) -> Result<ExperimentPlan, Problem> {
    let url = args.url.as_ref().ok_or_else(|| usage("no URL, neither here nor in the plan"))?;
    if args.visit.location {
        return Err(usage("-L: a comparison measures single connections")
            .hint("compare the URL that the redirects lead to"));
    }
    let options = plan::options(&args.visit, None, Some(plan::SAMPLE_TIMEOUT))?;
    let rounds = match (&args.until, args.max_samples) {
        (Some(_), most) => most.unwrap_or(MAX_ROUNDS),
        (None, None) => args.samples,
        (None, Some(most)) => {
            return Err(usage("--max-samples is where --until gives up, and there is no --until")
                .hint(format!(
                    "-n {most} takes so many rounds; --until median±1% goes on until the intervals \
                     are as narrow as that"
                )));
        }
    };
    let secrets = |texts: &[crate::cli::typed::AxisText]| -> Vec<Secret<String>> {
        texts.iter().map(|text| Secret::new(text.0.clone())).collect()
    };
    let concurrent = args.concurrent.as_deref().map(|names| {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    });
    let interval = plan::interval(args.interval.as_deref())?;
    Ok(ExperimentPlan {
        url: Secret::new(url.0.clone()),
        vary: secrets(&args.vary),
        ways: secrets(&args.way),
        warmup: args.warmup,
        rounds,
        until: args.until.clone(),
        interval_ns: interval.map(|i| u64::try_from(i.as_nanos()).unwrap_or(u64::MAX)),
        concurrent,
        aa: args.aa,
        seed: args.seed,
        early_data_any_method: args.early_data_any_method,
        options,
    })
}

fn prepare(plan: &ExperimentPlan) -> Result<Experiment, Problem> {
    let target = plan::target(plan.url.reveal())?;
    plan.prepare(target).map_err(|PlanError { what, hint }| match hint {
        Some(hint) => usage(what).hint(hint),
        None => usage(what),
    })
}

fn usage(message: impl Into<String>) -> Problem {
    Problem::new(exit::USAGE, message)
}
