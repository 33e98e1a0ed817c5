//! What every picture has to hold to, and the pictures to look at.

use super::*;
use crate::report::study::fixtures::made;

/// Writes pages and pictures to look at: `FIRSTBYTE_GALLERY=DIR cargo test -p firstbyte --lib
/// gallery -- --ignored`.
#[test]
#[ignore = "writes files to look at"]
fn gallery() {
    let dir = std::path::PathBuf::from(std::env::var_os("FIRSTBYTE_GALLERY").unwrap());
    for (name, [ways, edges, families], rounds) in [
        ("two-5", [2, 1, 1], 5),
        ("twelve-50", [2, 3, 2], 50),
        ("twelve-833", [2, 3, 2], 833),
        ("many-278", [6, 3, 2], 278),
        ("four-100000", [2, 1, 2], 100_000),
    ] {
        let made = made(ways, edges, families, rounds);
        let medians = made.medians();
        let study = made.study(&medians);
        std::fs::write(dir.join(format!("{name}.html")), crate::report::html::page(&study)).unwrap();
        for figure in figures(&study) {
            let file = dir.join(format!("{name}-{}", figure.name));
            std::fs::write(file.with_extension("svg"), figure.svg()).unwrap();
            if name != "four-100000" {
                std::fs::write(file.with_extension("png"), figure.png().unwrap()).unwrap();
            }
        }
    }
}
