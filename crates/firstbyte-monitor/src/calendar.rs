//! When each series is measured: spreads the load, keeps limits, and never catches up in bursts.
//!
//! In: series with their intervals, and the current time. Out: which series begin a sample now, and how late. Each
//! series has its own grid of due times; grids of one interval are spread evenly over it. A random jitter moves each
//! sample off the grid and does not accumulate. A series that is due but may not begin yet (a limit, or its previous
//! sample still runs) waits; grid places that pass meanwhile are counted and skipped. Failing series keep their grid,
//! so shares of failures are shares of time. An extra sample, measured at once, does not move the grid. The caller
//! supplies the time, from any origin, never decreasing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use firstbyte_core::stats::ExponentialHistogram;

use crate::configuration::Limits;

/// A sample stands for its interval plus at most this time, the longest that a sample may take. If the process stood
/// still for longer, that time is unknown.
const LONGEST_SAMPLE: Duration = Duration::from_secs(600);
/// Fractional part of the golden ratio. Consecutive multiples of it stay far apart modulo 1, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Number of a series.
pub type SeriesNumber = u32;

/// How often a series is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Time from one sample to the next.
    pub every: Duration,
    /// Share of `every` by which a sample may be early or late.
    pub jitter: f64,
    /// Host that the series asks; the limit `per_host` counts by it.
    pub host: String,
}

/// A sample that begins now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The series to measure.
    pub series: SeriesNumber,
    /// Time since it was due.
    pub lateness: Duration,
}

/// Decides when each series is measured.
pub struct Calendar {
    limits: Limits,
    series: HashMap<SeriesNumber, Entry>,
    /// When to look at each series again. A series under way or waiting has no entry.
    due: BinaryHeap<Reverse<(Duration, SeriesNumber, u32)>>,
    /// Due series, in the order in which they became due.
    ready: VecDeque<(SeriesNumber, u32)>,
    hosts: Vec<Host>,
    host_numbers: HashMap<String, usize>,
    in_flight: usize,
    added: u32,
    incarnations: u32,
    random: fastrand::Rng,
    lateness: ExponentialHistogram,
    missed: u64,
}

#[derive(Default)]
struct Host {
    in_flight: usize,
    /// Due series that wait because the host has reached its limit.
    waiting: VecDeque<(SeriesNumber, u32)>,
}

struct Entry {
    every: Duration,
    jitter: f64,
    host: usize,
    /// Place on the grid for which the series is due next or under way.
    place: Duration,
    /// When the series was due, jitter included.
    due: Duration,
    /// Distinguishes the current queue entry from outdated ones of the same series number.
    incarnation: u32,
    under_way: bool,
    /// Its next sample, or the one under way, is an extra one.
    is_extra: bool,
}

impl Entry {
    /// Draws the due time: near the grid place, and not before `now`.
    fn draw_due(&mut self, random: &mut fastrand::Rng, now: Duration) {
        let most = self.every.mul_f64(self.jitter);
        self.due = (self.place + most.mul_f64(2.0 * random.f64())).saturating_sub(most).max(now);
    }
}

impl Calendar {
    /// Creates an empty calendar. Jitter is drawn from `seed`.
    pub fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            series: HashMap::new(),
            due: BinaryHeap::new(),
            ready: VecDeque::new(),
            hosts: Vec::new(),
            host_numbers: HashMap::new(),
            in_flight: 0,
            added: 0,
            incarnations: 0,
            random: fastrand::Rng::with_seed(seed),
            lateness: ExponentialHistogram::default(),
            missed: 0,
        }
    }

    /// Replaces the limits. Samples under way continue.
    pub const fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds a series, or changes the timing of one. Its first sample is due within a period and its jitter from `now`.
    pub fn add(&mut self, number: SeriesNumber, timing: &Timing, now: Duration) {
        let host = *self.host_numbers.entry(timing.host.clone()).or_insert_with(|| {
            self.hosts.push(Host::default());
            self.hosts.len() - 1
        });
        let under_way = self.remove(number);
        let share = (f64::from(self.added) * GOLDEN).fract();
        self.added = self.added.wrapping_add(1);
        self.incarnations = self.incarnations.wrapping_add(1);
        // Late enough that the first sample can be early.
        let place = now + timing.every.mul_f64(share + timing.jitter);
        let mut entry = Entry {
            every: timing.every,
            jitter: timing.jitter,
            host,
            place,
            due: place,
            incarnation: self.incarnations,
            under_way: false,
            is_extra: false,
        };
        entry.draw_due(&mut self.random, now);
        self.due.push(Reverse((entry.due, number, self.incarnations)));
        self.series.insert(number, entry);
        debug_assert!(!under_way, "who is under way has ended, or been removed, before");
    }

    /// Removes a series and returns whether a sample of it was under way. Do not call [`Self::ended`] for that sample.
    pub fn remove(&mut self, number: SeriesNumber) -> bool {
        let Some(entry) = self.series.remove(&number) else { return false };
        if entry.under_way {
            self.free(entry.host);
        }
        entry.under_way
    }

    /// The next sample to begin at `now`; `None` if no series is due or may begin.
    pub fn begin(&mut self, now: Duration) -> Option<Begun> {
        while let Some(Reverse((at, number, incarnation))) = self.due.peek().copied() {
            if at > now {
                break;
            }
            self.due.pop();
            self.ready.push_back((number, incarnation));
        }
        while self.in_flight < self.limits.in_flight {
            let (number, incarnation) = self.ready.pop_front()?;
            let Some(entry) = self.series.get_mut(&number) else { continue };
            if entry.incarnation != incarnation {
                continue;
            }
            let host = &mut self.hosts[entry.host];
            if host.in_flight >= self.limits.per_host {
                host.waiting.push_back((number, incarnation));
                continue;
            }
            host.in_flight += 1;
            self.in_flight += 1;
            entry.under_way = true;
            // An extra sample has no grid place, so it cannot be late.
            let lateness = match entry.is_extra {
                true => Duration::ZERO,
                false => now.saturating_sub(entry.due),
            };
            if !entry.is_extra {
                self.lateness.add(lateness);
            }
            return Some(Begun { series: number, lateness });
        }
        None
    }

    /// When to call [`Self::begin`] again if no sample ends before. A time in the past means at once.
    pub fn next(&self) -> Option<Duration> {
        let next = self.due.peek().map(|Reverse((at, ..))| *at);
        if self.ready.is_empty() || self.in_flight >= self.limits.in_flight {
            return next;
        }
        Some(Duration::ZERO)
    }

    /// Ends the sample under way of this series. Returns how much time of the grid it stands for, zero for an extra
    /// sample; `None` if no sample was under way.
    pub fn ended(&mut self, number: SeriesNumber, now: Duration) -> Option<Duration> {
        let entry = self.series.get_mut(&number).filter(|entry| entry.under_way)?;
        entry.under_way = false;
        let stands_for = if std::mem::take(&mut entry.is_extra) {
            entry.due = entry.due.max(now);
            Duration::ZERO
        } else {
            entry.place += entry.every;
            let mut places = 1;
            if entry.place < now {
                // Skip whole intervals, which keeps the grid in place.
                let behind = (now - entry.place).as_nanos() / entry.every.as_nanos().max(1) + 1;
                let behind = u32::try_from(behind).unwrap_or(u32::MAX);
                entry.place += entry.every * behind;
                self.missed += u64::from(behind);
                places = behind.saturating_add(1);
            }
            entry.draw_due(&mut self.random, now);
            let longest = entry.every.saturating_add(LONGEST_SAMPLE);
            entry.every.saturating_mul(places).min(longest)
        };
        let (host, due, incarnation) = (entry.host, entry.due, entry.incarnation);
        self.due.push(Reverse((due, number, incarnation)));
        self.free(host);
        Some(stands_for)
    }

    /// Measures an extra sample of this series at once, unless a sample is under way. The grid does not move.
    pub fn measure_at_once(&mut self, number: SeriesNumber, now: Duration) {
        let Some(entry) = self.series.get_mut(&number) else { return };
        if entry.under_way || entry.is_extra {
            return;
        }
        self.incarnations = self.incarnations.wrapping_add(1);
        entry.incarnation = self.incarnations;
        entry.is_extra = true;
        self.due.push(Reverse((now, number, entry.incarnation)));
    }

    /// How late samples began. High values mean that the machine or a limit is too small.
    pub const fn lateness(&self) -> &ExponentialHistogram {
        &self.lateness
    }

    /// Samples left out because the time for the next one had come.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Number of samples under way.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether the calendar has no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    fn free(&mut self, host: usize) {
        self.in_flight -= 1;
        let host = &mut self.hosts[host];
        host.in_flight -= 1;
        // Series that waited for this host go before those that became due later.
        if let Some(first) = host.waiting.pop_front() {
            self.ready.push_front(first);
        }
    }
}

#[cfg(test)]
mod tests;
