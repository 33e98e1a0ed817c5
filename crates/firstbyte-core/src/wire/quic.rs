//! QUIC packets, as far as they are distinguishable without keys (RFC 9000 §17, RFC 9369 §3.2).
//!
//! Input: one UDP datagram. Output: the kinds and lengths of its packets. Nothing is decrypted. Hostile bytes end the
//! list and never panic.

use super::cursor::ByteCursor;

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketKind {
    /// Carries the first messages of the handshake.
    Initial,
    /// Carries data before the handshake is complete.
    ZeroRtt,
    /// Carries the rest of the handshake.
    Handshake,
    /// The server validates the client's address.
    Retry,
    /// The server lists the versions it supports.
    VersionNegotiation,
    /// Packet with a short header: everything after the handshake.
    OneRtt,
}

impl PacketKind {
    const ALL: [Self; 6] = [
        Self::Initial,
        Self::ZeroRtt,
        Self::Handshake,
        Self::Retry,
        Self::VersionNegotiation,
        Self::OneRtt,
    ];

    /// Finds a kind by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in RFC 9000.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::ZeroRtt => "0-RTT",
            Self::Handshake => "Handshake",
            Self::Retry => "Retry",
            Self::VersionNegotiation => "Version Negotiation",
            Self::OneRtt => "1-RTT",
        }
    }
}

/// Name, in flights, of a datagram that only acknowledges.
pub const ACKNOWLEDGMENT: &str = "(acknowledgment)";
/// Minimum size of a datagram with an Initial packet; from a server, only if the packet is ack-eliciting (RFC 9000
/// §14.1).
pub const SMALLEST_INITIAL: usize = 1_200;

/// Whether `datagram`, sent by a server, only acknowledges Initial packets: with more of the handshake it would be
/// padded to [`SMALLEST_INITIAL`].
pub fn only_acknowledges(datagram: &[u8]) -> bool {
    let mut kinds = packets(datagram).map(|packet| packet.kind).peekable();
    datagram.len() < SMALLEST_INITIAL
        && kinds.peek().is_some()
        && kinds.all(|kind| kind == PacketKind::Initial)
}

/// A packet in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Packet kind.
    pub kind: PacketKind,
    /// QUIC version; absent with a short header.
    pub version: Option<u32>,
    /// Length including the header, bytes.
    pub bytes: usize,
}

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
/// RFC 9369 §3.1.
const VERSION_2: u32 = 0x6b33_43cf;

/// The packets of `datagram`, in order. Other bytes, such as padding after the last packet, are left out.
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = Packet> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let packet = first_packet(rest, rest.len() == datagram.len())?;
        rest = rest.get(packet.bytes..).unwrap_or_default();
        Some(packet)
    })
}

/// Destination connection ID of `datagram`, if it begins with a long header (RFC 8999 §5.1).
pub fn destination(datagram: &[u8]) -> Option<&[u8]> {
    let mut reader = ByteCursor::new(datagram);
    let is_long = reader.u8()? & LONG_HEADER != 0;
    let _version = reader.u32()?;
    reader.block8().filter(|_| is_long)
}

/// Parses the packet at the start of `bytes`; `lead` tells whether it is the datagram's first.
fn first_packet(bytes: &[u8], lead: bool) -> Option<Packet> {
    let first = *bytes.first()?;
    let whole = bytes.len();
    if first & LONG_HEADER == 0 {
        // A packet with a short header takes the rest of the datagram.
        let short = Packet { kind: PacketKind::OneRtt, version: None, bytes: whole };
        // The fixed bit may be greased (RFC 9287); after another packet, bytes without it are padding.
        return (lead || first & FIXED_BIT != 0).then_some(short);
    }
    let mut reader = ByteCursor::new(&bytes[1..]);
    let version = reader.u32()?;
    let _destination = reader.block8()?;
    let _source = reader.block8()?;
    if version == 0 {
        let kind = PacketKind::VersionNegotiation;
        return Some(Packet { kind, version: Some(version), bytes: whole });
    }
    let kinds = if version == VERSION_2 {
        [PacketKind::Retry, PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake]
    } else {
        [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::Retry]
    };
    let kind = kinds[usize::from(first >> 4 & 0b11)];
    if kind == PacketKind::Retry {
        return Some(Packet { kind, version: Some(version), bytes: whole });
    }
    if kind == PacketKind::Initial {
        let _token = reader.quic_block()?;
    }
    let _number_and_payload = reader.quic_block()?;
    Some(Packet { kind, version: Some(version), bytes: whole - reader.rest().len() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn long(kind: u8, version: u32, payload: usize) -> Vec<u8> {
        let mut packet = vec![LONG_HEADER | FIXED_BIT | kind << 4];
        packet.extend(version.to_be_bytes());
        packet.extend([4, 1, 2, 3, 4, 0]);
        if kind == 0 {
            packet.extend([2, 9, 9]);
        }
        packet.extend((0x4000 | payload as u16).to_be_bytes());
        packet.extend(vec![0xaa; payload]);
        packet
    }

    #[test]
    fn coalesced_packets_are_told_apart() {
        let mut datagram = long(0, 1, 300);
        let initial = datagram.len();
        datagram.extend(long(2, 1, 500));
        datagram.extend([FIXED_BIT, 1, 2, 3]);
        let found: Vec<_> = packets(&datagram).map(|p| (p.kind, p.bytes)).collect();
        let handshake = datagram.len() - initial - 4;
        assert_eq!(
            found,
            [
                (PacketKind::Initial, initial),
                (PacketKind::Handshake, handshake),
                (PacketKind::OneRtt, 4)
            ]
        );
    }

    #[test]
    fn version_2_numbers_its_types_otherwise() {
        let kinds: Vec<_> = packets(&long(2, VERSION_2, 20)).map(|p| p.kind).collect();
        assert_eq!(kinds, [PacketKind::ZeroRtt]);
    }

    #[test]
    fn padding_behind_the_last_packet_is_none() {
        let mut datagram = long(2, 1, 100);
        datagram.extend([0; 50]);
        assert_eq!(packets(&datagram).count(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let total: usize = packets(&bytes).map(|p| p.bytes).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
