//! The passive half as a whole: frames in, connections out.

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
    /// The frame with which the last frame's connection began.
    latest: Option<u64>,
}

/// An analyzer split into parts, so that several threads can follow one capture.
///
/// The intake takes the frames in order, and each shard takes its packets in order. The ledger gets the events of a
/// number of frames only when all shards have processed these. The result is the same as from [`Analyzer::frame`].
#[derive(Debug)]
pub struct Sharded<'a> {
    /// Reads packets from frames.
    pub intake: &'a mut Intake,
    /// The shards, which turn packets into connection events; indexed by [`Arrival::shard`](super::Arrival::shard).
    pub shards: &'a mut [Shard],
    /// Numbers the connections and emits them.
    pub ledger: Ledger<'a>,
}

/// Emits connections in the order of the capture.
#[derive(Debug)]
pub struct Ledger<'a> {
    numbers: &'a mut Numbers,
    losses: &'a Losses,
    /// The last frame's time when the ledger was created.
    last: Option<Time>,
}

impl Ledger<'_> {
    /// Emits the connections that ended within some frames, which must follow those of the last call. The connections
    /// stay in `happened`, whose owner should [clear](Happened::clear) it.
    pub fn settle(&mut self, happened: &mut [Happened], emit: &mut dyn FnMut(&Observed)) {
        let losses = self.losses;
        self.numbers.settle(happened, &mut |observed| {
            losses.mark(observed);
            emit(observed);
        });
    }

    /// Emits a connection that was open at the end: the next one of [`OpenConnections`], in the order of `number` over
    /// all shards.
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
    /// Creates an analyzer.
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

    /// Restricts the analyzer to packets that pass `filter`.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter) -> Self {
        self.intake.set_filter(filter);
        self
    }

    /// Counts of removed and unreadable frames so far.
    pub const fn hygiene(&self) -> &Hygiene {
        self.intake.hygiene()
    }

    /// A handle to the start of the capture, which is known once a connection is reported.
    pub fn begin(&self) -> Begin {
        self.intake.begin()
    }

    /// Number of connections in progress.
    pub fn live(&self) -> usize {
        self.shards.iter().map(Shard::live).sum()
    }

    /// Number of connections seen so far, including those that are not reported.
    pub const fn connections(&self) -> u64 {
        self.numbers.count()
    }

    /// The number of the connection of the last frame, if known. A fragment belongs to no connection until its datagram
    /// is complete.
    pub fn latest(&self) -> Option<u64> {
        self.numbers.begun_at(self.latest?)
    }

    /// Takes the next frame; calls `emit` with each connection that ends with it.
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

    /// Notes that the capturing program dropped `frames` frames, perhaps 0, between these times. Connections in
    /// progress then are marked when they are reported.
    pub fn dropped(&mut self, frames: u64, from: Time, to: Time) {
        *self.intake.hygiene_mut().dropped.get_or_insert(0) += frames;
        if frames > 0 {
            self.losses.add(from, to);
        }
    }

    /// Reports connections that count as idle at `to`. No older frames may follow.
    pub fn advance(&mut self, to: Time, emit: &mut dyn FnMut(&Observed)) {
        let hygiene = self.intake.hygiene_mut();
        let frame = hygiene.frames;
        let mut out = Output { hygiene, frame, timed: true, happened: &mut self.happened };
        self.shards.iter_mut().for_each(|shard| shard.advance(to, &mut out));
        self.settle(emit);
    }

    /// Ends the capture: reports all connections in progress, in the order in which they began.
    pub fn finish(&mut self, emit: &mut dyn FnMut(&Observed)) {
        let Sharded { shards, mut ledger, .. } = self.sharded();
        let mut rests = OpenConnections::take_from(shards);
        let Some(mut observed) = rests.next() else { return };
        ledger.end(&mut observed, emit);
        while rests.next_instead_of(&mut observed) {
            ledger.end(&mut observed, emit);
        }
    }

    /// Splits the analyzer, for as long as several threads process the shards.
    pub fn sharded(&mut self) -> Sharded<'_> {
        let last = self.hygiene().span.map(|(_, last)| last);
        let ledger = Ledger { numbers: &mut self.numbers, losses: &self.losses, last };
        Sharded { intake: &mut self.intake, shards: &mut self.shards, ledger }
    }

    /// Adds the counts collected while the analyzer was split.
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
