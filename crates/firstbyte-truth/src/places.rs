//! The inputs from the measured connection: its origin, and positions in the two streams.

use std::time::Duration;

use super::stream::{Sent, Stream};
use firstbyte_core::timeline::{Connection, Direction, Mark, Offset};

/// Positions in the streams, and the few times that packets cannot show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Time origin in nanoseconds since the Unix epoch.
    pub origin: i64,
    /// Time of the name resolution.
    pub resolved: Duration,
    /// Whether the connection is over TCP.
    pub stream: bool,
    /// Bytes of the client's stream up to the end of the request; over QUIC, bytes that had left by then.
    pub request_end: u64,
    /// Bytes of the client's stream up to the end of its Finished.
    pub finished_end: u64,
    /// Bytes of the server's stream before the response's first packet.
    pub response_start: u64,
    /// Bytes of the server's stream up to the end of the record with the response's first byte.
    pub response_readable: u64,
    /// Bytes of the server's stream up to the end of the response.
    pub response_end: u64,
    /// The same as times, for datagrams, which have no stream positions: nanoseconds since the Unix epoch.
    pub request_end_at: i64,
    pub response_start_at: i64,
    pub response_end_at: i64,
}

impl Places {
    pub(super) fn from_connection(connection: &Connection) -> Option<Self> {
        if connection.failure.is_some() {
            return None;
        }
        let origin = i64::try_from(connection.started_unix_ns?).ok()?;
        let mark = |mark| connection.marks.at(mark);
        let (asked, readable, ended) =
            (mark(Mark::RequestEnd)?, mark(Mark::ResponseStart)?, mark(Mark::ResponseEnd)?);
        let begun = connection.marks.first_packet_of_response()?;
        let resolved = match (mark(Mark::DomainLookupStart), mark(Mark::DomainLookupEnd)) {
            (Some(start), Some(end)) => end.since(start),
            _ => Duration::ZERO,
        };
        let finished = mark(Mark::HandshakeComplete).unwrap_or(asked);
        let up_to = |direction, until: Offset| bytes(connection, direction, |at| at <= until);
        Some(Self {
            origin,
            resolved,
            stream: connection.facts.quic.is_none(),
            request_end: up_to(Direction::Sent, asked),
            finished_end: up_to(Direction::Sent, finished),
            response_start: bytes(connection, Direction::Received, |at| at < begun),
            response_readable: up_to(Direction::Received, readable),
            response_end: up_to(Direction::Received, ended),
            request_end_at: origin + asked.as_nanos(),
            response_start_at: origin + begun.as_nanos(),
            response_end_at: origin + ended.as_nanos(),
        })
    }
}

impl Places {
    /// Adapts the positions to an exchange on an open connection: its flights begin at the origin, its streams earlier.
    pub(super) fn on_open(self, [client, server]: &[Stream; 2]) -> Self {
        let origin = self.origin;
        let end = |sent: &mut dyn Iterator<Item = &Sent>| sent.map(|s| s.end).max().unwrap_or(0);
        let asked = end(&mut client.sent.iter().filter(|sent| sent.departed < origin));
        let answered = |sent: &&Sent| sent.arrived.is_some_and(|at| at < origin);
        let answered = end(&mut server.sent.iter().filter(answered));
        Self {
            request_end: asked + self.request_end,
            finished_end: asked + self.finished_end,
            response_start: answered + self.response_start,
            response_readable: answered + self.response_readable,
            response_end: answered + self.response_end,
            ..self
        }
    }
}

/// Bytes of one direction, up to the first stamp that does not satisfy `so`.
pub(super) fn bytes(
    connection: &Connection,
    direction: Direction,
    so: impl Fn(Offset) -> bool,
) -> u64 {
    let flights = connection.flights.iter().filter(|flight| flight.direction == direction);
    let chunks = flights.flat_map(|flight| &flight.chunks);
    chunks.take_while(|chunk| so(chunk.stamp.at)).map(|chunk| chunk.bytes).sum()
}
