//! Waiting for a child process the way a shell does.
//!
//! Signals that someone sent to this process alone are passed on to the child. Those that came from
//! the terminal are not: the terminal has sent them to the whole foreground process group, the child
//! included. Either way this process stays until the child has ended.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const PASSED_ON: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Which children to collect while waiting for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collect {
    /// That one.
    One,
    /// All: this is the process that orphans are given to.
    All,
}

/// Signals held back from this process and its later threads and forks, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldSignals {
    before: SigSet,
    signals: SignalFd,
}

impl HeldSignals {
    pub(crate) fn new() -> nix::Result<Self> {
        let mut held: SigSet = PASSED_ON.into_iter().collect();
        held.add(Signal::SIGCHLD);
        let signals = SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC)?;
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { before, signals })
    }

    /// The signals that were blocked before.
    pub(crate) fn before(&self) -> SigSet {
        self.before
    }

    /// Lets signals through again as before, in the calling thread.
    pub(crate) fn release(&self) -> nix::Result<()> {
        self.before.thread_set_mask()
    }

    /// The exit code of `child`: 128 and the signal's number if a signal ended it.
    pub(crate) fn wait_for(&self, child: Pid, collect: Collect) -> nix::Result<i32> {
        let whom = match collect {
            Collect::One => child,
            Collect::All => Pid::from_raw(-1),
        };
        loop {
            match waitpid(whom, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                    return Ok(128 + signal as i32);
                }
                Ok(WaitStatus::StillAlive) => self.next_signal(child)?,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next_signal(&self, child: Pid) -> nix::Result<()> {
        let info = match self.signals.read_signal() {
            Ok(Some(info)) => info,
            Ok(None) | Err(Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error),
        };
        let signal = Signal::try_from(info.ssi_signo as i32)?;
        // SI_USER and its like are not positive; SI_KERNEL, the terminal's, is.
        let sent_to_us = info.ssi_code <= 0;
        if PASSED_ON.contains(&signal) && sent_to_us {
            // A child that has just ended is found by the next waitpid.
            let _ = kill(child, signal);
        }
        Ok(())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // The mask was valid before; setting it again cannot fail.
        let _ = self.release();
    }
}
