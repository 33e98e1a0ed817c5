//! Reports of a lab about its parts.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::timeline::ProcessorTime;
use serde::{Deserialize, Serialize};

/// A web server of the lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerReport {
    /// Its host.
    pub host: String,
    /// Software: `nginx 1.22.1`, `Caddy 2.6.2`, `built-in (rustls)`, or nginx and the server that adds
    /// HTTP/3.
    pub kind: String,
}

/// A web server of the lab that has ended before the lab did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEnd {
    /// Its host.
    pub host: String,
    /// Its software.
    pub kind: String,
    /// How it ended.
    pub reason: String,
    /// What it wrote to stderr.
    pub output: String,
}

/// Processor time used by a web server of the lab and all processes that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTime {
    /// Its host.
    pub host: String,
    /// Time used since the server was up. The kernel counts in ticks, usually of 10 ms.
    pub taken: ProcessorTime,
}

/// A change of the lab while it ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeReport {
    /// When it was due, counted from when the lab was ready.
    pub after: Duration,
    /// Hosts whose links or servers changed.
    pub hosts: Vec<String>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// How complete a capture file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureStats {
    /// The file.
    pub file: PathBuf,
    /// Frames written.
    pub frames: u64,
    /// Frames missed because they arrived faster than they could be taken.
    pub dropped: u64,
    /// Why writing stopped, if it did.
    pub failure: Option<String>,
}

/// Counts of frames so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwarderStats {
    /// Delivered.
    pub forwarded: u64,
    /// Dropped by configured loss.
    pub lost: u64,
    /// Dropped because a link's queue was full.
    pub queue_full: u64,
    /// Dropped because they exceeded a link's MTU; the sender was notified.
    pub too_big: u64,
    /// Not addressed to any host of the lab: multicast and unused addresses.
    pub ignored: u64,
    /// Dropped by the machine: more arrived at once than the forwarder could take.
    pub ring_full: u64,
    /// Dropped by the machine: the kernel refused to send them.
    pub send_failed: u64,
}
