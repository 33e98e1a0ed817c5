//! A connection as a sequence diagram: two lifelines, the messages between them, and the work and waits on each.
//!
//! Input: a [`Connection`]. Output: a [`Sequence`], laid out in time and not in pixels. Events that one side did not
//! observe are estimated half a round trip away, and marked so. Nothing here draws, or decides where time went: spans
//! are the stretches of [`split`](crate::split), each at the place where it was spent.

mod arrows;
mod handshake;
mod spans;

use std::net::SocketAddr;
use std::time::Duration;

pub use arrows::begins_response;

use crate::split::{AttributedConnection, Course, Part, Parts, Place, Split};
use crate::timeline::{BrokenOff, Connection, Direction, EarlyData, Lookup, Offset, PhaseName};

/// The layout of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The requested URL; empty if the source does not know it.
    pub url: String,
    /// Address connected to.
    pub remote: Option<SocketAddr>,
    /// Whether that address is a proxy's: then the other lifeline is the proxy's, with everything behind it.
    pub is_proxied: bool,
    /// Whether the connection was already open, so that there is no handshake to show.
    pub reused: bool,
    /// Whether it ran over QUIC: then flights consist of datagrams.
    pub quic: bool,
    /// Fate of the early data, if any was sent.
    pub early_data: Option<EarlyData>,
    /// DNS lookups, in the order in which they began.
    pub lookups: Vec<Lookup>,
    /// Messages between the sides, in the order of departure.
    pub arrows: Vec<Arrow>,
    /// Work and waits. Spans at one place do not overlap, and the lengths of those with one part add up to that part
    /// of [`Split`].
    pub spans: Vec<Span>,
    /// Where the time went; the sum is the total.
    pub parts: Parts,
    /// Round trips counted.
    pub round_trips: u32,
    /// Round-trip time used to estimate the far side; absent if none was observed.
    pub rtt: Option<Duration>,
    /// From the origin to the end of the last phase.
    pub total: Duration,
    /// Premature end, if the connection did not complete.
    pub broken_off: Option<BrokenOff>,
}

/// A point in time at one end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Point in time.
    pub at: Offset,
    /// Whether it was not observed, but computed from the other end.
    pub estimated: bool,
}

impl Moment {
    const fn seen(at: Offset) -> Self {
        Self { at, estimated: false }
    }

    const fn estimated(at: Offset) -> Self {
        Self { at, estimated: true }
    }
}

/// Kind of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrowKind {
    /// The SYN of the attempt that carried the connection, or the last one made.
    Syn {
        /// How often it had been sent before.
        retransmission: u32,
    },
    /// The SYN of another attempt (RFC 8305), or the first Initial of one.
    OtherAttempt,
    /// The answer to the SYN.
    SynAck,
    /// The answer to a SYN to a closed port.
    Reset,
    /// A flight.
    Flight,
    /// The response, from its first byte on, with everything received until its last.
    Response,
    /// Client data sent after the response's first byte that nothing waited for: acknowledgements in datagrams,
    /// HTTP/2's settings and window updates, the end.
    Meanwhile,
}

/// Bytes that followed each other without a pause of their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Departure of the first byte; absent if the round-trip time is unknown.
    pub departed: Option<Moment>,
    /// Arrival of the first byte; absent if it did not arrive, or if the round-trip time is unknown.
    pub arrived: Option<Moment>,
    /// Time from the first byte to the last.
    pub spread: Duration,
    /// Number of bytes; absent for packets without data.
    pub bytes: Option<u64>,
    /// Number of sends or reads.
    pub chunks: usize,
}

impl Burst {
    /// The observed end, or the first known one.
    pub fn at(&self) -> Offset {
        let seen = [self.departed, self.arrived].into_iter().flatten();
        let earliest = |moment: &Moment| (moment.estimated, moment.at);
        seen.min_by_key(earliest).map_or(Offset::ZERO, |moment| moment.at)
    }
}

/// A message or flight from one side to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Kind.
    pub kind: ArrowKind,
    /// Direction.
    pub direction: Direction,
    /// Messages in it, as [`Flight`](crate::timeline::Flight) names them.
    pub messages: Vec<String>,
    /// Bytes, in bursts; at least one. The sender paused between bursts.
    pub bursts: Vec<Burst>,
    /// Nothing shows that it arrived, and nothing came back.
    pub unanswered: bool,
    /// Target address, if several addresses were tried.
    pub remote: Option<SocketAddr>,
}

impl Arrow {
    /// Sum of all bytes; `None` for packets without data.
    pub fn bytes(&self) -> Option<u64> {
        self.bursts.iter().map(|burst| burst.bytes).sum()
    }

    /// Number of sends or reads.
    pub fn chunks(&self) -> usize {
        self.bursts.iter().map(|burst| burst.chunks).sum()
    }

    /// When its first burst was observed.
    pub fn at(&self) -> Offset {
        self.bursts.first().map_or(Offset::ZERO, Burst::at)
    }
}

/// A stretch of time with one cause, at the place where it was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Cause.
    pub part: Part,
    /// Where the time was spent.
    pub place: Place,
    /// Start, at that place. At the server it is estimated.
    pub start: Offset,
    /// End, at that place.
    pub end: Offset,
    /// Start, on the client's clock: in this order, all spans follow each other without gaps.
    pub seen: Offset,
    /// Phase that contains it.
    pub phase: PhaseName,
}

impl Span {
    /// Duration of the span.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Whether the server waited for acknowledgements with its congestion window full.
    pub fn is_full_window(&self) -> bool {
        self.part == Part::Network && self.place == Place::Server
    }
}

impl Sequence {
    /// Lays out `connection`, using its own evidence about the server.
    pub fn lay_out(connection: &Connection) -> Self {
        let (split, course) = Split::in_order(connection);
        Self::lay_out_split(connection, &split, &course)
    }

    /// Lays out a connection with its existing split.
    pub fn from_attributed(attributed: &AttributedConnection) -> Self {
        let AttributedConnection { connection, split, course } = attributed;
        Self::lay_out_split(connection, split, course)
    }

    fn lay_out_split(connection: &Connection, split: &Split, course: &Course) -> Self {
        let mut arrows = handshake::arrows(connection, split);
        arrows.extend(arrows::lay_arrows(connection, split.rtt, course));
        arrows.sort_by_key(Arrow::at);
        Self {
            url: connection.url.clone(),
            remote: connection.facts.remote,
            is_proxied: connection.facts.proxy.is_some(),
            reused: connection.facts.reused,
            quic: connection.facts.quic.is_some(),
            early_data: connection.facts.tls.as_ref().and_then(|tls| tls.early_data),
            lookups: connection.lookups.clone(),
            arrows,
            spans: spans::lay_spans(&course.stretches, split.rtt),
            parts: split.parts,
            round_trips: split.round_trips,
            rtt: split.rtt,
            total: split.total(),
            broken_off: connection.broken_off(),
        }
    }

    /// Name of the lifeline opposite the client.
    pub const fn far_end(&self) -> &'static str {
        if self.is_proxied { "proxy" } else { "server" }
    }

    /// Only the exchange of SYN and SYN/ACK, as `ping` would show the path: from the answered SYN on. `None` without
    /// such an exchange.
    pub fn ping_like(&self) -> Option<Self> {
        let syn = self
            .arrows
            .iter()
            .rfind(|arrow| matches!(arrow.kind, ArrowKind::Syn { .. }) && !arrow.unanswered)?;
        let answer = self.arrows.iter().find(|arrow| arrow.kind == ArrowKind::SynAck)?;
        let (from, to) = (syn.at(), answer.at());
        let total = to.since(from);
        let moved = |at: Offset| Offset::from_nanos(at.as_nanos() - from.as_nanos());
        let moment = |moment: Moment| Moment { at: moved(moment.at), ..moment };
        let arrows = [syn, answer].map(|arrow| {
            let mut arrow = Arrow { remote: None, ..arrow.clone() };
            for burst in &mut arrow.bursts {
                burst.departed = burst.departed.map(moment);
                burst.arrived = burst.arrived.map(moment);
            }
            arrow
        });
        let (start, end) = (Offset::ZERO, moved(to));
        let (part, place, phase) = (Part::Network, Place::Path, PhaseName::Connect);
        Some(Self {
            url: self.url.clone(),
            remote: self.remote,
            is_proxied: self.is_proxied,
            reused: false,
            quic: false,
            early_data: None,
            lookups: Vec::new(),
            arrows: arrows.to_vec(),
            spans: vec![Span { part, place, start, end, seen: start, phase }],
            parts: Parts { network: total, ..Parts::default() },
            round_trips: 1,
            rtt: self.rtt,
            total,
            broken_off: None,
        })
    }
}

/// Half of a round trip: the assumed distance to the other side.
fn half(rtt: Duration) -> Duration {
    rtt / 2
}

#[cfg(test)]
mod tests;
