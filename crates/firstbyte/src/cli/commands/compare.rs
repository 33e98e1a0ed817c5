//! `firstbyte compare URL --vary …`: several ways to connect, measured side by side.

mod dry_run;
mod measure;
mod plan_file;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::cli::args::{Cli, Command, CompareArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::terminal::note;
use crate::cli::{plan, render, run_problem};
use crate::experiment::{Axis, Campaign, Design, Lanes, Matrix, Until, Visit};
use crate::probe::options::SessionUse;
use crate::probe::shown_url::without_users;
use crate::runs::Run;

pub(in crate::cli) use measure::measure;
pub(in crate::cli) use plan_file::PlanFile;

/// Rounds after which `--until` gives up, unless told otherwise.
const MAX_ROUNDS: u32 = 1_000;

/// What will be compared, and how.
#[derive(Debug)]
pub(in crate::cli) struct Study {
    pub axes: Vec<Axis>,
    pub matrix: Matrix,
    pub design: Design,
    pub until: Option<Until>,
    pub args: CompareArgs,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// The file that the experiment was read from.
    pub plan: Option<PathBuf>,
    /// A run file that is there already is overwritten.
    pub overwrite: bool,
}

pub(in crate::cli) fn run(args: &CompareArgs) -> Result<u8, Problem> {
    let study = Study::from_arguments(args, &typed(std::env::args_os())?)?;
    if args.dry_run {
        return dry_run::print(&study);
    }
    for (cell, why) in &study.matrix.left_out {
        note(&format!("left out: {cell}: {why}"));
    }
    let measured = measure(&study)?;
    measured.render(&study.args.render)
}

/// The command line, which the run file keeps as text.
pub(in crate::cli) fn typed(words: impl Iterator<Item = OsString>) -> Result<Vec<String>, Problem> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            usage(format!("{word:?} is not UTF-8, and a run file keeps the command as text"))
                .hint("give the file another name")
        })
    };
    words.map(text).collect()
}

impl Study {
    pub(in crate::cli) fn campaign(&self) -> Campaign<'_> {
        Campaign { cells: &self.matrix.variants, design: &self.design, until: self.until.as_ref() }
    }

    /// The study that these arguments ask for: `typed` is the whole command line.
    pub(in crate::cli) fn from_arguments(
        args: &CompareArgs,
        typed: &[String],
    ) -> Result<Self, Problem> {
        if let Some(file) = &args.resume {
            let header = Run::read(file).map_err(run_problem)?.header;
            let again = reparse(&header.command, &format!("the first line of {}", file.display()))?;
            let mut study = Self::new(&again, header.command)?;
            study.continues(file, args, typed)?;
            return Ok(study);
        }
        match &args.plan {
            Some(file) => {
                let command = plan_file::command(file, args.url.as_deref(), typed)?;
                let args = reparse(&command, &format!("--plan {}", file.display()))?;
                Ok(Self { plan: Some(file.clone()), ..Self::new(&args, command)? })
            }
            None => Self::new(args, typed.to_vec()),
        }
    }

    /// The study that these words ask for, as if they had been typed.
    pub(in crate::cli) fn of_words(words: &[String]) -> Result<Self, Problem> {
        Self::from_arguments(&reparse(words, "compare")?, words)
    }

    /// Goes on with the run in `file`, as far as the experiment stays what it was.
    fn continues(
        &mut self,
        file: &Path,
        args: &CompareArgs,
        typed: &[String],
    ) -> Result<(), Problem> {
        // A run can be made longer.
        let longer = typed.iter().any(|word| {
            let short = word.strip_prefix('-').filter(|word| !word.starts_with('-'));
            word.starts_with("--samples") || short.is_some_and(|word| word.contains('n'))
        });
        let plain = ["firstbyte", "compare", "--continue", "-"].map(str::to_owned);
        let plain = CompareArgs {
            resume: args.resume.clone(),
            samples: args.samples,
            max_samples: args.max_samples,
            render: args.render.clone(),
            silent: args.silent,
            dry_run: args.dry_run,
            ..reparse(&plain, "--continue")?
        };
        if format!("{args:?}") != format!("{plain:?}") {
            return Err(usage("--continue goes on with the experiment as it was begun")
                .hint("-n, --max-samples and outputs can be given beside it; begin another run for all else"));
        }
        self.args.resume = Some(file.to_owned());
        self.args.render.clone_from(&args.render);
        self.args.silent = args.silent;
        match (&self.until, longer, args.max_samples) {
            (Some(_), true, _) => {
                return Err(usage("-n: the run goes on until its intervals are narrow enough")
                    .hint("--max-samples N allows more rounds"));
            }
            (None, _, Some(_)) => {
                return Err(
                    usage("--max-samples: the run has a number of rounds").hint("-n N allows more")
                );
            }
            (None, true, None) => self.design.rounds = args.samples,
            (Some(_), _, Some(most)) => self.design.rounds = most,
            (_, false, None) => {}
        }
        self.args.samples = if longer { args.samples } else { self.args.samples };
        Ok(())
    }

    fn new(args: &CompareArgs, command: Vec<String>) -> Result<Self, Problem> {
        let url =
            args.url.as_deref().ok_or_else(|| usage("no URL, neither here nor in the plan"))?;
        let mut options = plan::options(&args.visit, None, Some(plan::SAMPLE_TIMEOUT))?;
        if args.visit.location {
            return Err(usage("-L: a comparison measures single connections")
                .hint("compare the URL that the redirects lead to"));
        }
        if args.early_data_any_method {
            options.tls.session = SessionUse::EarlyData { any_method: true };
        }
        let mut base = Visit { target: plan::target(url)?, options };
        let axes = axes(args)?;
        let varied = axes.iter().filter(|axis| axis.values.len() > 1);
        let varied: Vec<&str> = varied.map(|axis| axis.name).collect();
        render::check_by(&args.render, &varied)?;
        if args.early_data_any_method && !axes.iter().any(|axis| axis.name == "session") {
            base.options.tls.session = SessionUse::Full;
        }
        let mut matrix = Matrix::new(&axes, &base);
        if matrix.variants.is_empty() {
            let (cell, why) = matrix.left_out.first().cloned().unwrap_or_default();
            return Err(usage(format!("none of the combinations can be had: {cell}: {why}")));
        }
        if args.aa {
            matrix.add_twin();
        }
        if matrix.variants.len() > usize::from(u16::MAX) {
            return Err(usage(format!("{} cells are too many", matrix.variants.len())));
        }
        let until = args.until.as_deref().map(Until::read).transpose();
        let until = until.map_err(|why| usage(format!("--until {why}")))?;
        let rounds = match (&until, args.max_samples) {
            (Some(_), most) => most.unwrap_or(MAX_ROUNDS),
            (None, None) => args.samples,
            (None, Some(most)) => {
                return Err(usage(
                    "--max-samples is where --until gives up, and there is no --until",
                )
                .hint(format!(
                    "-n {most} takes so many rounds; --until median±1% goes on until the \
                         intervals are as narrow as that"
                )));
            }
        };
        Ok(Self {
            design: Design {
                warmup: args.warmup,
                rounds,
                seed: args.seed,
                interval: plan::interval(args.interval.as_deref())?,
                lanes: lanes(args.concurrent.as_deref(), &axes, &matrix)?,
                ..Design::default()
            },
            axes,
            matrix,
            until,
            args: args.clone(),
            command: named(command),
            plan: None,
            overwrite: false,
        })
    }
}

fn axes(args: &CompareArgs) -> Result<Vec<Axis>, Problem> {
    let mut axes = Vec::new();
    if !args.way.is_empty() {
        let wrong = |why| usage(without_users(&format!("--way: {why}")));
        axes.push(Axis::read_ways(&args.way).map_err(wrong)?);
    }
    for text in &args.vary {
        let wrong = |why| usage(without_users(&format!("--vary {why}")));
        let axis = Axis::read(text).map_err(wrong)?;
        if axes.iter().any(|other| other.name == axis.name) {
            return Err(usage(format!("--vary {} is there twice", axis.name))
                .hint(format!("put all values behind one: --vary {}=VALUE,VALUE", axis.name)));
        }
        axes.push(axis);
    }
    if axes.is_empty() && !args.aa {
        return Err(usage("there is nothing to compare").hint("--vary tls=1.2,1.3, for example"));
    }
    Ok(axes)
}

/// The command under the program's name, wherever it lies on this machine.
pub(in crate::cli) fn named(mut command: Vec<String>) -> Vec<String> {
    if let Some(program) = command.first_mut() {
        *program = "firstbyte".into();
    }
    command
}

/// Which cells are visited at the same time.
fn lanes(concurrent: Option<&str>, axes: &[Axis], matrix: &Matrix) -> Result<Lanes, Problem> {
    let Some(names) = concurrent else { return Ok(Lanes::One) };
    let names: Vec<&str> = names.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
    if names.is_empty() {
        return Ok(Lanes::Abreast);
    }
    if let Some(name) = names.iter().find(|name| axes.iter().all(|axis| axis.name != **name)) {
        return Err(usage(format!("--concurrent={name}: that axis is not varied")));
    }
    let mut lanes: Vec<(Vec<&str>, Vec<usize>)> = Vec::new();
    for (index, variant) in matrix.variants.iter().enumerate() {
        let factors = variant.cell.factors.iter();
        let key: Vec<&str> = factors
            .filter(|factor| names.contains(&factor.axis.as_str()))
            .map(|factor| factor.value.as_str())
            .collect();
        match lanes.iter_mut().find(|(other, _)| *other == key) {
            Some((_, lane)) => lane.push(index),
            None => lanes.push((key, vec![index])),
        }
    }
    Ok(Lanes::Several(lanes.into_iter().map(|(_, lane)| lane).collect()))
}

/// Reads a command line of `compare` again, which comes from `whence`.
fn reparse(words: &[String], whence: &str) -> Result<CompareArgs, Problem> {
    let cli = Cli::try_parse_from(words.iter().map(OsString::from)).map_err(|error| {
        let text = error.to_string();
        // What follows the first paragraph is about a command that was not typed so.
        let what = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        usage(format!("{whence}: {}", what.trim_end()))
    })?;
    match cli.command {
        Some(Command::Compare(args)) => Ok(*args),
        _ => Err(usage("not a command line of `compare`")),
    }
}

fn usage(message: impl Into<String>) -> Problem {
    Problem::new(exit::USAGE, message)
}
