//! QUIC packet headers, and the packets of a datagram (RFC 9000 §17, RFC 9369 §3.2).
//!
//! In: a datagram, perhaps truncated. Out: the fields of each packet that can be read without keys. Hostile bytes end
//! the list and never panic. Nothing is decrypted here.

use super::super::layers::Payload;
use firstbyte_core::wire::cursor::ByteCursor;

pub(super) const V1: u32 = 1;
pub(super) const V2: u32 = 0x6b33_43cf;
/// Longest connection ID in the supported versions (RFC 9000 §17.2).
const LONGEST_CID: usize = 20;
const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const SPIN_BIT: u8 = 0x20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cid {
    length: u8,
    bytes: [u8; LONGEST_CID],
}

impl Cid {
    /// `None` if it is longer than the versions allow.
    pub(super) fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; LONGEST_CID];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { length: id.len() as u8, bytes })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(super) const fn len(&self) -> usize {
        self.length as usize
    }
}

impl std::hash::Hash for Cid {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.length));
        for part in self.as_slice().chunks(8) {
            let mut eight = [0; 8];
            eight[..part.len()].copy_from_slice(part);
            state.write_u64(u64::from_be_bytes(eight));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    VersionNegotiation,
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    /// A packet of an unknown version.
    Unknown,
}

/// A packet with a long header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Long<'a> {
    pub(super) kind: Kind,
    pub(super) version: u32,
    pub(super) destination: Cid,
    pub(super) source: Cid,
    /// Length of an Initial's token, bytes.
    pub(super) token: u32,
    /// The Length field: packet number, payload and tag.
    pub(super) length: u32,
    /// The packet including its header, as far as it was captured.
    pub(super) bytes: &'a [u8],
    /// Offset of its packet number.
    pub(super) number_at: usize,
    /// Length on the wire.
    pub(super) wire_bytes: u32,
}

impl Long<'_> {
    pub(super) const fn is_whole(&self) -> bool {
        self.bytes.len() == self.wire_bytes as usize
    }
}

/// A packet with a short header; it takes the rest of its datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) wire_bytes: u32,
}

impl Short<'_> {
    /// The spin bit, which is not header-protected (RFC 9000 §17.4).
    pub(super) fn spin(&self) -> bool {
        self.bytes.first().is_some_and(|first| first & SPIN_BIT != 0)
    }

    /// Its destination connection ID, given its `length` in bytes.
    pub(super) fn destination(&self, length: usize) -> Option<&[u8]> {
        self.bytes.get(1..1 + length)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Packet<'a> {
    Long(Long<'a>),
    Short(Short<'a>),
}

/// Versions whose Initials can be opened: 1, 2, and the drafts with known salts.
pub(super) const fn is_known(version: u32) -> bool {
    matches!(version, V1 | V2 | 0xff00_001d..=0xff00_0022)
}

/// Versions with the headers of version 1: from the draft that fixed them.
const fn has_known_headers(version: u32) -> bool {
    is_known(version) || matches!(version, 0xff00_0016..=0xff00_0022)
}

/// Versions that cannot be read but have known names: Google's and others of four letters and digits, the first drafts,
/// mvfst's, MsQuic's.
pub(super) const fn is_named(version: u32) -> bool {
    let [a, b, c, d] = version.to_be_bytes();
    let letters = (a.is_ascii_uppercase())
        && (b.is_ascii_uppercase() || b.is_ascii_digit())
        && c.is_ascii_digit()
        && d.is_ascii_digit();
    letters
        || matches!(version, 0xff00_0001..=0xff00_0015 | 0xface_b000..=0xface_b0ff | 0xabcd_0000..=0xabcd_0fff)
}

/// Versions that clients offer to force Version Negotiation (RFC 9000 §15).
pub(super) const fn is_reserved(version: u32) -> bool {
    version & 0x0f0f_0f0f == 0x0a0a_0a0a
}

/// Whether `bytes` may begin with a long-header packet of a version that can be followed.
pub(super) fn may_be_first(bytes: &[u8]) -> bool {
    let [first, a, b, c, d, ..] = *bytes else { return false };
    let version = u32::from_be_bytes([a, b, c, d]);
    first & LONG_HEADER != 0
        && (version == 0
            || (first & FIXED_BIT != 0 && (has_known_headers(version) || is_reserved(version))))
}

/// Whether `bytes` may be a packet with a short header.
pub(super) fn may_be_short(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first & (LONG_HEADER | FIXED_BIT) == FIXED_BIT)
}

/// The versions that a Version Negotiation packet lists.
pub(super) fn negotiated<'a>(packet: &Long<'a>) -> impl Iterator<Item = u32> + use<'a> {
    let list = packet.bytes.get(packet.number_at..).unwrap_or_default();
    list.as_chunks().0.iter().map(|four| u32::from_be_bytes(*four))
}

/// The packets of a datagram, in order.
pub(super) fn packets(payload: Payload<'_>) -> impl Iterator<Item = Packet<'_>> {
    let (mut rest, mut left) = (payload.captured, payload.bytes);
    let mut first: Option<Cid> = None;
    let mut over = false;
    std::iter::from_fn(move || {
        if over || rest.is_empty() {
            return None;
        }
        let lead = first.is_none();
        if rest[0] & LONG_HEADER == 0 {
            over = true;
            // The fixed bit may be greased (RFC 9287). After another packet, bytes without it are padding.
            let short = Short { bytes: rest, wire_bytes: left };
            return (lead || rest[0] & FIXED_BIT != 0).then_some(Packet::Short(short));
        }
        let packet = long(rest, left)?;
        // Coalesced packets have the same destination (RFC 9000 §12.2).
        if first.is_some_and(|first| first != packet.destination) {
            over = true;
            return None;
        }
        first = Some(packet.destination);
        rest = &rest[packet.bytes.len()..];
        left -= packet.wire_bytes;
        Some(Packet::Long(packet))
    })
}

/// The long-header packet at the start of `bytes`, with `left` bytes on the wire.
fn long(bytes: &[u8], left: u32) -> Option<Long<'_>> {
    let first = *bytes.first()?;
    let mut reader = ByteCursor::new(bytes.get(1..)?);
    let version = reader.u32()?;
    let destination = cid(&mut reader)?;
    let source = cid(&mut reader)?;
    let kind = kind(first, version);
    let at = |reader: &ByteCursor<'_>| bytes.len() - reader.rest().len();
    let whole = |number_at| Long {
        kind,
        version,
        destination,
        source,
        token: 0,
        length: 0,
        bytes,
        number_at,
        wire_bytes: left,
    };
    if matches!(kind, Kind::VersionNegotiation | Kind::Retry | Kind::Unknown) {
        return Some(whole(at(&reader)));
    }
    let mut token = 0;
    if kind == Kind::Initial {
        token = reader.quic_number()?;
        reader.take(usize::try_from(token).ok()?)?;
    }
    let length = u32::try_from(reader.quic_number()?).ok()?;
    let number_at = at(&reader);
    let wire_bytes = (number_at as u32).checked_add(length).filter(|bytes| *bytes <= left)?;
    let captured = bytes.len().min(wire_bytes as usize);
    Some(Long {
        token: token as u32,
        length,
        bytes: &bytes[..captured],
        wire_bytes,
        ..whole(number_at)
    })
}

const fn kind(first: u8, version: u32) -> Kind {
    const KINDS: [Kind; 4] = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry];
    if version == 0 {
        return Kind::VersionNegotiation;
    }
    if !has_known_headers(version) {
        return Kind::Unknown;
    }
    let number = (first >> 4 & 3) as usize;
    // Version 2 shifts each type by one (RFC 9369 §3.2).
    if version == V2 { KINDS[(number + 3) % 4] } else { KINDS[number] }
}

fn cid(cursor: &mut ByteCursor<'_>) -> Option<Cid> {
    Cid::new(cursor.block8()?)
}
