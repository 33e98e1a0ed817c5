//! What happened to connections, put in the order of the capture, and the numbers that they get there.
//!
//! A part knows a connection by the frame that it began with. In: what parts say happened. Out: connections
//! that are over, in the order of the frames that ended them, numbered from 1 in the order of their first
//! packets.

use std::collections::HashMap;

use super::issued::Issued;
use super::table::Seeded;
use super::{Doubts, Exchange, FlightSeen, Hygiene, Observed, SessionId, TlsSeen};

/// Connections whose memory is kept for those that follow: what ends with one look at the packets, not with a silence of all.
const MOST_KEPT: usize = 1024;

/// What happened to connections of some frames.
#[derive(Debug, Default)]
pub struct Happened {
    /// Frames that connections began with.
    began: Vec<u64>,
    /// The frame with which each was over, in which `number` is the frame it began with.
    over: Vec<(u64, Observed)>,
    /// How many of these there are. What is behind them was given out before: its memory is used again.
    ended: usize,
    /// Frames that connections began with of which nothing is given out.
    forgotten: Vec<u64>,
    /// Session IDs that servers issued, each with its frame.
    issued: Vec<(u64, SessionId)>,
}

impl Happened {
    /// Whether nothing did.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.began.is_empty()
            && self.ended == 0
            && self.forgotten.is_empty()
            && self.issued.is_empty()
    }

    fn over(&mut self) -> &mut [(u64, Observed)] {
        &mut self.over[..self.ended]
    }

    /// Forgets what was settled; its room is kept, but for what many connections at once have left.
    pub fn clear(&mut self) {
        self.began.clear();
        if self.over.len() > MOST_KEPT {
            self.over.truncate(MOST_KEPT);
            self.over.shrink_to_fit();
        }
        self.ended = 0;
        self.forgotten.clear();
        self.issued.clear();
    }
}

/// Memory of a connection that was given out.
#[derive(Debug, Default)]
pub(super) struct Spent {
    pub(super) tls: Option<Box<TlsSeen>>,
    pub(super) flights: Vec<FlightSeen>,
    pub(super) exchanges: Vec<Exchange>,
}

impl Spent {
    pub(super) fn take_from(observed: &mut Observed) -> Self {
        Self {
            tls: observed.tls.take(),
            flights: std::mem::take(&mut observed.flights),
            exchanges: std::mem::take(&mut observed.exchanges.first),
        }
    }

    /// `seen`, in the memory of what was seen before.
    pub(super) fn tls(before: Option<Box<TlsSeen>>, seen: TlsSeen) -> Box<TlsSeen> {
        match before {
            Some(mut place) => {
                *place = seen;
                place
            }
            None => Box::new(seen),
        }
    }
}

/// Where a part's results go.
#[derive(Debug)]
pub(super) struct Output<'a> {
    pub(super) hygiene: &'a mut Hygiene,
    /// The frame that is looked at.
    pub(super) frame: u64,
    /// It has a time.
    pub(super) timed: bool,
    pub(super) happened: &'a mut Happened,
}

impl Output<'_> {
    /// What was cleared up so far, to be added to.
    pub(super) const fn hygiene(&mut self) -> &mut Hygiene {
        self.hygiene
    }

    /// A connection whose first packet is here; by what is given back it is known from now on.
    pub(super) fn begin(&mut self) -> u64 {
        self.happened.began.push(self.frame);
        self.frame
    }

    /// Gives out the connection that `end` makes, out of what another one has left.
    pub(super) fn emit(&mut self, end: impl FnOnce(Spent) -> Observed) {
        let Happened { over, ended, .. } = self.happened;
        match over.get_mut(*ended) {
            Some(place) => *place = (self.frame, end(Spent::take_from(&mut place.1))),
            None => over.push((self.frame, end(Spent::default()))),
        }
        *ended += 1;
    }

    /// A server gave this ID to a session.
    pub(super) fn issue(&mut self, id: SessionId) {
        self.happened.issued.push((self.frame, id));
    }

    /// The connection that began with the frame `began` will not be given out.
    pub(super) fn forget(&mut self, began: u64) {
        self.happened.forgotten.push(began);
    }
}

/// Numbers of the connections that are under way.
#[derive(Debug)]
pub(super) struct Numbers {
    last: u64,
    /// Those that began in frames which are being settled.
    began: Vec<u64>,
    by_frame: HashMap<u64, u64, Seeded>,
    issued: Issued,
}

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            last: 0,
            began: Vec::new(),
            by_frame: HashMap::with_hasher(Seeded(seed)),
            issued: Issued::default(),
        }
    }

    /// Connections that have one, those that are over among them.
    pub(super) const fn count(&self) -> u64 {
        self.last
    }

    /// The number of the connection under way that began with this frame.
    pub(super) fn begun_at(&self, began: u64) -> Option<u64> {
        self.by_frame.get(&began).copied()
    }

    /// Gives out what is over; it stays where it is, for whoever frees it. Everything that happened in the same
    /// frames, and before, has to be there.
    pub(super) fn settle(
        &mut self,
        happened: &mut [Happened],
        emit: &mut dyn FnMut(&mut Observed),
    ) {
        self.began.extend(happened.iter().flat_map(|happened| &happened.began));
        self.began.sort_unstable();
        for began in self.began.drain(..) {
            self.last += 1;
            self.by_frame.insert(began, self.last);
        }
        let mut issued: Vec<(u64, SessionId)> =
            happened.iter().flat_map(|happened| &happened.issued).copied().collect();
        issued.sort_by_key(|(frame, _)| *frame);
        let mut issued = issued.into_iter().peekable();
        let mut over: Vec<&mut (u64, Observed)> =
            happened.iter_mut().flat_map(Happened::over).collect();
        // Those of one frame are of one part, whose order is kept.
        over.sort_by_key(|(frame, _)| *frame);
        for (frame, observed) in over {
            while let Some((_, id)) = issued.next_if(|(issued, _)| issued <= frame) {
                self.issued.add(id);
            }
            self.emit(observed, emit);
        }
        issued.for_each(|(_, id)| self.issued.add(id));
        for began in happened.iter().flat_map(|happened| &happened.forgotten) {
            self.by_frame.remove(began);
        }
    }

    /// Gives out a connection under its number.
    pub(super) fn emit(&mut self, observed: &mut Observed, emit: &mut dyn FnMut(&mut Observed)) {
        if let Some(number) = self.by_frame.remove(&observed.number) {
            observed.number = number;
        }
        if observed.doubts.any(Doubts::UNTIMED) {
            observed.forget_times();
        }
        self.issued.judge(observed);
        emit(observed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::groups::connection;

    /// Where a link goes down, all of a live capture's connections end with one look.
    #[test]
    fn what_many_at_once_have_left_is_given_back() {
        let one = connection("example.test");
        let mut happened = Happened::default();
        let mut settle = |ended: usize| {
            happened.over.resize_with(happened.over.len().max(ended), || (0, one.clone()));
            happened.ended = ended;
            happened.clear();
            assert!(happened.is_empty());
            happened.over.capacity()
        };
        assert_eq!(settle(MOST_KEPT), MOST_KEPT, "their memory is used again");
        assert_eq!(settle(20 * MOST_KEPT), MOST_KEPT);
    }
}
