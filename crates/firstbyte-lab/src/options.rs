//! How to run a lab.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scenario::ServerChoice;

/// Options of a lab, besides its scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabOptions {
    /// Directory to write captures into; created if it does not exist.
    pub capture: Option<PathBuf>,
    /// Directory into which [`Lab::save_logs`](crate::Lab::save_logs) copies the servers' access logs;
    /// created if it does not exist.
    pub logs: Option<PathBuf>,
    /// Seed of the links' random decisions; overrides the scenario's.
    pub seed: Option<u64>,
    /// Server software of all servers; overrides the scenario's choice.
    pub server: ServerChoice,
}
