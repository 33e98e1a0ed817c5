//! Packets and TLS made by hand.

use crate::{Analyzer, Hygiene, Limits, Observed, Time};
use firstbyte_core::pcap::{Frame, LinkType};

/// A packet on an Ethernet, with its time in ns.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) at: i64,
    pub(super) frame: Vec<u8>,
    pub(super) wire_bytes: u32,
}

impl Made {
    pub(super) fn as_frame(&self) -> Frame<'_> {
        Frame {
            at: Some(Time::from_unix_ns(self.at)),
            link: LinkType(1),
            captured: &self.frame,
            wire_bytes: self.wire_bytes,
        }
    }
}

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 443);

pub(super) const SYN: u8 = 2;
pub(super) const ACK: u8 = 16;
pub(super) const FIN: u8 = 1;
pub(super) const RST: u8 = 4;

/// A TCP conversation, made packet by packet.
#[derive(Clone)]
pub(super) struct Talk {
    pub(super) packets: Vec<Made>,
    next: [u32; 2],
    /// For each side, which numbers its packets.
    identification: [u16; 2],
    port: u16,
    now: i64,
}

pub(super) const MS: i64 = 1_000_000;

impl Talk {
    pub(super) fn new(port: u16, sequence: u32) -> Self {
        let next = [sequence, sequence ^ 0x5555_0000];
        Self { packets: Vec::new(), next, identification: [1, 0x4000], port, now: 1_000_000_000 }
    }

    /// The SYN exchange: 2 ms to the server and back, 8 ms to the client and back.
    pub(super) fn open(&mut self) -> &mut Self {
        self.send(0, SYN, &[]).after(2 * MS).send(1, SYN | ACK, &[]).after(8 * MS).send(0, ACK, &[])
    }

    pub(super) fn after(&mut self, ns: i64) -> &mut Self {
        self.now += ns;
        self
    }

    /// Sends a segment from side 0 (the client) or 1.
    pub(super) fn send(&mut self, side: usize, flags: u8, payload: &[u8]) -> &mut Self {
        let ends = [(CLIENT.0, self.port), SERVER];
        let (from, to) = (ends[side], ends[1 - side]);
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend(self.identification[side].to_be_bytes());
        frame.extend([0x40, 0, 64, 6, 0, 0]);
        frame.extend(from.0);
        frame.extend(to.0);
        frame.extend(from.1.to_be_bytes());
        frame.extend(to.1.to_be_bytes());
        frame.extend(self.next[side].to_be_bytes());
        frame.extend(if flags & ACK != 0 { self.next[1 - side] } else { 0 }.to_be_bytes());
        frame.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        self.identification[side] = self.identification[side].wrapping_add(1);
        let control = u32::from(flags & (SYN | FIN) != 0);
        self.next[side] = self.next[side].wrapping_add(payload.len() as u32 + control);
        let wire_bytes = frame.len() as u32;
        self.packets.push(Made { at: self.now, frame, wire_bytes });
        self
    }

    /// Sends `bytes` in segments of at most `size`, each acknowledged.
    pub(super) fn send_cut(&mut self, side: usize, bytes: &[u8], size: usize) -> &mut Self {
        for piece in bytes.chunks(size) {
            self.send(side, ACK, piece);
        }
        self
    }
}

pub(super) fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 3];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(super) fn sealed(length: usize) -> Vec<u8> {
    record(23, &vec![0xa5; length])
}

pub(super) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn extensions(list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in list {
        bytes.extend(kind.to_be_bytes());
        bytes.extend((value.len() as u16).to_be_bytes());
        bytes.extend(value);
    }
    let mut block = (bytes.len() as u16).to_be_bytes().to_vec();
    block.extend(bytes);
    block
}

fn hello(kind: u8, random: u8, list: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([random; 32]);
    body.push(32);
    body.extend([8; 32]);
    if kind == 1 {
        body.extend([0, 2, 0x13, 0x01, 1, 0]);
    } else {
        body.extend(if list.is_empty() { [0xc0, 0x2b, 0] } else { [0x13, 0x01, 0] });
    }
    body.extend(extensions(list));
    message(kind, &body)
}

pub(super) fn server_name() -> (u16, Vec<u8>) {
    let name = b"shop.example";
    let mut value = vec![0, name.len() as u8 + 3, 0, 0, name.len() as u8];
    value.extend(name);
    (0, value)
}

fn share(client: bool) -> (u16, Vec<u8>) {
    let mut value = if client { vec![0, 36] } else { Vec::new() };
    value.extend([0, 29, 0, 32]);
    value.extend([7; 32]);
    (51, value)
}

/// A TLS 1.3 ClientHello, with more extensions at its end.
pub(super) fn client_hello13(more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = vec![server_name(), (43, vec![2, 3, 4]), share(true)];
    list.extend_from_slice(more);
    hello(1, 9, &list)
}

/// A TLS 1.2 ClientHello.
pub(super) fn client_hello12(more: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = vec![server_name()];
    list.extend_from_slice(more);
    hello(1, 9, &list)
}

pub(super) fn server_hello13(pre_shared_key: bool) -> Vec<u8> {
    let mut list = vec![(43, vec![3, 4]), share(false)];
    if pre_shared_key {
        list.push((41, vec![0, 0]));
    }
    hello(2, 6, &list)
}

pub(super) fn server_hello12() -> Vec<u8> {
    hello(2, 6, &[])
}

/// A hello with another session ID.
pub(super) fn with_session_id(mut hello: Vec<u8>, id: u8) -> Vec<u8> {
    hello[39..71].fill(id);
    hello
}

/// The server's answer to a TLS 1.3 ClientHello.
pub(super) fn flight13(pre_shared_key: bool) -> Vec<u8> {
    let mut bytes = record(22, &server_hello13(pre_shared_key));
    bytes.extend(record(20, &[1]));
    bytes.extend(sealed(40));
    if !pre_shared_key {
        bytes.extend(sealed(2_900));
        bytes.extend(sealed(290));
    }
    bytes.extend(sealed(53));
    bytes
}

/// A complete TLS 1.3 conversation with two exchanges: server 15 ms, client 12 ms, exchanges 25 ms each in the server.
/// In segments of at most `size`.
pub(super) fn conversation13(pre_shared_key: bool, size: usize) -> Talk {
    let mut talk = open_conversation13(pre_shared_key, size);
    talk.after(MS).send(0, FIN | ACK, &[]).after(MS).send(1, FIN | ACK, &[]).send(0, ACK, &[]);
    talk
}

/// The same without its close.
pub(super) fn open_conversation13(pre_shared_key: bool, size: usize) -> Talk {
    let offer: &[(u16, Vec<u8>)] = if pre_shared_key {
        &[(41, vec![0, 38, 0, 32].into_iter().chain([1; 36]).collect())]
    } else {
        &[]
    };
    let mut talk = Talk::new(40_000, 1_000);
    talk.open().after(MS / 2).send_cut(0, &record(22, &client_hello13(offer)), size);
    talk.after(2 * MS).send(1, ACK, &[]).after(15 * MS).send_cut(
        1,
        &flight13(pre_shared_key),
        size,
    );
    talk.after(8 * MS).send(0, ACK, &[]).after(12 * MS);
    let finished = [record(20, &[1]), sealed(53)].concat();
    talk.send_cut(0, &finished, size);
    for _ in 0..2 {
        talk.after(3 * MS).send_cut(0, &sealed(400), size);
        talk.after(27 * MS).send_cut(1, &[sealed(5_000), sealed(900)].concat(), size);
        talk.after(8 * MS).send(0, ACK, &[]);
    }
    talk
}

pub(super) fn read(packets: &[Made]) -> (Vec<Observed>, Hygiene) {
    read_with(Limits::default(), packets)
}

pub(super) fn read_with(limits: Limits, packets: &[Made]) -> (Vec<Observed>, Hygiene) {
    let mut analyzer = Analyzer::new(limits);
    let mut all = Vec::new();
    let mut emit = |observed: &Observed| all.push(observed.clone());
    for made in packets {
        analyzer.frame(&made.as_frame(), &mut emit);
    }
    analyzer.finish(&mut emit);
    all.sort_by_key(|observed| observed.number);
    (all, *analyzer.hygiene())
}
