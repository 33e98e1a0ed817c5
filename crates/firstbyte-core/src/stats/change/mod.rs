//! Changes in the level of a series of averages: when, by how much and whether at once, without mistaking noise for
//! change.
//!
//! Input: one value per slot (a day, an hour), its number of samples, and the length of a season. Output: changes with
//! intervals, and the smallest change that would have been detected. Pure and repeatable: all random numbers come from
//! a seed. Method and sources, with measured false alarms, coverage and power: `docs/statistics.md`, "Changes of
//! level".

mod interval;
mod noise;
mod prepare;
mod regression;
mod scan;
mod search;
mod shape;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod simulated;

pub use search::find_changes;

use super::Interval;

/// The average over a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesPoint {
    /// Slot number: days, or hours, since some origin. Slots without values are left out.
    pub slot: i64,
    /// The average, in any unit.
    pub value: f64,
    /// Number of averaged values, if known.
    pub samples: Option<f64>,
}

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeSettings {
    /// Length of a season in slots: 7 for days of the week, 1 for no season.
    pub season: usize,
    /// Fewest values in a level.
    pub shortest: usize,
    /// Intended share of unchanged series with a false change; `docs/statistics.md` has the actual share.
    pub level: f64,
    /// Number of simulated series for a decision, and for an interval.
    pub draws: usize,
    /// Seed of the simulation.
    pub seed: u64,
}

impl ChangeSettings {
    /// Days: a season of a week, levels of ten days.
    pub const DAILY: Self = Self { season: 7, shortest: 10, level: 0.02, draws: 999, seed: 1 };
}

/// Fewest values to search: in shorter series a change looks like slowly varying noise.
pub const FEWEST_SLOTS: usize = 42;

/// Course of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeForm {
    /// The whole change from this slot on.
    Step {
        /// The first slot of the new level.
        at: i64,
    },
    /// The same amount in every slot.
    Ramp {
        /// The last slot of the old level.
        from: i64,
        /// The first slot of the new level.
        until: i64,
    },
}

impl ChangeForm {
    /// Share of the change completed at `slot`: 0 to 1.
    pub fn share_at(self, slot: i64) -> f64 {
        match self {
            Self::Step { at } => f64::from(u8::from(slot >= at)),
            Self::Ramp { from, until } => {
                ((slot - from) as f64 / (until - from).max(1) as f64).clamp(0.0, 1.0)
            }
        }
    }

    /// The first slot that is not entirely at the old level.
    pub const fn begins(self) -> i64 {
        match self {
            Self::Step { at } => at,
            Self::Ramp { from, .. } => from,
        }
    }

    /// The first slot that is entirely at the new level.
    pub const fn ends(self) -> i64 {
        match self {
            Self::Step { at } => at,
            Self::Ramp { until, .. } => until,
        }
    }
}

/// Whether a change came at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once, or nearly so: no change slower than [`LevelChange::longest`] fits as well.
    AtOnce,
    /// Gradual: a change at once does not fit.
    Slow,
    /// Both fit.
    Unclear,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Best-fitting course.
    pub form: ChangeForm,
    /// Whether the change came at once.
    pub pace: Pace,
    /// The level before, averaged over the season.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// `after − before`.
    pub difference: f64,
    /// 95 % interval of the difference.
    pub interval: Interval,
    /// 95 % interval of the first slot of a step; first and last slot of a drift.
    pub between: [i64; 2],
    /// Longest plausible duration, in slots; 0 if only a step fits.
    pub longest: i64,
}

/// Result of the search in a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesChanges {
    /// Changes in order of time.
    pub changes: Vec<LevelChange>,
    /// Fitted value of every slot: level and season.
    pub fitted: Vec<f64>,
    /// Level without the season.
    pub levels: Vec<f64>,
    /// Offset from the level for each part of the season (slot modulo its length).
    pub season: Vec<Option<f64>>,
    /// Indices of values far from their neighbours, which were moved closer before fitting.
    pub outliers: Vec<usize>,
    /// Standard deviation of a value of usual weight around the fit.
    pub spread: f64,
    /// Correlation of the deviations in consecutive slots.
    pub next_slot: f64,
    /// Smallest step in the middle of the series that would be found nine times out of ten.
    pub would_be_seen: f64,
}
