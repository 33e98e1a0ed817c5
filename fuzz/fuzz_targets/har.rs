//! HTTP Archives: whatever the input, cleaned output is valid JSON with no more entries than were counted in the file.

#![no_main]

use firstbyte_fuzz::bounds::Bounds;
use firstbyte_sources::har::{clean, page, read_archive};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bounds = Bounds::begin();
    let mut out = Vec::new();
    let cleaned = clean(data, &mut out);
    let Ok(archive) = read_archive(data) else {
        assert!(cleaned.is_err());
        return;
    };
    let summary = archive.summary();
    assert_eq!(summary.counts.all(), archive.entries.len() as u64);
    let _ = page(&archive, &summary);
    let cleaned = cleaned.unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let entries = value["log"]["entries"].as_array().map_or(0, Vec::len);
    // If names are duplicated, a JSON reader keeps the last member, so there may be fewer entries.
    assert!(entries as u64 <= cleaned.entries);
    bounds.hold(data.len(), 16 << 20);
});
