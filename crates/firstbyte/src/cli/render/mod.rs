//! Shows what was measured: on the terminal, and as the files that were asked for.

mod export;
mod study;

use std::io::{self, Write};
use std::path::Path;

use super::args::RenderArgs;
use super::exit::{self, Problem};
use super::{run_problem, terminal};
use crate::runs::{Dataset, Run};
use firstbyte_report::chart::Figure;
use firstbyte_report::warning::Warning;
use firstbyte_report::{chart, html, study_table};
use study::Material;

pub(super) use export::{sink, uses_stdout, whole};

/// Shows a run.
pub(super) fn run(run: &Run, args: &RenderArgs) -> Result<(), Problem> {
    show(&Dataset::read(&[run.path().to_owned()]).map_err(run_problem)?, args)
}

/// Shows what was read.
pub(super) fn show(data: &Dataset, args: &RenderArgs) -> Result<(), Problem> {
    let varied = data.axes.iter().filter(|axis| axis.values.len() > 1);
    check_by(args, &varied.map(|axis| axis.name.as_str()).collect::<Vec<_>>())?;
    warn(&data.warnings);
    export::samples(data, args)?;
    let on_terminal = !uses_stdout(args);
    if !on_terminal && args.html.is_none() && args.svg.is_none() && args.png.is_none() {
        return Ok(());
    }
    Material::of(data, args.by.as_deref())?.show(data, |study| {
        // First of all: what cannot be written after it takes nothing away. Nor does it take files away, where the
        // terminal is gone.
        let shown = match on_terminal {
            true => {
                let text = study_table::table(study, &terminal::style(args.color));
                io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Problem::output(&e))
            }
            false => Ok(()),
        };
        if let Some(path) = &args.html {
            export::whole(path, html::page(study).as_bytes())?;
        }
        if args.svg.is_some() || args.png.is_some() {
            pictures(&chart::figures(study), args.svg.as_deref(), args.png.as_deref())?;
        }
        shown
    })
}

/// Whether the axis of `--by` is one that is varied.
pub(super) fn check_by(args: &RenderArgs, varied: &[&str]) -> Result<(), Problem> {
    match &args.by {
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

/// Writes every figure into the directories that were asked for.
pub(super) fn pictures(
    figures: &[Figure],
    svg: Option<&Path>,
    png: Option<&Path>,
) -> Result<(), Problem> {
    for figure in figures {
        let file =
            |directory: &Path, ending: &str| directory.join(format!("{}.{ending}", figure.name));
        if let Some(directory) = svg {
            export::whole(&file(directory, "svg"), figure.svg().as_bytes())?;
        }
        if let Some(directory) = png {
            let path = file(directory, "png");
            let picture = figure.png().map_err(|error| {
                let message = format!("cannot write {}: {error}", path.display());
                Problem::new(exit::WRITE, message).hint("--svg has no such limit")
            })?;
            export::whole(&path, &picture)?;
        }
    }
    Ok(())
}

/// Tells the first few of what may be many.
fn warn(warnings: &[Warning]) {
    const SHOWN: usize = 10;
    warnings.iter().take(SHOWN).for_each(terminal::warn);
    if let Some(more) = warnings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        terminal::note(&format!("warning: and {more} more like these"));
    }
}
