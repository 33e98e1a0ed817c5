//! The passive half as one machine: frames in, connections out.

use std::slice;

use super::filter::Filter;
use super::intake::{Begin, Intake};
use super::limits::Limits;
use super::losses::Losses;
use super::numbers::{Happened, Numbers, Output};
use super::observed::ANSWER_WITHIN;
use super::shard::{OpenConnections, Shard};
use super::{Ending, Hygiene, Observed, Time};
use firstbyte_core::pcap::Frame;

/// Follows the connections of a capture.
#[derive(Debug)]
pub struct Analyzer {
    intake: Intake,
    shards: Vec<Shard>,
    numbers: Numbers,
    losses: Losses,
    happened: Happened,
    whole: Vec<u8>,
    /// The frame with which the connection of the last frame began.
    latest: Option<u64>,
}

/// An analyzer taken apart, so that several threads can follow one capture. Intake sees the frames in their
/// order; each shard sees its packets in theirs; the ledger is told what happened in so many frames only when
/// all shards are through them. What comes out is the same as from [`Analyzer::frame`].
#[derive(Debug)]
pub struct Sharded<'a> {
    /// Frames to packets.
    pub intake: &'a mut Intake,
    /// Packets to what happens to connections, by [`Arrival::shard`](super::Arrival::shard).
    pub shards: &'a mut [Shard],
    /// What happened to numbered connections.
    pub ledger: Ledger<'a>,
}

/// Gives out connections in the order of the capture.
#[derive(Debug)]
pub struct Ledger<'a> {
    numbers: &'a mut Numbers,
    losses: &'a Losses,
    /// The last frame's time, as far as they were read when it was made.
    last: Option<Time>,
}

impl Ledger<'_> {
    /// Gives out what was over within some frames: those that follow the last call's. Who made it frees it:
    /// it is left in `happened`, to be [cleared](Happened::clear).
    pub fn settle(&mut self, happened: &mut [Happened], emit: &mut dyn FnMut(&Observed)) {
        let losses = self.losses;
        self.numbers.settle(happened, &mut |observed| {
            losses.mark(observed);
            emit(observed);
        });
    }

    /// Gives out a connection that was under way at the end: the one of [`OpenConnections`] that is next, over all shards
    /// by the `number` that it has there.
    pub fn end(&mut self, observed: &mut Observed, emit: &mut dyn FnMut(&Observed)) {
        let waited = self.last.map(|last| last.since(observed.started));
        if observed.ending == Ending::Unanswered && waited < Some(ANSWER_WITHIN) {
            observed.ending = Ending::Open;
        }
        self.losses.mark(observed);
        self.numbers.emit(observed, &mut |observed| emit(observed));
    }
}

impl Analyzer {
    /// Nothing seen yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            intake: Intake::new(limits),
            shards: Shard::all(limits),
            numbers: Numbers::new(limits.seed),
            losses: Losses::default(),
            happened: Happened::default(),
            whole: Vec::new(),
            latest: None,
        }
    }

    /// Looks at what passes `filter`, and at nothing else.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.intake.set_filter(filter);
        self
    }

    /// What was removed and what could not be read, so far.
    pub const fn hygiene(&self) -> &Hygiene {
        self.intake.hygiene()
    }

    /// When the capture began, to be asked as soon as a connection is given out.
    pub fn begin(&self) -> Begin {
        self.intake.begin()
    }

    /// Connections that are under way.
    pub fn live(&self) -> usize {
        self.shards.iter().map(Shard::live).sum()
    }

    /// Connections seen so far, those that are not given out among them.
    pub const fn connections(&self) -> u64 {
        self.numbers.count()
    }

    /// The number of the connection that the last frame belongs to, as far as it is known: a fragment
    /// belongs to none until the last piece of its datagram is there.
    pub fn latest(&self) -> Option<u64> {
        self.numbers.begun_at(self.latest?)
    }

    /// The next frame; `emit` is given every connection that ends with it.
    pub fn frame(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(&Observed)) {
        self.latest = None;
        let Some(arrival) = self.intake.frame(frame, &mut self.whole) else { return };
        let Some(shard) = self.shards.get_mut(arrival.shard) else { return };
        shard.packet(&arrival, &mut self.happened, self.intake.hygiene_mut());
        self.latest = shard.latest();
        if !self.happened.is_empty() {
            self.settle(emit);
        }
    }

    /// Between these times so many frames were dropped by who captures, perhaps none: connections that
    /// were under way are marked when they are given out.
    pub fn dropped(&mut self, frames: u64, from: Time, to: Time) {
        *self.intake.hygiene_mut().dropped.get_or_insert(0) += frames;
        if frames > 0 {
            self.losses.add(from, to);
        }
    }

    /// Nothing older than `to` will come: gives out what has been silent for so long that it is over.
    pub fn advance(&mut self, to: Time, emit: &mut dyn FnMut(&Observed)) {
        let hygiene = self.intake.hygiene_mut();
        let frame = hygiene.frames;
        let mut out = Output { hygiene, frame, timed: true, happened: &mut self.happened };
        self.shards.iter_mut().for_each(|shard| shard.advance(to, &mut out));
        self.settle(emit);
    }

    /// The capture is over: gives out all that is under way, in the order in which it began.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&Observed)) {
        let Sharded { shards, mut ledger, .. } = self.sharded();
        let mut rests = OpenConnections::take_from(shards);
        let Some(mut observed) = rests.next() else { return };
        ledger.end(&mut observed, emit);
        while rests.next_instead_of(&mut observed) {
            ledger.end(&mut observed, emit);
        }
    }

    /// Taken apart, for as long as the shards are followed by several threads.
    pub fn sharded(&mut self) -> Sharded<'_> {
        let last = self.hygiene().span.map(|(_, last)| last);
        let ledger = Ledger { numbers: &mut self.numbers, losses: &self.losses, last };
        Sharded { intake: &mut self.intake, shards: &mut self.shards, ledger }
    }

    /// Adds what was counted while it was taken apart.
    pub fn count(&mut self, hygiene: &Hygiene) {
        self.intake.hygiene_mut().add(hygiene);
    }

    fn settle(&mut self, emit: &mut dyn FnMut(&Observed)) {
        let (numbers, losses) = (&mut self.numbers, &self.losses);
        let mut ledger = Ledger { numbers, losses, last: None };
        ledger.settle(slice::from_mut(&mut self.happened), emit);
        self.happened.clear();
    }
}
