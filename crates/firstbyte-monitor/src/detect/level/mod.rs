//! Changes of one figure of one series: its median or p90, by hour or by sample, or its share of failures
//! ([`failures`]).
//!
//! In: values in order of time. Out: changes, proposed or confirmed. Pure: no random numbers, no clock.
//! Method and measured error rates: `docs/statistics.md`, "Changes in a monitored series".

mod blocks;
#[cfg(test)]
pub(super) mod drawn;
mod extreme;
pub mod failures;
mod known;
mod noise;
mod place;
mod scan;
mod segments;
mod sudden;
mod tail;
#[cfg(test)]
mod tests;

use firstbyte_core::stats::Interval;

pub use known::KnownHours;
pub use sudden::{WINDOW, sudden};
pub use tail::sudden_tail;

use blocks::Deseasoned;

/// Milliseconds of an hour.
pub(crate) const HOUR: i64 = 3_600_000;
/// Milliseconds of a day.
pub(crate) const DAY: i64 = 24 * HOUR;
/// Length of the blocks whose medians are compared, milliseconds.
pub(crate) const BLOCK: i64 = 6 * HOUR;

/// Days after which the weekly pattern is known. Before that, a level needs this many six-hour medians to be confirmed:
/// longer than a working week or a weekend.
const WEEKS: i64 = 21;
const YOUNG: usize = 24;

/// Value of a figure in a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When the slot begins, or the sample was taken, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The figure, in the unit of the gate.
    pub value: f64,
    /// Number of samples in the slot.
    pub samples: u64,
}

/// Least size of a change: the largest of its three limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// Limit in the unit of the values.
    pub absolute: f64,
    /// Limit as a share of the level before.
    pub share: f64,
    /// Limit in usual spreads of a six-hour median.
    pub spreads: f64,
}

impl Gate {
    /// The least change from `level` that counts.
    pub fn least(&self, level: f64, spread: f64) -> f64 {
        self.absolute.max(self.share * level.abs()).max(self.spreads * spread)
    }
}

/// Thresholds for changes of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelSettings {
    /// Least size to be proposed.
    pub propose: Gate,
    /// Least size to be confirmed.
    pub confirm: Gate,
    /// Least size to be proposed from single samples.
    pub sudden: Gate,
    /// Least size in standard errors, to be proposed and to be confirmed.
    pub errors: [f64; 2],
    /// Fewest six-hour medians of a level, to be proposed and to be confirmed.
    pub shortest: [usize; 2],
}

impl LevelSettings {
    /// For medians of times in nanoseconds.
    pub const TIMES: Self = Self {
        propose: Gate { absolute: 1e6, share: 0.02, spreads: 3.0 },
        confirm: Gate { absolute: 1e6, share: 0.02, spreads: 3.0 },
        sudden: Gate { absolute: 1e6, share: 0.02, spreads: 10.0 },
        errors: [4.5, 7.5],
        shortest: [3, 4],
    };
    /// For the p90 of times in nanoseconds, which varies more.
    pub const TAILS: Self = Self {
        propose: Gate { absolute: 2e6, share: 0.05, spreads: 3.0 },
        confirm: Gate { absolute: 2e6, share: 0.05, spreads: 2.0 },
        sudden: Gate { absolute: 2e6, share: 0.05, spreads: 10.0 },
        errors: [5.0, 8.0],
        shortest: [3, 4],
    };
}

/// How certain a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The change may go away.
    Proposed,
    /// The change lasted.
    Confirmed,
}

/// A change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Proposed or confirmed.
    pub certainty: Certainty,
    /// When the new level begins, milliseconds since the Unix epoch.
    pub at: i64,
    /// Earliest and latest possible time of the change.
    pub between: [i64; 2],
    /// The level before.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// 95 % interval of `after − before`.
    pub interval: Interval,
    /// Number of samples before and after.
    pub samples: [u64; 2],
}

impl Change {
    /// `after − before`.
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }

    /// Whether both can be the same change: their possible times overlap or are at most `slack` milliseconds apart.
    pub fn overlaps(&self, other: &Self, slack: i64) -> bool {
        self.between[0] <= other.between[1] + slack && other.between[0] <= self.between[1] + slack
    }
}

/// Confirmed changes of `points`, in order of time, followed by at most one proposed change.
///
/// Empty with fewer than two days of values.
pub fn changes(points: &[Point], settings: &LevelSettings) -> Vec<Change> {
    let ordered = points.windows(2).all(|pair| pair[0].at < pair[1].at);
    if !ordered || points.iter().any(|point| !point.value.is_finite()) {
        return Vec::new();
    }
    let deseasoned = Deseasoned::without_season(points);
    let values: Vec<f64> = deseasoned.blocks.iter().map(|block| block.value).collect();
    if values.len() < 2 * settings.shortest[1] {
        return extreme::extreme(points, settings).into_iter().collect();
    }
    let shortest = match deseasoned.days {
        days if days < WEEKS => YOUNG.max(settings.shortest[1]),
        _ => settings.shortest[1],
    };
    let found = segments::confirmed(&values, shortest, settings);
    let mut all = place::changes(&deseasoned, &found.bounds, &found.noise, Certainty::Confirmed);
    if let Some(change) = extreme::extreme(points, settings).filter(|change| {
        // Drop it if levels have found it as well, or a change near it.
        all.iter().all(|other| !other.overlaps(change, DAY))
    }) {
        all.push(change);
        return all;
    }
    if let Some(change) = scan::proposed(&deseasoned, &found, settings) {
        all.push(change);
    }
    all
}
