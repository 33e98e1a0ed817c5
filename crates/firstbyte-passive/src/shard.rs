//! A shard of the flows: connections that no packet of another shard has to do with.
//!
//! In: the packets of its flows, in order. Out: what happened to connections. What comes out follows from these
//! packets alone, and so does not depend on which thread follows which shard.

use super::intake::Arrival;
use super::layers::Transport;
use super::limits::Limits;
use super::numbers::{Happened, Output, Spent};
use super::quic::{self, Datagram};
use super::tcp;
use super::{Hygiene, Observed, Time};

/// Follows the flows of one shard.
#[derive(Debug)]
pub struct Shard(Flows);

#[derive(Debug)]
enum Flows {
    Tcp(tcp::Connections),
    Udp(quic::Connections),
}

impl Shard {
    /// All shards: those of TCP, which share its limits, and behind them UDP's.
    pub(super) fn all(limits: Limits) -> Vec<Self> {
        let shards = limits.shards.max(1);
        let share = Limits {
            connections: limits.connections.div_ceil(shards),
            half_open: limits.half_open.div_ceil(shards),
            held_bytes: limits.held_bytes.div_ceil(shards),
            ..limits
        };
        let tcp = (0..shards).map(|_| Self(Flows::Tcp(tcp::Connections::new(share))));
        tcp.chain([Self(Flows::Udp(quic::Connections::new(limits)))]).collect()
    }

    pub(super) fn live(&self) -> usize {
        match &self.0 {
            Flows::Tcp(tcp) => tcp.live(),
            Flows::Udp(quic) => quic.live(),
        }
    }

    /// The next packet of this shard. Copies and what was given up are counted in `hygiene`.
    #[inline]
    pub fn packet(
        &mut self,
        arrival: &Arrival<'_>,
        happened: &mut Happened,
        hygiene: &mut Hygiene,
    ) {
        let Arrival { at, timed, packet, frame, .. } = arrival;
        let mut out = Output { hygiene, frame: *frame, timed: *timed, happened };
        match (packet.transport, &mut self.0) {
            (Transport::Tcp(segment), Flows::Tcp(tcp)) => {
                tcp.segment(*at, packet, &segment, &mut out);
            }
            (Transport::Udp(payload), Flows::Udp(quic)) => {
                let (source, destination) = (packet.source, packet.destination);
                quic.datagram(&Datagram { at: *at, source, destination, payload }, &mut out);
            }
            // It is another shard's.
            _ => {}
        }
    }

    /// The frame with which the connection of the last packet began; none where it belongs to none.
    pub(super) const fn latest(&self) -> Option<u64> {
        match &self.0 {
            Flows::Tcp(tcp) => tcp.latest(),
            Flows::Udp(quic) => quic.latest(),
        }
    }

    /// Gives out what has been silent for so long at `to` that it is over.
    pub(super) fn advance(&mut self, to: Time, out: &mut Output<'_>) {
        match &mut self.0 {
            Flows::Tcp(tcp) => tcp.advance(to, out),
            Flows::Udp(quic) => quic.advance(to, out),
        }
    }

    fn rest(&mut self) -> Rest {
        match &mut self.0 {
            Flows::Tcp(tcp) => Rest::Tcp(tcp.rest()),
            Flows::Udp(quic) => Rest::Udp(quic.rest()),
        }
    }
}

/// The capture is over: the connections of some shards that were under way, in the order in which they began.
/// They are ended one by one, as they are asked for.
pub struct OpenConnections(Vec<Rest>);

impl OpenConnections {
    /// Takes them out of `shards`.
    pub fn take_from(shards: &mut [Shard]) -> Self {
        Self(shards.iter_mut().map(Shard::rest).collect())
    }
}

impl OpenConnections {
    /// Puts the next one in the place of one that was given out; false where there are no more.
    pub fn next_instead_of(&mut self, place: &mut Observed) -> bool {
        let Some(rest) = self.first() else { return false };
        match rest.next(Spent::take_from(place)) {
            Some(observed) => *place = observed,
            None => return false,
        }
        true
    }

    fn first(&mut self) -> Option<&mut Rest> {
        let rests = self.0.iter_mut().filter(|rest| rest.number().is_some());
        rests.min_by_key(|rest| rest.number())
    }
}

impl Iterator for OpenConnections {
    type Item = Observed;

    fn next(&mut self) -> Option<Observed> {
        self.first()?.next(Spent::default())
    }
}

/// Connections of one shard that were under way at the end.
enum Rest {
    Tcp(tcp::Rest),
    Udp(quic::Rest),
}

impl Rest {
    /// The number of the one that comes next.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Tcp(rest) => rest.number(),
            Self::Udp(rest) => rest.number(),
        }
    }

    fn next(&mut self, spent: Spent) -> Option<Observed> {
        match self {
            Self::Tcp(rest) => rest.next(spent),
            Self::Udp(rest) => rest.next(),
        }
    }
}
