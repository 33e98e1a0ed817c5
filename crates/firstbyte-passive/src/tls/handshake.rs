//! The part of a session that lives only during the handshake, and the part that outlives it.

use super::exchanges::Record;
use super::hello::ClientOffer;
use super::messages::Assembler;
use crate::flights::Flight;
use crate::observed::TlsSeen;
use crate::packed::packed;
use crate::table::Side;
use crate::{SessionId, Time};

/// Most flights kept of a handshake. With a HelloRetryRequest and a client certificate there are 6.
const FLIGHTS: usize = 10;

/// Facts that are kept after the handshake.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) seen: TlsSeen,
    pub(super) flights: Vec<Flight>,
}

packed!(struct Past { seen, flights });

/// State that is needed only until the handshake is over, and then dropped.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The facts so far.
    pub(super) past: Past,
    pub(super) messages: [Assembler; 2],
    pub(super) offer: ClientOffer,
    /// A ChangeCipherSpec was seen in this direction.
    pub(super) changed: [bool; 2],
    /// A Finished was seen, or inferred.
    pub(super) finished: [bool; 2],
    /// Part of this direction was not captured.
    pub(super) lost: [bool; 2],
    /// Whether the version chosen is TLS 1.3, once known.
    pub(super) tls13: Option<bool>,
    /// TLS up to 1.2: messages were seen that only a full handshake has.
    pub(super) full: bool,
    pub(super) retry: bool,
    /// The current ClientHello has SSL 2.0 format.
    pub(super) sslv2: bool,
    /// Bytes from the server that the ClientHello acknowledged.
    pub(super) hello_acked: Option<u32>,
    pub(super) early_bytes: u64,
    pub(super) end_of_early_data: bool,
    /// Encrypted records from the server so far.
    pub(super) server_records: u32,
    /// A record from the server was as long as a Finished.
    pub(super) server_finished: bool,
    /// Length of the last encrypted record from the server.
    pub(super) server_last: u16,
    /// Records that the client sent after the server's flight and that are not a Finished on their own.
    pub(super) odd: Vec<Record>,
    /// The alert in the current record, and how many of its bytes have arrived.
    pub(super) alert: ([u8; 2], u8),
    /// The session ID in the ServerHello, if it differs from the client's. It belongs to a new session if the handshake
    /// turns out to be full.
    pub(super) new_session: Option<SessionId>,
    /// The same, once the handshake turned out to be full.
    pub(super) issued: Option<SessionId>,
    /// Sender and time of the ServerHello.
    pub(super) server_hello: Option<(Side, Time)>,
}

impl Live {
    /// Whether `side` sent the last flight.
    pub(super) fn flies(&self, side: Side) -> bool {
        self.past.flights.last().is_some_and(|last| last.side() == side)
    }

    /// The open flight of `side`, or a new one that begins at `start`; absent beyond the limit.
    pub(super) fn flight(&mut self, side: Side, start: Time) -> Option<&mut Flight> {
        if !self.flies(side) && !self.begin_flight(side, start) {
            return None;
        }
        self.past.flights.last_mut()
    }

    /// Begins a new flight of `side`. Returns false beyond the limit.
    pub(super) fn begin_flight(&mut self, side: Side, start: Time) -> bool {
        let kept = self.past.flights.len() < FLIGHTS;
        if kept {
            self.past.flights.push(Flight::new(side, start));
        }
        kept
    }

    /// Bytes of buffered messages.
    pub(super) fn held(&self) -> usize {
        self.messages.iter().map(Assembler::held).sum()
    }
}

/// Length of a TLS 1.3 record that holds only a Finished (RFC 8446 §4.4.4, §5.2), by cipher suite.
pub(super) const fn finished_length(suite: Option<u16>) -> u16 {
    const HEADER_AND_TYPE: u16 = 4 + 1;
    match suite {
        // SHA-384.
        Some(0x1302) => HEADER_AND_TYPE + 48 + 16,
        // An 8-byte tag.
        Some(0x1305) => HEADER_AND_TYPE + 32 + 8,
        _ => HEADER_AND_TYPE + 32 + 16,
    }
}

/// Shortest record that can hold a certificate. The shortest certificates in use (ECDSA P-256, a single name) have some
/// 250 bytes.
pub(super) const LEAST_CERTIFICATE: u16 = 220;

/// Length of a record that holds only an alert (RFC 8446 §6). No handshake message can have it.
pub(super) const fn alert_length(suite: Option<u16>) -> u16 {
    end_of_early_data_length(suite) - 2
}

/// Length of a record that holds only an EndOfEarlyData (RFC 8446 §4.5).
pub(super) const fn end_of_early_data_length(suite: Option<u16>) -> u16 {
    finished_length(suite) - if matches!(suite, Some(0x1302)) { 48 } else { 32 }
}
