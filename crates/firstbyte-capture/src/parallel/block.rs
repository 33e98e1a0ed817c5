//! A piece of a capture with its packets, in a form that several threads can process.
//!
//! In: the piece's bytes, then packets as they are found. Out: each shard's packets, in order. Payloads are not copied,
//! and headers are parsed only once, by the thread that found the packet.

use std::hint::black_box;
use std::slice;

use firstbyte_passive::layers::{Endpoint, Packet, Payload, Segment, Transport};
use firstbyte_passive::{Arrival, Time};

/// Bytes of a file read at once. A few pieces fit in a core's own cache.
pub(super) const PIECE: usize = 256 * 1024;
/// Space in front of the bytes, for the beginning of a frame that spans two pieces.
pub(super) const ROOM: usize = 64 * 1024;

/// A piece, and the packets in it.
#[derive(Debug)]
pub(super) struct Block {
    /// The thread that fills the block and has it in its cache.
    pub(super) owner: usize,
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Packets,
}

#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Bytes of reassembled datagrams.
    whole: Vec<u8>,
    /// Packets by shard.
    lists: Vec<Vec<Stored>>,
}

/// A packet without its payload.
#[derive(Debug)]
struct Stored {
    frame: u64,
    at: Time,
    source: Endpoint,
    destination: Endpoint,
    identification: u16,
    checksum: u16,
    flags: u8,
    is_tcp: bool,
    reassembled: bool,
    timed: bool,
    maximum_segment: Option<u16>,
    sequence: u32,
    acknowledgment: u32,
    /// Offset of the payload, and its captured and original lengths.
    start: u32,
    captured: u32,
    payload_bytes: u32,
}

impl Block {
    pub(super) fn new(owner: usize) -> Self {
        Self { owner, bytes: vec![0; ROOM + PIECE], packets: Packets::default() }
    }

    /// Makes the block ready to be filled again.
    pub(super) fn clear(&mut self) {
        // A frame that did not fit replaced the buffer by another one.
        if self.bytes.len() != ROOM + PIECE {
            self.bytes = vec![0; ROOM + PIECE];
        }
        self.packets.whole.clear();
        self.packets.lists.iter_mut().for_each(Vec::clear);
    }

    /// The shards that have packets in the block.
    pub(super) fn shards(&self) -> impl Iterator<Item = usize> {
        let lists = self.packets.lists.iter().enumerate();
        lists.filter(|(_, list)| !list.is_empty()).map(|(shard, _)| shard)
    }

    /// Touches the payloads of a shard's packets. They are in the cache of the thread that read the piece; fetching
    /// them all together is faster than one by one.
    pub(super) fn touch(&self, shard: usize) {
        let list = self.packets.lists.get(shard).map_or(&[][..], Vec::as_slice);
        let first = |stored: &Stored| self.bytes.get(stored.start as usize).copied();
        black_box(list.iter().filter_map(first).fold(0, |all, byte| all | byte));
    }

    /// The packets of a shard.
    pub(super) fn arrivals(&self, shard: usize) -> impl Iterator<Item = Arrival<'_>> {
        let list: slice::Iter<'_, Stored> =
            self.packets.lists.get(shard).map_or_else(Default::default, |list| list.iter());
        list.map(move |stored| stored.arrival(shard, &self.bytes, &self.packets.whole))
    }
}

impl Packets {
    /// Adds a packet found in the block's `bytes`.
    #[inline]
    pub(super) fn add(&mut self, arrival: &Arrival<'_>, bytes: &[u8]) {
        let packet = &arrival.packet;
        let (payload, segment) = match packet.transport {
            Transport::Tcp(segment) => (segment.payload, Some(segment)),
            Transport::Udp(payload) => (payload, None),
        };
        let start = if arrival.reassembled {
            self.whole.extend_from_slice(payload.captured);
            self.whole.len() - payload.captured.len()
        } else if payload.captured.is_empty() {
            0
        } else {
            payload.captured.as_ptr().addr() - bytes.as_ptr().addr()
        };
        if self.lists.len() <= arrival.shard {
            self.lists.resize_with(arrival.shard + 1, Vec::new);
        }
        self.lists[arrival.shard].push(Stored {
            frame: arrival.frame,
            at: arrival.at,
            source: packet.source,
            destination: packet.destination,
            identification: packet.identification,
            checksum: segment.map_or(0, |segment| segment.checksum),
            flags: segment.map_or(0, |segment| segment.flags),
            is_tcp: segment.is_some(),
            reassembled: arrival.reassembled,
            timed: arrival.timed,
            maximum_segment: segment.and_then(|segment| segment.maximum_segment),
            sequence: segment.map_or(0, |segment| segment.sequence),
            acknowledgment: segment.map_or(0, |segment| segment.acknowledgment),
            start: start as u32,
            captured: payload.captured.len() as u32,
            payload_bytes: payload.bytes,
        });
    }
}

impl Stored {
    #[inline]
    fn arrival<'a>(&self, shard: usize, bytes: &'a [u8], whole: &'a [u8]) -> Arrival<'a> {
        let place = self.start as usize..self.start as usize + self.captured as usize;
        let captured = if self.reassembled { whole } else { bytes }.get(place).unwrap_or_default();
        let payload = Payload { captured, bytes: self.payload_bytes };
        let transport = if self.is_tcp {
            Transport::Tcp(Segment {
                sequence: self.sequence,
                acknowledgment: self.acknowledgment,
                flags: self.flags,
                checksum: self.checksum,
                maximum_segment: self.maximum_segment,
                payload,
            })
        } else {
            Transport::Udp(payload)
        };
        let packet = Packet {
            source: self.source,
            destination: self.destination,
            identification: self.identification,
            transport,
        };
        let (frame, at) = (self.frame, self.at);
        let (timed, reassembled) = (self.timed, self.reassembled);
        Arrival { frame, at, timed, shard, packet, reassembled }
    }
}
