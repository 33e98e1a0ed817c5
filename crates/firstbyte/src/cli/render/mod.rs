//! Shows measurements on the terminal and in the requested files.

mod examined;
mod export;

use std::path::Path;

use super::exit::{self, Problem};
use super::exports::{print, whole};
use super::{run_problem, terminal};
use crate::plans::{Destination, Outputs, RenderPlan};
use crate::runs::{Dataset, Run};
use crate::study::{ComparisonChoices, Material};
use firstbyte_report::chart::Figure;
use firstbyte_report::study::{Study, StudyStory};
use firstbyte_report::warning::Warning;
use firstbyte_report::{chart, html, markdown, percentiles, study_table};

pub(super) fn run(run: Run, plan: &RenderPlan) -> Result<(), Problem> {
    show(&Dataset::from_run(run), plan)
}

pub(super) fn show(data: &Dataset, plan: &RenderPlan) -> Result<(), Problem> {
    show_study(data, plan, None)
}

/// Shows the samples of a study, with its story in the page and as a picture.
pub(super) fn show_study(
    data: &Dataset,
    plan: &RenderPlan,
    story: Option<&StudyStory>,
) -> Result<(), Problem> {
    let varied = data.axes.iter().filter(|axis| axis.values.len() > 1);
    check_by(plan, &varied.map(|axis| axis.name.as_str()).collect::<Vec<_>>())?;
    warn(&data.warnings);
    let outputs = &plan.outputs;
    export::samples(data, outputs)?;
    let on_terminal = !outputs.use_stdout();
    let compared = outputs.html.is_some()
        || outputs.markdown.is_some()
        || outputs.percentiles.is_some()
        || outputs.draw();
    if !on_terminal && !compared {
        return Ok(());
    }
    let axes: Vec<String> = data.axes.iter().map(|axis| axis.name.clone()).collect();
    let examined =
        plan.packets.as_deref().map(|path| examined::examined(data, path)).transpose()?;
    let choices = ComparisonChoices {
        by: plan.by.as_deref(),
        with_percentiles: outputs.percentiles.is_some() || outputs.html.is_some(),
        compare_unlike: plan.compare_unlike,
    };
    let material = Material::from_dataset(data, choices, examined).map_err(run_problem)?;
    // A user who requested the comparison knows that the responses differ.
    if !plan.compare_unlike && !material.unlike_answers().is_empty() {
        let style = terminal::style(plan.colors);
        let answers = material.unlike_answers().iter().map(|answer| style.safe(answer)).collect();
        terminal::warn(&Warning::UnlikeAnswers { answers, compared: true });
    }
    material.show(data, |study| {
        let study = &Study { story, ..study.clone() };
        // Print first, so that a later failure to write a file loses nothing. Return its error last, so that a closed
        // terminal does not prevent the files.
        let shown = match on_terminal {
            true => print(&study_table::table(study, &terminal::style(plan.colors))),
            false => Ok(()),
        };
        if let Some(to) = &outputs.percentiles {
            whole(to, percentiles::csv(study.cells, &axes, study.percentiles).as_bytes())?;
        }
        if let Some(to) = &outputs.html {
            whole(to, html::page(study).as_bytes())?;
        }
        if let Some(to) = &outputs.markdown {
            whole(to, markdown::table(study).as_bytes())?;
        }
        if outputs.draw() {
            pictures(&chart::figures(study), outputs)?;
        }
        shown
    })
}

/// Checks that the axis of `--by` is varied.
pub(super) fn check_by(plan: &RenderPlan, varied: &[&str]) -> Result<(), Problem> {
    match &plan.by {
        Some(by) if !varied.contains(&by.as_str()) => {
            let problem = Problem::new(exit::USAGE, format!("--by {by}: that axis is not varied"));
            Err(match varied {
                [] => problem,
                varied => problem.hint(format!("one of {}", varied.join(", "))),
            })
        }
        _ => Ok(()),
    }
}

/// Writes every figure into the requested directories.
pub(super) fn pictures(figures: &[Figure], outputs: &Outputs) -> Result<(), Problem> {
    for figure in figures {
        let file = |directory: &Path, ending: &str| {
            Destination::File(directory.join(format!("{}.{ending}", figure.name)))
        };
        if let Some(directory) = &outputs.svg {
            whole(&file(directory, "svg"), figure.svg().as_bytes())?;
        }
        if let Some(directory) = &outputs.png {
            let to = file(directory, "png");
            let picture = figure.png().map_err(|error| {
                let message = format!("cannot write {}: {error}", to.path().display());
                Problem::new(exit::WRITE, message).hint("--svg has no such limit")
            })?;
            whole(&to, &picture)?;
        }
    }
    Ok(())
}

/// Prints the first few warnings.
fn warn(warnings: &[Warning]) {
    const SHOWN: usize = 10;
    warnings.iter().take(SHOWN).for_each(terminal::warn);
    if let Some(more) = warnings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        terminal::note(&format!("warning: and {more} more like these"));
    }
}
