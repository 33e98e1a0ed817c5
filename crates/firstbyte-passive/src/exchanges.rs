//! The exchanges of a connection: all are counted, and the first ones are kept.
//!
//! In: exchanges as they end; the protocols decide what an exchange is. Out: [`Exchanges`].

use super::observed::{Exchange, Exchanges};
use super::packed::PackedList;
use super::timing;

/// Counts exchanges.
#[derive(Debug)]
pub(super) struct Tally {
    begun: u32,
    answered: u32,
    /// Sum of the times from a request's first byte to its response's last.
    time_ns: i64,
    kept: PackedList<Exchange>,
    /// Most exchanges to keep.
    limit: u32,
}

impl Tally {
    /// Creates a tally that keeps the first `limit` exchanges.
    pub(super) fn new(limit: usize) -> Self {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Self { begun: 0, answered: 0, time_ns: 0, kept: PackedList::default(), limit }
    }

    pub(super) const fn begun(&self) -> u32 {
        self.begun
    }

    pub(super) const fn begin(&mut self) {
        self.begun += 1;
    }

    /// Withdraws the last request: it was not one.
    pub(super) const fn withdraw(&mut self) {
        self.begun -= 1;
    }

    /// Ends the exchange that began last.
    pub(super) fn end(&mut self, exchange: Exchange) {
        let start = exchange.request_start;
        if let Some(end) = exchange.response_end {
            self.answered += 1;
            self.time_ns = self.time_ns.saturating_add(end.signed_since(start).max(0));
        }
        if self.begun <= self.limit {
            // If the clock was set back in between, the duration is unknown and counts as zero.
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

    /// All exchanges. Requests are counted only if the handshake is `complete`. The exchanges replace the content of
    /// `first`.
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
