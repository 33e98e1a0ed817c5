//! Work by all processors, with the same result as by one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// `work` of 0 to `count`, by as many threads as there are processors; results in order.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        assert_eq!(side_by_side(100, |n| n * n), (0..100).map(|n| n * n).collect::<Vec<_>>());
        assert!(side_by_side(0, |n| n).is_empty());
    }
}
