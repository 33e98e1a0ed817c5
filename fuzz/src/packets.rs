//! Frames made of segments and datagrams, and an analyzer whose results are checked against the laws.

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::{Analyzer, Limits, Observed, Time};

use crate::laws;

/// Few connections and little memory, so that a small input reaches the limits. Each shard may hold the memory needed
/// for a stream of 32 kB that arrives backwards.
pub fn small() -> Limits {
    Limits { connections: 48, half_open: 8, held_bytes: 2 << 16, shards: 2, ..Limits::default() }
}

/// An analyzer, with the connections it emitted.
pub struct Tap {
    analyzer: Analyzer,
    limits: Limits,
    all: Vec<Observed>,
}

impl Tap {
    pub fn new(limits: Limits) -> Self {
        Self { analyzer: Analyzer::new(limits), limits, all: Vec::new() }
    }

    pub fn frame(&mut self, frame: &Frame<'_>) {
        let all = &mut self.all;
        self.analyzer.frame(frame, &mut |observed| all.push(observed.clone()));
        assert!(self.analyzer.live() <= 2 * self.limits.connections, "more than may be live");
    }

    /// Feeds an Ethernet frame.
    pub fn ethernet(&mut self, at_ns: i64, frame: &[u8], cut: usize) {
        let at = Some(Time::from_unix_ns(at_ns));
        let wire_bytes = frame.len() as u32;
        let captured = &frame[..frame.len().saturating_sub(cut)];
        self.frame(&Frame { at, link: LinkType(1), captured, wire_bytes });
    }

    /// Ends the capture, checks the laws, and returns all connections.
    pub fn end(mut self) -> Vec<Observed> {
        let all = &mut self.all;
        self.analyzer.finish(&mut |observed| all.push(observed.clone()));
        assert_eq!(self.analyzer.live(), 0, "connections that were not given out");
        laws::hold(&self.all, self.analyzer.hygiene(), &self.limits);
        self.all.sort_by_key(|observed| observed.number);
        self.all
    }
}

/// A TCP segment to generate.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    pub side: usize,
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub payload: &'a [u8],
}

/// An IPv4 packet in an Ethernet frame; the identification distinguishes retransmissions from copies.
pub fn tcp(segment: &Segment<'_>, identification: u16) -> Vec<u8> {
    let mut body = Vec::with_capacity(20 + segment.payload.len());
    let ports = [50_000u16, 443];
    body.extend(ports[segment.side].to_be_bytes());
    body.extend(ports[1 - segment.side].to_be_bytes());
    body.extend(segment.sequence.to_be_bytes());
    body.extend(segment.acknowledgment.to_be_bytes());
    body.extend([0x50, segment.flags, 1, 0, 0, 0, 0, 0]);
    body.extend(segment.payload);
    ip(6, segment.side, identification, &body)
}

/// A UDP datagram in an Ethernet frame, from or to the client's `port`.
pub fn udp(side: usize, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(8 + payload.len());
    let ports = [port, 443];
    body.extend(ports[side].to_be_bytes());
    body.extend(ports[1 - side].to_be_bytes());
    body.extend((8 + payload.len() as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend(payload);
    ip(17, side, 0, &body)
}

fn ip(protocol: u8, side: usize, identification: u16, body: &[u8]) -> Vec<u8> {
    let ends = [[10, 0, 0, 1], [192, 0, 2, 1]];
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + body.len() as u16).to_be_bytes());
    frame.extend(identification.to_be_bytes());
    frame.extend([0, 0, 64, protocol, 0, 0]);
    frame.extend(ends[side]);
    frame.extend(ends[1 - side]);
    frame.extend(body);
    frame
}
