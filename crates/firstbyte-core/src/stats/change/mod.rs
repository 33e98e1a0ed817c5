//! When a series of averages changed its level, by how much, and whether at once: a search that is honest about noise.
//!
//! In: a value a slot (a day, an hour), what it is an average of, how long a season is. Out: changes with intervals, and how
//! small a change would have been seen. Pure and repeatable: what is drawn, is drawn from a seed. Method and sources, with
//! what was measured of false alarms, coverage and power: `docs/statistics.md`, "Changes of level".

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
    /// Its number: days, or hours, since some origin. Slots without values are left out.
    pub slot: i64,
    /// The average, in any unit.
    pub value: f64,
    /// How many values it is the average of, where that is known.
    pub samples: Option<f64>,
}

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeSettings {
    /// Slots after which a season begins again: 7 for days of the week. 1 is none.
    pub season: usize,
    /// Fewest values that a level has.
    pub shortest: usize,
    /// The share of unchanged series in which a change may be named; see `docs/statistics.md` for what it is in fact.
    pub level: f64,
    /// Series that are drawn for a decision, and for an interval.
    pub draws: usize,
    /// Of what is drawn.
    pub seed: u64,
}

impl ChangeSettings {
    /// Days: a season of a week, levels of ten days.
    pub const DAILY: Self = Self { season: 7, shortest: 10, level: 0.02, draws: 999, seed: 1 };
}

/// Fewest values in which a change is looked for: shorter series cannot tell a change from a slow state.
pub const FEWEST_SLOTS: usize = 42;

/// The course of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeForm {
    /// All of it, from this slot on.
    Step {
        /// The first slot of the new level.
        at: i64,
    },
    /// As much in every slot.
    Ramp {
        /// The last slot of the old level.
        from: i64,
        /// The first slot of the new level.
        until: i64,
    },
}

impl ChangeForm {
    /// How much of the change has come about at `slot`: 0 to 1.
    pub fn share_at(self, slot: i64) -> f64 {
        match self {
            Self::Step { at } => f64::from(u8::from(slot >= at)),
            Self::Ramp { from, until } => {
                ((slot - from) as f64 / (until - from).max(1) as f64).clamp(0.0, 1.0)
            }
        }
    }

    /// Its first slot that is not all of the old level, or not yet.
    pub const fn begins(self) -> i64 {
        match self {
            Self::Step { at } => at,
            Self::Ramp { from, .. } => from,
        }
    }

    /// The first slot that is all of the new level.
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
    /// As good as from one slot to the next: nothing slower than [`LevelChange::longest`] fits as well.
    AtOnce,
    /// It drifts: a change at once does not fit.
    Slow,
    /// Both fit.
    Unclear,
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelChange {
    /// Its course, as fits best.
    pub form: ChangeForm,
    /// Whether it came at once.
    pub pace: Pace,
    /// The level before, averaged over the season.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// `after − before`.
    pub difference: f64,
    /// Of the difference, 95 %.
    pub interval: Interval,
    /// First and last slot at which it can have begun, 95 %. Of a drift its first and last slot.
    pub between: [i64; 2],
    /// The longest that it can have taken, in slots; 0 where only a step fits.
    pub longest: i64,
}

/// What was found in a series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesChanges {
    /// In the order of time.
    pub changes: Vec<LevelChange>,
    /// What level and season make of every value.
    pub fitted: Vec<f64>,
    /// The level alone: without the season.
    pub levels: Vec<f64>,
    /// For each part of the season (slot modulo its length) how far it lies from the level.
    pub season: Vec<Option<f64>>,
    /// Indices of values far from all around them, which were moved nearer before anything was fitted.
    pub outliers: Vec<usize>,
    /// Standard deviation of a value of usual weight around what fits.
    pub spread: f64,
    /// How much of the deviation of a slot is still there in the next one: a correlation.
    pub next_slot: f64,
    /// A change at once in the middle of the series that would have been found nine times in ten.
    pub would_be_seen: f64,
}
