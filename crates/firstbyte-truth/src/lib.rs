//! The truth of where a measured connection's time went, from captures at both of its ends.
//!
//! Input: the packets of one connection as they passed the client's and the server's device, by one
//! clock; what was configured of the path between; and, from the measured [`Connection`], places in the
//! two streams (where the request ends, where the response begins and ends), no times but its origin.
//! Output: the same parts that [`split`](firstbyte_core::split) gives from the client's end alone, to hold it
//! against. Nothing here shares a rule with it: this walks the critical path packet by packet. The
//! definitions are in `docs/measurement.md`, "Accuracy of the parts".

mod lanes;
mod passage;
mod places;
mod stream;
mod walk;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::split::{Part, Parts, Phase};
use firstbyte_core::timeline::Connection;
use firstbyte_core::wire::frames::Space;
pub use passage::{HandshakeTruth, Passage, passage};
use places::Places;
use stream::Stream;
use walk::{Event, Walk};
pub use witness::{Witnessed, Written, witnessed};

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Who connects.
    Client,
    /// Who answers.
    Server,
}

impl End {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What of a TCP header is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number, where the flag is set.
    pub ack: Option<u32>,
    /// SYN is set.
    pub syn: bool,
    /// Length of the payload.
    pub payload: u32,
}

/// Whose bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The handshake's, in packets of this space.
    Handshake(Space),
    /// Those of the stream with this number.
    Stream(u64),
}

/// Bytes that a QUIC packet carries. The end of a stream counts as one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whose.
    pub lane: Lane,
    /// From here.
    pub start: u64,
    /// Up to here.
    pub end: u64,
}

/// What of a datagram's QUIC packets is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Their numbers.
    pub packets: Vec<(Space, u64)>,
    /// Packets of the other side that they acknowledge, from and to.
    pub acknowledges: Vec<(Space, u64, u64)>,
    /// Bytes that they carry.
    pub pieces: Vec<Piece>,
    /// They are to be acknowledged.
    pub elicits: bool,
    /// 0-RTT packets are among them.
    pub early: bool,
}

/// A packet as it passed one end's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When, nanoseconds since the Unix epoch.
    pub at: i64,
    /// Who sent it.
    pub from: End,
    /// The same number at both ends, and no other packet's of the connection: a retransmission has
    /// another one (the IP identification, the time stamps' option, or the payload differ).
    pub id: u64,
    /// The IP packet's length.
    pub bytes: u32,
    /// Of TCP; absent for a UDP datagram.
    pub tcp: Option<Segment>,
    /// Of QUIC, where it could be opened.
    pub quic: Option<Arc<Datagram>>,
}

/// The packets of one connection at both ends, each in the order of their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// At the client's device.
    pub client: Vec<Packet>,
    /// At the server's device.
    pub server: Vec<Packet>,
    /// When other attempts to connect began: SYNs to other addresses at the client's device.
    pub other_attempts: Vec<i64>,
}

/// One direction of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// What a packet takes at least, without its own time at the rate.
    pub base: Duration,
    /// As configured, nanoseconds per byte of the IP packet; zero where there is no limit.
    pub ns_per_byte: f64,
}

impl Way {
    /// How long the link is busy with a packet.
    fn busy(&self, bytes: u32) -> i64 {
        (self.ns_per_byte * f64::from(bytes)) as i64
    }
}

/// What is known of a path and a server besides packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// From the client to the server.
    pub up: Way,
    /// From the server to the client.
    pub down: Way,
    /// The server answers early data only when the client's Finished is there.
    pub answers_after_finished: bool,
    /// What the application was told to think and to pause for, in all.
    pub application: Duration,
    /// It was told to pause within its answer.
    pub pauses: bool,
    /// Over QUIC, the congestion window that the server begins with, bytes.
    pub window: u64,
}

/// The smallest times of both ways over some connections, less the packets' own times at the rates.
///
/// Absent where no packet of a direction arrived.
pub fn base(captured: &[Captured], up_ns_per_byte: f64, down_ns_per_byte: f64) -> Option<[Way; 2]> {
    let way = |from: End, ns_per_byte: f64| {
        let way = Way { base: Duration::ZERO, ns_per_byte };
        let streams = captured.iter().map(|captured| Stream::from_captured(captured, from));
        let least = streams
            .flat_map(|stream| stream.sent)
            .filter_map(|sent| Some(sent.arrived? - sent.departed - way.busy(sent.bytes)))
            .min()?;
        Some(Way { base: Duration::from_nanos(u64::try_from(least).ok()?), ..way })
    };
    Some([way(End::Client, up_ns_per_byte)?, way(End::Server, down_ns_per_byte)?])
}

/// A stretch of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it went to.
    pub part: Part,
    /// Begin, nanoseconds from the origin.
    pub from: i64,
    /// End.
    pub to: i64,
    /// How much later than at the server `from` and `to` are: within a response both are as the client sees them.
    pub seen_later: i64,
    /// Which rule took it so.
    pub rule: Rule,
    /// Where a departure of the server's ends it: the place in its stream of the last byte that left. With
    /// what was held before, it is the last one that lets a segment go.
    pub place: Option<u64>,
}

/// Why one event came no sooner than after the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Before the first packet: the name service.
    Resolved,
    /// Before the first packet, or between what arrived and what left: the client.
    ClientWorked,
    /// Another address was tried first.
    AnotherAddress,
    /// A packet on its way.
    OnItsWay,
    /// A packet took longer than the path does.
    Jitter,
    /// The link was busy with the packet itself.
    OwnRate,
    /// The link was busy with the packet before.
    BehindAnother,
    /// The first copy was lost.
    Lost,
    /// The server wrote when it had what it answers.
    Answered,
    /// The server wrote after it had written before.
    WroteOn,
    /// Two departures of one write.
    Burst,
    /// The acknowledgement released it.
    Released,
    /// The acknowledgement was delayed.
    DelayedAck,
}

/// Where a connection's time truly went.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The parts. They add up to the time from the origin to the arrival of the last byte.
    pub parts: Parts,
    /// From the origin on, without gaps: the critical path to the response's first packet, from there on the one to where
    /// its head could be read, and then the one to its last byte.
    pub path: Vec<Step>,
    /// The least excess of this connection's round trips over the shortest of the others.
    always: Duration,
    /// By how much `server` and `pause` may be more, and `network` less: when an application wrote into
    /// a socket that was held back cannot be seen.
    pub open: Duration,
    /// Packets of either side that did not arrive.
    pub lost: usize,
    /// It is known what packets carried: over TCP, and over QUIC where they could be opened.
    pub opened: bool,
}

/// Why there is no truth of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// The sample did not come to its end, or has no wall-clock origin.
    NotMeasured,
    /// A packet that it needs is not in the captures.
    NotCaptured,
    /// The path led in a circle or before the connection.
    NoPath,
}

/// Where the time of `connection` truly went.
///
/// # Errors
/// Why that cannot be told.
pub fn truth(connection: &Connection, captured: &Captured, known: &Known) -> Result<Truth, Untold> {
    let places = Places::from_connection(connection).ok_or(Untold::NotMeasured)?;
    let streams = [End::Client, End::Server].map(|from| Stream::from_captured(captured, from));
    let reused = connection.facts.reused;
    let places = if reused { places.on_open(&streams) } else { places };
    let walk = Walk::new(streams, places, *known, captured.other_attempts.clone());
    let [first, readable, _] = walk.packets_of_response().ok_or(Untold::NotCaptured)?;
    let to = |packet| walk.clone().run_from(Event::Arrived(End::Server, packet));
    let (first, readable, last) = (to(first)?, to(readable)?, walk.clone().run()?);
    let back = i64::try_from(known.down.base.as_nanos()).unwrap_or(0);
    Ok(last.continuing(readable.continuing(first, back), back))
}

impl Truth {
    /// Follows `before` to its event, and this path from there on. The client sees the server's events of this path the
    /// way `back` later.
    fn continuing(self, before: Self, back: i64) -> Self {
        let first = before.path.last().map_or(i64::MIN, |step| step.to);
        // Each packet on its way leads from one end to the other, the last one to the client.
        let mut end = End::Client;
        let seen = |at: i64, end: End| if end == End::Server { at + back } else { at };
        let mut later: Vec<Step> = Vec::with_capacity(self.path.len());
        for step in self.path.iter().rev() {
            let to = seen(step.to, end);
            end = if step.rule == Rule::OnItsWay { end.other() } else { end };
            let seen_later = to - step.to;
            later.push(Step { from: seen(step.from, end).max(first), to, seen_later, ..*step });
        }
        later.retain(|step| step.to > step.from);
        let later = later.into_iter().rev();
        let path: Vec<Step> = before.path.into_iter().chain(later).collect();
        let parts = parts(&path, self.always, i64::MIN, i64::MAX);
        Self { parts, path, open: self.open.max(before.open), ..self }
    }

    /// The parts of `phase`, as the client saw it begin and end.
    pub fn phase(&self, phase: &Phase) -> Parts {
        parts(&self.path, self.always, phase.start.as_nanos(), phase.end.as_nanos())
    }
}

/// The parts of the steps between two times. What round trips `always` take longer is the network's.
fn parts(path: &[Step], always: Duration, from: i64, to: i64) -> Parts {
    let mut parts = Parts::default();
    let (mut ways, mut jittered) = (0, Duration::ZERO);
    for step in path {
        let took = step.to.min(to).saturating_sub(step.from.max(from));
        let took = Duration::from_nanos(u64::try_from(took).unwrap_or(0));
        *parts.part_mut(step.part) += took;
        ways += u32::from(step.rule == Rule::OnItsWay && !took.is_zero());
        jittered += if step.rule == Rule::Jitter { took } else { Duration::ZERO };
    }
    let always = (always * (ways / 2)).min(jittered);
    parts.variation -= always;
    parts.network += always;
    parts
}

#[cfg(test)]
mod tests;
