//! Removes daily and weekly patterns from values, and computes their six-hour medians.

use super::{BLOCK, DAY, HOUR, Point, WEEKS};

/// Fewest days for a daily profile, and fewest values for each of its hours.
const PROFILE: (i64, usize) = (7, 5);
/// Fewest days for a profile of weekdays.
const WEEKDAYS: i64 = WEEKS;
/// The profile of weekdays is subtracted if that reduces the spread of days to at most this share.
const WEEKDAYS_MATTER: f64 = 0.6;
/// One outlying day is ignored for each twenty days, rounded up.
const OUTLYING_DAYS: usize = 20;
/// Fewest values of a block made of hours.
const FEWEST_HOURS: usize = 3;

/// The median of a six-hour block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// When the block begins.
    pub(super) at: i64,
    pub(super) value: f64,
    pub(super) samples: u64,
}

/// Values without their daily and weekly patterns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deseasoned {
    /// All values, in the given order.
    pub(super) points: Vec<Point>,
    /// Blocks in order of time. Six hours with too few values have no block.
    pub(super) blocks: Vec<Block>,
    /// Days from the first to the last value.
    pub(super) days: i64,
}

impl Deseasoned {
    pub(super) fn without_season(points: &[Point]) -> Self {
        let mut points = points.to_vec();
        let hourly = points.windows(2).any(|pair| pair[1].at - pair[0].at < BLOCK);
        let days = match (points.first(), points.last()) {
            (Some(first), Some(last)) => (last.at - first.at) / DAY,
            _ => 0,
        };
        if hourly && days >= PROFILE.0 {
            take_hours_off(&mut points);
        }
        if days >= WEEKDAYS {
            take_weekdays_off(&mut points);
        }
        let blocks = blocks(&points, if hourly { FEWEST_HOURS } else { 1 });
        Self { points, blocks, days }
    }
}

/// The median of `values`, which it reorders; 0 if there are no values.
pub(super) fn middle(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return 0.0;
    }
    let (below, at, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    let at = *at;
    if n % 2 == 1 {
        return at;
    }
    let below = below.iter().copied().max_by(f64::total_cmp).unwrap_or(at);
    below + (at - below) / 2.0
}

/// For each value, the median of the values within `reach` of its time.
fn running(points: &[Point], reach: i64) -> Vec<f64> {
    let mut window: Vec<f64> = Vec::new();
    let (mut from, mut until) = (0, 0);
    points
        .iter()
        .map(|point| {
            while let Some(next) = points.get(until).filter(|next| next.at <= point.at + reach) {
                let place = window.partition_point(|value| *value < next.value);
                window.insert(place, next.value);
                until += 1;
            }
            while points[from].at < point.at - reach {
                let place = window.partition_point(|value| *value < points[from].value);
                window.remove(place);
                from += 1;
            }
            let n = window.len();
            if n % 2 == 1 { window[n / 2] } else { (window[n / 2 - 1] + window[n / 2]) / 2.0 }
        })
        .collect()
}

/// Offset of each part of a period from its surroundings. Parts with too few values count as 0 before centring.
fn profile(
    points: &[Point],
    around: &[f64],
    parts: usize,
    fewest: usize,
    part: impl Fn(i64) -> usize,
) -> Vec<f64> {
    let mut of_part: Vec<Vec<f64>> = vec![Vec::new(); parts];
    for (point, around) in points.iter().zip(around) {
        of_part[part(point.at)].push(point.value - around);
    }
    let medians = of_part.iter_mut().map(|apart| {
        let enough = apart.len() >= fewest;
        if enough { middle(apart) } else { 0.0 }
    });
    let mut medians: Vec<f64> = medians.collect();
    let usual = middle(&mut medians.clone());
    medians.iter_mut().for_each(|median| *median -= usual);
    medians
}

fn take_hours_off(points: &mut [Point]) {
    let around = running(points, DAY / 2);
    let hour = |at: i64| (at.rem_euclid(DAY) / HOUR) as usize;
    let hours = profile(points, &around, 24, PROFILE.1, hour);
    points.iter_mut().for_each(|point| point.value -= hours[hour(point.at)]);
}

fn take_weekdays_off(points: &mut [Point]) {
    let mut days: Vec<Point> = Vec::new();
    for day in points.chunk_by(|a, b| a.at.div_euclid(DAY) == b.at.div_euclid(DAY)) {
        let mut values: Vec<f64> = day.iter().map(|point| point.value).collect();
        let at = day[0].at.div_euclid(DAY) * DAY;
        days.push(Point { at, value: middle(&mut values), samples: 0 });
    }
    let around = running(&days, 3 * DAY);
    let weekday = |at: i64| at.div_euclid(DAY).rem_euclid(7) as usize;
    let effects = profile(&days, &around, 7, 3, weekday);
    let size = |without: bool| {
        let apart = days.iter().zip(&around).map(|(day, around)| {
            (day.value - around - if without { effects[weekday(day.at)] } else { 0.0 }).abs()
        });
        let mut apart: Vec<f64> = apart.collect();
        apart.sort_unstable_by(f64::total_cmp);
        // Ignore outlying days, which say nothing about weekdays.
        let usual = apart.len() - apart.len().div_ceil(OUTLYING_DAYS);
        apart[..usual].iter().sum::<f64>()
    };
    if size(true) < WEEKDAYS_MATTER * size(false) {
        points.iter_mut().for_each(|point| point.value -= effects[weekday(point.at)]);
    }
}

fn blocks(points: &[Point], fewest: usize) -> Vec<Block> {
    let same = |a: &Point, b: &Point| a.at.div_euclid(BLOCK) == b.at.div_euclid(BLOCK);
    let chunks = points.chunk_by(same).filter(|chunk| chunk.len() >= fewest);
    chunks
        .map(|chunk| {
            let mut values: Vec<f64> = chunk.iter().map(|point| point.value).collect();
            Block {
                at: chunk[0].at.div_euclid(BLOCK) * BLOCK,
                value: middle(&mut values),
                samples: chunk.iter().map(|point| point.samples).sum(),
            }
        })
        .collect()
}
