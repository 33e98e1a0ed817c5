//! Progress of long work, on standard error, when that is a terminal.

use std::time::Duration;

use firstbyte_core::split::total;
use firstbyte_core::timeline::Sample;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::note;

/// A bar that is not there when nobody looks.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps. One step is not worth a bar.
    pub(super) fn new(steps: u64, silent: bool) -> Self {
        let bar = if silent || steps < 2 {
            ProgressBar::hidden()
        } else {
            ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr())
        };
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}  {eta} left");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("━╸ "));
        }
        Self(bar)
    }

    /// One more sample is there.
    pub(super) fn took(&self, sample: &Sample) {
        self.took_as(self.0.position() + 1, sample);
    }

    /// A sample is there, as the campaign's latest of so many.
    pub(super) fn took_as(&self, steps: u64, sample: &Sample) {
        let last = match sample.failure() {
            Some(failure) => format!("failed: {}", failure.phase),
            None => milliseconds(total(&sample.connection)),
        };
        self.0.set_message(last);
        self.0.set_position(steps);
    }

    /// So many were there before.
    pub(super) fn skip(&self, steps: u64) {
        self.0.set_position(steps);
        self.0.reset_eta();
    }

    /// Clears the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// A line about a live capture, on standard error, when that is a terminal. Clones are of the same line.
#[derive(Clone)]
pub(super) struct Watching(ProgressBar);

impl Watching {
    pub(super) fn new() -> Self {
        Self(ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()))
            .styled("{elapsed_precise}  {msg}")
    }

    fn styled(self, template: &str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
        self
    }

    /// What there is by now.
    pub(super) fn show(&self, message: String) {
        self.0.set_message(message);
        self.0.tick();
    }

    /// A line that stays, above it.
    pub(super) fn say(&self, line: &str) {
        self.0.suspend(|| note(line));
    }

    /// Clears the line away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
