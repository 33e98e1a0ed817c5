//! The outermost IP header of a frame, after VLAN tags, and the ports after it.

use std::net::IpAddr;

use super::{Bytes, DEEPEST, Endpoint, IPV4, IPV6, LinkType, Next, TCP, UDP, Unread};
use super::{by_type, ethernet, first, ip};

/// The fields that a filter checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outer {
    /// Source and destination, in the header's own address family.
    pub(crate) hosts: [IpAddr; 2],
    /// Source and destination port; absent if there are none, or not in this fragment.
    pub(crate) ports: Option<[u16; 2]>,
    /// Whether this is a fragment other than the first.
    pub(crate) later_fragment: bool,
}

impl Outer {
    /// Absent if there is no IP or it cannot be read.
    pub(crate) fn parse(link: LinkType, frame: &[u8], wire_bytes: u32) -> Option<Self> {
        let mut next = first(link, Bytes { captured: frame, bytes: wire_bytes }).ok()?;
        for _ in 0..DEEPEST {
            next = match next {
                Next::Ethernet(bytes) => ethernet(bytes).ok()?,
                Next::Type(
                    kind @ (IPV4 | IPV6 | 0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300),
                    b,
                ) => by_type(kind, b).ok()?,
                Next::Ip(bytes) => return Self::behind(bytes),
                Next::Type(..) | Next::Transport(_) => return None,
            };
        }
        None
    }

    fn behind(bytes: Bytes<'_>) -> Option<Self> {
        let is_v4 = bytes.byte(0).ok()? >> 4 == 4;
        let (ends, protocol, rest, later_fragment) = match ip(bytes) {
            Ok(Next::Transport(carried)) => {
                let ends = [carried.source, carried.destination];
                (ends, carried.protocol, carried.bytes, false)
            }
            Err(Unread::Fragment(piece)) => {
                let payload = piece.payload;
                let rest = Bytes { captured: payload.captured, bytes: payload.bytes };
                ([piece.source, piece.destination], piece.protocol, rest, piece.offset != 0)
            }
            _ => return None,
        };
        let ports = || Some([rest.u16(0).ok()?, rest.u16(2).ok()?]);
        let has_ports = matches!(protocol, TCP | UDP) && !later_fragment;
        Some(Self {
            hosts: ends.map(|end| address(end, is_v4)),
            ports: has_ports.then(ports).flatten(),
            later_fragment,
        })
    }
}

fn address(end: Endpoint, is_v4: bool) -> IpAddr {
    let v6 = std::net::Ipv6Addr::from_bits(u128::from(end.high) << 64 | u128::from(end.low));
    if is_v4 { IpAddr::V6(v6).to_canonical() } else { IpAddr::V6(v6) }
}
