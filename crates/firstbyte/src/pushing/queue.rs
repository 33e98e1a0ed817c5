//! Requests that wait for one receiver, in order: bounded, the oldest give variant.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firstbyte_clock::Monotonic;
use tokio::sync::Notify;

/// A request that waits.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) body: Bytes,
    /// Series, or data points, that are in it.
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
    /// Bodies together, at most.
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

    /// Adds `parcel`; how many points gave way to it. The newest one stays, however large.
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

    /// Nothing comes any more.
    pub(super) fn close(&self) {
        self.waiting().is_closed = true;
        self.changed.notify_one();
    }

    /// The oldest, as soon as there is one; none once nothing comes any more. For one task alone.
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
