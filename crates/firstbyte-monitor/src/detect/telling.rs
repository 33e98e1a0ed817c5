//! Which events people are told, and when again: once in each state, and again only when the size leaves the interval that was told,
//! or the scope or the cause changes.

use std::collections::BTreeMap;

use super::event::{Cause, Event, LevelEvent, Size, State};

/// After the first repetition within a state the next one has to wait for so long, milliseconds; then for twice as long.
const FIRST_PAUSE: i64 = 10 * 60_000;

/// What was told of each event.
#[derive(Clone, Debug, Default)]
pub struct ToldEvents {
    told: BTreeMap<String, Told>,
}

#[derive(Clone, Debug)]
struct Told {
    event: Event,
    /// How often it was repeated within this state, and when the last time.
    repeated: u32,
    at: i64,
}

impl ToldEvents {
    /// Notes events that an earlier process told.
    pub fn from_events(events: &[Event]) -> Self {
        let told = |event: &Event| {
            (event.id().to_owned(), Told { event: event.clone(), repeated: 0, at: i64::MIN })
        };
        Self { told: events.iter().map(told).collect() }
    }

    /// Whether `event`, as it is at `now`, is to be told. If so, it counts as told.
    pub fn take_news(&mut self, event: &Event, now: i64) -> bool {
        let Some(told) = self.told.get_mut(event.id()) else {
            // Nobody who was not told of it needs to know that it is gone.
            if event.is_withdrawn() {
                return false;
            }
            let told = Told { event: event.clone(), repeated: 0, at: now };
            self.told.insert(event.id().to_owned(), told);
            return true;
        };
        if has_other_state(event, &told.event) {
            *told = Told { event: event.clone(), repeated: 0, at: now };
            if event.is_withdrawn() {
                self.told.remove(event.id());
            }
            return true;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << told.repeated.min(20));
        let may_repeat = told.repeated == 0 || now.saturating_sub(told.at) >= pause;
        if !may_repeat || !has_other_content(event, &told.event) {
            return false;
        }
        *told = Told { event: event.clone(), repeated: told.repeated + 1, at: now };
        true
    }
}

fn has_other_state(event: &Event, told: &Event) -> bool {
    event.state_name() != told.state_name() || event.until().is_some() != told.until().is_some()
}

fn has_other_content(event: &Event, told: &Event) -> bool {
    let scope = |event: &Event| (event.scope().targets.clone(), event.scope().tags.clone());
    if scope(event) != scope(told) {
        return true;
    }
    match (event, told) {
        (Event::Level(event), Event::Level(told)) => {
            event.state != State::Withdrawn
                && (has_left(&event.size, &told.size) || fact(event) != fact(told))
        }
        (Event::Outage(event), Event::Outage(told)) => event.failure != told.failure,
        _ => true,
    }
}

/// The fact that explains it.
fn fact(event: &LevelEvent) -> Option<&str> {
    match event.cause.first() {
        Some(Cause::Fact { fact, .. }) => Some(fact),
        _ => None,
    }
}

/// Whether either size is outside of the other's interval.
fn has_left(new: &Size, told: &Size) -> bool {
    let holds = |size: &Size, difference: f64| match *size {
        Size::Time { interval_ns: [low, high], .. } => {
            (low as f64..=high as f64).contains(&difference)
        }
        Size::Share { interval: [low, high], .. } => (low..=high).contains(&difference),
    };
    !holds(told, new.difference()) && !holds(new, told.difference())
}
