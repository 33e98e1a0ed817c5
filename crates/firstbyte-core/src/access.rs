//! Access networks: the delay, rate and loss that the last mile adds to a path.
//!
//! One table for labs and predictions. `docs/access.md` gives each figure's source, or says that it is an assumption.

use std::time::Duration;

/// An access network, from a visitor's device to the first network shared by everybody.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessProfile {
    /// Name used to select it.
    pub name: &'static str,
    /// Description.
    pub title: &'static str,
    /// Average round trip that it adds.
    pub round_trip: Duration,
    /// Largest extra delay of a packet from the visitor over the fastest one.
    pub up_jitter: Duration,
    /// Largest extra delay of a packet to the visitor over the fastest one.
    pub down_jitter: Duration,
    /// Bits per second from the visitor.
    pub up_bits_per_second: u64,
    /// Bits per second to the visitor.
    pub down_bits_per_second: u64,
    /// Share of packets lost in each direction.
    pub loss: f64,
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Tenths of a millisecond.
const fn tenths(tenths: u64) -> Duration {
    Duration::from_micros(tenths * 100)
}

const fn kbit(rate: u64) -> u64 {
    rate * 1_000
}

/// All profiles, shortest round trip first.
pub const ACCESS_PROFILES: [AccessProfile; 8] = [
    AccessProfile {
        name: "fibre",
        title: "fibre to the home",
        round_trip: ms(24),
        up_jitter: ms(1),
        down_jitter: ms(1),
        up_bits_per_second: kbit(100_000),
        down_bits_per_second: kbit(100_000),
        loss: 0.001,
    },
    AccessProfile {
        name: "wifi-fibre",
        title: "WiFi, then fibre",
        round_trip: tenths(276),
        up_jitter: ms(5),
        down_jitter: ms(5),
        up_bits_per_second: kbit(70_000),
        down_bits_per_second: kbit(70_000),
        loss: 0.002,
    },
    AccessProfile {
        name: "cable",
        title: "cable",
        round_trip: ms(32),
        up_jitter: ms(4),
        down_jitter: ms(2),
        up_bits_per_second: kbit(20_000),
        down_bits_per_second: kbit(100_000),
        loss: 0.001,
    },
    AccessProfile {
        name: "satellite-leo",
        title: "satellite, low orbit",
        round_trip: ms(50),
        up_jitter: ms(10),
        down_jitter: ms(10),
        up_bits_per_second: kbit(10_000),
        down_bits_per_second: kbit(100_000),
        loss: 0.005,
    },
    AccessProfile {
        name: "4g",
        title: "4G",
        round_trip: tenths(531),
        up_jitter: ms(15),
        down_jitter: ms(5),
        up_bits_per_second: kbit(13_600),
        down_bits_per_second: kbit(14_700),
        loss: 0.002,
    },
    AccessProfile {
        name: "3g",
        title: "3G",
        round_trip: ms(150),
        up_jitter: ms(50),
        down_jitter: ms(50),
        up_bits_per_second: kbit(750),
        down_bits_per_second: kbit(1_600),
        loss: 0.005,
    },
    AccessProfile {
        name: "satellite-geo",
        title: "satellite, geostationary",
        round_trip: ms(600),
        up_jitter: ms(10),
        down_jitter: ms(10),
        up_bits_per_second: kbit(10_000),
        down_bits_per_second: kbit(100_000),
        loss: 0.005,
    },
    AccessProfile {
        name: "2g",
        title: "2G (EDGE)",
        round_trip: ms(840),
        up_jitter: ms(100),
        down_jitter: ms(100),
        up_bits_per_second: kbit(200),
        down_bits_per_second: kbit(240),
        loss: 0.01,
    },
];

impl AccessProfile {
    /// Finds a profile by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ACCESS_PROFILES.iter().find(|profile| profile.name == name)
    }

    /// One-way delay without jitter. Jitter adds half of its maximum on average, so that round trips average to
    /// `round_trip`.
    pub fn delay_each_way(&self) -> Duration {
        self.round_trip.saturating_sub((self.up_jitter + self.down_jitter) / 2) / 2
    }
}

/// The lower of two rates; `None` means unlimited.
pub fn lowest_rate(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// Combined loss of two networks in series, with independent losses.
pub fn loss_of_both(one: f64, other: f64) -> f64 {
    1.0 - (1.0 - one) * (1.0 - other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_possible() {
        for profile in &ACCESS_PROFILES {
            assert_eq!(AccessProfile::named(profile.name), Some(profile));
            assert!(profile.up_jitter + profile.down_jitter < profile.round_trip * 2);
            assert!(!profile.delay_each_way().is_zero() && profile.loss < 0.05);
            let least = profile.delay_each_way() * 2;
            assert_eq!(least + (profile.up_jitter + profile.down_jitter) / 2, profile.round_trip);
        }
        let sorted =
            ACCESS_PROFILES.windows(2).all(|pair| pair[0].round_trip <= pair[1].round_trip);
        assert!(sorted);
        assert_eq!(lowest_rate(None, Some(5)), Some(5));
        assert_eq!(lowest_rate(Some(3), Some(5)), Some(3));
        assert!((loss_of_both(0.1, 0.1) - 0.19).abs() < 1e-12);
    }

    /// The documented table matches this one.
    #[test]
    fn the_documented_table_is_this_one() {
        let document = include_str!("../../../docs/access.md");
        for profile in &ACCESS_PROFILES {
            let row = format!(
                "| `{}` | {} ms | {} / {} ms | {} / {} Mbit/s | {} % |",
                profile.name,
                profile.round_trip.as_micros() as f64 / 1e3,
                profile.down_jitter.as_millis(),
                profile.up_jitter.as_millis(),
                profile.down_bits_per_second as f64 / 1e6,
                profile.up_bits_per_second as f64 / 1e6,
                (profile.loss * 1e3).round() / 10.0,
            );
            assert!(document.contains(&row), "{row}");
        }
    }
}
