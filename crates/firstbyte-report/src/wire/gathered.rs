//! Collects data about all captured connections for the page, in bounded memory.
//!
//! Input: connections, as they end. Output: times by kind of session, handshakes over time, and some connections
//! worth a diagram. Beyond the limits a random sample is kept, with the same
//! probability for all.

use std::time::Duration;

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::Observed;
use firstbyte_passive::sampled::Sampled;

use crate::chart::captured::{Placed, Times};

/// Maximum number of handshakes kept: 12 MiB.
const HANDSHAKES: usize = 1 << 19;
/// Maximum number of exchanges kept per kind of session: 2 MiB.
const EXCHANGES: usize = 1 << 18;

/// Kinds of sessions with their own lines.
const KINDS: [(&str, &str); 4] = [
    ("full", "s1"),
    ("full, session declined", "s11"),
    ("resumed", "s0"),
    ("resumed, early data", "s10"),
];

/// Data that the page needs about all connections.
#[derive(Clone, Debug)]
pub struct Gathered {
    first_ns: Option<i64>,
    /// Time, kind and duration.
    handshakes: Sampled<(i64, u8, u64)>,
    /// Number of handshakes of each kind.
    met: [u64; 4],
    exchanges: [Sampled<u64>; 4],
    /// Some full and some short handshakes.
    few: [Few; 2],
    slowest: Option<Observed>,
    random: fastrand::Rng,
}

impl Default for Gathered {
    fn default() -> Self {
        Self {
            first_ns: None,
            handshakes: Sampled::default(),
            met: [0; 4],
            exchanges: Default::default(),
            few: Default::default(),
            slowest: None,
            // A fixed seed, so that the same connections always give the same page.
            random: fastrand::Rng::with_seed(0x9a6e),
        }
    }
}

/// A systematic sample: all items up to a limit, then every second, every fourth…
#[derive(Clone, Debug, Default)]
struct Few {
    kept: Vec<Observed>,
    met: usize,
    every: usize,
}

impl Few {
    const MOST: usize = 512;

    fn add(&mut self, observed: &Observed) {
        if self.met.is_multiple_of(self.every.max(1)) {
            self.kept.push(observed.clone());
        }
        self.met += 1;
        if self.kept.len() == Self::MOST {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every = self.every.max(1) * 2;
        }
    }

    /// The one with the median handshake time.
    fn middle(&self) -> Option<&Observed> {
        let mut sorted: Vec<&Observed> = self.kept.iter().collect();
        sorted.sort_by_key(|observed| took(observed));
        sorted.get(sorted.len() / 2).copied()
    }
}

fn took(observed: &Observed) -> Duration {
    observed.handshake_time.map(|time| time.total()).unwrap_or_default()
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Index of a connection's kind in [`KINDS`].
fn kind(observed: &Observed) -> Option<usize> {
    let tls = observed.tls.as_deref()?;
    Some(match tls.handshake? {
        Handshake::Resumed => {
            let early = tls.early_data.is_some_and(|early| early.bytes > 0);
            if early { 3 } else { 2 }
        }
        _ => usize::from(tls.resumption.declined),
    })
}

impl Gathered {
    /// Adds a connection.
    pub fn add(&mut self, observed: &Observed) {
        let started = observed.started.unix_ns();
        self.first_ns = Some(self.first_ns.map_or(started, |first| first.min(started)));
        let Some(kind) = kind(observed) else { return };
        let random = &mut self.random;
        for exchange in &observed.exchanges.first {
            let Some(end) = exchange.response_end else { continue };
            let took = nanoseconds(end.since(exchange.request_start));
            if self.exchanges[kind].add(took, random)
                && self.exchanges[kind].kept().len() > EXCHANGES
            {
                self.exchanges[kind].halve(random);
            }
        }
        let Some(split) = observed.handshake_time.filter(|split| split.confident) else {
            return;
        };
        self.met[kind] += 1;
        let handshake = (started, kind as u8, nanoseconds(split.total()));
        if self.handshakes.add(handshake, random) && self.handshakes.kept().len() > HANDSHAKES {
            self.handshakes.halve(random);
        }
        self.few[usize::from(kind >= 2)].add(observed);
        if self.slowest.as_ref().is_none_or(|slowest| took(slowest) < took(observed)) {
            self.slowest = Some(observed.clone());
        }
    }

    /// Handshakes over time, one in [`Gathered::one_in`].
    pub(super) fn placed(&self) -> Vec<Placed> {
        let first = self.first_ns.unwrap_or(0);
        let placed = |(at, kind, took): &(i64, u8, u64)| {
            (u64::try_from(at - first).unwrap_or(0), *kind >= 2, *took)
        };
        self.handshakes.kept().iter().map(placed).collect()
    }

    /// One handshake in this many is kept.
    pub(super) const fn one_in(&self) -> u64 {
        self.handshakes.one_in()
    }

    /// Times of handshakes, and of exchanges, by kind of session.
    pub(super) fn times(&self) -> [Vec<Times>; 2] {
        let mut handshakes: [Vec<u64>; 4] = Default::default();
        for (_, kind, took) in self.handshakes.kept() {
            handshakes[usize::from(*kind)].push(*took);
        }
        let handshakes = handshakes.into_iter().zip(self.met);
        let exchanges = self.exchanges.iter().map(|kind| (kind.kept().to_vec(), kind.met()));
        [named(handshakes), named(exchanges)]
    }

    /// The full and the short handshake with median times, and the slowest of all.
    pub(super) fn worth_a_diagram(&self) -> [Option<&Observed>; 3] {
        [self.few[0].middle(), self.few[1].middle(), self.slowest.as_ref()]
    }
}

fn named(kinds: impl Iterator<Item = (Vec<u64>, u64)>) -> Vec<Times> {
    let named = kinds.zip(KINDS).map(|((mut sorted, count), (name, class))| {
        sorted.sort_unstable();
        Times { name: name.to_owned(), class, sorted, count }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use firstbyte_passive::{Analyzer, Limits};

    use super::*;

    #[test]
    fn handshakes_beyond_the_limit_are_sampled_and_counted() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../firstbyte/tests/captures/nam/input.pcapng");
        let mut analyzer = Analyzer::new(Limits::default());
        let mut all: Vec<Observed> = Vec::new();
        firstbyte_capture::read(&file, &mut analyzer, &mut |observed| all.push(observed.clone()))
            .unwrap();
        analyzer.finish(&mut |observed| all.push(observed.clone()));
        all.iter_mut().for_each(|observed| observed.exchanges.first.clear());
        let mut gathered = Gathered::default();
        const MANY: usize = 600_000;
        all.iter().cycle().take(MANY).for_each(|observed| gathered.add(observed));
        let [handshakes, exchanges] = gathered.times();
        assert_eq!(gathered.one_in(), 2);
        // Two of three handshakes are full, and half of each kind is kept, within five standard errors.
        let kept: Vec<usize> = handshakes.iter().map(|kind| kind.sorted.len()).collect();
        let counts: Vec<u64> = handshakes.iter().map(|kind| kind.count).collect();
        assert_eq!(counts, [400_000, 0, 200_000, 0]);
        assert!(kept[0].abs_diff(200_000) < 1_600 && kept[2].abs_diff(100_000) < 1_200, "{kept:?}");
        assert_eq!(gathered.placed().len(), kept.iter().sum::<usize>());
        assert!(exchanges.iter().all(|kind| kind.count == 0));
        let drawn = crate::chart::captured::over_time(&gathered.placed(), gathered.one_in());
        assert!(drawn.note.contains("One in 2 is drawn"), "{}", drawn.note);
    }
}
