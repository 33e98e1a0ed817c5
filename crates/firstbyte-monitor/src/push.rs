//! Pushes: who is sent a monitor's figures, and in which form. Pure; sending them is the program's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::probe::{Secret, Target};

/// Where figures are sent, as it was configured. Its files are named from the configuration's directory.
#[derive(Clone, Debug, PartialEq)]
pub struct PushSettings {
    /// Protocol of the requests.
    pub form: PushForm,
    /// URL of the requests. Secret, because its path may hold a token.
    pub url: Secret<Target>,
    /// Its host and port, which may be shown.
    pub name: String,
    /// Interval between requests.
    pub every: Duration,
    /// Labels of all series (remote-write), or attributes of the resource (OTLP).
    pub labels: BTreeMap<String, String>,
    /// A word that requests bring: `Authorization: Bearer …`.
    pub token_file: Option<PathBuf>,
    /// Further header fields.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Protocol that carries the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushForm {
    /// Prometheus' remote-write 1.0.
    RemoteWrite {
        /// Histograms are native ones.
        native: bool,
    },
    /// OpenTelemetry's protocol over HTTP.
    Otlp,
}
