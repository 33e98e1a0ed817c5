//! Deliberate loss of the packets that open TCP connections: the same packets in every run of a
//! scenario.
//!
//! In: IP packets in one direction. Out: which of them are lost. Retransmissions pass once as many packets
//! as configured have been lost. Only the last few thousand connections are remembered.

use std::collections::{HashMap, VecDeque};

/// Maximum number of connections remembered. A forgotten connection loses its first packets again.
const REMEMBERED: usize = 4_096;
const TCP: u8 = 6;
const SYN: u8 = 0x02;

/// Loses the first packets of every connection in one direction.
#[derive(Debug, Clone)]
pub(super) struct OpeningLoss {
    syn: u32,
    data: u32,
    seen: HashMap<Flow, Seen>,
    order: VecDeque<Flow>,
}

/// Addresses as in the packet, and ports.
type Flow = (Vec<u8>, [u8; 4]);

/// Packets of a connection seen in this direction.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    initial_sequence: Option<[u8; 4]>,
    syn: u32,
    data: u32,
}

impl OpeningLoss {
    /// Loses the first `syn` packets with SYN and the first `data` packets with data; `None` if both are 0.
    pub(super) fn new(syn: u32, data: u32) -> Option<Self> {
        let order = VecDeque::new();
        (syn > 0 || data > 0).then(|| Self { syn, data, seen: HashMap::new(), order })
    }

    /// Whether this IP packet, the next in this direction, is lost.
    pub(super) fn loses(&mut self, packet: &[u8]) -> bool {
        let Some(segment) = Segment::parse(packet) else { return false };
        let seen = self.remembered(segment.flow);
        if segment.syn {
            // Another initial sequence number means a new connection between the same ports.
            if seen.initial_sequence != Some(segment.sequence) {
                *seen = Seen { initial_sequence: Some(segment.sequence), ..Seen::default() };
            }
            seen.syn = seen.syn.saturating_add(1);
            return seen.syn <= self.syn;
        }
        if !segment.has_data {
            return false;
        }
        seen.data = seen.data.saturating_add(1);
        seen.data <= self.data
    }

    fn remembered(&mut self, flow: Flow) -> &mut Seen {
        if !self.seen.contains_key(&flow) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.seen.remove(&oldest);
            }
            self.order.push_back(flow.clone());
        }
        self.seen.entry(flow).or_default()
    }
}

/// The fields of a TCP segment that matter here.
struct Segment {
    flow: Flow,
    sequence: [u8; 4],
    syn: bool,
    has_data: bool,
}

impl Segment {
    /// Parses a packet; `None` for protocols other than TCP, fragments, and IPv6 with extension headers.
    /// Hosts of a lab do not send the latter two in TCP.
    fn parse(packet: &[u8]) -> Option<Self> {
        let length = |at: usize| Some(usize::from(u16::from_be_bytes(bytes(packet, at)?)));
        let (header, end, protocol, addresses) = match packet.first()? >> 4 {
            4 => (usize::from(packet[0] & 0xf) * 4, length(2)?, *packet.get(9)?, 12..20),
            6 => (40, 40 + length(4)?, *packet.get(6)?, 8..40),
            _ => return None,
        };
        if protocol != TCP {
            return None;
        }
        let tcp = packet.get(header..end)?;
        let tcp_header = usize::from(tcp.get(12)? >> 4) * 4;
        Some(Self {
            flow: (packet.get(addresses)?.to_vec(), bytes(tcp, 0)?),
            sequence: bytes(tcp, 4)?,
            syn: tcp.get(13)? & SYN != 0,
            has_data: tcp.len() > tcp_header,
        })
    }
}

fn bytes<const N: usize>(packet: &[u8], at: usize) -> Option<[u8; N]> {
    packet.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: u8 = 0x10;

    /// A TCP packet with this port, sequence number, flags and amount of data.
    fn packet(v6: bool, port: u16, sequence: u32, flags: u8, data: usize) -> Vec<u8> {
        let mut tcp = [port.to_be_bytes(), 443_u16.to_be_bytes()].concat();
        tcp.extend(sequence.to_be_bytes());
        tcp.extend([0, 0, 0, 0, 5 << 4, flags, 0, 0, 0, 0, 0, 0]);
        tcp.resize(20 + data, b'x');
        let length = tcp.len() as u16;
        let mut packet = if v6 {
            [&[0x60, 0, 0, 0], length.to_be_bytes().as_slice(), &[TCP, 64], &[7; 32]].concat()
        } else {
            let total = (length + 20).to_be_bytes();
            [&[0x45, 0], total.as_slice(), &[0, 0, 0x40, 0, 64, TCP, 0, 0], &[7; 8]].concat()
        };
        packet.extend(tcp);
        packet
    }

    #[test]
    fn the_first_syn_of_every_connection_is_lost_and_the_same_one_again_is_not() {
        for v6 in [false, true] {
            let mut loss = OpeningLoss::new(1, 0).unwrap();
            for port in [1, 2] {
                assert!(loss.loses(&packet(v6, port, 100, SYN, 0)));
                assert!(!loss.loses(&packet(v6, port, 100, SYN, 0)));
                assert!(!loss.loses(&packet(v6, port, 101, ACK, 0)));
                assert!(!loss.loses(&packet(v6, port, 101, ACK, 500)));
            }
            // The port is reused.
            assert!(loss.loses(&packet(v6, 1, 900, SYN, 0)));
            assert!(!loss.loses(&packet(v6, 1, 900, SYN, 0)));
        }
    }

    #[test]
    fn the_first_packets_with_data_are_lost() {
        let mut loss = OpeningLoss::new(0, 2).unwrap();
        assert!(!loss.loses(&packet(false, 1, 100, SYN | ACK, 0)));
        assert!(!loss.loses(&packet(false, 1, 101, ACK, 0)));
        assert!(loss.loses(&packet(false, 1, 101, ACK, 1_448)));
        assert!(loss.loses(&packet(false, 1, 1_549, ACK, 300)));
        assert!(!loss.loses(&packet(false, 1, 101, ACK, 1_448)));
    }

    #[test]
    fn padding_is_no_data_and_other_packets_pass() {
        let mut loss = OpeningLoss::new(1, 1).unwrap();
        let mut padded = packet(false, 1, 101, ACK, 0);
        padded.extend([0; 6]);
        assert!(!loss.loses(&padded));
        let mut udp = packet(false, 1, 100, SYN, 10);
        udp[9] = 17;
        assert!(!loss.loses(&udp));
        let whole = packet(true, 1, 100, SYN, 10);
        assert!((0..whole.len()).all(|end| !loss.loses(&whole[..end])));
        assert!(OpeningLoss::new(0, 0).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut loss = OpeningLoss::new(1, 0).unwrap();
        for port in 0..10_000 {
            assert!(loss.loses(&packet(false, port, 1, SYN, 0)));
        }
        assert_eq!((loss.seen.len(), loss.order.len()), (REMEMBERED, REMEMBERED));
    }
}
