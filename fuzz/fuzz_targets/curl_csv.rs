//! Tables of curl's timers.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use firstbyte::runs::CurlTable;
use firstbyte_fuzz::bounds::Bounds;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("firstbyte-fuzz.{}", std::process::id())));

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).expect("a file");
    let bounds = Bounds::begin();
    match CurlTable::read(&FILE) {
        Ok(table) => {
            assert!(!table.is_empty());
            assert_eq!(table.rows().count(), table.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    bounds.hold(data.len(), 1 << 20);
});
