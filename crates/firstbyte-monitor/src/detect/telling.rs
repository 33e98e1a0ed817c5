//! Decides which events are reported to people, and when again: once in each state, and again only when the size leaves
//! the reported interval, or the scope or the cause changes.

use std::collections::BTreeMap;

use super::event::{Cause, Event, LevelEvent, Size, State};

/// After the first repetition within a state, the next one waits this long, milliseconds. Each further wait is twice as
/// long.
const FIRST_PAUSE: i64 = 10 * 60_000;

/// A size that differs by less than this share is not reported again: intervals of few samples are rough.
const WORTH_TELLING: f64 = 0.15;

/// Events that were reported to people, as they were then.
#[derive(Clone, Debug, Default)]
pub struct ToldEvents {
    told: BTreeMap<String, LastTold>,
}

#[derive(Clone, Debug)]
struct LastTold {
    event: Event,
    /// Number of repetitions within this state, and when the last one was.
    repeated: u32,
    at: i64,
}

impl ToldEvents {
    /// Starts with events that an earlier process reported.
    pub fn from_events(events: &[Event]) -> Self {
        let told = |event: &Event| {
            (event.id().to_owned(), LastTold { event: event.clone(), repeated: 0, at: i64::MIN })
        };
        Self { told: events.iter().map(told).collect() }
    }

    /// Whether to report `event` to people as it is at `now`. If so, the event counts as reported.
    pub fn take_news(&mut self, event: &Event, now: i64) -> bool {
        let Some(told) = self.told.get_mut(event.id()) else {
            // An event that was never reported needs no withdrawal.
            if event.is_withdrawn() {
                return false;
            }
            let told = LastTold { event: event.clone(), repeated: 0, at: now };
            self.told.insert(event.id().to_owned(), told);
            return true;
        };
        if has_other_state(event, &told.event) {
            *told = LastTold { event: event.clone(), repeated: 0, at: now };
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
        *told = LastTold { event: event.clone(), repeated: told.repeated + 1, at: now };
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

/// The fact that explains the change.
fn fact(event: &LevelEvent) -> Option<&str> {
    match event.cause.first() {
        Some(Cause::Fact { fact, .. }) => Some(fact),
        _ => None,
    }
}

/// Whether each size is outside of the other's interval, and the difference is large enough to matter.
fn has_left(new: &Size, told: &Size) -> bool {
    let holds = |size: &Size, difference: f64| match *size {
        Size::Time { interval_ns: [low, high], .. } => {
            (low as f64..=high as f64).contains(&difference)
        }
        Size::Share { interval: [low, high], .. } => (low..=high).contains(&difference),
    };
    let moved = (new.difference() - told.difference()).abs();
    moved >= WORTH_TELLING * told.difference().abs()
        && !holds(told, new.difference())
        && !holds(new, told.difference())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    fn level(state: &str, difference: i64, targets: &[&str]) -> Event {
        let json = serde_json::json!({
            "kind": "level", "format": "firstbyte/event", "version": 1, "id": "x", "state": state,
            "metric": "ttfb", "statistic": "median", "before_ns": 100_000_000,
            "after_ns": 100_000_000 + difference, "difference_ns": difference,
            "interval_ns": [difference - 500_000, difference + 500_000],
            "at": "2026-11-27T14:00:00Z",
            "at_between": ["2026-11-27T14:00:00Z", "2026-11-27T14:00:01Z"],
            "cause": [{ "fact": "tls.version", "before": { "TLSv1.2": 1.0 }, "after": { "TLSv1.3": 1.0 } }],
            "scope": { "targets": targets, "of": 3, "tags": {}, "quorum": {} },
            "samples": { "before": 60, "after": 60 }, "series": [1], "annotations": [],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn an_event_is_told_once_in_each_state() {
        let mut told = ToldEvents::default();
        assert!(!told.take_news(&level("withdrawn", 20_000_000, &["a"]), 0), "nobody knows it");
        assert!(told.take_news(&level("provisional", 20_000_000, &["a"]), 0));
        for minute in 0..40 {
            // The size becomes more precise as more samples arrive.
            let difference = 20_000_000 + (minute % 7 - 3) * 400_000;
            let event = level("provisional", difference, &["a"]);
            assert!(!told.take_news(&event, minute * MINUTE), "{minute}");
        }
        assert!(told.take_news(&level("confirmed", 20_500_000, &["a"]), 40 * MINUTE));
        assert!(!told.take_news(&level("confirmed", 20_100_000, &["a"]), 41 * MINUTE));
        assert!(told.take_news(&level("withdrawn", 20_100_000, &["a"]), 50 * MINUTE));
    }

    #[test]
    fn another_size_or_scope_is_told_again_and_ever_more_rarely() {
        let mut told = ToldEvents::default();
        told.take_news(&level("confirmed", 20_000_000, &["a"]), 0);
        assert!(told.take_news(&level("confirmed", 30_000_000, &["a"]), MINUTE));
        assert!(!told.take_news(&level("confirmed", 30_000_000, &["a", "b"]), 2 * MINUTE));
        let mut repeated = 0;
        for minute in 2..240 {
            let targets: &[&str] = if minute % 2 == 0 { &["a", "b"] } else { &["a"] };
            let event = level("confirmed", 30_000_000, targets);
            repeated += usize::from(told.take_news(&event, minute * MINUTE));
        }
        assert!((2..=4).contains(&repeated), "{repeated}");
    }

    #[test]
    fn what_an_earlier_process_told_is_not_told_again() {
        let known = level("confirmed", 20_000_000, &["a"]);
        let mut told = ToldEvents::from_events(std::slice::from_ref(&known));
        assert!(!told.take_news(&known, 0));
        assert!(told.take_news(&level("confirmed", 40_000_000, &["a"]), 0));
    }
}
