//! `firstbyte report FILE…`: shows earlier measurements: run files, tables of curl's timers, browsers' archives and
//! network logs, field data, servers' logs, and a monitor's store.

mod averages;
mod field;
pub(super) mod forms;
mod input;
mod netlog;
pub(super) mod server_log;
mod store;

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
    check_no_directory(&plan.files)?;
    let inputs = ReportInputs::recognise(&plan.files)?;
    if !matches!(inputs, ReportInputs::Store(_)) {
        check_no_period(plan)?;
    }
    match inputs {
        ReportInputs::Samples(files) => samples(&files, plan),
        ReportInputs::Archives => har::report(plan),
        ReportInputs::NetworkLog => netlog::run(plan),
        ReportInputs::FieldData => field::run(plan),
        ReportInputs::ServerLogs => server_log::run(plan),
        ReportInputs::Store(path) => store::run(&path, plan),
    }
}

/// Refuses directories, except a monitor's, whose store is shown.
fn check_no_directory(files: &[PathBuf]) -> Result<(), Problem> {
    let other = files.iter().find(|path| path.is_dir() && store::store_file(path).is_none());
    other.map_or(Ok(()), |path| {
        let what = format!("cannot read {}: a directory without store.sqlite", path.display());
        let hint = "give files, or the directory of a monitor (its --store)";
        Err(Problem::new(exit::READ, what).hint(hint))
    })
}

/// Refuses a period for files that are read whole; only a monitor's store has periods.
fn check_no_period(plan: &ReportPlan) -> Result<(), Problem> {
    // The reader reports a missing file.
    if plan.files.iter().any(|path| !path.exists()) {
        return Ok(());
    }
    let named = [
        (plan.since.is_some(), "--since"),
        (plan.until.is_some(), "--until"),
        (!plan.targets.is_empty(), "--target"),
    ];
    match named.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, flag)) => {
            let what = format!("{flag}: only possible with a monitor's store");
            let hint = "give the monitor's --store directory, or its store.sqlite";
            Err(Problem::new(exit::USAGE, what).hint(hint))
        }
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
