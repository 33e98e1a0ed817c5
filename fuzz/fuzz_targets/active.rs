//! Parsers of the active half: HTTP/2 frames, and the lines of run files.

#![no_main]

use firstbyte_core::document::FactTable;
use firstbyte_core::document::run::{LineKind, RunHeader, failure, kind, row, taken};
use firstbyte_core::wire::http2::FrameScanner;
use firstbyte_fuzz::bounds::Bounds;
use libfuzzer_sys::fuzz_target;

const URL: &str = "https://www.example.net/";

fn frames(bytes: &[u8], piece: usize) -> Vec<String> {
    let mut scanner = FrameScanner::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        scanner.feed(piece, |frame| {
            assert!(frame.payload_bytes < 1 << 24 && frame.stream < 1 << 31);
            found.push(format!("{frame:?}"));
        });
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let bounds = Bounds::begin();
    assert_eq!(frames(bytes, bytes.len()), frames(bytes, (*piece).into()), "pieces change frames");
    let mut facts = FactTable::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = RunHeader::parse(line);
        match kind(line) {
            LineKind::Fact => drop(facts.take(line)),
            LineKind::Sample => {
                let reduced = row(line);
                if let (Ok(reduced), Ok(whole)) = (&reduced, taken(line, &[URL.into()], &facts)) {
                    assert_eq!(reduced.cell, whole.row().cell, "two readers of one line");
                }
                let _ = failure(line);
            }
            LineKind::Other => {}
        }
    }
    bounds.hold(data.len(), 1 << 20);
});
