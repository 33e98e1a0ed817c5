//! Requests and responses, by the sizes and directions of records (`docs/wire.md`, "Exchanges").
//!
//! In: records of application data after (or, as early data, during) the handshake. Out: runs of the
//! client's followed by runs of the server's. What TLS 1.3 hides among them — session tickets, alerts, key
//! updates — is taken out by place and size.

use crate::Time;
use crate::exchanges::Tally;
use crate::observed::{self, Exchange};

/// A record of application data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// First and last byte at the tap.
    pub(super) start: Time,
    pub(super) end: Time,
    /// Place of its first byte in its direction.
    pub(super) position: u32,
    /// How much of the other direction its sender had acknowledged; absent where it is not known.
    pub(super) acked: Option<u32>,
    /// Length without the record's header.
    pub(super) length: u16,
}

impl Record {
    const fn bytes(&self) -> u64 {
        self.length as u64 + 5
    }

    /// Whether the sender of `answer`, in the other direction, had all of it; so it is taken where that is not known.
    pub(super) fn is_acknowledged_by(&self, answer: &Self) -> bool {
        let end = self.position.wrapping_add(u32::from(self.length) + 5);
        answer.acked.is_none_or(|acked| acked.wrapping_sub(end) as i32 >= 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Current {
    exchange: Exchange,
    /// Place of the request's first byte.
    position: u32,
    /// Whether the response so far may be session tickets.
    tickets: PossibleTickets,
}

/// Records that may be session tickets, all of one length. (It is small: a live connection has one.)
#[derive(Clone, Copy, Debug)]
enum PossibleTickets {
    None,
    One { length: u16 },
    Two,
}

/// What the connection is known to be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) tls13: bool,
    /// HTTP/2 was chosen, or may have been.
    pub(super) http2: bool,
    /// By so much the record's sender pads what is no application data (RFC 8446 §5.4).
    pub(super) padding: u16,
}

/// The exchanges of a connection.
#[derive(Debug)]
pub(super) struct Exchanges {
    tally: Tally,
    pub(super) tickets: u32,
    /// The first response began with what is no ticket, and none came before.
    none: bool,
    current: Option<Current>,
}

/// A burst is over after so long: what follows has waited for something.
const BURST_NS: i64 = 1_000_000;
/// A NewSessionTicket's record is within these (four numbers, an extension list, the tag; a state with
/// a client's certificate in it is longer still).
const TICKET: std::ops::RangeInclusive<u16> = 48..=2048;

impl Exchanges {
    /// None so far, of which the first `limit` will be kept.
    pub(super) fn new(limit: usize) -> Self {
        Self { tally: Tally::new(limit), tickets: 0, none: false, current: None }
    }

    /// A record of the client's.
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

    /// A record of the server's.
    pub(super) fn response(&mut self, record: &Record, kind: Kind) {
        if is_control(record.length, kind, false) {
            return;
        }
        let first = self.tally.begun() <= 1 && kind.tls13;
        let Some(current) = &mut self.current else {
            self.tickets += u32::from(first && is_ticket(record.length, kind));
            return;
        };
        // The server had nothing of the request when it sent this.
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
                // They came by themselves, and what was asked for comes now.
                self.tickets += many;
                current.tickets = PossibleTickets::None;
                exchange.response_first_packet = None;
                exchange.response_bytes = 0;
            } else if alike {
                // Two of the same length, as servers send tickets.
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

    /// The request that was sent as early data was not taken: it will be sent again.
    pub(super) fn rejected(&mut self) {
        if self.current.take().is_some() {
            self.tally.withdraw();
        }
    }

    /// What was sent as early data is what the response answers, wherever its place was.
    pub(super) const fn under_way(&self) -> bool {
        self.current.is_some()
    }

    /// No more of the one that is under way.
    pub(super) fn close(&mut self) {
        if let Some(current) = self.current.take() {
            // One record that was the whole response.
            self.none |= matches!(current.tickets, PossibleTickets::One { .. });
            self.tally.end(current.exchange);
        }
    }

    /// Whether session tickets came; absent where they cannot be told from the first response.
    pub(super) fn issued(&self) -> Option<bool> {
        (self.tickets > 0 || self.none).then_some(self.tickets > 0)
    }

    /// All of them; requests are counted only behind a `complete` handshake.
    pub(super) fn seen(
        &self,
        complete: bool,
        approximate: bool,
        first: Vec<Exchange>,
    ) -> observed::Exchanges {
        self.tally.seen(complete, approximate, first)
    }
}

/// Whether a record that answers nothing may be a NewSessionTicket: over HTTP/2 servers send their SETTINGS so as
/// well (RFC 9113 §6.5: six bytes each), alone or with a WINDOW_UPDATE.
fn is_ticket(length: u16, kind: Kind) -> bool {
    const MOST: u16 = 9 + 8 * 6 + 13;
    let content = length.saturating_sub(17);
    let settings = kind.http2 && content <= MOST && matches!(content % 6, 3 | 4);
    TICKET.contains(&length) && !settings
}

/// Alerts and key updates in TLS 1.3 (content, its type, the tag); frames of HTTP/2 that ask for and
/// answer nothing: PING, SETTINGS and its acknowledgement, WINDOW_UPDATE (RFC 9113 §6), alone in a record.
fn is_control(length: u16, kind: Kind, client: bool) -> bool {
    let overhead = if kind.tls13 { 17 } else { 24 };
    let content = length.saturating_sub(overhead);
    // What the padding was told by may have been more than a Finished: then alerts have none.
    let bare = [Some(content), content.checked_sub(kind.padding)];
    if kind.tls13 && bare.iter().flatten().any(|content| matches!(content, 2 | 5)) {
        return true;
    }
    kind.http2 && matches!(content, 9 | 13 | 17 | 26) && client
}
