//! Seals QUIC Initials like an endpoint (RFC 9001 §5), so that their frames are read.

use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

pub const V1: u32 = 1;
pub const V2: u32 = 0x6b33_43cf;
pub const DRAFT_29: u32 = 0xff00_001d;

/// Both ends' keys for Initials.
pub struct Sealer {
    version: u32,
    keys: [Keys; 2],
}

impl Sealer {
    /// `id` is the client's first Destination Connection ID.
    pub fn new(version: u32, id: &[u8]) -> Self {
        let keys = |side| {
            let version = match version {
                V2 => Version::V2,
                DRAFT_29 => Version::V1Draft,
                _ => Version::V1,
            };
            let suite = TLS13_AES_128_GCM_SHA256.tls13().and_then(|suite| suite.quic_suite());
            suite.expect("aws-lc-rs has QUIC").keys(id, side, version)
        };
        Self { version, keys: [keys(Side::Client), keys(Side::Server)] }
    }

    pub fn initial(
        &self,
        side: usize,
        to: &[u8],
        from: &[u8],
        number: u32,
        frames: &[u8],
    ) -> Vec<u8> {
        let mut packet = self.head(0, to, from);
        // Empty token.
        packet.push(0);
        let mut payload = frames.to_vec();
        // A packet that is too short has no sample for header protection.
        payload.resize(payload.len().max(4), 0);
        packet.extend((0x4000 | (4 + payload.len() + 16) as u16 & 0x3fff).to_be_bytes());
        let number_at = packet.len();
        packet.extend(number.to_be_bytes());
        let keys = &self.keys[side].local;
        let tag = keys.packet.encrypt_in_place(u64::from(number), &packet, &mut payload);
        payload.extend(tag.expect("sealed").as_ref());
        let (first, behind) = packet.split_at_mut(1);
        let number = &mut behind[number_at - 1..];
        keys.header.encrypt_in_place(&payload[..16], &mut first[0], number).expect("a sample");
        packet.extend(payload);
        packet
    }

    /// A packet with a long header that cannot be decrypted: `kind` 1 is 0-RTT, 2 Handshake.
    pub fn closed(&self, kind: u8, to: &[u8], from: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = self.head(kind, to, from);
        packet.extend((0x4000 | payload.len() as u16 & 0x3fff).to_be_bytes());
        packet.extend(payload);
        packet
    }

    /// Version and connection IDs of a long header.
    pub fn head(&self, kind: u8, to: &[u8], from: &[u8]) -> Vec<u8> {
        // RFC 9369 §3.2 renumbers the packet types.
        let kind = if self.version == V2 { (kind + 1) & 3 } else { kind };
        let mut packet = vec![0xc3 | kind << 4];
        packet.extend(self.version.to_be_bytes());
        for id in [to, from] {
            packet.push(id.len() as u8);
            packet.extend(id);
        }
        packet
    }
}

/// A CRYPTO frame.
pub fn crypto(offset: u16, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![6];
    frame.extend((0x4000 | offset & 0x3fff).to_be_bytes());
    frame.extend((0x4000 | data.len() as u16 & 0x3fff).to_be_bytes());
    frame.extend(data);
    frame
}
