//! Parses the frames of decrypted QUIC packets (RFC 9000 §19).
//!
//! Input: a packet's plaintext payload. Output: its frames, reduced to the bytes they carry and the packets they
//! acknowledge. Hostile bytes end the list and never panic.

use super::cursor::ByteCursor;
use super::quic::PacketKind;

/// Packet number space (RFC 9000 §12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 0-RTT and 1-RTT packets.
    Application,
}

impl Space {
    /// The space for packets of this kind, if they have numbers.
    pub const fn for_packet(kind: PacketKind) -> Option<Self> {
        match kind {
            PacketKind::Initial => Some(Self::Initial),
            PacketKind::Handshake => Some(Self::Handshake),
            PacketKind::ZeroRtt | PacketKind::OneRtt => Some(Self::Application),
            PacketKind::Retry | PacketKind::VersionNegotiation => None,
        }
    }
}

/// A QUIC frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Run of padding bytes.
    Padding(u64),
    /// Elicits an acknowledgement.
    Ping,
    /// Acknowledges packets.
    Ack {
        /// First and last packet number of each range, inclusive, largest range first.
        ranges: Vec<(u64, u64)>,
        /// Delay as sent, to be multiplied by two to the power of the sender's exponent, microseconds.
        delay: u64,
    },
    /// Handshake bytes.
    Crypto {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// Stream bytes.
    Stream {
        /// Stream ID.
        id: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Whether the stream ends with these bytes.
        fin: bool,
    },
    /// Any other type.
    Other {
        /// Frame type.
        kind: u64,
        /// Leading numeric fields, in order, including the length of a text or token that follows them.
        numbers: Vec<u64>,
        /// Connection ID, if the frame has one.
        id: &'a [u8],
    },
}

impl Frame<'_> {
    /// Whether the frame is ack-eliciting (RFC 9002 §2).
    pub const fn elicits(&self) -> bool {
        const CLOSE: u64 = 0x1c;
        const CLOSE_APPLICATION: u64 = 0x1d;
        let close = matches!(self, Self::Other { kind: CLOSE | CLOSE_APPLICATION, .. });
        !close && !matches!(self, Self::Padding(_) | Self::Ack { .. })
    }
}

/// Iterates over the frames of a packet, in order.
pub fn frames(payload: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut reader = ByteCursor::new(payload);
    std::iter::from_fn(move || frame(&mut reader))
}

fn frame<'a>(reader: &mut ByteCursor<'a>) -> Option<Frame<'a>> {
    let kind = reader.quic_number()?;
    let mut id: &[u8] = &[];
    let mut numbers = Vec::new();
    let mut numbered = |reader: &mut ByteCursor<'a>, count: usize| {
        (0..count).try_for_each(|_| reader.quic_number().map(|number| numbers.push(number)))
    };
    match kind {
        0x00 => {
            let padding = reader.rest().iter().take_while(|byte| **byte == 0).count();
            reader.take(padding)?;
            return Some(Frame::Padding(padding as u64 + 1));
        }
        0x01 => return Some(Frame::Ping),
        0x02 | 0x03 => {
            let (largest, delay) = (reader.quic_number()?, reader.quic_number()?);
            let (more, first) = (reader.quic_number()?, reader.quic_number()?);
            let mut low = largest.checked_sub(first)?;
            let mut ranges = vec![(low, largest)];
            for _ in 0..more {
                let (gap, length) = (reader.quic_number()?, reader.quic_number()?);
                let high = low.checked_sub(gap.checked_add(2)?)?;
                low = high.checked_sub(length)?;
                ranges.push((low, high));
            }
            if kind == 0x03 {
                numbered(reader, 3)?;
            }
            return Some(Frame::Ack { ranges, delay });
        }
        0x06 => {
            let offset = reader.quic_number()?;
            let data = reader.quic_block()?;
            return Some(Frame::Crypto { offset, data });
        }
        0x08..=0x0f => {
            let id = reader.quic_number()?;
            let offset = if kind & 0x04 != 0 { reader.quic_number()? } else { 0 };
            let data = if kind & 0x02 != 0 {
                reader.quic_block()?
            } else {
                let rest = reader.rest().len();
                reader.take(rest)?
            };
            let (bytes, fin) = (data.len() as u64, kind & 0x01 != 0);
            return Some(Frame::Stream { id, offset, bytes, fin });
        }
        0x1e | 0x1f => {}
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => numbered(reader, 1)?,
        0x05 | 0x11 | 0x15 => numbered(reader, 2)?,
        0x04 => numbered(reader, 3)?,
        0x07 | 0x31 => {
            let block = reader.quic_block()?;
            numbers.push(block.len() as u64);
        }
        0x18 => {
            numbered(reader, 2)?;
            id = reader.block8()?;
            reader.take(16)?;
        }
        0x1a | 0x1b => drop(reader.take(8)?),
        0x1c => {
            numbered(reader, 2)?;
            reader.quic_block()?;
        }
        0x1d => {
            numbered(reader, 1)?;
            reader.quic_block()?;
        }
        // An unknown frame has unknown length, so nothing after it can be parsed: it is the last.
        _ => {
            let rest = reader.rest().len();
            reader.take(rest)?;
        }
    }
    Some(Frame::Other { kind, numbers, id })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn acknowledged_ranges_are_counted_down() {
        // Largest 20, delay 5, one more range; 20..=18, then a gap of 3 packets: 14..=10.
        let payload = [0x02, 20, 5, 1, 2, 2, 4, 0, 0, 0x01];
        let found: Vec<_> = frames(&payload).collect();
        let ranges = vec![(18, 20), (10, 14)];
        assert_eq!(found, [Frame::Ack { ranges, delay: 5 }, Frame::Padding(2), Frame::Ping]);
        let elicit: Vec<_> = found.iter().map(Frame::elicits).collect();
        assert_eq!(elicit, [false, false, true]);
    }

    #[test]
    fn bytes_of_the_handshake_and_of_streams() {
        let payload = [0x06, 0, 2, 7, 8, 0x1e, 0x0f, 4, 0x40, 0x65, 1, 9, 0x08, 0, 1, 2, 3];
        let found: Vec<_> = frames(&payload).collect();
        let expected = [
            Frame::Crypto { offset: 0, data: &[7, 8] },
            Frame::Other { kind: 0x1e, numbers: Vec::new(), id: &[] },
            Frame::Stream { id: 4, offset: 101, bytes: 1, fin: true },
            Frame::Stream { id: 0, offset: 0, bytes: 3, fin: false },
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let carried: u64 = frames(&bytes)
                .map(|frame| match frame {
                    Frame::Crypto { data, .. } => data.len() as u64,
                    Frame::Stream { bytes, .. } => bytes,
                    _ => 0,
                })
                .sum();
            prop_assert!(carried <= bytes.len() as u64);
        }
    }
}
