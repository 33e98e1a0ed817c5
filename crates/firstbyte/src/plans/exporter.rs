//! Answering as blackbox_exporter does.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whose metrics they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExporterMetrics {
    /// Those of blackbox_exporter 0.23.
    #[serde(rename = "0.23")]
    V0_23,
    /// Those of blackbox_exporter 0.28.
    #[default]
    #[serde(rename = "0.28")]
    V0_28,
}

/// How bad a message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExporterLogLevel {
    /// Something that is to be expected.
    Debug,
    /// Something to know.
    #[default]
    Info,
    /// Something to look into.
    Warn,
    /// Something that fails.
    Error,
}

/// How a message is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExporterLogFormat {
    /// Sentences; logs of probes in logfmt.
    #[default]
    Logfmt,
    /// A JSON object a line.
    Json,
}

/// A server for `/probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExporterPlan {
    /// The configuration, in blackbox_exporter's form.
    pub config_file: PathBuf,
    /// Check it, and no more.
    pub check_only: bool,
    /// Seconds that a probe ends before the scrape does.
    pub timeout_offset: f64,
    /// Where it listens, without TLS.
    pub listen: Vec<SocketAddr>,
    /// Probes to remember.
    pub history_limit: usize,
    /// Whose metrics.
    pub metrics: ExporterMetrics,
    /// Its own messages from this level on are written.
    pub log_level: ExporterLogLevel,
    /// How messages and logs of probes are written.
    pub log_format: ExporterLogFormat,
    /// Logs of probes from this level on are written.
    pub log_prober: ExporterLogLevel,
}
