//! `completions` and `man`: text made from the command line's grammar.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Files to write, or the first one to print.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GeneratedPlan {
    /// Directory for all files; without it the first is printed.
    pub directory: Option<PathBuf>,
    /// At least one.
    pub files: Vec<GeneratedFile>,
}

/// A completion script or a manual page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GeneratedFile {
    /// Such as `firstbyte-compare.1`.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
}
