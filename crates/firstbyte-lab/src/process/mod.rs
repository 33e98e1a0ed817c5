//! System support for a lab's processes: mounts and namespaces, signals, the report to the caller, running labs.
//!
//! Nothing here knows what a lab consists of.

mod mounts;
mod namespaces;
mod relay;
mod running;

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::PathBuf;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::options::LabOptions;
use crate::scenario::Scenario;
use crate::sys::start_with_signals;
use crate::warning::LabWarning;

pub(crate) use namespaces::enter_new as enter_new_namespaces;
pub(crate) use relay::{Collect, HeldSignals};
pub use running::RunningLab;
pub(crate) use running::{Published, publish};

/// What the lab reports to the caller, once.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum LabReport {
    Ready,
    Failed(LabError),
}

/// Sets up the mounts that a lab needs. Returns its scratch space, and warnings for people.
pub(crate) fn prepare_mounts(
    scenario: &Scenario,
    options: &LabOptions,
) -> Result<(PathBuf, Vec<LabWarning>), LabError> {
    mounts::make_private()?;
    let needed: Vec<PathBuf> = options
        .capture
        .iter()
        .chain(&options.logs)
        .cloned()
        .chain(std::env::current_exe())
        .collect();
    let scratch = mounts::scratch(&needed)?;
    let resolver: Vec<_> = scenario.resolver().into_iter().flat_map(|h| h.addresses()).collect();
    let warnings =
        if resolver.is_empty() { Vec::new() } else { mounts::use_resolver(&resolver, &scratch)? };
    Ok((scratch, warnings))
}

/// Waits for a command, passing signals on to it, and returns its exit code.
pub(crate) fn wait_for_command(command: &mut std::process::Command) -> Result<i32, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |reason: String| LabError::Command { program: program.clone(), reason };
    let signals = HeldSignals::new().map_err(|errno| failed(errno.desc().to_owned()))?;
    start_with_signals(command, signals.before());
    let child = command.spawn().map_err(|error| failed(describe(&error)))?;
    signals
        .wait_for(Pid::from_raw(child.id() as i32), Collect::One)
        .map_err(|errno| failed(errno.desc().to_owned()))
}

/// The system's message, without the error number that Rust appends.
fn describe(error: &std::io::Error) -> String {
    let words = |code| nix::errno::Errno::from_raw(code).desc().to_lowercase();
    error.raw_os_error().map_or_else(|| error.to_string(), words)
}

/// Waits until someone asks this process to end.
pub(crate) fn wait_for_end() {
    let mut ending = nix::sys::signal::SigSet::empty();
    ending.add(Signal::SIGTERM);
    ending.add(Signal::SIGINT);
    // Blocked, so that they can be waited for.
    let _ = ending.thread_block();
    let _ = ending.wait();
}

pub(crate) fn tell(report: &mut PipeWriter, message: &LabReport) {
    if let Ok(text) = serde_json::to_string(message) {
        // A caller that is gone does not need the report.
        let _ = writeln!(report, "{text}");
    }
}

/// Reads one line; `None` if all processes that could write it have ended.
pub(crate) fn read_report(report: PipeReader) -> Option<LabReport> {
    let mut line = String::new();
    BufReader::new(report).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

pub(crate) fn failed(step: &'static str) -> impl Fn(nix::errno::Errno) -> LabError {
    move |errno| LabError::System { step: step.to_owned(), reason: errno.desc().to_owned() }
}
