//! Checks statements in documents about the project itself against its sources: `cargo test -p firstbyte-core --test
//! house`.

#![allow(clippy::unwrap_used, reason = "tests")]

mod glossary;
mod layout;
mod names;

use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
