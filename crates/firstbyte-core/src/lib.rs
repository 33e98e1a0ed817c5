//! The pure half of firstbyte.
//!
//! Everything here is a function of its inputs: no sockets, files, clocks or threads. A *source* (the active probe, a
//! prediction) builds a [`timeline::Connection`]; everything else reads it. Captures yield observed connections (crate
//! `firstbyte-passive`), from which a `Connection` is derived. Phases and causes are derived ([`split`]), never stored
//! as truth.
#![forbid(unsafe_code)]

pub mod access;
pub mod compare;
pub mod cross_examination;
pub mod document;
pub mod leb128;
pub mod pcap;
pub mod run;
pub mod sequence;
pub mod shown_url;
pub mod simulation;
pub mod split;
pub mod stats;
pub mod timeline;
pub mod toml_errors;
pub mod units;
pub mod wire;

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Only crates that define flags may name them.
    #[test]
    fn no_flag_is_named_here() {
        fn search(directory: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    search(&path, found);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines = text
                    .lines()
                    .filter(|line| !line.contains("cargo test") && !line.contains("#[ignore"));
                let named = lines.filter(|line| {
                    let mut words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
                    words.any(|word| {
                        let letters = word.strip_prefix("--").unwrap_or_default();
                        letters.starts_with(|c: char| c.is_ascii_lowercase())
                    })
                });
                found.extend(named.map(|line| format!("{}: {line}", path.display())));
            }
        }
        let mut found = Vec::new();
        for package in ["core", "explain", "pages", "sources"] {
            let package = format!("../firstbyte-{package}/src");
            search(&Path::new(env!("CARGO_MANIFEST_DIR")).join(package), &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
