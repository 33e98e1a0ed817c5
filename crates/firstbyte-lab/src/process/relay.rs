//! Waiting for a child process the way a shell does.
//!
//! Signals sent to this process alone are passed on to the child. Signals from the terminal are not, because
//! the terminal sends them to the whole foreground process group, including the child. Either way this
//! process stays until the child has ended.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

const PASSED_ON: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Which children to collect while waiting for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collect {
    /// Only that one.
    One,
    /// All, in the process that adopts orphans.
    All,
}

/// Signals blocked in this process and its later threads and forks, until this is dropped.
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

    /// Signals that were blocked before.
    pub(crate) fn before(&self) -> SigSet {
        self.before
    }

    /// Restores the previous signal mask in the calling thread.
    pub(crate) fn release(&self) -> nix::Result<()> {
        self.before.thread_set_mask()
    }

    /// Waits for `child` and returns its exit code: 128 plus the signal's number if a signal ended it.
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
        // `SI_USER` and similar codes are not positive; `SI_KERNEL`, which the terminal's signals have, is.
        let sent_to_us = info.ssi_code <= 0;
        if PASSED_ON.contains(&signal) && sent_to_us {
            // If the child has just ended, the next waitpid finds it.
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
