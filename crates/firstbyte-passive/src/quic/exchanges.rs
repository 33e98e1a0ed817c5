//! Requests and responses of a QUIC connection, told by the sizes and directions of its packets (`docs/wire.md`,
//! "QUIC").
//!
//! In: 0-RTT and 1-RTT packets. Out: exchanges, each a run of client packets followed by a run of server packets.
//! Packets that only acknowledge are recognised by their size. A possible request counts only if the server's data may
//! have been sent in answer to it. All of this is approximate, because streams are not visible.

use super::BURST_NS;
use crate::Time;
use crate::exchanges::Tally;
use crate::observed::{self, Exchange};

/// An ACK frame with a range or two is shorter than this; stream frames may be as short.
const ACKNOWLEDGES: u32 = 14;
/// A packet with at least this much content surely carries data.
const SURELY_DATA: u32 = 40;
/// Most bytes that a server sends unsolicited after the handshake: tickets, tokens, the control stream.
const BY_ITSELF: u64 = 2400;

/// Bytes of frames in a 1-RTT or 0-RTT packet: without the tag and the shortest packet number.
pub(super) const fn content(wire_bytes: u32, header: u32) -> u32 {
    wire_bytes.saturating_sub(header + 1 + 16)
}

/// Whether a packet carries more than an acknowledgment.
pub(super) const fn is_data(content: u32) -> bool {
    content >= ACKNOWLEDGES
}

/// The exchanges of a connection.
#[derive(Debug)]
pub(super) struct Exchanges {
    tally: Tally,
    current: Option<Exchange>,
    /// Time of a packet that may be a request.
    perhaps: Option<Time>,
    /// Its bytes. Stored next to `largest` rather than to the time, so that the two share a word.
    perhaps_bytes: u32,
    /// The largest packet of the response so far.
    largest: u32,
}

impl Exchanges {
    /// Creates an empty list that keeps the first `limit` exchanges.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            tally: Tally::new(limit),
            current: None,
            perhaps: None,
            perhaps_bytes: 0,
            largest: 0,
        }
    }

    /// Handles a packet from the client with `content` bytes of frames. `early` marks 0-RTT, which acknowledges
    /// nothing.
    pub(super) fn request(&mut self, at: Time, bytes: u32, content: u32, early: bool) {
        if !early && content < ACKNOWLEDGES {
            return;
        }
        if let Some(current) = &mut self.current
            && current.response_first_packet.is_none()
        {
            current.request_end = at;
            current.request_bytes += u64::from(bytes);
            return;
        }
        let before = self.perhaps.take();
        if early || content >= SURELY_DATA {
            // A window update long ago was not part of the request.
            let (start, before) = match before {
                Some(start) if at.signed_since(start) <= BURST_NS => (start, self.perhaps_bytes),
                _ => (at, 0),
            };
            self.begin(start, at, u64::from(before) + u64::from(bytes));
        } else {
            self.perhaps = Some(at);
            self.perhaps_bytes = bytes;
        }
    }

    /// Handles a packet from the server; `path_ns` is the round trip between tap and server.
    pub(super) fn response(&mut self, at: Time, bytes: u32, content: u32, path_ns: Option<i64>) {
        if content < ACKNOWLEDGES {
            if let Some(current) = &mut self.current
                && current.response_first_packet.is_some()
            {
                current.response_bytes += u64::from(bytes);
            }
            return;
        }
        if let Some(start) = self.perhaps {
            let least = path_ns.map_or(0, |path| path - path / 16);
            if at.signed_since(start) >= least && self.quiet_until(start) {
                self.begin(start, start, u64::from(self.perhaps_bytes));
                self.perhaps = None;
            } else if self.current.is_some() {
                self.perhaps = None;
            }
        }
        let Some(current) = &mut self.current else { return };
        if self.tally.begun() == 1
            && let Some(end) = current.response_end
            && current.response_bytes < BY_ITSELF
            && self.largest < 1000
            && at.signed_since(end) > BURST_NS
        {
            // The earlier data was unsolicited. The response begins now.
            current.response_first_packet = None;
            current.response_bytes = 0;
        }
        if current.response_first_packet.is_none() {
            self.largest = 0;
        }
        self.largest = self.largest.max(bytes);
        if current.response_first_packet.is_none() {
            current.response_first_packet = Some(at);
        }
        current.response_end = Some(at);
        current.response_bytes += u64::from(bytes);
    }

    /// Withdraws the early request that was refused: it will be sent again.
    pub(super) fn rejected(&mut self) {
        if self.current.take().is_some() {
            self.tally.withdraw();
        }
    }

    /// Whether the server has sent no data since `start`.
    fn quiet_until(&self, start: Time) -> bool {
        self.current
            .and_then(|current| current.response_end)
            .is_none_or(|end| end.signed_since(start) <= 0)
    }

    fn begin(&mut self, start: Time, end: Time, bytes: u64) {
        self.close();
        self.tally.begin();
        self.current = Some(Exchange {
            request_start: start,
            request_end: end,
            response_first_packet: None,
            first_record_ns: 0,
            response_end: None,
            request_bytes: bytes,
            response_bytes: 0,
        });
    }

    fn close(&mut self) {
        if let Some(exchange) = self.current.take() {
            self.tally.end(exchange);
        }
    }

    /// All exchanges. They are counted only if the handshake is `complete`.
    pub(super) fn end(mut self, complete: bool) -> observed::Exchanges {
        self.close();
        self.tally.seen(complete, true, Vec::new())
    }
}
