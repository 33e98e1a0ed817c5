//! The part of a session that lives only as long as the handshake, and what is left of it then.

use super::exchanges::Record;
use super::hello::ClientOffer;
use super::messages::Assembler;
use crate::flights::Flight;
use crate::observed::TlsSeen;
use crate::packed::packed;
use crate::table::Side;
use crate::{SessionId, Time};

/// Flights of a handshake that are kept; with a HelloRetryRequest and a client certificate there are 6.
const FLIGHTS: usize = 10;

/// What a handshake leaves behind.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) seen: TlsSeen,
    pub(super) flights: Vec<Flight>,
}

packed!(struct Past { seen, flights });

/// What is needed until the handshake is over; dropped then.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// What is known so far.
    pub(super) past: Past,
    pub(super) messages: [Assembler; 2],
    pub(super) offer: ClientOffer,
    /// A ChangeCipherSpec was seen in this direction.
    pub(super) changed: [bool; 2],
    /// A Finished was seen, or inferred.
    pub(super) finished: [bool; 2],
    /// Part of this direction is not there.
    pub(super) lost: [bool; 2],
    /// The version chosen is known, and is 1.3 or is not.
    pub(super) tls13: Option<bool>,
    /// TLS up to 1.2: messages that only a full handshake has.
    pub(super) full: bool,
    pub(super) retry: bool,
    /// The hello that is being read has SSL 2.0's form.
    pub(super) sslv2: bool,
    /// Bytes of the server's that the ClientHello acknowledged.
    pub(super) hello_acked: Option<u32>,
    pub(super) early_bytes: u64,
    pub(super) end_of_early_data: bool,
    /// Encrypted records of the server so far.
    pub(super) server_records: u32,
    /// A record of the server's that is as long as a Finished.
    pub(super) server_finished: bool,
    /// Length of the server's last record that is encrypted.
    pub(super) server_last: u16,
    /// The client's records behind the server's flight, none of them a Finished by itself.
    pub(super) odd: Vec<Record>,
    /// The alert in the record that is being read.
    pub(super) alert: ([u8; 2], u8),
    /// The session ID in the ServerHello, if it is not the client's: that of a new session, once the
    /// handshake proves to be full.
    pub(super) new_session: Option<SessionId>,
    /// It proved to be one.
    pub(super) issued: Option<SessionId>,
    /// Side and time of the ServerHello.
    pub(super) server_hello: Option<(Side, Time)>,
}

impl Live {
    /// The last flight is `side`'s.
    pub(super) fn flies(&self, side: Side) -> bool {
        self.past.flights.last().is_some_and(|last| last.side() == side)
    }

    /// The flight of `side`'s under way, or a new one from `start` on; absent beyond what is kept.
    pub(super) fn flight(&mut self, side: Side, start: Time) -> Option<&mut Flight> {
        if !self.flies(side) && !self.begin_flight(side, start) {
            return None;
        }
        self.past.flights.last_mut()
    }

    /// A new flight of `side`'s; false beyond what is kept.
    pub(super) fn begin_flight(&mut self, side: Side, start: Time) -> bool {
        let kept = self.past.flights.len() < FLIGHTS;
        if kept {
            self.past.flights.push(Flight::new(side, start));
        }
        kept
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.messages.iter().map(Assembler::held).sum()
    }
}

/// Length of a TLS 1.3 record with nothing but a Finished (RFC 8446 §4.4.4, §5.2), by cipher suite.
pub(super) const fn finished_length(suite: Option<u16>) -> u16 {
    const HEADER_AND_TYPE: u16 = 4 + 1;
    match suite {
        // SHA-384.
        Some(0x1302) => HEADER_AND_TYPE + 48 + 16,
        // A tag of 8 bytes.
        Some(0x1305) => HEADER_AND_TYPE + 32 + 8,
        _ => HEADER_AND_TYPE + 32 + 16,
    }
}

/// A record with a certificate in it is this long at least: the shortest certificates in use (ECDSA P-256, no
/// names but one) have some 250 bytes.
pub(super) const LEAST_CERTIFICATE: u16 = 220;

/// Length of a record with nothing but an alert (RFC 8446 §6), which no handshake message can have.
pub(super) const fn alert_length(suite: Option<u16>) -> u16 {
    end_of_early_data_length(suite) - 2
}

/// Length of a record with nothing but EndOfEarlyData (RFC 8446 §4.5).
pub(super) const fn end_of_early_data_length(suite: Option<u16>) -> u16 {
    finished_length(suite) - if matches!(suite, Some(0x1302)) { 48 } else { 32 }
}
