//! A browser's network log in both envelopes: one piece and many give the same events; memory and time have limits.

#![no_main]

use firstbyte_clients::netlog::net_export::NetExportReader;
use firstbyte_clients::netlog::perfetto::PerfettoReader;
use firstbyte_clients::netlog::{NetLogEvent, NetLogRecord};
use firstbyte_fuzz::bounds::Bounds;
use libfuzzer_sys::fuzz_target;

/// The events that `feed` emits for `data` in pieces of `step` bytes, and whether it was read to its end.
fn events(
    data: &[u8],
    step: usize,
    mut feed: impl FnMut(&[u8], &mut dyn FnMut(NetLogEvent)) -> bool,
) -> (Vec<NetLogEvent>, bool) {
    let mut seen = Vec::new();
    let whole = data.chunks(step.max(1)).all(|piece| feed(piece, &mut |event| seen.push(event)));
    (seen, whole)
}

fuzz_target!(|data: &[u8]| {
    let Some((step, data)) = data.split_first() else { return };
    let step = usize::from(*step) + 1;
    let bounds = Bounds::begin();
    let exported = |step| {
        let mut reader = NetExportReader::default();
        events(data, step, |piece, sink| reader.feed(piece, sink).is_ok())
    };
    let traced = |step| {
        let mut reader = PerfettoReader::default();
        events(data, step, |piece, sink| reader.feed(piece, sink).is_ok())
    };
    for (whole, pieces) in
        [(exported(data.len()), exported(step)), (traced(data.len()), traced(step))]
    {
        assert_eq!(whole, pieces);
        let mut record = NetLogRecord::default();
        for event in whole.0 {
            record.push(event);
        }
        let sources: Vec<u64> = record.events().map(|event| event.source).collect();
        for source in &sources {
            assert!(record.of_source(*source).next().is_some());
        }
    }
    // Events own their data: names are shared, parameters are trees.
    bounds.hold(data.len(), 16 << 20);
});
