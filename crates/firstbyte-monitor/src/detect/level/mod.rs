//! Changes of one figure of one series: its median or p90, hour by hour or sample by sample; or its share of failures
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

/// Days after which a week's course is known. Before that a level has to last for longer than working days or a weekend
/// do, to be confirmed: so many medians of six hours.
const WEEKS: i64 = 21;
const YOUNG: usize = 24;

/// A figure of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When the slot begins, or the sample was taken: milliseconds since the Unix epoch.
    pub at: i64,
    /// The figure, in the unit that the gate has.
    pub value: f64,
    /// How many samples it is of.
    pub samples: u64,
}

/// Least size of a change. The largest limit that applies counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// In the unit of the values.
    pub absolute: f64,
    /// Of the level before.
    pub share: f64,
    /// Usual spreads of a six-hour median.
    pub spreads: f64,
}

impl Gate {
    /// The least change at `level` that counts.
    pub fn least(&self, level: f64, spread: f64) -> f64 {
        self.absolute.max(self.share * level.abs()).max(self.spreads * spread)
    }
}

/// What to look for in a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelSettings {
    /// To be proposed.
    pub propose: Gate,
    /// To be confirmed.
    pub confirm: Gate,
    /// To be proposed from raw samples.
    pub sudden: Gate,
    /// Standard errors that a change is of, to be proposed and to be confirmed.
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
    /// For p90 of times in nanoseconds, which varies more.
    pub const TAILS: Self = Self {
        propose: Gate { absolute: 2e6, share: 0.05, spreads: 3.0 },
        confirm: Gate { absolute: 2e6, share: 0.05, spreads: 2.0 },
        sudden: Gate { absolute: 2e6, share: 0.05, spreads: 10.0 },
        errors: [5.0, 8.0],
        shortest: [3, 4],
    };
}

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// It may go away.
    Proposed,
    /// It held.
    Confirmed,
}

/// A change of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Proposed or confirmed.
    pub certainty: Certainty,
    /// Where the new level begins.
    pub at: i64,
    /// The change lies between these times.
    pub between: [i64; 2],
    /// The level before.
    pub before: f64,
    /// The level after.
    pub after: f64,
    /// Of `after − before`, 95 %.
    pub interval: Interval,
    /// Samples of either level.
    pub samples: [u64; 2],
}

impl Change {
    /// `after − before`.
    pub fn difference(&self) -> f64 {
        self.after - self.before
    }

    /// Whether it can be the same as `other`: both of one time, by no more than `slack` milliseconds apart.
    pub fn overlaps(&self, other: &Self, slack: i64) -> bool {
        self.between[0] <= other.between[1] + slack && other.between[0] <= self.between[1] + slack
    }
}

/// Confirmed changes of `points`, in order of time, and at most one that is proposed after them.
///
/// None with fewer than two days of values.
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
        // Levels have found it as well, or are near it.
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
