//! Estimates a server's capacity from its handshakes, or says why that is not possible.
//!
//! In: the visits of its handshakes. Out: [`Capacity`]. A capacity is stated only for a server at which handshakes were
//! seen to wait for each other: see [`Standing`]. Definitions: `docs/measurement.md`, "Capacity".

use firstbyte_core::stats::{Interval, quantile};

use super::queue::{Queue, SORTS, Served};
use super::{KINDS, Visit};

/// Fewest handshakes to judge a server by.
const FEWEST: u64 = 100;
/// Fewest visits that found others present to judge whether visits wait for each other.
const FEWEST_TOGETHER: usize = 30;
/// Fewest handshakes of a kind for an interval.
const FEWEST_OF_A_KIND: u64 = 30;
/// Fewest visits for a class (by the number of others found) to count.
const FEWEST_OF_A_CLASS: f64 = 30.0;
/// Number of blocks for resampling. A block holds neighbours in the order of departures.
const BLOCKS: usize = 40;
const SHORTEST_BLOCK: usize = 5;
/// Student's t for 95 % with 19 degrees of freedom, which is what the fewest blocks leave.
const STUDENT: f64 = 2.093;
const RESAMPLES: usize = 500;
const SEED: u64 = 0x5eed;
/// Exponent above which times in the server grow as in a queue. In a queue they grow with the number of handshakes
/// present (exponent 1); without one they do not grow (0).
const GROWS: f64 = 0.35;
/// Correlation between departures and arrivals above which departures follow arrivals: the server does not delay them.
const FOLLOWS: f64 = 0.5;
/// If workers are idle, departures come closer together the more handshakes are present. Ratio above which that counts.
const CLOSER: f64 = 1.1;
/// Share of departures in the order of arrivals from which departures count as in order.
const IN_ORDER: f64 = 0.95;
/// If departures are not in order, this many before and after a departure must be of its kind.
const NEIGHBOURS: usize = 8;
/// Share of doubtful handshakes above which the times no longer represent all handshakes.
const DOUBTFUL: f64 = 0.2;

/// What the handshakes say about a server's capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// There are too few handshakes.
    TooFew,
    /// Too many of them are in doubt.
    InDoubt,
    /// There was hardly ever more than one at once: how they would share the server is unknown.
    OneAtATime,
    /// Several were present at once and took no longer for it: the server is not saturated.
    NoQueue,
    /// Several were present at once, but it is unclear whether they waited for each other.
    Unclear,
    /// They waited for each other: the time between departures is the cost of one handshake.
    Queueing {
        /// The estimate uses visits that found at least this many others.
        others: u32,
        /// Exponent with which the time in the server grows with the number of handshakes present.
        grows: Interval,
        /// They left in the order in which they came, as from one worker that serves them one after the other.
        ///
        /// Otherwise the time between departures belongs to all handshakes present, and to one kind only if all are of
        /// that kind.
        in_order: bool,
    },
}

impl Standing {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooFew => "too-few",
            Self::InDoubt => "in-doubt",
            Self::OneAtATime => "one-at-a-time",
            Self::NoQueue => "no-queue",
            Self::Unclear => "unclear",
            Self::Queueing { .. } => "queueing",
        }
    }
}

/// Server time that one handshake takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Mean, seconds.
    pub seconds: f64,
    /// The 95 % interval of the mean.
    pub interval: Interval,
    /// Number of handshakes it is computed from.
    pub handshakes: u64,
}

impl Demand {
    /// Handshakes per second if they are served one after the other.
    pub fn rate(&self) -> (f64, Interval) {
        let Interval { low, high } = self.interval;
        (1.0 / self.seconds, Interval { low: 1.0 / high, high: 1.0 / low })
    }
}

/// Visits that found about the same number of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtOnce {
    /// Smallest and largest number of others found.
    pub others: (u32, u32),
    /// Number of visits.
    pub visits: u64,
    /// Median time in the server, seconds.
    pub stayed_seconds: f64,
    /// Mean time from one departure to the next, seconds.
    pub spent_seconds: f64,
}

/// Capacity of a server, as far as the times of its handshakes show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The verdict.
    pub standing: Standing,
    /// Handshakes whose times were used.
    pub handshakes: u64,
    /// Number of busy periods.
    pub busy_periods: u64,
    /// Share of the time in which at least one handshake was present; absent if there were none.
    pub busy_share: Option<f64>,
    /// Most handshakes present at once.
    pub most_at_once: u32,
    /// Service demand of a full and of a resumed handshake; absent if handshakes did not wait for each other.
    pub demands: [Option<Demand>; KINDS],
    /// The same over both kinds as they were mixed, with the share of resumed ones.
    pub mixed: Option<(Demand, f64)>,
    /// Time in the server of handshakes that found no others: full, resumed.
    pub alone: [Option<Demand>; KINDS],
    /// Times by the number of others present.
    pub at_once: Vec<AtOnce>,
}

/// Judges `visits`, which belong to `timed` handshakes; the times of `untimed` more are in doubt.
pub(super) fn judge(visits: &[Visit], timed: u64, untimed: u64) -> Capacity {
    let queue = Queue::from_visits(visits);
    let most = queue.served.iter().map(|served| served.found + 1).max().unwrap_or(0);
    let mut capacity = Capacity {
        standing: Standing::TooFew,
        handshakes: timed,
        busy_periods: queue.periods as u64,
        busy_share: (queue.span > 0.0).then(|| queue.busy / queue.span),
        most_at_once: most,
        demands: [None; KINDS],
        mixed: None,
        alone: [None; KINDS],
        at_once: at_once(&queue),
    };
    if timed < FEWEST {
        return capacity;
    }
    if untimed as f64 > DOUBTFUL * (timed + untimed) as f64 {
        capacity.standing = Standing::InDoubt;
        return capacity;
    }
    let sample = Sample::new(&queue.served);
    capacity.alone = sample.demands(|_, served| served.found == 0, Served::stayed);
    capacity.standing = sample.standing();
    if let Standing::Queueing { others, in_order, .. } = capacity.standing {
        let queued = |_, served: &Served| served.found >= others;
        let alike = |place, served: &Served| queued(place, served) && sample.is_among_alike(place);
        capacity.demands = match in_order {
            true => sample.demands(queued, |served| served.spent),
            false => sample.demands(alike, |served| served.spent),
        };
        capacity.mixed = sample.mixed(others, timed);
    }
    capacity
}

/// Class by the number of others present: 0, 1, 2 or 3, 4 to 7, …
const fn class(found: u32) -> usize {
    (u32::BITS - found.leading_zeros()) as usize
}
const CLASSES: usize = 33;

/// The smallest number of others in a class.
const fn least_of(class: usize) -> u32 {
    if class == 0 { 0 } else { 1 << (class - 1) }
}

fn at_once(queue: &Queue) -> Vec<AtOnce> {
    let in_class = |wanted: usize| {
        let chosen: Vec<&Served> =
            queue.served.iter().filter(|served| class(served.found) == wanted).collect();
        let mut stayed: Vec<f64> = chosen.iter().map(|served| served.stayed()).collect();
        stayed.sort_by(f64::total_cmp);
        let spent: f64 = chosen.iter().map(|served| served.spent).sum();
        let found = || chosen.iter().map(|served| served.found);
        Some(AtOnce {
            others: (found().min()?, found().max()?),
            visits: chosen.len() as u64,
            stayed_seconds: quantile(&stayed, 0.5)?,
            spent_seconds: spent / chosen.len() as f64,
        })
    };
    (0..CLASSES).filter_map(in_class).collect()
}

/// Sums over the visits of one class in one block.
#[derive(Clone, Copy, Default)]
struct Sums {
    visits: f64,
    /// Handshakes present, the visit itself included.
    there: f64,
    /// Time in the server, and time between departures, each divided by the mean over its sort.
    stayed: f64,
    spent: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.visits += other.visits;
        self.there += other.there;
        self.stayed += other.stayed;
        self.spent += other.spent;
    }
}

/// Visits in the order of departures, divided into blocks.
struct Sample<'a> {
    served: &'a [Served],
    block: usize,
}

impl<'a> Sample<'a> {
    fn new(served: &'a [Served]) -> Self {
        Self { served, block: served.len().div_ceil(BLOCKS).max(SHORTEST_BLOCK) }
    }

    fn blocks(&self) -> impl Iterator<Item = &'a [Served]> + use<'a> {
        self.served.chunks(self.block)
    }

    /// Mean time per handshake, full and resumed, over the visits for which `is_counted` is true: the mean of each sort
    /// of visit, times the number of such visits per handshake.
    fn demands(
        &self,
        is_counted: impl Fn(usize, &Served) -> bool,
        time: impl Fn(&Served) -> f64,
    ) -> [Option<Demand>; KINDS] {
        // For each sort: number of all visits; number and total time of those counted.
        let mut all = [0.0; SORTS];
        self.served.iter().for_each(|served| all[served.sort()] += 1.0);
        let blocks: Vec<[(f64, f64); SORTS]> = self
            .blocks()
            .enumerate()
            .map(|(number, block)| {
                let mut sums = [(0.0, 0.0); SORTS];
                let places = (number * self.block..).zip(block);
                for (_, served) in places.filter(|(place, served)| is_counted(*place, served)) {
                    let (visits, sum) = &mut sums[served.sort()];
                    *visits += 1.0;
                    *sum += time(served);
                }
                sums
            })
            .collect();
        let mean = |chosen: &mut dyn Iterator<Item = usize>, kind: usize| {
            let mut sums = [(0.0, 0.0); SORTS];
            for place in chosen {
                for (sum, block) in sums.iter_mut().zip(&blocks[place]) {
                    *sum = (sum.0 + block.0, sum.1 + block.1);
                }
            }
            let [first, later] = [kind * 2, kind * 2 + 1];
            let of = |sort: usize| {
                (sums[sort].0 > 0.0).then(|| all[sort] / all[first] * sums[sort].1 / sums[sort].0)
            };
            let later = if all[later] > 0.0 { of(later)? } else { 0.0 };
            Some(of(first)? + later)
        };
        [0, 1].map(|kind| {
            let counted: f64 = blocks.iter().map(|block| block[kind * 2].0).sum();
            if (counted as u64) < FEWEST_OF_A_KIND {
                return None;
            }
            let seconds = mean(&mut (0..blocks.len()), kind)?;
            let draws = drawn(blocks.len(), &mut |chosen| mean(chosen, kind));
            Some(Demand { seconds, interval: around(seconds, draws)?, handshakes: counted as u64 })
        })
    }

    /// Mean cost of a handshake of either kind, over the visits that found at least `others` others, out of
    /// `handshakes` in all; and the share of resumed ones.
    fn mixed(&self, others: u32, handshakes: u64) -> Option<(Demand, f64)> {
        let blocks: Vec<(f64, f64)> = self
            .blocks()
            .map(|block| {
                let queued = block.iter().filter(|served| served.found >= others);
                queued.fold((0.0, 0.0), |(n, sum), served| (n + 1.0, sum + served.spent))
            })
            .collect();
        let visits = self.served.len() as f64 / handshakes as f64;
        let mean = |chosen: &mut dyn Iterator<Item = usize>| {
            let (n, sum) = chosen
                .fold((0.0, 0.0), |all, place| (all.0 + blocks[place].0, all.1 + blocks[place].1));
            (n > 0.0).then(|| visits * sum / n)
        };
        let seconds = mean(&mut (0..blocks.len()))?;
        let interval = around(seconds, drawn(blocks.len(), &mut |chosen| mean(chosen)))?;
        let firsts =
            self.served.iter().filter(|served| served.visit.first && served.found >= others);
        let (all, resumed) = firsts.fold((0_u64, 0_u64), |(all, resumed), served| {
            (all + 1, resumed + u64::from(served.visit.resumed))
        });
        let demand = Demand { seconds, interval, handshakes: all };
        (all >= FEWEST_OF_A_KIND).then(|| (demand, resumed as f64 / all as f64))
    }

    /// Whether the visits that left just before and just after this one are of its kind.
    fn is_among_alike(&self, place: usize) -> bool {
        let around =
            place.saturating_sub(NEIGHBOURS)..(place + NEIGHBOURS + 1).min(self.served.len());
        let kind = self.served[place].visit.resumed;
        self.served[around].iter().all(|other| other.visit.resumed == kind)
    }

    /// Whether visits waited for each other, and from how many others on.
    fn standing(&self) -> Standing {
        let together = self.served.iter().filter(|served| served.found > 0).count();
        if together < FEWEST_TOGETHER {
            return Standing::OneAtATime;
        }
        let blocks = self.sums();
        let mut all = [Sums::default(); CLASSES];
        for block in &blocks {
            all.iter_mut().zip(block).for_each(|(sum, of)| sum.add(of));
        }
        let used: Vec<usize> =
            (0..CLASSES).filter(|class| all[*class].visits >= FEWEST_OF_A_CLASS).collect();
        let mut standing = Standing::NoQueue;
        for (place, class) in used.iter().enumerate() {
            let Some(next) = used.get(place + 1) else { break };
            let Some(grows) = compared(&blocks, *class, *next, growth) else { continue };
            if grows.low <= GROWS {
                if grows.high > GROWS {
                    standing = Standing::Unclear;
                }
                continue;
            }
            // Visits that found few others may have found idle workers.
            let closer = compared(&blocks, *next, *next + 1, closeness);
            if closer.is_some_and(|closer| closer.low > CLOSER) {
                standing = Standing::Unclear;
                continue;
            }
            let others = least_of(*next);
            if self.follow_arrivals(others) {
                return Standing::NoQueue;
            }
            let in_order = self.leave_in_order(others);
            // With several workers, all of them stay busy until the next departure only if many handshakes wait.
            let wait = if in_order { 0 } else { 1 };
            let above: f64 = (next + wait..CLASSES).map(|class| all[class].visits).sum();
            if above < FEWEST_OF_A_CLASS {
                return Standing::Unclear;
            }
            return Standing::Queueing { others: least_of(next + wait), grows, in_order };
        }
        if used.len() < 2 { Standing::Unclear } else { standing }
    }

    /// Whether departures follow arrivals, for visits that found at least `others` others.
    fn follow_arrivals(&self, others: u32) -> bool {
        let pairs: Vec<(f64, f64)> = self
            .served
            .iter()
            .filter(|served| served.found >= others)
            .filter_map(|served| Some((served.arrival_gap?, served.spent)))
            .collect();
        correlation(&pairs).is_some_and(|correlation| correlation > FOLLOWS)
    }

    /// Whether visits that found at least `others` others leave in the order of their arrivals.
    fn leave_in_order(&self, others: u32) -> bool {
        let queued = self.served.iter().filter(|served| served.found >= others);
        let (all, in_order) = queued
            .filter_map(|served| served.arrival_gap)
            .fold((0.0, 0.0), |(all, so), gap| (all + 1.0, so + f64::from(u8::from(gap >= 0.0))));
        in_order >= IN_ORDER * all
    }

    fn sums(&self) -> Vec<[Sums; CLASSES]> {
        let mut means = [(0.0, 0.0, 0.0); SORTS];
        for served in self.served {
            let (visits, stayed, spent) = &mut means[served.sort()];
            *visits += 1.0;
            *stayed += served.stayed();
            *spent += served.spent;
        }
        let share = |time: f64, sum: f64, visits: f64| {
            if sum > 0.0 { time * visits / sum } else { 0.0 }
        };
        self.blocks()
            .map(|block| {
                let mut sums = [Sums::default(); CLASSES];
                for served in block {
                    let (visits, stayed, spent) = means[served.sort()];
                    sums[class(served.found)].add(&Sums {
                        visits: 1.0,
                        there: f64::from(served.found) + 1.0,
                        stayed: share(served.stayed(), stayed, visits),
                        spent: share(served.spent, spent, visits),
                    });
                }
                sums
            })
            .collect()
    }
}

/// Exponent with which the time in the server grows with the number of handshakes present.
fn growth(few: &Sums, many: &Sums) -> f64 {
    let mean = |of: f64, sums: &Sums| of / sums.visits;
    let longer = mean(many.stayed, many) / mean(few.stayed, few);
    let more = mean(many.there, many) / mean(few.there, few);
    longer.ln() / more.ln()
}

/// Ratio of the time between departures with few handshakes present to that with many.
fn closeness(few: &Sums, many: &Sums) -> f64 {
    few.spent / few.visits / (many.spent / many.visits)
}

/// The interval of `compare` between visits of the class `few` and those of the class `many` and above; absent if
/// either has too few visits.
fn compared(
    blocks: &[[Sums; CLASSES]],
    few: usize,
    many: usize,
    compare: impl Fn(&Sums, &Sums) -> f64,
) -> Option<Interval> {
    let pairs: Vec<[Sums; 2]> = blocks
        .iter()
        .map(|block| {
            let mut above = Sums::default();
            block.get(many..).unwrap_or_default().iter().for_each(|sums| above.add(sums));
            [block[few], above]
        })
        .collect();
    let sum = |chosen: &mut dyn Iterator<Item = usize>| {
        let mut sums = [Sums::default(); 2];
        for place in chosen {
            sums.iter_mut().zip(&pairs[place]).for_each(|(sum, of)| sum.add(of));
        }
        sums
    };
    let whole = sum(&mut (0..pairs.len()));
    if whole.iter().any(|sums| sums.visits < FEWEST_OF_A_CLASS) {
        return None;
    }
    let draws = drawn(pairs.len(), &mut |chosen| {
        let [few, many] = sum(chosen);
        Some(compare(&few, &many)).filter(|value| value.is_finite())
    });
    interval(draws)
}

/// The results of resampling this many blocks.
fn drawn(
    blocks: usize,
    value: &mut dyn FnMut(&mut dyn Iterator<Item = usize>) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mut random = fastrand::Rng::with_seed(SEED);
    (0..RESAMPLES)
        .map(|_| value(&mut std::iter::repeat_with(|| random.usize(0..blocks)).take(blocks)))
        .collect()
}

/// The middle 95 % of the resamples; absent if more than one in twenty has no value.
fn interval(draws: Vec<Option<f64>>) -> Option<Interval> {
    let all = draws.len();
    let mut values: Vec<f64> = draws.into_iter().flatten().collect();
    if values.len() * 20 < all * 19 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&values, 0.025)?, high: quantile(&values, 0.975)? })
}

/// 95 % interval of a mean time, from the spread of its logarithm over resamples of blocks.
fn around(value: f64, draws: Vec<Option<f64>>) -> Option<Interval> {
    let logarithms: Vec<f64> =
        draws.iter().flatten().filter(|draw| **draw > 0.0).map(|draw| draw.ln()).collect();
    if value <= 0.0 || logarithms.len() * 20 < draws.len() * 19 {
        return None;
    }
    let n = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / n;
    let spread = (logarithms.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / n).sqrt();
    let reach = (STUDENT * spread).exp();
    Some(Interval { low: value / reach, high: value * reach })
}

/// Pearson's correlation coefficient.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for pair in pairs {
        let (dx, dy) = (pair.0 - x, pair.1 - y);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}
