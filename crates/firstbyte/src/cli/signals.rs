//! Signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! During a measurement ([`Attention`]), the first signal asks it to end: results so far are shown and written, and
//! the exit code is 128 plus the signal's number. A second signal ends the process at once, and so does the first if
//! there is no [`Attention`]. A separate thread waits for signals, so that no long computation delays one. The thread
//! is started when first needed, because a lab forks, which requires a process with a single thread.
//!
//! A container's first process (PID 1) has no default handling of signals: [`stand_in`] takes its place.

mod sys;

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::exit::{self, Problem};
use super::terminal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndSignal {
    /// SIGHUP: the terminal is gone.
    Hangup,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl EndSignal {
    /// The exit code of a command that it ended: 128 plus the signal's number.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Hangup => exit::HUNG_UP,
            Self::Interrupt => exit::INTERRUPTED,
            Self::Terminate => exit::TERMINATED,
        }
    }

    /// The signal that ended a process with this exit code.
    pub(super) fn from_exit_code(code: u8) -> Option<Self> {
        [Self::Hangup, Self::Interrupt, Self::Terminate].into_iter().find(|s| s.exit_code() == code)
    }
}

/// While it lives, the first signal asks for an end instead of ending the process.
pub(super) struct Attention(&'static Watched);

impl Attention {
    pub(super) fn begin() -> Self {
        let watched = watched();
        watched.attending.fetch_add(1, Ordering::SeqCst);
        Self(watched)
    }

    /// The signal that asked for an end, if any.
    pub(super) fn asked(&self) -> Option<EndSignal> {
        *self.0.asked.borrow()
    }

    /// Waits for a signal that asks for an end.
    pub(super) async fn wait(&self) -> EndSignal {
        let mut asked = self.0.asked.subscribe();
        let signal = asked.wait_for(Option::is_some).await.ok().and_then(|signal| *signal);
        match signal {
            Some(signal) => signal,
            // Signals are not watched, so the system's default handling ends the process.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        self.0.attending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for a signal that asks for an end. Meanwhile only a second one ends the process.
pub(super) async fn asked_to_end() -> EndSignal {
    Attention::begin().wait().await
}

/// From now on SIGHUP does not end the process; the receiver counts them.
pub(super) fn hang_ups() -> watch::Receiver<u64> {
    watched().hang_ups.get_or_init(|| watch::Sender::new(0)).subscribe()
}

/// The exit code of a command that was asked to end: the signal's.
pub(super) fn exit_code() -> u8 {
    let asked = WATCHED.get().and_then(|watched| *watched.asked.borrow());
    asked.unwrap_or(EndSignal::Interrupt).exit_code()
}

/// As PID 1, lets signals end the process, since the kernel's default handling does not.
pub(super) fn stand_in() {
    if process::id() == 1 {
        watched();
    }
}

struct Watched {
    asked: watch::Sender<Option<EndSignal>>,
    /// Number of live [`Attention`]s.
    attending: AtomicUsize,
    /// Number of SIGHUPs; set if they do not end the process.
    hang_ups: OnceLock<watch::Sender<u64>>,
}

impl Watched {
    fn came(&self, signal: EndSignal) {
        if signal == EndSignal::Hangup
            && let Some(hang_ups) = self.hang_ups.get()
        {
            hang_ups.send_modify(|came| *came += 1);
            return;
        }
        // Read first: an `Attention` may be dropped as soon as the signal is sent.
        let attended = self.attending.load(Ordering::SeqCst) > 0;
        let is_first = self.asked.send_replace(Some(signal)).is_none();
        if !is_first || !attended {
            process::exit(signal.exit_code().into());
        }
    }
}

static WATCHED: OnceLock<Arc<Watched>> = OnceLock::new();

/// Signals are watched once this returns.
fn watched() -> &'static Watched {
    WATCHED.get_or_init(|| {
        let watched = Arc::new(Watched {
            asked: watch::Sender::new(None),
            attending: AtomicUsize::new(0),
            hang_ups: OnceLock::new(),
        });
        let (ready, is_ready) = mpsc::channel();
        let shared = Arc::clone(&watched);
        let run = move || {
            // If signals cannot be watched, the system's default handling stays and ends the process.
            let Ok(runtime) = runtime() else { return };
            runtime.block_on(async {
                let Ok(mut signals) = Signals::new() else { return };
                let _ = ready.send(());
                loop {
                    shared.came(signals.next().await);
                }
            });
        };
        if std::thread::Builder::new().name("signals".into()).spawn(run).is_ok() {
            // An error means that the thread has ended because it cannot watch signals.
            let _ = is_ready.recv();
        }
        watched
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Problem> {
    terminal::runtime()
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent under nohup(1).
    hangup: Option<Signal>,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let hangup = match sys::is_ignored(SignalKind::hangup().as_raw_value()) {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        Ok(Self { interrupt: interrupt?, terminate: terminate?, hangup })
    }

    async fn next(&mut self) -> EndSignal {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = hangup => EndSignal::Hangup,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }
}
