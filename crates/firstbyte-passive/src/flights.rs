//! Flights of a handshake: runs of its bytes in one direction (RFC 8446 §2 calls them so).

use super::Time;
use super::observed::FlightSeen;
use super::packed::{Pack, Packer, Unpacker};
use super::table::Side;

/// Messages of a flight that are named.
const NAMED: usize = 10;

/// A flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    side: u8,
    count: u8,
    codes: [u8; NAMED],
    /// Of records, or of packets.
    pub(super) bytes: u32,
    pub(super) start: Time,
    pub(super) end: Time,
    /// When an acknowledgment of its end, without an answer in it, was at the tap.
    pub(super) acknowledged: Option<Time>,
}

impl Flight {
    /// One of which nothing but its start was seen.
    pub(super) const fn new(side: Side, start: Time) -> Self {
        Self {
            side: side as u8,
            count: 0,
            codes: [0; NAMED],
            bytes: 0,
            start,
            end: start,
            acknowledged: None,
        }
    }

    /// Who sent it.
    pub(super) const fn side(&self) -> Side {
        self.side as Side
    }

    /// Names a message in it by a number, whose meaning is the protocol's.
    pub(super) fn name(&mut self, code: u8) {
        if let Some(place) = self.codes.get_mut(usize::from(self.count)) {
            *place = code;
            self.count += 1;
        }
    }

    /// The numbers of its messages, in order.
    pub(super) fn codes(&self) -> &[u8] {
        &self.codes[..usize::from(self.count)]
    }

    /// All of `flights` for people, in the memory of `seen`.
    pub(super) fn all_seen(
        flights: &[Self],
        mut seen: Vec<FlightSeen>,
        client: Side,
        name: impl Fn(u8) -> &'static str,
    ) -> Vec<FlightSeen> {
        seen.truncate(flights.len());
        let again = seen.len();
        for (flight, seen) in flights.iter().zip(&mut seen) {
            let mut messages = std::mem::take(&mut seen.messages);
            messages.clear();
            messages.extend(flight.codes().iter().map(|code| name(*code)));
            *seen = FlightSeen { messages, ..flight.bare(client) };
        }
        seen.extend(flights[again..].iter().map(|flight| flight.seen(client, &name)));
        seen
    }

    /// For people; `name` says what the numbers mean.
    pub(super) fn seen(&self, client: Side, name: impl Fn(u8) -> &'static str) -> FlightSeen {
        let messages = self.codes().iter().map(|code| name(*code)).collect();
        FlightSeen { messages, ..self.bare(client) }
    }

    /// Without its messages.
    fn bare(&self, client: Side) -> FlightSeen {
        FlightSeen {
            by_client: self.side() == client,
            start: self.start,
            end: self.end,
            bytes: u64::from(self.bytes),
            messages: Vec::new(),
        }
    }
}

impl Pack for Flight {
    fn pack(&self, to: &mut Packer) {
        self.side.pack(to);
        to.bytes(self.codes());
        self.bytes.pack(to);
        self.start.pack(to);
        self.end.pack(to);
        self.acknowledged.pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let side = u8::unpack(from);
        let codes = from.bytes();
        let bytes = u32::unpack(from);
        let mut flight = Self { bytes, ..Self::new(side.into(), Time::unpack(from)) };
        codes.iter().for_each(|code| flight.name(*code));
        flight.end = Time::unpack(from);
        flight.acknowledged = Option::unpack(from);
        flight
    }
}
