//! Targets that are measured again and again.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_probe::probe::Secret;
use serde::{Deserialize, Serialize};

/// A monitor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorPlan {
    /// What is measured.
    pub source: MonitorSource,
    /// Only says what would be.
    pub check_only: bool,
    /// Where samples are kept; where the configuration, or the user's own settings, say when absent.
    pub store: Option<PathBuf>,
    /// For how long; until it is told to stop when absent.
    #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
    pub length: Option<Duration>,
    /// No progress is shown.
    pub silent: bool,
}

/// What a monitor measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorSource {
    /// The targets of a TOML file.
    File(PathBuf),
    /// URLs, all in the same way.
    Urls {
        /// `https://` unless they say otherwise.
        urls: Vec<Secret<String>>,
        /// From one sample to the next; a minute when absent.
        #[serde(rename = "every_ns", with = "nanoseconds_if_any")]
        every: Option<Duration>,
        /// Most time for a sample; 30 s when absent.
        #[serde(rename = "max_time_ns", with = "nanoseconds_if_any")]
        max_time: Option<Duration>,
        /// Axes, each `AXIS=VALUE,VALUE`.
        vary: Vec<Secret<String>>,
    },
}
