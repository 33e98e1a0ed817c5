//! Combines the bytes and messages of the log into flights.
//!
//! Input: events in order: sent messages are named before their bytes leave, received ones after their bytes arrived.
//! Output: flights of the model.

use firstbyte_core::timeline::{Chunk, Clock, Direction, Flight, Offset, Stamp};

/// The trace's clock has steps of a microsecond.
const RESOLUTION_NS: u32 = 1_000;

/// Converts times of the log to times of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) at_us: i64,
}

impl Origin {
    pub(super) fn stamp(self, at_us: i64) -> Stamp {
        let clock = Clock::Reported { resolution_ns: RESOLUTION_NS };
        Stamp { at: self.offset(at_us), clock }
    }

    pub(super) fn offset(self, at_us: i64) -> Offset {
        Offset::from_nanos(at_us.saturating_sub(self.at_us).saturating_mul(1000))
    }
}

/// Flights under construction.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: Vec<Flight>,
    to_be_sent: Vec<String>,
}

impl Flights {
    /// Records that bytes were sent or received.
    pub(super) fn moved(&mut self, direction: Direction, stamp: Stamp, bytes: u64) {
        let chunk = Chunk::new(stamp, bytes);
        let messages = match direction {
            Direction::Sent => std::mem::take(&mut self.to_be_sent),
            Direction::Received => Vec::new(),
        };
        match self.flights.last_mut() {
            Some(last) if last.direction == direction => {
                last.chunks.push(chunk);
                last.messages.extend(messages);
            }
            _ => self.flights.push(Flight { direction, chunks: vec![chunk], messages }),
        }
    }

    /// Records a message: a sent one, whose bytes leave next, or a received one, which was read from the last bytes.
    pub(super) fn message(&mut self, direction: Direction, name: String) {
        if direction == Direction::Sent {
            self.to_be_sent.push(name);
            return;
        }
        let mut received = self.flights.iter_mut().rev();
        if let Some(last) = received.find(|flight| flight.direction == Direction::Received) {
            last.messages.push(name);
        }
    }

    /// Records a part of a message, unless the current flight already has that message: parts are logged one by one,
    /// and again if they are retransmitted.
    pub(super) fn part(&mut self, direction: Direction, name: &str) {
        let sent = self.to_be_sent.iter().map(String::as_str);
        let under_way = self.flights.last().filter(|flight| flight.direction == direction);
        let under_way = under_way.into_iter().flat_map(|flight| &flight.messages);
        if !under_way.map(String::as_str).chain(sent).any(|known| known == name) {
            self.message(direction, name.to_owned());
        }
    }

    pub(super) fn finish(self) -> Vec<Flight> {
        self.flights
    }
}
