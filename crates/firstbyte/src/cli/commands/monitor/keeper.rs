//! Passes samples to the recorder and shows a progress line; also prints messages.

use std::collections::HashSet;
use std::convert::Infallible;
use std::time::Duration;

use firstbyte_clock::{Monotonic, time_stamp};
use firstbyte_core::run::Taken;
use firstbyte_monitor::watch::{WatchSink, Watchlist};
use firstbyte_probe::experiment::SampleSink;
use firstbyte_report::units::count;

use super::{recorded, safe};
use crate::cli::exports::print;
use crate::cli::progress::Watching;
use crate::cli::terminal::note;
use crate::recording::{Recorded, Recorder};

/// How often the line on the terminal is updated.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Prints messages with their time.
#[derive(Clone)]
pub(super) struct Teller {
    watching: Option<Watching>,
    /// Whether events also go to standard output, as one JSON object per line.
    json: bool,
}

impl Teller {
    pub(super) fn new(silent: bool, json: bool) -> Self {
        Self { watching: (!silent).then(Watching::new), json }
    }

    pub(super) fn tell(&self, what: &str) {
        let line = safe(&format!("{} {what}", time_stamp()));
        match &self.watching {
            Some(watching) => watching.say(&line),
            None => note(&line),
        }
    }

    /// Reports an event in words and, if requested, as JSON.
    pub(super) fn tell_event(&self, line: &str, json: &str) {
        self.tell(line);
        if self.json {
            // If nobody reads standard output any more, measuring still goes on.
            let _ = print(&format!("{json}\n"));
        }
    }
}

pub(super) struct Keeper {
    /// For each series, its name and whether it is failing.
    series: Vec<(String, bool)>,
    recorder: Recorder,
    samples: u64,
    failures: u64,
    teller: Teller,
    shown: Monotonic,
}

impl Keeper {
    pub(super) fn new(list: &Watchlist, recorder: Recorder, teller: Teller) -> Self {
        let series = names(list).map(|name| (name, false)).collect();
        Self { series, recorder, samples: 0, failures: 0, teller, shown: Monotonic::now() }
    }

    fn show(&mut self) {
        let Some(line) = &self.teller.watching else { return };
        if Monotonic::now().since(self.shown) < SHOW_EVERY {
            return;
        }
        self.shown = Monotonic::now();
        let failing = self.series.iter().filter(|(_, fails)| *fails).count();
        line.show(format!(
            "{}, {} failed; {failing} of {} series fail now",
            count(self.samples, "sample"),
            self.failures,
            self.series.len()
        ));
    }

    /// Waits until everything is on disk.
    pub(super) fn finish(self) -> Recorded {
        if let Some(line) = &self.teller.watching {
            line.finish();
        }
        self.recorder.finish()
    }
}

fn names(list: &Watchlist) -> impl Iterator<Item = String> {
    list.series.iter().map(|one| one.cell.name())
}

impl SampleSink for Keeper {
    type Error = Infallible;

    fn take_in(&mut self, taken: Taken) -> Result<(), Infallible> {
        let failure = taken.sample.failure();
        self.samples += 1;
        self.failures += u64::from(failure.is_some());
        if let Some((_, fails)) = self.series.get_mut(usize::from(taken.cell)) {
            *fails = failure.is_some();
        }
        self.show();
        self.recorder.keep(taken);
        Ok(())
    }
}

impl WatchSink for Keeper {
    fn follow(&mut self, list: &Watchlist) -> Result<(), Infallible> {
        let failing: HashSet<String> =
            self.series.drain(..).filter(|(_, fails)| *fails).map(|(name, _)| name).collect();
        self.series = names(list).map(|name| (name.clone(), failing.contains(&name))).collect();
        self.recorder.follow(recorded(list));
        Ok(())
    }
}
