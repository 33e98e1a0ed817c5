//! Events, as they are reported, stored and sent. `docs/formats.md` describes every field.

mod level;
mod outage;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::level::Certainty;

pub use level::{LevelEvent, Size, Statistic};
pub use outage::{FailureName, OutageEvent, OutageState};

/// Value of the field `format` of an event.
pub const FORMAT: &str = "firstbyte/event";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A figure changed.
    Level(LevelEvent),
    /// A target could not be reached, or answered wrongly.
    Outage(OutageEvent),
}

impl Event {
    /// Identity of the event, which never changes.
    pub fn id(&self) -> &str {
        match self {
            Self::Level(event) => &event.id,
            Self::Outage(event) => &event.id,
        }
    }

    /// The name of its kind in stored forms.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Level(_) => "level",
            Self::Outage(_) => "outage",
        }
    }

    /// When the event began, milliseconds since the Unix epoch.
    pub const fn at(&self) -> i64 {
        match self {
            Self::Level(event) => event.at,
            Self::Outage(event) => event.began,
        }
    }

    /// When the event ended, if it did.
    pub const fn until(&self) -> Option<i64> {
        match self {
            Self::Level(event) => event.until,
            Self::Outage(event) => event.ended,
        }
    }

    /// The name of its state in stored forms.
    pub const fn state_name(&self) -> &'static str {
        match self {
            Self::Level(event) => event.state.name(),
            Self::Outage(event) => event.state.name(),
        }
    }

    /// Whether the event was withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        matches!(self, Self::Level(event) if event.state == State::Withdrawn)
    }

    /// Targets, places and variants that show the event.
    pub const fn scope(&self) -> &Scope {
        match self {
            Self::Level(event) => &event.scope,
            Self::Outage(event) => &event.scope,
        }
    }

    /// Numbers in the store of the series that show the event.
    pub fn series(&self) -> &[u64] {
        match self {
            Self::Level(event) => &event.series,
            Self::Outage(event) => &event.series,
        }
    }

    /// Annotations from about that time.
    pub fn annotations(&self) -> &[String] {
        match self {
            Self::Level(event) => &event.annotations,
            Self::Outage(event) => &event.annotations,
        }
    }

    /// The figure that the event is about; "failures" for outages.
    pub fn metric(&self) -> &str {
        match self {
            Self::Level(event) => &event.metric,
            Self::Outage(_) => "failures",
        }
    }

    /// The event in words. Values of tags and facts are not escaped: callers that print it on a terminal must escape
    /// them.
    pub fn sentence(&self) -> String {
        match self {
            Self::Level(event) => event.sentence(),
            Self::Outage(event) => event.sentence(),
        }
    }

    /// The first word of a line that reports the event.
    pub const fn heading(&self) -> &'static str {
        match self {
            Self::Level(event) => event.state.name(),
            Self::Outage(event) => event.heading(),
        }
    }
}

/// Stage in the life of a change of level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Proposed: the change may be withdrawn.
    Provisional,
    /// The change lasted.
    Confirmed,
    /// The change vanished before it was confirmed, or was something else.
    Withdrawn,
}

impl State {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provisional => "provisional",
            Self::Confirmed => "confirmed",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl From<Certainty> for State {
    fn from(certainty: Certainty) -> Self {
        match certainty {
            Certainty::Proposed => Self::Provisional,
            Certainty::Confirmed => Self::Confirmed,
        }
    }
}

/// Something that changed together with the figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cause {
    /// A negotiated or proven fact: the share of samples with each value.
    Fact {
        /// Name of the fact, as in rollups.
        fact: String,
        /// Shares before.
        before: BTreeMap<String, f64>,
        /// Shares after.
        after: BTreeMap<String, f64>,
    },
    /// A part of the time. "round trips" is a number; all other parts are nanoseconds.
    Part {
        /// Its name.
        part: String,
        /// Value before: the median, or the mean of round trips.
        before: f64,
        /// Value after.
        after: f64,
    },
}

impl Cause {
    /// Name of the fact or part.
    pub fn name(&self) -> &str {
        match self {
            Self::Fact { fact, .. } => fact,
            Self::Part { part, .. } => part,
        }
    }
}

/// How many of how many series show an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// Number that shows it.
    pub seen: usize,
    /// Number that could show it.
    pub of: usize,
}

/// The series that show an event, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Targets that show it, by name.
    pub targets: Vec<String>,
    /// Number of measured targets.
    pub of: usize,
    /// The fewest tags that distinguish the series that show it from those that do not.
    pub tags: BTreeMap<String, String>,
    /// How many of the series with these targets and tags show it, for each tag that distinguishes them; "series"
    /// counts all.
    pub quorum: BTreeMap<String, Quorum>,
}

/// Number of samples that an event is based on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Samples before.
    pub before: u64,
    /// Samples after.
    pub after: u64,
}
