//! Finds the TCP segment or UDP datagram in a frame.
//!
//! In: a frame and its link type. Out: addresses, ports and the transport header, with the payload borrowed; VLAN tags,
//! MPLS labels and tunnels are unwrapped. Nothing is allocated. Malformed bytes end in an [`Unread`], never in a panic.
//! Fragments are not reassembled here but returned as such.

mod outer;
mod tunnels;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use firstbyte_core::pcap::LinkType;

pub(super) use outer::Outer;
use tunnels::{gre, gtp};

/// An address and a port. IPv4 addresses are stored as IPv4-mapped IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    high: u64,
    low: u64,
    port: u16,
}

impl Endpoint {
    /// The endpoint `port` at `address`.
    pub fn new(address: IpAddr, port: u16) -> Self {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        Self { high: (bits >> 64) as u64, low: bits as u64, port }
    }

    fn v4(bytes: [u8; 4], port: u16) -> Self {
        Self { high: 0, low: 0xffff_0000_0000 | u64::from(u32::from_be_bytes(bytes)), port }
    }

    fn v6(bytes: [u8; 16], port: u16) -> Self {
        let bits = u128::from_be_bytes(bytes);
        Self { high: (bits >> 64) as u64, low: bits as u64, port }
    }

    /// The endpoint as three numbers, for hashing.
    pub(super) const fn parts(self) -> (u64, u64, u16) {
        (self.high, self.low, self.port)
    }

    /// The endpoint with these [`Self::parts`].
    pub(super) const fn of_parts(high: u64, low: u64, port: u16) -> Self {
        Self { high, low, port }
    }

    /// The endpoint as a type of the standard library.
    pub fn socket_addr(self) -> SocketAddr {
        let v6 = Ipv6Addr::from_bits(u128::from(self.high) << 64 | u128::from(self.low));
        SocketAddr::new(v6.to_canonical(), self.port)
    }
}

/// Payload of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// The captured bytes.
    pub captured: &'a [u8],
    /// Length on the wire.
    pub bytes: u32,
}

/// The parts of a TCP segment that matter here (RFC 9293 §3.1).
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first byte, or of the SYN.
    pub sequence: u32,
    /// Acknowledgment number; valid only with [`Segment::ACK`].
    pub acknowledgment: u32,
    /// Flags.
    pub flags: u8,
    /// As sent, not verified: with checksum offload it is not final.
    pub checksum: u16,
    /// Largest segment that the sender accepts; only in a SYN.
    pub maximum_segment: Option<u16>,
    /// The payload.
    pub payload: Payload<'a>,
}

#[allow(missing_docs, reason = "named as in RFC 9293")]
impl Segment<'_> {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;

    /// Whether all of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// A transport's header and payload.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// TCP.
    Tcp(Segment<'a>),
    /// UDP.
    Udp(Payload<'a>),
}

/// A TCP or UDP packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Source endpoint.
    pub source: Endpoint,
    /// Destination endpoint.
    pub destination: Endpoint,
    /// The identification in the IPv4 header; 0 for IPv6, which has none.
    pub identification: u16,
    /// The transport header and payload.
    pub transport: Transport<'a>,
}

/// A fragment of an IP datagram (RFC 791 §3.2, RFC 8200 §4.5).
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Source address; the port is 0.
    pub source: Endpoint,
    /// Destination address; the port is 0.
    pub destination: Endpoint,
    /// Identification of the datagram.
    pub identification: u32,
    /// Protocol of the whole datagram's payload (IANA protocol number).
    pub protocol: u8,
    /// Offset in the datagram, bytes.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
    /// Its bytes.
    pub payload: Payload<'a>,
}

/// Why a frame has no packet to follow.
#[derive(Clone, Copy, Debug)]
pub enum Unread<'a> {
    /// A fragment of a datagram, to be reassembled.
    Fragment(Fragment<'a>),
    /// No IP: ARP, spanning tree and the like.
    NotIp,
    /// IP, but neither TCP nor UDP.
    OtherTransport,
    /// Truncated before the end of the transport header.
    Cut,
    /// Headers that contradict each other.
    Malformed,
    /// Unknown link type.
    UnknownLink(LinkType),
}

/// Most nested tunnels or tags; more than this is an attack.
const DEEPEST: usize = 12;

const ETHERNET: LinkType = LinkType(1);
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const TCP: u8 = 6;
const UDP: u8 = 17;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
const GTP_PORT: u16 = 2152;

/// The packet in `frame`, which had `wire_bytes` on the wire.
///
/// # Errors
/// The frame has no packet to follow.
pub fn packet(link: LinkType, frame: &[u8], wire_bytes: u32) -> Result<Packet<'_>, Unread<'_>> {
    follow(first(link, Bytes { captured: frame, bytes: wire_bytes })?)
}

/// The same for the most common frames; absent for all others.
///
/// These are TCP over IP over Ethernet, with complete headers and nothing between them. They are parsed in one go, by
/// the same functions as other frames, without storing the next layer at each step.
#[inline]
pub(super) fn plain_tcp(link: LinkType, frame: &[u8], wire_bytes: u32) -> Option<Packet<'_>> {
    let frame = Bytes { captured: frame, bytes: wire_bytes };
    let head: &[u8; 14] = frame.captured.first_chunk()?;
    if link != ETHERNET {
        return None;
    }
    let rest = frame.behind(head.len()).ok()?;
    let carried = match (u16::from_be_bytes([head[12], head[13]]), rest.byte(0).ok()? >> 4) {
        (IPV4, 4) => ipv4(rest).ok()?,
        (IPV6, 6) => ipv6(rest).ok()?,
        _ => return None,
    };
    if carried.protocol != TCP {
        return None;
    }
    let (ports, segment) = carried.segment().ok()?;
    Some(carried.packet(ports, Transport::Tcp(segment)))
}

/// Unwraps layer after layer, up to the innermost packet.
fn follow(mut next: Next<'_>) -> Result<Packet<'_>, Unread<'_>> {
    for _ in 0..DEEPEST {
        next = match next {
            Next::Ethernet(bytes) => ethernet(bytes)?,
            Next::Type(kind, bytes) => by_type(kind, bytes)?,
            Next::Ip(bytes) => ip(bytes)?,
            Next::Transport(carried) => match carried.open()? {
                Opened::Packet(packet) => return Ok(packet),
                Opened::Tunnel(next) => next,
            },
        };
    }
    Err(Unread::Malformed)
}

/// The packet in an IP datagram reassembled from `fragment` and others; if that is a tunnel's, the packet inside.
///
/// # Errors
/// The datagram has no packet to follow, or again only a fragment of one.
pub fn reassembled<'a>(fragment: &Fragment<'_>, whole: &'a [u8]) -> Result<Packet<'a>, Unread<'a>> {
    let bytes = Bytes { captured: whole, bytes: u32::try_from(whole.len()).unwrap_or(u32::MAX) };
    let carried = Carried {
        source: fragment.source,
        destination: fragment.destination,
        identification: fragment.identification as u16,
        protocol: fragment.protocol,
        bytes,
    };
    follow(Next::Transport(extensions(carried)?))
}

/// Bytes that may have been captured only in part.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    captured: &'a [u8],
    bytes: u32,
}

impl<'a> Bytes<'a> {
    #[inline]
    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Unread<'a>> {
        match self.captured.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(bytes) => Ok(*bytes),
            None => Err(Unread::Cut),
        }
    }

    fn byte(&self, at: usize) -> Result<u8, Unread<'a>> {
        self.captured.get(at).copied().ok_or(Unread::Cut)
    }

    fn u16(&self, at: usize) -> Result<u16, Unread<'a>> {
        Ok(u16::from_be_bytes(self.array(at)?))
    }

    fn u32(&self, at: usize) -> Result<u32, Unread<'a>> {
        Ok(u32::from_be_bytes(self.array(at)?))
    }

    #[inline]
    fn behind(self, header: usize) -> Result<Self, Unread<'a>> {
        match self.captured.get(header..) {
            Some(captured) => {
                Ok(Self { captured, bytes: self.bytes.saturating_sub(header as u32) })
            }
            None => Err(Unread::Cut),
        }
    }

    /// The first `length` bytes, without what follows, such as Ethernet padding.
    #[inline]
    fn up_to(self, length: u32) -> Self {
        let kept = self.captured.len().min(length as usize);
        Self { captured: &self.captured[..kept], bytes: self.bytes.min(length) }
    }

    const fn payload(self) -> Payload<'a> {
        Payload { captured: self.captured, bytes: self.bytes }
    }
}

enum Next<'a> {
    Ethernet(Bytes<'a>),
    Type(u16, Bytes<'a>),
    Ip(Bytes<'a>),
    Transport(Carried<'a>),
}

fn first(link: LinkType, frame: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    Ok(match link.0 {
        _ if link == ETHERNET => Next::Ethernet(frame),
        // NULL and LOOP: four bytes of address family, in the host's or the network's byte order.
        0 | 108 => Next::Ip(frame.behind(4)?),
        // PPP, with and without HDLC framing, and as pppd writes it.
        9 | 50 | 166 | 204 => ppp(link, frame)?,
        12 | 14 | 101 | 228 | 229 => Next::Ip(frame),
        113 => Next::Type(frame.u16(14)?, frame.behind(16)?),
        276 => Next::Type(frame.u16(0)?, frame.behind(20)?),
        _ => return Err(Unread::UnknownLink(link)),
    })
}

fn ppp(link: LinkType, frame: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    let mut rest = frame;
    if matches!(link.0, 166 | 204) {
        rest = if rest.u16(0)? == 0xff03 { rest } else { rest.behind(1)? };
    }
    if rest.u16(0)? == 0xff03 {
        rest = rest.behind(2)?;
    } else if link.0 == 166 {
        // One byte for the direction, then the protocol.
        return ppp_protocol(rest).or_else(|_| ppp_protocol(rest.behind(1)?));
    }
    ppp_protocol(rest)
}

fn ppp_protocol(bytes: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    // The protocol field may be compressed to one byte (RFC 1661 §6.5).
    if matches!(bytes.byte(0)?, 0x21 | 0x57) {
        return Ok(Next::Ip(bytes.behind(1)?));
    }
    match bytes.u16(0)? {
        0x0021 | 0x0057 => Ok(Next::Ip(bytes.behind(2)?)),
        _ => Err(Unread::NotIp),
    }
}

fn ethernet(frame: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    Ok(Next::Type(frame.u16(12)?, frame.behind(14)?))
}

fn by_type(kind: u16, rest: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    Ok(match kind {
        IPV4 | IPV6 => Next::Ip(rest),
        // IEEE 802.1Q, 802.1ad, and their predecessors.
        0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => Next::Type(rest.u16(2)?, rest.behind(4)?),
        0x8847 | 0x8848 => mpls(rest)?,
        TRANSPARENT_ETHERNET => Next::Ethernet(rest),
        // PPPoE session (RFC 2516 §4).
        0x8864 => ppp_protocol(rest.behind(6)?)?,
        _ => return Err(Unread::NotIp),
    })
}

/// MPLS labels, up to the one marked as the last. The payload has no type field (RFC 3032 §2.1).
fn mpls(bytes: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    let mut rest = bytes;
    for _ in 0..DEEPEST {
        let label = rest.u32(0)?;
        rest = rest.behind(4)?;
        if label & 0x100 != 0 {
            return Ok(match rest.byte(0)? >> 4 {
                4 | 6 => Next::Ip(rest),
                // A pseudowire's control word begins with 0 (RFC 4385 §3).
                0 => Next::Ethernet(rest.behind(4)?),
                _ => Next::Ethernet(rest),
            });
        }
    }
    Err(Unread::Malformed)
}

fn ip(bytes: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    match bytes.byte(0)? >> 4 {
        4 => ipv4(bytes).map(Next::Transport),
        6 => ipv6(bytes).map(Next::Transport),
        _ => Err(Unread::NotIp),
    }
}

#[inline]
fn ipv4(bytes: Bytes<'_>) -> Result<Carried<'_>, Unread<'_>> {
    let head: [u8; 20] = bytes.array(0)?;
    let header = usize::from(head[0] & 0x0f) * 4;
    let total = u32::from(u16::from_be_bytes([head[2], head[3]]));
    // Segmentation offload leaves the length 0.
    let total = if total == 0 { bytes.bytes } else { total };
    if header < 20 || total < header as u32 {
        return Err(Unread::Malformed);
    }
    let rest = bytes.up_to(total).behind(header)?;
    let identification = u16::from_be_bytes([head[4], head[5]]);
    let place = u16::from_be_bytes([head[6], head[7]]);
    let source = Endpoint::v4([head[12], head[13], head[14], head[15]], 0);
    let destination = Endpoint::v4([head[16], head[17], head[18], head[19]], 0);
    let protocol = head[9];
    let (offset, more) = (u32::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    if offset != 0 || more {
        let identification = u32::from(identification);
        let payload = rest.payload();
        let fragment =
            Fragment { source, destination, identification, protocol, offset, more, payload };
        return Err(Unread::Fragment(fragment));
    }
    Ok(Carried { source, destination, identification, protocol, bytes: rest })
}

#[inline]
fn ipv6(bytes: Bytes<'_>) -> Result<Carried<'_>, Unread<'_>> {
    const HEADER: usize = 40;
    let head: [u8; HEADER] = bytes.array(0)?;
    let length = u32::from(u16::from_be_bytes([head[4], head[5]]));
    let whole = bytes.behind(HEADER)?;
    let bytes = if length == 0 { whole } else { whole.up_to(length) };
    let mut address = [0; 16];
    address.copy_from_slice(&head[8..24]);
    let source = Endpoint::v6(address, 0);
    address.copy_from_slice(&head[24..40]);
    let destination = Endpoint::v6(address, 0);
    let carried = Carried { source, destination, identification: 0, protocol: head[6], bytes };
    if carried.protocol == TCP { Ok(carried) } else { extensions(carried) }
}

/// Skips extension headers (RFC 8200 §4), if any.
fn extensions(carried: Carried<'_>) -> Result<Carried<'_>, Unread<'_>> {
    let Carried { source, destination, identification: of_datagram, .. } = carried;
    let (mut protocol, mut rest) = (carried.protocol, carried.bytes);
    for _ in 0..DEEPEST {
        match protocol {
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => {
                protocol = rest.byte(0)?;
                let bytes = (usize::from(rest.byte(1)?) + 1) * 8;
                rest = rest.behind(bytes)?;
            }
            // Authentication header: its length counts four bytes (RFC 4302 §2.2).
            51 => {
                protocol = rest.byte(0)?;
                let bytes = (usize::from(rest.byte(1)?) + 2) * 4;
                rest = rest.behind(bytes)?;
            }
            44 => {
                let head: [u8; 8] = rest.array(0)?;
                let place = u16::from_be_bytes([head[2], head[3]]);
                let identification = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                rest = rest.behind(8)?;
                protocol = head[0];
                let (offset, more) = (u32::from(place & 0xfff8), place & 1 != 0);
                // An atomic fragment is the whole datagram (RFC 6946).
                if offset != 0 || more {
                    let payload = rest.payload();
                    return Err(Unread::Fragment(Fragment {
                        source,
                        destination,
                        identification,
                        protocol,
                        offset,
                        more,
                        payload,
                    }));
                }
            }
            _ => {
                return Ok(Carried {
                    source,
                    destination,
                    identification: of_datagram,
                    protocol,
                    bytes: rest,
                });
            }
        }
    }
    Err(Unread::Malformed)
}

/// The payload of an IP packet.
struct Carried<'a> {
    source: Endpoint,
    destination: Endpoint,
    identification: u16,
    protocol: u8,
    bytes: Bytes<'a>,
}

enum Opened<'a> {
    Packet(Packet<'a>),
    Tunnel(Next<'a>),
}

impl<'a> Carried<'a> {
    fn open(self) -> Result<Opened<'a>, Unread<'a>> {
        match self.protocol {
            TCP => {
                let (ports, segment) = self.segment()?;
                Ok(Opened::Packet(self.packet(ports, Transport::Tcp(segment))))
            }
            UDP => self.udp(),
            4 | 41 => Ok(Opened::Tunnel(Next::Ip(self.bytes))),
            47 => gre(self.bytes).map(Opened::Tunnel),
            _ => Err(Unread::OtherTransport),
        }
    }

    /// The ports and the TCP segment.
    #[inline]
    fn segment(&self) -> Result<([u16; 2], Segment<'a>), Unread<'a>> {
        let head: [u8; 20] = self.bytes.array(0)?;
        let header = usize::from(head[12] >> 4) * 4;
        if header < 20 || header as u32 > self.bytes.bytes {
            return Err(Unread::Malformed);
        }
        let flags = head[13];
        let kept = self.bytes.captured.len();
        let payload = Payload {
            captured: self.bytes.captured.get(header..).unwrap_or_default(),
            bytes: self.bytes.bytes - header as u32,
        };
        let maximum_segment = (flags & Segment::SYN != 0)
            .then(|| maximum_segment(self.bytes.captured.get(20..header.min(kept))?))
            .flatten();
        let segment = Segment {
            sequence: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            acknowledgment: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            flags,
            checksum: u16::from_be_bytes([head[16], head[17]]),
            maximum_segment,
            payload,
        };
        let ports = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
        Ok((ports, segment))
    }

    fn udp(self) -> Result<Opened<'a>, Unread<'a>> {
        let head: [u8; 8] = self.bytes.array(0)?;
        let ports = [[head[0], head[1]], [head[2], head[3]]].map(u16::from_be_bytes);
        let length = u32::from(u16::from_be_bytes([head[4], head[5]]));
        let whole = if length == 0 { self.bytes } else { self.bytes.up_to(length.max(8)) };
        let rest = whole.behind(8)?;
        if ports[1] == VXLAN_PORT && rest.byte(0).is_ok_and(|flags| flags & 0x08 != 0) {
            return Ok(Opened::Tunnel(Next::Ethernet(rest.behind(8)?)));
        }
        if ports[1] == GENEVE_PORT && rest.byte(0).is_ok_and(|first| first >> 6 == 0) {
            let options = usize::from(rest.byte(0)? & 0x3f) * 4;
            return Ok(Opened::Tunnel(Next::Type(rest.u16(2)?, rest.behind(8 + options)?)));
        }
        if ports[1] == GTP_PORT
            && let Ok(inner) = gtp(rest)
        {
            return Ok(Opened::Tunnel(inner));
        }
        Ok(Opened::Packet(self.packet(ports, Transport::Udp(rest.payload()))))
    }

    #[inline]
    fn packet(&self, [from, to]: [u16; 2], transport: Transport<'a>) -> Packet<'a> {
        Packet {
            source: Endpoint { port: from, ..self.source },
            destination: Endpoint { port: to, ..self.destination },
            identification: self.identification,
            transport,
        }
    }
}

/// The MSS option among a SYN's options (RFC 9293 §3.7.1).
fn maximum_segment(mut options: &[u8]) -> Option<u16> {
    loop {
        match options {
            [0, ..] | [] => return None,
            [1, rest @ ..] => options = rest,
            [2, 4, a, b, ..] => return Some(u16::from_be_bytes([*a, *b])),
            [_, length, ..] => options = options.get(usize::from((*length).max(2))..)?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
