//! Progress of long operations, shown on standard error if that is a terminal.

use std::time::Duration;

use firstbyte_core::split::total;
use firstbyte_core::timeline::Sample;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::note;

/// A progress bar, hidden if nobody would see it.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps. A single step does not need a bar.
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

    /// Counts one more sample.
    pub(super) fn took(&self, sample: &Sample) {
        self.took_as(self.0.position() + 1, sample);
    }

    /// Shows a sample; `steps` samples have been taken in the campaign so far.
    pub(super) fn took_as(&self, steps: u64, sample: &Sample) {
        let last = match sample.failure() {
            Some(failure) => format!("failed: {}", failure.phase),
            None => milliseconds(total(&sample.connection)),
        };
        self.0.set_message(last);
        self.0.set_position(steps);
    }

    /// Sets the number of samples taken earlier.
    pub(super) fn skip(&self, steps: u64) {
        self.0.set_position(steps);
        self.0.reset_eta();
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// A status line for a live capture, on standard error if that is a terminal. Clones share the line.
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

    /// Updates the line.
    pub(super) fn show(&self, message: String) {
        self.0.set_message(message);
        self.0.tick();
    }

    /// Prints a permanent line above it.
    pub(super) fn say(&self, line: &str) {
        self.0.suspend(|| note(line));
    }

    /// Removes the line.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
