//! When a connection's packets passed: the stamp decides, not the order in which the capture has them.
//!
//! In: stamps of packets, as they come. Out: the last one, and the longest time between neighbours. Packets of both
//! directions pass on different processors, each is stamped and then waits for its turn: two captures of the
//! same packets, or a ring and a file, have those that cross within microseconds in different orders. What comes
//! out is the same as long as no packet comes after more than three that passed later.

use super::Time;

/// A clock that goes back by more was set.
pub(super) const STEP_NS: i64 = 1_000_000_000;

const RECENT: usize = 4;

/// Whether what came later passed before what was known at `known`; not, where the clock was set back.
pub(super) const fn passed_before(at: Time, known: Time) -> bool {
    let since = at.signed_since(known);
    since < 0 && since >= -STEP_NS
}

/// Stamps of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// The last ones, ascending.
    recent: [Time; RECENT],
    /// Between neighbours up to the first of these.
    longest_ns: i64,
}

impl Passed {
    pub(super) const fn new(at: Time) -> Self {
        Self { recent: [at; RECENT], longest_ns: 0 }
    }

    /// A packet passed at `at`; false when the clock was set back since the last.
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
            // Every order of four neighbours but the first, with which it began.
            for turn in 0..24 {
                let place = window.max(1).min(in_order.len() - 4);
                stamps[place..place + 4].rotate_left(1 + turn % 3);
                stamps[place..place + 3].rotate_left(1 + turn % 2);
                assert_eq!(last_and_longest(&stamps), (1_501, 900), "{stamps:?}");
            }
        }
        // The longest time is not between what was there first.
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
