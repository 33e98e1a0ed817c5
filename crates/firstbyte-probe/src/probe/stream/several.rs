//! Several HTTP/2 streams on one connection, recorded separately: which send took each request, and which read brought
//! each response.

use std::cell::RefCell;
use std::rc::Rc;

use super::Stream;
use crate::net::{Arrival, SendId};
use crate::probe::observation::StreamTimes;

/// The times of streams, in the order in which they were opened; shared, so that they outlive the connection.
pub(in crate::probe) type SharedTimes = Rc<RefCell<Vec<StreamTimes>>>;

/// The streams that are recorded separately.
pub(super) struct Several {
    times: SharedTimes,
    /// Requests not sent yet: their stream, and where they begin and end in the bytes to send.
    leaving: Vec<(u32, usize, usize)>,
}

/// The index of a client's stream (RFC 9113 §5.1.1): 1, 3, 5 …
const fn place(stream: u32) -> usize {
    (stream / 2) as usize
}

impl Several {
    fn with(&self, stream: u32, note: impl FnOnce(&mut StreamTimes)) {
        if let Some(times) = self.times.borrow_mut().get_mut(place(stream)) {
            note(times);
        }
    }

    /// Records that `bytes` of the waiting bytes were sent.
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
    /// From now on, records the times of streams in `times`, which has an entry for each.
    pub(in crate::probe) fn tell_streams_apart(&mut self, times: &SharedTimes) {
        self.watch.tell_streams_apart();
        self.several = Some(Box::new(Several { times: Rc::clone(times), leaving: Vec::new() }));
    }

    /// Records which requests end in the bytes of `outgoing` from `before` on, which were written last.
    pub(super) fn note_asked(&mut self, before: usize) {
        let (Some(several), Some(streams)) = (&mut self.several, self.watch.streams()) else {
            return;
        };
        let end = self.outgoing.len();
        several.leaving.extend(streams.asked.drain(..).map(|stream| (stream, before, end)));
    }

    /// Records which responses began and ended with the bytes received last.
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
                // The last read completed the record with the end of the response.
                several.with(*stream, |times| times.response_end = last);
            }
            !whole
        });
    }
}
