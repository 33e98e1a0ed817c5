//! The stored form of field data: a header, then a line for each beacon and each report.

use std::fmt;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::entry::{EntryClass, NewConnection};

/// Value of the field `format`.
pub const FIELD_FORMAT: &str = "firstbyte/field";
/// Value of the field `version`.
pub const FIELD_VERSION: u32 = 1;
/// How a file of field data begins.
const BEGIN: &[u8] = b"{\"format\":\"firstbyte/field\"";

/// Whether a file that begins so is one of field data.
pub fn begins_field_data(begin: &[u8]) -> bool {
    begin.starts_with(BEGIN)
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct FieldHeader {
    pub format: String,
    pub version: u32,
    pub created_unix_s: u64,
    pub firstbyte_version: String,
}

impl FieldHeader {
    /// Of a file that is begun now.
    pub fn new(created_unix_s: u64, firstbyte_version: &str) -> Self {
        Self {
            format: FIELD_FORMAT.to_owned(),
            version: FIELD_VERSION,
            created_unix_s,
            firstbyte_version: firstbyte_version.to_owned(),
        }
    }

    /// Reads the first line of a file.
    ///
    /// # Errors
    /// When it is none, or of a later version.
    pub fn parse(line: &[u8]) -> Result<Self, FieldLineError> {
        let header: Self = serde_json::from_slice(line).map_err(FieldLineError::malformed)?;
        match header.version {
            FIELD_VERSION => Ok(header),
            version => Err(FieldLineError::Version { version }),
        }
    }
}

/// A line behind the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLine {
    /// What a page sent.
    Beacon(BeaconRecord),
    /// A report of Network Error Logging.
    Report(ReportRecord),
    /// What was refused since the line before that said so, by why.
    Refused(BTreeMap<String, u64>),
}

impl FieldLine {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(line: &[u8]) -> Result<Self, FieldLineError> {
        serde_json::from_slice(line).map_err(FieldLineError::malformed)
    }
}

/// A beacon, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct BeaconRecord {
    /// To the minute.
    pub received_unix_s: u64,
    /// The page's origin.
    pub page: String,
    /// The part of page views that send beacons.
    pub sampling: f64,
    /// The step of the browser's clock.
    pub step_us: f64,
    /// `crossOriginIsolated`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    #[serde(default)]
    pub new: Vec<NewConnection>,
    #[serde(default)]
    pub counted: Vec<CountedEntries>,
    /// Entries whose times cannot be.
    #[serde(default, skip_serializing_if = "is_none")]
    pub impossible: u64,
    /// Entries that the page did not send.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u64,
}

/// Entries that have no phases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct CountedEntries {
    pub origin: String,
    pub protocol: String,
    pub class: EntryClass,
    pub entries: u64,
}

/// A report, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ReportRecord {
    /// To the minute.
    pub received_unix_s: u64,
    pub origin: String,
    /// The part of such requests that are reported.
    pub sampling: f64,
    pub phase: String,
    /// The type of the failure; absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub protocol: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldLineError {
    /// No line of field data.
    Malformed {
        /// What is wrong.
        detail: String,
    },
    /// Written by a later version.
    Version {
        /// Which.
        version: u32,
    },
}

impl FieldLineError {
    #[allow(clippy::needless_pass_by_value, reason = "for map_err")]
    fn malformed(error: serde_json::Error) -> Self {
        Self::Malformed { detail: error.to_string() }
    }
}

impl fmt::Display for FieldLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { detail } => write!(f, "not a line of field data: {detail}"),
            Self::Version { version } => {
                write!(
                    f,
                    "field data of version {version}; this firstbyte reads version {FIELD_VERSION}"
                )
            }
        }
    }
}

impl std::error::Error for FieldLineError {}
