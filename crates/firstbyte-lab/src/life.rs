//! A lab's life, from the caller's fork to its end.
//!
//! Four processes, each the parent of the next: the *caller*; the *front*, which has the lab's namespaces
//! but is not in its process namespace; *init*, process 1 of that namespace, which collects orphans; the
//! *lab* itself, which owns network, servers and captures. Each dies with its parent, and everything in the
//! lab's namespaces dies with init. Whichever process is killed, the kernel leaves nothing behind.

use std::fs::File;
use std::io::{PipeReader, PipeWriter};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getpid, getppid, getsid, setsid};

use crate::error::LabError;
use crate::lab::Lab;
use crate::options::LabOptions;
use crate::process::{
    Collect, HeldSignals, LabReport, RunningLab, enter_new_namespaces, failed, read_report, tell,
};
use crate::scenario::Scenario;
use crate::sys::fork_with;

/// Runs `main` in a new lab, with the client's network, and returns its exit code.
///
/// `main` runs in its own process, which has no threads but the lab's. The calling process must have only
/// one thread. It is left unchanged and may run another lab afterwards. A lab does not outlive it. SIGTERM
/// and similar signals are passed on to `main`'s process.
///
/// After the fork, both processes have whatever `main` owns; the calling process drops it when the lab has
/// ended.
pub fn run(
    scenario: &Scenario,
    options: &LabOptions,
    main: impl FnOnce(&Lab) -> i32,
) -> Result<i32, LabError> {
    let signals = HeldSignals::new().map_err(failed("hold signals"))?;
    let mut main = Some(main);
    let (front, report) = start(scenario, options, Tie::Caller, &signals, &mut main)?;
    let outcome = read_report(report);
    let code = signals.wait_for(front, Collect::One).map_err(failed("wait for the lab"))?;
    match outcome {
        Some(LabReport::Ready) => Ok(code),
        Some(LabReport::Failed(error)) => Err(error),
        None => Err(LabError::Ended { code }),
    }
}

/// Starts a lab that runs until [`RunningLab::down`]; returns when it is ready.
pub fn up(scenario: &Scenario, options: &LabOptions) -> Result<RunningLab, LabError> {
    let signals = HeldSignals::new().map_err(failed("hold signals"))?;
    let (front, report) = start(scenario, options, Tie::None, &signals, &mut Some(Lab::stay))?;
    match read_report(report) {
        Some(LabReport::Ready) => {
            let name = &scenario.name;
            RunningLab::started_by(front).ok_or_else(|| LabError::System {
                step: format!("find the lab {name} that was just started"),
                reason: "its process is not in /proc".to_owned(),
            })
        }
        Some(LabReport::Failed(error)) => Err(error),
        None => {
            let code = signals.wait_for(front, Collect::One).map_err(failed("wait for the lab"))?;
            Err(LabError::Ended { code })
        }
    }
}

/// What a lab's lifetime depends on, besides its own processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// The calling process.
    Caller,
    /// Nothing.
    None,
}

/// Forks the front. Only the lab's process takes `main` out; the copies in the processes before it are never
/// run and never dropped.
fn start<F: FnOnce(&Lab) -> i32>(
    scenario: &Scenario,
    options: &LabOptions,
    tie: Tie,
    signals: &HeldSignals,
    main: &mut Option<F>,
) -> Result<(Pid, PipeReader), LabError> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(LabError::Threads { count: threads });
    }
    let (reader, writer) = std::io::pipe().map_err(|error| LabError::System {
        step: "open a pipe".to_owned(),
        reason: error.to_string(),
    })?;
    let caller = getpid();
    // A lab that ends with its caller needs no record of its session.
    let session = (tie == Tie::None).then(|| getsid(None).ok().map(Pid::as_raw)).flatten();
    let front = fork_with(|| {
        front(Start { scenario, options, tie, signals, report: writer, session }, caller, main)
    })
    .map_err(failed("fork"))?;
    Ok((front, reader))
}

/// Values that the processes on the way to the lab pass on.
struct Start<'a> {
    scenario: &'a Scenario,
    options: &'a LabOptions,
    tie: Tie,
    signals: &'a HeldSignals,
    report: PipeWriter,
    /// The caller's session.
    session: Option<i32>,
}

fn front<F: FnOnce(&Lab) -> i32>(mut start: Start<'_>, caller: Pid, main: &mut Option<F>) -> i32 {
    match start.tie {
        Tie::Caller => {
            die_with_parent();
            if getppid() != caller {
                return 1;
            }
        }
        Tie::None => {
            // A group leader cannot start a session, but a newly forked child is not a group leader.
            let _ = setsid();
        }
    }
    if let Err(error) = enter_new_namespaces() {
        return fail(&mut start.report, error);
    }
    let Ok((alive, front_alive)) = std::io::pipe() else { return 1 };
    let mut front_alive = Some(front_alive);
    let (signals, tie) = (start.signals, start.tie);
    let report_copy = start.report.try_clone();
    let init = fork_with(|| {
        front_alive.take();
        init(start, &alive, main)
    });
    let init = match (init, report_copy) {
        (Ok(init), _) => init,
        (Err(errno), Ok(mut report)) => return fail(&mut report, failed("fork")(errno)),
        (Err(_), Err(_)) => return 1,
    };
    if tie == Tie::None {
        forget_terminal();
    }
    signals.wait_for(init, Collect::One).unwrap_or(1)
}

fn init<F: FnOnce(&Lab) -> i32>(
    start: Start<'_>,
    front_alive: &PipeReader,
    main: &mut Option<F>,
) -> i32 {
    die_with_parent();
    // If the front had died before that line, its end of the pipe would be closed.
    let mut fds = [PollFd::new(front_alive.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::ZERO) != Ok(0) {
        return 1;
    }
    let _ = prctl::set_name(c"lab-init");
    let (signals, tie) = (start.signals, start.tie);
    let Ok(lab) = fork_with(|| lab(start, main)) else { return 1 };
    if tie == Tie::None {
        forget_terminal();
    }
    signals.wait_for(lab, Collect::All).unwrap_or(1)
}

fn lab<F: FnOnce(&Lab) -> i32>(mut start: Start<'_>, main: &mut Option<F>) -> i32 {
    let _ = prctl::set_name(c"firstbyte-lab");
    let lab = match Lab::set_up(start.scenario, start.options, start.session) {
        Ok(lab) => lab,
        Err(error) => return fail(&mut start.report, error),
    };
    if start.tie == Tie::None {
        forget_terminal();
    }
    tell(&mut start.report, &LabReport::Ready);
    drop(start.report);
    // Only here: the lab's threads keep signals blocked, so that signals reach `main`'s thread.
    let _ = start.signals.release();
    main.take().map_or(1, |main| main(&lab))
}

fn die_with_parent() {
    // Cannot fail with a valid signal.
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
}

/// Detaches from the terminal, or from pipes whose reader waits until every writer has closed them.
fn forget_terminal() {
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { return };
    let _ = dup2_stdin(&null);
    let _ = dup2_stdout(&null);
    let _ = dup2_stderr(&null);
}

fn fail(report: &mut PipeWriter, error: LabError) -> i32 {
    tell(report, &LabReport::Failed(error));
    1
}
