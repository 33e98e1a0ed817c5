//! pcap: one header, then packets (draft-ietf-opsawg-pcap).

use super::Time;
use super::{Broken, Frame, LONGEST_FRAME, LinkType, Step, u32_at};

pub(super) const HEADER_BYTES: usize = 24;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's patched libpcap: eight more bytes before each packet.
const PATCHED: u32 = 0xa1b2_cd34;

#[derive(Debug)]
pub(super) struct Header {
    big_endian: bool,
    nanoseconds: bool,
    record_bytes: usize,
    link: LinkType,
}

impl Header {
    pub(super) fn is_magic(magic: [u8; 4]) -> bool {
        [u32::from_be_bytes(magic), u32::from_le_bytes(magic)]
            .into_iter()
            .any(|m| matches!(m, MICROSECONDS | NANOSECONDS | PATCHED))
    }

    pub(super) fn parse(head: &[u8; HEADER_BYTES]) -> Option<Self> {
        let big_endian = matches!(u32_at(head, 0, true)?, MICROSECONDS | NANOSECONDS | PATCHED);
        let magic = u32_at(head, 0, big_endian)?;
        // The upper bits of the last field describe the frame check sequence.
        let link = u32_at(head, 20, big_endian)? & 0xffff;
        Some(Self {
            big_endian,
            nanoseconds: magic == NANOSECONDS,
            record_bytes: if magic == PATCHED { 24 } else { 16 },
            link: LinkType(u16::try_from(link).ok()?),
        })
    }

    #[inline]
    pub(super) fn read<'a>(&self, input: &'a [u8]) -> Result<Step<'a>, Broken> {
        let Some(numbers) = input.first_chunk::<16>() else {
            return Ok(Step::NeedMore(self.record_bytes));
        };
        let (numbers, _) = numbers.as_chunks::<4>();
        let number = |place: usize| match self.big_endian {
            true => u32::from_be_bytes(numbers[place]),
            false => u32::from_le_bytes(numbers[place]),
        };
        let (seconds, fraction) = (number(0), number(1));
        let (captured, wire_bytes) = (number(2), number(3));
        if captured > LONGEST_FRAME {
            return Err(Broken { at: 8, what: "a packet has an impossible length" });
        }
        let end = self.record_bytes + captured as usize;
        let Some(bytes) = input.get(self.record_bytes..end) else {
            return Ok(Step::NeedMore(end));
        };
        let fraction = i64::from(fraction) * if self.nanoseconds { 1 } else { 1_000 };
        let at = Time::from_unix_ns(i64::from(seconds) * 1_000_000_000 + fraction);
        let frame = Frame {
            at: Some(at),
            link: self.link,
            captured: bytes,
            wire_bytes: wire_bytes.max(captured),
        };
        Ok(Step::Frame(frame, end))
    }
}
