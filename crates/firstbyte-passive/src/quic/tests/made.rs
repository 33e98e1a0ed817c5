//! QUIC made by hand: sealed Initials, everything else random bytes, in packets on an Ethernet.

use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::Version;

use crate::{Analyzer, Hygiene, Limits, Observed, Time};
use firstbyte_core::pcap::{Frame, LinkType};

pub(super) const V1: u32 = 1;
pub(super) const V2: u32 = 0x6b33_43cf;
pub(super) const MS: i64 = 1_000_000;

/// The CRYPTO frame of RFC 9001 §A.2, with a ClientHello for example.com.
pub(super) const CLIENT_HELLO: &str = "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e868\
    04fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff010001000\
    00a00080006001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9ca\
    a47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306030\
    203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff08\
    01100104800075300901100f088394c8f03e51570806048000ffff";

/// The frames of RFC 9001 §A.3: an acknowledgment of packet 0, a ServerHello.
pub(super) const SERVER_HELLO: &str = "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf\
    73988cfc79825df566dc5430b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144ec\
    a684d1081287c834d5311bcf32bb9da1a002b00020304";

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|two| two[0] << 4 | two[1]).collect()
}

/// An Initial packet.
#[derive(Clone)]
pub(super) struct Initial {
    pub(super) version: u32,
    /// The connection ID from which the keys are derived.
    pub(super) keys: Vec<u8>,
    pub(super) by_client: bool,
    pub(super) destination: Vec<u8>,
    pub(super) source: Vec<u8>,
    pub(super) token: Vec<u8>,
    pub(super) number: u32,
    pub(super) frames: Vec<u8>,
}

impl Initial {
    /// Seals the packet (RFC 9001 §5).
    pub(super) fn seal(&self) -> Vec<u8> {
        let version = if self.version == V2 { Version::V2 } else { Version::V1 };
        let side = if self.by_client { Side::Client } else { Side::Server };
        let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
        let keys = suite.keys(&self.keys, side, version).local;
        let mut packet = vec![if self.version == V2 { 0xd3 } else { 0xc3 }];
        packet.extend(self.version.to_be_bytes());
        for id in [&self.destination, &self.source] {
            packet.push(id.len() as u8);
            packet.extend(id);
        }
        packet.push(self.token.len() as u8);
        packet.extend(&self.token);
        let length = 4 + self.frames.len() + 16;
        packet.extend((0x4000 | length as u16).to_be_bytes());
        let number_at = packet.len();
        packet.extend(self.number.to_be_bytes());
        let mut payload = self.frames.clone();
        let number = u64::from(self.number);
        let tag = keys.packet.encrypt_in_place(number, &packet, &mut payload).unwrap();
        payload.extend(tag.as_ref());
        let (first, behind) = packet.split_at_mut(1);
        let number = &mut behind[number_at - 1..];
        keys.header.encrypt_in_place(&payload[..16], &mut first[0], number).unwrap();
        packet.extend(payload);
        packet
    }

    /// Seals the packet with PADDING up to `bytes`.
    pub(super) fn padded(&self, bytes: usize) -> Vec<u8> {
        let mut padded = self.clone();
        let missing = bytes.saturating_sub(self.seal().len());
        padded.frames.extend(vec![0; missing]);
        padded.seal()
    }
}

/// A CRYPTO frame.
pub(super) fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![6];
    frame.extend((0x4000 | offset as u16).to_be_bytes());
    frame.extend((0x4000 | data.len() as u16).to_be_bytes());
    frame.extend(data);
    frame
}

/// A packet that cannot be opened: Handshake or 0-RTT, by its type.
pub(super) fn sealed(kind: u8, to: &[u8], from: &[u8], length: usize) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4];
    packet.extend(V1.to_be_bytes());
    for id in [to, from] {
        packet.push(id.len() as u8);
        packet.extend(id);
    }
    packet.extend((0x4000 | length as u16).to_be_bytes());
    packet.extend(noise(length));
    packet
}

pub(super) const ZERO_RTT: u8 = 1;
pub(super) const HANDSHAKE: u8 = 2;

/// A packet with a short header.
pub(super) fn short(to: &[u8], spin: bool, length: usize) -> Vec<u8> {
    let mut packet = vec![if spin { 0x60 } else { 0x40 }];
    packet.extend(to);
    packet.extend(noise(length));
    packet
}

/// Bytes that do not repeat.
fn noise(length: usize) -> Vec<u8> {
    std::iter::repeat_with(|| fastrand::u8(1..)).take(length).collect()
}

/// A datagram: its time, its direction, its port, its payload.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) at: i64,
    pub(super) by_client: bool,
    pub(super) port: u16,
    pub(super) payload: Vec<u8>,
}

/// The packets that a tap saw.
#[derive(Clone, Default)]
pub(super) struct Talk {
    pub(super) made: Vec<Made>,
    now: i64,
    pub(super) port: u16,
}

pub(super) const PORT: u16 = 50_000;

impl Talk {
    pub(super) fn new() -> Self {
        Self { made: Vec::new(), now: 1_000 * MS, port: PORT }
    }

    pub(super) fn after(&mut self, ns: i64) -> &mut Self {
        self.now += ns;
        self
    }

    pub(super) fn client(&mut self, payload: Vec<u8>) -> &mut Self {
        self.made.push(Made { at: self.now, by_client: true, port: self.port, payload });
        self
    }

    pub(super) fn server(&mut self, payload: Vec<u8>) -> &mut Self {
        self.made.push(Made { at: self.now, by_client: false, port: self.port, payload });
        self
    }

    pub(super) fn only(&self) -> Observed {
        let (mut all, _) = read(&self.made, Limits::default());
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

/// Reads all connections from the packets that a tap saw.
pub(super) fn read(made: &[Made], limits: Limits) -> (Vec<Observed>, Hygiene) {
    let mut analyzer = Analyzer::new(limits);
    let mut all = Vec::new();
    let mut emit = |observed: &Observed| all.push(observed.clone());
    for datagram in made {
        let bytes = frame(datagram);
        let frame = Frame {
            at: Some(Time::from_unix_ns(datagram.at)),
            link: LinkType(1),
            captured: &bytes,
            wire_bytes: bytes.len() as u32,
        };
        analyzer.frame(&frame, &mut emit);
    }
    analyzer.finish(&mut emit);
    all.sort_by_key(|observed| observed.number);
    (all, *analyzer.hygiene())
}

fn frame(made: &Made) -> Vec<u8> {
    let ends = [([10, 0, 0, 1], made.port), ([192, 0, 2, 1], 443)];
    let [from, to] = if made.by_client { ends } else { [ends[1], ends[0]] };
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((28 + made.payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend((8 + made.payload.len() as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(&made.payload);
    frame
}
