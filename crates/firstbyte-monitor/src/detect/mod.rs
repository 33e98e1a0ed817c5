//! When did it change, by how much, where, and why.
//!
//! In: rollups through [`History`], the time. Out: [`Event`]s that are new or have changed: provisional, confirmed, withdrawn.
//! Pure and repeatable: no clock is read, nothing is written. Each figure of each series is looked at by itself ([`level`]);
//! what changed with it says why (`cause`); series that changed at one time for one reason are one event (`scope`). Definitions and
//! what was measured: `docs/statistics.md`, "Changes in a monitored series".

mod cause;
mod event;
mod figures;
mod history;
pub mod level;
mod scope;
#[cfg(test)]
mod tests;
mod time_text;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use level::{BLOCK, Certainty, DAY, HOUR};

pub use event::{Cause, Event, FORMAT, Quorum, Samples, Scope, Size, State, Statistic};
pub use history::{History, InMemory, SeriesLabels, Step};

use together::{Together, together};

/// What a detector looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How far back hours are looked at, days.
    pub days: i64,
    /// A change back to the level of before within so many hours ends an event, and is none of its own.
    pub returns_within: i64,
    /// A provisional event is withdrawn after so many days.
    pub provisional_for: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { days: 40, returns_within: 24, provisional_for: 7 }
    }
}

/// Finds changes, and remembers which it has told of.
#[derive(Clone, Debug)]
pub struct Detector {
    settings: Settings,
    /// By when they were told first. Withdrawn ones are not kept.
    events: Vec<Event>,
    /// Of every series the block of six hours in which its hours were looked at last.
    looked: BTreeMap<u64, i64>,
}

impl Detector {
    /// One that has told of `events` before, as a store has them.
    pub fn new(settings: Settings, events: Vec<Event>) -> Self {
        let events = events.into_iter().filter(|event| event.state != State::Withdrawn).collect();
        Self { settings, events, looked: BTreeMap::new() }
    }

    /// Events that are told now.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Looks at all series, `now` in milliseconds since the Unix epoch. Out: events that are new, or are not as they were.
    ///
    /// The latest samples of every series are looked at every time, its hours when six of them have ended.
    pub fn look(&mut self, history: &dyn History, now: i64) -> Vec<Event> {
        let all = history.series();
        let (mut found, mut hours_of) = (Vec::new(), BTreeSet::new());
        for series in &all {
            // Not all series at the same time.
            let block = (now - (series.id % 6) as i64 * HOUR).div_euclid(BLOCK);
            let hours = self.looked.insert(series.id, block) != Some(block);
            if hours {
                hours_of.insert(series.id);
                let from = now.div_euclid(HOUR) * HOUR - self.settings.days * DAY;
                found.extend(figures::in_hours(history, series.id, from, now));
            }
            found.extend(figures::in_samples(history, series.id, now));
        }
        let before = self.events.clone();
        let groups = together(found);
        let mut supported = BTreeSet::new();
        for group in &groups {
            supported.extend(self.tell(group, &all, now));
        }
        self.withdraw(&supported, &hours_of, now);
        let mut told: Vec<Event> =
            self.events.iter().filter(|event| !before.contains(event)).cloned().collect();
        self.events.retain(|event| event.state != State::Withdrawn);
        told.sort_by(|a, b| a.id.cmp(&b.id));
        told
    }

    /// Makes an event of `group`, or edits the one that it is: its identity.
    fn tell(&mut self, group: &Together, all: &[SeriesLabels], now: i64) -> Option<String> {
        if let Some(known) = self.events.iter_mut().find(|event| group.is(event)) {
            edit(known, group, all);
            return Some(known.id.clone());
        }
        let sure = group.certainty == Certainty::Confirmed;
        let within = self.settings.returns_within * HOUR;
        if let Some(ended) = self.events.iter_mut().find(|event| group.ends(event, within)) {
            // Who says that it is over has to be as sure as who said that it began.
            if sure || ended.state == State::Provisional {
                ended.until = Some(group.at);
            }
            return None;
        }
        // What has ended long ago, and was never told, is history; what is only proposed has to be of these days.
        if !sure && now - group.at > self.settings.provisional_for * DAY {
            return None;
        }
        let event = group.event(all);
        let taken = self.events.iter().filter(|other| other.id.starts_with(&event.id)).count();
        let id = if taken > 0 { format!("{}-{}", event.id, taken + 1) } else { event.id.clone() };
        self.events.push(Event { id: id.clone(), ..event });
        Some(id)
    }

    /// Provisional events that were looked at, and are no longer seen, or have waited for too long.
    fn withdraw(&mut self, supported: &BTreeSet<String>, hours_of: &BTreeSet<u64>, now: i64) {
        let patience = self.settings.provisional_for * DAY;
        let provisional = |event: &&mut Event| event.state == State::Provisional;
        for event in self.events.iter_mut().filter(provisional) {
            // Samples show a change for some hours; after that hours have to.
            let looked = event.series.iter().any(|id| hours_of.contains(id))
                || now - event.at < figures::RECENT;
            let gone = looked && !supported.contains(&event.id);
            if gone || event.until.is_some() || now - event.at > patience {
                event.state = State::Withdrawn;
            }
        }
    }
}

/// What is known better now. Series that showed it once stay; its identity and what people noted do too.
fn edit(event: &mut Event, group: &Together, all: &[SeriesLabels]) {
    let mut members: BTreeSet<u64> = event.series.iter().copied().collect();
    members.extend(group.found.iter().map(|found| found.series));
    let new = group.event(all);
    let sure = new.state == State::Confirmed;
    // A later look by hours does not take back what samples have shown more finely.
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
    event.scope = scope::scope(&members, all);
    event.series = members.into_iter().collect();
}
