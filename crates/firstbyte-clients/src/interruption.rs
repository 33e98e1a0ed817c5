//! Interruption of work before it is complete.
//!
//! The requester numbers its work at once; the worker begins it, perhaps later and on another thread. An interruption
//! ends all work requested before it, begun or not, but no work requested later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether the current work must stop.
#[derive(Debug, Default)]
pub struct Interruption {
    /// Number of work items requested so far: the first has number 1.
    asked: AtomicU64,
    /// Number of the current work item.
    begun: AtomicU64,
    /// Number of the last interrupted work item.
    interrupted: AtomicU64,
    closing: AtomicBool,
}

impl Interruption {
    /// Registers a new work item and returns its number.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn begin(&self, number: u64) {
        self.begun.store(number, Ordering::SeqCst);
    }

    /// Interrupts all work requested so far.
    pub(crate) fn interrupt(&self) {
        self.interrupted.fetch_max(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Interrupts all work, including future work.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether the current work must stop.
    pub(crate) fn is_set(&self) -> bool {
        let begun = self.begun.load(Ordering::SeqCst).max(1);
        self.closing.load(Ordering::SeqCst) || self.interrupted.load(Ordering::SeqCst) >= begun
    }
}

/// Interrupts the current visit from another thread.
#[derive(Clone, Debug)]
pub struct InterruptHandle(Arc<Interruption>);

impl From<&Arc<Interruption>> for InterruptHandle {
    fn from(interruption: &Arc<Interruption>) -> Self {
        Self(Arc::clone(interruption))
    }
}

impl InterruptHandle {
    /// Interrupts the visit, which returns [`ClientError::Interrupted`](crate::process::ClientError::Interrupted)
    /// within a tenth of a second.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// The state that it sets.
    pub(crate) fn interruption(&self) -> &Interruption {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_ends_begun_or_not() {
        let interruption = Interruption::default();
        assert!(!interruption.is_set());
        let (first, second) = (interruption.ask(), interruption.ask());
        interruption.interrupt();
        let third = interruption.ask();
        for (number, ends) in [(first, true), (second, true), (third, false)] {
            interruption.begin(number);
            assert_eq!(interruption.is_set(), ends, "{number}");
        }
        interruption.close();
        let fourth = interruption.ask();
        interruption.begin(fourth);
        assert!(interruption.is_set());
    }
}
