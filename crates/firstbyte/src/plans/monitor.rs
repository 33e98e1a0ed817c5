//! Plans of the `monitor` commands.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_monitor::event_state::EventState;
use firstbyte_probe::probe::Secret;
use serde::{Deserialize, Serialize};

use super::Destination;

/// Plan of `monitor`: measures targets repeatedly.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorPlan {
    /// Targets to measure.
    pub source: MonitorSource,
    /// Only prints what would be measured.
    pub check_only: bool,
    /// Directory for samples; from the configuration or the user's settings if absent.
    pub store: Option<PathBuf>,
    /// Address of the web server; from the configuration if absent.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// How long to run; until stopped if absent.
    #[serde(rename = "length_ns", with = "nanoseconds_if_any")]
    pub length: Option<Duration>,
    /// Shows no progress.
    pub silent: bool,
    /// Writes each event to standard output when it is reported.
    #[serde(default)]
    pub json: bool,
}

/// Source of a monitor's targets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MonitorSource {
    /// The targets of a TOML file.
    File(PathBuf),
    /// Three edges in a lab; one of them changes.
    Demo,
    /// URLs, all measured with the same settings.
    Urls {
        /// The URLs; `https://` if they have no scheme.
        urls: Vec<Secret<String>>,
        /// Time from one sample to the next; a minute if absent.
        #[serde(rename = "every_ns", with = "nanoseconds_if_any")]
        every: Option<Duration>,
        /// Time limit of a sample; 30 s if absent.
        #[serde(rename = "max_time_ns", with = "nanoseconds_if_any")]
        max_time: Option<Duration>,
        /// Axes, each `AXIS=VALUE,VALUE`.
        vary: Vec<Secret<String>>,
    },
}

/// Plan of `monitor events`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorEventsPlan {
    /// Directory of the samples; where `monitor` would keep them if absent.
    pub store: Option<PathBuf>,
    /// Start of the period; thirty days before its end if absent.
    pub since: Option<Moment>,
    /// End of the period; now if absent.
    pub until: Option<Moment>,
    /// Event states to show; all except withdrawn if empty.
    pub states: Vec<EventState>,
    /// Targets to show; all if empty.
    pub targets: Vec<String>,
    /// Output format.
    pub form: EventsForm,
}

/// A point in time given by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Seconds since the Unix epoch.
    At(i64),
    /// Seconds before the plan is carried out.
    SecondsAgo(i64),
}

/// Output format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventsForm {
    /// Sentences.
    Text,
    /// One JSON object.
    Json,
    /// One JSON object per line and event.
    Ndjson,
}

/// Plan of `monitor export`: writes rollups of a monitor's store as rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorExportPlan {
    /// Directory of the samples; where `monitor` would keep them if absent.
    pub store: Option<PathBuf>,
    /// Length of the periods that samples are summed up over.
    pub step: RollupStep,
    /// Start of the exported range; thirty days before its end if absent.
    pub since: Option<Moment>,
    /// End of the exported range; now if absent.
    pub until: Option<Moment>,
    /// Targets to export; all if empty.
    pub targets: Vec<String>,
    /// Stored names of the measures to export; all if empty.
    pub metrics: Vec<String>,
    /// Output format.
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

/// Output format of rollups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollupForm {
    /// CSV.
    Csv,
    /// One JSON object per line.
    Ndjson,
}

/// Plan of `monitor status`: describes a monitor's store and its series.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorStatusPlan {
    /// Directory of the samples; where `monitor` would keep them if absent.
    pub store: Option<PathBuf>,
    /// Destination of the JSON output, if any.
    pub json: Option<Destination>,
}

/// Plan of `monitor annotate`: adds a note about something that happened to a monitor's store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MonitorAnnotatePlan {
    /// Directory of the samples; where `monitor` would keep them if absent.
    pub store: Option<PathBuf>,
    /// What happened.
    pub text: String,
    /// Time of the event; now if absent.
    pub at: Option<Moment>,
    /// Tags of the series concerned; a series must have all of them.
    pub tags: BTreeMap<String, String>,
}
