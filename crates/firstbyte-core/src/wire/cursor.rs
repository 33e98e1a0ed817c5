//! A cursor that takes bytes from the front and reads numbers in network byte order.
//!
//! The one reader of TLS messages, QUIC packets and frames, here, in `passive` and in the lab's server. Missing bytes
//! yield `None`, and the cursor never panics.
//!
//! Other readers, and why they exist: `passive::layers` reads fixed offsets of headers that a capture may have
//! truncated, and must tell that from a wrong header; `passive::pcap` reads in the byte order of the file;
//! `passive::packed` reads its own LEB128, which never leaves the process; `wire::tls` and `wire::http2` accept
//! arbitrary pieces of a stream, and keep state instead.

/// Takes bytes from the front.
#[derive(Clone, Copy, Debug)]
pub struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    /// Creates a cursor at the beginning of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes not taken yet.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether everything has been taken.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes `bytes` bytes.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    /// Reads a one-byte number.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a two-byte number.
    #[inline]
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a three-byte number.
    #[inline]
    pub fn u24(&mut self) -> Option<u32> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Reads a four-byte number.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number of `bytes` bytes, at most eight.
    #[inline]
    pub fn number(&mut self, bytes: usize) -> Option<u64> {
        debug_assert!(bytes <= 8, "a number of {bytes} bytes");
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a number whose first two bits encode its length (RFC 9000 §16).
    #[inline]
    pub fn quic_number(&mut self) -> Option<u64> {
        let length = 1 << (self.0.first()? >> 6);
        let number = self.number(length)?;
        Some(number & (u64::MAX >> (64 - 8 * length + 2)))
    }

    /// Reads bytes prefixed by a one-byte length.
    #[inline]
    pub fn block8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// Reads bytes prefixed by a two-byte length.
    #[inline]
    pub fn block16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// Like [`Self::block16`], but returns a truncated block too, and whether it was truncated.
    #[inline]
    pub fn block16_or_rest(&mut self) -> Option<(&'a [u8], bool)> {
        let length = usize::from(self.u16()?);
        let cut = self.0.len() < length;
        Some((self.take(length.min(self.0.len()))?, cut))
    }

    /// Reads bytes prefixed by a length, encoded as for [`Self::quic_number`].
    #[inline]
    pub fn quic_block(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.quic_number()?).ok()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_in_network_order() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let mut cursor = ByteCursor::new(&bytes);
        assert_eq!(
            (cursor.u8(), cursor.u16(), cursor.u24()),
            (Some(1), Some(0x0203), Some(0x04_0506))
        );
        assert_eq!((cursor.u32(), cursor.number(2)), (Some(0x0708_090a), Some(0x0b0c)));
        assert!(cursor.is_empty() && cursor.u8().is_none());
    }

    /// RFC 9000 §A.1.
    #[test]
    fn quic_numbers_are_those_of_the_standard() {
        let read = |bytes: &[u8]| ByteCursor::new(bytes).quic_number();
        let eight = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(read(&eight), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(
            (read(&[0x7b, 0xbd]), read(&[0x25]), read(&[0x40, 0x25])),
            (Some(15_293), Some(37), Some(37))
        );
        assert_eq!(read(&eight[..7]), None);
    }

    #[test]
    fn blocks_are_behind_their_lengths() {
        let mut cursor = ByteCursor::new(&[1, 7, 0, 2, 8, 9, 0, 3, 1]);
        assert_eq!((cursor.block8(), cursor.block16()), (Some(&[7][..]), Some(&[8, 9][..])));
        assert_eq!(cursor.clone().block16(), None);
        assert_eq!(cursor.block16_or_rest(), Some((&[1][..], true)));
    }

    proptest! {
        #[test]
        fn what_is_taken_and_what_is_left_are_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            steps in proptest::collection::vec(0..9_u8, 0..20),
        ) {
            let mut cursor = ByteCursor::new(&bytes);
            for step in steps {
                let before = cursor.rest();
                let taken = match step {
                    0 => cursor.u8().map(|_| 1),
                    1 => cursor.u16().map(|_| 2),
                    2 => cursor.u24().map(|_| 3),
                    3 => cursor.u32().map(|_| 4),
                    4 => cursor.number(8).map(|_| 8),
                    5 => cursor.block8().map(|block| 1 + block.len()),
                    6 => cursor.block16().map(|block| 2 + block.len()),
                    7 => cursor.block16_or_rest().map(|(block, _)| 2 + block.len()),
                    _ => cursor.quic_number().map(|_| 1 << (before[0] >> 6)),
                };
                match taken {
                    Some(taken) => prop_assert_eq!(cursor.rest(), &before[taken..]),
                    None => break,
                }
            }
        }
    }
}
