//! A synthetic prober: returns prepared samples without any network, each after the duration of a short visit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_core::run::{Standing, Taken};
use firstbyte_core::timeline::{Cause, Failure, Offset, PhaseName, Sample};
use firstbyte_monitor::watch::Series;
use firstbyte_probe::experiment::Visitor;
use firstbyte_probe::probe::{Equipment, Prober, SetupError, Target, Visiting};

use crate::visits::Visit;

/// Number of different samples for each TLS version.
const DRAWN: u32 = 512;
/// One visit in this many fails.
const FAILS: u32 = 512;
/// Visits take up to this long.
const LONGEST_MS: u64 = 30;

/// Samples to copy from.
pub(crate) struct Drawn {
    samples: [Vec<Sample>; 2],
    random: RefCell<fastrand::Rng>,
    /// When the first sample began.
    first: Cell<Option<Monotonic>>,
}

impl Drawn {
    pub(crate) fn new(seed: u64) -> Rc<Self> {
        let mut random = fastrand::Rng::with_seed(seed);
        let samples = [false, true].map(|is_tls12| {
            let mut draw = |number| {
                let rtt = Duration::from_micros(random.u64(500..80_000));
                let visit = Visit { url: "", is_tls12, rtt, started_unix_ns: 0, number };
                let mut sample = visit.sample(&mut random);
                if number % FAILS == FAILS - 1 {
                    let at = Some(Offset::ZERO);
                    let failure = Failure { phase: PhaseName::Connect, cause: Cause::Reset, at };
                    sample.connection.failure = Some(failure);
                }
                sample
            };
            (0..DRAWN).map(&mut draw).collect()
        });
        Rc::new(Self { samples, random: RefCell::new(random), first: Cell::new(None) })
    }

    /// When the first sample of all began.
    pub(crate) fn first(&self) -> Option<Monotonic> {
        self.first.get()
    }

    /// A sample of `cell` that begins now.
    pub(crate) fn taken(&self, cell: u16) -> Taken {
        let number = self.random.borrow_mut().usize(0..DRAWN as usize);
        let mut sample = self.samples[usize::from(cell % 2)][number].clone();
        sample.connection.started_unix_ns = Some(Realtime::now().unix_nanos());
        let standing = match sample.failure() {
            Some(_) => Standing::Failed,
            None => Standing::Proven,
        };
        Taken { cell, standing, lateness: Duration::ZERO, stands_for: None, sample }
    }

    /// Visits `series` instead of its prober. The prober exists but stays idle, so that its memory is included.
    pub(crate) fn visitor(
        self: &Rc<Self>,
        series: &Series,
        equipment: &Equipment,
    ) -> Result<Visitor, SetupError> {
        let Visitor { prober, target } = series.visitor(equipment)?;
        let is_tls12 = series.cell.factors.iter().any(|factor| factor.value.contains("tls=1.2"));
        let drawn = Rc::clone(self);
        Ok(Visitor { prober: Box::new(Synthetic { drawn, is_tls12, _idle: prober }), target })
    }
}

struct Synthetic {
    drawn: Rc<Drawn>,
    is_tls12: bool,
    _idle: Box<dyn Prober>,
}

impl Prober for Synthetic {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async {
            let began = Realtime::now().unix_nanos();
            if self.drawn.first.get().is_none() {
                self.drawn.first.set(Some(Monotonic::now()));
            }
            let (number, takes) = {
                let mut random = self.drawn.random.borrow_mut();
                (random.usize(0..DRAWN as usize), random.u64(0..LONGEST_MS))
            };
            tokio::time::sleep(Duration::from_millis(takes)).await;
            let mut sample = self.drawn.samples[usize::from(self.is_tls12)][number].clone();
            sample.requested_url = target.url.to_string();
            sample.connection.url.clone_from(&sample.requested_url);
            sample.connection.started_unix_ns = Some(began);
            sample
        })
    }
}
