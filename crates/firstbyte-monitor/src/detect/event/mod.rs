//! Events, as they are told, stored and sent. `docs/formats.md` has every field.

mod level;
mod outage;
mod words;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::level::Certainty;

pub use level::{LevelEvent, Size, Statistic};
pub use outage::{FailureName, OutageEvent, OutageState};

/// What the field `format` of an event says.
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
    /// Stays the same for as long as the event is told.
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

    /// When it began, milliseconds since the Unix epoch.
    pub const fn at(&self) -> i64 {
        match self {
            Self::Level(event) => event.at,
            Self::Outage(event) => event.began,
        }
    }

    /// When it ended, if it did.
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

    /// Whether it was taken back.
    pub fn is_withdrawn(&self) -> bool {
        matches!(self, Self::Level(event) if event.state == State::Withdrawn)
    }

    /// Targets, places and variants that show it.
    pub const fn scope(&self) -> &Scope {
        match self {
            Self::Level(event) => &event.scope,
            Self::Outage(event) => &event.scope,
        }
    }

    /// The series that show it, as the store calls them.
    pub fn series(&self) -> &[u64] {
        match self {
            Self::Level(event) => &event.series,
            Self::Outage(event) => &event.series,
        }
    }

    /// What people noted at that time.
    pub fn annotations(&self) -> &[String] {
        match self {
            Self::Level(event) => &event.annotations,
            Self::Outage(event) => &event.annotations,
        }
    }

    /// The figure that it is about; of outages "failures".
    pub fn metric(&self) -> &str {
        match self {
            Self::Level(event) => &event.metric,
            Self::Outage(_) => "failures",
        }
    }

    /// It in words. Values of tags and facts are as they came: whoever prints it on a terminal escapes them.
    pub fn sentence(&self) -> String {
        match self {
            Self::Level(event) => event.sentence(),
            Self::Outage(event) => event.sentence(),
        }
    }

    /// The word that a line begins with which tells it.
    pub const fn heading(&self) -> &'static str {
        match self {
            Self::Level(event) => event.state.name(),
            Self::Outage(event) => event.heading(),
        }
    }
}

/// Where a change of level is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Proposed: it may be withdrawn.
    Provisional,
    /// It held.
    Confirmed,
    /// It went away before it was confirmed, or was something else.
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

/// Something that changed with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cause {
    /// A negotiated or proven fact: the share of samples with each value.
    Fact {
        /// Name of the fact, as in rollups.
        fact: String,
        /// Before.
        before: BTreeMap<String, f64>,
        /// After.
        after: BTreeMap<String, f64>,
    },
    /// A part of the time: "round trips" is a number of them, all others are nanoseconds.
    Part {
        /// Its name.
        part: String,
        /// Before: the median, of round trips the mean.
        before: f64,
        /// After.
        after: f64,
    },
}

impl Cause {
    /// What it is: the fact's name, or the part's.
    pub fn name(&self) -> &str {
        match self {
            Self::Fact { fact, .. } => fact,
            Self::Part { part, .. } => part,
        }
    }
}

/// How many of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// That show it.
    pub seen: usize,
    /// That could.
    pub of: usize,
}

/// The series that show an event, and those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// Targets that show it, by name.
    pub targets: Vec<String>,
    /// Of how many that are measured.
    pub of: usize,
    /// The fewest tags that tell the series that show it from those that do not.
    pub tags: BTreeMap<String, String>,
    /// Of the series with these targets and tags, how many show it, by the tags that they are told apart by; "series"
    /// is all.
    pub quorum: BTreeMap<String, Quorum>,
}

/// Of how many samples it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}
