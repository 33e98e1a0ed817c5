//! Counters of the forwarder.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::reports::ForwarderStats;

/// The counters behind [`ForwarderStats`], written by the forwarder, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) forwarded: Counter,
    pub(crate) lost: Counter,
    pub(crate) queue_full: Counter,
    pub(crate) too_big: Counter,
    pub(crate) ignored: Counter,
    pub(crate) ring_full: Counter,
    pub(crate) send_failed: Counter,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> ForwarderStats {
        ForwarderStats {
            forwarded: self.forwarded.value(),
            lost: self.lost.value(),
            queue_full: self.queue_full.value(),
            too_big: self.too_big.value(),
            ignored: self.ignored.value(),
            ring_full: self.ring_full.value(),
            send_failed: self.send_failed.value(),
        }
    }
}

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
