//! Linux's timer wheel (`kernel/time/timer.c`): when a timer fires.
//!
//! The kernel keeps timers in buckets that get wider with distance, and a timer fires at the end of its bucket: a
//! timeout of 1 s after 1.000 to 1.032 s if the kernel ticks 250 times a second (Debian, Ubuntu LTS).

use super::Nanos;

/// `CONFIG_HZ=250`.
pub(super) const TICK: Nanos = 4_000_000;
/// Buckets per level, and the growth of their width from level to level (as a power of two).
const LEVEL_SIZE: u64 = 64;
const LEVEL_SHIFT: u32 = 3;
const LEVELS: u32 = 9;

/// The timers of one kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wheel {
    /// How long the kernel had been ticking when the connection began.
    since: Nanos,
}

impl Wheel {
    /// A kernel whose ticks, and widest buckets, have a random phase when the connection begins.
    pub(super) fn new(random: &mut fastrand::Rng) -> Self {
        Self { since: random.u64(0..TICK << (LEVEL_SHIFT * LEVELS)) }
    }

    /// When a timer set at `now` for `timeout` fires.
    pub(super) fn due(self, now: Nanos, timeout: Nanos) -> Nanos {
        let ticks = timeout.div_ceil(TICK);
        let expires = (self.since + now) / TICK + ticks;
        let reaches = |level: u32| (LEVEL_SIZE - 1) << (level * LEVEL_SHIFT);
        let level = (0..LEVELS - 1).find(|level| ticks < reaches(*level)).unwrap_or(LEVELS - 1);
        let shift = level * LEVEL_SHIFT;
        (((expires >> shift) + 1) << shift) * TICK - self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Measured on 122 SYNs to a listener with a full queue (Linux 6.18, 250 Hz): the first retransmission came after
    /// 1.000 to 1.036 s, the next after 1.024 s, and, at doubling timeouts, after 2.016 s.
    #[test]
    fn a_second_is_a_bit_more() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut firsts: Vec<Nanos> = Vec::new();
        for _ in 0..1_000 {
            let wheel = Wheel::new(&mut random);
            let first = wheel.due(0, 1_000 * MS);
            firsts.push(first);
            let second = wheel.due(first, 1_000 * MS);
            assert_eq!(second - first, 1_024 * MS);
        }
        firsts.sort_unstable();
        assert!(firsts[0] >= 1_000 * MS && firsts[999] <= 1_032 * MS, "{firsts:?}");
        assert!((1_013 * MS..1_019 * MS).contains(&firsts[500]), "{}", firsts[500]);
    }

    #[test]
    fn what_is_near_is_exact_to_a_tick() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..1_000 {
            let wheel = Wheel::new(&mut random);
            let now = random.u64(0..10_000 * MS);
            let took = wheel.due(now, 200 * MS) - now;
            assert!((200 * MS..=204 * MS).contains(&took), "{took}");
        }
    }
}
