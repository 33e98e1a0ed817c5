//! Detects changes: when, by how much, where, and why.
//!
//! In: samples and hours through [`History`], and the time. Out: new and changed [`Event`]s: provisional, confirmed,
//! withdrawn. Pure and repeatable: reads no clock, writes nothing. Each figure of each series is examined separately
//! ([`level`]). Facts that changed with it give the cause (`cause`). Series that changed at the same time for the same
//! reason form one event (`scope`). Outages have their own state machine ([`outages`](crate::outages)). Definitions and
//! measured error rates: `docs/statistics.md`, "Changes in a monitored series".

mod cause;
mod event;
mod figures;
mod history;
#[cfg(test)]
mod kinds_tests;
mod latest;
pub mod level;
mod notes;
mod scope;
mod telling;
#[cfg(test)]
mod tests;
pub(crate) mod time_text;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use level::{BLOCK, Certainty, DAY, HOUR};

pub use event::{
    Cause, Event, FORMAT, FailureName, LevelEvent, OutageEvent, OutageState, Quorum, Samples,
    Scope, Size, State, Statistic,
};
pub use history::{History, InMemory, SeriesLabels, WantedTimes};
pub use latest::{LatestSample, LatestSamples};
pub use notes::{Note, notes_of};
pub use scope::scope;
pub use telling::ToldEvents;

use figures::KnownFigures;
use together::{Found, Together, together};

/// A recent provisional event is withdrawn when this many consecutive looks at new samples have not shown it.
const UNSEEN: u32 = 8;

/// Limits of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of past days whose hours are examined.
    pub days: i64,
    /// A return to the former level within this many hours ends the event and does not create a new one.
    pub returns_within: i64,
    /// Days after which a provisional event is withdrawn.
    pub provisional_for: i64,
    /// Most series whose hours one look examines. After a start, the others follow in later looks.
    pub hours_at_once: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { days: 40, returns_within: 24, provisional_for: 7, hours_at_once: 16 }
    }
}

/// Finds changes, and remembers which it has reported.
#[derive(Clone, Debug)]
pub struct Detector {
    settings: Settings,
    /// Events in the order in which they were found.
    events: Vec<LevelEvent>,
    /// Events withdrawn in the last days. They are reported again only when confirmed.
    withdrawn: Vec<LevelEvent>,
    /// For each series, the six-hour block in which its hours were last examined.
    looked: BTreeMap<u64, i64>,
    /// For each series, what its hours showed at that look.
    known: BTreeMap<u64, KnownFigures>,
    /// For each series, its last sample, and what its latest samples showed.
    seen: BTreeMap<u64, (Option<i64>, Vec<Found>)>,
    /// For each provisional event, how many consecutive looks at new samples have not shown it.
    unseen: BTreeMap<String, u32>,
    /// For each event, the series that certainly belong to it. They stay even when their change is too old to be seen.
    sure: BTreeMap<String, BTreeSet<u64>>,
}

impl Detector {
    /// Creates a detector that continues with stored `events`.
    pub fn new(settings: Settings, events: Vec<LevelEvent>) -> Self {
        let (withdrawn, events): (Vec<LevelEvent>, Vec<LevelEvent>) =
            events.into_iter().partition(|event| event.state == State::Withdrawn);
        let confirmed = events.iter().filter(|event| event.state == State::Confirmed);
        let sure = confirmed
            .map(|event| (event.id.clone(), event.series.iter().copied().collect()))
            .collect();
        let (looked, known, seen) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let unseen = BTreeMap::new();
        Self { settings, events, withdrawn, looked, known, seen, unseen, sure }
    }

    /// Events that were not withdrawn.
    pub fn events(&self) -> &[LevelEvent] {
        &self.events
    }

    /// Examines all series at `now`, in milliseconds since the Unix epoch. Returns new and changed events.
    ///
    /// The latest samples of a series are examined when there are new ones, its hours once every six hours.
    pub fn look(&mut self, history: &dyn History, now: i64) -> Vec<LevelEvent> {
        let all = history.series();
        let (mut found, mut hours_of) = (Vec::new(), BTreeSet::new());
        let mut fresh = BTreeSet::new();
        for series in all {
            // Spread the series over time.
            let block = (now - (series.id % 6) as i64 * HOUR).div_euclid(BLOCK);
            let is_due = self.looked.get(&series.id) != Some(&block);
            if is_due && hours_of.len() < self.settings.hours_at_once {
                self.looked.insert(series.id, block);
                hours_of.insert(series.id);
                let from = now.div_euclid(HOUR) * HOUR - self.settings.days * DAY;
                let (changes, known) = figures::in_hours(history, series.id, from, now);
                found.extend(changes);
                // Do not store empty entries, as there may be many series.
                match known.is_empty() {
                    true => self.known.remove(&series.id),
                    false => self.known.insert(series.id, known),
                };
            }
            let newest = history.newest(series.id, now + 1);
            let (until, seen) = self.seen.entry(series.id).or_default();
            if *until != newest {
                let known = self.known.get(&series.id).copied().unwrap_or_default();
                *seen = figures::in_samples(history, series.id, now, &known);
                *until = newest;
                fresh.insert(series.id);
            }
            found.extend(seen.iter().cloned());
        }
        let before = self.events.clone();
        let groups = together(found);
        let mut shown: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for group in &groups {
            if let Some(id) = self.tell(group, all, now) {
                shown.entry(id).or_default().extend(group.found.iter().map(|found| found.series));
            }
        }
        self.recount(&shown, &hours_of, all, now);
        self.withdraw(&shown, &fresh, &hours_of, now);
        // Annotations added after the last look are reported too, while the event is recent.
        let news = now - self.settings.provisional_for * DAY;
        for event in self.events.iter_mut().filter(|event| event.at > news) {
            let (span, series) = (event.at_between, &event.series);
            event.annotations = notes::notes_of(span, series, all, history);
        }
        let mut found: Vec<LevelEvent> =
            self.events.iter().filter(|event| !before.contains(event)).cloned().collect();
        let (withdrawn, events): (Vec<LevelEvent>, Vec<LevelEvent>) =
            self.events.drain(..).partition(|event| event.state == State::Withdrawn);
        self.events = events;
        self.withdrawn.extend(withdrawn);
        self.withdrawn.retain(|event| event.at > news);
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found
    }

    /// Makes a new event of `group`, or updates the one that it matches. Returns the event's identity.
    fn tell(&mut self, group: &Together, all: &[SeriesLabels], now: i64) -> Option<String> {
        let confirmed = |found: &&Found| found.change.certainty == Certainty::Confirmed;
        let own = group.found.iter().filter(confirmed).map(|found| found.series);
        if let Some(known) = self.events.iter_mut().find(|event| group.is(event)) {
            edit(known, group, all);
            self.sure.entry(known.id.clone()).or_default().extend(own);
            return Some(known.id.clone());
        }
        let sure = group.certainty == Certainty::Confirmed;
        if let Some(place) = self.withdrawn.iter().position(|event| group.is(event)) {
            if !sure {
                return None;
            }
            let mut known = self.withdrawn.remove(place);
            edit(&mut known, group, all);
            let id = known.id.clone();
            self.events.push(known);
            self.sure.insert(id.clone(), own.collect());
            return Some(id);
        }
        let within = self.settings.returns_within * HOUR;
        if let Some(ended) = self.events.iter_mut().find(|event| group.ends(event, within)) {
            // The end must be as certain as the beginning.
            if sure || ended.state == State::Provisional {
                ended.until = Some(group.at);
            }
            return None;
        }
        // A change that ended long ago and was never reported is history. A proposed change must be recent.
        if !sure && now - group.at > self.settings.provisional_for * DAY {
            return None;
        }
        let event = group.event(all);
        let known = self.events.iter().chain(&self.withdrawn);
        let taken = known.filter(|other| other.id.starts_with(&event.id)).count();
        let id = if taken > 0 { format!("{}-{}", event.id, taken + 1) } else { event.id.clone() };
        self.events.push(LevelEvent { id: id.clone(), ..event });
        self.sure.insert(id.clone(), own.collect());
        Some(id)
    }

    /// Recomputes the series of each event: those that show it now, those that are certain, and those that were not
    /// examined. A series that showed the event by chance for a while does not stay.
    fn recount(
        &mut self,
        shown: &BTreeMap<String, BTreeSet<u64>>,
        hours_of: &BTreeSet<u64>,
        all: &[SeriesLabels],
        now: i64,
    ) {
        for event in &mut self.events {
            let Some(showing) = shown.get(&event.id) else { continue };
            let sure = self.sure.get(&event.id);
            let stays = |series: &u64| {
                showing.contains(series)
                    || sure.is_some_and(|sure| sure.contains(series))
                    || !is_looked_at(event.at, *series, hours_of, now)
            };
            let known = event.series.iter().copied().filter(stays);
            let members: BTreeSet<u64> = known.chain(showing.iter().copied()).collect();
            event.scope = scope::scope(&members, all);
            event.series = members.into_iter().collect();
        }
    }

    /// Withdraws provisional events that were examined and are no longer seen, or have waited for too long.
    fn withdraw(
        &mut self,
        shown: &BTreeMap<String, BTreeSet<u64>>,
        fresh: &BTreeSet<u64>,
        hours_of: &BTreeSet<u64>,
        now: i64,
    ) {
        let patience = self.settings.provisional_for * DAY;
        let provisional = |event: &&mut LevelEvent| event.state == State::Provisional;
        for event in self.events.iter_mut().filter(provisional) {
            let is_shown = shown.contains_key(&event.id);
            let unseen = self.unseen.entry(event.id.clone()).or_default();
            if is_shown {
                *unseen = 0;
            } else if event.series.iter().any(|id| fresh.contains(id)) {
                *unseen += 1;
            }
            // A change at the limit of detection is seen only in some looks.
            let gone = match now - event.at < figures::RECENT {
                true => *unseen >= UNSEEN,
                false => !is_shown && event.series.iter().any(|id| hours_of.contains(id)),
            };
            if gone || event.until.is_some() || now - event.at > patience {
                event.state = State::Withdrawn;
                self.unseen.remove(&event.id);
                self.sure.remove(&event.id);
            }
        }
    }
}

/// Whether a change at `at` would have been seen in `series` now. Samples show a change for some hours; after that only
/// hours do.
fn is_looked_at(at: i64, series: u64, hours_of: &BTreeSet<u64>, now: i64) -> bool {
    hours_of.contains(&series) || now - at < figures::RECENT
}

/// Updates an event by a later look. Its identity and annotations stay; [`Detector::recount`] updates its series.
fn edit(event: &mut LevelEvent, group: &Together, all: &[SeriesLabels]) {
    let new = group.event(all);
    let sure = new.state == State::Confirmed;
    // A later look by hours does not replace the more precise time that samples have shown.
    let finer = |pair: [i64; 2]| pair[1] - pair[0];
    if finer(new.at_between) <= finer(event.at_between) {
        (event.at, event.at_between) = (new.at, new.at_between);
    }
    if sure || event.state == State::Provisional {
        let more = new.samples.after > event.samples.after;
        if more || event.state != new.state {
            (event.size, event.samples) = (new.size, new.samples);
            (event.metric, event.statistic) = (new.metric, new.statistic);
            if !new.cause.is_empty() {
                (event.cause, event.also_changed) = (new.cause, new.also_changed);
            }
        }
        event.state = new.state;
    }
}
