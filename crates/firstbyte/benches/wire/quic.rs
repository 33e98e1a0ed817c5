//! Synthetic QUIC connections for the benchmark: sealed Initials, then bytes that look encrypted.

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::{Analyzer, Time};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{Keys, Version};

use super::live::{EXCHANGES, PAUSE_NS, Stage};
use super::support;

const VERSION_1: [u8; 4] = [0, 0, 0, 1];

/// A connection being generated.
struct Connection {
    port: [u8; 6],
    /// Connection IDs: the client's random first destination, the client's own, the server's own.
    first: [u8; 8],
    client: [u8; 8],
    server: [u8; 8],
}

/// Destination of the datagrams.
struct Tap<'a> {
    analyzer: &'a mut Analyzer,
    at_ns: i64,
    /// Number of authentication tags so far; each sealed payload ends in a unique tag.
    tags: u64,
}

/// `connections` connections; none is closed or silent for long.
pub(super) fn live(connections: u32, stage: Stage, analyzer: &mut Analyzer) {
    let mut tap = Tap { analyzer, at_ns: 0, tags: 0 };
    let all: Vec<Connection> = (0..connections).map(Connection::new).collect();
    for connection in &all {
        connection.answered(&mut tap);
        if stage == Stage::UnderWay {
            connection.finished(&mut tap);
        }
    }
    if stage == Stage::MidHandshake {
        return;
    }
    for _ in 0..EXCHANGES {
        tap.at_ns += PAUSE_NS;
        for connection in &all {
            connection.one_rtt(&mut tap, 0, 120);
        }
        tap.at_ns += 20_000_000;
        for connection in &all {
            connection.one_rtt(&mut tap, 1, 1180);
            connection.one_rtt(&mut tap, 1, 700);
        }
    }
}

impl Connection {
    fn new(number: u32) -> Self {
        let id = |kind: u8| {
            let [a, b, c, d] = number.to_be_bytes();
            [kind, a, b, c, d, kind, kind, kind]
        };
        let [_, a, b, c] = number.to_be_bytes();
        Self { port: [10, a, b, c, 0xc0, 0], first: id(1), client: id(2), server: id(3) }
    }

    /// Sends everything up to the server's flight.
    fn answered(&self, tap: &mut Tap<'_>) {
        let hello = crypto(&support::client_hello());
        self.send(tap, 0, &self.initial(0, 0, &hello, 1200));
        tap.at_ns += 2_000_000;
        let answer = [&[2, 0, 0, 0, 0][..], &crypto(&support::server_hello())].concat();
        let mut flight = self.initial(1, 0, &answer, 0);
        flight.extend(self.handshake(tap, 1, 900));
        self.send(tap, 1, &flight);
    }

    /// Sends the client's Finished, and the server's first packets after it.
    fn finished(&self, tap: &mut Tap<'_>) {
        tap.at_ns += 1_000_000;
        self.send(tap, 0, &self.initial(0, 1, &[2, 0, 0, 0, 0], 0));
        let finished = self.handshake(tap, 0, 60);
        self.send(tap, 0, &finished);
        tap.at_ns += 1_000_000;
        self.one_rtt(tap, 1, 300);
    }

    const fn ids(&self, side: usize) -> (&[u8; 8], &[u8; 8]) {
        if side == 0 { (&self.server, &self.client) } else { (&self.client, &self.server) }
    }

    /// An Initial of at least `bytes` bytes (RFC 9001 §5).
    fn initial(&self, side: usize, number: u32, frames: &[u8], bytes: usize) -> Vec<u8> {
        let (to, from) = self.ids(side);
        let to = if side == 0 && number == 0 { &self.first } else { to };
        let mut packet = [&[0xc3][..], &VERSION_1, &[8], to, &[8], from, &[0]].concat();
        let mut payload = frames.to_vec();
        let missing = bytes.saturating_sub(packet.len() + 2 + 4 + frames.len() + 16);
        payload.resize(frames.len() + missing, 0);
        packet.extend((0x4000 | (4 + payload.len() + 16) as u16).to_be_bytes());
        let number_at = packet.len();
        packet.extend(number.to_be_bytes());
        let keys = self.keys(side);
        let tag = keys.local.packet.encrypt_in_place(number.into(), &packet, &mut payload).unwrap();
        payload.extend(tag.as_ref());
        let (first, behind) = packet.split_at_mut(1);
        let number = &mut behind[number_at - 1..];
        keys.local.header.encrypt_in_place(&payload[..16], &mut first[0], number).unwrap();
        [packet, payload].concat()
    }

    fn keys(&self, side: usize) -> Keys {
        let side = if side == 0 { Side::Client } else { Side::Server };
        let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap().quic_suite().unwrap();
        suite.keys(&self.first, side, Version::V1)
    }

    fn handshake(&self, tap: &mut Tap<'_>, side: usize, length: usize) -> Vec<u8> {
        let (to, from) = self.ids(side);
        let lead = [&[0xe0][..], &VERSION_1, &[8], to, &[8], from].concat();
        [lead, (0x4000 | length as u16).to_be_bytes().to_vec(), tap.sealed(length)].concat()
    }

    fn one_rtt(&self, tap: &mut Tap<'_>, side: usize, length: usize) {
        let packet = [&[0x40][..], self.ids(side).0, &tap.sealed(length)].concat();
        self.send(tap, side, &packet);
    }

    fn send(&self, tap: &mut Tap<'_>, side: usize, payload: &[u8]) {
        const SERVER: [u8; 6] = [192, 0, 2, 1, 1, 187];
        let (from, to) = if side == 0 { (self.port, SERVER) } else { (SERVER, self.port) };
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend(&from[..4]);
        frame.extend(&to[..4]);
        frame.extend(&from[4..]);
        frame.extend(&to[4..]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        tap.pass(&frame);
    }
}

impl Tap<'_> {
    fn pass(&mut self, frame: &[u8]) {
        self.at_ns += 1_207;
        let frame = Frame {
            at: Some(Time::from_unix_ns(1_700_000_000_000_000_000 + self.at_ns)),
            link: LinkType(1),
            captured: frame,
            wire_bytes: frame.len() as u32,
        };
        self.analyzer.frame(&frame, &mut |_| {});
    }

    /// Bytes that look encrypted.
    fn sealed(&mut self, length: usize) -> Vec<u8> {
        self.tags += 1;
        let mut bytes = vec![0x5a; length - 8];
        bytes.extend(self.tags.to_be_bytes());
        bytes
    }
}

/// A CRYPTO frame at offset 0 of the stream.
fn crypto(message: &[u8]) -> Vec<u8> {
    let length = (0x4000 | message.len() as u16).to_be_bytes();
    [&[6, 0][..], &length, message].concat()
}
