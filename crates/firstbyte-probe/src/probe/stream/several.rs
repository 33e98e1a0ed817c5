//! Several HTTP/2 streams on one connection, told apart: which send took each request, and what brought each response.

use std::cell::RefCell;
use std::rc::Rc;

use super::Stream;
use crate::net::{Arrival, SendId};
use crate::probe::observation::StreamTimes;

/// The times of streams, in the order in which they were opened; shared, so that they outlive the connection.
pub(in crate::probe) type SharedTimes = Rc<RefCell<Vec<StreamTimes>>>;

/// The streams that are told apart.
pub(super) struct Several {
    times: SharedTimes,
    /// Requests that have not left: their stream, and where in what is to be sent they begin and end.
    leaving: Vec<(u32, usize, usize)>,
}

/// The place of a stream among those of the client (RFC 9113 §5.1.1): 1, 3, 5 …
const fn place(stream: u32) -> usize {
    (stream / 2) as usize
}

impl Several {
    fn with(&self, stream: u32, note: impl FnOnce(&mut StreamTimes)) {
        if let Some(times) = self.times.borrow_mut().get_mut(place(stream)) {
            note(times);
        }
    }

    /// So many bytes of what is to be sent have left.
    pub(super) fn sent(&mut self, bytes: usize, id: SendId) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain_mut(|(stream, begins, ends)| {
            self.with(*stream, |times| {
                if *begins < bytes {
                    times.request_start.get_or_insert(id);
                }
                if *ends <= bytes {
                    times.request_end = Some(id);
                }
            });
            let gone = *ends <= bytes;
            (*begins, *ends) = (begins.saturating_sub(bytes), ends.saturating_sub(bytes));
            !gone
        });
        self.leaving = leaving;
    }
}

impl Stream {
    /// From here on the times of streams are noted in `times`, which has a place for each.
    pub(in crate::probe) fn tell_streams_apart(&mut self, times: &SharedTimes) {
        self.watch.tell_streams_apart();
        self.several = Some(Box::new(Several { times: Rc::clone(times), leaving: Vec::new() }));
    }

    /// What was written last stands in `outgoing` from `before` on: which requests end in it.
    pub(super) fn note_asked(&mut self, before: usize) {
        let (Some(several), Some(streams)) = (&mut self.several, self.watch.streams()) else {
            return;
        };
        let end = self.outgoing.len();
        several.leaving.extend(streams.asked.drain(..).map(|stream| (stream, before, end)));
    }

    /// Which responses began and ended with what came last.
    pub(super) fn note_answered(&mut self) {
        let received = self.watch.received_bytes();
        let Some(streams) = self.watch.streams() else { return };
        let begun = std::mem::take(&mut streams.begun);
        let last = self.last_arrival();
        let readable = |(stream, offset)| {
            let arrivals = self.arrivals_of(offset);
            (stream, arrivals.map(|[_, readable]| readable).or(last))
        };
        let readable: Vec<(u32, Option<Arrival>)> = begun.into_iter().map(readable).collect();
        let (Some(several), Some(streams)) = (&self.several, self.watch.streams()) else { return };
        for (stream, readable) in readable {
            several.with(stream, |times| times.response_start = readable);
        }
        streams.ending.retain(|(stream, end)| {
            let whole = *end <= received;
            if whole {
                // What was read last completed the record that holds it.
                several.with(*stream, |times| times.response_end = last);
            }
            !whole
        });
    }
}
