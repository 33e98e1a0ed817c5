//! Capture files, compressed or not, and the views of their contents: lines of JSON, tables.

#![no_main]

use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::packets::small;
use firstbyte_fuzz::scratch;
use firstbyte_passive::Analyzer;
use firstbyte_passive::groups::Groups;
use firstbyte_report::Style;
use firstbyte_report::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = scratch::holding(data);
    let bounds = Bounds::begin();
    let mut analyzer = Analyzer::new(small());
    let mut all = Vec::new();
    let read =
        firstbyte_capture::read(file, &mut analyzer, &mut |observed| all.push(observed.clone()));
    analyzer.finish(&mut |observed| all.push(observed.clone()));
    let unpacked = analyzer.hygiene().wire_bytes as usize;
    if let Err(error) = read {
        assert!(!error.to_string().is_empty());
    }
    let mut groups = Groups::default();
    let mut lines = Vec::new();
    for observed in &all {
        groups.add(observed);
        wire::line(observed, &mut lines).expect("memory");
    }
    let lines = String::from_utf8(lines).expect("JSON is UTF-8");
    assert_eq!(lines.lines().count(), all.len());
    for line in lines.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON");
    }
    let style = Style::default();
    let servers = groups.summaries();
    let text = wire::hygiene(analyzer.hygiene())
        + &wire::findings(&servers, &style)
        + &wire::servers(&servers, usize::MAX, true, &style)
        + &wire::connections(&all, &style);
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(control), "what a capture says reaches the terminal: {text:?}");
    // A compressed file may expand many times, but the reader never holds more than one frame.
    bounds.hold(data.len() + unpacked, 16 << 20);
});
