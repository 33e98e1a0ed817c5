//! Recognises copies of packets that the capture made (a mirror port sees a packet on its way in and on its way out).
//!
//! In: a packet's identifying fields and its time. Out: whether it repeats one of the last few. A host that retransmits
//! a segment gives it another IP identification. If there is none (IPv6, and IPv4 with 0), the checksum must be the
//! same as well; it covers TCP's timestamps.

use crate::Time;
use crate::layers::{Packet, Segment};

const KEPT: usize = 8;
/// A later packet is not a copy.
const WITHIN_NS: i64 = 1_000_000;
/// The same without an IP identification.
const WITHIN_UNIDENTIFIED_NS: i64 = 300_000;

/// The last packets of a connection: signatures, and the low half of their times.
#[derive(Debug, Default)]
pub(super) struct Copies {
    last: [(u32, u32); KEPT],
    place: u8,
}

/// The signature by which a packet is recognised.
#[inline]
pub(super) fn signature(packet: &Packet<'_>, segment: &Segment<'_>, side: usize) -> u32 {
    let identity = match packet.identification {
        0 => u64::from(segment.checksum) | 1 << 32,
        id => u64::from(id),
    };
    let rest = u64::from(segment.flags) << 56
        | u64::from(segment.payload.bytes & 0x007f_ffff) << 33
        | (side as u64) << 32;
    let mut mixed = (u64::from(segment.sequence) << 32 | u64::from(segment.acknowledgment))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= (identity ^ rest ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 32) as u32 | 1
}

impl Copies {
    #[inline]
    pub(super) fn remember(&mut self, signature: u32, at: Time) {
        self.last[usize::from(self.place) % KEPT] = (signature, at.unix_ns() as u32);
        self.place = self.place.wrapping_add(1);
    }

    /// Whether this packet was seen a moment ago.
    pub(super) fn is_copy(&self, signature: u32, at: Time, identification: u16) -> bool {
        let within = if identification == 0 { WITHIN_UNIDENTIFIED_NS } else { WITHIN_NS };
        self.last.iter().any(|(known, when)| {
            let since = (at.unix_ns() as u32).wrapping_sub(*when) as i32;
            *known == signature && i64::from(since).abs() <= within
        })
    }
}
