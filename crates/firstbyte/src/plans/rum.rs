//! Field data: the script that sends it, the server that takes it.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The script that pages carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RumSnippetPlan {
    /// Where beacons are sent: a URL, or a path.
    pub endpoint: String,
    /// The share of page views that send one, above 0, up to 1.
    pub sample: f64,
}

/// A server for beacons and reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RumServePlan {
    /// The file that they are written to, which is begun or continued.
    pub into: PathBuf,
    /// Where it listens, without TLS.
    pub listen: SocketAddr,
    /// Origins whose pages are heard; all, where there is none.
    pub origins: Vec<String>,
    /// Requests taken a second, in all.
    pub rate: u32,
    /// Requests taken a second of one source; 0 is no limit.
    pub rate_per_source: u32,
    /// The most bytes that the file may have.
    pub file_bytes: u64,
}
