//! Run files: read whole, row by row, sample by sample.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use firstbyte::runs::Run;
use firstbyte_fuzz::bounds::Bounds;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("firstbyte-fuzz.{}", std::process::id())));

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).expect("a file");
    let bounds = Bounds::begin();
    if let Ok(run) = Run::read(&FILE) {
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
