//! The processor time of a visit.
//!
//! Visits are made by one thread, whose processor time the kernel counts. If two visits overlap on a thread, their
//! times cannot be told apart, and neither gets one.

use std::cell::Cell;

use firstbyte_clock::ThreadTime;
use firstbyte_core::timeline::ProcessorTime;

thread_local! {
    /// Visits of this thread in progress.
    static UNDER_WAY: Cell<u32> = const { Cell::new(0) };
    /// Number of visits begun while another was in progress.
    static OVERLAPS: Cell<u64> = const { Cell::new(0) };
}

/// A visit whose time is being counted.
pub(super) struct Counted {
    begun: Option<ThreadTime>,
    overlaps: u64,
    alone: bool,
}

impl Counted {
    pub(super) fn begin() -> Self {
        let alone = UNDER_WAY.replace(UNDER_WAY.get() + 1) == 0;
        if !alone {
            OVERLAPS.set(OVERLAPS.get() + 1);
        }
        let begun = alone.then(ThreadTime::now).flatten();
        Self { begun, overlaps: OVERLAPS.get(), alone }
    }

    /// Processor time taken so far; `None` if another visit overlapped.
    pub(super) fn taken(&self) -> Option<ProcessorTime> {
        let alone = self.alone && OVERLAPS.get() == self.overlaps;
        let begun = self.begun.filter(|_| alone)?;
        Some(ThreadTime::now()?.since(begun))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        UNDER_WAY.set(UNDER_WAY.get().saturating_sub(1));
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn of_visits_side_by_side_nothing_is_said() {
        let first = Counted::begin();
        assert!(first.taken().is_some());
        let second = Counted::begin();
        assert_eq!(second.taken(), None);
        drop(second);
        // It includes the time of the second.
        assert_eq!(first.taken(), None);
        drop(first);
        assert!(Counted::begin().taken().is_some());
    }
}
