//! QUIC behind the AEAD: Initials sealed with the right keys around any frames, and everything that may come between
//! them: Retry, Version Negotiation, other versions, changing connection IDs, packets that cannot be opened.

#![no_main]

use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Tap, small, udp};
use firstbyte_fuzz::quic::{DRAFT_29, Sealer, V1, V2, crypto};
use firstbyte_fuzz::steps::{Step, steps};
use libfuzzer_sys::fuzz_target;

struct Talk {
    sealer: Sealer,
    /// The connection ID of each side.
    ids: [Vec<u8>; 2],
    number: u32,
    port: u16,
    /// Current offset of each side's CRYPTO stream.
    offset: [u16; 2],
}

impl Talk {
    fn packet(&mut self, step: &Step<'_>) -> Vec<u8> {
        let side = step.side();
        let (to, from) = (self.ids[1 - side].clone(), self.ids[side].clone());
        let bytes = &step.bytes[..step.bytes.len().min(8_000)];
        self.number = self.number.wrapping_add(1);
        match step.kind() {
            // Unmodified frames.
            0 => self.sealer.initial(side, &to, &from, self.number, bytes),
            // The CRYPTO stream continues with the bytes of the step; the detail may make the offset wrong.
            1 => {
                let astray = if step.detail < 0x80 { 0 } else { u16::from(step.detail) };
                let frame = crypto(self.offset[side].wrapping_add(astray), bytes);
                self.offset[side] = self.offset[side].wrapping_add(bytes.len() as u16);
                self.sealer.initial(side, &to, &from, u32::from(step.detail), &frame)
            }
            // In pieces, last one first, in one packet.
            2 => {
                let piece = usize::from(step.detail).max(8);
                let begin = self.offset[side];
                let mut frames: Vec<Vec<u8>> = bytes
                    .chunks(piece)
                    .enumerate()
                    .map(|(n, data)| crypto(begin.wrapping_add((n * piece) as u16), data))
                    .collect();
                frames.reverse();
                self.offset[side] = begin.wrapping_add(bytes.len() as u16);
                let frames = frames.concat();
                self.sealer.initial(
                    side,
                    &to,
                    &from,
                    self.number,
                    &frames[..frames.len().min(9_000)],
                )
            }
            3 => self.sealer.closed(1 + step.detail % 2, &to, &from, bytes),
            4 => {
                let mut short = vec![0x40 | step.detail & 0x3f];
                short.extend(to);
                short.extend(bytes);
                short
            }
            // Retry: the server's new connection ID, a token, and a tag that nobody can check.
            5 => {
                let new = vec![step.detail; 8];
                let mut retry = self.sealer.head(3, &self.ids[0], &new);
                retry.extend(bytes);
                retry.extend([0; 16]);
                self.ids[1] = new;
                self.sealer = Sealer::new(V1, &self.ids[1]);
                retry
            }
            // A version chosen by the server, or the list of its versions.
            6 if bytes.len().is_multiple_of(4) => {
                let mut list = vec![0x80 | step.detail, 0, 0, 0, 0];
                for id in [&self.ids[0], &self.ids[1]] {
                    list.push(id.len() as u8);
                    list.extend(id);
                }
                list.extend(bytes);
                list
            }
            6 => {
                let version = [V1, V2, DRAFT_29][usize::from(step.detail) % 3];
                self.sealer = Sealer::new(version, &self.ids[1]);
                self.sealer.initial(side, &to, &from, self.number, bytes)
            }
            // One end changes its port, or takes another connection ID.
            _ => {
                match step.detail % 3 {
                    0 => self.port = self.port.wrapping_add(1).max(1024),
                    1 => self.ids[side] = bytes[..bytes.len().min(20)].to_vec(),
                    _ => {
                        self.sealer = Sealer::new(V1, &self.ids[1]);
                        self.offset = [0; 2];
                    }
                }
                self.sealer.initial(side, &to, &from, self.number, &[1])
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let first = vec![0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
    let mut talk = Talk {
        sealer: Sealer::new(V1, &first),
        ids: [vec![0xc1; 5], first],
        number: 0,
        port: 50_000,
        offset: [0; 2],
    };
    let mut tap = Tap::new(small());
    let mut at = 1_000_000_000;
    let mut datagram: Vec<u8> = Vec::new();
    let mut made = 0;
    for step in steps(data).take(256) {
        datagram.extend(talk.packet(&step));
        // A pause of zero puts the next packet into the same datagram.
        if step.operation >> 4 == 0 && datagram.len() < 4_000 {
            continue;
        }
        at += step.pause_ns();
        if step.side() == 0 && datagram.len() < 1_200 && step.kind() < 3 {
            datagram.resize(1_200, 0);
        }
        made += datagram.len();
        tap.ethernet(at, &udp(step.side(), talk.port, &datagram), 0);
        datagram.clear();
    }
    tap.end();
    bounds.hold(data.len() + made, 8 << 20);
});
