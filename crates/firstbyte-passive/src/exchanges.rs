//! The exchanges of a connection: all are counted, the first of them kept.
//!
//! In: exchanges as they are over; what is one, the protocols say. Out: [`Exchanges`].

use super::observed::{Exchange, Exchanges};
use super::packed::PackedList;
use super::timing;

/// Counts exchanges.
#[derive(Debug)]
pub(super) struct Tally {
    begun: u32,
    answered: u32,
    /// From requests' first byte to responses' last, added up.
    time_ns: i64,
    kept: PackedList<Exchange>,
    /// How many are kept one by one.
    limit: u32,
}

impl Tally {
    /// None so far, of which the first `limit` will be kept.
    pub(super) fn new(limit: usize) -> Self {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Self { begun: 0, answered: 0, time_ns: 0, kept: PackedList::default(), limit }
    }

    /// Requests so far.
    pub(super) const fn begun(&self) -> u32 {
        self.begun
    }

    /// A request begins.
    pub(super) const fn begin(&mut self) {
        self.begun += 1;
    }

    /// The one that began last was none.
    pub(super) const fn withdraw(&mut self) {
        self.begun -= 1;
    }

    /// The one that began last is over.
    pub(super) fn end(&mut self, exchange: Exchange) {
        let start = exchange.request_start;
        if let Some(end) = exchange.response_end {
            self.answered += 1;
            self.time_ns = self.time_ns.saturating_add(end.signed_since(start).max(0));
        }
        if self.begun <= self.limit {
            // If the clock was set back meanwhile, it took no time, as far as can be known.
            let first_packet = exchange.response_first_packet.map(|at| at.max(start));
            let readable = exchange.response_start().zip(first_packet);
            let record = readable.map_or(0, |(whole, first)| whole.signed_since(first));
            self.kept.push(&Exchange {
                request_end: exchange.request_end.max(start),
                response_first_packet: first_packet,
                first_record_ns: record.clamp(0, u32::MAX.into()) as u32,
                response_end: exchange.response_end.map(|at| at.max(start)),
                ..exchange
            });
        }
    }

    /// All of them; requests are counted only behind a `complete` handshake.
    /// They are put into `first`, whatever that held.
    pub(super) fn seen(
        &self,
        complete: bool,
        approximate: bool,
        mut first: Vec<Exchange>,
    ) -> Exchanges {
        first.clear();
        first.extend(self.kept.values());
        Exchanges {
            count: complete.then_some(self.begun),
            answered: self.answered,
            time: Some(timing::duration(self.time_ns)),
            first,
            approximate,
        }
    }
}
