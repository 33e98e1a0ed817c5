//! The order and the times at which samples are taken.
//!
//! Randomised complete blocks: every round visits every cell once, in random order, so that what
//! drifts meanwhile (the machine, the path) falls on all cells alike. Seeded: the same seed gives
//! the same order. The schedule is open: the time at which a sample is due does not depend on how
//! long those before it took, and how late it was begun is part of it (no coordinated omission).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use firstbyte_core::timeline::{Failure, Sample};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::clock::timer_now;
use crate::probe::{Prober, Target};

/// How many rounds, in which order cells are visited, and when.
#[derive(Clone, Debug)]
pub struct Design {
    /// Rounds that are measured first and not pooled.
    pub warmup: u32,
    /// Rounds that count, at most.
    pub rounds: u32,
    /// Seed of the order within each round.
    pub seed: u64,
    /// Time from when one sample is due to when the next is; from the warm-up when absent. None at
    /// all (zero): each begins when the one before it has ended, and none is late.
    pub interval: Option<Duration>,
    /// Which cells are visited at the same time.
    pub lanes: Lanes,
}

/// Which cells of a round are visited at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// None: one after the other.
    #[default]
    One,
    /// All: a round's visits are begun at the same instant.
    Abreast,
    /// Those of different lanes; each lane visits its cells one after the other.
    Several(Vec<Vec<usize>>),
}

/// A sample, and how it was taken.
#[derive(Debug)]
pub struct Visited {
    /// Index of the cell.
    pub cell: usize,
    /// Its round is `sequence`.
    pub sample: Sample,
    /// How long after it was due it was begun.
    pub lateness: Duration,
    /// Why what it takes for granted (a session, an open connection) could not be had.
    pub unprepared: Option<Failure>,
}

/// What is visited by whom.
pub type Visitor<P> = Rc<(P, Target)>;

impl Design {
    /// Samples that will be taken of `cells` cells, at most.
    pub const fn samples(&self, cells: usize) -> u64 {
        (self.warmup as u64 + self.rounds as u64) * cells as u64
    }

    /// The order in which round `round` visits `cells` cells.
    pub fn order(&self, round: u32, cells: usize) -> Vec<usize> {
        // A generator per round: a run that is continued has the orders it would have had.
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(round));
        let mut order: Vec<usize> = (0..cells).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        order
    }

    /// Takes the samples. `took` is given each before the next one of its lane is begun; `goes_on` is
    /// asked before every round; `done` says which (round, cell) a run that is continued already has.
    ///
    /// # Errors
    /// Those of `took`.
    pub async fn run<P: Prober + 'static, E>(
        &self,
        cells: &[Visitor<P>],
        done: impl Fn(u32, usize) -> bool,
        goes_on: impl FnMut(u32) -> bool,
        took: impl FnMut(Visited) -> Result<(), E>,
    ) -> Result<(), E> {
        let everything = (0..cells.len()).collect();
        let lanes = match &self.lanes {
            Lanes::Several(lanes) => lanes.clone(),
            Lanes::One | Lanes::Abreast => vec![everything],
        };
        let (goes_on, took) = (RefCell::new(goes_on), RefCell::new(took));
        let lanes = lanes.into_iter().map(|lane| {
            let pace = Pace { interval: self.interval, slots: vec![None; cells.len()], next: None };
            self.run_lane(lane, cells, &done, &goes_on, &took, pace)
        });
        all(lanes.map(|lane| Box::pin(lane) as Pin<Box<_>>).collect()).await
    }

    async fn run_lane<P: Prober + 'static, E>(
        &self,
        lane: Vec<usize>,
        cells: &[Visitor<P>],
        done: &impl Fn(u32, usize) -> bool,
        goes_on: &RefCell<impl FnMut(u32) -> bool>,
        took: &RefCell<impl FnMut(Visited) -> Result<(), E>>,
        mut pace: Pace,
    ) -> Result<(), E> {
        for round in 0..self.warmup.saturating_add(self.rounds) {
            if !(goes_on.borrow_mut())(round) {
                break;
            }
            let mut order = self.order(round, cells.len());
            order.retain(|cell| lane.contains(cell) && !done(round, *cell));
            let number = |mut visited: Visited| {
                visited.sample.sequence = round;
                visited.sample.warmup = round < self.warmup;
                visited
            };
            if self.lanes == Lanes::Abreast {
                for visited in side_by_side(&order, cells, &mut pace).await {
                    (took.borrow_mut())(number(visited))?;
                }
                continue;
            }
            for cell in order {
                let due = pace.due(cell);
                let begun = timer_now();
                let visited = visit(cell, Rc::clone(&cells[cell]), due).await;
                pace.took(cell, begun);
                (took.borrow_mut())(number(visited))?;
            }
        }
        Ok(())
    }
}

/// A lane under way.
type Lane<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

/// Runs all lanes to their end, or until one fails.
async fn all<E>(mut lanes: Vec<Lane<'_, E>>) -> Result<(), E> {
    poll_fn(|cx| {
        let mut failed = None;
        lanes.retain_mut(|lane| match lane.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if lanes.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}

/// Prepares a visit, waits until it is due, and makes it.
async fn visit<P: Prober>(cell: usize, visitor: Visitor<P>, due: Option<Instant>) -> Visited {
    let (prober, target) = &*visitor;
    let unprepared = prober.prepare(target).await.err();
    let lateness = wait(due).await;
    let sample = prober.probe(target).await;
    Visited { cell, sample, lateness, unprepared }
}

/// Waits until `due`; gives how much later it is.
async fn wait(due: Option<Instant>) -> Duration {
    let Some(due) = due else { return Duration::ZERO };
    if timer_now() < due {
        sleep_until(due).await;
    }
    timer_now().saturating_duration_since(due)
}

/// One round, all cells at the same time.
async fn side_by_side<P: Prober + 'static>(
    order: &[usize],
    cells: &[Visitor<P>],
    pace: &mut Pace,
) -> Vec<Visited> {
    let begun = timer_now();
    let mut unprepared = Vec::new();
    for cell in order {
        let (prober, target) = &*cells[*cell];
        unprepared.push(prober.prepare(target).await.err());
    }
    let due = order.first().and_then(|cell| pace.due(*cell));
    let lateness = wait(due).await;
    let mut visits = JoinSet::new();
    for (place, cell) in order.iter().copied().enumerate() {
        let visitor = Rc::clone(&cells[cell]);
        visits.spawn_local(async move {
            let (prober, target) = &*visitor;
            (place, cell, prober.probe(target).await)
        });
    }
    let mut visited = Vec::new();
    while let Some(finished) = visits.join_next().await {
        match finished {
            Ok((place, cell, sample)) => {
                let unprepared = unprepared[place].take();
                visited.push(Visited { cell, sample, lateness, unprepared });
            }
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        }
    }
    if let Some(cell) = order.first() {
        pace.took(*cell, begun);
    }
    visited
}

/// When samples are due.
struct Pace {
    interval: Option<Duration>,
    /// How long the visits to each cell took at first, with what had to be prepared.
    slots: Vec<Option<Duration>>,
    next: Option<Instant>,
}

impl Pace {
    /// When the next sample, of `cell`, is due; absent while its slot is not known.
    fn due(&mut self, cell: usize) -> Option<Instant> {
        let slot = self.interval.or(self.slots[cell])?;
        if slot.is_zero() {
            return None;
        }
        let due = self.next.unwrap_or_else(timer_now);
        self.next = Some(due + slot);
        Some(due)
    }

    /// A visit to `cell` that was begun at `begun` has ended: its slot is a tenth longer.
    fn took(&mut self, cell: usize, begun: Instant) {
        let took = timer_now().saturating_duration_since(begun);
        let slot = took + took / 10 + Duration::from_millis(1);
        if self.slots[cell].is_none() {
            self.slots[cell] = Some(slot);
            if self.interval.is_none() {
                self.next = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESIGN: Design =
        Design { warmup: 1, rounds: 20, seed: 7, interval: None, lanes: Lanes::One };

    #[test]
    fn every_round_visits_every_cell_once_and_the_seed_fixes_the_order() {
        let orders: Vec<_> = (0..21).map(|round| DESIGN.order(round, 12)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(orders[3], DESIGN.order(3, 12));
        assert_ne!(orders[3], Design { seed: 8, ..DESIGN }.order(3, 12));
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
    }

    /// Takes as long as it is told to, first to last.
    struct Slow(RefCell<Vec<u64>>);

    impl Prober for Slow {
        async fn probe(&self, _: &Target) -> Sample {
            let took = self.0.borrow_mut().pop().unwrap_or(10);
            tokio::time::sleep(Duration::from_millis(took)).await;
            Sample::default()
        }
    }

    fn cells(count: usize, took: &[u64]) -> Vec<Visitor<Slow>> {
        let target = Target::parse("https://example.test/").unwrap();
        (0..count)
            .map(|_| {
                let took = took.iter().rev().copied().collect();
                Rc::new((Slow(RefCell::new(took)), target.clone()))
            })
            .collect()
    }

    async fn lateness(design: &Design, cells: &[Visitor<Slow>]) -> Vec<(u32, u64)> {
        let mut late = Vec::new();
        let took = |visited: Visited| {
            late.push((visited.sample.sequence, visited.lateness.as_millis() as u64));
            Ok::<(), ()>(())
        };
        design.run(cells, |_, _| false, |_| true, took).await.unwrap();
        late
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_sample_does_not_shift_those_after_it() {
        let design = Design { rounds: 4, interval: Some(Duration::from_millis(20)), ..DESIGN };
        // The second takes 50 ms: the third is due at 40 ms and begun at 70.
        let late = lateness(&design, &cells(1, &[10, 50, 10, 10, 10])).await;
        let ms: Vec<u64> = late.iter().map(|(_, ms)| *ms).collect();
        assert_eq!(ms, [0, 0, 30, 20, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_an_interval_the_warm_up_sets_the_pace() {
        let design = Design { rounds: 3, ..DESIGN };
        let late = lateness(&design, &cells(2, &[10, 10, 30, 10])).await;
        assert!(late.iter().filter(|(round, _)| *round < 2).all(|(_, ms)| *ms == 0), "{late:?}");
        assert!(late.iter().any(|(round, ms)| *round == 2 && *ms > 0), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_is_not_done_again_and_the_rest_keeps_its_order() {
        let design = Design { rounds: 2, ..DESIGN };
        let mut took = Vec::new();
        let note = |visited: Visited| {
            took.push((visited.sample.sequence, visited.cell));
            Ok::<(), ()>(())
        };
        let done = |round, cell| round == 0 || (round == 1 && cell == 2);
        design.run(&cells(3, &[]), done, |_| true, note).await.unwrap();
        let order = DESIGN.order(1, 3).into_iter().filter(|c| *c != 2).map(|c| (1, c));
        let rest = DESIGN.order(2, 3).into_iter().map(|c| (2, c));
        assert_eq!(took, order.chain(rest).collect::<Vec<_>>());
    }
}
