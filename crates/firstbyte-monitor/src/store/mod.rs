//! The monitor's store, one SQLite file: series, rollups, events, annotations.
//!
//! In: samples by series, and how far each raw file is folded in. Out: rollups by series, step and period. One
//! connection writes ([`Store`]), any number read ([`StoreReader`]), and no connection holds a lock for long. Raw
//! samples are in files next to the store. As far back as these files go, everything except annotations and events can
//! be rebuilt from them.

mod closing;
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

pub use closing::ClosedPeriods;
pub use error::StoreError;
pub use events::{Annotation, StoredEvent};
pub use pending::PendingRollups;
pub use reader::{RollupAt, StoreReader};
pub use retention::{Retained, Retention};
pub use writer::{Flushed, Folded, Store};

/// Number of a series in a store, from 1.
pub type SeriesId = u32;

/// Identity and labels of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesLabels {
    /// Name of its target.
    pub target: String,
    /// Its way to connect, in the syntax of axes: "tls=1.2 family=6".
    pub variant: String,
    /// Name of the vantage point; empty if it has none.
    pub place: String,
    /// Readable name of its variant: "TLS 1.2, IPv6".
    pub variant_label: String,
    /// URL, without secrets.
    pub url: String,
    /// Tags of its target.
    pub tags: BTreeMap<String, String>,
}

/// Length of the periods that samples are summed up over.
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
    /// Every step, finest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Length of the step in seconds.
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

    /// The number of the period that contains a moment, given in seconds since the Unix epoch.
    pub const fn number(self, unix_seconds: i64) -> i64 {
        unix_seconds.div_euclid(self.seconds())
    }
}

/// The largest period number with a key of its own.
const MOST_NUMBER: i64 = i32::MAX as i64;

/// Key of a row ordered by time: minutes and marks of open periods. Rows written together are adjacent, so a flush of
/// 2,000 series appends to 80 pages. Ordered by series it would touch 2,000 pages.
fn time_key(number: i64, series: SeriesId) -> i64 {
    number.clamp(0, MOST_NUMBER) << 32 | i64::from(series)
}

/// The period number and the series of a key ordered by time.
fn in_time_key(key: i64) -> (i64, SeriesId) {
    (key >> 32, SeriesId::try_from(key & 0xffff_ffff).unwrap_or(SeriesId::MAX))
}

/// Key of a row of hours or days, ordered by series, because reads take one series at a time: a year of hours (8,760)
/// at once.
///
/// Writes pay for it: 2,000 series write a page of 8 kB each, twice an hour, which is 0.5 MB a minute next to 3.7 MB of
/// raw samples.
fn series_key(series: SeriesId, number: i64) -> i64 {
    i64::from(series) << 32 | number.clamp(0, MOST_NUMBER)
}

/// The period number of a key ordered by series.
const fn in_series_key(key: i64) -> i64 {
    key & 0xffff_ffff
}

fn key(step: Step, series: SeriesId, number: i64) -> i64 {
    match step {
        Step::Minute => time_key(number, series),
        Step::Hour | Step::Day => series_key(series, number),
    }
}
