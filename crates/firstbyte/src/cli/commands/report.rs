//! `firstbyte report FILE…`: shows what was measured before, as run files, tables of curl's timers, and what browsers wrote
//! down.

mod averages;
mod netlog;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use firstbyte_core::netlog::net_export;

use super::har;
use super::report_field;
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::{render, run_problem};
use crate::plans::ReportPlan;
use crate::runs::{Dataset, RunError};

pub(in crate::cli) fn run(plan: &ReportPlan) -> Result<u8, Problem> {
    if let Some(file) = &plan.averages {
        return averages::run(file, &plan.render);
    }
    if har::are_archives(&plan.files)? {
        return har::report(plan);
    }
    if report_field::is_asked(plan)? {
        return report_field::run(plan);
    }
    let files = Files::default()
        .reads(&plan.files)
        .reads(&plan.render.packets)
        .exports_of_responses(&plan.render.outputs);
    files.check()?;
    for path in &plan.files {
        match ReportInput::recognise(path) {
            ReportInput::Samples => {}
            ReportInput::NetworkLog => {
                alone(path, &plan.files, "a network log")?;
                return netlog::run(path, plan, &files);
            }
        }
    }
    let data = Dataset::read(&plan.files).map_err(run_problem)?;
    let opened = files.open()?;
    render::show(&data, &plan.render)?;
    opened.keep();
    Ok(exit::OK)
}

/// What a file is, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportInput {
    /// A run, or a table of curl's timers, which tell each other apart by themselves.
    Samples,
    /// What a browser's network stack wrote down.
    NetworkLog,
}

/// So much of a file is looked at.
const BEGIN_BYTES: u64 = 512;

impl ReportInput {
    fn recognise(path: &Path) -> Self {
        // What cannot be read once more is not looked at; what cannot be read is told by who reads it.
        if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Self::Samples;
        }
        let mut begin = Vec::new();
        // What was packed may be cut.
        let _ = har::opened(path).and_then(|file| file.take(BEGIN_BYTES).read_to_end(&mut begin));
        match net_export::begins_like(&begin) {
            true => Self::NetworkLog,
            false => Self::Samples,
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> Problem {
    run_problem(RunError::io(path, "read")(error))
}

/// `path`, which is `what`, has to be the only one: it has nothing that others could be compared with.
fn alone(path: &Path, files: &[PathBuf], what: &str) -> Result<(), Problem> {
    if files.len() == 1 {
        return Ok(());
    }
    let message = format!("{} is {what}, which is shown by itself", path.display());
    Err(Problem::new(exit::USAGE, message).hint("give one such file at a time"))
}
