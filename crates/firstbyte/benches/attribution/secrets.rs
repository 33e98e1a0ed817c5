//! Decrypts QUIC datagrams with the secrets that the client logged (SSLKEYLOGFILE).
//!
//! Input: the datagrams of one connection, and the log. Output: packet numbers, stream pieces and acknowledgements of
//! each datagram that could be decrypted. Uses nothing of the measuring code's QUIC.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::aead::quic::HeaderProtectionKey;
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use firstbyte_core::wire::frames::{Frame, Space, frames};
use firstbyte_core::wire::quic::{PacketKind, packets};
use firstbyte_truth::{Datagram, End, Lane, Piece};

/// Labels and secrets, keyed by the ClientHello's random.
pub(crate) type Log = HashMap<Vec<u8>, Vec<(String, Vec<u8>)>>;

/// Reads the log in `file`; empty if there is no file.
pub(crate) fn log(file: &Path) -> Log {
    let mut log = Log::new();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [label, random, secret] = words[..] else { continue };
        let (Some(random), Some(secret)) = (bytes(random), bytes(secret)) else { continue };
        log.entry(random).or_default().push((label.to_owned(), secret));
    }
    log
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// One datagram as captured at its sender.
pub(crate) struct Raw<'a> {
    pub(crate) id: u64,
    pub(crate) from: End,
    pub(crate) payload: &'a [u8],
}

/// Decrypts the datagrams of a connection, given in the order in which each sender sent them.
pub(crate) fn open(raw: &[Raw<'_>], log: &Log) -> HashMap<u64, Arc<Datagram>> {
    let mut opener = Opener::default();
    let mut opened = HashMap::new();
    // Look at the client's first: they tell which keys to use.
    for from in [End::Client, End::Server] {
        for raw in raw.iter().filter(|raw| raw.from == from) {
            opener.learn(raw, log);
        }
    }
    for raw in raw {
        if let Some(datagram) = opener.datagram(raw) {
            opened.insert(raw.id, Arc::new(datagram));
        }
    }
    opened
}

#[derive(Default)]
struct Opener {
    keys: Vec<Keys>,
    /// Connection IDs that were used for Initial keys.
    ids: Vec<Vec<u8>>,
    /// Lengths of the connection IDs chosen by the client and the server.
    chosen: HashMap<End, usize>,
    /// The largest packet number by sender and space.
    largest: HashMap<(End, Space), u64>,
    random: Option<Vec<u8>>,
}

struct Keys {
    from: End,
    kind: PacketKind,
    packet: LessSafeKey,
    iv: [u8; 12],
    header: HeaderProtectionKey,
    /// Secret from which the keys after an update are derived; the header key does not change.
    secret: Vec<u8>,
    header_key: Vec<u8>,
    algorithms: (&'static aead::Algorithm, &'static quic::Algorithm),
}

fn hash(secret: &[u8]) -> hkdf::Algorithm {
    if secret.len() == 48 { HKDF_SHA384 } else { HKDF_SHA256 }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(secret: &Prk, label: &str, length: usize) -> Option<Vec<u8>> {
    let label = format!("tls13 {label}");
    let mut info = (length as u16).to_be_bytes().to_vec();
    info.push(label.len() as u8);
    info.extend(label.as_bytes());
    info.push(0);
    let mut out = vec![0; length];
    secret.expand(&[&info], Length(length)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

impl Keys {
    fn new(
        from: End,
        kind: PacketKind,
        bytes: &[u8],
        packet: &'static aead::Algorithm,
        header: &'static quic::Algorithm,
    ) -> Option<Self> {
        let secret = &Prk::new_less_safe(hash(bytes), bytes);
        let key = expand(secret, "quic key", packet.key_len())?;
        let header_key = expand(secret, "quic hp", packet.key_len())?;
        Some(Self {
            from,
            kind,
            packet: LessSafeKey::new(UnboundKey::new(packet, &key).ok()?),
            iv: expand(secret, "quic iv", 12)?.try_into().ok()?,
            header: HeaderProtectionKey::new(header, &header_key).ok()?,
            header_key,
            secret: bytes.to_vec(),
            algorithms: (packet, header),
        })
    }

    /// The keys after a key update, which keeps the header protection key (RFC 9001 §6).
    fn next(&self) -> Option<Self> {
        let secret = Prk::new_less_safe(hash(&self.secret), &self.secret);
        let next = expand(&secret, "quic ku", self.secret.len())?;
        let (packet, header) = self.algorithms;
        let keys = Self::new(self.from, self.kind, &next, packet, header)?;
        let header_key = self.header_key.clone();
        let header = HeaderProtectionKey::new(header, &header_key).ok()?;
        Some(Self { header, header_key, ..keys })
    }

    /// Decrypts a packet; gives its number and payload.
    fn open(&self, packet: &[u8], number_at: usize, expected: u64) -> Option<(u64, Vec<u8>)> {
        let mut packet = packet.to_vec();
        let sample = packet.get(number_at + 4..number_at + 20)?;
        let mask = self.header.new_mask(sample).ok()?;
        packet[0] ^= mask[0] & if packet[0] & 0x80 != 0 { 0x0f } else { 0x1f };
        let length = usize::from(packet[0] & 3) + 1;
        let mut truncated = 0;
        for (index, mask) in (0..length).zip(&mask[1..]) {
            packet[number_at + index] ^= mask;
            truncated = truncated << 8 | u64::from(packet[number_at + index]);
        }
        let number = whole(expected, truncated, 8 * length as u32);
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= number;
        }
        let (header, payload) = packet.split_at_mut(number_at + length);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let plain = self.packet.open_in_place(nonce, Aad::from(&*header), payload).ok()?;
        Some((number, plain.to_vec()))
    }
}

/// Decodes a packet number from its least significant bits (RFC 9000 §A.3).
fn whole(expected: u64, truncated: u64, bits: u32) -> u64 {
    let window = 1u64 << bits;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Initial salt (RFC 9001 §5.2).
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];

impl Opener {
    fn learn(&mut self, raw: &Raw<'_>, log: &Log) {
        let Some((destination, source)) = ids(raw.payload) else { return };
        self.chosen.insert(raw.from, source.len());
        if raw.from == End::Server || self.ids.iter().any(|id| id == destination) {
            return;
        }
        self.ids.push(destination.to_vec());
        let initial = hkdf::Salt::new(HKDF_SHA256, &SALT).extract(destination);
        for (from, label) in [(End::Client, "client in"), (End::Server, "server in")] {
            let secret = expand(&initial, label, 32);
            let (packet, header) = (&aead::AES_128_GCM, &quic::AES_128);
            let keys = secret
                .and_then(|secret| Keys::new(from, PacketKind::Initial, &secret, packet, header));
            self.keys.extend(keys);
        }
        if self.random.is_none() {
            self.random = self.hello(raw);
            let secrets = self.random.as_ref().and_then(|random| log.get(random));
            for (label, secret) in secrets.into_iter().flatten() {
                self.add(label, secret);
            }
        }
    }

    /// The random of the ClientHello, which is within the first bytes.
    fn hello(&self, raw: &Raw<'_>) -> Option<Vec<u8>> {
        let packet = &raw.payload[..packets(raw.payload).next()?.bytes];
        let at = number_at(packet)?;
        let mut opened = self.keys.iter().filter_map(|keys| keys.open(packet, at, 0));
        let (_, plain) = opened.next()?;
        frames(&plain).find_map(|frame| match frame {
            Frame::Crypto { offset: 0, data } => data.get(6..38).map(<[u8]>::to_vec),
            _ => None,
        })
    }

    fn add(&mut self, label: &str, secret: &[u8]) {
        let (from, kind) = match label {
            "CLIENT_EARLY_TRAFFIC_SECRET" => (End::Client, PacketKind::ZeroRtt),
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => (End::Client, PacketKind::Handshake),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => (End::Server, PacketKind::Handshake),
            "CLIENT_TRAFFIC_SECRET_0" => (End::Client, PacketKind::OneRtt),
            "SERVER_TRAFFIC_SECRET_0" => (End::Server, PacketKind::OneRtt),
            _ => return,
        };
        // The log does not name the cipher suite, so all are tried; only the right one decrypts anything.
        if secret.len() == 48 {
            self.keys.extend(Keys::new(from, kind, secret, &aead::AES_256_GCM, &quic::AES_256));
            return;
        }
        self.keys.extend(Keys::new(from, kind, secret, &aead::AES_128_GCM, &quic::AES_128));
        let chacha = (&aead::CHACHA20_POLY1305, &quic::CHACHA20);
        self.keys.extend(Keys::new(from, kind, secret, chacha.0, chacha.1));
    }

    fn datagram(&mut self, raw: &Raw<'_>) -> Option<Datagram> {
        let mut datagram = Datagram::default();
        let mut rest = raw.payload;
        for packet in packets(raw.payload) {
            let (bytes, behind) = rest.split_at(packet.bytes);
            rest = behind;
            let Some(space) = Space::for_packet(packet.kind) else { continue };
            let at = match packet.kind {
                PacketKind::OneRtt => 1 + *self.chosen.get(&raw.from.other())?,
                _ => number_at(bytes)?,
            };
            let largest = self.largest.entry((raw.from, space)).or_default();
            let expected = *largest + 1;
            let fit = |k: &&Keys| k.from == raw.from && k.kind == packet.kind;
            let keys = self.keys.iter().filter(fit);
            let mut opened = keys.filter_map(|keys| keys.open(bytes, at, expected)).next();
            if opened.is_none() && packet.kind == PacketKind::OneRtt {
                // quic-go updates its keys after a hundred packets.
                let mut next = self.keys.iter().filter(fit).filter_map(Keys::next);
                let next = next.find(|keys| keys.open(bytes, at, expected).is_some());
                opened = next.as_ref().and_then(|keys| keys.open(bytes, at, expected));
                // Header protection does not change, so the updated keys stay in the same list.
                self.keys.extend(next);
            }
            let Some((number, plain)) = opened else { continue };
            *largest = number.max(*largest);
            datagram.packets.push((space, number));
            datagram.early |= packet.kind == PacketKind::ZeroRtt;
            for frame in frames(&plain) {
                datagram.elicits |= frame.elicits();
                add(&mut datagram, space, &frame);
            }
        }
        (!datagram.packets.is_empty()).then_some(datagram)
    }
}

fn add(datagram: &mut Datagram, space: Space, frame: &Frame<'_>) {
    match frame {
        Frame::Ack { ranges, .. } => {
            datagram.acknowledges.extend(ranges.iter().map(|(low, high)| (space, *low, *high)));
        }
        Frame::Crypto { offset, data } => datagram.pieces.push(Piece {
            lane: Lane::Handshake(space),
            start: *offset,
            end: offset + data.len() as u64,
        }),
        Frame::Stream { id, offset, bytes, fin } => datagram.pieces.push(Piece {
            lane: Lane::Stream(*id),
            start: *offset,
            end: offset + bytes + u64::from(*fin),
        }),
        _ => {}
    }
}

/// Destination and source connection ID of a datagram that begins with a long header.
fn ids(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    (datagram.first()? & 0x80 != 0).then_some(())?;
    let length = usize::from(*datagram.get(5)?);
    let destination = datagram.get(6..6 + length)?;
    let from = 7 + length;
    let source = datagram.get(from..from + usize::from(*datagram.get(from - 1)?))?;
    Some((destination, source))
}

/// Offset of the packet number in a packet with a long header.
fn number_at(packet: &[u8]) -> Option<usize> {
    const INITIAL: u8 = 0;
    let (destination, source) = ids(packet)?;
    let mut at = 7 + destination.len() + source.len();
    if packet[0] >> 4 & 3 == INITIAL {
        let (token, length) = variable(packet.get(at..)?)?;
        at += length + usize::try_from(token).ok()?;
    }
    let (_, length) = variable(packet.get(at..)?)?;
    Some(at + length)
}

/// A variable-length integer and its encoded length (RFC 9000 §16).
fn variable(bytes: &[u8]) -> Option<(u64, usize)> {
    let length = 1 << (bytes.first()? >> 6);
    let number = bytes.get(..length)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    Some((number & (u64::MAX >> (66 - 8 * length)), length))
}
