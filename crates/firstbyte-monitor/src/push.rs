//! Pushes: where a monitor's figures are sent, and in which form. Pure; the program sends them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::probe::{Secret, Target};

/// Configuration of a push. Relative paths start at the configuration's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct PushSettings {
    /// Protocol of the requests.
    pub form: PushForm,
    /// URL of the requests. Secret, because its path may hold a token.
    pub url: Secret<Target>,
    /// Host and port of the URL, which may be shown.
    pub name: String,
    /// Interval between requests.
    pub every: Duration,
    /// Labels of all series (remote-write), or attributes of the resource (OTLP).
    pub labels: BTreeMap<String, String>,
    /// File with the token that requests carry: `Authorization: Bearer …`.
    pub token_file: Option<PathBuf>,
    /// Additional header fields.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Protocol of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushForm {
    /// Prometheus remote-write 1.0.
    RemoteWrite {
        /// Whether histograms are native ones.
        native: bool,
    },
    /// OpenTelemetry's protocol (OTLP) over HTTP.
    Otlp,
}
