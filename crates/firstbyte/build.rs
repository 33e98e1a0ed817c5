//! Tells the program which versions of the libraries that shape connections it is built with.
#![allow(clippy::print_stdout, reason = "cargo is told on standard output")]

use std::path::Path;

/// Those whose behaviour is seen on the wire.
const LIBRARIES: [&str; 3] = ["rustls", "hyper", "quinn"];

fn main() {
    // Asked now: `env!` would be the directory in which this program was compiled, maybe another checkout.
    let Some(directory) = std::env::var_os("CARGO_MANIFEST_DIR") else { return };
    let lock = Path::new(&directory).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    // Without the file (packaged sources) the versions are not known, and said so nowhere.
    let Ok(text) = std::fs::read_to_string(&lock) else { return };
    for library in LIBRARIES {
        let Some((_, after)) = text.split_once(&format!("name = \"{library}\"\nversion = \""))
        else {
            continue;
        };
        if let Some((version, _)) = after.split_once('"') {
            println!("cargo::rustc-env=FIRSTBYTE_{}={version}", library.to_uppercase());
        }
    }
}
