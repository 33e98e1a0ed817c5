//! Signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP.
//!
//! While something is being measured ([`Attention`]), the first of them asks for an end: what was measured is shown
//! and written, and the exit code is 128 and the signal's number. A second one ends the process at once, and so
//! does the first where nobody attends. They are waited for by a thread of their own, so that no long computation keeps one
//! back. The thread begins when it is first needed: a lab is made by forking, which takes a process of one thread.
//!
//! As a container's first process (PID 1) there is no default handling: [`stand_in`] takes its place.

mod sys;

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::exit::{self, Problem};
use super::terminal;

/// A signal that ends a command.
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
    /// The exit code of a command that it ended: 128 and the signal's number.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Hangup => exit::HUNG_UP,
            Self::Interrupt => exit::INTERRUPTED,
            Self::Terminate => exit::TERMINATED,
        }
    }

    /// The signal that a process ended by with this exit code.
    pub(super) fn from_exit_code(code: u8) -> Option<Self> {
        [Self::Hangup, Self::Interrupt, Self::Terminate].into_iter().find(|s| s.exit_code() == code)
    }
}

/// As long as it lives, the first signal does not end the process but asks for an end.
pub(super) struct Attention(&'static Watched);

impl Attention {
    pub(super) fn begin() -> Self {
        let watched = watched();
        watched.attending.fetch_add(1, Ordering::SeqCst);
        Self(watched)
    }

    /// The signal that has asked for an end.
    pub(super) fn asked(&self) -> Option<EndSignal> {
        *self.0.asked.borrow()
    }

    /// Waits for the signal that asks for an end.
    pub(super) async fn wait(&self) -> EndSignal {
        let mut asked = self.0.asked.subscribe();
        let signal = asked.wait_for(Option::is_some).await.ok().and_then(|signal| *signal);
        match signal {
            Some(signal) => signal,
            // Nobody watches: the system's own handling ends the process.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        self.0.attending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for the signal that asks for an end; meanwhile none ends the process but a second one.
pub(super) async fn asked_to_end() -> EndSignal {
    Attention::begin().wait().await
}

/// From now on SIGHUP does not end the process: each one is told to who asks here.
pub(super) fn hang_ups() -> watch::Receiver<u64> {
    watched().hang_ups.get_or_init(|| watch::Sender::new(0)).subscribe()
}

/// The exit code of a command that was asked to end: its signal's.
pub(super) fn exit_code() -> u8 {
    let asked = WATCHED.get().and_then(|watched| *watched.asked.borrow());
    asked.unwrap_or(EndSignal::Interrupt).exit_code()
}

/// As PID 1, lets signals end the process, which nobody else would.
pub(super) fn stand_in() {
    if process::id() == 1 {
        watched();
    }
}

struct Watched {
    asked: watch::Sender<Option<EndSignal>>,
    /// How many attend.
    attending: AtomicUsize,
    /// How many SIGHUPs came, where they do not end the process.
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
        // Looked up first: who attends goes away as soon as it is told.
        let attended = self.attending.load(Ordering::SeqCst) > 0;
        let is_first = self.asked.send_replace(Some(signal)).is_none();
        if !is_first || !attended {
            process::exit(signal.exit_code().into());
        }
    }
}

static WATCHED: OnceLock<Arc<Watched>> = OnceLock::new();

/// From its return on signals are watched.
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
            // Where signals cannot be watched the system's own handling stays: they end the process.
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
            // An error is the end of the thread, which has said why it cannot watch by not watching.
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
