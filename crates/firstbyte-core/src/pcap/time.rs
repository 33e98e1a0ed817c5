//! The capture's time: the readings of its clock, never the reader's.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// A point of the capture's time, nanoseconds since the Unix epoch, in the years 1677 to 2262.
///
/// Counted from the earliest representable point, starting at 1, so that `Option<Time>` takes no more space than
/// `Time`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64);

/// The Unix epoch in this representation.
const EPOCH: u64 = 1 << 63;

impl Time {
    /// `ns` nanoseconds after the Unix epoch.
    pub const fn from_unix_ns(ns: i64) -> Self {
        match NonZeroU64::new(EPOCH.wrapping_add_signed(ns)) {
            Some(time) => Self(time),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn unix_ns(self) -> i64 {
        self.0.get().wrapping_sub(EPOCH) as i64
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        let ns = self.signed_since(earlier);
        Duration::from_nanos(if ns > 0 { ns as u64 } else { 0 })
    }

    /// Nanoseconds since `earlier`, negative if `earlier` is later.
    pub const fn signed_since(self, earlier: Self) -> i64 {
        self.unix_ns().saturating_sub(earlier.unix_ns())
    }
}

impl Default for Time {
    fn default() -> Self {
        Self::from_unix_ns(0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.unix_ns()).finish()
    }
}
