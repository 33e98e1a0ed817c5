//! Plan of `har clean`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::outputs::Destination;

/// Plan of `har clean`: copies an HTTP Archive of another program without credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarCleanPlan {
    /// The archive; `-` is standard input.
    pub file: PathBuf,
    /// Destination of the cleaned archive.
    pub output: Destination,
}
