//! The only module that reads a clock: for time limits. No time of a sample comes from here.

use std::time::{Duration, Instant};

/// A point in time after which something has taken too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "the only module that reads a clock")]
    pub(crate) fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// What is left of the time; nothing when it is over.
    #[allow(clippy::disallowed_methods, reason = "the only module that reads a clock")]
    pub(crate) fn left(&self) -> Option<Duration> {
        self.at.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// How long there was.
    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }
}
