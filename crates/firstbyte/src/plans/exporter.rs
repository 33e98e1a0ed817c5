//! Plan of `exporter`, a server compatible with blackbox_exporter.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Version of blackbox_exporter whose metrics are served.
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

/// Severity of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExporterLogLevel {
    /// Something expected.
    Debug,
    /// Something worth knowing.
    #[default]
    Info,
    /// Something to investigate.
    Warn,
    /// A failure.
    Error,
}

/// Format of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExporterLogFormat {
    /// Sentences, and logfmt for logs of probes.
    #[default]
    Logfmt,
    /// One JSON object per line.
    Json,
}

/// Plan of `exporter`: a server for `/probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExporterPlan {
    /// Configuration file in blackbox_exporter's format.
    pub config_file: PathBuf,
    /// Only checks the configuration.
    pub check_only: bool,
    /// Seconds between the end of a probe and the timeout of the scrape.
    pub timeout_offset: f64,
    /// Addresses to listen on, without TLS.
    pub listen: Vec<SocketAddr>,
    /// Number of probes to remember.
    pub history_limit: usize,
    /// Version of the metrics.
    pub metrics: ExporterMetrics,
    /// Minimum level of the exporter's own messages.
    pub log_level: ExporterLogLevel,
    /// Format of messages and logs of probes.
    pub log_format: ExporterLogFormat,
    /// Minimum level of messages in probe logs.
    pub log_prober: ExporterLogLevel,
}
