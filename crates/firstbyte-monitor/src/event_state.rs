//! The stage of an event of any kind, which webhooks and listings select by.

use serde::{Deserialize, Serialize};

use crate::detect::Event;

/// States of level changes (the first three) and of outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventState {
    /// A change that may be withdrawn.
    Provisional,
    /// A change that lasted.
    Confirmed,
    /// A change that vanished, or was something else.
    Withdrawn,
    /// An outage that has not ended.
    Began,
    /// An outage that is over.
    Ended,
    /// An outage that began again soon after its end.
    Flapping,
}

impl EventState {
    /// All states.
    pub const ALL: [Self; 6] = [
        Self::Provisional,
        Self::Confirmed,
        Self::Withdrawn,
        Self::Began,
        Self::Ended,
        Self::Flapping,
    ];

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provisional => "provisional",
            Self::Confirmed => "confirmed",
            Self::Withdrawn => "withdrawn",
            Self::Began => "began",
            Self::Ended => "ended",
            Self::Flapping => "flapping",
        }
    }

    /// The state with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The state of `event`; `None` if its state has no counterpart here.
    pub fn of_event(event: &Event) -> Option<Self> {
        Self::named(event.state_name())
    }
}
