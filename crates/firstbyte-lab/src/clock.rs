//! The only module of this crate that reads a clock.

#[cfg(target_os = "linux")]
pub(crate) use kernel::{Offset, monotonic_ns, realtime_ns};

use std::time::{Instant, SystemTime};

/// Wall-clock time, for certificates and for people.
#[expect(clippy::disallowed_methods, reason = "this is the module `clock`")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Monotonic time, for waiting.
#[expect(clippy::disallowed_methods, reason = "this is the module `clock`")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(target_os = "linux")]
mod kernel {
    use nix::time::{ClockId, clock_gettime};

    /// CLOCK_MONOTONIC in nanoseconds.
    pub(crate) fn monotonic_ns() -> u64 {
        read(ClockId::CLOCK_MONOTONIC)
    }

    /// CLOCK_REALTIME in nanoseconds since 1970: the clock of the kernel's packet timestamps.
    pub(crate) fn realtime_ns() -> u64 {
        read(ClockId::CLOCK_REALTIME)
    }

    /// Offset from CLOCK_MONOTONIC to CLOCK_REALTIME, both read at one instant.
    ///
    /// Read again for every batch of packets, so that a step of the wall clock delays nothing.
    #[derive(Clone, Copy)]
    pub(crate) struct Offset {
        realtime_minus_monotonic: i128,
    }

    impl Offset {
        pub(crate) fn now() -> Self {
            let before = monotonic_ns();
            let realtime = realtime_ns();
            let after = monotonic_ns();
            let monotonic = before + (after - before) / 2;
            Self { realtime_minus_monotonic: i128::from(realtime) - i128::from(monotonic) }
        }

        pub(crate) fn to_monotonic(self, realtime_ns: u64) -> u64 {
            (i128::from(realtime_ns) - self.realtime_minus_monotonic).max(0) as u64
        }

        pub(crate) fn to_realtime(self, monotonic_ns: u64) -> u64 {
            (i128::from(monotonic_ns) + self.realtime_minus_monotonic).max(0) as u64
        }
    }

    fn read(clock: ClockId) -> u64 {
        // Neither clock can fail on a Linux that has network namespaces.
        clock_gettime(clock)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }
}
