//! Runs work on all processors, with the same result as on one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

/// Runs `work` for 0 to `count` on as many threads as there are processors; returns the results in order.
pub(crate) fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count || sender.send((n, work(n))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().collect()
    });
    done.sort_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Maximum number of threads of [`in_turn`]; each holds its current work in memory.
const MOST_THREADS: usize = 8;
/// Results of [`in_turn`] per thread that are in progress or wait for their turn.
const AHEAD: usize = 2;

/// Runs `work` for 0 to `count` on as many threads as there are processors, at most eight.
///
/// `take` receives the results one by one and in order, while others are computed. Only a few are kept, however many
/// there are.
///
/// # Errors
/// The first error of `take`, after which no more work is started.
pub(crate) fn in_turn<T: Send, E>(
    count: usize,
    work: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(MOST_THREADS).min(count);
    let turns = Turns { state: Mutex::default(), changed: Condvar::new(), ahead: threads * AHEAD };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _end = EndOfAll { turns: &turns, only_if_panicking: true };
                while let Some(n) = turns.begin(count) {
                    let result = work(n);
                    turns.lock().done.insert(n, result);
                    turns.changed.notify_all();
                }
            });
        }
        let _end = EndOfAll { turns: &turns, only_if_panicking: false };
        for n in 0..count {
            // Without a result, a thread has panicked; the panic continues where threads are joined.
            let Some(result) = turns.wait(n) else { break };
            take(result)?;
            turns.lock().taken = n + 1;
            turns.changed.notify_all();
        }
        Ok(())
    })
}

struct Turns<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    ahead: usize,
}

struct State<T> {
    next: usize,
    taken: usize,
    done: BTreeMap<usize, T>,
    ended: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { next: 0, taken: 0, done: BTreeMap::new(), ended: false }
    }
}

impl<T> Turns<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and returns the next number to work on; `None` if there is no more.
    fn begin(&self, count: usize) -> Option<usize> {
        let full = |state: &mut State<T>| {
            !state.ended && state.next < count && state.next >= state.taken + self.ahead
        };
        let state = self.changed.wait_while(self.lock(), full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let n = state.next;
        state.next += 1;
        (!state.ended && n < count).then_some(n)
    }

    /// Waits for result `n`.
    fn wait(&self, n: usize) -> Option<T> {
        let missing = |state: &mut State<T>| !state.ended && !state.done.contains_key(&n);
        let state = self.changed.wait_while(self.lock(), missing);
        state.unwrap_or_else(PoisonError::into_inner).done.remove(&n)
    }
}

/// Ends the work of all threads when dropped, however a thread exits.
struct EndOfAll<'a, T> {
    turns: &'a Turns<T>,
    only_if_panicking: bool,
}

impl<T> Drop for EndOfAll<'_, T> {
    fn drop(&mut self) {
        if !self.only_if_panicking || std::thread::panicking() {
            self.turns.lock().ended = true;
            self.turns.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        assert_eq!(side_by_side(100, |n| n * n), (0..100).map(|n| n * n).collect::<Vec<_>>());
        assert!(side_by_side(0, |n| n).is_empty());
        let mut taken = Vec::new();
        let ended: Result<(), ()> = in_turn(
            1_000,
            |n| n * n,
            |square| {
                taken.push(square);
                Ok(())
            },
        );
        assert_eq!(ended, Ok(()));
        assert_eq!(taken, (0..1_000).map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(in_turn(0, |n| n, |_| Err("there is none")), Ok(()));
    }

    #[test]
    fn few_results_wait_for_their_turn() {
        let begun = AtomicUsize::new(0);
        let mut taken = 0;
        let ended: Result<(), ()> = in_turn(
            500,
            |_| begun.fetch_add(1, Ordering::SeqCst),
            |_| {
                taken += 1;
                assert!(begun.load(Ordering::SeqCst) <= taken + MOST_THREADS * AHEAD);
                Ok(())
            },
        );
        assert_eq!(ended, Ok(()));
    }

    #[test]
    fn a_failure_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let ended = in_turn(
            1_000_000,
            |n| begun.fetch_max(n, Ordering::SeqCst),
            |n| if n < 10 { Ok(()) } else { Err(n) },
        );
        assert!(ended.is_err());
        assert!(begun.load(Ordering::SeqCst) <= 30 + MOST_THREADS * AHEAD);
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_goes_on() {
        let _: Result<(), ()> = in_turn(100, |n| assert_ne!(n, 50, "on purpose"), |()| Ok(()));
    }
}
