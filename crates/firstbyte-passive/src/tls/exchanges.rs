//! Requests and responses, told by the sizes and directions of records (`docs/wire.md`, "Exchanges").
//!
//! In: application data records after the handshake (or during it, for early data). Out: exchanges, each a run of
//! client records followed by a run of server records. Session tickets, alerts and key updates, which TLS 1.3 hides
//! among them, are removed by position and size.

use crate::Time;
use crate::exchanges::Tally;
use crate::observed::{self, Exchange};

/// An application data record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// When the tap saw the first and the last byte.
    pub(super) start: Time,
    pub(super) end: Time,
    /// Position of its first byte in its direction.
    pub(super) position: u32,
    /// How much of the other direction its sender had acknowledged; absent if unknown.
    pub(super) acked: Option<u32>,
    /// Length without the record header.
    pub(super) length: u16,
}

impl Record {
    const fn bytes(&self) -> u64 {
        self.length as u64 + 5
    }

    /// Whether the sender of `answer`, in the other direction, had received all of this record; true if unknown.
    pub(super) fn is_acknowledged_by(&self, answer: &Self) -> bool {
        let end = self.position.wrapping_add(u32::from(self.length) + 5);
        answer.acked.is_none_or(|acked| acked.wrapping_sub(end) as i32 >= 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Current {
    exchange: Exchange,
    /// Position of the request's first byte.
    position: u32,
    /// Whether the response so far may consist of session tickets.
    tickets: PossibleTickets,
}

/// Records that may be session tickets, all of the same length. Kept small, because every live connection has one.
#[derive(Clone, Copy, Debug)]
enum PossibleTickets {
    None,
    One { length: u16 },
    Two,
}

/// Facts about the connection that decide how its records are read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) tls13: bool,
    /// HTTP/2 was chosen, or may have been.
    pub(super) http2: bool,
    /// By how many bytes the record's sender pads records other than application data (RFC 8446 §5.4).
    pub(super) padding: u16,
}

/// The exchanges of a connection.
#[derive(Debug)]
pub(super) struct Exchanges {
    tally: Tally,
    pub(super) tickets: u32,
    /// The first response began with a record that is not a ticket, and no tickets came before.
    none: bool,
    current: Option<Current>,
}

/// A pause longer than this ends a burst: the sender was waiting for something.
const BURST_NS: i64 = 1_000_000;
/// Lengths of a record with a NewSessionTicket (four numbers, an extension list, the tag; ticket state that contains a
/// client certificate is longer still).
const TICKET: std::ops::RangeInclusive<u16> = 48..=2048;

impl Exchanges {
    /// Creates an empty list that keeps the first `limit` exchanges.
    pub(super) fn new(limit: usize) -> Self {
        Self { tally: Tally::new(limit), tickets: 0, none: false, current: None }
    }

    /// Handles a record from the client.
    pub(super) fn request(&mut self, record: &Record, kind: Kind) {
        if is_control(record.length, kind, true) {
            return;
        }
        match &mut self.current {
            Some(current) if current.exchange.response_first_packet.is_none() => {
                current.exchange.request_end = record.end;
                current.exchange.request_bytes += record.bytes();
            }
            _ => {
                self.close();
                self.tally.begin();
                let exchange = Exchange {
                    request_start: record.start,
                    request_end: record.end,
                    response_first_packet: None,
                    first_record_ns: 0,
                    response_end: None,
                    request_bytes: record.bytes(),
                    response_bytes: 0,
                };
                self.current = Some(Current {
                    exchange,
                    position: record.position,
                    tickets: PossibleTickets::None,
                });
            }
        }
    }

    /// Handles a record from the server.
    pub(super) fn response(&mut self, record: &Record, kind: Kind) {
        if is_control(record.length, kind, false) {
            return;
        }
        let first = self.tally.begun() <= 1 && kind.tls13;
        let Some(current) = &mut self.current else {
            self.tickets += u32::from(first && is_ticket(record.length, kind));
            return;
        };
        // The server had received nothing of the request when it sent this.
        let unasked =
            record.acked.is_some_and(|acked| acked.wrapping_sub(current.position) as i32 <= 0);
        let exchange = &mut current.exchange;
        if exchange.response_first_packet.is_none() {
            if unasked {
                self.tickets += u32::from(first && is_ticket(record.length, kind));
                return;
            }
            if first && self.tickets == 0 {
                if TICKET.contains(&record.length) {
                    current.tickets = PossibleTickets::One { length: record.length };
                } else {
                    self.none = true;
                }
            }
        } else if !matches!(current.tickets, PossibleTickets::None) {
            let (many, alike) = match current.tickets {
                PossibleTickets::None => (0, false),
                PossibleTickets::One { length } => (1, length == record.length),
                PossibleTickets::Two => (2, false),
            };
            let waited = exchange.response_end.map_or(0, |end| record.start.signed_since(end));
            if waited > BURST_NS {
                // The earlier records were unsolicited tickets. The response begins now.
                self.tickets += many;
                current.tickets = PossibleTickets::None;
                exchange.response_first_packet = None;
                exchange.response_bytes = 0;
            } else if alike {
                // Two records of the same length, as servers send tickets.
                current.tickets = PossibleTickets::Two;
            } else {
                if many > 1 {
                    self.tickets += many;
                    exchange.response_first_packet = None;
                    exchange.response_bytes = 0;
                }
                current.tickets = PossibleTickets::None;
            }
        }
        if exchange.response_first_packet.is_none() {
            exchange.response_first_packet = Some(record.start);
            let whole = record.end.signed_since(record.start);
            exchange.first_record_ns = whole.clamp(0, u32::MAX.into()) as u32;
        }
        exchange.response_end = Some(record.end);
        exchange.response_bytes += record.bytes();
    }

    /// Withdraws the request that was sent as refused early data: it will be sent again.
    pub(super) fn rejected(&mut self) {
        if self.current.take().is_some() {
            self.tally.withdraw();
        }
    }

    /// Whether an exchange is open. A response answers the early data, wherever its records were.
    pub(super) const fn under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Closes the open exchange.
    pub(super) fn close(&mut self) {
        if let Some(current) = self.current.take() {
            // A single record was the whole response.
            self.none |= matches!(current.tickets, PossibleTickets::One { .. });
            self.tally.end(current.exchange);
        }
    }

    /// Whether session tickets came; absent if they cannot be told from the first response.
    pub(super) fn issued(&self) -> Option<bool> {
        (self.tickets > 0 || self.none).then_some(self.tickets > 0)
    }

    /// All exchanges. Requests are counted only if the handshake is `complete`.
    pub(super) fn seen(
        &self,
        complete: bool,
        approximate: bool,
        first: Vec<Exchange>,
    ) -> observed::Exchanges {
        self.tally.seen(complete, approximate, first)
    }
}

/// Whether an unsolicited record may be a NewSessionTicket. HTTP/2 servers also send their SETTINGS unsolicited (RFC
/// 9113 §6.5: six bytes each), alone or with a WINDOW_UPDATE.
fn is_ticket(length: u16, kind: Kind) -> bool {
    const MOST: u16 = 9 + 8 * 6 + 13;
    let content = length.saturating_sub(17);
    let settings = kind.http2 && content <= MOST && matches!(content % 6, 3 | 4);
    TICKET.contains(&length) && !settings
}

/// Whether a record holds no part of a request or response.
///
/// That is true of alerts and key updates in TLS 1.3 (content, its type, the tag), and of HTTP/2 frames alone in a
/// record: PING, SETTINGS and its acknowledgement, WINDOW_UPDATE (RFC 9113 §6).
fn is_control(length: u16, kind: Kind, client: bool) -> bool {
    let overhead = if kind.tls13 { 17 } else { 24 };
    let content = length.saturating_sub(overhead);
    // The record that showed the padding may have held more than a Finished. In that case alerts have no padding.
    let bare = [Some(content), content.checked_sub(kind.padding)];
    if kind.tls13 && bare.iter().flatten().any(|content| matches!(content, 2 | 5)) {
        return true;
    }
    kind.http2 && matches!(content, 9 | 13 | 17 | 26) && client
}
