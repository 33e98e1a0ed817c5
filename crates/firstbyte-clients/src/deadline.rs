//! Time limits. Times of samples do not come from here.

use std::time::Duration;

use firstbyte_clock::Monotonic;

/// The point in time at which an operation has taken too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: Monotonic,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self { since: Monotonic::now(), limit }
    }

    /// The time left; `None` if the time is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        let taken = Monotonic::now().since(self.since);
        self.limit.checked_sub(taken).filter(|left| !left.is_zero())
    }

    /// The whole time allowed.
    pub(crate) const fn limit(&self) -> Duration {
        self.limit
    }
}
