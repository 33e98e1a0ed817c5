//! How to run a lab.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scenario::ServerChoice;

/// How to run a lab, besides its scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// Write captures into this directory; it is made if it does not exist.
    pub capture: Option<PathBuf>,
    /// Directory that [`Lab::save_logs`](crate::Lab::save_logs) copies the servers' access logs
    /// into; it is made if it does not exist.
    pub logs: Option<PathBuf>,
    /// Seed of the links' random decisions, instead of the scenario's.
    pub seed: Option<u64>,
    /// Server software of all servers, instead of the scenario's choice.
    pub server: ServerChoice,
}
