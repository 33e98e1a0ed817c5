//! A connection as a sequence diagram: two lifelines, what went between them, and what was waited for.
//!
//! Input: a [`Connection`]. Output: a [`Sequence`], laid out in time and not in pixels. What one side
//! did not see is estimated half a round trip away, and says so. Nothing here draws, or decides where
//! time went: spans are the stretches of [`split`](crate::split), each at the place it went on.

mod arrows;
mod handshake;
mod spans;

use std::net::SocketAddr;
use std::time::Duration;

pub use arrows::begins_response;

use crate::split::{AttributedConnection, Course, Part, Parts, Place, Split};
use crate::timeline::{BrokenOff, Connection, Direction, EarlyData, Lookup, Offset, PhaseName};

/// A connection, laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The URL asked for; empty where the source knows none.
    pub url: String,
    /// The address connected to.
    pub remote: Option<SocketAddr>,
    /// Whether that is a proxy's: then the other lifeline is the proxy's, with all that is behind it.
    pub is_proxied: bool,
    /// Whether the connection was open before: then there is no handshake to see.
    pub reused: bool,
    /// Whether it went over QUIC: then what a flight consists of are datagrams.
    pub quic: bool,
    /// What became of early data, where some was sent.
    pub early_data: Option<EarlyData>,
    /// DNS lookups, in the order in which they were begun.
    pub lookups: Vec<Lookup>,
    /// What went from one side to the other, in the order in which it left.
    pub arrows: Vec<Arrow>,
    /// What was worked at and waited for. Those of one place do not overlap, and the lengths of those
    /// with one part add up to that part of [`Split`].
    pub spans: Vec<Span>,
    /// Where the time went; the sum is the total.
    pub parts: Parts,
    /// Round trips counted.
    pub round_trips: u32,
    /// The round-trip time that the far side is estimated by; absent when none was seen.
    pub rtt: Option<Duration>,
    /// From the origin to the end of the last phase.
    pub total: Duration,
    /// How it stops, if it has no end.
    pub broken_off: Option<BrokenOff>,
}

/// A point in time at one end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Offset,
    /// Nobody saw it: reckoned from the other end.
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

/// What an arrow stands for.
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
    /// The answer to a SYN where nobody listens.
    Reset,
    /// A flight.
    Flight,
    /// The response, from its first byte on, with what was received until its last.
    Response,
    /// What the client sent from the response's first byte on, and what nothing waited for:
    /// acknowledgements in datagrams, HTTP/2's settings and window updates, the end.
    Meanwhile,
}

/// Bytes that followed each other without their sender standing still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When the first of them left; absent where the round-trip time is unknown.
    pub departed: Option<Moment>,
    /// When the first of them arrived; absent where it did not, or the round-trip time is unknown.
    pub arrived: Option<Moment>,
    /// From the first to the last of them.
    pub spread: Duration,
    /// How many bytes; absent for packets without data.
    pub bytes: Option<u64>,
    /// In how many sends or reads.
    pub chunks: usize,
}

impl Burst {
    /// The end of it that was seen, or the first that is known.
    pub fn at(&self) -> Offset {
        let seen = [self.departed, self.arrived].into_iter().flatten();
        let earliest = |moment: &Moment| (moment.estimated, moment.at);
        seen.min_by_key(earliest).map_or(Offset::ZERO, |moment| moment.at)
    }
}

/// Something that went from one side to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// What it stands for.
    pub kind: ArrowKind,
    /// Which way.
    pub direction: Direction,
    /// The messages in it, as [`Flight`](crate::timeline::Flight) names them.
    pub messages: Vec<String>,
    /// Its bytes, a burst at a time; at least one. Between bursts the sender stood still.
    pub bursts: Vec<Burst>,
    /// Nothing says that it arrived, and nothing came back.
    pub unanswered: bool,
    /// Where to, where several addresses were tried.
    pub remote: Option<SocketAddr>,
}

impl Arrow {
    /// All its bytes; absent for packets without data.
    pub fn bytes(&self) -> Option<u64> {
        self.bursts.iter().map(|burst| burst.bytes).sum()
    }

    /// How many sends or reads it was seen in.
    pub fn chunks(&self) -> usize {
        self.bursts.iter().map(|burst| burst.chunks).sum()
    }

    /// When its first burst was seen.
    pub fn at(&self) -> Offset {
        self.bursts.first().map_or(Offset::ZERO, Burst::at)
    }
}

/// A stretch of time with one cause, at the place where it went on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it went to.
    pub part: Part,
    /// Where.
    pub place: Place,
    /// Begin, at that place. At the server it is estimated.
    pub start: Offset,
    /// End, at that place.
    pub end: Offset,
    /// Begin, as the client saw it: those of all spans follow each other without gaps.
    pub seen: Offset,
    /// The phase it lies in.
    pub phase: PhaseName,
}

impl Span {
    /// How long it took.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Whether the server waited for acknowledgements, its congestion window full.
    pub fn is_full_window(&self) -> bool {
        self.part == Part::Network && self.place == Place::Server
    }
}

impl Sequence {
    /// Lays `connection` out, by what it shows of its server itself.
    pub fn lay_out(connection: &Connection) -> Self {
        let (split, course) = Split::in_order(connection);
        Self::lay_out_split(connection, &split, &course)
    }

    /// Lays a connection out by its split.
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

    /// What the lifeline opposite the client is called.
    pub const fn far_end(&self) -> &'static str {
        if self.is_proxied { "proxy" } else { "server" }
    }

    /// Only the exchange of SYN and SYN/ACK, as `ping` would see the path: from the SYN that was
    /// answered on. Absent where there was none.
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

/// Half of a round trip: how far away the other side is taken to be.
fn half(rtt: Duration) -> Duration {
    rtt / 2
}

#[cfg(test)]
mod tests;
