//! Puts the events of all shards into the capture's order and numbers the connections.
//!
//! A shard identifies a connection by the frame that it began with. In: the events that shards report. Out: finished
//! connections, in the order of the frames that ended them, numbered from 1 in the order of their first packets.

use std::collections::HashMap;

use super::issued::Issued;
use super::table::Seeded;
use super::{Doubts, Exchange, FlightSeen, Hygiene, Observed, SessionId, TlsSeen};

/// Finished connections whose memory is kept for reuse: enough for one batch of packets, not for all connections that
/// time out at once.
const MOST_KEPT: usize = 1024;

/// Events of connections in some frames.
#[derive(Debug, Default)]
pub struct Happened {
    /// Frames with which connections began.
    began: Vec<u64>,
    /// Finished connections, each with the frame that ended it. Their `number` is still the frame that they began with.
    over: Vec<(u64, Observed)>,
    /// Number of valid entries in `over`. The entries after these were already emitted; their memory is reused.
    ended: usize,
    /// Frames with which connections began that will not be reported.
    forgotten: Vec<u64>,
    /// Session IDs that servers issued, each with the frame that showed it.
    issued: Vec<(u64, SessionId)>,
}

impl Happened {
    /// True if nothing happened.
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

    /// Removes the settled events. Keeps their memory, except what many connections ending at once left behind.
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

/// Memory of a connection that was already emitted, for reuse.
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

    /// Puts `seen` into the allocation `before`, if there is one.
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

/// Where a shard's results go.
#[derive(Debug)]
pub(super) struct Output<'a> {
    pub(super) hygiene: &'a mut Hygiene,
    /// The frame being processed.
    pub(super) frame: u64,
    /// Whether this frame has a time.
    pub(super) timed: bool,
    pub(super) happened: &'a mut Happened,
}

impl Output<'_> {
    /// The counts so far, to be added to.
    pub(super) const fn hygiene(&mut self) -> &mut Hygiene {
        self.hygiene
    }

    /// Registers a connection that begins in this frame. Returns the frame, which identifies the connection from now
    /// on.
    pub(super) fn begin(&mut self) -> u64 {
        self.happened.began.push(self.frame);
        self.frame
    }

    /// Reports the connection that `end` returns. `end` may reuse the memory of an earlier connection.
    pub(super) fn emit(&mut self, end: impl FnOnce(Spent) -> Observed) {
        let Happened { over, ended, .. } = self.happened;
        match over.get_mut(*ended) {
            Some(place) => *place = (self.frame, end(Spent::take_from(&mut place.1))),
            None => over.push((self.frame, end(Spent::default()))),
        }
        *ended += 1;
    }

    /// Records that a server issued this session ID.
    pub(super) fn issue(&mut self, id: SessionId) {
        self.happened.issued.push((self.frame, id));
    }

    /// Records that the connection which began with the frame `began` will not be reported.
    pub(super) fn forget(&mut self, began: u64) {
        self.happened.forgotten.push(began);
    }
}

/// Numbers of the open connections.
#[derive(Debug)]
pub(super) struct Numbers {
    last: u64,
    /// First frames of connections that are being settled.
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

    /// Number of connections numbered so far, finished ones included.
    pub(super) const fn count(&self) -> u64 {
        self.last
    }

    /// The number of the open connection that began with this frame.
    pub(super) fn begun_at(&self, began: u64) -> Option<u64> {
        self.by_frame.get(&began).copied()
    }

    /// Emits the finished connections, which stay in `happened` until their owner frees them. `happened` must hold
    /// everything that happened in these frames; all earlier frames must already be settled.
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
        // Connections that ended in the same frame are of the same shard, whose order the stable sort keeps.
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

    /// Emits a connection with its final number.
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

    /// When a link goes down, a single check ends all connections of a live capture.
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
