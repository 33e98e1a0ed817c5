//! HTTP Archives: whatever comes, what is cleaned is JSON, and says of its entries what the file said.

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
    // Of members with one name, a JSON reader keeps the last.
    assert!(entries as u64 <= cleaned.entries);
    bounds.hold(data.len(), 16 << 20);
});
