//! One direction of a connection: each packet with its departure and its arrival.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Captured, Datagram, End, Packet};

/// A packet as seen at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Time at the sender's device.
    pub departed: i64,
    /// Time at the receiver's device; absent if the packet was lost.
    pub arrived: Option<i64>,
    /// Range of its payload in the stream, empty without payload. For a datagram, its number.
    pub start: u64,
    pub end: u64,
    /// Bytes of the other side's stream that it acknowledges.
    pub acknowledges: Option<u64>,
    pub syn: bool,
    /// Length of the IP packet in bytes.
    pub bytes: u32,
}

impl Sent {
    pub(super) fn has_payload(&self) -> bool {
        self.end > self.start
    }
}

/// All packets of one direction, ordered by departure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stream {
    pub sent: Vec<Sent>,
    /// Indices of the packets that arrived, ordered by arrival.
    pub arrivals: Vec<usize>,
    /// When the receiver had everything before an offset, and the packet that completed it; both ascend.
    pub available: Vec<(u64, i64, usize)>,
    /// The contents of each packet over QUIC, if it could be decrypted.
    datagrams: Vec<Option<Arc<Datagram>>>,
}

impl Stream {
    pub(super) fn from_captured(captured: &Captured, from: End) -> Self {
        let (here, there) = match from {
            End::Client => (&captured.client, &captured.server),
            End::Server => (&captured.server, &captured.client),
        };
        let arrived: HashMap<u64, i64> =
            there.iter().filter(|p| p.from == from).map(|p| (p.id, p.at)).collect();
        let first = |packets: &[Packet], from: End| {
            let syn =
                packets.iter().filter(|p| p.from == from).find_map(|p| p.tcp.filter(|t| t.syn));
            syn.map(|segment| segment.seq.wrapping_add(1))
        };
        let own = first(here, from).unwrap_or_default();
        let others = first(there, from.other()).unwrap_or_default();
        let sent: Vec<Sent> = here
            .iter()
            .filter(|packet| packet.from == from)
            .enumerate()
            .map(|(number, packet)| {
                let arrived = arrived.get(&packet.id).copied();
                sent(packet, arrived, own, others, number as u64)
            })
            .collect();
        let mut arrivals: Vec<usize> =
            (0..sent.len()).filter(|i| sent[*i].arrived.is_some()).collect();
        arrivals.sort_by_key(|i| sent[*i].arrived);
        let available = available(&sent, &arrivals);
        let datagrams = here.iter().filter(|p| p.from == from).map(|p| p.quic.clone()).collect();
        Self { sent, arrivals, available, datagrams }
    }

    /// The contents of a packet over QUIC, if it could be decrypted.
    pub(super) fn opened(&self, index: usize) -> Option<&Datagram> {
        self.datagrams[index].as_deref()
    }

    /// The packet that completed the first `place` bytes at the receiver.
    pub(super) fn completes(&self, place: u64) -> Option<usize> {
        let index = self.available.partition_point(|(end, ..)| *end < place);
        self.available.get(index).map(|(.., packet)| *packet)
    }

    /// The first departure of the bytes that packet `index` begins with.
    pub(super) fn first_copy(&self, index: usize) -> usize {
        let sent = self.sent[index];
        if sent.syn {
            return self.sent.iter().position(|other| other.syn).unwrap_or(index);
        }
        if !sent.has_payload() {
            return index;
        }
        let covers = |other: &Sent| other.start <= sent.start && sent.start < other.end;
        self.sent[..index].iter().position(covers).unwrap_or(index)
    }

    /// The latest arrival at or before `at` of a packet that satisfies `so`.
    pub(super) fn last_arrival(&self, at: i64, so: impl Fn(&Sent) -> bool) -> Option<usize> {
        let before =
            self.arrivals.partition_point(|i| self.sent[*i].arrived.is_some_and(|a| a <= at));
        self.arrivals[..before].iter().rev().copied().find(|i| so(&self.sent[*i]))
    }

    /// The latest arrival at or before `at` of a packet whose index satisfies `so`.
    pub(super) fn last_arrived(&self, at: i64, so: impl Fn(usize) -> bool) -> Option<usize> {
        let before =
            self.arrivals.partition_point(|i| self.sent[*i].arrived.is_some_and(|a| a <= at));
        self.arrivals[..before].iter().rev().copied().find(|i| so(*i))
    }

    pub(super) fn arrival_before(&self, index: usize) -> Option<usize> {
        let place = self.arrivals.iter().position(|i| *i == index)?;
        self.arrivals.get(place.checked_sub(1)?).copied()
    }
}

fn sent(packet: &Packet, arrived: Option<i64>, own: u32, others: u32, number: u64) -> Sent {
    let (departed, bytes) = (packet.at, packet.bytes);
    match packet.tcp {
        // Streams are shorter than 2 GiB, so a larger distance is a negative one.
        Some(segment) => {
            let start =
                u64::from(segment.seq.wrapping_add(u32::from(segment.syn)).wrapping_sub(own));
            let start = if start > u64::from(u32::MAX / 2) { 0 } else { start };
            let acknowledged = |ack: u32| u64::from(ack.wrapping_sub(others));
            Sent {
                departed,
                arrived,
                start,
                end: start + u64::from(segment.payload),
                acknowledges: segment
                    .ack
                    .map(acknowledged)
                    .filter(|n| *n < u64::from(u32::MAX / 2)),
                syn: segment.syn,
                bytes,
            }
        }
        None => Sent {
            departed,
            arrived,
            start: number,
            end: number + 1,
            acknowledges: None,
            syn: false,
            bytes,
        },
    }
}

fn available(sent: &[Sent], arrivals: &[usize]) -> Vec<(u64, i64, usize)> {
    let mut waiting: Vec<usize> = Vec::new();
    let mut next = 0;
    let mut available = Vec::new();
    for index in arrivals {
        let packet = &sent[*index];
        if !packet.has_payload() {
            continue;
        }
        waiting.push(*index);
        let had = next;
        while let Some(place) =
            waiting.iter().position(|i| sent[*i].start <= next && sent[*i].end > next)
        {
            next = sent[waiting.swap_remove(place)].end;
        }
        waiting.retain(|i| sent[*i].end > next);
        if let Some(at) = packet.arrived.filter(|_| next > had) {
            available.push((next, at, *index));
        }
    }
    available
}
