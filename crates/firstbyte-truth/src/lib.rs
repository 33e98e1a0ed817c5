//! The truth about where a measured connection's time went, from captures at both of its ends.
//!
//! Input: the packets of one connection as they passed the client's and the server's device, with times of the same
//! clock; the configuration of the path between; and, from the measured [`Connection`], positions in the two streams
//! (where the request ends, where the response begins and ends), but no times except its origin. Output: the same parts
//! that [`split`](firstbyte_core::split) derives from the client's end alone, for comparison. The two share no rules:
//! this crate walks the critical path packet by packet. The definitions are in `docs/measurement.md`, "Accuracy of the
//! parts".

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
    /// The end that connects.
    Client,
    /// The end that accepts the connection.
    Server,
}

impl End {
    /// The other end.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// The relevant parts of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number, if the flag is set.
    pub ack: Option<u32>,
    /// Whether SYN is set.
    pub syn: bool,
    /// Length of the payload.
    pub payload: u32,
}

/// The origin of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The handshake, in packets of this packet number space.
    Handshake(Space),
    /// The stream with this number.
    Stream(u64),
}

/// Bytes that a QUIC packet carries. The end of a stream counts as one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where the bytes belong.
    pub lane: Lane,
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

/// The relevant contents of a datagram's QUIC packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Packet number spaces and numbers.
    pub packets: Vec<(Space, u64)>,
    /// Packets of the other side that they acknowledge, first and last number.
    pub acknowledges: Vec<(Space, u64, u64)>,
    /// Bytes that they carry.
    pub pieces: Vec<Piece>,
    /// Whether they are ack-eliciting.
    pub elicits: bool,
    /// Whether there are 0-RTT packets among them.
    pub early: bool,
}

/// A packet as it passed one end's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time in nanoseconds since the Unix epoch.
    pub at: i64,
    /// The sender.
    pub from: End,
    /// The same number at both ends, and different from all other packets of the connection. A retransmission has
    /// another number (the IP identification, the timestamp option, or the payload differ).
    pub id: u64,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
    /// The TCP segment; absent for a UDP datagram.
    pub tcp: Option<Segment>,
    /// The QUIC packets, if they could be decrypted.
    pub quic: Option<Arc<Datagram>>,
}

/// The packets of one connection at both ends, each ordered by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// At the client's device.
    pub client: Vec<Packet>,
    /// At the server's device.
    pub server: Vec<Packet>,
    /// When other connection attempts began: SYNs to other addresses at the client's device.
    pub other_attempts: Vec<i64>,
}

/// One direction of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Way {
    /// Minimum time of a packet, without its own transmission time.
    pub base: Duration,
    /// Configured nanoseconds per byte of the IP packet; zero if there is no rate limit.
    pub ns_per_byte: f64,
}

impl Way {
    /// How long the link is busy with a packet.
    fn busy(&self, bytes: u32) -> i64 {
        (self.ns_per_byte * f64::from(bytes)) as i64
    }
}

/// Known facts about a path and a server, besides packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    /// From the client to the server.
    pub up: Way,
    /// From the server to the client.
    pub down: Way,
    /// Whether the server answers early data only after the client's Finished.
    pub answers_after_finished: bool,
    /// Total time that the application was configured to think and to pause.
    pub application: Duration,
    /// Whether it was configured to pause within its response.
    pub pauses: bool,
    /// The server's initial congestion window over QUIC, in bytes.
    pub window: u64,
}

/// The minimum times of both directions over some connections, without the packets' own transmission times.
///
/// Absent if no packet of a direction arrived.
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

/// A section of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The part that the time belongs to.
    pub part: Part,
    /// Begin in nanoseconds since the origin.
    pub from: i64,
    /// End in nanoseconds since the origin.
    pub to: i64,
    /// How much later `from` and `to` are than at the server: within a response, both are as the client sees them.
    pub seen_later: i64,
    /// The rule that produced the step.
    pub rule: Rule,
    /// If a departure of the server's ends the step: the offset in its stream of the last byte that left. If earlier
    /// bytes were held back with it, it is the last byte needed to let the segment go.
    pub place: Option<u64>,
}

/// Why an event came no sooner after the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Before the first packet: name resolution.
    Resolved,
    /// Before the first packet, or between an arrival and a departure: the client's work.
    ClientWorked,
    /// Another address was tried first.
    AnotherAddress,
    /// A packet was on its way.
    OnItsWay,
    /// A packet took longer than the path's minimum.
    Jitter,
    /// The link was busy with the packet itself.
    OwnRate,
    /// The link was busy with the previous packet.
    BehindAnother,
    /// The first copy was lost.
    Lost,
    /// The server wrote once it had the data that it answers.
    Answered,
    /// The server wrote again after an earlier write.
    WroteOn,
    /// Two departures belong to one write.
    Burst,
    /// An acknowledgement released the packet.
    Released,
    /// The acknowledgement was delayed.
    DelayedAck,
}

/// The truth about where a connection's time went.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The parts. They add up to the time from the origin to the arrival of the last byte.
    pub parts: Parts,
    /// From the origin on, without gaps: the critical path to the response's first packet, then the path to where its
    /// head became readable, and then the path to its last byte.
    pub path: Vec<Step>,
    /// Minimum excess of this connection's round trips over the shortest round trip of the others.
    always: Duration,
    /// How much larger `server` and `pause` may be, and how much smaller `network`: it is not visible when an
    /// application wrote into a socket that was held back.
    pub open: Duration,
    /// Packets of either side that did not arrive.
    pub lost: usize,
    /// Whether the contents of packets are known: always over TCP, and over QUIC if they could be decrypted.
    pub opened: bool,
}

/// Why there is no truth about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untold {
    /// The sample did not complete, or has no wall-clock origin.
    NotMeasured,
    /// A required packet is missing from the captures.
    NotCaptured,
    /// The path led in a circle, or to before the connection.
    NoPath,
}

/// Determines where the time of `connection` truly went.
///
/// # Errors
/// Why that cannot be determined.
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
    /// Continues `before`, the path to an earlier event, with the part of this path after that event. The client sees
    /// this path's events at the server later by `back`, the time of the way to the client.
    fn continuing(self, before: Self, back: i64) -> Self {
        let first = before.path.last().map_or(i64::MIN, |step| step.to);
        // Each `OnItsWay` step leads from one end to the other, the last one to the client.
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

/// The parts of the steps between two times. The excess of all round trips, `always`, is attributed to the network.
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
