//! The contents of QUIC packets, if they could be decrypted: which arrival brought new bytes, and which departure
//! repeated earlier bytes.

use std::collections::HashMap;

use super::stream::Stream;
use super::{Datagram, Lane, Piece};
use firstbyte_core::wire::frames::Space;

/// The bytes of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lanes {
    /// By packet: the first departure of the bytes that its arrival brought.
    first: Vec<Option<usize>>,
    /// By packet: whether it arrived but the receiver dropped it.
    dropped: Vec<bool>,
    /// By packet: whether it carries bytes of the handshake or of the exchange.
    carries: Vec<bool>,
    /// Offsets up to which the exchange's stream was complete, with the packet that completed them; both ascend.
    pub edges: Vec<(u64, usize)>,
}

/// The exchange's stream: the last one opened by the client with bytes that arrived before `until`.
pub(super) fn exchange(server: &Stream, until: i64) -> Option<u64> {
    let came = |index: &usize| server.sent[*index].arrived.is_some_and(|at| at <= until);
    let datagrams = server.arrivals.iter().filter(|i| came(i)).filter_map(|i| server.opened(*i));
    let streams = datagrams.flat_map(|d| &d.pieces).filter_map(|piece| match piece.lane {
        // Client-initiated, bidirectional (RFC 9000 §2.1).
        Lane::Stream(id) if id % 4 == 0 => Some(id),
        _ => None,
    });
    streams.max()
}

impl Lanes {
    /// Processes the handshake and stream `exchange`. Packets that the receiver dropped count as not arrived.
    pub(super) fn from_streams(stream: &Stream, other: &Stream, exchange: u64) -> Self {
        let is_looked_at = |piece: &&Piece| match piece.lane {
            Lane::Handshake(space) => space != Space::Application,
            Lane::Stream(id) => id == exchange,
        };
        let pieces = |index: usize| {
            let datagram = stream.opened(index);
            datagram.into_iter().flat_map(|d| &d.pieces).filter(is_looked_at)
        };
        let packets = stream.sent.len();
        let mut lanes = Self {
            first: vec![None; packets],
            dropped: vec![false; packets],
            carries: (0..packets).map(|index| pieces(index).next().is_some()).collect(),
            edges: Vec::new(),
        };
        let mut there: HashMap<Lane, Vec<(u64, u64)>> = HashMap::new();
        let told: Vec<&Datagram> =
            (0..other.sent.len()).filter_map(|index| other.opened(index)).collect();
        let is_told = |index: usize| stream.opened(index).is_some_and(|d| is_told(d, &told));
        // A first packet that could not be decrypted was a Retry: the server had accepted nothing sent before it.
        let retry = other.arrivals.first().filter(|index| other.opened(**index).is_none());
        let retried = retry.and_then(|index| other.sent[*index].arrived).unwrap_or(i64::MIN);
        for index in stream.arrivals.iter().copied() {
            let again = |piece: &Piece| {
                let later = index + 1..stream.sent.len();
                later.filter(|i| is_told(*i)).any(|i| pieces(i).any(|p| p.covers(piece)))
            };
            if !is_told(index) && pieces(index).any(again) {
                lanes.dropped[index] = true;
                continue;
            }
            for piece in pieces(index) {
                let had = there.entry(piece.lane).or_default();
                let edge = edge(had);
                if !add(had, piece) {
                    continue;
                }
                let copies = |other: &usize| {
                    let taken = stream.sent[*other].departed >= retried;
                    taken && pieces(*other).any(|p| p.covers(piece))
                };
                let first = (0..index).find(copies).unwrap_or(index);
                let known = &mut lanes.first[index];
                *known = Some(known.map_or(first, |known| known.min(first)));
                let now = self::edge(had);
                if now > edge && piece.lane == Lane::Stream(exchange) {
                    lanes.edges.push((now, index));
                }
            }
        }
        lanes
    }

    pub(super) fn dropped(&self, index: usize) -> bool {
        self.dropped[index]
    }

    /// Whether its arrival brought bytes that had not arrived before.
    pub(super) fn brought(&self, index: usize) -> bool {
        self.first[index].is_some()
    }

    /// The first departure of the bytes that its arrival brought; the packet itself if it was the first.
    pub(super) fn first_copy(&self, index: usize) -> usize {
        self.first[index].unwrap_or(index)
    }

    pub(super) fn carries(&self, index: usize) -> bool {
        self.carries[index]
    }

    /// The packet that completed all bytes of the exchange that arrived before `until`.
    pub(super) fn completed(&self, stream: &Stream, until: i64) -> Option<usize> {
        let came = |index: usize| stream.sent[index].arrived.is_some_and(|at| at <= until);
        self.edges.iter().rev().map(|(_, index)| *index).find(|index| came(*index))
    }
}

impl Piece {
    fn covers(&self, other: &Self) -> bool {
        self.lane == other.lane && self.start <= other.start && other.start < self.end
    }
}

/// The offset up to which everything has arrived.
fn edge(had: &[(u64, u64)]) -> u64 {
    had.first().filter(|(from, _)| *from == 0).map_or(0, |(_, to)| *to)
}

/// Adds a piece to the disjoint, ordered ranges of `had`. Returns whether any of it was new.
fn add(had: &mut Vec<(u64, u64)>, piece: &Piece) -> bool {
    let (from, to) = (piece.start, piece.end);
    if from >= to || had.iter().any(|(a, b)| *a <= from && to <= *b) {
        return false;
    }
    let first = had.partition_point(|(_, b)| *b < from);
    let behind = had.partition_point(|(a, _)| *a <= to);
    let joined =
        had[first..behind].iter().fold((from, to), |(x, y), (a, b)| (x.min(*a), y.max(*b)));
    had.splice(first..behind, [joined]);
    true
}

/// Whether all packets of a datagram are acknowledged.
fn is_told(datagram: &Datagram, told: &[&Datagram]) -> bool {
    datagram.packets.iter().all(|(space, number)| {
        let ranges = told.iter().flat_map(|d| &d.acknowledges);
        ranges.filter(|(of, ..)| of == space).any(|(_, a, b)| (a..=b).contains(&number))
    })
}

/// The bytes of the server's datagrams before `before` that are still in flight when the client's packet `heard`
/// arrives; acknowledgements in `heard` itself do not count.
pub(super) fn under_way(server: &Stream, client: &Stream, heard: usize, before: usize) -> u64 {
    let until = client.sent[heard].arrived;
    let told = client.arrivals.iter().filter(|i| **i != heard && client.sent[**i].arrived <= until);
    let told: Vec<&Datagram> = told.filter_map(|i| client.opened(*i)).collect();
    let sent = (0..before).filter_map(|i| Some((server.opened(i)?, server.sent[i].bytes)));
    sent.filter(|(d, _)| d.elicits && !is_told(d, &told)).map(|(_, bytes)| u64::from(bytes)).sum()
}
