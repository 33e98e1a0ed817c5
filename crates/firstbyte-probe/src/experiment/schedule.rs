//! The order and the times at which samples are taken.
//!
//! Randomised complete blocks: every round visits every cell once, in random order, so that drift (of the machine or
//! the path) affects all cells alike. The same seed gives the same order. The schedule is open: the due time of a
//! sample does not depend on how long earlier ones took, and its lateness is recorded with it (no coordinated
//! omission).

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use firstbyte_core::timeline::{Failure, Sample};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::probe::{Prober, Target};
use firstbyte_clock::timer_now;

/// How many rounds there are, and in which order and when they visit the cells.
#[derive(Clone, Debug)]
pub struct Design {
    /// Rounds measured first and not pooled.
    pub warmup: u32,
    /// Maximum number of rounds that count.
    pub rounds: u32,
    /// Seed of the order within each round.
    pub seed: u64,
    /// Time between the due times of two samples. If absent, it is derived from the warm-up.
    ///
    /// With zero, each sample begins when the previous one has ended, and none is late.
    pub interval: Option<Duration>,
    /// Which cells are visited at the same time.
    pub lanes: Lanes,
    /// What one visit to a cell consists of; with [`Lanes::Abreast`] always one sample.
    pub each_visit: EachVisit,
    /// Whether to give up a cell, except the first, once a sample of its warm-up fails. Then the cost of a failure is
    /// not paid again and again.
    pub gives_up: bool,
    /// Whether to stop if every sample of the warm-up fails, instead of trying an unreachable server a hundred times
    /// more.
    pub ends_if_all_fail: bool,
}

impl Default for Design {
    fn default() -> Self {
        Self {
            warmup: 1,
            rounds: 30,
            seed: 1,
            interval: None,
            lanes: Lanes::One,
            each_visit: EachVisit::Sample,
            gives_up: false,
            ends_if_all_fail: false,
        }
    }
}

/// What one visit to a cell consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EachVisit {
    /// One sample, prepared first: it may need a session or an open connection.
    #[default]
    Sample,
    /// This number of samples. The first one opens the connection that they share; it is closed after the last.
    Connection(NonZeroU32),
}

impl EachVisit {
    const fn samples(self) -> u32 {
        match self {
            Self::Sample => 1,
            Self::Connection(exchanges) => exchanges.get(),
        }
    }
}

/// Which cells of a round are visited at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lanes {
    /// None: visits happen one after the other.
    #[default]
    One,
    /// All: the visits of a round begin at the same instant.
    Abreast,
    /// Cells of different lanes; each lane visits its cells one after the other.
    Several(Vec<Vec<usize>>),
}

/// A sample, and how it was taken.
#[derive(Debug)]
pub struct Visited {
    /// Index of the cell.
    pub cell: usize,
    /// The sample; its `sequence` is the round.
    pub sample: Sample,
    /// How long after its due time it began.
    pub lateness: Duration,
    /// Why its preparation (a session, an open connection) failed.
    pub unprepared: Option<Failure>,
}

/// A target and its prober. Visitors of one experiment may be different kinds of clients.
pub struct Visitor {
    /// Takes the samples. Its sessions and its open connection belong to this cell only.
    pub prober: Box<dyn Prober>,
    /// The target to visit.
    pub target: Target,
}

impl Design {
    /// Maximum number of samples of `cells` cells.
    pub const fn samples(&self, cells: usize) -> u64 {
        (self.warmup as u64 + self.rounds as u64) * cells as u64 * self.each_visit.samples() as u64
    }

    /// Number of samples of the warm-up.
    pub const fn warmup_samples(&self, cells: usize) -> u64 {
        self.warmup as u64 * cells as u64 * self.each_visit.samples() as u64
    }

    /// The order in which round `round` visits `cells` cells.
    pub fn order(&self, round: u32, cells: usize) -> Vec<usize> {
        // A separate generator per round, so that a continued run has the same orders as an uninterrupted one.
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(round));
        let mut order: Vec<usize> = (0..cells).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        order
    }

    /// Takes the samples. `took` receives each one before the next of its lane begins; `goes_on` is called before every
    /// round; `done` says which (round, cell) pairs a continued run already has.
    ///
    /// # Errors
    /// The errors of `took`.
    pub async fn run<E>(
        &self,
        cells: &[Rc<Visitor>],
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

    async fn run_lane<E>(
        &self,
        lane: Vec<usize>,
        cells: &[Rc<Visitor>],
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
                for _ in 0..self.each_visit.samples() {
                    let due = pace.due(cell);
                    let begun = timer_now();
                    let visited = self.visit(cell, &cells[cell], due).await;
                    pace.took(cell, begun);
                    (took.borrow_mut())(number(visited))?;
                }
                if self.each_visit != EachVisit::Sample {
                    cells[cell].prober.close();
                }
            }
        }
        Ok(())
    }

    /// Prepares a sample, waits until it is due, and takes it.
    async fn visit(&self, cell: usize, visitor: &Visitor, due: Option<Instant>) -> Visited {
        let Visitor { prober, target } = visitor;
        let unprepared = match self.each_visit {
            EachVisit::Sample => prober.prepare(target).await.err(),
            EachVisit::Connection(_) => None,
        };
        let lateness = wait(due).await;
        let sample = prober.probe(target).await;
        Visited { cell, sample, lateness, unprepared }
    }
}

/// A running lane.
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

/// Waits until `due`; returns how late it is then.
async fn wait(due: Option<Instant>) -> Duration {
    let Some(due) = due else { return Duration::ZERO };
    if timer_now() < due {
        sleep_until(due).await;
    }
    timer_now().saturating_duration_since(due)
}

/// Runs one round with all cells at the same time.
async fn side_by_side(order: &[usize], cells: &[Rc<Visitor>], pace: &mut Pace) -> Vec<Visited> {
    let begun = timer_now();
    let mut unprepared = Vec::new();
    for cell in order {
        let Visitor { prober, target } = &*cells[*cell];
        unprepared.push(prober.prepare(target).await.err());
    }
    let due = order.first().and_then(|cell| pace.due(*cell));
    let lateness = wait(due).await;
    let mut visits = JoinSet::new();
    for (place, cell) in order.iter().copied().enumerate() {
        let visitor = Rc::clone(&cells[cell]);
        visits
            .spawn_local(async move { (place, cell, visitor.prober.probe(&visitor.target).await) });
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
    /// How long the first visit to each cell took, including preparation.
    slots: Vec<Option<Duration>>,
    next: Option<Instant>,
}

impl Pace {
    /// The due time of the next sample, which is of `cell`; absent while its slot is not known.
    fn due(&mut self, cell: usize) -> Option<Instant> {
        let slot = self.interval.or(self.slots[cell])?;
        if slot.is_zero() {
            return None;
        }
        let due = self.next.unwrap_or_else(timer_now);
        self.next = Some(due + slot);
        Some(due)
    }

    /// Records the end of a visit to `cell` that began at `begun`. The first visit determines the slot, which is a
    /// tenth longer.
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
    use crate::probe::Visiting;

    const DESIGN: Design = Design {
        warmup: 1,
        rounds: 20,
        seed: 7,
        interval: None,
        lanes: Lanes::One,
        each_visit: EachVisit::Sample,
        gives_up: false,
        ends_if_all_fail: false,
    };

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

    /// A prober whose visits take the listed times, in order.
    struct Slow(RefCell<Vec<u64>>);

    impl Prober for Slow {
        fn probe<'a>(&'a self, _: &'a Target) -> Visiting<'a, Sample> {
            Box::pin(async {
                let took = self.0.borrow_mut().pop().unwrap_or(10);
                tokio::time::sleep(Duration::from_millis(took)).await;
                Sample::default()
            })
        }
    }

    fn cells(count: usize, took: &[u64]) -> Vec<Rc<Visitor>> {
        let target = Target::parse("https://example.test/").unwrap();
        (0..count)
            .map(|_| {
                let took = took.iter().rev().copied().collect();
                let prober = Box::new(Slow(RefCell::new(took)));
                Rc::new(Visitor { prober, target: target.clone() })
            })
            .collect()
    }

    async fn lateness(design: &Design, cells: &[Rc<Visitor>]) -> Vec<(u32, u64)> {
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
        // The second takes 50 ms, so the third is due at 40 ms and begins at 70 ms.
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

    /// A prober that records its calls under a name.
    struct Noting(&'static str, Rc<RefCell<Vec<String>>>);

    impl Noting {
        fn note(&self, what: &str) {
            self.1.borrow_mut().push(format!("{} {what}", self.0));
        }
    }

    impl Prober for Noting {
        fn probe<'a>(&'a self, _: &'a Target) -> Visiting<'a, Sample> {
            self.note("probe");
            Box::pin(async { Sample::default() })
        }

        fn prepare<'a>(&'a self, _: &'a Target) -> Visiting<'a, Result<(), Failure>> {
            self.note("prepare");
            Box::pin(async { Ok(()) })
        }

        fn close(&self) {
            self.note("close");
        }
    }

    async fn notes(design: &Design) -> Vec<String> {
        let notes = Rc::default();
        let mut cells = cells(1, &[]);
        let target = cells[0].target.clone();
        let prober = Box::new(Noting("other", Rc::clone(&notes)));
        cells.push(Rc::new(Visitor { prober, target }));
        let took = |visited: Visited| {
            notes.borrow_mut().push(format!("cell {}", visited.cell));
            Ok::<(), ()>(())
        };
        design.run(&cells, |_, _| false, |_| true, took).await.unwrap();
        notes.take()
    }

    #[tokio::test(start_paused = true)]
    async fn probers_of_different_kinds_stand_in_one_matrix() {
        let mut notes = notes(&Design { warmup: 0, rounds: 1, ..DESIGN }).await;
        notes.sort();
        assert_eq!(notes, ["cell 0", "cell 1", "other prepare", "other probe"]);
    }

    #[tokio::test(start_paused = true)]
    async fn exchanges_of_a_connection_follow_each_other_and_it_is_closed_after_them() {
        let each_visit = EachVisit::Connection(NonZeroU32::new(2).unwrap());
        let design = Design { warmup: 0, rounds: 1, each_visit, ..DESIGN };
        assert_eq!(design.samples(2), 4);
        let notes = notes(&design).await;
        let other: Vec<_> = notes.into_iter().filter(|note| note != "cell 0").collect();
        let exchange = ["other probe", "cell 1"];
        assert_eq!(other, [&exchange[..], &exchange, &["other close"]].concat());
    }
}
