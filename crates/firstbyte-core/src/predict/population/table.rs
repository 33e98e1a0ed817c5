//! Connections over QUIC, from tables that the state machines have filled.
//!
//! A row of round trips without loss, and for each of a few of them what it costs that one datagram is
//! lost. Between round trips times are straight lines: they are made of round trips and host times.

use std::time::{Duration, Instant};

use super::{Outcome, Range, path};
use crate::predict::quic::{self, Chance, Datagram, Played};
use crate::predict::tcp::{Nanos, nanos};
use crate::predict::{PredictError, Setup, Way};
use crate::timeline::{Mark, Offset};

/// Neighbouring round trips without loss differ by this factor, those with losses by the other.
const CALM_STEP: f64 = 1.15;
const LOSS_STEP: f64 = 2.5;
/// Of more datagrams than this, every n-th is lost once and stands for those around it.
const LOST_ONE_BY_ONE: usize = 48;

/// First byte and total, nanoseconds.
type Times = [f64; 2];

struct Calm {
    rtt: f64,
    times: Times,
}

/// What losing one datagram costs, at one round trip.
struct Losses {
    rtt: f64,
    up: Lane,
    down: Lane,
}

/// The datagrams of one direction.
struct Lane {
    /// When each leaves, in round trips.
    sent: Vec<f64>,
    /// What it costs when the n-th group of `stride` datagrams loses one; none where that is never
    /// repaired.
    costs: Vec<Option<Times>>,
    stride: usize,
}

pub(super) struct Table {
    calm: Vec<Calm>,
    losses: Vec<Losses>,
}

impl Table {
    pub(super) fn new(
        setup: &Setup,
        way: &Way,
        range: &Range,
        base: Instant,
    ) -> Result<Self, PredictError> {
        let mut table = Self { calm: Vec::new(), losses: Vec::new() };
        for rtt in steps(range, CALM_STEP) {
            let setup = over(setup, rtt);
            let times = times(quic::middling(&setup, way, base)?.0, &setup, way)?;
            table.calm.push(Calm { rtt: rtt.as_nanos() as f64, times });
        }
        if range.loses {
            for rtt in steps(range, LOSS_STEP) {
                table.losses.push(Losses::new(setup, way, rtt, base)?);
            }
        }
        Ok(table)
    }

    pub(super) fn play(&self, rtt: Duration, loss: f64, seed: u64) -> Option<Outcome> {
        let rtt = rtt.as_nanos() as f64;
        let mut times = between(&self.calm, rtt, |calm| calm.rtt, |calm| calm.times);
        if loss > 0.0 && !self.losses.is_empty() {
            let extra = self.cost(rtt, loss, seed)?;
            times = [times[0] + extra[0], times[1] + extra[1]];
        }
        let duration = |ns: f64| Duration::from_nanos(ns.max(0.0).round() as u64);
        Some(Outcome { first_byte: duration(times[0]), total: duration(times[1]) })
    }

    /// What a random draw of losses costs. Those of one round trip are repaired together: the dearest
    /// counts.
    fn cost(&self, rtt: f64, loss: f64, seed: u64) -> Option<Times> {
        let mut random = fastrand::Rng::with_seed(seed);
        let nearest = self
            .losses
            .iter()
            .min_by(|a, b| (a.rtt.ln() - rtt.ln()).abs().total_cmp(&(b.rtt.ln() - rtt.ln()).abs()));
        let nearest = nearest?;
        let mut lost: Vec<(f64, bool, usize)> = Vec::new();
        for (up, lane) in [(true, &nearest.up), (false, &nearest.down)] {
            let mut index = skip(&mut random, loss);
            while let Some(sent) = lane.sent.get(index) {
                lost.push((*sent, up, index));
                index = index.saturating_add(1).saturating_add(skip(&mut random, loss));
            }
        }
        lost.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = [0.0; 2];
        let mut together: Option<(f64, Times)> = None;
        for (sent, up, index) in lost {
            let here = nearest.cost(up, index)?;
            let there = |losses: &Losses| losses.cost(up, index).unwrap_or(here);
            let cost = between(&self.losses, rtt, |l| l.rtt, there);
            match &mut together {
                Some((since, dearest)) if sent - *since < 1.0 => {
                    *dearest = [dearest[0].max(cost[0]), dearest[1].max(cost[1])];
                }
                _ => {
                    let before = together.replace((sent, cost)).map_or([0.0; 2], |(_, cost)| cost);
                    sum = [sum[0] + before[0], sum[1] + before[1]];
                }
            }
        }
        let last = together.map_or([0.0; 2], |(_, cost)| cost);
        Some([sum[0] + last[0], sum[1] + last[1]])
    }
}

impl Losses {
    fn new(setup: &Setup, way: &Way, rtt: Duration, base: Instant) -> Result<Self, PredictError> {
        let setup = over(setup, rtt);
        let (played, chance) = quic::middling(&setup, way, base)?;
        let (up, down) = (played.up.clone(), played.down.clone());
        let calm = times(played, &setup, way)?;
        let lane = |up: bool, sent: Vec<Nanos>| {
            let stride = sent.len().div_ceil(LOST_ONE_BY_ONE).max(1);
            let costs = (0..sent.len())
                .step_by(stride)
                .map(|index| {
                    // One from the middle of those it stands for.
                    let index = (index + stride / 2).min(sent.len() - 1);
                    let lost = Some(Datagram { up, index });
                    // The state machines came together without the loss: with it, they gave up.
                    let played = quic::play(&setup, way, base, Chance { lost, ..chance }).ok()?;
                    let times = times(played, &setup, way).ok()?;
                    Some([times[0] - calm[0], times[1] - calm[1]])
                })
                .collect();
            let rtt = rtt.as_nanos() as f64;
            let sent = sent.into_iter().map(|at| at as f64 / rtt).collect();
            Lane { sent, costs, stride }
        };
        Ok(Self { rtt: rtt.as_nanos() as f64, up: lane(true, up), down: lane(false, down) })
    }

    fn cost(&self, up: bool, index: usize) -> Option<Times> {
        let lane = if up { &self.up } else { &self.down };
        // At other round trips there may be a datagram more: losing that one costs nothing known.
        lane.costs.get(index / lane.stride).copied().unwrap_or(Some([0.0; 2]))
    }
}

/// Packets that get through before the next one that is lost.
fn skip(random: &mut fastrand::Rng, loss: f64) -> usize {
    if loss >= 1.0 {
        return 0;
    }
    // 1 − u is never 0.
    let skipped = (1.0 - random.f64()).ln() / (-loss).ln_1p();
    if skipped < 1e9 { skipped as usize } else { usize::MAX / 2 }
}

/// Round trips from the shortest to the longest, each longer by `factor`.
fn steps(range: &Range, factor: f64) -> Vec<Duration> {
    let shortest = range.shortest.max(Duration::from_micros(10));
    let mut steps = vec![shortest];
    let mut rtt = shortest.as_secs_f64();
    while rtt < range.longest.as_secs_f64() {
        rtt *= factor;
        steps.push(Duration::from_secs_f64(rtt));
    }
    steps
}

/// The straight line between the two entries around `rtt`; beyond them, the nearest two go on.
fn between<T>(row: &[T], rtt: f64, at: impl Fn(&T) -> f64, times: impl Fn(&T) -> Times) -> Times {
    match row {
        [] => [0.0; 2],
        [only] => times(only),
        _ => {
            let after = row.partition_point(|entry| at(entry) < rtt).clamp(1, row.len() - 1);
            let (a, b) = (&row[after - 1], &row[after]);
            let share = ((rtt - at(a)) / (at(b) - at(a))).clamp(0.0, 1.0);
            let (a, b) = (times(a), times(b));
            [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share]
        }
    }
}

/// The same over another round trip, and nothing lost.
fn over(setup: &Setup, rtt: Duration) -> Setup {
    Setup { path: path(&setup.path, rtt, 0.0, 0), ..setup.clone() }
}

/// A connection's times.
fn times(played: Played, setup: &Setup, way: &Way) -> Result<Times, PredictError> {
    let connection = played.record.finish(setup, way);
    let time = |mark| {
        let at = connection.marks.at(mark).map(|at| at.since(Offset::ZERO));
        at.map(|at| nanos(at) as f64)
    };
    match (time(Mark::ResponseStart), time(Mark::ResponseEnd)) {
        (Some(first), Some(last)) => Ok([first, last]),
        _ => Err(PredictError::Stalled { what: "no response" }),
    }
}
