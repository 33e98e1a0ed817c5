//! A series in an outage, and its streak of samples.

use std::time::Duration;

use super::First;

/// Consecutive samples of one series that all failed or all succeeded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Streak {
    failed: bool,
    samples: u32,
    first: First,
    /// When the last sample began.
    pub(super) last: i64,
    pub(super) is_down: bool,
}

impl Streak {
    /// Streak of a series that an earlier process left in an outage.
    pub(super) fn down() -> Self {
        Self { is_down: true, ..Self::default() }
    }

    /// Adds a sample. Returns the first sample of the streak.
    pub(super) fn add(&mut self, failed: bool, at: i64, stands_for: Duration) -> First {
        if self.samples == 0 || self.failed != failed {
            (self.samples, self.failed) = (0, failed);
            self.first = First { at, stands_for };
        }
        self.samples = self.samples.saturating_add(1);
        self.last = at;
        if self.samples >= 2 {
            self.is_down = failed;
        }
        self.first
    }

    /// Whether the next sample decides: after one failure, or after one success in an outage.
    pub(super) const fn is_undecided(&self) -> bool {
        self.samples == 1 && self.failed != self.is_down
    }
}

/// A series in an outage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) last_failure: i64,
    /// When the series recovered; absent while it is down.
    pub(super) up_since: Option<i64>,
    /// Whether the series is no longer measured.
    pub(super) is_gone: bool,
    /// Time that its samples stand for, from its first failure to its last.
    pub(super) monitored: Duration,
    /// Part of that time in which samples failed.
    pub(super) failed: Duration,
    /// Time since its last failure.
    good: Duration,
}

impl Member {
    pub(super) const fn new(at: i64) -> Self {
        Self::known(at, Duration::ZERO, Duration::ZERO)
    }

    /// Restores a member that an earlier process recorded.
    pub(super) const fn known(last_failure: i64, monitored: Duration, failed: Duration) -> Self {
        Self {
            last_failure,
            up_since: None,
            is_gone: false,
            monitored,
            failed,
            good: Duration::ZERO,
        }
    }

    pub(super) fn fail(&mut self, at: i64, stands_for: Duration) {
        self.last_failure = self.last_failure.max(at);
        self.up_since = None;
        self.is_gone = false;
        self.monitored += std::mem::take(&mut self.good) + stands_for;
        self.failed += stands_for;
    }

    pub(super) fn succeed(&mut self, stands_for: Duration) {
        self.good += stands_for;
    }
}
