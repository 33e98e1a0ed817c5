//! pcapng: blocks, in sections, with interfaces (draft-ietf-opsawg-pcapng).

use super::Time;
use super::{Broken, Frame, LONGEST_FRAME, LinkType, Step, u16_at, u32_at};

pub(super) const SECTION_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, but still in use (draft §A).
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const OPT_TSRESOL: u16 = 9;
const OPT_TSOFFSET: u16 = 14;
/// Type, length, and the length again.
const FRAMING: u32 = 12;
/// A file that describes more interfaces than this is not a capture.
const MOST_INTERFACES: usize = 65_536;

/// State of the current section.
#[derive(Debug, Default)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Debug)]
struct Interface {
    link: LinkType,
    snap: u32,
    unit: Unit,
    offset_ns: i64,
}

/// Unit of a timestamp.
#[derive(Clone, Copy, Debug)]
enum Unit {
    /// This many nanoseconds.
    Nanoseconds(u64),
    /// A nanosecond divided by this number.
    OfNanosecond(u64),
    /// 2^-n seconds, for this n.
    PowerOfTwo(u32),
    /// Too small to count in 64 bits.
    Unusable,
}

impl Unit {
    fn from_option(byte: u8) -> Self {
        let exponent = u32::from(byte & 0x7f);
        match byte & 0x80 {
            0 if exponent <= 9 => Self::Nanoseconds(10u64.pow(9 - exponent)),
            0 => 10u64.checked_pow(exponent - 9).map_or(Self::Unusable, Self::OfNanosecond),
            _ if exponent < 64 => Self::PowerOfTwo(exponent),
            _ => Self::Unusable,
        }
    }

    fn nanoseconds(self, count: u64) -> Option<i64> {
        match self {
            Self::Nanoseconds(each) => i64::try_from(count.checked_mul(each)?).ok(),
            Self::OfNanosecond(many) => i64::try_from(count / many).ok(),
            Self::PowerOfTwo(bits) => {
                i64::try_from((u128::from(count) * 1_000_000_000) >> bits).ok()
            }
            Self::Unusable => None,
        }
    }
}

impl Section {
    pub(super) fn read<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, Broken> {
        let Some(kind) = u32_at(input, 0, self.big_endian) else {
            return Ok(Step::NeedMore(8));
        };
        if kind == SECTION_HEADER {
            return self.begin_section(input);
        }
        let Some(length) = u32_at(input, 4, self.big_endian) else {
            return Ok(Step::NeedMore(8));
        };
        if length < FRAMING || !length.is_multiple_of(4) {
            return Err(Broken { at: 4, what: "a block has an impossible length" });
        }
        let whole = length as usize;
        if !matches!(kind, INTERFACE_DESCRIPTION | PACKET | SIMPLE_PACKET | ENHANCED_PACKET) {
            return Ok(Step::Skip(u64::from(length)));
        }
        if length > LONGEST_FRAME * 2 {
            return Err(Broken { at: 4, what: "a packet block has an impossible length" });
        }
        let Some(block) = input.get(..whole) else {
            return Ok(Step::NeedMore(whole));
        };
        if u32_at(block, whole - 4, self.big_endian) != Some(length) {
            return Err(Broken { at: whole - 4, what: "a block's two lengths differ" });
        }
        let body = &block[8..whole - 4];
        let cut = Broken { at: 8, what: "a block is too short for its fields" };
        match kind {
            INTERFACE_DESCRIPTION => {
                let interface = self.interface(body).ok_or(cut)?;
                if self.interfaces.len() == MOST_INTERFACES {
                    return Err(Broken { at: 0, what: "too many interfaces" });
                }
                self.interfaces.push(interface);
                Ok(Step::Skip(u64::from(length)))
            }
            SIMPLE_PACKET => {
                let wire_bytes = u32_at(body, 0, self.big_endian).ok_or(cut)?;
                let unnamed = Broken { at: 8, what: "a packet refers to an undescribed interface" };
                let interface = self.interfaces.first().ok_or(unnamed)?;
                let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
                let captured = wire_bytes.min(snap) as usize;
                let bytes = body.get(4..).unwrap_or_default();
                let frame = Frame {
                    at: None,
                    link: interface.link,
                    captured: &bytes[..captured.min(bytes.len())],
                    wire_bytes,
                };
                Ok(Step::Frame(frame, whole))
            }
            _ => Ok(Step::Frame(self.packet(kind, body)?, whole)),
        }
    }

    /// An Enhanced Packet Block, or an obsolete Packet Block: only the interface's field differs.
    fn packet<'a>(&self, kind: u32, body: &'a [u8]) -> Result<Frame<'a>, Broken> {
        let cut = || Broken { at: 8, what: "a block is too short for its fields" };
        let number = |at| u32_at(body, at, self.big_endian).ok_or_else(cut);
        let id = match kind {
            PACKET => u16_at(body, 0, self.big_endian).map(u32::from).ok_or_else(cut)?,
            _ => number(0)?,
        };
        let interface = self
            .interfaces
            .get(id as usize)
            .ok_or(Broken { at: 8, what: "a packet refers to an undescribed interface" })?;
        let count = u64::from(number(4)?) << 32 | u64::from(number(8)?);
        let captured = number(12)?;
        let wire_bytes = number(16)?;
        let bytes = body
            .get(20..)
            .and_then(|rest| rest.get(..captured as usize))
            .ok_or(Broken { at: 20, what: "a packet is longer than its block" })?;
        let at = interface
            .unit
            .nanoseconds(count)
            .and_then(|ns| ns.checked_add(interface.offset_ns))
            .map(Time::from_unix_ns);
        Ok(Frame {
            at,
            link: interface.link,
            captured: bytes,
            wire_bytes: wire_bytes.max(captured),
        })
    }

    fn begin_section<'a>(&mut self, input: &'a [u8]) -> Result<Step<'a>, Broken> {
        let Some(order) = u32_at(input, 8, true) else {
            return Ok(Step::NeedMore(12));
        };
        self.big_endian = order == BYTE_ORDER;
        if !self.big_endian && order.swap_bytes() != BYTE_ORDER {
            return Err(Broken { at: 8, what: "a section has no byte-order magic" });
        }
        self.interfaces.clear();
        let length = u32_at(input, 4, self.big_endian).unwrap_or(0);
        if length < 28 || !length.is_multiple_of(4) {
            return Err(Broken { at: 4, what: "a section header has an impossible length" });
        }
        Ok(Step::Skip(u64::from(length)))
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let mut interface = Interface {
            link: LinkType(u16_at(body, 0, self.big_endian)?),
            snap: u32_at(body, 4, self.big_endian)?,
            unit: Unit::from_option(6),
            offset_ns: 0,
        };
        let mut at = 8;
        while let (Some(code), Some(length)) =
            (u16_at(body, at, self.big_endian), u16_at(body, at + 2, self.big_endian))
        {
            let length = usize::from(length);
            let value = body.get(at + 4..at + 4 + length)?;
            match (code, value) {
                (0, _) => break,
                (OPT_TSRESOL, [unit]) => interface.unit = Unit::from_option(*unit),
                (OPT_TSOFFSET, value) => {
                    let eight = *value.first_chunk::<8>()?;
                    let seconds = if self.big_endian {
                        i64::from_be_bytes(eight)
                    } else {
                        i64::from_le_bytes(eight)
                    };
                    interface.offset_ns = seconds.checked_mul(1_000_000_000)?;
                }
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        Some(interface)
    }
}
