//! The number of threads changes nothing, tested on a capture with everything that ties packets together, and at the
//! limits.

use std::io::{Cursor, Write as _};
use std::path::Path;

use firstbyte_passive::{Analyzer, Carrier, Hygiene, Limits, Observed};

use super::block::{Block, PIECE, ROOM};
use super::framer::Framer;
use crate::{Ended, Source, finish_on, read_on};

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN_ACK: u8 = 17;

/// A capture under construction.
#[derive(Default)]
struct Made {
    file: Vec<u8>,
    at_us: i64,
}

/// A client's address and port; the server is always the same.
type Client = (u8, u16);

impl Made {
    fn new() -> Self {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        file.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
        Self { file, at_us: 1_700_000_000_000_000 }
    }

    /// Adds a frame, 100 µs after the previous one.
    fn frame(&mut self, packet: &[u8]) {
        self.at_us += 100;
        let frame = [&[2; 12][..], &[8, 0], packet].concat();
        let (seconds, micros) = (self.at_us / 1_000_000, self.at_us % 1_000_000);
        for number in [seconds as u32, micros as u32, frame.len() as u32, frame.len() as u32] {
            self.file.extend(number.to_le_bytes());
        }
        self.file.extend(frame);
    }

    fn tcp(&mut self, client: Client, sent: bool, flags: u8, sequence: u32, payload: &[u8]) {
        let packet = tcp(client, sent, flags, sequence, payload);
        match client.1 % 16 {
            // In GRE (whole and fragmented), in VXLAN, fragmented, and duplicated.
            3 if payload.len() < 100 => self.frame(&gre(&packet)),
            3 => fragments(&gre(&packet)).iter().for_each(|piece| self.frame(piece)),
            5 => {
                let inner = [&[8, 0, 0, 0, 0, 0, 7, 0][..], &[2; 12], &[8, 0], &packet].concat();
                self.frame(&udp((9, 9), true, 4789, &inner));
            }
            7 if payload.len() > 100 => {
                let pieces = fragments(&packet);
                // The last fragment first.
                pieces.iter().rev().for_each(|piece| self.frame(piece));
            }
            11 => {
                self.frame(&packet);
                self.frame(&packet);
            }
            _ => self.frame(&packet),
        }
    }
}

fn tcp(client: Client, sent: bool, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut body = ports(client.1, 443, sent);
    body.extend(sequence.to_be_bytes());
    body.extend(1_001u32.to_be_bytes());
    body.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
    body.extend(payload);
    ip(6, client, sent, sequence as u16 | 1, &body)
}

fn gre(packet: &[u8]) -> Vec<u8> {
    ip(47, (9, 9), true, 77, &[&[0, 0, 8, 0][..], packet].concat())
}

/// Messages of a TLS 1.2 handshake in a record: a hello with session ID `id`, followed by `behind`.
fn handshake(kind: u8, id: u8, behind: &[u8]) -> Vec<u8> {
    let rest: &[u8] = if kind == 1 { &[0, 2, 0xc0, 0x2f, 1, 0] } else { &[0xc0, 0x2f, 0] };
    let body = [&[3, 3][..], &[kind; 32], &[32], &[id; 32], rest].concat();
    let messages = [&[kind, 0, 0, body.len() as u8][..], &body, behind].concat();
    [&[22, 3, 3, 0, messages.len() as u8][..], &messages].concat()
}

fn udp(client: Client, sent: bool, server_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = ports(client.1, server_port, sent);
    body.extend((8 + payload.len() as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend(payload);
    ip(17, client, sent, 0, &body)
}

fn ports(client: u16, server: u16, sent: bool) -> Vec<u8> {
    let ports = if sent { [client, server] } else { [server, client] };
    ports.iter().flat_map(|port| port.to_be_bytes()).collect()
}

fn ip(protocol: u8, client: Client, sent: bool, identification: u16, body: &[u8]) -> Vec<u8> {
    let (client, server) = ([10, 0, 0, client.0], [192, 0, 2, 1]);
    let [from, to] = if sent { [client, server] } else { [server, client] };
    let mut packet = vec![0x45, 0];
    packet.extend((20 + body.len() as u16).to_be_bytes());
    packet.extend(identification.to_be_bytes());
    packet.extend([0, 0, 64, protocol, 0, 0]);
    packet.extend(from);
    packet.extend(to);
    packet.extend(body);
    packet
}

/// A packet in two fragments.
fn fragments(packet: &[u8]) -> [Vec<u8>; 2] {
    let (head, body) = packet.split_at(20);
    let (first, second) = body.split_at(64);
    [(first, 0x2000u16), (second, 8)].map(|(piece, place)| {
        let mut bytes = head.to_vec();
        bytes[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
        bytes[6..8].copy_from_slice(&place.to_be_bytes());
        bytes.extend(piece);
        bytes
    })
}

/// A QUIC packet with a long header, whose contents cannot be decrypted.
fn long(kind: u8, destination: &[u8], source: &[u8], length: u16) -> Vec<u8> {
    let mut bytes = vec![0xc0 | kind << 4, 0, 0, 0, 1, destination.len() as u8];
    bytes.extend(destination);
    bytes.push(source.len() as u8);
    bytes.extend(source);
    if kind == 0 {
        bytes.push(0);
    }
    bytes.extend((0x4000 | length).to_be_bytes());
    bytes.extend((0..length).map(|n| (n * 7) as u8 ^ source[0] | 1));
    bytes
}

fn short(destination: &[u8], number: u8) -> Vec<u8> {
    [&[0x40][..], destination, &[number | 1; 40], &[number; 8]].concat()
}

/// TCP in rounds of parallel connections with reused ports, tunnels and fragments; floods; QUIC with migrating clients
/// and changing connection IDs; a clock that is set back.
fn everything() -> Vec<u8> {
    let mut made = Made::new();
    let record = |length: usize| [&[23, 3, 3, 0, length as u8][..], &vec![7; length]].concat();
    for round in 0..6u32 {
        let start = round * 100_000;
        let clients = || (0..300u16).map(|n| (n as u8, 20_000 + n));
        clients().for_each(|c| made.tcp(c, true, SYN, start, &[]));
        clients().for_each(|c| made.tcp(c, false, SYN | ACK, 1_000, &[]));
        clients().for_each(|c| made.tcp(c, true, ACK, start + 1, &[]));
        for n in 0..4 {
            clients().for_each(|c| made.tcp(c, true, ACK, start + 1 + n * 205, &record(200)));
            // Every fifth is out of order.
            clients()
                .filter(|c| c.1 % 5 > 0 || n != 1)
                .for_each(|c| made.tcp(c, false, ACK, 1_001 + n * 255, &record(250)));
        }
        // Each client offers a session that another client received in the round before.
        for n in 0..60u8 {
            let (client, id) = ((n, 10_000 + u16::from(n)), n + round as u8);
            made.tcp(client, true, SYN, start, &[]);
            made.tcp(client, false, SYN | ACK, 1_000, &[]);
            made.tcp(client, true, ACK, start + 1, &handshake(1, id, &[]));
            let behind = [11, 0, 0, 3, 0, 0, 0, 14, 0, 0, 0];
            made.tcp(client, false, ACK, 1_001, &handshake(2, id + 1, &behind));
        }
        for n in 0..400u16 {
            made.tcp((200, 30_000 + n + round as u16), true, SYN, start, &[]);
        }
        for n in 0..40u8 {
            let (client, server) = ([n, round as u8, 1, 1, 1], [n, round as u8, 2, 2, 2, 2]);
            let port = u16::from(n) + 64 * round as u16;
            let at = (n, 40_000 + port);
            made.frame(&udp(at, true, 443, &long(0, &[9; 8], &client, 1_150)));
            made.frame(&udp(at, false, 443, &long(2, &client, &server, 900)));
            made.frame(&udp(at, true, 443, &short(&server, 8)));
            // First another port, then another connection ID from that port.
            let moved = (n, 50_000 + port);
            made.frame(&udp(moved, true, 443, &short(&server, 10)));
            made.frame(&udp(moved, true, 443, &short(&[n, round as u8, 3, 3, 3, 3], 12)));
            made.frame(&udp(moved, false, 443, &short(&client, 14)));
        }
        if round % 2 == 0 {
            clients().for_each(|c| made.tcp(c, true, FIN_ACK, start + 821, &[]));
            clients().for_each(|c| made.tcp(c, false, FIN_ACK, 2_021, &[]));
        }
        made.at_us += if round == 3 { -60_000_000 } else { 30_000_000 };
    }
    made.file
}

fn read(threads: usize, path: &Path, limits: Limits) -> (Vec<Observed>, Hygiene) {
    let mut analyzer = Analyzer::new(limits);
    let mut all = Vec::new();
    let mut emit = |observed: &Observed| all.push(observed.clone());
    read_on(threads, path, &mut analyzer, &mut emit).unwrap();
    finish_on(threads, &mut analyzer, &mut emit);
    (all, *analyzer.hygiene())
}

#[test]
fn threads_change_nothing() {
    let bytes = everything();
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    let [plain, packed] = [&bytes, &packed].map(|bytes| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    });
    let few = Limits { connections: 240, half_open: 40, held_bytes: 8_000, ..Limits::default() };
    let short = Limits { idle_ns: 20_000_000_000, ..Limits::default() };
    let mut counts = Hygiene::default();
    for limits in [few, short, Limits::default()] {
        let alone = read(1, plain.path(), limits);
        assert!(alone.0.iter().all(|observed| observed.number > 0));
        for threads in [2, 3, 8] {
            assert!(read(threads, plain.path(), limits) == alone, "{threads} threads, {limits:?}");
        }
        assert!(read(2, packed.path(), limits) == alone, "packed, {limits:?}");
        counts.add(&alone.1);
        let moved = alone.0.iter().filter_map(|o| o.quic.as_ref()).filter(|q| q.migrations > 0);
        assert!(moved.count() >= 200, "{limits:?}");
        let tls = alone.0.iter().filter_map(|observed| observed.tls.as_deref());
        let declined = tls.filter(|tls| tls.resumption.declined).count();
        assert!(declined >= 200, "{declined}, {limits:?}");
    }
    // The capture contains every case that this test is about.
    let each = [
        counts.fragments,
        counts.reassembled,
        counts.duplicates,
        counts.clock_steps,
        counts.port_reuses,
        counts.evicted,
        counts.half_open_evicted,
        counts.idle,
        counts.held_overflow,
    ];
    assert!(each.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn connections_are_numbered_by_their_first_packets_and_given_out_as_they_end() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&everything()).unwrap();
    let (mut all, _) = read(2, file.path(), Limits::default());
    all.sort_by_key(|observed| observed.number);
    let times: Vec<_> = all.iter().map(|observed| observed.started).collect();
    // Up to the point at which the clock is set back.
    let before = times.windows(2).take_while(|pair| pair[0] <= pair[1]).count();
    assert!(before > 2_000, "{before} of {}", all.len());
    assert!(all.iter().any(|observed| observed.carrier == Carrier::Quic));
}

#[test]
fn several_files_are_one_capture() {
    let bytes = everything();
    // The second part begins in the middle of connections.
    let cut = 24 + first_frames(&bytes, 3_000);
    let [first, second] = [bytes[..cut].to_vec(), [&bytes[..24], &bytes[cut..]].concat()];
    let read = |threads: usize| {
        let mut analyzer = Analyzer::new(Limits::default());
        let mut all = Vec::new();
        let mut emit = |observed: &Observed| all.push(observed.clone());
        for bytes in [&first, &second] {
            let source = Source::Stream(Box::new(Cursor::new(bytes.clone())), true);
            super::read(Path::new("x"), source, threads, &mut analyzer, &mut emit).unwrap();
        }
        finish_on(threads, &mut analyzer, &mut emit);
        (all, *analyzer.hygiene())
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let whole = self::read(1, file.path(), Limits::default());
    assert!(read(1) == whole && read(2) == whole);
}

#[test]
fn a_piece_that_is_not_full_is_the_last() {
    let bytes = everything();
    let mut analyzer = Analyzer::new(Limits::default());
    let sharded = analyzer.sharded();
    let mut framer = Framer::new(Path::new("x"), sharded.intake);
    let mut block = Block::new(0);
    block.bytes[ROOM..ROOM + 5_000].copy_from_slice(&bytes[..5_000]);
    framer.piece(&mut block, (5_000, None), true);
    assert!(framer.is_over());
    // The file has grown meanwhile, so the next bytes do not continue the last piece.
    block.clear();
    framer.piece(&mut block, (PIECE, None), false);
    assert_eq!(block.shards().count(), 0);
    assert!(matches!(framer.into_ended(), Some(Ok(Ended::Whole | Ended::CutOff { .. }))));
}

/// Length in bytes of the first `many` frames.
fn first_frames(file: &[u8], many: usize) -> usize {
    (0..many).fold(0, |at, _| {
        let length = file[24 + at + 8..24 + at + 12].first_chunk().copied().unwrap();
        at + 16 + u32::from_le_bytes(length) as usize
    })
}
