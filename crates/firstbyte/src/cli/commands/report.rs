//! `firstbyte report FILE…`: shows what was measured before, as run files, tables of curl's timers, and what browsers wrote
//! down.

mod averages;
mod netlog;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use firstbyte_core::netlog::net_export;
use flate2::read::MultiGzDecoder;

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
        match ReportInput::recognise(path)? {
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
    fn recognise(path: &Path) -> Result<Self, Problem> {
        let mut begin = Vec::new();
        let read = unpacked(path).and_then(|file| file.take(BEGIN_BYTES).read_to_end(&mut begin));
        match read {
            // What cannot be unpacked is none of ours; whoever reads it says so.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(unreadable(path, error));
            }
            Err(_) => return Ok(Self::Samples),
        }
        Ok(match net_export::begins_like(&begin) {
            true => Self::NetworkLog,
            false => Self::Samples,
        })
    }
}

/// The bytes of `path`, unpacked where gzip packed them.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let mut file = File::open(path)?;
    let mut magic = Vec::new();
    file.by_ref().take(2).read_to_end(&mut magic)?;
    let is_packed = magic == GZIP;
    let whole = Cursor::new(magic).chain(file);
    Ok(if is_packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
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
