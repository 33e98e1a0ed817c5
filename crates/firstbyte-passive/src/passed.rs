//! When a connection's packets passed the tap, by their timestamps rather than by the capture's order.
//!
//! In: packets' timestamps, in the capture's order. Out: the latest one, and the longest gap between neighbours. The
//! two directions pass on different processors, and each packet is stamped before it waits for its turn. So two
//! captures of the same packets, or a ring and a file, order packets that cross within microseconds differently. The
//! result is the same as long as no packet comes after more than three that passed later.

use super::Time;

/// A clock that goes back by more than this was set.
pub(super) const STEP_NS: i64 = 1_000_000_000;

const RECENT: usize = 4;

/// Whether the packet at `at` passed before `known`. False if the clock was set back in between.
pub(super) const fn passed_before(at: Time, known: Time) -> bool {
    let since = at.signed_since(known);
    since < 0 && since >= -STEP_NS
}

/// Timestamps of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// The latest ones, ascending.
    recent: [Time; RECENT],
    /// Longest gap between neighbours up to the first of these.
    longest_ns: i64,
}

impl Passed {
    pub(super) const fn new(at: Time) -> Self {
        Self { recent: [at; RECENT], longest_ns: 0 }
    }

    /// Adds a packet that passed at `at`. Returns false if the clock was set back since the last one.
    #[inline]
    pub(super) fn pass(&mut self, at: Time) -> bool {
        let [first, second, third, last] = self.recent;
        if at >= last {
            self.longest_ns = self.longest_ns.max(second.signed_since(first));
            self.recent = [second, third, last, at];
        } else if at.signed_since(last) < -STEP_NS {
            *self = Self { recent: [at; RECENT], longest_ns: self.longest() };
            return false;
        } else if at > first {
            self.longest_ns = self.longest_ns.max(second.min(at).signed_since(first));
            self.recent[0] = at;
            self.recent.sort_unstable();
        }
        true
    }

    pub(super) const fn last(&self) -> Time {
        self.recent[RECENT - 1]
    }

    pub(super) fn longest(&self) -> i64 {
        let between = self.recent.windows(2).map(|pair| pair[1].signed_since(pair[0]));
        between.fold(self.longest_ns, i64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_and_longest(stamps: &[i64]) -> (i64, i64) {
        let mut stamps = stamps.iter().map(|at| Time::from_unix_ns(*at));
        let mut passed = Passed::new(stamps.next().unwrap());
        assert!(stamps.all(|at| passed.pass(at)));
        (passed.last().unix_ns(), passed.longest())
    }

    #[test]
    fn packets_that_cross_may_come_in_any_order() {
        let in_order = [0, 900, 1_000, 1_001, 1_002, 1_003, 1_500, 1_501];
        assert_eq!(last_and_longest(&in_order), (1_501, 900));
        for window in 0..=in_order.len() - 4 {
            let mut stamps = in_order;
            // Every order of four neighbours, except that the first packet stays first.
            for turn in 0..24 {
                let place = window.max(1).min(in_order.len() - 4);
                stamps[place..place + 4].rotate_left(1 + turn % 3);
                stamps[place..place + 3].rotate_left(1 + turn % 2);
                assert_eq!(last_and_longest(&stamps), (1_501, 900), "{stamps:?}");
            }
        }
        // The longest gap is not always between packets that were neighbours on arrival.
        assert_eq!(last_and_longest(&[0, 11, 10, 21]), (21, 10));
        assert_eq!(last_and_longest(&[0, 10, 11, 21]), (21, 10));
        assert_eq!(last_and_longest(&[0, 12, 11, 10]), last_and_longest(&[0, 10, 11, 12]));
    }

    #[test]
    fn a_clock_that_was_set_back_is_told() {
        let [first, step] = [2 * STEP_NS, STEP_NS / 2].map(Time::from_unix_ns);
        let mut passed = Passed::new(first);
        assert!(passed.pass(Time::from_unix_ns(first.unix_ns() + 70)));
        assert!(!passed.pass(step));
        assert_eq!((passed.last(), passed.longest()), (step, 70));
    }
}
