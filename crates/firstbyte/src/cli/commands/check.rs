//! `firstbyte check`: measures a plan and fails if a condition is met. Meant for pipelines.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use firstbyte_core::compare::describe_difference;
use firstbyte_core::run::Cell;
use firstbyte_core::stats::{Estimate, fewest_for_quantile};

use super::compare::{RunFile, Study, measure};
use crate::cli::condition::{self, Condition, Finding, Held, Limit};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::whole;
use crate::cli::files::Files;
use crate::cli::plan::comparison::whence;
use crate::cli::plan::plan_file::PlanFile;
use crate::cli::read_run;
use crate::cli::signals;
use crate::cli::terminal;
use crate::plans::{CheckPlan, CheckSource, Destination, RenderPlan};
use crate::runs::Run;
use firstbyte_report::Style;
use firstbyte_report::warning::Warning;

pub(in crate::cli) fn run(plan: &CheckPlan) -> Result<u8, Problem> {
    let conditions = plan.fail_if.iter().map(|text| Condition::read(text));
    let conditions: Vec<Condition> = conditions
        .collect::<Result<_, _>>()
        .map_err(|why| Problem::new(exit::USAGE, format!("--fail-if {why}")))?;
    let baseline = plan.baseline.as_deref().map(read_run).transpose()?;
    if let (None, Some(condition)) = (&baseline, conditions.iter().find(|c| c.needs_baseline())) {
        return Err(Problem::new(
            exit::USAGE,
            format!("--fail-if '{condition}' needs a --baseline RUN to compare with"),
        ));
    }
    // Report everything that can be known in advance before measuring.
    let (read, run) = match &plan.what {
        CheckSource::Plan { plan, run, .. } => (plan, run.as_ref()),
        CheckSource::Run(path) => (path, None),
    };
    let files =
        Files::default().reads(plan.baseline.iter().chain([read])).keeps(run).writes(&plan.summary);
    files.check()?;
    let opened;
    let (candidate, measured) = match &plan.what {
        CheckSource::Run(path) => {
            opened = files.open()?;
            (read_run(path)?, exit::OK)
        }
        CheckSource::Plan { plan, samples, run, silent } => {
            let study = study(plan, *samples, run.clone(), *silent)?;
            opened = files.reads(&study.reads).open()?;
            let cells: Vec<Cell> =
                study.experiment.matrix.variants.iter().map(|v| v.cell.clone()).collect();
            conditions.iter().try_for_each(|condition| check_about(condition, &cells))?;
            let rounds = usize::try_from(study.experiment.design.rounds).unwrap_or(usize::MAX);
            for condition in &conditions {
                let needed = fewest_for_quantile(condition.q);
                if rounds < needed {
                    let condition = condition.to_string();
                    terminal::warn(&Warning::TooFewRounds { condition, needed, rounds });
                }
            }
            let measured = measure(&study)?;
            let code = if measured.interrupted { signals::exit_code() } else { measured.code() };
            (measured.read_run()?, code)
        }
    };
    let verdicts = verdicts(&conditions, &candidate, baseline.as_ref())?;
    let failed = verdicts.iter().any(|verdict| verdict.held.finding == Finding::Met);
    let unmeasured = is_unmeasured(&conditions, &verdicts);
    let text = markdown(&verdicts, &candidate, baseline.as_ref(), unmeasured).unwrap_or_default();
    let text = Style::default().safe_lines(&text);
    whole(plan.summary.as_ref().unwrap_or(&Destination::StandardOutput), text.as_bytes())?;
    opened.keep();
    let open = verdicts.iter().any(|verdict| verdict.held.finding.is_open());
    // An unmeasured condition counts as failed, unless a failed measurement has a more specific exit code.
    Ok(match (failed, unmeasured, measured) {
        (true, ..) | (false, true, exit::OK) => exit::CONDITION_MET,
        (false, false, exit::OK) if open => exit::NOT_DECIDED,
        (_, _, measured) => measured,
    })
}

/// Whether a condition could not be evaluated in one of its cells, or none of its cells has such a time.
fn is_unmeasured(conditions: &[Condition], verdicts: &[Verdict<'_>]) -> bool {
    conditions.iter().any(|condition| {
        let mut about =
            verdicts.iter().filter(|v| v.condition == condition).map(|v| v.held.finding);
        about.clone().any(|finding| matches!(finding, Finding::Unmeasured(_)))
            || about.all(|finding| finding == Finding::NoSuchTime)
    })
}

/// Checks that `condition` applies to at least one of `cells`.
fn check_about(condition: &Condition, cells: &[Cell]) -> Result<(), Problem> {
    if cells.iter().any(|cell| condition.is_about(cell)) {
        return Ok(());
    }
    let message = format!("--fail-if '{condition}': no variant has these values");
    let names: Vec<String> = cells.iter().map(Cell::name).collect();
    Err(Problem::new(exit::USAGE, message).hint(format!("there are: {}", names.join("; "))))
}

fn study(
    file: &Path,
    samples: Option<u32>,
    run: Option<PathBuf>,
    silent: bool,
) -> Result<Study, Problem> {
    let plan = PlanFile::read(file)?.with_samples(samples)?;
    let study = Study::new(plan.comparison(&whence(file))?)?;
    study.note_left_out();
    Ok(Study { run: RunFile::New(run), silent, render: RenderPlan::default(), ..study })
}

/// Result of a condition in one cell.
struct Verdict<'a> {
    condition: &'a Condition,
    cell: String,
    held: Held,
}

fn verdicts<'a>(
    conditions: &'a [Condition],
    candidate: &Run,
    baseline: Option<&Run>,
) -> Result<Vec<Verdict<'a>>, Problem> {
    let cells = candidate.header.cells();
    let before = baseline.map(|run| run.header.cells());
    let mut verdicts = Vec::new();
    for condition in conditions {
        check_about(condition, &cells)?;
        let about = cells.iter().enumerate().filter(|(_, cell)| condition.is_about(cell));
        for (index, cell) in about {
            let values = condition::values(&candidate.rows, index, condition.metric);
            let twin = before.as_ref().and_then(|cells| same(cells, cell));
            let before = baseline
                .zip(twin)
                .map(|(run, index)| condition::values(&run.rows, index, condition.metric));
            let nothing = |finding| Held { finding, figure: None, baseline: None };
            let held = if !condition::is_measured(&candidate.rows, index) {
                nothing(Finding::Unmeasured("no sample succeeded"))
            } else if values.ns.is_empty() {
                nothing(Finding::NoSuchTime)
            } else {
                condition.hold(&values, before.as_ref())
            };
            verdicts.push(Verdict { condition, cell: cell.name(), held });
        }
    }
    Ok(verdicts)
}

fn same(cells: &[Cell], wanted: &Cell) -> Option<usize> {
    cells.iter().position(|cell| cell.factors == wanted.factors && cell.twin_of == wanted.twin_of)
}

/// The summary in Markdown.
fn markdown(
    verdicts: &[Verdict<'_>],
    candidate: &Run,
    baseline: Option<&Run>,
    unmeasured: bool,
) -> Result<String, std::fmt::Error> {
    let count = |finding| verdicts.iter().filter(|v| v.held.finding == finding).count();
    let met = count(Finding::Met);
    let open = verdicts.iter().filter(|v| v.held.finding.is_open()).count();
    let mut text = String::new();
    let head = match (met, open) {
        (1.., _) => format!("failed, {met} of {} conditions met", verdicts.len()),
        (0, _) if unmeasured => "failed, not everything could be measured".to_owned(),
        (0, 0) => "passed".to_owned(),
        (0, open) => format!("undecided, {open} of {} conditions", verdicts.len()),
    };
    writeln!(text, "# firstbyte check: {head}\n")?;
    writeln!(text, "| | fail if | variant | measured (95 % interval) | baseline |")?;
    writeln!(text, "|---|---|---|---|---|")?;
    for Verdict { condition, cell, held } in verdicts {
        let sign = match held.finding {
            Finding::Met => "❌ failed",
            Finding::NotMet => "✅ passed",
            Finding::Open | Finding::Unlike(_) | Finding::TooFew { .. } => "❔ undecided",
            Finding::NoSuchTime => "— has none",
            Finding::Unmeasured(_) => "❌ not measured",
        };
        let why = match held.finding {
            Finding::Unmeasured(why) => why.to_owned(),
            Finding::NoSuchTime => "its connections have no such time".to_owned(),
            Finding::TooFew { there, needed } => {
                format!("{there} of the {needed} samples needed")
            }
            Finding::Unlike(difference) => describe_difference(difference),
            Finding::Met | Finding::NotMet | Finding::Open => String::new(),
        };
        let figure = match &held.figure {
            Some(shown) if why.is_empty() => figure(condition, shown),
            Some(shown) => format!("{}, {why}", figure(condition, shown)),
            None => why,
        };
        let before = held.baseline.map_or("—".into(), milliseconds);
        writeln!(
            text,
            "| {sign} | `{condition}` | {} | {figure} | {before} |",
            cell.replace('|', "\\|")
        )?;
    }
    writeln!(text, "\nmeasured: `{}`", candidate.path().display())?;
    if let Some(baseline) = baseline {
        writeln!(text, "baseline: `{}`", baseline.path().display())?;
    }
    if open > 0 {
        writeln!(
            text,
            "\n\
             Not decided: the interval includes the limit, there are too few samples for an \
             interval, or the answers differ. More samples make the interval narrower. The exit code \
             is then {}: neither passed nor failed.",
            exit::NOT_DECIDED
        )?;
    }
    Ok(text)
}

/// Formats a figure: "312.4 ms (308.0 to 316.1)", "+7.9 % (+7.2 to +8.5)".
fn figure(condition: &Condition, figure: &Estimate) -> String {
    let share = matches!(condition.limit, Limit::GrownByShare(_));
    let sign = condition.needs_baseline();
    let number = |value: f64| match (share, sign) {
        (true, _) => format!("{:+.1}", value * 100.0),
        (false, true) => format!("{:+.3}", value / 1e6),
        (false, false) => format!("{:.3}", value / 1e6),
    };
    let unit = if share { "%" } else { "ms" };
    let interval = figure
        .interval
        .map_or_else(String::new, |i| format!(" ({} to {})", number(i.low), number(i.high)));
    format!("{} {unit}{interval}", number(figure.value))
}

fn milliseconds(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}
