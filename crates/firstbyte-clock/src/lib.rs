//! The only module that reads a clock.
//!
//! Two clocks, two types: this process reads [`Monotonic`], and the kernel writes [`Realtime`] into packet timestamps.
//! A [`Timebase`] maps both onto a connection's offsets; there is no other way from one to the other.
#![allow(clippy::disallowed_methods, reason = "this is the module that reads clocks")]

use std::time::Duration;

use firstbyte_core::timeline::{Offset, ProcessorTime, Stamp};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds on the clock that never steps (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(i64);

/// Nanoseconds since the Unix epoch (`CLOCK_REALTIME`), the clock of kernel packet timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Realtime(i64);

impl Monotonic {
    /// Reads the clock.
    pub fn now() -> Self {
        Self(read(ClockId::CLOCK_MONOTONIC))
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl std::ops::Add<Duration> for Monotonic {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(rhs.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Monotonic {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(rhs.as_nanos()).unwrap_or(i64::MAX)))
    }
}

impl Realtime {
    /// Reads the clock.
    pub fn now() -> Self {
        Self(read(ClockId::CLOCK_REALTIME))
    }

    /// Converts a kernel timestamp.
    pub const fn from_timespec(seconds: i64, nanoseconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
    }

    /// Nanoseconds since the Unix epoch.
    pub fn unix_nanos(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
}

impl std::ops::Sub<Duration> for Realtime {
    type Output = Self;
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(rhs.as_nanos()).unwrap_or(i64::MAX)))
    }
}

fn read(clock: ClockId) -> i64 {
    #[cfg(feature = "simulated")]
    if let Some(simulated) = simulated::read(clock) {
        return simulated;
    }
    // Neither clock can fail on a system that has it, and every supported system has both.
    clock_gettime(clock).map_or(0, |t| Realtime::from_timespec(t.tv_sec(), t.tv_nsec()).0)
}

/// Both clocks driven by the runtime's paused clock, for tests without waiting.
#[cfg(feature = "simulated")]
pub mod simulated {
    use std::cell::Cell;

    use nix::time::ClockId;
    use tokio::time::Instant;

    use super::Realtime;

    thread_local! {
        static ORIGIN: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// Start of the simulated clocks in nanoseconds: an arbitrary day, and an hour after boot.
    const REALTIME: i64 = 1_700_000_000_000_000_000;
    const MONOTONIC: i64 = 3_600_000_000_000;

    /// Makes both clocks of this thread follow the runtime's clock until it is dropped.
    pub struct SimulatedClock(());

    impl SimulatedClock {
        /// Call this within a runtime whose clock is paused.
        pub fn start() -> Self {
            ORIGIN.set(Some(super::timer_now()));
            Self(())
        }
    }

    impl Drop for SimulatedClock {
        fn drop(&mut self) {
            ORIGIN.set(None);
        }
    }

    /// The kernel timestamp for this time of the runtime's clock.
    pub fn stamp_at(at: Instant) -> Realtime {
        let origin = ORIGIN.get().expect("the clock is simulated");
        let since = at.checked_duration_since(origin).unwrap_or_default();
        Realtime(REALTIME + i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    pub(super) fn read(clock: ClockId) -> Option<i64> {
        let since = i64::try_from((super::timer_now() - ORIGIN.get()?).as_nanos()).ok()?;
        Some(since + if clock == ClockId::CLOCK_REALTIME { REALTIME } else { MONOTONIC })
    }
}

/// Processor time that the calling thread has used so far.
#[derive(Clone, Copy, Debug)]
pub struct ThreadTime(ProcessorTime);

impl ThreadTime {
    /// Asks the kernel (getrusage(2)); `None` if it does not distinguish threads, or time is simulated.
    pub fn now() -> Option<Self> {
        #[cfg(feature = "simulated")]
        if simulated::read(ClockId::CLOCK_MONOTONIC).is_some() {
            return None;
        }
        Self::read()
    }

    #[cfg(target_os = "linux")]
    fn read() -> Option<Self> {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        let time = |at: nix::sys::time::TimeVal| {
            let micros = at.tv_sec().saturating_mul(1_000_000).saturating_add(at.tv_usec());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        let (user, system) = (time(usage.user_time()), time(usage.system_time()));
        Some(Self(ProcessorTime { user, system }))
    }

    #[cfg(not(target_os = "linux"))]
    const fn read() -> Option<Self> {
        None
    }

    /// Processor time used since `earlier`.
    pub const fn since(self, earlier: Self) -> ProcessorTime {
        ProcessorTime {
            user: self.0.user.saturating_sub(earlier.0.user),
            system: self.0.system.saturating_sub(earlier.0.system),
        }
    }
}

/// A connection's origin on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Timebase {
    monotonic: Monotonic,
    realtime: Realtime,
}

impl Timebase {
    /// Makes this moment the origin.
    pub fn start() -> Self {
        // Use the tightest of several tries, in case one was interrupted.
        (0..4).map(|_| Self::bracketed()).min_by_key(|(apart, _)| *apart).map_or_else(
            || Self { monotonic: Monotonic::now(), realtime: Realtime::now() },
            |(_, base)| base,
        )
    }

    /// Reads one clock between two readings of the other, which bounds their distance; returns the bound in
    /// nanoseconds.
    fn bracketed() -> (i64, Self) {
        let before = Monotonic::now();
        let realtime = Realtime::now();
        let apart = Monotonic::now().0 - before.0;
        (apart, Self { monotonic: Monotonic(before.0 + apart / 2), realtime })
    }

    /// Wall-clock time of the origin.
    pub const fn started(&self) -> Realtime {
        self.realtime
    }

    /// Offset of a time read by this process.
    pub fn offset(&self, at: Monotonic) -> Offset {
        Offset::from_nanos(at.0 - self.monotonic.0)
    }

    /// Offset of a kernel timestamp.
    pub fn kernel_offset(&self, at: Realtime) -> Offset {
        Offset::from_nanos(at.0 - self.realtime.0)
    }

    /// Now, as read by this process.
    pub fn now(&self) -> Stamp {
        Stamp::user(self.offset(Monotonic::now()))
    }

    /// Simulates that the wall clock is set forward by `step` from here on.
    #[cfg(feature = "simulated")]
    pub fn with_wall_clock_behind(mut self, step: Duration) -> Self {
        self.realtime.0 -= i64::try_from(step.as_nanos()).unwrap_or(0);
        self
    }

    /// How far the wall clock was stepped since the origin; kernel timestamps are off by the same amount.
    pub fn stepped(&self) -> Duration {
        /// Negligible distance between the clock readings, in nanoseconds.
        const CLOSE: i64 = 1_000;
        let now = match Self::bracketed() {
            (apart, now) if apart <= CLOSE => now,
            _ => Self::start(),
        };
        let wall = now.realtime.0 - self.realtime.0;
        let real = now.monotonic.0 - self.monotonic.0;
        Duration::from_nanos((wall - real).unsigned_abs())
    }
}

/// The time of day, for dates in output.
pub fn wall_time() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

/// Wall-clock time since `then`; zero if it lies in the future.
pub fn wall_time_since(then: std::time::SystemTime) -> Duration {
    then.elapsed().unwrap_or_default()
}

/// The current time for a file name: `20261121-140509`, in UTC.
pub fn file_stamp() -> String {
    time_stamp().replace(['-', ':', 'Z'], "").replace('T', "-")
}

/// Today, in UTC: `2026-11-21`.
pub fn day_stamp() -> String {
    day_stamp_of(i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(0))
}

/// The UTC day of a time in seconds since the Unix epoch.
pub fn day_stamp_of(unix_seconds: i64) -> String {
    stamp_of(unix_seconds).split('T').next().unwrap_or_default().to_owned()
}

/// The current time in RFC 3339 format, in UTC: `2026-11-21T14:05:09Z`.
pub fn time_stamp() -> String {
    stamp_of(i64::try_from(Realtime::now().unix_nanos() / 1_000_000_000).unwrap_or(0))
}

fn stamp_of(unix_seconds: i64) -> String {
    let now = time::OffsetDateTime::from_unix_timestamp(unix_seconds)
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let (date, time) = (now.date(), now.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// The current time of the runtime's timers.
pub fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_threads_time_is_its_own_and_what_it_took() {
        let (wall, before) = (Monotonic::now(), ThreadTime::now().unwrap());
        // Another thread's work does not count.
        std::thread::spawn(|| {
            let begun = ThreadTime::now().unwrap();
            while ThreadTime::now().unwrap().since(begun).sum() < Duration::from_millis(40) {}
        })
        .join()
        .unwrap();
        let waited = ThreadTime::now().unwrap().since(before).sum();
        assert!(waited < Duration::from_millis(20), "{waited:?}");
        while ThreadTime::now().unwrap().since(before).sum() < Duration::from_millis(60) {}
        assert!(Monotonic::now().since(wall) >= Duration::from_millis(60));
    }

    #[test]
    fn both_clocks_map_to_the_same_offset() {
        let base = Timebase::start();
        // The process may have to wait for a processor between the two readings.
        let apart = (0..20).map(|_| {
            let user = base.now().at;
            base.kernel_offset(Realtime::now()).since(user)
        });
        let apart = apart.min().unwrap();
        assert!(apart < Duration::from_millis(1), "{apart:?}");
        assert!(base.stepped() < Duration::from_millis(1));
    }
}
