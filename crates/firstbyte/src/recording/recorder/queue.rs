//! Limits the number of samples on their way to the recorder.
//!
//! Measurements never wait here, however slow the disk is: a sample without room is lost and counted.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Maximum number of waiting samples: four seconds of 10,000 a second, during which a busy disk syncs a megabyte.
const MOST_SAMPLES: usize = 40_000;

/// Counts waiting and lost samples.
#[derive(Debug, Default)]
pub(super) struct SampleQueue {
    waiting: AtomicUsize,
    lost: AtomicU64,
    /// Whether samples are being lost; cleared once the recorder has taken all waiting samples.
    loses: AtomicBool,
}

impl SampleQueue {
    /// Admits a sample if there is room. Otherwise the sample is lost, and `tell` reports the first of consecutive
    /// losses.
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

    /// Removes one waiting sample.
    pub(super) fn take(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of samples lost so far, once after a loss when all waiting samples have been taken.
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
            // One place is free: samples are admitted again, but the loss is not over.
            assert_eq!(queue.lost_before_recovery(), None);
            (1..MOST_SAMPLES).for_each(|_| queue.take());
            assert_eq!(queue.lost_before_recovery(), Some(streak * 5));
            assert_eq!((queue.lost_before_recovery(), queue.loses()), (None, false));
        }
        assert_eq!(told, 2);
    }
}
