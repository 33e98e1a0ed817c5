//! How a handshake completes, inferred from the sizes and directions of encrypted packets.
//!
//! In: the contents of each datagram. Out: flights, round trips, the anti-amplification limit, early data, and when the
//! tap saw the client's Finished. `docs/wire.md` says which of these are inferred.

use super::{Connection, Contents, Watch};
use crate::packed::Packed;
use crate::quic::BURST_NS;
use crate::quic::facts::Past;
use crate::quic::flights::{self, Message};
use crate::table::Side;
use crate::{Doubts, Time};

/// A Handshake packet with at least this Length field carries more than an acknowledgment: the shortest Finished has 36
/// bytes, its frame header 3, the packet number 1, the tag 16.
const HANDSHAKE_DATA: u32 = 52;
/// Size to which clients pad datagrams with Initials (RFC 9000 §14.1).
pub(super) const PADDED: u32 = 1200;
/// Bytes of 1-RTT frames from a server before the client's Finished above which they answer early data.
const EARLY_ANSWER: u32 = 200;

impl Connection {
    /// Counts the bytes sent before the server has validated the client's address.
    pub(super) fn unvalidated(&mut self, side: Side, at: Time, bytes: u32) {
        let client = self.client();
        let Some(live) = self.live.as_mut().filter(|live| !live.validated) else { return };
        if client == Some(side) && live.reply.is_none() && live.server_flight > 0 {
            live.reply = Some((at, live.unvalidated));
        }
        live.unvalidated[side] += u64::from(bytes);
    }

    /// Handles a datagram of `bytes` with `contents`.
    pub(super) fn handshake(&mut self, at: Time, side: Side, bytes: u32, contents: Contents) {
        let Some(client) = self.client() else { return };
        let data = contents.handshake.is_some_and(|length| length >= HANDSHAKE_DATA);
        let messages = contents.messages || data;
        self.was_alone(side, at, Contents { messages, ..contents });
        if side != client {
            self.server_handshake(at, side, bytes, contents);
            return;
        }
        if let Some(finished) = self.finished {
            // Data right after the Finished is of the same flight; later data are retransmissions.
            let padded = contents.initial && bytes >= PADDED;
            if data && !padded && at.signed_since(finished) > BURST_NS {
                self.datagrams[side].retransmitted += 1;
                self.doubts.add(Doubts::LOSS_IN_HANDSHAKE);
            }
            return;
        }
        let Some(live) = &mut self.live else { return };
        if contents.handshake.is_some() && !live.validated {
            live.validated = true;
            let limit = live.reply.map_or(live.unvalidated[client], |(_, sent)| sent[client]);
            // Bytes that the server had sent by then; the datagram that validates the address does not count.
            live.past.unvalidated_bytes = Some(live.unvalidated[1 - client]);
            live.past.unvalidated_limit = Some(3 * limit.max(1));
        }
        let padded = contents.initial && contents.handshake_last && bytes >= PADDED;
        let finished = if data && padded {
            // It may be an acknowledgment with padding.
            live.perhaps_finished.get_or_insert(at);
            None
        } else if data {
            Some(at)
        } else if contents.one_rtt {
            // The Finished comes before 1-RTT data. If padding hid it, this is when it was sent.
            Some(live.perhaps_finished.unwrap_or(at))
        } else {
            None
        };
        let Some(finished) = finished else { return };
        // The Finished answers the end of the server's flight. If that flight took longer than a round trip, its end
        // may have been retransmitted.
        let answered = live.past.flights.last().filter(|flight| flight.side() != side).copied();
        flights::add(&mut live.past.flights, side, finished, bytes, Some(Message::Finished));
        if let Some(flight) = answered
            && self.least[side]
                .is_none_or(|least| flight.end.signed_since(flight.start) < least.ns())
        {
            self.at_most(side, finished, Some(flight.end));
        }
        self.finish(at);
    }

    fn server_handshake(&mut self, at: Time, side: Side, bytes: u32, contents: Contents) {
        if self.finished.is_some() {
            self.confirm(at, side, contents);
            return;
        }
        let Some(live) = &mut self.live else { return };
        if contents.handshake.is_none_or(|length| length < HANDSHAKE_DATA) {
            return;
        }
        let past = &mut live.past;
        if let Some((reply, sent)) = live.reply.take()
            && let Some(ended) = flights::end_of(&past.flights, side)
            && sent[side] + u64::from(bytes) > 3 * sent[1 - side]
            && self.least[side]
                .map(|least| least.ns())
                .is_none_or(|least| at.signed_since(reply) >= least - least / 8)
            && past.limit_stall.is_none()
        {
            past.limit_stall = Some(at.since(ended));
            flights::add(&mut past.flights, 1 - side, reply, 0, Some(Message::Acknowledgment));
        }
        live.server_handshake = true;
        live.perhaps_finished = None;
        flights::add(&mut past.flights, side, at, bytes, Some(Message::Encrypted));
    }

    /// Notes that the client's Finished was sent, at `at` or before.
    fn finish(&mut self, at: Time) {
        self.finished = Some(at);
        self.settle_alone();
        let (Some(mut live), Some(client)) = (self.live.take(), self.client()) else { return };
        self.complete = live.server_handshake;
        self.watch = Some(Box::new(Watch::from(at, live.heard.unwrap_or(at))));
        live.settle(client, self.early_bytes);
        if let Some(seen) = &mut live.past.seen {
            seen.complete = self.complete;
            if seen.early_data.is_some_and(|early| early.accepted == Some(false)) {
                self.exchanges.rejected();
            }
        }
        self.past = Packed::from_value(&live.past);
    }

    /// Handles the server's first datagram that answers the client's Finished. The server's stack answers by itself
    /// (HANDSHAKE_DONE, acknowledgments). Other datagrams may already have been on their way.
    fn confirm(&mut self, at: Time, side: Side, contents: Contents) {
        let Some(finished) = self.finished.filter(|_| !self.confirmed) else { return };
        let heard = self.watch.as_ref().map(|watch| watch.heard);
        let goes_on = heard.is_some_and(|heard| at.signed_since(heard) < BURST_NS);
        if contents.handshake.is_none() && self.early_bytes == 0 && goes_on {
            // What the server sends unsolicited belongs to its flight.
            return;
        }
        self.confirmed = true;
        if contents.handshake.is_none() && self.early_bytes > 0 {
            self.perhaps(side, at, finished);
        } else {
            self.round_trip(side, at, Some(finished));
        }
    }

    /// Infers that the early data was read if the server answers before the client's Finished.
    pub(super) fn infer_early_data(&self, past: &mut Past) {
        if let Some(seen) = &mut past.seen
            && let Some(early) = &mut seen.early_data
            && early.bytes > 0
            && early.accepted.is_none()
            && seen.resumption.accepted.is_some()
            && self.early_answer >= EARLY_ANSWER
        {
            (early.accepted, early.inferred) = (Some(true), true);
        }
    }
}
