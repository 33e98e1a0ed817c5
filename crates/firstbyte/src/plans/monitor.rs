//! Targets that are measured again and again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_monitor::event_state::EventState;
use firstbyte_probe::probe::Secret;
use serde::{Deserialize, Serialize};

use super::Destination;

/// A monitor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorPlan {
    /// What is measured.
    pub source: MonitorSource,
    /// Only says what would be.
    pub check_only: bool,
    /// Where samples are kept; where the configuration, or the user's own settings, say when absent.
    pub store: Option<PathBuf>,
    /// Where it answers others; where the configuration says when absent.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// For how long; until it is told to stop when absent.
    #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
    pub length: Option<Duration>,
    /// No progress is shown.
    pub silent: bool,
    /// Each event is written to standard output as it is told.
    #[serde(default)]
    pub json: bool,
}

/// What a monitor measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorSource {
    /// The targets of a TOML file.
    File(PathBuf),
    /// Three edges in a lab, one of which changes.
    Demo,
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

/// What a monitor found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorEventsPlan {
    /// Where samples are kept; where `monitor` would keep them when absent.
    pub store: Option<PathBuf>,
    /// From when on; thirty days before the end when absent.
    pub since: Option<Moment>,
    /// Until when; now when absent.
    pub until: Option<Moment>,
    /// Events in these states; all but withdrawn ones where there is none.
    pub states: Vec<EventState>,
    /// Events of these targets; of all where there is none.
    pub targets: Vec<String>,
    /// How they are written.
    pub form: EventsForm,
}

/// A moment, as somebody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Seconds since the Unix epoch.
    At(i64),
    /// So many seconds before the plan is carried out.
    SecondsAgo(i64),
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventsForm {
    /// Sentences.
    Text,
    /// One object.
    Json,
    /// An event a line.
    Ndjson,
}

/// Rollups of a monitor's store, as rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorExportPlan {
    /// Where samples are kept; where `monitor` would keep them when absent.
    pub store: Option<PathBuf>,
    /// The periods that samples are summed up over.
    pub step: RollupStep,
    /// From when on; thirty days before the end when absent.
    pub since: Option<Moment>,
    /// Until when; now when absent.
    pub until: Option<Moment>,
    /// Of these targets; of all where there is none.
    pub targets: Vec<String>,
    /// These measures, by their stored names; all where there is none.
    pub metrics: Vec<String>,
    /// How they are written.
    pub form: RollupForm,
}

/// A period that samples are summed up over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollupStep {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

/// How rollups are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollupForm {
    /// CSV.
    Csv,
    /// An object a line.
    Ndjson,
}

/// What a monitor's store has, and how its series stand.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorStatusPlan {
    /// Where samples are kept; where `monitor` would keep them when absent.
    pub store: Option<PathBuf>,
    /// Where all of it goes as JSON, if anywhere.
    pub json: Option<Destination>,
}

/// Something that happened, to be noted in a monitor's store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorAnnotatePlan {
    /// Where samples are kept; where `monitor` would keep them when absent.
    pub store: Option<PathBuf>,
    /// What happened.
    pub text: String,
    /// When; now when absent.
    pub at: Option<Moment>,
    /// Series that it is about: those with all of these.
    pub tags: BTreeMap<String, String>,
}
