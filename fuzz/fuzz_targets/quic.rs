//! Datagrams of arbitrary bytes for the parsers of both halves.

#![no_main]

use firstbyte_core::wire::quic;
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Tap, small, udp};
use firstbyte_fuzz::steps::steps;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut tap = Tap::new(small());
    let mut at = 1_000_000_000;
    for step in steps(data) {
        at += step.pause_ns();
        let payload = &step.bytes[..step.bytes.len().min(60_000)];
        let packets: usize = quic::packets(payload).map(|packet| packet.bytes).sum();
        assert!(packets <= payload.len(), "more than the datagram has");
        let cut = if step.kind() == 7 { usize::from(step.detail) } else { 0 };
        let port = 50_000 + u16::from(step.kind());
        tap.ethernet(at, &udp(step.side(), port, payload), cut);
    }
    tap.end();
    bounds.hold(data.len(), 8 << 20);
});
