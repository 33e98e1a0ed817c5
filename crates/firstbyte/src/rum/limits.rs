//! How much is taken from whom: requests a second, in all and of one source.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use firstbyte_clock::Monotonic;

/// Sources that are watched one by one: half a megabyte.
const MOST_SOURCES: usize = 16_384;
/// Allowances for those that come when so many are watched: each is shared by the sources that a hash assigns to it.
const SHARED: u64 = 4_096;
/// So many seconds' worth may come at once.
const BURST_SECONDS: f64 = 3.0;

const FORGET_EVERY: Duration = Duration::from_secs(1);

/// How much is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverLimits {
    /// Requests a second, in all.
    pub rate: u32,
    /// Requests a second of one source; 0 is no limit.
    pub rate_per_source: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// What may come now: fills up at a rate, and holds a few seconds' worth.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    at: Monotonic,
}

impl Allowance {
    fn full(rate: u32, at: Monotonic) -> Self {
        Self { left: f64::from(rate) * BURST_SECONDS, at }
    }

    fn fill(&mut self, rate: u32, now: Monotonic) {
        let rate = f64::from(rate);
        let more = now.since(self.at).as_secs_f64() * rate;
        self.left = (self.left + more).min(rate * BURST_SECONDS);
        self.at = now;
    }

    fn has_one(&mut self, rate: u32, now: Monotonic) -> bool {
        self.fill(rate, now);
        self.left >= 1.0
    }

    fn take(&mut self, rate: u32, now: Monotonic) -> bool {
        let is_there = self.has_one(rate, now);
        if is_there {
            self.left -= 1.0;
        }
        is_there
    }
}

/// Which requests are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMany {
    OfAll,
    OfSource,
}

/// Watches rates.
#[derive(Debug)]
pub(super) struct Rates {
    limits: ReceiverLimits,
    all: Allowance,
    /// By a hash that only this process can make: addresses are not even in its memory.
    sources: HashMap<u64, Allowance>,
    /// Of sources that found no room among those, by a part of their hash. None of both is taken away from a source that
    /// has used some of it up: whoever could push others out could push himself out, and begin anew.
    shared: HashMap<u64, Allowance>,
    hasher: RandomState,
    /// When quiet ones were looked for last: that goes through all of them.
    forgotten: Monotonic,
}

impl Rates {
    pub(super) fn new(limits: ReceiverLimits, now: Monotonic) -> Self {
        let all = Allowance::full(limits.rate, now);
        let (sources, shared) = (HashMap::new(), HashMap::new());
        Self { limits, all, sources, shared, hasher: RandomState::new(), forgotten: now }
    }

    /// Whether one more may come from `source`.
    pub(super) fn take(&mut self, source: IpAddr, now: Monotonic) -> Result<(), TooMany> {
        let rate = self.limits.rate_per_source;
        // The source first: one that sends too much is not to use up what is there for all.
        if rate > 0 {
            let key = self.hasher.hash_one(network(source));
            if !self.sources.contains_key(&key) {
                // What is refused anyway is not to fill the table.
                if !self.all.has_one(self.limits.rate, now) {
                    return Err(TooMany::OfAll);
                }
                if self.sources.len() >= MOST_SOURCES && now.since(self.forgotten) >= FORGET_EVERY {
                    self.forget(now);
                }
            }
            let full = || Allowance::full(rate, now);
            let own = match self.sources.contains_key(&key) || self.sources.len() < MOST_SOURCES {
                true => self.sources.entry(key).or_insert_with(full),
                false => self.shared.entry(key % SHARED).or_insert_with(full),
            };
            if !own.take(rate, now) {
                return Err(TooMany::OfSource);
            }
        }
        self.all.take(self.limits.rate, now).then_some(()).ok_or(TooMany::OfAll)
    }

    /// Lets go of sources that have been quiet.
    fn forget(&mut self, now: Monotonic) {
        self.forgotten = now;
        let rate = self.limits.rate_per_source;
        let full = f64::from(rate) * BURST_SECONDS;
        for sources in [&mut self.sources, &mut self.shared] {
            sources.retain(|_, own| {
                own.fill(rate, now);
                own.left < full
            });
        }
    }
}

/// Who counts as one: an IPv4 address, an IPv6 network of 64 bits, in which one host can have any address.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const LIMITS: ReceiverLimits = ReceiverLimits { rate: 100, rate_per_source: 10, file_bytes: 0 };

    fn source(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn one_source_does_not_use_up_what_is_there_for_all() {
        let now = Monotonic::now();
        let mut rates = Rates::new(LIMITS, now);
        let taken = (0..1_000).filter(|_| rates.take(source(1), now).is_ok()).count();
        assert_eq!(taken, 30);
        assert_eq!(rates.take(source(1), now), Err(TooMany::OfSource));
        assert_eq!(rates.take(source(2), now), Ok(()));
        let later = now + Duration::from_secs(1);
        let taken = (0..1_000).filter(|_| rates.take(source(1), later).is_ok()).count();
        assert_eq!(taken, 10);
    }

    #[test]
    fn many_sources_take_no_more_than_all_may() {
        let now = Monotonic::now();
        let mut rates = Rates::new(LIMITS, now);
        let taken = (0..5_000).filter(|n| rates.take(source(*n), now).is_ok()).count();
        assert_eq!(taken, 300);
        assert_eq!(rates.take(source(9_999), now), Err(TooMany::OfAll));
    }

    /// Limits under which sources fill the table, and not the rate of all.
    const WIDE: ReceiverLimits = ReceiverLimits { rate: 100_000, ..LIMITS };

    #[test]
    fn memory_is_bounded_however_many_there_are() {
        for limits in [LIMITS, WIDE] {
            let mut now = Monotonic::now();
            let mut rates = Rates::new(limits, now);
            for n in 0..100_000 {
                now = now + Duration::from_micros(1);
                let _ = rates.take(source(n), now);
            }
            assert!(rates.sources.len() <= MOST_SOURCES, "{}", rates.sources.len());
            assert!(rates.shared.len() as u64 <= SHARED, "{}", rates.shared.len());
            // Who was quiet for a while is forgotten, and new ones have allowances of their own again.
            now = now + Duration::from_secs(5);
            rates.forget(now);
            assert_eq!(rates.take(source(200_000), now), Ok(()));
            assert_eq!((rates.sources.len(), rates.shared.len()), (1, 0));
        }
    }

    /// What the rate of all refuses takes no places: a flood of a million sources leaves the table nearly empty.
    #[test]
    fn what_is_too_much_in_all_fills_no_table() {
        let now = Monotonic::now();
        let mut rates = Rates::new(LIMITS, now);
        let taken = (0..1_000_000).filter(|n| rates.take(source(*n), now).is_ok()).count();
        assert_eq!((taken, rates.sources.len()), (300, 300));
    }

    /// A flood of sources gives nobody a new allowance, and does not lock out who comes while it lasts.
    #[test]
    fn a_full_table_resets_no_limit_and_locks_nobody_out() {
        let mut now = Monotonic::now();
        let mut rates = Rates::new(WIDE, now);
        let greedy = source(0);
        assert_eq!((0..100).filter(|_| rates.take(greedy, now).is_ok()).count(), 30);
        let mut late = Vec::new();
        for n in 1..=100_000 {
            now = now + Duration::from_micros(1);
            let taken = rates.take(source(n), now).is_ok();
            if n as usize > MOST_SOURCES && n <= 60_000 {
                late.push(taken);
            }
        }
        // A tenth of a second went by: one more of his, and not thirty.
        assert_eq!((0..100).filter(|_| rates.take(greedy, now).is_ok()).count(), 1);
        let locked_out = late.iter().filter(|taken| !**taken).count();
        assert!(locked_out == 0, "{locked_out} of {}", late.len());
        // Who came too late for a place of his own has a limit all the same.
        let taken = (0..1_000).filter(|_| rates.take(source(50_000), now).is_ok()).count();
        assert!(taken <= 30, "{taken}");
    }

    #[test]
    fn a_network_of_version_6_is_one_source() {
        let v6 =
            |low: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8_0000_0001_u128 << 64 | low));
        assert_eq!(network(v6(1)), network(v6(u128::from(u64::MAX))));
        let mapped = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
        assert_eq!(network(mapped.into()), network(Ipv4Addr::new(192, 0, 2, 1).into()));
    }
}
