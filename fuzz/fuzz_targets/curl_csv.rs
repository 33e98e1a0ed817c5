//! Tables of curl's timers.

#![no_main]

use firstbyte::runs::CurlTable;
use firstbyte_fuzz::bounds::Bounds;
use firstbyte_fuzz::scratch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let file = scratch::holding(data);
    let bounds = Bounds::begin();
    match CurlTable::read(file) {
        Ok(table) => {
            assert!(!table.is_empty());
            assert_eq!(table.rows().count(), table.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    bounds.hold(data.len(), 1 << 20);
});
