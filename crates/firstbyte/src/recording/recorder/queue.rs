//! Samples on their way to the recorder: how many there may be, and what becomes of the others.
//!
//! Whoever measures never waits here, however slow the disk is: a sample for which there is no room is lost, and counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Samples that wait for the recorder, at most: those of four seconds of 10,000 a second, in which a busy disk syncs a megabyte.
const MOST_SAMPLES: usize = 40_000;

/// Counts samples that wait, and those that found no room.
#[derive(Debug, Default)]
pub(super) struct SampleQueue {
    waiting: AtomicUsize,
    lost: AtomicU64,
    /// Samples are being lost, until the recorder has taken all that wait.
    loses: AtomicBool,
}

impl SampleQueue {
    /// Whether there is room for one more, which then waits. If there is none, the sample is lost, and the first one in a row is
    /// told.
    pub(super) fn admit(&self, tell: impl FnOnce(&str)) -> bool {
        if self.has_room() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        if !self.loses.swap(true, Ordering::Relaxed) {
            tell("samples come faster than the disk takes them; samples are lost");
        }
        false
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < MOST_SAMPLES
    }

    /// One that waited was taken.
    pub(super) fn take(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// After samples were lost and all that waited were taken, how many are lost so far; once.
    pub(super) fn lost_before_recovery(&self) -> Option<u64> {
        let is_over = self.loses() && self.waiting.load(Ordering::Relaxed) == 0;
        (is_over && self.loses.swap(false, Ordering::Relaxed)).then(|| self.lost())
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether samples are being lost now.
    pub(super) fn loses(&self) -> bool {
        self.loses.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_room_are_counted_and_told_once_in_a_row() {
        let queue = SampleQueue::default();
        let mut told = 0;
        for streak in 1..=2 {
            let admitted = (0..MOST_SAMPLES + 5).filter(|_| queue.admit(|_| told += 1)).count();
            assert_eq!((admitted, queue.lost(), queue.loses()), (MOST_SAMPLES, streak * 5, true));
            queue.take();
            // One place is free: it goes on, but is not over.
            assert_eq!(queue.lost_before_recovery(), None);
            (1..MOST_SAMPLES).for_each(|_| queue.take());
            assert_eq!(queue.lost_before_recovery(), Some(streak * 5));
            assert_eq!((queue.lost_before_recovery(), queue.loses()), (None, false));
        }
        assert_eq!(told, 2);
    }
}
