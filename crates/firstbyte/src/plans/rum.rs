//! Plans for field data: the script that sends it and the server that receives it.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Plan of `rum snippet`: the script for pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RumSnippetPlan {
    /// Destination of beacons: a URL or a path.
    pub endpoint: String,
    /// Share of page views that send a beacon, above 0 and up to 1.
    pub sample: f64,
}

/// Plan of `rum serve`: the server for beacons and reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RumServePlan {
    /// The file to write to, created or continued.
    pub into: PathBuf,
    /// Address to listen on, without TLS.
    pub listen: SocketAddr,
    /// Origins whose pages are accepted; all if empty.
    pub origins: Vec<String>,
    /// Requests accepted a second, in total.
    pub rate: u32,
    /// Requests accepted a second from one source; 0 is unlimited.
    pub rate_per_source: u32,
    /// Maximum size of the file, in bytes.
    pub file_bytes: u64,
}
