//! The margin by which the forwarder wakes up before a frame is due.
//!
//! A sleeping thread wakes up late: by a few microseconds on bare metal, and by a hundred if a halted
//! virtual processor must be resumed. The margin follows the observed lateness. From waking up until
//! the frame is due, the thread spins.

const LEAST_NS: u64 = 20_000;
const MOST_NS: u64 = 250_000;
/// Aim to be awake this long before the frame is due.
const SLACK_NS: u64 = 10_000;

/// Estimate of the worst lateness of wake-ups, within bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakeMargin {
    ns: u64,
}

impl WakeMargin {
    pub(super) fn new() -> Self {
        Self { ns: MOST_NS / 2 }
    }

    pub(super) fn margin_ns(self) -> u64 {
        self.ns
    }

    /// Updates the estimate with the lateness of a wake-up. It grows quickly and shrinks slowly, and settles
    /// where about one wake-up in twenty is later.
    pub(super) fn observe(&mut self, late_ns: u64) {
        let wanted = late_ns.saturating_add(SLACK_NS).clamp(LEAST_NS, MOST_NS);
        if wanted > self.ns {
            self.ns += (wanted - self.ns) / 4;
        } else {
            self.ns -= (self.ns - wanted) / 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_wake_ups_within_its_bounds() {
        let mut margin = WakeMargin::new();
        for _ in 0..1_000 {
            margin.observe(0);
        }
        assert!((LEAST_NS..LEAST_NS + 100).contains(&margin.margin_ns()), "{margin:?}");
        for _ in 0..20 {
            margin.observe(90_000);
        }
        assert!((95_000..=100_000).contains(&margin.margin_ns()), "{margin:?}");
        for _ in 0..50 {
            margin.observe(u64::MAX);
        }
        assert!(margin.margin_ns() <= MOST_NS);
    }

    #[test]
    fn a_rare_late_wake_up_changes_little() {
        let mut margin = WakeMargin::new();
        for index in 0..2_000 {
            margin.observe(if index % 100 == 0 { 500_000 } else { 30_000 });
        }
        assert!(margin.margin_ns() < 100_000, "{margin:?}");
    }
}
