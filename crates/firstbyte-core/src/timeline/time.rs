//! Time as data: offsets from a connection's origin, and the clock they were read from.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the connection's origin (the moment the attempt began).
///
/// Signed, so that a kernel timestamp that maps to just before the origin remains representable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

impl Offset {
    /// The connection's origin.
    pub const ZERO: Self = Self(0);

    /// An offset of `ns` nanoseconds.
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Offset {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(rhs.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Offset {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(rhs.as_nanos()).unwrap_or(i64::MAX)))
    }
}

/// Source of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clock {
    /// The kernel timestamped the packet as it passed the device (`SO_TIMESTAMPING`, or a capture).
    Kernel,
    /// Derived from kernel measurements without a timestamp of its own: the arrival of the SYN/ACK, as the departure
    /// of the SYN plus the kernel's round-trip time for it.
    KernelDerived,
    /// The process read the monotonic clock: includes scheduling delay.
    User,
    /// No clock: virtual time of a prediction.
    Simulated,
    /// Another program, such as a browser or another client, reported a time from its own clock.
    Reported {
        /// Resolution of the clock, nanoseconds: a time may be off by this much in either direction. A browser's is
        /// 100 µs or 1 ms.
        resolution_ns: u32,
    },
}

impl Clock {
    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelDerived => "kernel-derived",
            Self::User => "user",
            Self::Simulated => "simulated",
            Self::Reported { .. } => "reported",
        }
    }

    /// Resolution of another program's clock; `None` if it is too small to matter.
    pub const fn resolution(self) -> Option<Duration> {
        match self {
            Self::Reported { resolution_ns: ns @ 1.. } => Some(Duration::from_nanos(ns as u64)),
            _ => None,
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A point in time and the clock it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Point in time.
    pub at: Offset,
    /// Clock it was read from.
    pub clock: Clock,
}

impl Stamp {
    /// A time read by the process.
    pub const fn user(at: Offset) -> Self {
        Self { at, clock: Clock::User }
    }

    /// A time from a kernel timestamp.
    pub const fn kernel(at: Offset) -> Self {
        Self { at, clock: Clock::Kernel }
    }
}
