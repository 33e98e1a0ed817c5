//! pcap and pcapng: reading in one piece and in many gives the same frames, and every step makes progress.

#![no_main]

use firstbyte_core::pcap::{CaptureReader, LONGEST_FRAME, Read};
use firstbyte_fuzz::bounds::Bounds;
use libfuzzer_sys::fuzz_target;

type Seen = (Option<i64>, u16, usize, u32, u64);

/// Reads `data` piecewise: whenever the first `have` bytes are not enough, `more(have)` bytes are added.
fn frames(data: &[u8], mut more: impl FnMut(usize) -> usize) -> (Vec<Seen>, bool) {
    let mut reader = CaptureReader::default();
    let (mut begin, mut end) = (0, more(0).min(data.len()));
    let mut seen = Vec::new();
    loop {
        let input = &data[begin..end];
        assert!(reader.offset() <= begin as u64 || begin == 0);
        match reader.read(input) {
            Ok(Read::Frame { frame, bytes }) => {
                assert!(bytes > 0 && bytes <= input.len());
                assert!(frame.captured.len() <= bytes);
                assert!(frame.at.is_none() || frame.wire_bytes as usize >= frame.captured.len());
                let at = frame.at.map(|at| at.unix_ns());
                let sum = frame.captured.iter().map(|byte| u64::from(*byte)).sum();
                seen.push((at, frame.link.0, frame.captured.len(), frame.wire_bytes, sum));
                begin += bytes;
            }
            Ok(Read::Skipped { bytes }) => {
                assert!(bytes > 0 && bytes <= input.len());
                begin += bytes;
            }
            Ok(Read::NeedMore { bytes }) => {
                assert!(bytes > input.len(), "asks for what it has");
                assert!(bytes <= 2 * LONGEST_FRAME as usize + 64, "asks for {bytes}");
                if end == data.len() {
                    return (seen, false);
                }
                end = (end + more(end).max(1)).min(data.len());
            }
            Err(_) => return (seen, true),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((step, data)) = data.split_first() else { return };
    let bounds = Bounds::begin();
    let whole = frames(data, |_| data.len());
    let pieces = frames(data, |_| usize::from(*step) + 1);
    assert_eq!(whole, pieces, "what is there depends on how it is read");
    bounds.hold(data.len(), 1 << 16);
});
