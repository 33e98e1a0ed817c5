//! The stored form of field data: a header, then a line for each beacon and each report.

use std::fmt;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::entry::{EntryClass, NewConnection};

/// Value of the `format` field.
pub const FIELD_FORMAT: &str = "firstbyte/field";
/// Value of the `version` field.
pub const FIELD_VERSION: u32 = 1;
/// First bytes of a field data file.
const BEGIN: &[u8] = b"{\"format\":\"firstbyte/field\"";

/// Whether a file with these first bytes is a field data file.
pub fn begins_field_data(begin: &[u8]) -> bool {
    begin.starts_with(BEGIN)
}

/// First line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct FieldHeader {
    pub format: String,
    pub version: u32,
    pub created_unix_s: u64,
    pub firstbyte_version: String,
}

impl FieldHeader {
    /// Header of a new file.
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
    /// If the line is not a header, or is of a later version.
    pub fn parse(line: &[u8]) -> Result<Self, FieldLineError> {
        let header: Self = serde_json::from_slice(line).map_err(FieldLineError::malformed)?;
        match header.version {
            FIELD_VERSION => Ok(header),
            version => Err(FieldLineError::Version { version }),
        }
    }
}

/// A line after the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldLine {
    /// A page's beacon.
    Beacon(BeaconRecord),
    /// A Network Error Logging report.
    Report(ReportRecord),
    /// Number of refused uploads since the previous such line, by reason.
    Refused(BTreeMap<String, u64>),
}

impl FieldLine {
    /// Reads a line.
    ///
    /// # Errors
    /// If the line is not valid.
    pub fn parse(line: &[u8]) -> Result<Self, FieldLineError> {
        serde_json::from_slice(line).map_err(FieldLineError::malformed)
    }
}

/// A beacon as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct BeaconRecord {
    /// When it was received, to the minute.
    pub received_unix_s: u64,
    /// The page's origin.
    pub page: String,
    /// Fraction of page views that send beacons.
    pub sampling: f64,
    /// Step of the browser's clock, microseconds.
    pub step_us: f64,
    /// `crossOriginIsolated`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolated: bool,
    #[serde(default)]
    pub new: Vec<NewConnection>,
    #[serde(default)]
    pub counted: Vec<CountedEntries>,
    /// Entries with impossible times.
    #[serde(default, skip_serializing_if = "is_none")]
    pub impossible: u64,
    /// Entries that the page did not send.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u64,
}

/// Number of entries of one class without phases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct CountedEntries {
    pub origin: String,
    pub protocol: String,
    pub class: EntryClass,
    pub entries: u64,
}

/// A report as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ReportRecord {
    /// When it was received, to the minute.
    pub received_unix_s: u64,
    pub origin: String,
    /// Fraction of such requests that are reported.
    pub sampling: f64,
    pub phase: String,
    /// Type of the failure; absent if the request succeeded.
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
    /// Not a line of field data.
    Malformed {
        /// What is wrong.
        detail: String,
    },
    /// Written by a later version of the format.
    Version {
        /// The version found.
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
