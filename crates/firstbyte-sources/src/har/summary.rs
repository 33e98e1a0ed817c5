//! An archive in numbers: outcomes of its requests, and durations of those that opened connections, by origin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::entry::{HarArchive, HarFlaw};
use super::judge::{HarExchange, HarOutcome, HarPhases};
use firstbyte_core::stats::{median, percentile};

/// Number of requests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HarCounts([u64; HarOutcome::ALL.len()]);

impl HarCounts {
    /// Number with this outcome.
    pub fn with(&self, outcome: HarOutcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Number with any outcome.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add(&mut self, outcome: HarOutcome) {
        self.0[outcome as usize] += 1;
    }
}

/// Requests to one host and port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarOrigin {
    /// Host and port.
    pub authority: Arc<str>,
    /// Its requests by outcome.
    pub counts: HarCounts,
    /// Number of its connections, if the file distinguishes them.
    pub connections: Option<u64>,
    /// Phases of the requests that opened their connection.
    opened: Vec<HarPhases>,
}

/// Selects one phase of the requests that opened their connection.
pub type HarPhaseOf = fn(&HarPhases) -> Option<Duration>;

impl HarOrigin {
    fn times(&self, phase: HarPhaseOf) -> Vec<Duration> {
        let mut times: Vec<Duration> = self.opened.iter().filter_map(phase).collect();
        times.sort_unstable();
        times
    }

    /// Median of a phase of those that opened their connection; absent if none of them has it.
    pub fn median(&self, phase: HarPhaseOf) -> Option<Duration> {
        let times: Vec<f64> = self.times(phase).iter().map(|t| t.as_nanos() as f64).collect();
        Some(Duration::from_nanos(median(&times)?.round() as u64))
    }

    /// 95th percentile of a phase, if there are at least twenty values: of fewer it would be the maximum.
    pub fn p95(&self, phase: HarPhaseOf) -> Option<Duration> {
        let times = self.times(phase);
        percentile(&times, 95).filter(|_| times.len() >= 20)
    }
}

/// An archive's entries, interpreted and counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarSummary {
    /// The interpreted entries, in the file's order.
    pub exchanges: Vec<HarExchange>,
    /// All entries by outcome.
    pub counts: HarCounts,
    /// Origins, in the order of their first request.
    pub origins: Vec<HarOrigin>,
    /// Impossible values, in the file's order, up to a limit.
    pub flaws: Vec<HarFlaw>,
    /// Number of impossible values.
    pub flaw_count: u64,
}

impl HarArchive {
    /// Interprets and counts its entries.
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
