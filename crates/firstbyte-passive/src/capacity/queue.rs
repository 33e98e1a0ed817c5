//! Visits as a queue: who was there when one came, and how long after the one before it left.
//!
//! In: [`Visit`]s in any order. Out: [`Served`], in the order in which they left. A *busy period* is a longest interval in
//! which at least one handshake is in the server's hands. Within it, what passes between one departure and the next is put
//! down to the one that leaves: where they are served one after the other, that is what the server spent on it (Lindley's
//! recursion turned round), and in any case the sum over a busy period is its length.

use super::Visit;

/// A visit, and what the queue was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Served {
    pub(super) visit: Visit,
    /// Others in the server's hands when it came.
    pub(super) found: u32,
    /// From the departure before it, or the begin of the busy period, to its own, seconds.
    pub(super) spent: f64,
    /// From the arrival of the one that left before it to its own, seconds; absent at the begin of a busy period.
    pub(super) arrival_gap: Option<f64>,
}

impl Served {
    /// Time in the server's hands, seconds.
    pub(super) fn stayed(&self) -> f64 {
        (self.visit.until - self.visit.from) as f64 / 1e9
    }

    /// Which sort of visit: full or resumed, the first of its handshake or a later one.
    pub(super) const fn sort(&self) -> usize {
        self.visit.resumed as usize * 2 + !self.visit.first as usize
    }
}

/// Sorts of visits.
pub(super) const SORTS: usize = 4;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// In the order of departures.
    pub(super) served: Vec<Served>,
    /// How many busy periods there are.
    pub(super) periods: usize,
    /// Their sum, seconds.
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
