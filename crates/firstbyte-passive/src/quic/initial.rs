//! Decrypts Initial packets, whose keys anyone on the path can derive (RFC 9001 §5.2).
//!
//! In: the connection ID that a client chose for the server, and Initial packets. Out: packet numbers and decrypted
//! frames. A packet that opens proves who sent it and to which connection it belongs. No other QUIC packets can be
//! opened.

use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

use super::packet::{self, Cid, Long};
use firstbyte_core::wire::cursor::ByteCursor;

/// Keys of the Initial packets in both directions.
pub(super) struct InitialKeys {
    pub(super) version: u32,
    pub(super) destination: Cid,
    keys: Keys,
}

impl std::fmt::Debug for InitialKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitialKeys").field("version", &self.version).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Opened<'a> {
    pub(super) number: u64,
    pub(super) frames: &'a [u8],
}

impl InitialKeys {
    /// Keys of the connection whose client first sent to `destination`; `None` for versions with unknown salts.
    pub(super) fn new(version: u32, destination: Cid) -> Option<Self> {
        let salts = match version {
            packet::V2 => Version::V2,
            // Drafts 33 and 34 have the salt of version 1 (draft-ietf-quic-tls-33).
            packet::V1 | 0xff00_0021..=0xff00_0022 => Version::V1,
            0xff00_001d..=0xff00_0020 => Version::V1Draft,
            _ => return None,
        };
        let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
        let keys = suite.keys(destination.as_slice(), Side::Server, salts);
        Some(Self { version, destination, keys })
    }

    /// Decrypts a packet into `scratch`; `expected` is the largest packet number so far plus one.
    pub(super) fn open<'s>(
        &self,
        by_client: bool,
        packet: &Long<'_>,
        expected: u64,
        scratch: &'s mut Vec<u8>,
    ) -> Option<Opened<'s>> {
        const LONGEST_NUMBER: usize = 4;
        if !packet.is_whole() {
            return None;
        }
        let keys = if by_client { &self.keys.remote } else { &self.keys.local };
        scratch.clear();
        scratch.extend_from_slice(packet.bytes);
        let (header, behind) = scratch.split_at_mut_checked(packet.number_at)?;
        let first = header.first_mut()?;
        let (number, sampled) = behind.split_at_mut_checked(LONGEST_NUMBER)?;
        let sample = sampled.get(..keys.header.sample_len())?;
        keys.header.decrypt_in_place(sample, first, number).ok()?;
        let length = usize::from(*first & 3) + 1;
        let truncated = ByteCursor::new(&number[..length]).number(length)?;
        let number = whole_number(expected, truncated, length as u32 * 8);
        let (header, payload) = scratch.split_at_mut_checked(packet.number_at + length)?;
        let frames = keys.packet.decrypt_in_place(number, header, payload).ok()?;
        Some(Opened { number, frames })
    }
}

/// Recovers a packet number from its last `bits` (RFC 9000 §A.3).
const fn whole_number(expected: u64, truncated: u64, bits: u32) -> u64 {
    const LARGEST: u64 = 1 << 62;
    let window = 1 << bits;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + window / 2 <= expected && candidate < LARGEST - window {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// A frame of an Initial packet (RFC 9000 §17.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// PADDING, which elicits no acknowledgment.
    Padding,
    Ping,
    Ack {
        largest: u64,
    },
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    /// CONNECTION_CLOSE with its error code.
    Close(u64),
}

/// The frames in order; a frame that an Initial cannot hold ends them with `None`.
pub(super) fn frames(bytes: &[u8]) -> impl Iterator<Item = Option<Frame<'_>>> {
    let mut reader = ByteCursor::new(bytes);
    let mut over = false;
    std::iter::from_fn(move || {
        if over || reader.rest().is_empty() {
            return None;
        }
        let frame = frame(&mut reader);
        over = frame.is_none();
        Some(frame)
    })
}

fn frame<'a>(reader: &mut ByteCursor<'a>) -> Option<Frame<'a>> {
    const MORE_RANGES: u64 = 1 << 12;
    match reader.quic_number()? {
        0 => {
            let zeros = reader.rest().iter().take_while(|byte| **byte == 0).count();
            reader.take(zeros)?;
            Some(Frame::Padding)
        }
        1 => Some(Frame::Ping),
        kind @ (2 | 3) => {
            let largest = reader.quic_number()?;
            reader.quic_number()?;
            let ranges = reader.quic_number().filter(|ranges| *ranges < MORE_RANGES)?;
            let ecn = if kind == 3 { 3 } else { 0 };
            for _ in 0..1 + 2 * ranges + ecn {
                reader.quic_number()?;
            }
            Some(Frame::Ack { largest })
        }
        6 => {
            let offset = reader.quic_number()?;
            let length = usize::try_from(reader.quic_number()?).ok()?;
            Some(Frame::Crypto { offset, data: reader.take(length)? })
        }
        0x1c => {
            let code = reader.quic_number()?;
            reader.quic_number()?;
            let reason = usize::try_from(reader.quic_number()?).ok()?;
            reader.take(reason)?;
            Some(Frame::Close(code))
        }
        _ => None,
    }
}
