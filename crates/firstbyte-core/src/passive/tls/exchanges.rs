//! Requests and responses, by the sizes and directions of records (`docs/wire.md`, "Exchanges").
//!
//! In: records of application data after (or, as early data, during) the handshake. Out: runs of the
//! client's followed by runs of the server's. What TLS 1.3 hides among them — session tickets, alerts, key
//! updates — is taken out by place and size.

use crate::passive::Time;
use crate::passive::observed::Exchange;

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
}

/// An exchange in 40 bytes: connections that are under way are many. Times behind the first, and bytes,
/// have 48 bits: three days of nanoseconds, 281 TB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    start: i64,
    /// Of the request's end, the response's start and end.
    after: [[u16; 3]; 3],
    request_bytes: [u16; 3],
    response_bytes: [u16; 3],
}

/// Stands for what did not come.
const ABSENT: u64 = (1 << 48) - 1;

const fn pack(number: u64) -> [u16; 3] {
    let number = if number < ABSENT { number } else { ABSENT };
    [number as u16, (number >> 16) as u16, (number >> 32) as u16]
}

const fn unpack([a, b, c]: [u16; 3]) -> u64 {
    a as u64 | (b as u64) << 16 | (c as u64) << 32
}

impl Packed {
    pub(crate) fn of(exchange: &Exchange) -> Self {
        let start = exchange.request_start;
        let since =
            |time: Time| u64::try_from(time.signed_since(start)).unwrap_or(0).min(ABSENT - 1);
        let after = |time: Option<Time>| pack(time.map_or(ABSENT, since));
        Self {
            start: start.unix_ns(),
            after: [
                after(Some(exchange.request_end)),
                after(exchange.response_start),
                after(exchange.response_end),
            ],
            request_bytes: pack(exchange.request_bytes),
            response_bytes: pack(exchange.response_bytes),
        }
    }

    pub(crate) fn unpacked(&self) -> Exchange {
        let time = |after: [u16; 3]| match unpack(after) {
            ABSENT => None,
            ns => Some(Time::from_unix_ns(self.start.saturating_add(ns as i64))),
        };
        let request_start = Time::from_unix_ns(self.start);
        Exchange {
            request_start,
            request_end: time(self.after[0]).unwrap_or(request_start),
            response_start: time(self.after[1]),
            response_end: time(self.after[2]),
            request_bytes: unpack(self.request_bytes),
            response_bytes: unpack(self.response_bytes),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Current {
    exchange: Exchange,
    /// Place of the request's first byte.
    position: u32,
    /// The response so far may be session tickets: how many records, of which length.
    tickets: Option<(u32, u16)>,
}

/// What the connection is known to be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub(super) tls13: bool,
    /// HTTP/2 was chosen, or may have been.
    pub(super) http2: bool,
}

/// The exchanges of a connection.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    pub(super) count: u32,
    pub(super) answered: u32,
    pub(super) time_ns: i64,
    kept: Vec<Packed>,
    pub(super) tickets: u32,
    current: Option<Current>,
}

/// A burst is over after so long: what follows has waited for something.
const BURST_NS: i64 = 1_000_000;
/// A NewSessionTicket's record is within these (four numbers, an extension list, the tag; a state with
/// a client's certificate in it is longer still).
const TICKET: std::ops::RangeInclusive<u16> = 48..=2048;

impl Exchanges {
    /// A record of the client's.
    pub(super) fn request(&mut self, record: &Record, kind: Kind, limit: usize) {
        if is_control(record.length, kind, true) {
            return;
        }
        match &mut self.current {
            Some(current) if current.exchange.response_start.is_none() => {
                current.exchange.request_end = record.end;
                current.exchange.request_bytes += record.bytes();
            }
            _ => {
                self.close(limit);
                self.count += 1;
                let exchange = Exchange {
                    request_start: record.start,
                    request_end: record.end,
                    response_start: None,
                    response_end: None,
                    request_bytes: record.bytes(),
                    response_bytes: 0,
                };
                self.current = Some(Current { exchange, position: record.position, tickets: None });
            }
        }
    }

    /// A record of the server's.
    pub(super) fn response(&mut self, record: &Record, kind: Kind) {
        if is_control(record.length, kind, false) {
            return;
        }
        let first = self.count <= 1 && kind.tls13;
        let Some(current) = &mut self.current else {
            self.tickets += u32::from(first && TICKET.contains(&record.length));
            return;
        };
        // The server had nothing of the request when it sent this.
        let unasked =
            record.acked.is_some_and(|acked| acked.wrapping_sub(current.position) as i32 <= 0);
        let exchange = &mut current.exchange;
        if exchange.response_start.is_none() {
            if unasked {
                self.tickets += u32::from(first && TICKET.contains(&record.length));
                return;
            }
            if first && self.tickets == 0 && TICKET.contains(&record.length) {
                current.tickets = Some((1, record.length));
            }
        } else if let Some((many, length)) = current.tickets {
            let waited = exchange.response_end.map_or(0, |end| record.start.signed_since(end));
            if waited > BURST_NS {
                // They came by themselves, and what was asked for comes now.
                self.tickets += many;
                current.tickets = None;
                exchange.response_start = None;
                exchange.response_bytes = 0;
            } else if many == 1 && record.length == length {
                // Two of the same length, as servers send tickets.
                current.tickets = Some((2, length));
            } else {
                if many > 1 {
                    self.tickets += many;
                    exchange.response_start = None;
                    exchange.response_bytes = 0;
                }
                current.tickets = None;
            }
        }
        exchange.response_start.get_or_insert(record.start);
        exchange.response_end = Some(record.end);
        exchange.response_bytes += record.bytes();
    }

    /// The request that was sent as early data was not taken: it will be sent again.
    pub(super) fn rejected(&mut self) {
        if self.current.take().is_some() {
            self.count -= 1;
        }
    }

    /// What was sent as early data is what the response answers, wherever its place was.
    pub(super) const fn under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Those that were kept.
    pub(super) fn kept(&self) -> Vec<Exchange> {
        self.kept.iter().map(Packed::unpacked).collect()
    }

    /// No more of it.
    pub(super) fn close(&mut self, limit: usize) {
        let Some(Current { exchange, .. }) = self.current.take() else { return };
        if let Some(end) = exchange.response_end {
            self.answered += 1;
            self.time_ns =
                self.time_ns.saturating_add(end.signed_since(exchange.request_start).max(0));
        }
        if self.kept.len() < limit {
            if self.kept.len() == self.kept.capacity() {
                self.kept.reserve_exact(2);
            }
            self.kept.push(Packed::of(&exchange));
        }
    }
}

/// Alerts and key updates in TLS 1.3 (content, its type, the tag); frames of HTTP/2 that ask for and
/// answer nothing: PING, SETTINGS and its acknowledgement, WINDOW_UPDATE (RFC 9113 §6), alone in a record.
fn is_control(length: u16, kind: Kind, client: bool) -> bool {
    let overhead = if kind.tls13 { 17 } else { 24 };
    let content = length.saturating_sub(overhead);
    if kind.tls13 && matches!(content, 2 | 5) {
        return true;
    }
    kind.http2 && matches!(content, 9 | 13 | 17 | 26) && client
}
