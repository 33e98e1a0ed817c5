//! A table of simulated QUIC connections, from which visitors' times are read.
//!
//! The table has a row of round trips without loss. For some of them it has a *pool* of connections with losses,
//! each with different ones. A visitor without losses gets the time from the row, with the probability that no
//! datagram is lost. A visitor with losses gets the time of one connection of the pool. Between two round trips,
//! the times of a connection with the same losses are interpolated linearly, because they consist of round trips
//! and host times.

use std::time::{Duration, Instant};

use super::{Outcome, Range, Workers, path};
use crate::quic::{self, Chance, Fate, Played};
use crate::{PredictError, Setup, Way, derived_seed};
use firstbyte_core::simulation::seed::{Stream, random};
use firstbyte_core::simulation::tcp::nanos;
use firstbyte_core::timeline::{Mark, Offset};

/// Ratio between neighbouring round trips of the row without loss; below, of those with pools.
const CALM_STEP: f64 = 1.15;
const LOSS_STEP: f64 = 2.5;
/// Ratio between neighbouring loss rates.
const LEVEL_STEP: f64 = 2.0;
/// If fewer losses than this are expected per connection, a connection with losses loses one datagram, whatever the
/// loss rate.
const FEW_LOSSES: f64 = 0.1;
/// Total datagrams to simulate per round trip. Larger connections vary less, so fewer of them are needed.
const DATAGRAMS: usize = 200_000;
const FEWEST_MEMBERS: usize = 200;

/// First byte and total, nanoseconds.
pub(super) type Times = [f64; 2];

struct Calm {
    rtt: f64,
    times: Times,
}

/// Connections with losses, at one loss rate.
struct Pool {
    loss: f64,
    members: usize,
    nodes: Vec<Node>,
}

/// The connections of a pool at one round trip.
struct Node {
    rtt: f64,
    /// Number of datagrams of a connection without losses.
    datagrams: usize,
    /// Additional time of each connection over one without losses; `None` if it was given up.
    extra: Vec<Option<Times>>,
}

pub(super) struct Table {
    calm: Vec<Calm>,
    /// In ascending order of loss.
    pools: Vec<Pool>,
}

impl Table {
    pub(super) fn new(
        setup: &Setup,
        way: &Way,
        range: &Range,
        base: Instant,
        workers: Workers<'_>,
    ) -> Result<Self, PredictError> {
        let mut table = Self { calm: Vec::new(), pools: Vec::new() };
        for rtt in steps(range, CALM_STEP) {
            let setup = over(setup, rtt);
            let times = times(quic::middling(&setup, way, base)?.0, &setup, way)?;
            table.calm.push(Calm { rtt: rtt.as_nanos() as f64, times });
        }
        let Some([least, most]) = range.losses else { return Ok(table) };
        let mut loss = most;
        loop {
            let pool = Pool::new(setup, way, range, loss, (base, workers))?;
            let few = pool.nodes.iter().all(|node| node.datagrams as f64 * loss < FEW_LOSSES);
            table.pools.insert(0, pool);
            if few || loss <= least {
                return Ok(table);
            }
            loss = (loss / LEVEL_STEP).max(least);
        }
    }

    pub(super) fn play(&self, rtt: Duration, loss: f64, seed: u64) -> Option<Outcome> {
        let rtt = rtt.as_nanos() as f64;
        let mut times = between(&self.calm, rtt, |calm| calm.rtt, |calm| calm.times);
        if loss > 0.0 {
            let mut random = random(seed, Stream::Table);
            let [spared, which, level] = [0; 3].map(|_| random.f64());
            if let Some(pool) = self.pool(loss, level)
                && spared >= pool.chance_of_none(rtt, loss)
            {
                let extra = pool.extra(rtt, which)?;
                times = [times[0] + extra[0], times[1] + extra[1]];
            }
        }
        let duration = |ns: f64| Duration::from_nanos(ns.max(0.0).round() as u64);
        Some(Outcome { first_byte: duration(times[0]), total: duration(times[1]) })
    }

    /// A pool for this loss rate: one of the two neighbours at random, the nearer one with the higher probability.
    fn pool(&self, loss: f64, chance: f64) -> Option<&Pool> {
        let above = self.pools.partition_point(|pool| pool.loss < loss);
        let (Some(below), Some(upper)) = (above.checked_sub(1), self.pools.get(above)) else {
            return self.pools.get(above).or(self.pools.last());
        };
        let lower = &self.pools[below];
        let share = (loss - lower.loss) / (upper.loss - lower.loss);
        Some(if chance < share { upper } else { lower })
    }
}

impl Pool {
    fn new(
        setup: &Setup,
        way: &Way,
        range: &Range,
        loss: f64,
        (base, workers): (Instant, Workers<'_>),
    ) -> Result<Self, PredictError> {
        let mut calm = Vec::new();
        for rtt in steps(range, LOSS_STEP) {
            let setup = over(setup, rtt);
            let (played, _) = quic::middling(&setup, way, base)?;
            let datagrams = [played.up.len(), played.down.len()];
            calm.push((times(played, &setup, way)?, datagrams, setup, rtt));
        }
        let most = calm.iter().map(|(_, [up, down], ..)| up + down).max().unwrap_or(1).max(1);
        let members = (DATAGRAMS / most).clamp(FEWEST_MEMBERS, range.members.max(FEWEST_MEMBERS));
        let member = |number: usize| -> Option<Times> {
            let (calm, datagrams, setup, _) = &calm[number / members];
            let number = number % members;
            let mut setup = setup.clone();
            setup.path.seed = derived_seed(setup.path.seed, number as u64);
            let seed = setup.path.seed;
            // Stratified sampling: each connection draws from its own equal part of the range.
            let place = random(seed, Stream::Table).f64();
            let place = (number as f64 + place) / members as f64;
            let fate = Fate::new(seed, loss, *datagrams, place);
            let clock = quic::server_clock(seed);
            // Failed connections have no times.
            let played = quic::play(&setup, way, base, Chance { clock, fate: Some(fate) }).ok()?;
            let [first_byte, total] = times(played, &setup, way).ok()?;
            Some([first_byte - calm[0], total - calm[1]])
        };
        let mut all = workers(calm.len() * members, &member).into_iter();
        let node = |(_, [up, down], _, rtt): &(Times, [usize; 2], Setup, Duration)| Node {
            rtt: rtt.as_nanos() as f64,
            datagrams: up + down,
            extra: all.by_ref().take(members).collect(),
        };
        Ok(Self { loss, members, nodes: calm.iter().map(node).collect() })
    }

    fn nearest(&self, rtt: f64) -> Option<&Node> {
        let apart = |node: &Node| (node.rtt.ln() - rtt.ln()).abs();
        self.nodes.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
    }

    /// Probability that a connection loses none of its datagrams.
    fn chance_of_none(&self, rtt: f64, loss: f64) -> f64 {
        let datagrams = self.nearest(rtt).map_or(0, |node| node.datagrams);
        (1.0 - loss).powf(datagrams as f64)
    }

    /// Additional time of one of its connections; `None` if it was given up.
    fn extra(&self, rtt: f64, which: f64) -> Option<Times> {
        let member = ((which * self.members as f64) as usize).min(self.members - 1);
        let of = |node: &Node| node.extra.get(member).copied().flatten();
        let here = of(self.nearest(rtt)?)?;
        Some(between(&self.nodes, rtt, |node| node.rtt, |node| of(node).unwrap_or(here)))
    }
}

/// Round trips from the shortest to the longest, each `factor` times the previous one.
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

/// Interpolates linearly between the two entries around `rtt`; outside the row it extrapolates from the nearest
/// two.
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

/// The same setup with another round trip and no losses.
fn over(setup: &Setup, rtt: Duration) -> Setup {
    Setup { path: path(&setup.path, rtt, 0.0, setup.path.seed), ..setup.clone() }
}

fn times(played: Played, setup: &Setup, way: &Way) -> Result<Times, PredictError> {
    let connection = played.connection(setup, way);
    let time = |mark| {
        let at = connection.marks.at(mark).map(|at| at.since(Offset::ZERO));
        at.map(|at| nanos(at) as f64)
    };
    match (time(Mark::ResponseStart), time(Mark::ResponseEnd)) {
        (Some(first), Some(last)) => Ok([first, last]),
        _ => Err(PredictError::Stalled { what: "no response" }),
    }
}
