//! Rate limits: requests a second in total and from each source.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use firstbyte_clock::Monotonic;

/// Maximum number of sources with their own allowance; they take half a megabyte.
const MOST_SOURCES: usize = 16_384;
/// Number of allowances for further sources. A hash assigns each source to one of them.
const SHARED: u64 = 4_096;
/// Seconds' worth of requests that may arrive at once.
const BURST_SECONDS: f64 = 3.0;

const FORGET_EVERY: Duration = Duration::from_secs(1);

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverLimits {
    /// Total requests a second.
    pub rate: u32,
    /// Requests a second from one source; 0 is unlimited.
    pub rate_per_source: u32,
    /// Maximum size of the file, in bytes.
    pub file_bytes: u64,
}

/// Token bucket: refills at a rate and holds a few seconds' worth of requests.
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

/// Which limit a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMany {
    OfAll,
    OfSource,
}

/// Enforces the limits.
#[derive(Debug)]
pub(super) struct Rates {
    limits: ReceiverLimits,
    all: Allowance,
    /// Allowances by a hash that only this process can compute, so that addresses are not even in memory.
    sources: HashMap<u64, Allowance>,
    /// Allowances shared by sources that found no room in `sources`, by a part of their hash.
    ///
    /// A source that has used some of its allowance is never evicted from either map: a client who could evict others
    /// could evict itself and start again with a full allowance.
    shared: HashMap<u64, Allowance>,
    hasher: RandomState,
    /// When idle sources were last removed, which visits all of them.
    forgotten: Monotonic,
}

impl Rates {
    pub(super) fn new(limits: ReceiverLimits, now: Monotonic) -> Self {
        let all = Allowance::full(limits.rate, now);
        let (sources, shared) = (HashMap::new(), HashMap::new());
        Self { limits, all, sources, shared, hasher: RandomState::new(), forgotten: now }
    }

    /// Accepts or refuses one request from `source`.
    pub(super) fn take(&mut self, source: IpAddr, now: Monotonic) -> Result<(), TooMany> {
        let rate = self.limits.rate_per_source;
        // Check the source first: one that sends too much must not use up the total allowance.
        if rate > 0 {
            let key = self.hasher.hash_one(network(source));
            if !self.sources.contains_key(&key) {
                // A request that is refused anyway must not fill the table.
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

    /// Removes sources that have been idle.
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

/// Addresses that count as one source: an IPv4 address, or an IPv6 /64, in which one host can use any address.
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

    /// Limits under which sources fill the table before they exceed the total rate.
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
            // Idle sources are forgotten, and new ones have their own allowances again.
            now = now + Duration::from_secs(5);
            rates.forget(now);
            assert_eq!(rates.take(source(200_000), now), Ok(()));
            assert_eq!((rates.sources.len(), rates.shared.len()), (1, 0));
        }
    }

    /// Requests over the total rate take no places: a flood of a million sources leaves the table nearly empty.
    #[test]
    fn what_is_too_much_in_all_fills_no_table() {
        let now = Monotonic::now();
        let mut rates = Rates::new(LIMITS, now);
        let taken = (0..1_000_000).filter(|n| rates.take(source(*n), now).is_ok()).count();
        assert_eq!((taken, rates.sources.len()), (300, 300));
    }

    /// A flood of sources gives no one a new allowance, and does not lock out sources that arrive during it.
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
        // A tenth of a second has passed: one more request, not thirty.
        assert_eq!((0..100).filter(|_| rates.take(greedy, now).is_ok()).count(), 1);
        let locked_out = late.iter().filter(|taken| !**taken).count();
        assert!(locked_out == 0, "{locked_out} of {}", late.len());
        // A source that came too late for its own place still has a limit.
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
