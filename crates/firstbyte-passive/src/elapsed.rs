//! A duration in eight bytes, even if it is optional.

use std::fmt;
use std::num::NonZeroU64;

use crate::Time;

/// A duration in nanoseconds. Stored plus one, for the same reason as [`Time`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Elapsed(NonZeroU64);

impl Elapsed {
    /// The time from `earlier` to `later`; absent if it is negative.
    pub(crate) fn between(earlier: Time, later: Time) -> Option<Self> {
        let ns = u64::try_from(later.signed_since(earlier)).ok()?;
        NonZeroU64::new(ns + 1).map(Self)
    }

    /// A duration of `ns` nanoseconds; zero if negative.
    pub(crate) fn from_nanos(ns: i64) -> Self {
        Self(NonZeroU64::new(ns.max(0) as u64 + 1).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) const fn ns(self) -> i64 {
        (self.0.get() - 1) as i64
    }

    /// The shorter of this one and the one already known.
    pub(crate) fn least(self, known: Option<Self>) -> Option<Self> {
        Some(known.map_or(self, |known| known.min(self)))
    }
}

impl fmt::Debug for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns())
    }
}
