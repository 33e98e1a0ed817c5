//! The stored form of one sample: one line of NDJSON.

use serde::{Deserialize, Serialize};

use super::ConnectionRecord;
use crate::timeline::Sample;

/// Value of the field `format`.
pub const SAMPLE_FORMAT: &str = "firstbyte/sample";
/// Value of the field `version`.
pub const SAMPLE_VERSION: u32 = 1;

/// One sample, as stored: the fields of its last connection, and those that redirected to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct SampleRecord {
    pub format: String,
    pub version: u32,
    pub sequence: u32,
    pub warmup: bool,
    pub requested_url: String,
    #[serde(flatten)]
    pub connection: ConnectionRecord,
    pub redirects: Vec<ConnectionRecord>,
}

impl SampleRecord {
    /// The stored form of `sample`.
    pub fn of(sample: &Sample) -> Self {
        Self {
            format: SAMPLE_FORMAT.into(),
            version: SAMPLE_VERSION,
            sequence: sample.sequence,
            warmup: sample.warmup,
            requested_url: sample.requested_url.clone(),
            connection: ConnectionRecord::of(&sample.connection),
            redirects: sample.redirects.iter().map(ConnectionRecord::of).collect(),
        }
    }
}
