//! Flights of a handshake: consecutive bytes in one direction (the term is from RFC 8446 §2).

use super::Time;
use super::observed::FlightSeen;
use super::packed::{Pack, Packer, Unpacker};
use super::table::Side;

/// Most messages named in a flight.
const NAMED: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    side: u8,
    count: u8,
    codes: [u8; NAMED],
    /// Bytes of records, or of packets.
    pub(super) bytes: u32,
    pub(super) start: Time,
    pub(super) end: Time,
    /// When the tap saw an acknowledgment of its end that carried no answer.
    pub(super) acknowledged: Option<Time>,
}

impl Flight {
    /// A flight that begins at `start`, without content yet.
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

    /// The side that sent it.
    pub(super) const fn side(&self) -> Side {
        self.side as Side
    }

    /// Adds a message by its code, which is specific to the protocol.
    pub(super) fn name(&mut self, code: u8) {
        if let Some(place) = self.codes.get_mut(usize::from(self.count)) {
            *place = code;
            self.count += 1;
        }
    }

    /// The codes of its messages, in order.
    pub(super) fn codes(&self) -> &[u8] {
        &self.codes[..usize::from(self.count)]
    }

    /// Converts all `flights`, reusing the memory of `seen`.
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

    /// Converts the flight; `name` gives the names of the codes.
    pub(super) fn seen(&self, client: Side, name: impl Fn(u8) -> &'static str) -> FlightSeen {
        let messages = self.codes().iter().map(|code| name(*code)).collect();
        FlightSeen { messages, ..self.bare(client) }
    }

    /// Converts the flight without its messages.
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
