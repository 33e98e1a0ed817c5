//! A shard: a group of connections that shares no packets with other shards.
//!
//! In: the packets of its flows, in order. Out: connection events. The output depends only on these packets, and so not
//! on which thread processes which shard.

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
    /// All shards: TCP's, which divide the limits among them, then UDP's.
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

    /// Takes the next packet of this shard. Copies and dropped connections are counted in `hygiene`.
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
            // The packet belongs to another shard.
            _ => {}
        }
    }

    /// The frame with which the last packet's connection began; absent if it belongs to none.
    pub(super) const fn latest(&self) -> Option<u64> {
        match &self.0 {
            Flows::Tcp(tcp) => tcp.latest(),
            Flows::Udp(quic) => quic.latest(),
        }
    }

    /// Reports connections that count as idle at `to`.
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

/// The connections of some shards that were open at the end of the capture, in the order in which they began. Each is
/// ended only when it is requested.
pub struct OpenConnections(Vec<Rest>);

impl OpenConnections {
    /// Takes the open connections out of `shards`.
    pub fn take_from(shards: &mut [Shard]) -> Self {
        Self(shards.iter_mut().map(Shard::rest).collect())
    }
}

impl OpenConnections {
    /// Replaces a reported connection by the next one. Returns false if there are no more.
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

/// Connections of one shard that were open at the end.
enum Rest {
    Tcp(tcp::Rest),
    Udp(quic::Rest),
}

impl Rest {
    /// The number of the next connection.
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
