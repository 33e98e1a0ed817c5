//! The capture's time: what its clock said, never the reader's.

use std::time::Duration;

/// A point of the capture's time, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// `ns` nanoseconds after the Unix epoch.
    pub const fn from_unix_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn unix_ns(self) -> i64 {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is the later one.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Nanoseconds since `earlier`, negative when `earlier` is the later one.
    pub const fn signed_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}
