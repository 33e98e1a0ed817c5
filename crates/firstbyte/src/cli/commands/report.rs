//! `firstbyte report FILE…`: shows what was measured before, as run files, tables of curl's timers, and what browsers wrote
//! down.

mod averages;
mod field;
mod input;
mod netlog;
pub(super) mod server_log;

use std::io;
use std::path::{Path, PathBuf};

use self::input::ReportInputs;
use super::har;
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::{render, run_problem};
use crate::plans::ReportPlan;
use crate::runs::{Dataset, RunError, SampleFile};

pub(in crate::cli) fn run(plan: &ReportPlan) -> Result<u8, Problem> {
    if let Some(file) = &plan.averages {
        return averages::run(file, &plan.render);
    }
    match ReportInputs::recognise(&plan.files)? {
        ReportInputs::Samples(files) => samples(&files, plan),
        ReportInputs::Archives => har::report(plan),
        ReportInputs::NetworkLog => netlog::run(plan),
        ReportInputs::FieldData => field::run(plan),
        ReportInputs::ServerLogs => server_log::run(plan),
    }
}

fn samples(paths: &[(PathBuf, SampleFile)], plan: &ReportPlan) -> Result<u8, Problem> {
    let files = Files::default()
        .reads(&plan.files)
        .reads(&plan.render.packets)
        .exports_of_responses(&plan.render.outputs);
    files.check()?;
    let data = Dataset::read(paths).map_err(run_problem)?;
    let opened = files.open()?;
    render::show(&data, &plan.render)?;
    opened.keep();
    Ok(exit::OK)
}

fn unreadable(path: &Path, error: io::Error) -> Problem {
    run_problem(RunError::io(path, "read")(error))
}
