//! Whether the wall clock is to be believed where things are deleted by it: machines start with a wrong one, and are set right after
//! minutes.

use std::time::Duration;

use firstbyte_clock::Monotonic;

/// A clock that nobody has set for so long is believed.
const STEADY_FOR: Duration = Duration::from_secs(600);
/// What it may be off after that time, without having been set.
const SLACK_NS: u64 = 60_000_000_000;

/// What the wall clock did so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockTrust {
    /// Since when it has not been set, and what it said then, nanoseconds since 1970.
    since: (Monotonic, u64),
}

impl ClockTrust {
    pub(super) const fn from(now: Monotonic, wall_ns: u64) -> Self {
        Self { since: (now, wall_ns) }
    }

    /// Whether it has gone on evenly for long enough, up to `now`, where it says `wall_ns`.
    pub(super) fn is_steady(&mut self, now: Monotonic, wall_ns: u64) -> bool {
        let (since, said) = self.since;
        let gone = now.since(since);
        let expected = said.saturating_add(u64::try_from(gone.as_nanos()).unwrap_or(u64::MAX));
        if wall_ns.abs_diff(expected) > SLACK_NS {
            self.since = (now, wall_ns);
            return false;
        }
        gone >= STEADY_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_believed_after_a_while() {
        const DAY_NS: u64 = 86_400_000_000_000;
        let begin = Monotonic::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let wall = |seconds: u64| 20_000 * DAY_NS + seconds * 1_000_000_000;
        let mut trust = ClockTrust::from(begin, wall(0));
        assert!(!trust.is_steady(at(60), wall(60)));
        // Set forwards by years, and back.
        assert!(!trust.is_steady(at(120), wall(120) + 1_000 * DAY_NS));
        assert!(!trust.is_steady(at(660), wall(660) + 1_000 * DAY_NS));
        assert!(!trust.is_steady(at(670), wall(670)));
        assert!(!trust.is_steady(at(1_200), wall(1_201)));
        assert!(trust.is_steady(at(1_270), wall(1_271)));
        assert!(trust.is_steady(at(90_000), wall(90_010)));
    }
}
