//! Bounded queue of requests for one receiver, in order; the oldest ones give way.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firstbyte_clock::Monotonic;
use tokio::sync::Notify;

/// A waiting request.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) body: Bytes,
    /// Number of series or data points in it.
    pub(super) points: u64,
    pub(super) made: Monotonic,
}

#[derive(Default)]
struct Waiting {
    parcels: VecDeque<Parcel>,
    bytes: usize,
    is_closed: bool,
}

pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Maximum total size of the bodies.
    most_bytes: usize,
    changed: Notify,
}

impl Queue {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { waiting: Mutex::default(), most_bytes, changed: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `parcel` and returns the number of points dropped for it. The newest parcel stays, however large it is.
    pub(super) fn push(&self, parcel: Parcel) -> u64 {
        let mut waiting = self.waiting();
        let mut dropped = 0;
        waiting.bytes += parcel.body.len();
        while waiting.bytes > self.most_bytes {
            let Some(oldest) = waiting.parcels.pop_front() else { break };
            waiting.bytes -= oldest.body.len();
            dropped += oldest.points;
        }
        waiting.parcels.push_back(parcel);
        drop(waiting);
        self.changed.notify_one();
        dropped
    }

    /// Announces that no more parcels will come.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for the oldest parcel; `None` once the queue is closed and empty. Only one task may call this.
    pub(super) async fn next(&self) -> Option<Parcel> {
        loop {
            {
                let mut waiting = self.waiting();
                if let Some(parcel) = waiting.parcels.pop_front() {
                    waiting.bytes -= parcel.body.len();
                    return Some(parcel);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}
