//! TLS: records, handshake messages, hellos, with lengths that are often right.
//!
//! The active half's parsers get the same bytes; their results must not depend on how the bytes are split.

#![no_main]

use firstbyte_core::wire::client_hello::ClientHello;
use firstbyte_core::wire::tls::RecordScanner;
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Segment, Tap, small, tcp};
use firstbyte_fuzz::steps::{Step, steps};
use libfuzzer_sys::fuzz_target;

const SUITES: [u16; 8] = [0x1301, 0x1302, 0xc02f, 0xc02b, 0x009e, 0x002f, 0x0005, 0xcca8];

fn bytes(step: &Step<'_>) -> Vec<u8> {
    match step.kind() {
        0 => step.bytes.to_vec(),
        1 => record(20 + step.detail % 4, step.bytes),
        2 => record(22, &message(step.detail, step.bytes)),
        3 => record(22, &hello(1, step)),
        4 => record(22, &hello(2, step)),
        // Split over several records.
        5 => message(step.detail, step.bytes).chunks(40).flat_map(|p| record(22, p)).collect(),
        // Several messages in one record.
        6 => record(
            22,
            &step.bytes.chunks(30).flat_map(|p| message(step.detail, p)).collect::<Vec<_>>(),
        ),
        // A record with a wrong length, which may exceed the available bytes.
        _ => {
            let mut bytes = record(20 + step.detail % 4, step.bytes);
            bytes[3] ^= 1;
            bytes
        }
    }
}

fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(0x4800)];
    let mut bytes = vec![kind, 3, 3];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, 0];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A hello with a valid frame; its extensions come from the step: type, length (one byte), value.
fn hello(kind: u8, step: &Step<'_>) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([step.detail; 32]);
    let id = if step.detail & 1 == 0 { 32 } else { 0 };
    body.push(id);
    body.extend(vec![7; usize::from(id)]);
    let suite = SUITES[usize::from(step.detail) % SUITES.len()].to_be_bytes();
    if kind == 1 {
        body.extend([0, 2]);
        body.extend(suite);
        body.extend([1, 0]);
    } else {
        body.extend(suite);
        body.push(0);
    }
    let mut extensions = Vec::new();
    let mut rest = step.bytes;
    while let [kind, length, behind @ ..] = rest {
        let (value, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        // Extensions with large numbers: ECH, renegotiation_info, ALPS, GREASE.
        let kind = match *kind {
            250 => 0xfe0d,
            251 => 0xff01,
            252 => 0x4469,
            253 => 0x0a0a,
            small => u16::from(small),
        };
        extensions.extend(kind.to_be_bytes());
        extensions.extend((value.len() as u16).to_be_bytes());
        extensions.extend(value);
        rest = behind;
    }
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    message(kind, &body)
}

fn scan(stream: &[u8], piece: usize) -> (Vec<String>, bool) {
    let mut scanner = RecordScanner::default();
    let mut events = Vec::new();
    for piece in stream.chunks(piece) {
        if scanner.feed(piece, |event| events.push(format!("{event:?}"))).is_err() {
            return (events, false);
        }
    }
    (events, true)
}

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut tap = Tap::new(small());
    let mut at = 1_000_000_000;
    let mut streams = [Vec::new(), Vec::new()];
    for (place, step) in steps(data).enumerate() {
        let side = step.side();
        let payload = bytes(&step);
        at += step.pause_ns() + 1_000;
        for piece in payload.chunks(1_400) {
            let sent = |side: usize| streams[side].len() as u32 + 1;
            let (sequence, acknowledgment) = (sent(side), sent(1 - side));
            let segment = Segment { side, flags: 0x10, sequence, acknowledgment, payload: piece };
            if place == 0 && streams[side].is_empty() {
                let syn =
                    Segment { flags: 2, sequence: 0, acknowledgment: 0, payload: &[], ..segment };
                tap.ethernet(at, &tcp(&syn, 1), 0);
            }
            tap.ethernet(at, &tcp(&segment, place as u16 + 2), 0);
            streams[side].extend(piece);
        }
    }
    tap.end();
    let read = streams.iter().map(Vec::len).sum::<usize>();
    for stream in &streams {
        assert_eq!(scan(stream, stream.len().max(1)), scan(stream, 7), "pieces change records");
        if let Some(hello) = ClientHello::at_start_of(stream) {
            assert!(hello.record_bytes <= stream.len());
        }
    }
    bounds.hold(data.len() + read, 8 << 20);
});
