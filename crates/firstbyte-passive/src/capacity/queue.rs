//! Visits as a queue: how many others each one found, and how long after the previous one it left.
//!
//! In: [`Visit`]s in any order. Out: [`Served`], in the order of departure. A *busy period* is a maximal interval in
//! which at least one handshake is in the server. Within it, the time between two departures is attributed to the later
//! one. If the server serves handshakes one after the other, that is the time it spent on this one (Lindley's recursion
//! reversed). In any case the sum over a busy period is its length.

use super::Visit;

/// A visit and the state of the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Served {
    pub(super) visit: Visit,
    /// Number of others in the server when it arrived.
    pub(super) found: u32,
    /// Time from the previous departure, or the start of the busy period, to its own, seconds.
    pub(super) spent: f64,
    /// Time from the arrival of the previous visit to leave to its own arrival, seconds; absent at the start of a busy
    /// period.
    pub(super) arrival_gap: Option<f64>,
}

impl Served {
    /// Time in the server, seconds.
    pub(super) fn stayed(&self) -> f64 {
        (self.visit.until - self.visit.from) as f64 / 1e9
    }

    /// Sort of visit: full or resumed, the first of its handshake or a later one.
    pub(super) const fn sort(&self) -> usize {
        self.visit.resumed as usize * 2 + !self.visit.first as usize
    }
}

/// Number of sorts of visits.
pub(super) const SORTS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In the order of departures.
    pub(super) served: Vec<Served>,
    /// Number of busy periods.
    pub(super) periods: usize,
    /// Total length of the busy periods, seconds.
    pub(super) busy: f64,
    /// From the first arrival to the last departure, seconds.
    pub(super) span: f64,
}

impl Queue {
    pub(super) fn from_visits(visits: &[Visit]) -> Self {
        let mut visits = visits.to_vec();
        visits.sort_unstable_by_key(|visit| (visit.from, visit.until));
        let mut left: Vec<i64> = visits.iter().map(|visit| visit.until).collect();
        left.sort_unstable();
        let mut gone = 0;
        let mut all: Vec<(Visit, u32, usize)> = Vec::with_capacity(visits.len());
        let mut begins: Vec<(i64, i64)> = Vec::new();
        for (place, visit) in visits.iter().enumerate() {
            while left.get(gone).is_some_and(|until| *until <= visit.from) {
                gone += 1;
            }
            match begins.last_mut() {
                Some((_, end)) if visit.from < *end => *end = (*end).max(visit.until),
                _ => begins.push((visit.from, visit.until)),
            }
            let found = u32::try_from(place.saturating_sub(gone)).unwrap_or(u32::MAX);
            all.push((*visit, found, begins.len() - 1));
        }
        all.sort_by_key(|(visit, _, period)| (*period, visit.until));
        let mut before: Option<(Visit, usize)> = None;
        let served = all
            .into_iter()
            .map(|(visit, found, period)| {
                let last = before.filter(|(_, earlier)| *earlier == period).map(|(last, _)| last);
                before = Some((visit, period));
                let since = last.map_or(begins[period].0, |last| last.until);
                Served {
                    visit,
                    found,
                    spent: (visit.until - since) as f64 / 1e9,
                    arrival_gap: last.map(|last| (visit.from - last.from) as f64 / 1e9),
                }
            })
            .collect();
        let busy: i64 = begins.iter().map(|(from, until)| until - from).sum();
        let span = begins.first().zip(begins.last()).map_or(0, |(first, last)| last.1 - first.0);
        Self { served, periods: begins.len(), busy: busy as f64 / 1e9, span: span as f64 / 1e9 }
    }
}
