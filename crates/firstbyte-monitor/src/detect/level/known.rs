//! How much a figure moves from hour to hour. If enough hours are known, a sudden change must exceed that.

use super::{Change, HOUR, Point};

/// Largest distance, in hours, at which jumps are recorded.
const LAGS: usize = 6;
/// With fewer hours than this, too little is known.
const FEWEST: usize = 24;
/// A change must exceed the largest jump by this factor, and by more if few hours are known.
const BEYOND: f64 = 1.25;
const FEW: f64 = 50.0;

/// How much the hours of a figure vary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownHours {
    hours: usize,
    /// The largest difference between hours, by their distance.
    jumps: [f64; LAGS],
}

impl KnownHours {
    /// Computes it from `points`, hours in order of time. Jumps at `changes` are not counted.
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

    /// Whether too few hours are known, so that samples alone must suffice.
    pub const fn is_young(&self) -> bool {
        self.hours < FEWEST
    }

    /// The difference that a change between samples `apart` milliseconds apart must exceed, in the unit of the values.
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
