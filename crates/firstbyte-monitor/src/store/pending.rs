//! Rollups in memory that wait to be written to the store.

use std::collections::BTreeMap;

use super::{SeriesId, Step};
use crate::rollup::Rollup;

/// Rollups of minutes that are not in the store yet, in the order of its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingRollups(pub(super) BTreeMap<(i64, SeriesId), Rollup>);

impl PendingRollups {
    /// Adds `rollup` to the minute of `unix_ns` in `series`.
    pub fn add(&mut self, series: SeriesId, unix_ns: u64, rollup: &Rollup) {
        self.minute(series, unix_ns).merge(rollup);
    }

    /// Adds all rollups of `others`.
    pub fn add_all(&mut self, others: Self) {
        if self.is_empty() {
            *self = others;
            return;
        }
        for (place, rollup) in others.0 {
            self.0.entry(place).or_default().merge(&rollup);
        }
    }

    /// Number of rollups.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no rollups.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all rollups.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn minute(&mut self, series: SeriesId, unix_ns: u64) -> &mut Rollup {
        let seconds = i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
        self.0.entry((Step::Minute.number(seconds), series)).or_default()
    }
}
