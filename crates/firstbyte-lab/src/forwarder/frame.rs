//! Parsing of frames for the forwarder, and the reply to packets that are too big.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::scenario::Family;

/// Bytes before the IP packet.
pub(super) const ETHERNET_HEADER: usize = 14;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_ICMPV6: u8 = 58;

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// Source and destination of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) family: Family,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
}

impl Envelope {
    /// Parses a frame; `None` if it is not an IP packet, because the lab carries nothing else.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET_HEADER..)?;
        match [frame[12], frame[13]] {
            ETHERTYPE_IPV4 => {
                let at = |from: usize| <[u8; 4]>::try_from(packet.get(from..from + 4)?).ok();
                Some(Self {
                    family: Family::V4,
                    source: Ipv4Addr::from(at(12)?).into(),
                    destination: Ipv4Addr::from(at(16)?).into(),
                })
            }
            ETHERTYPE_IPV6 => {
                let at = |from: usize| <[u8; 16]>::try_from(packet.get(from..from + 16)?).ok();
                Some(Self {
                    family: Family::V6,
                    source: Ipv6Addr::from(at(8)?).into(),
                    destination: Ipv6Addr::from(at(24)?).into(),
                })
            }
            _ => None,
        }
    }
}

/// Rewrites the frame's hardware addresses, as each hop does.
pub(super) fn address_to(frame: &mut [u8], destination: Mac, source: Mac) {
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&source);
}

/// The router's reply to a packet that does not fit: ICMP "fragmentation needed" (RFC 1191 §4) or ICMPv6
/// "packet too big" (RFC 4443 §3.2). The hardware addresses still have to be filled in.
pub(super) fn too_big(frame: &[u8], envelope: Envelope, mtu: usize) -> Option<Vec<u8>> {
    let packet = frame.get(ETHERNET_HEADER..)?;
    match (envelope.source, envelope.destination) {
        (IpAddr::V4(source), IpAddr::V4(_)) => Some(fragmentation_needed(packet, source, mtu)),
        (IpAddr::V6(source), IpAddr::V6(_)) => Some(packet_too_big(packet, source, mtu)),
        _ => None,
    }
}

fn fragmentation_needed(packet: &[u8], to: Ipv4Addr, mtu: usize) -> Vec<u8> {
    // RFC 792 quotes the packet's header and at least eight bytes; RFC 1812 §4.3.2.3 asks for more.
    let quoted = &packet[..packet.len().min(576 - 28)];
    let mut icmp = vec![3, 4, 0, 0, 0, 0];
    icmp.extend_from_slice(&(mtu as u16).to_be_bytes());
    icmp.extend_from_slice(quoted);
    let sum = checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum);

    let mut header = vec![0x45, 0xc0];
    header.extend_from_slice(&((20 + icmp.len()) as u16).to_be_bytes());
    header.extend_from_slice(&[0, 0, 0x40, 0, 64, PROTOCOL_ICMP, 0, 0]);
    header.extend_from_slice(&super::GATEWAY_IPV4.octets());
    header.extend_from_slice(&to.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    frame_of(ETHERTYPE_IPV4, &header, &icmp)
}

fn packet_too_big(packet: &[u8], to: Ipv6Addr, mtu: usize) -> Vec<u8> {
    let quoted = &packet[..packet.len().min(1_280 - 48)];
    let mut icmp = vec![2, 0, 0, 0];
    icmp.extend_from_slice(&(mtu as u32).to_be_bytes());
    icmp.extend_from_slice(quoted);

    let mut header = vec![0x60, 0, 0, 0];
    header.extend_from_slice(&(icmp.len() as u16).to_be_bytes());
    header.extend_from_slice(&[PROTOCOL_ICMPV6, 64]);
    header.extend_from_slice(&super::GATEWAY_IPV6.octets());
    header.extend_from_slice(&to.octets());
    // RFC 8200 §8.1: the pseudo-header consists of the addresses, the length and the protocol.
    let length = (icmp.len() as u32).to_be_bytes();
    let sum = checksum(&[&header[8..], &length, &[0, 0, 0, PROTOCOL_ICMPV6], &icmp]);
    icmp[2..4].copy_from_slice(&sum);
    frame_of(ETHERTYPE_IPV6, &header, &icmp)
}

fn frame_of(ethertype: [u8; 2], header: &[u8], payload: &[u8]) -> Vec<u8> {
    [&[0; 12], ethertype.as_slice(), header, payload].concat()
}

/// The Internet checksum (RFC 1071) over parts. All parts except the last must have an even length.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!(folded as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4_frame(bytes: usize) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
        packet.extend_from_slice(&[192, 0, 2, 1, 198, 51, 100, 1]);
        packet.resize(bytes, 0);
        frame_of(ETHERTYPE_IPV4, &packet, &[])
    }

    #[test]
    fn envelopes_of_frames() {
        let envelope = Envelope::parse(&ipv4_frame(40)).unwrap();
        assert_eq!(envelope.source.to_string(), "192.0.2.1");
        assert_eq!(envelope.destination.to_string(), "198.51.100.1");
        let arp = frame_of([0x08, 0x06], &[0; 28], &[]);
        assert_eq!(Envelope::parse(&arp), None);
        let short = frame_of(ETHERTYPE_IPV6, &[0x60; 20], &[]);
        assert_eq!(Envelope::parse(&short), None);
        assert_eq!(Envelope::parse(&[0; 5]), None);
    }

    #[test]
    fn too_big_says_the_mtu_and_sums_to_zero() {
        let frame = ipv4_frame(1_500);
        let answer = too_big(&frame, Envelope::parse(&frame).unwrap(), 1_400).unwrap();
        let (header, icmp) = answer[14..].split_at(20);
        assert_eq!(checksum(&[header]), [0, 0]);
        assert_eq!(checksum(&[icmp]), [0, 0]);
        assert_eq!(icmp[..2], [3, 4]);
        assert_eq!(u16::from_be_bytes([icmp[6], icmp[7]]), 1_400);
        assert_eq!(Envelope::parse(&answer).unwrap().destination.to_string(), "192.0.2.1");
    }

    #[test]
    fn a_checksum_of_odd_length_pads_with_zero() {
        // The example of RFC 1071 §3, then with one more byte.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&[&bytes]), (!0xddf2_u16).to_be_bytes());
        assert_eq!(checksum(&[&bytes, &[0x01]]), (!0xdef2_u16).to_be_bytes());
    }
}
