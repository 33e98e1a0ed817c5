//! The engine of every experiment. It takes a plan's cells and design, and gives samples to a sink; a handle stops it
//! and reports its progress.
//!
//! It neither prints nor writes files; that is the sink's job. `schedule` determines the order of the samples.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::run::{Row, Standing, Taken};
use firstbyte_core::timeline::{Failure, Sample};
use tokio::sync::Notify;
use tracing::{debug, info};

use super::cells::Variant;
use super::schedule::{Design, Visited, Visitor};
use super::until::Until;
use crate::probe::{Equipment, SetupError};

/// Receives the samples, each before the next one of its lane begins.
pub trait SampleSink {
    /// Why a sample could not be accepted; this error ends the campaign.
    type Error;

    /// Accepts a sample.
    ///
    /// # Errors
    /// Why the sample could not be accepted.
    fn take_in(&mut self, taken: Taken) -> Result<(), Self::Error>;
}

impl<E, F: FnMut(Taken) -> Result<(), E>> SampleSink for F {
    type Error = E;

    fn take_in(&mut self, taken: Taken) -> Result<(), E> {
        self(taken)
    }
}

/// A handle on a running campaign. Clones refer to the same campaign.
#[derive(Clone, Default)]
pub struct Control(Rc<ControlState>);

#[derive(Default)]
struct ControlState {
    stop: Notify,
    taken: Cell<u64>,
    expected: Cell<u64>,
}

impl Control {
    /// Stops the campaign: samples in progress are dropped, completed ones are kept.
    pub fn stop(&self) {
        self.0.stop.notify_one();
    }

    /// Samples done so far, including those of a continued run and those that will be skipped.
    pub fn taken(&self) -> u64 {
        self.0.taken.get()
    }

    /// Maximum number of samples.
    pub fn expected(&self) -> u64 {
        self.0.expected.get()
    }

    fn one_more(&self) {
        self.0.taken.set(self.taken() + 1);
    }
}

/// An experiment that is ready to run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign<'a> {
    /// The ways to connect.
    pub cells: &'a [Variant],
    /// When each cell is visited.
    pub design: &'a Design,
    /// An additional criterion for when to stop.
    pub until: Option<&'a Until>,
}

/// The existing part of a campaign that is continued.
#[derive(Default)]
pub struct Before<'a> {
    /// Whether the sample of a round and a cell already exists or must not be taken.
    pub done: Option<&'a dyn Fn(u32, usize) -> bool>,
    /// Number of such samples.
    pub samples: u64,
    /// The rows of the existing samples.
    pub rows: Vec<Row>,
}

/// How a campaign ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// Whether it was stopped through [`Control::stop`].
    pub stopped: bool,
    /// The last failure of a sample that counts.
    pub failure: Option<Failure>,
    /// For each cell, the first failure to prepare a sample, such as to get a session or an open connection.
    pub unprepared: Vec<Option<Failure>>,
    /// Rounds that count, if the campaign has a stop condition; without one they are not counted.
    pub rounds: usize,
    /// Whether the intervals became as narrow as requested.
    pub narrow_enough: Option<bool>,
    /// Whether all samples of the warm-up failed, which ended the campaign.
    pub all_failed: bool,
}

impl Campaign<'_> {
    /// Creates the visitors of the cells, in the same order. Call it within the runtime that the visitors will use.
    ///
    /// # Errors
    /// The error of the first cell that cannot be visited as requested.
    pub fn visitors(&self, equipment: &Equipment) -> Result<Vec<Rc<Visitor>>, SetupError> {
        self.cells.iter().map(|cell| cell.visitor(equipment).map(Rc::new)).collect()
    }

    /// Takes the samples, on the current [`tokio::task::LocalSet`].
    ///
    /// # Errors
    /// The errors of `sink`.
    pub async fn run<S: SampleSink>(
        &self,
        visitors: &[Rc<Visitor>],
        before: Before<'_>,
        control: &Control,
        sink: &mut S,
    ) -> Result<Ended, S::Error> {
        control.0.expected.set(self.design.samples(self.cells.len()));
        control.0.taken.set(before.samples);
        info!(cells = self.cells.len(), samples = control.expected(), "campaign begins");
        let rows = RefCell::new(before.rows);
        let given_up = RefCell::new(vec![false; self.cells.len()]);
        let enough = || self.until.is_some_and(|u| u.is_reached(&rows.borrow(), self.cells.len()));
        let mut ended = Ended { unprepared: vec![None; self.cells.len()], ..Ended::default() };
        let mut reached = false;
        // When a run is continued, the caller has already checked this.
        let warmup = match self.design.ends_if_all_fail && before.samples == 0 {
            true => self.design.warmup_samples(self.cells.len()),
            false => 0,
        };
        let (failed_at_first, mut last_of_warmup) = (Cell::new(0_u64), None);
        let all_failed = || warmup > 0 && failed_at_first.get() == warmup;
        let done = |round: u32, cell: usize| {
            let given_up = given_up.borrow()[cell];
            if given_up {
                control.one_more();
            }
            given_up || before.done.is_some_and(|done| done(round, cell))
        };
        let goes_on = |round: u32| {
            reached = reached || (round > self.design.warmup && enough()) || all_failed();
            !reached
        };
        let took = |visited: Visited| {
            let Visited { cell, sample, lateness, unprepared } = visited;
            control.one_more();
            if let Some(failure) = unprepared {
                ended.unprepared[cell].get_or_insert(failure);
            }
            if !sample.warmup {
                ended.failure = sample.failure().cloned().or(ended.failure.take());
            }
            let taken = self.judge_sample(cell, lateness, sample);
            debug!(cell, round = taken.sample.sequence, standing = ?taken.standing, ?lateness, "sample");
            let failed_at_once = taken.sample.warmup && taken.standing == Standing::Failed;
            if failed_at_once {
                failed_at_first.set(failed_at_first.get() + 1);
                last_of_warmup = taken.sample.failure().cloned();
            }
            if self.design.gives_up && cell > 0 && failed_at_once {
                given_up.borrow_mut()[cell] = true;
            }
            if self.until.is_some() {
                rows.borrow_mut().push(taken.row());
            }
            sink.take_in(taken)
        };
        let finished = self.design.run(visitors, done, goes_on, took);
        let stopped = tokio::select! {
            biased;
            () = control.0.stop.notified() => true,
            result = finished => result.map(|()| false)?,
        };
        info!(stopped, taken = control.taken(), "campaign ends");
        ended.stopped = stopped;
        ended.all_failed = all_failed() && !stopped;
        if ended.all_failed {
            ended.failure = last_of_warmup;
        }
        ended.rounds = counted_rounds(&rows.borrow());
        ended.narrow_enough = self.until.map(|_| enough());
        Ok(ended)
    }

    /// Judges a sample of cell number `cell` by the settings of that cell.
    pub fn judge_sample(&self, cell: usize, lateness: Duration, sample: Sample) -> Taken {
        let standing = self.cells[cell].standing(&sample);
        Taken {
            stands_for: None,
            cell: u16::try_from(cell).unwrap_or(u16::MAX),
            standing,
            lateness,
            sample,
        }
    }
}

fn counted_rounds(rows: &[Row]) -> usize {
    let mut rounds: Vec<u32> = rows.iter().filter(|r| !r.warmup).map(|r| r.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds.len()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_core::timeline::{Cause, Failure, Offset, PhaseName};

    use crate::probe::options::Options;

    use super::*;
    use crate::experiment::{Axis, Matrix, Visit};
    use crate::probe::{Prober, Target, Visiting};

    /// A prober whose visits take ten milliseconds, and fail if `fails` is set.
    struct Steady {
        fails: bool,
    }

    impl Prober for Steady {
        fn probe<'a>(&'a self, _: &'a Target) -> Visiting<'a, Sample> {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let mut sample = Sample::default();
                sample.connection.failure = self.fails.then_some(Failure {
                    phase: PhaseName::Connect,
                    cause: Cause::Reset,
                    at: Some(Offset::ZERO),
                });
                sample
            })
        }
    }

    fn cells() -> Vec<Variant> {
        let options = Options::default().into();
        let target = Target::parse("https://example.test/").unwrap();
        let axis = Axis::read("tls=1.2,1.3").unwrap();
        Matrix::new(&[axis], &Visit { target, options }).variants
    }

    /// The second way fails, or with `all` every way.
    fn visitors(cells: &[Variant], all: bool) -> Vec<Rc<Visitor>> {
        let visitor = |(place, cell): (usize, &Variant)| {
            let prober = Box::new(Steady { fails: all || place == 1 });
            Rc::new(Visitor { prober, target: cell.visit.target.clone() })
        };
        cells.iter().enumerate().map(visitor).collect()
    }

    async fn run(design: Design, control: &Control, stop_at: usize) -> (Ended, Vec<(u32, u16)>) {
        run_where(false, design, control, stop_at).await
    }

    async fn run_where(
        all_fail: bool,
        design: Design,
        control: &Control,
        stop_at: usize,
    ) -> (Ended, Vec<(u32, u16)>) {
        let cells = cells();
        let campaign = Campaign { cells: &cells, design: &design, until: None };
        let mut taken = Vec::new();
        let mut sink = |sample: Taken| {
            taken.push((sample.sample.sequence, sample.cell));
            if taken.len() == stop_at {
                control.stop();
            }
            Ok::<(), ()>(())
        };
        let before = Before::default();
        let ended =
            campaign.run(&visitors(&cells, all_fail), before, control, &mut sink).await.unwrap();
        (ended, taken)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stopped_keeps_what_it_has() {
        let control = Control::default();
        let (ended, taken) = run(Design { rounds: 9, ..Design::default() }, &control, 3).await;
        assert!(ended.stopped);
        assert_eq!((taken.len(), control.taken(), control.expected()), (3, 3, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_way_that_fails_at_once_is_given_up_where_that_is_the_design() {
        let design = Design { rounds: 3, gives_up: true, ..Design::default() };
        let control = Control::default();
        let (ended, taken) = run(design.clone(), &control, 0).await;
        let of_second: Vec<_> = taken.iter().filter(|(_, cell)| *cell == 1).collect();
        assert_eq!((taken.len(), of_second), (5, vec![&(0, 1)]));
        assert_eq!((control.taken(), ended.stopped), (control.expected(), false));
        assert!(ended.failure.is_none(), "its only sample does not count");
        let (ended, taken) = run(Design { gives_up: false, ..design }, &control, 0).await;
        assert_eq!(taken.len(), 8);
        assert!(ended.failure.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_of_the_warm_up_fails_nothing_more_is_measured() {
        let design = Design { rounds: 9, warmup: 2, ends_if_all_fail: true, ..Design::default() };
        let control = Control::default();
        let (ended, taken) = run_where(true, design.clone(), &control, 0).await;
        assert_eq!((taken.len(), ended.all_failed, ended.stopped), (4, true, false));
        assert!(ended.failure.is_some());
        // The campaign goes on after a single success, without `ends_if_all_fail`, or without a warm-up.
        for (all_fail, design) in [
            (false, design.clone()),
            (true, Design { ends_if_all_fail: false, ..design.clone() }),
            (true, Design { warmup: 0, rounds: 11, ..design }),
        ] {
            let (ended, taken) = run_where(all_fail, design, &Control::default(), 0).await;
            assert_eq!((taken.len(), ended.all_failed), (22, false));
        }
    }
}
