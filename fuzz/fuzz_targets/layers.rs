//! Link layers, tunnels, IP, fragments: frames of any link type in sequence.

#![no_main]

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Tap, small};
use firstbyte_fuzz::steps::steps;
use firstbyte_passive::Time;
use firstbyte_passive::layers::{self, Transport};
use libfuzzer_sys::fuzz_target;

/// NULL, Ethernet, raw, PPP, SLL, SLL2, and others by number.
const LINKS: [u16; 16] = [1, 0, 12, 101, 113, 276, 9, 50, 51, 108, 228, 229, 14, 109, 104, 107];

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut tap = Tap::new(small());
    let mut at = 1_000_000_000;
    for step in steps(data) {
        let link = LINKS.get(usize::from(step.detail)).copied().unwrap_or(step.detail.into());
        // Some frames are cut by the snap length: the original was longer.
        let beyond = if step.side() == 1 { 1 + 100 * u32::from(step.kind()) } else { 0 };
        at += step.pause_ns();
        let frame = Frame {
            at: Some(Time::from_unix_ns(at)),
            link: LinkType(link),
            captured: step.bytes,
            wire_bytes: step.bytes.len() as u32 + beyond,
        };
        if let Ok(packet) = layers::packet(frame.link, frame.captured, frame.wire_bytes) {
            let payload = match packet.transport {
                Transport::Tcp(segment) => segment.payload,
                Transport::Udp(payload) => payload,
            };
            assert!(payload.captured.len() <= step.bytes.len());
            assert!(payload.captured.len() <= payload.bytes as usize);
            assert!(payload.bytes <= frame.wire_bytes, "more than the frame had");
        }
        tap.frame(&frame);
    }
    tap.end();
    bounds.hold(data.len(), 6 << 20);
});
