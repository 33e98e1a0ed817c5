//! Webhooks: which events are sent to whom, and the contents of the body. Pure; the program sends them.

mod template;

use std::collections::HashMap;
use std::path::PathBuf;

use firstbyte_probe::probe::{Secret, Target};

use crate::detect::Event;
use crate::event_state::EventState;

pub use template::Template;

/// States sent by default: confirmed and withdrawn changes, and all states of outages.
pub const USUAL_STATES: [EventState; 5] = [
    EventState::Confirmed,
    EventState::Withdrawn,
    EventState::Began,
    EventState::Ended,
    EventState::Flapping,
];

/// Configuration of a webhook. Relative paths start at the configuration's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookSettings {
    /// URL that events are posted to. Secret, because its path may hold a token.
    pub url: Secret<Target>,
    /// Host and port of the URL, which may be shown.
    pub name: String,
    /// File with the key for signatures.
    pub secret_file: Option<PathBuf>,
    /// States in which events are sent.
    pub states: Vec<EventState>,
    /// Template of the body; without one, the body is the event's JSON.
    pub template: Option<Template>,
    /// Content type of the body, unless a header sets it.
    pub content_type: &'static str,
    /// Additional header fields.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Selects the events that a webhook receives: each once per state, and once more when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    states: Vec<EventState>,
    /// Last state and end sent for each event.
    sent: HashMap<String, (EventState, Option<i64>)>,
}

impl Choice {
    /// Selects events in `states`.
    pub fn new(states: Vec<EventState>) -> Self {
        Self { states, sent: HashMap::new() }
    }

    /// Marks `event` as sent, because an earlier process handled it.
    pub fn know(&mut self, event: &Event) {
        self.takes(event);
    }

    /// Whether to send `event` in its present state. If so, it is marked as sent.
    pub fn takes(&mut self, event: &Event) -> bool {
        let Some(state) = EventState::of_event(event) else { return false };
        let now = (state, event.until());
        let before = self.sent.get(event.id());
        // An event that was never sent needs no withdrawal.
        let concerns = state != EventState::Withdrawn || before.is_some();
        if !self.states.contains(&state) || !concerns || before == Some(&now) {
            return false;
        }
        match state {
            EventState::Withdrawn => self.sent.remove(event.id()),
            _ => self.sent.insert(event.id().to_owned(), now),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A change of level at these targets.
    pub(super) fn change(id: &str, state: &str, targets: &[&str]) -> Event {
        let json = json!({
            "format": "firstbyte/event", "version": 1, "kind": "level", "id": id, "state": state,
            "metric": "total", "statistic": "median", "before_ns": 20_000_000,
            "after_ns": 10_000_000, "difference_ns": -10_000_000,
            "interval_ns": [-10_500_000, -9_500_000], "at": "2026-11-23T00:00:00Z",
            "at_between": ["2026-11-23T00:00:00Z", "2026-11-23T00:01:00Z"], "cause": [],
            "scope": { "targets": targets, "of": 3, "tags": {}, "quorum": {} },
            "samples": { "before": 60, "after": 60 }, "series": [1], "annotations": [],
        });
        serde_json::from_value(json).unwrap()
    }

    /// An outage of a shop, which has ended if `ended` is given.
    pub(super) fn outage(id: &str, state: &str, ended: Option<&str>) -> Event {
        let mut json = json!({
            "format": "firstbyte/event", "version": 1, "kind": "outage", "id": id, "state": state,
            "began": "2026-11-27T13:28:04Z", "lasted_ns": 486_000_000_000_u64,
            "interruptions": 1, "failed_share": 1.0, "failure": "tcp.refused",
            "failures": { "tcp.refused": 9 },
            "scope": { "targets": ["shop"], "of": 3, "tags": {}, "quorum": {} },
            "samples": 9, "series": [7, 8], "annotations": [],
        });
        if let Some(ended) = ended {
            json["ended"] = ended.into();
        }
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_change_is_sent_once_in_a_state_and_once_when_it_ended() {
        use EventState::{Confirmed, Provisional, Withdrawn};
        let mut choice = Choice::new(USUAL_STATES.to_vec());
        let mut takes =
            |id: &str, state: EventState| choice.takes(&change(id, state.name(), &["a"]));
        assert!(!takes("1", Provisional));
        assert!(!takes("1", Withdrawn), "nobody was told");
        assert!(takes("2", Confirmed));
        assert!(!takes("2", Confirmed), "finer figures");
        let ended = change("2", "confirmed", &["a"]);
        let mut ended = serde_json::to_value(ended).unwrap();
        ended["until"] = "2026-11-24T00:00:00Z".into();
        let ended: Event = serde_json::from_value(ended).unwrap();
        assert!(choice.takes(&ended));
        assert!(!choice.takes(&ended));
        let mut choice = Choice::new(vec![Provisional, Confirmed, Withdrawn]);
        let mut takes =
            |id: &str, state: EventState| choice.takes(&change(id, state.name(), &["a"]));
        assert!(takes("3", Provisional) && takes("3", Withdrawn));
        assert!(!takes("3", Withdrawn));
        assert!(takes("4", Provisional) && takes("4", Confirmed));
        choice.know(&change("5", "provisional", &["a"]));
        assert!(!choice.takes(&change("5", "provisional", &["a"])), "an earlier process sent it");
        assert!(choice.takes(&change("5", "withdrawn", &["a"])));
    }

    #[test]
    fn an_outage_is_sent_when_it_begins_and_ends_and_when_it_flaps() {
        let mut choice = Choice::new(USUAL_STATES.to_vec());
        let [first, second] = [Some("2026-11-27T13:36:10Z"), Some("2026-11-27T13:50:00Z")];
        for (state, ended, is_sent) in [
            ("began", None, true),
            ("began", None, false),
            ("ended", first, true),
            ("ended", first, false),
            ("flapping", None, true),
            ("flapping", None, false),
            ("flapping", second, true),
            ("flapping", second, false),
        ] {
            assert_eq!(choice.takes(&outage("7", state, ended)), is_sent, "{state} {ended:?}");
        }
        let mut choice = Choice::new(vec![EventState::Ended]);
        assert!(!choice.takes(&outage("8", "began", None)));
        assert!(choice.takes(&outage("8", "ended", first)));
    }
}
