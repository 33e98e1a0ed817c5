//! Reads packets from frames and assigns each to a shard.
//!
//! In: all frames of a capture, in order. Out: packets with their times. Global state is here: the filter, the clock,
//! fragments, counts of unreadable frames. All packets of one connection go to one shard, so that shards need not know
//! of each other. This module must not look at connections.

use std::sync::{Arc, OnceLock};

use super::filter::Filter;
use super::fragments::Fragments;
use super::layers::{self, Endpoint, Packet, Transport, Unread};
use super::{Hygiene, Limits, Time};
use firstbyte_core::pcap::Frame;

/// Frames older than the one before by at most this were reordered; older ones mean that the clock was set.
const REORDERED_NS: i64 = 1_000_000_000;

/// A packet and its shard.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Number of the packet's frame, counted from 1.
    pub frame: u64,
    /// The frame's time; if it has none, that of the frame before.
    pub at: Time,
    /// Whether the frame has a time.
    pub timed: bool,
    /// Index of the packet's shard.
    pub shard: usize,
    /// The packet.
    pub packet: Packet<'a>,
    /// Whether it was reassembled from fragments: its bytes are not the frame's.
    pub reassembled: bool,
}

/// When a capture began: the time of its first frame, which is known before any connection is reported. Code that
/// writes connections as they end holds a copy.
#[derive(Clone, Debug, Default)]
pub struct Begin(Arc<OnceLock<Time>>);

impl Begin {
    /// Absent before the first frame, and if that has no time.
    pub fn time(&self) -> Option<Time> {
        self.0.get().copied()
    }
}

/// Processes frames in order.
#[derive(Debug)]
pub struct Intake {
    filter: Filter,
    begin: Begin,
    hygiene: Hygiene,
    fragments: Fragments,
    last: Option<Time>,
    /// Number of TCP shards; the UDP shard comes after them.
    shards: usize,
}

impl Intake {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            filter: Filter::default(),
            begin: Begin::default(),
            hygiene: Hygiene::default(),
            fragments: Fragments::default(),
            last: None,
            shards: limits.shards.max(1),
        }
    }

    pub(super) fn set_filter(&mut self, filter: Filter) {
        self.filter = filter;
    }

    /// A handle that tells later when the capture began.
    pub(super) fn begin(&self) -> Begin {
        self.begin.clone()
    }

    /// Counts for the capture as a whole so far.
    pub(super) const fn hygiene(&self) -> &Hygiene {
        &self.hygiene
    }

    pub(super) const fn hygiene_mut(&mut self) -> &mut Hygiene {
        &mut self.hygiene
    }

    /// The packet in the next frame, if there is one to follow. A datagram that this frame completes is written to
    /// `whole`.
    #[inline]
    pub fn frame<'a>(&mut self, frame: &Frame<'a>, whole: &'a mut Vec<u8>) -> Option<Arrival<'a>> {
        if !self.filter.passes(frame.link, frame.captured, frame.wire_bytes) {
            return None;
        }
        let hygiene = &mut self.hygiene;
        hygiene.frames += 1;
        hygiene.wire_bytes += u64::from(frame.wire_bytes);
        if self.last.is_none()
            && let Some(first) = frame.at
        {
            // Only the first frame sets this, so it cannot be set already.
            let _ = self.begin.0.set(first);
        }
        let at = match frame.at {
            Some(at) => at,
            None => {
                hygiene.untimed += 1;
                self.last.unwrap_or_default()
            }
        };
        self.clock(at);
        match layers::plain_tcp(frame.link, frame.captured, frame.wire_bytes) {
            Some(packet) => Some(self.arrival(frame, at, packet, false)),
            None => self.any_packet(frame, at, whole),
        }
    }

    /// Parses a frame of any kind.
    #[inline(never)]
    fn any_packet<'a>(
        &mut self,
        frame: &Frame<'a>,
        at: Time,
        whole: &'a mut Vec<u8>,
    ) -> Option<Arrival<'a>> {
        let (packet, reassembled) =
            match layers::packet(frame.link, frame.captured, frame.wire_bytes) {
                Ok(packet) => (packet, false),
                Err(unread) => (self.unread(at, &unread, whole)?, true),
            };
        Some(self.arrival(frame, at, packet, reassembled))
    }

    #[inline]
    fn arrival<'a>(
        &mut self,
        frame: &Frame<'_>,
        at: Time,
        packet: Packet<'a>,
        reassembled: bool,
    ) -> Arrival<'a> {
        let (payload, shard) = match packet.transport {
            Transport::Tcp(segment) => {
                self.hygiene.tcp_packets += 1;
                (segment.payload, shard_of(packet.source, packet.destination, self.shards))
            }
            // All UDP goes to one shard, because connection IDs link datagrams whatever their addresses are.
            Transport::Udp(payload) => {
                self.hygiene.udp_packets += 1;
                (payload, self.shards)
            }
        };
        self.hygiene.cut_payloads += u64::from(payload.captured.len() < payload.bytes as usize);
        Arrival {
            frame: self.hygiene.frames,
            at,
            timed: frame.at.is_some(),
            shard,
            packet,
            reassembled,
        }
    }

    #[inline]
    fn clock(&mut self, at: Time) {
        if let Some(last) = self.last {
            let since = at.signed_since(last);
            if since < -REORDERED_NS {
                self.hygiene.clock_steps += 1;
            } else if since < 0 {
                self.hygiene.out_of_order_times += 1;
            }
        }
        self.last = Some(at);
        self.hygiene.span = Some(match self.hygiene.span {
            Some((first, last)) => (first.min(at), last.max(at)),
            None => (at, at),
        });
    }

    /// The packet that this fragment completes; anything else is counted.
    fn unread<'a>(
        &mut self,
        at: Time,
        unread: &Unread<'_>,
        whole: &'a mut Vec<u8>,
    ) -> Option<Packet<'a>> {
        let count = match unread {
            Unread::Fragment(fragment) => {
                self.hygiene.fragments += 1;
                *whole = self.fragments.add(at, fragment)?;
                self.hygiene.reassembled += 1;
                let packet = layers::reassembled(fragment, whole);
                self.hygiene.other_transports += u64::from(packet.is_err());
                return packet.ok();
            }
            Unread::NotIp => &mut self.hygiene.not_ip,
            Unread::OtherTransport => &mut self.hygiene.other_transports,
            Unread::Cut => &mut self.hygiene.cut_headers,
            Unread::Malformed => &mut self.hygiene.malformed,
            Unread::UnknownLink(_) => &mut self.hygiene.unknown_links,
        };
        *count += 1;
        None
    }
}

/// The shard of `shards` for a flow between two endpoints, in either direction. The hash is the same in every run, so
/// that results are too. An attacker who chooses addresses that fill one shard reaches only that shard's limits.
#[inline]
pub(super) fn shard_of(source: Endpoint, destination: Endpoint, shards: usize) -> usize {
    let mixed = |end: Endpoint| {
        let (high, low, port) = end.parts();
        let bits = low ^ high.rotate_left(29) ^ u64::from(port) << 40;
        let bits = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (bits ^ bits >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let both = mixed(source).wrapping_add(mixed(destination));
    let both = (both ^ both >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((both >> 32) * shards as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{Endpoint, shard_of};

    #[test]
    fn flows_are_spread_evenly_and_both_directions_meet() {
        const SHARDS: usize = 8;
        let server = Endpoint::new(IpAddr::from([192, 0, 2, 1]), 443);
        for step in [0u32, 1, 256] {
            let mut counts = [0; SHARDS];
            for n in 0..8_000u32 {
                let address = IpAddr::from((0x0a00_0000 + n * step).to_be_bytes());
                let client = Endpoint::new(address, 1_024 + (n * u32::from(step == 0)) as u16);
                let shard = shard_of(client, server, SHARDS);
                assert_eq!(shard, shard_of(server, client, SHARDS));
                counts[shard] += 1;
            }
            assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        }
    }
}
