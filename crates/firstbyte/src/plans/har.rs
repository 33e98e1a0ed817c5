//! HTTP Archives that other programs wrote.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::outputs::Destination;

/// An archive, written without what lets somebody in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarCleanPlan {
    /// The archive; `-` is standard input.
    pub file: PathBuf,
    /// Where it goes.
    pub output: Destination,
}
