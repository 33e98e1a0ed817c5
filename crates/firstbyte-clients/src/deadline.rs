//! Limits to how long something may take. No time of a sample comes from here.

use std::time::Duration;

use firstbyte_clock::Monotonic;

/// A point in time after which something has taken too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Monotonic,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { since: Monotonic::now(), limit }
    }

    /// What is left of the time; nothing when it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        let taken = Monotonic::now().since(self.since);
        self.limit.checked_sub(taken).filter(|left| !left.is_zero())
    }

    /// How long there was.
    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }
}
