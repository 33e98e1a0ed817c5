//! Generates captures for the benchmark.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::{Analyzer, Time};

use super::live::{EXCHANGES, PAUSE_NS, Stage};

const SEGMENT: usize = 1448;
/// Concurrent connections.
const SIDE_BY_SIDE: usize = 64;

/// Shape of the generated connections.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Exchanges per connection.
    pub(crate) exchanges: usize,
    /// Records per response, and bytes per record.
    pub(crate) response: (usize, usize),
    /// Time between packets.
    pub(crate) pace_ns: i64,
}

/// Ten responses of eight records of 16 kB: nearly all packets are full-sized, and the reader skips most of them.
pub(crate) const LARGE: Shape =
    Shape { exchanges: EXCHANGES, response: (8, 16_401), pace_ns: 1_200 };
/// Ten short requests and responses, as with an API: the reader looks into nearly every packet.
pub(crate) const SHORT: Shape =
    Shape { exchanges: EXCHANGES, response: (1, 600), pace_ns: 100_000 };
/// Two exchanges: most of the work is opening and closing connections, 700 per second.
pub(crate) const HANDSHAKES: Shape = Shape { exchanges: 2, ..SHORT };

/// Generates packets.
pub(crate) struct Generator {
    shape: Shape,
    at_ns: i64,
    made: u32,
}

/// A connection being generated.
struct Connection {
    client: [u8; 6],
    sent: [u32; 2],
    identification: u16,
}

/// `connections` TCP connections, none closed. They are opened in groups; then all have exchanges.
pub(crate) fn live(connections: u32, stage: Stage, analyzer: &mut Analyzer) {
    let packet = &mut |at: i64, frame: &[u8]| {
        let frame = Frame {
            at: Some(Time::from_unix_ns(at)),
            link: LinkType(1),
            captured: frame,
            wire_bytes: frame.len() as u32,
        };
        analyzer.frame(&frame, &mut |_| {});
    };
    let mut generator = Generator::new(Shape { pace_ns: 1_200, ..SHORT });
    let mut all = generator.connections(connections as usize);
    for some in all.chunks_mut(SIDE_BY_SIDE) {
        generator.open(some, packet);
        if stage == Stage::UnderWay {
            generator.finish(some, packet);
        }
    }
    if stage == Stage::UnderWay {
        generator.exchanges(&mut all, PAUSE_NS, packet);
    }
}

impl Generator {
    pub(crate) const fn new(shape: Shape) -> Self {
        Self { shape, at_ns: 0, made: 0 }
    }

    /// Writes a capture of about `bytes` bytes.
    pub(crate) fn write(&mut self, path: &Path, bytes: u64) {
        let mut out = BufWriter::new(File::create(path).unwrap());
        out.write_all(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]).unwrap();
        out.write_all(&[0; 8]).unwrap();
        out.write_all(&[0, 0, 4, 0, 1, 0, 0, 0]).unwrap();
        let mut written = 0;
        let mut packet = |at_ns: i64, frame: &[u8]| {
            let length = (frame.len() as u32).to_le_bytes();
            out.write_all(&((at_ns / 1_000_000_000) as u32).to_le_bytes()).unwrap();
            out.write_all(&((at_ns % 1_000_000_000 / 1000) as u32).to_le_bytes()).unwrap();
            out.write_all(&length).unwrap();
            out.write_all(&length).unwrap();
            out.write_all(frame).unwrap();
            written += 16 + frame.len() as u64;
            written
        };
        let mut done = 0;
        while done < bytes {
            let packet = &mut |at: i64, frame: &[u8]| done = packet(at, frame);
            let mut some = self.connections(SIDE_BY_SIDE);
            self.open(&mut some, packet);
            self.finish(&mut some, packet);
            self.exchanges(&mut some, 0, packet);
            self.close(&mut some, packet);
        }
        out.flush().unwrap();
    }

    fn connections(&mut self, many: usize) -> Vec<Connection> {
        (0..many).map(|_| self.connection()).collect()
    }

    /// Sends everything up to the server's flight.
    fn open(&mut self, some: &mut [Connection], packet: &mut dyn FnMut(i64, &[u8])) {
        for c in &mut *some {
            self.segment(c, 0, 0x02, &[], packet);
            self.segment(c, 1, 0x12, &[], packet);
            self.segment(c, 0, 0x10, &[], packet);
        }
        let hello = in_record(&client_hello());
        some.iter_mut().for_each(|c| self.segment(c, 0, 0x18, &hello, packet));
        let answer = server_flight();
        some.iter_mut().for_each(|c| self.data(c, 1, &answer, packet));
    }

    /// Sends the client's Finished.
    fn finish(&mut self, some: &mut [Connection], packet: &mut dyn FnMut(i64, &[u8])) {
        let finished = [&record(20, 1)[..], &record(23, 53)].concat();
        some.iter_mut().for_each(|c| self.segment(c, 0, 0x18, &finished, packet));
    }

    /// Sends exchanges with a fixed time between them.
    fn exchanges(
        &mut self,
        some: &mut [Connection],
        pause_ns: i64,
        packet: &mut dyn FnMut(i64, &[u8]),
    ) {
        let request = record(23, 400);
        let (records, length) = self.shape.response;
        let response = record(23, length).repeat(records);
        for _ in 0..self.shape.exchanges {
            self.at_ns += pause_ns;
            some.iter_mut().for_each(|c| self.segment(c, 0, 0x18, &request, packet));
            some.iter_mut().for_each(|c| self.data(c, 1, &response, packet));
        }
    }

    fn close(&mut self, some: &mut [Connection], packet: &mut dyn FnMut(i64, &[u8])) {
        for c in some {
            self.segment(c, 0, 0x11, &[], packet);
            self.segment(c, 1, 0x11, &[], packet);
        }
    }

    fn connection(&mut self) -> Connection {
        self.made += 1;
        let [_, a, b, c] = self.made.to_be_bytes();
        Connection { client: [10, a, b, c, 0xc0, 0x00], sent: [1000, 2000], identification: 1 }
    }

    fn data(
        &mut self,
        connection: &mut Connection,
        side: usize,
        bytes: &[u8],
        packet: &mut dyn FnMut(i64, &[u8]),
    ) {
        for (place, piece) in bytes.chunks(SEGMENT).enumerate() {
            self.segment(connection, side, 0x10, piece, packet);
            if place % 8 == 7 {
                self.segment(connection, 1 - side, 0x10, &[], packet);
            }
        }
    }

    fn segment(
        &mut self,
        connection: &mut Connection,
        side: usize,
        flags: u8,
        payload: &[u8],
        packet: &mut dyn FnMut(i64, &[u8]),
    ) {
        self.at_ns += self.shape.pace_ns;
        let server = [192, 0, 2, 1, 1, 187];
        let ends =
            if side == 0 { [connection.client, server] } else { [server, connection.client] };
        connection.identification = connection.identification.wrapping_add(1).max(1);
        let total = (52 + payload.len()) as u16;
        let mut frame = Vec::with_capacity(66 + payload.len());
        frame.extend([2; 12]);
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend(connection.identification.to_be_bytes());
        frame.extend([0x40, 0, 64, 6, 0, 0]);
        frame.extend(&ends[0][..4]);
        frame.extend(&ends[1][..4]);
        frame.extend(&ends[0][4..]);
        frame.extend(&ends[1][4..]);
        frame.extend(connection.sent[side].to_be_bytes());
        let acknowledged = if flags == 0x02 { 0 } else { connection.sent[1 - side] };
        frame.extend(acknowledged.to_be_bytes());
        frame.extend([0x80, flags, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
        frame.extend(payload);
        let control = u32::from(flags & 0x03 != 0);
        connection.sent[side] = connection.sent[side].wrapping_add(payload.len() as u32 + control);
        packet(1_700_000_000_000_000_000 + self.at_ns, &frame);
    }
}

fn record(kind: u8, length: usize) -> Vec<u8> {
    let mut bytes = vec![kind, 3, 3];
    bytes.extend((length as u16).to_be_bytes());
    bytes.resize(5 + length, 0x5a);
    bytes
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    message
}

fn in_record(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![22, 3, 3];
    bytes.extend((message.len() as u16).to_be_bytes());
    bytes.extend(message);
    bytes
}

fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    bytes.extend((value.len() as u16).to_be_bytes());
    bytes.extend(value);
    bytes
}

/// A TLS 1.3 ClientHello.
pub(crate) fn client_hello() -> Vec<u8> {
    let mut name = vec![0, 19, 0, 0, 16];
    name.extend(b"www.bench.example"[..16].iter());
    let mut share = vec![0x00, 0x24, 0x00, 0x1d, 0x00, 0x20];
    share.extend([7; 32]);
    let extensions = [
        extension(0, &name),
        extension(43, &[4, 3, 4, 3, 3]),
        extension(51, &share),
        extension(16, &[0, 9, 8, b'h', b't', b't', b'p', b'/', b'1', b'.', b'1']),
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([9; 32]);
    body.push(32);
    body.extend([8; 32]);
    body.extend([0, 2, 0x13, 0x01, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    handshake(1, &body)
}

/// The ServerHello that answers [`client_hello`].
pub(crate) fn server_hello() -> Vec<u8> {
    let mut share = vec![0x00, 0x1d, 0x00, 0x20];
    share.extend([7; 32]);
    let extensions = [extension(43, &[3, 4]), extension(51, &share)].concat();
    let mut body = vec![3, 3];
    body.extend([6; 32]);
    body.push(32);
    body.extend([8; 32]);
    body.extend([0x13, 0x01, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    handshake(2, &body)
}

fn server_flight() -> Vec<u8> {
    let hello = in_record(&server_hello());
    [hello, record(20, 1), record(23, 32), record(23, 2500), record(23, 281), record(23, 53)]
        .concat()
}
