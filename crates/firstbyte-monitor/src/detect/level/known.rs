//! How much a figure moves from hour to hour: a sudden change must exceed that, if enough hours are known.

use super::{Change, HOUR, Point};

/// Jumps between hours up to so many apart are known.
const LAGS: usize = 6;
/// Fewest hours that say anything.
const FEWEST: usize = 24;
/// A change exceeds the largest jump by this factor, and by more where few hours are known.
const BEYOND: f64 = 1.25;
const FEW: f64 = 50.0;

/// What the hours of a figure show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownHours {
    hours: usize,
    /// The largest difference between hours that are so many apart.
    jumps: [f64; LAGS],
}

impl KnownHours {
    /// Of `points`, hours in the order of time; jumps at `changes` are not counted.
    pub fn from_points(points: &[Point], changes: &[Change]) -> Self {
        let mut known = Self { hours: points.len(), ..Self::default() };
        let is_change = |from: &Point, to: &Point| {
            changes.iter().any(|change| {
                from.at < change.between[1] + HOUR && to.at >= change.between[0] - HOUR
            })
        };
        for (index, point) in points.iter().enumerate() {
            for earlier in points[index.saturating_sub(LAGS)..index].iter() {
                let lag = (point.at - earlier.at) / HOUR;
                let Some(slot) = usize::try_from(lag - 1).ok().filter(|slot| *slot < LAGS) else {
                    continue;
                };
                let jump = (point.value - earlier.value).abs();
                if jump > known.jumps[slot] && !is_change(earlier, point) {
                    known.jumps[slot] = jump;
                }
            }
        }
        known
    }

    pub(in crate::detect) const fn is_empty(&self) -> bool {
        self.hours == 0
    }

    /// Whether so little is known that samples have to speak for themselves.
    pub const fn is_young(&self) -> bool {
        self.hours < FEWEST
    }

    /// What a change between samples that are `apart` milliseconds apart has to exceed, in the unit of the values.
    pub fn floor(&self, apart: i64) -> f64 {
        if self.is_young() {
            return 0.0;
        }
        let lag = usize::try_from(apart.max(1).unsigned_abs().div_ceil(HOUR.unsigned_abs()));
        let lag = lag.unwrap_or(LAGS).clamp(1, LAGS);
        let largest = self.jumps[..lag].iter().copied().fold(0.0, f64::max);
        largest * BEYOND * (1.0 + FEW / self.hours as f64)
    }
}
