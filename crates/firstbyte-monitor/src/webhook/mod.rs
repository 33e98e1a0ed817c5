//! Webhooks: who is sent which events, and what the body says. Pure; sending them is the program's.

mod template;

use std::collections::HashMap;
use std::path::PathBuf;

use firstbyte_probe::probe::{Secret, Target};

use crate::detect::{Event, State};

pub use template::Template;

/// States that are sent where none are given: what held, and that it was something else.
pub const USUAL_STATES: [State; 2] = [State::Confirmed, State::Withdrawn];

/// A webhook, as it was configured. Its files are named from the configuration's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookSettings {
    /// Where events are posted: its path may let somebody in.
    pub url: Secret<Target>,
    /// Its host and port, which may be shown.
    pub name: String,
    /// The key of signatures.
    pub secret_file: Option<PathBuf>,
    /// Events in these are sent.
    pub states: Vec<State>,
    /// The body; the event's JSON when absent.
    pub template: Option<Template>,
    /// The body's type, where no header says otherwise.
    pub content_type: &'static str,
    /// Further header fields.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Which events a webhook is sent: each once in a state, and once more when it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    states: Vec<State>,
    /// What was sent last of each event.
    sent: HashMap<String, (&'static str, Option<i64>)>,
}

impl Choice {
    /// Events in `states`.
    pub fn new(states: Vec<State>) -> Self {
        Self { states, sent: HashMap::new() }
    }

    /// Notes `event`, which was there before this began.
    pub fn know(&mut self, event: &Event) {
        self.takes(event);
    }

    /// Whether `event`, as it is now, is to be sent: it is taken as sent then.
    pub fn takes(&mut self, event: &Event) -> bool {
        let now = (event.state_name(), event.until());
        let before = self.sent.get(event.id());
        // Who was not told of it needs no withdrawal.
        let concerns = !event.is_withdrawn() || before.is_some();
        let is_wanted = match event {
            Event::Level(event) => self.states.contains(&event.state),
            Event::Outage(_) => true,
        };
        if !is_wanted || !concerns || before == Some(&now) {
            return false;
        }
        match event.is_withdrawn() {
            true => self.sent.remove(event.id()),
            false => self.sent.insert(event.id().to_owned(), now),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn event(id: &str, state: State) -> Event {
        let text = format!(
            r#"{{"kind":"level","format":"firstbyte/event","version":1,"id":"{id}","state":"{}","metric":"ttfb","statistic":"median","before_ns":20000000,"after_ns":10000000,"difference_ns":-10000000,"interval_ns":[-10500000,-9500000],"at":"2026-11-23T00:00:00Z","at_between":["2026-11-23T00:00:00Z","2026-11-23T00:01:00Z"],"cause":[],"scope":{{"targets":["a \"b\"","c"],"of":2,"tags":{{}},"quorum":{{}}}},"samples":{{"before":60,"after":60}},"series":[1]}}"#,
            state.name()
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn an_event_is_sent_once_in_a_state_and_once_when_it_ended() {
        use State::{Confirmed, Provisional, Withdrawn};
        let mut choice = Choice::new(USUAL_STATES.to_vec());
        let mut takes = |id: &str, state| choice.takes(&event(id, state));
        assert!(!takes("1", Provisional));
        assert!(!takes("1", Withdrawn), "nobody was told");
        assert!(takes("2", Confirmed));
        assert!(!takes("2", Confirmed), "finer figures");
        let mut ended = event("2", Confirmed);
        let Event::Level(level) = &mut ended else { panic!("{ended:?}") };
        level.until = Some(1);
        assert!(choice.takes(&ended));
        assert!(!choice.takes(&ended));
        let mut choice = Choice::new(vec![Provisional, Confirmed, Withdrawn]);
        choice.know(&event("3", Provisional));
        assert!(!choice.takes(&event("3", Provisional)), "an earlier process sent it");
        assert!(choice.takes(&event("3", Withdrawn)));
        assert!(!choice.takes(&event("3", Withdrawn)));
        assert!(choice.takes(&event("4", Provisional)) && choice.takes(&event("4", Confirmed)));
    }
}
