//! What months of measuring leave behind, in one SQLite file: series, rollups, events, annotations.
//!
//! In: samples by series, with how far raw files are folded in. Out: rollups by series, step and period. One connection
//! writes ([`Store`]), any number read ([`StoreReader`]), none for long. Raw samples are in files beside it, which everything
//! here but annotations and events can be made again from, as far as they go back.

mod error;
mod events;
mod pending;
mod reader;
mod retention;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use error::StoreError;
pub use events::{Annotation, StoredEvent};
pub use pending::PendingRollups;
pub use reader::{RollupAt, StoreReader};
pub use retention::{Retained, Retention};
pub use writer::{Flushed, Folded, Store};

/// The number that a series has in a store, from 1.
pub type SeriesId = u32;

/// What tells a series from others, and what is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesLabels {
    /// What its target is called.
    pub target: String,
    /// Its way to connect, as axes are written: "tls=1.2 family=6".
    pub variant: String,
    /// What the vantage point is called; empty where it has no name.
    pub place: String,
    /// What its way is called: "TLS 1.2, IPv6".
    pub variant_label: String,
    /// What is visited, as it may be shown.
    pub url: String,
    /// Its target's.
    pub tags: BTreeMap<String, String>,
}

/// A period that samples are summed up over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

impl Step {
    /// Every step, the finest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// How long it is.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    const fn table(self) -> &'static str {
        match self {
            Self::Minute => "rollup_minute",
            Self::Hour => "rollup_hour",
            Self::Day => "rollup_day",
        }
    }

    /// The number of the period that a moment lies in, seconds since the Unix epoch.
    pub const fn number(self, unix_seconds: i64) -> i64 {
        unix_seconds.div_euclid(self.seconds())
    }
}

/// The key of a rollup: all of a series are one behind the other.
fn key(series: SeriesId, number: i64) -> i64 {
    i64::from(series) << 32 | number.clamp(0, i64::from(u32::MAX))
}

/// The period's number in a key.
const fn number_in(key: i64) -> i64 {
    key & 0xffff_ffff
}
