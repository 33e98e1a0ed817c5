//! One TCP connection whose segments are reordered, lost, repeated, cut, overlapping, or contradictory.
//!
//! If segments are only cut differently, repeated, or reordered within a run of one direction, the TLS results must
//! equal those without these changes.

#![no_main]

use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Segment, Tap, small, tcp};
use firstbyte_fuzz::steps::{Step, steps};
use firstbyte_passive::{Doubts, Observed, TlsSeen};
use libfuzzer_sys::fuzz_target;

const SYN: u8 = 2;
const ACK: u8 = 0x10;

struct Talk {
    tap: Tap,
    at: i64,
    sent: [u32; 2],
    identification: u16,
}

impl Talk {
    fn new() -> Self {
        let start = [0xffff_fff0, 77];
        let tap = Tap::new(small());
        let mut talk = Self { tap, at: 1_000_000_000, sent: start, identification: 1 };
        talk.send(0, SYN, start[0], &[], 0);
        talk.sent[0] = start[0].wrapping_add(1);
        talk.send(1, SYN | ACK, start[1], &[], 0);
        talk.sent[1] = start[1].wrapping_add(1);
        talk.send(0, ACK, talk.sent[0], &[], 0);
        talk
    }

    fn send(&mut self, side: usize, flags: u8, sequence: u32, payload: &[u8], cut: usize) {
        self.at += 1_000;
        self.identification = self.identification.wrapping_add(1).max(1);
        let acknowledgment = if flags & ACK == 0 { 0 } else { self.sent[1 - side] };
        let segment = Segment { side, flags, sequence, acknowledgment, payload };
        self.tap.ethernet(self.at, &tcp(&segment, self.identification), cut);
    }

    fn in_order(&mut self, step: &Step<'_>) {
        let side = step.side();
        self.at += step.pause_ns();
        self.send(side, ACK, self.sent[side], step.bytes, 0);
        self.sent[side] = self.sent[side].wrapping_add(step.bytes.len() as u32);
    }

    /// Applies a step's change to its bytes. The first four kinds must not change the results.
    fn treated(&mut self, step: &Step<'_>) {
        let side = step.side();
        let begin = self.sent[side];
        let size = usize::from(step.detail).max(1);
        let pieces: Vec<(u32, &[u8])> = step
            .bytes
            .chunks(size.max(step.bytes.len().div_ceil(200)))
            .scan(begin, |next, piece| {
                let sequence = *next;
                *next = next.wrapping_add(piece.len() as u32);
                Some((sequence, piece))
            })
            .collect();
        match step.kind() {
            1 => {
                self.at += step.pause_ns();
                for (sequence, piece) in &pieces {
                    self.send(side, ACK, *sequence, piece, 0);
                }
            }
            2 => {
                self.at += step.pause_ns();
                for (sequence, piece) in &pieces {
                    self.send(side, ACK, *sequence, piece, 0);
                    self.send(side, ACK, *sequence, piece, 0);
                }
            }
            3 => {
                self.at += step.pause_ns();
                for (sequence, piece) in pieces.iter().rev() {
                    self.send(side, ACK, *sequence, piece, 0);
                }
            }
            4 => {
                // Every other piece is lost, but everything is acknowledged.
                for (sequence, piece) in pieces.iter().step_by(2) {
                    self.send(side, ACK, *sequence, piece, 0);
                }
                self.sent[side] = begin.wrapping_add(step.bytes.len() as u32);
                self.at += 5_000_000;
                self.send(1 - side, ACK, self.sent[1 - side], &[], 0);
            }
            5 => {
                for (sequence, piece) in &pieces {
                    self.send(side, ACK, *sequence, piece, piece.len() / 2);
                }
            }
            6 => {
                // At another place in the stream, with a clock that may go back.
                self.at += step.pause_ns() - 100_000_000;
                let elsewhere = begin.wrapping_add(u32::from(step.detail) << (step.detail & 31));
                self.send(side, ACK, elsewhere, step.bytes, 0);
                return;
            }
            _ => {
                // Arbitrary flags: opens again, closes, resets, with or without data.
                self.send(side, step.detail, begin, step.bytes, 0);
                return;
            }
        }
        self.sent[side] = begin.wrapping_add(step.bytes.len() as u32);
    }
}

/// The results that do not depend on times.
fn timeless(all: &[Observed], alerts: bool) -> Option<TlsSeen> {
    let mut tls = all.first()?.tls.as_deref()?.clone();
    tls.alert = None;
    // An alert is a separate flight if it came later than the data before it.
    tls.server_flight_bytes.take_if(|_| alerts);
    // Inferred from the time between records.
    tls.tickets_inferred = None;
    Some(tls)
}

/// Whether the stream contains an alert; `None` if it has anything but whole records, the first being a handshake
/// record.
fn alerts(mut stream: &[u8]) -> Option<bool> {
    if !stream.starts_with(&[22]) {
        return stream.is_empty().then_some(false);
    }
    let mut found = false;
    while let [kind @ 20..=23, 3, 0..=4, high, low, rest @ ..] = stream {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        stream = rest.get(length..).filter(|_| (1..=1 << 14).contains(&length))?;
        found |= *kind == 21;
    }
    stream.is_empty().then_some(found)
}

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut talk = Talk::new();
    let mut plain = Talk::new();
    let mut harmless = true;
    let mut streams = [Vec::new(), Vec::new()];
    for step in steps(data) {
        harmless &= step.kind() <= 3;
        streams[step.side()].extend(step.bytes);
        if step.kind() == 0 {
            talk.in_order(&step);
        } else {
            talk.treated(&step);
        }
        plain.in_order(&step);
    }
    let all = talk.tap.end();
    let plain = plain.tap.end();
    let bytes = streams.each_ref().map(|stream| stream.len() as u64);
    if harmless && bytes.iter().sum::<u64>() < 1 << 15 {
        let [one] = &all[..] else { panic!("{} connections", all.len()) };
        let mut seen = [one.sent.bytes, one.received.bytes];
        let mut missing = [one.sent.missing_bytes, one.received.missing_bytes];
        // The ClientHello may decide which end is the client.
        if one.client.socket_addr().port() == 443 {
            seen.swap(0, 1);
            missing.swap(0, 1);
        }
        assert_eq!((seen, missing), (bytes, [0, 0]), "{one:?}");
        // If record boundaries are lost, or the stream does not consist of records, the reader looks for records at the
        // beginnings of segments, so the segment boundaries matter.
        let [one, other] = streams.each_ref().map(|stream| alerts(stream));
        let lost = all.iter().chain(&plain).any(|one| one.doubts.any(Doubts::RECORDS_LOST));
        if let (Some(one), Some(other), false) = (one, other, lost) {
            let [all, plain] = [&all, &plain].map(|seen| timeless(seen, one || other));
            assert_eq!(all, plain, "order and cuts change what is read");
        }
    }
    bounds.hold(data.len(), 8 << 20);
});
