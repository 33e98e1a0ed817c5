//! Samples on their way to who keeps them, and what is told of them on the way: series that begin to fail, or no longer do.

use std::time::Duration;

use firstbyte_clock::{Monotonic, time_stamp};
use firstbyte_core::run::Taken;
use firstbyte_monitor::watch::Series;
use firstbyte_report::units::count;

use super::safe;
use crate::cli::progress::Watching;
use crate::cli::terminal::note;
use crate::recording::{Recorded, Recorder};

/// How often the line on the terminal changes.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Who says what happens, with its time.
#[derive(Clone)]
pub(super) struct Teller(Option<Watching>);

impl Teller {
    pub(super) fn new(silent: bool) -> Self {
        Self((!silent).then(Watching::new))
    }

    pub(super) fn tell(&self, what: &str) {
        let line = safe(&format!("{} {what}", time_stamp()));
        match &self.0 {
            Some(watching) => watching.say(&line),
            None => note(&line),
        }
    }
}

pub(super) struct Keeper<'a> {
    all: &'a [Series],
    recorder: Recorder,
    failing: Vec<bool>,
    samples: u64,
    failures: u64,
    teller: Teller,
    shown: Monotonic,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(all: &'a [Series], recorder: Recorder, teller: Teller) -> Self {
        let failing = vec![false; all.len()];
        Self { all, recorder, failing, samples: 0, failures: 0, teller, shown: Monotonic::now() }
    }

    pub(super) fn keep(&mut self, taken: Taken) {
        let cell = usize::from(taken.cell);
        let failure = taken.sample.failure();
        self.samples += 1;
        self.failures += u64::from(failure.is_some());
        let was_failing = std::mem::replace(&mut self.failing[cell], failure.is_some());
        match failure {
            Some(failure) if !was_failing => {
                let (name, kind) = (self.all[cell].cell.name(), failure.failure_type());
                self.teller.tell(&format!("{name}: fails: {} ({kind})", failure.cause));
            }
            None if was_failing => {
                self.teller.tell(&format!("{}: no longer fails", self.all[cell].cell.name()));
            }
            _ => {}
        }
        self.show();
        self.recorder.keep(taken);
    }

    fn show(&mut self) {
        let Some(line) = &self.teller.0 else { return };
        if Monotonic::now().since(self.shown) < SHOW_EVERY {
            return;
        }
        self.shown = Monotonic::now();
        let failing = self.failing.iter().filter(|failing| **failing).count();
        line.show(format!(
            "{}, {} failed; {failing} of {} series fail now",
            count(self.samples, "sample"),
            self.failures,
            self.all.len()
        ));
    }

    /// Waits until all is on the disk.
    pub(super) fn finish(self) -> Recorded {
        if let Some(line) = &self.teller.0 {
            line.finish();
        }
        self.recorder.finish()
    }
}
