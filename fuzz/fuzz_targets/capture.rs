//! Whole captures through the entire passive half: frames, connections, groups.

#![no_main]

use firstbyte_core::pcap::{CaptureReader, Read};
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::{Tap, small};
use firstbyte_passive::Roles;
use firstbyte_passive::groups::Groups;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut tap = Tap::new(small());
    let mut reader = CaptureReader::default();
    let mut rest = data;
    loop {
        match reader.read(rest) {
            Ok(Read::Frame { frame, bytes }) => {
                tap.frame(&frame);
                rest = &rest[bytes..];
            }
            Ok(Read::Skipped { bytes }) => rest = &rest[bytes..],
            Ok(Read::NeedMore { .. }) | Err(_) => break,
        }
    }
    let mut groups = Groups::default();
    let all = tap.end();
    all.iter().for_each(|observed| groups.add(observed));
    let counted: u64 = groups.summaries().iter().map(|summary| summary.counts.connections).sum();
    let known = all.iter().filter(|observed| observed.roles != Roles::Unknown).count();
    assert_eq!(counted, known as u64, "connections of servers");
    bounds.hold(data.len(), 8 << 20);
});
