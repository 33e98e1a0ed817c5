//! Time limits on futures, with reusable timers.
//!
//! A new timer wakes the runtime so that it is not missed, which costs two system calls per connection. Postponing an
//! existing timer wakes nothing.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use firstbyte_clock::timer_now;
use tokio::time::{Sleep, sleep_until};

/// The idle timers of one runtime.
#[derive(Default)]
pub(super) struct Timers(RefCell<Vec<Pin<Box<Sleep>>>>);

impl Timers {
    /// The output of `work`, or `None` if it takes longer than `limit`.
    pub(super) async fn within<F: Future>(&self, limit: Duration, work: F) -> Option<F::Output> {
        let Some(due) = timer_now().checked_add(limit) else { return Some(work.await) };
        let idle = self.0.borrow_mut().pop();
        let mut timer = match idle {
            Some(mut timer) => {
                timer.as_mut().reset(due);
                timer
            }
            None => Box::pin(sleep_until(due)),
        };
        let outcome = tokio::select! {
            biased;
            outcome = work => Some(outcome),
            () = &mut timer => None,
        };
        self.0.borrow_mut().push(timer);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_is_used_again_limits_as_a_new_one_does() {
        let timers = Timers::default();
        let second = Duration::from_secs(1);
        for (limit, takes) in [(9, 1), (2, 5), (5, 4), (3, 20), (20, 19), (1, 2)] {
            let begun = timer_now();
            let done = timers.within(second * limit, sleep(second * takes)).await.is_some();
            assert_eq!((done, timer_now() - begun), (takes < limit, second * limit.min(takes)));
        }
        assert_eq!(timers.0.borrow().len(), 1);
        // Two simultaneous limits have a timer each.
        let both = async {
            tokio::join!(
                timers.within(second, sleep(second * 2)),
                timers.within(second * 3, sleep(second * 2)),
            )
        };
        assert_eq!(both.await, (None, Some(())));
        assert_eq!(timers.0.borrow().len(), 2);
    }
}
