//! Which work is to end before its time.
//!
//! Work is numbered by who asks for it, at once, and begun by who does it, maybe later and on another thread. An
//! interruption ends what was asked for until then, begun or not, and nothing that is asked for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether the work that is under way is to end.
#[derive(Debug, Default)]
pub struct Interruption {
    /// How many were asked for: the first is number 1.
    asked: AtomicU64,
    /// The number of the one under way.
    begun: AtomicU64,
    /// The last that was interrupted.
    interrupted: AtomicU64,
    closing: AtomicBool,
}

impl Interruption {
    /// The number of work that is asked for now.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Begins the work with that number.
    pub(crate) fn begin(&self, number: u64) {
        self.begun.store(number, Ordering::SeqCst);
    }

    /// Ends all that was asked for so far.
    pub(crate) fn interrupt(&self) {
        self.interrupted.fetch_max(self.asked.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Ends all, also what is still to come.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Whether what is under way is to end.
    pub(crate) fn is_set(&self) -> bool {
        let begun = self.begun.load(Ordering::SeqCst).max(1);
        self.closing.load(Ordering::SeqCst) || self.interrupted.load(Ordering::SeqCst) >= begun
    }
}

/// Ends the visit that is under way, from another thread.
#[derive(Clone, Debug)]
pub struct InterruptHandle(Arc<Interruption>);

impl From<&Arc<Interruption>> for InterruptHandle {
    fn from(interruption: &Arc<Interruption>) -> Self {
        Self(Arc::clone(interruption))
    }
}

impl InterruptHandle {
    /// Ends it: it returns [`ClientError::Interrupted`](crate::process::ClientError::Interrupted) within a tenth of a
    /// second.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// What it interrupts.
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
