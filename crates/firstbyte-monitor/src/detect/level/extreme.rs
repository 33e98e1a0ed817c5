//! A change to a level far from all earlier values: hours confirm it long before levels of days can.

use firstbyte_core::stats::Interval;

use super::blocks::middle;
use super::place::place;
use super::{Certainty, Change, LevelSettings, Point};

/// Hours for which the new level must last, and how many of them may deviate.
const HELD: usize = 12;
const ASTRAY: usize = 1;
/// Fewest hours before the change.
const FEWEST: usize = 24;
/// Margin on either side of the range of earlier hours, as a share of the range. It grows if they cover less than seven
/// days.
const MARGIN: f64 = 0.5;
const DAYS: f64 = 7.0;

/// The change to the level of the last hours of `points`, in order of time, if no earlier hour was near that level.
pub(super) fn extreme(points: &[Point], settings: &LevelSettings) -> Option<Change> {
    let split = points.len().checked_sub(HELD).filter(|split| *split >= FEWEST)?;
    let (earlier, held) = points.split_at(split);
    let level = median(held);
    // The change may precede the hours that must hold.
    let before_level = median(earlier);
    let half = before_level + (level - before_level) / 2.0;
    let is_after = |point: &&Point| (point.value > half) == (level > before_level);
    let run = earlier.iter().rev().take_while(is_after).count();
    let before = &earlier[..split - run];
    if before.len() < FEWEST {
        return None;
    }
    let values = before.iter().map(|point| point.value);
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
    let days = before.len() as f64 / 24.0;
    let margin = (most - least) * MARGIN * (DAYS / days).max(1.0);
    let base = median(before);
    let least_change = settings.confirm.absolute.max(settings.confirm.share * base.abs());
    let beyond = |point: &&Point| {
        let grows = level > base;
        let outside =
            if grows { point.value > most + margin } else { point.value < least - margin };
        outside && (point.value - base).abs() >= least_change
    };
    if held.iter().filter(beyond).count() + ASTRAY < HELD {
        return None;
    }
    let near = &points[before.len().saturating_sub(HELD)..];
    let after = median(&points[before.len()..]);
    let (at, between) = place(near, base, after)?;
    let error = (most - least) / 4.0;
    Some(Change {
        certainty: Certainty::Confirmed,
        at,
        between,
        before: base,
        after,
        interval: Interval { low: after - base - error, high: after - base + error },
        samples: [
            before.iter().map(|point| point.samples).sum(),
            points[before.len()..].iter().map(|point| point.samples).sum(),
        ],
    })
}

fn median(points: &[Point]) -> f64 {
    let mut values: Vec<f64> = points.iter().map(|point| point.value).collect();
    middle(&mut values)
}
