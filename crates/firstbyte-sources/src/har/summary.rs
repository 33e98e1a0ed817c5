//! An archive in numbers: what became of its requests, and how long what opened connections took, by origin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::entry::{HarArchive, HarFlaw};
use super::judge::{HarExchange, HarOutcome, HarPhases};
use firstbyte_core::stats::{median, percentile};

/// How many requests had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarCounts([u64; HarOutcome::ALL.len()]);

impl HarCounts {
    /// How many had this one.
    pub fn with(&self, outcome: HarOutcome) -> u64 {
        self.0[outcome as usize]
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add(&mut self, outcome: HarOutcome) {
        self.0[outcome as usize] += 1;
    }
}

/// What went to one host and port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarOrigin {
    /// Host and port.
    pub authority: Arc<str>,
    /// Its requests, by what became of them.
    pub counts: HarCounts,
    /// Its connections, where the file tells them apart.
    pub connections: Option<u64>,
    /// Those of requests that opened their connection.
    opened: Vec<HarPhases>,
}

/// One phase of the requests that opened their connection.
pub type HarPhaseOf = fn(&HarPhases) -> Option<Duration>;

impl HarOrigin {
    fn times(&self, phase: HarPhaseOf) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.opened.iter().filter_map(phase).collect();
        times.sort_unstable();
        times
    }

    /// The median of a phase of those that opened their connection; absent where none says.
    pub fn median(&self, phase: HarPhaseOf) -> Option<Duration> {
        let times: Vec<f64> = self.times(phase).iter().map(|t| t.as_nanos() as f64).collect();
        Some(Duration::from_nanos(median(&times)?.round() as u64))
    }

    /// Its 95th percentile, from twenty on: of fewer it would be their largest.
    pub fn p95(&self, phase: HarPhaseOf) -> Option<Duration> {
        let times = self.times(phase);
        percentile(&times, 95).filter(|_| times.len() >= 20)
    }
}

/// An archive's entries, judged and counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarSummary {
    /// Each entry's, in the file's order.
    pub exchanges: Vec<HarExchange>,
    /// All entries, by what became of them.
    pub counts: HarCounts,
    /// Origins, in the order in which they were first asked for something.
    pub origins: Vec<HarOrigin>,
    /// What cannot be so, the first of it, in the file's order.
    pub flaws: Vec<HarFlaw>,
    /// How much there is of it.
    pub flaw_count: u64,
}

impl HarArchive {
    /// Judges and counts its entries.
    pub fn summary(&self) -> HarSummary {
        let rules = self.rules();
        let mut summary = HarSummary {
            flaws: self.flaws.clone(),
            flaw_count: self.flaw_count,
            exchanges: Vec::with_capacity(self.entries.len()),
            ..HarSummary::default()
        };
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut names: Vec<HashSet<&str>> = Vec::new();
        for entry in &self.entries {
            let (exchange, flaws) = entry.judge(rules);
            summary.flaw_count += flaws.len() as u64;
            let room = Self::MOST_FLAWS.saturating_sub(summary.flaws.len());
            summary.flaws.extend(flaws.into_iter().take(room));
            summary.exchanges.push(exchange);
            summary.counts.add(exchange.outcome);
            let Some(authority) = &entry.authority else { continue };
            let place = *places.entry(&**authority).or_insert_with(|| {
                let authority = authority.clone();
                summary.origins.push(HarOrigin { authority, ..HarOrigin::default() });
                names.push(HashSet::new());
                names.len() - 1
            });
            let origin = &mut summary.origins[place];
            origin.counts.add(exchange.outcome);
            if exchange.outcome == HarOutcome::Opened {
                origin.opened.push(exchange.phases);
            }
            let name = entry.connection_name(rules).filter(|_| exchange.outcome.is_timed());
            names[place].extend(name);
        }
        for (origin, names) in summary.origins.iter_mut().zip(&names) {
            origin.connections = (!names.is_empty()).then_some(names.len() as u64);
        }
        summary.flaws.sort_by_key(|flaw| flaw.entry);
        summary
    }
}
