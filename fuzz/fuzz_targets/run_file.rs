//! Run files: read as a whole, by row, and by sample.

#![no_main]

use firstbyte::runs::Run;
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::scratch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = scratch::holding(data);
    let bounds = Bounds::begin();
    if let Ok(run) = Run::read(file) {
        assert!(run.valid_bytes <= data.len() as u64);
        assert!(run.bad_lines.iter().all(|bad| bad.offset < data.len() as u64));
        for index in 0..run.rows.len() {
            let _ = run.failure(index);
            if let Ok(taken) = run.taken(index) {
                assert_eq!(taken.row().cell, run.rows[index].cell, "two readers of one line");
            }
        }
    }
    bounds.hold(data.len(), 16 << 20);
});
