//! Plan of `completions` and `man`: text generated from the command line's grammar.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Files to write, or the first one to print.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GeneratedPlan {
    /// Directory for all files; if absent, the first file is printed.
    pub directory: Option<PathBuf>,
    /// The files, at least one.
    pub files: Vec<GeneratedFile>,
}

/// A completion script or a manual page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GeneratedFile {
    /// File name, such as `firstbyte-compare.1`.
    pub name: String,
    /// Contents of the file.
    pub content: Vec<u8>,
}
