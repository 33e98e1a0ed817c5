//! The stored form of one sample: one line of NDJSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConnectionRecord, RequestsRecord};
use crate::run::{Cell, Standing, Taken, visit_time};
use crate::timeline::Sample;

/// Value of the field `format`.
pub const SAMPLE_FORMAT: &str = "firstbyte/sample";
/// Value of the field `version`.
pub const SAMPLE_VERSION: u32 = 1;

/// One sample, as stored: the fields of its last connection, and the connections that redirected to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct SampleRecord {
    pub format: String,
    pub version: u32,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub of_run: Option<OfRunRecord>,
    pub sequence: u32,
    pub warmup: bool,
    pub requested_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit_ns: Option<u64>,
    #[serde(flatten)]
    pub connection: ConnectionRecord,
    pub redirects: Vec<ConnectionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsRecord>,
}

/// A sample's place in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct OfRunRecord {
    pub variant: u16,
    pub variant_name: String,
    pub factors: BTreeMap<String, String>,
    pub outcome: String,
    pub shortfall: Option<String>,
    pub lateness_ns: u64,
}

impl OfRunRecord {
    fn from_taken(taken: &Taken, cell: &Cell) -> Self {
        let (outcome, shortfall) = match taken.standing {
            Standing::Proven => ("verified", None),
            Standing::Unproven(shortfall) => ("unverified", Some(shortfall.name().to_owned())),
            Standing::Failed => ("failed", None),
        };
        let factors = cell.factors.iter().map(|f| (f.axis.clone(), f.value.clone()));
        Self {
            variant: taken.cell,
            variant_name: cell.name(),
            factors: factors.collect(),
            outcome: outcome.into(),
            shortfall,
            lateness_ns: u64::try_from(taken.lateness.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

impl SampleRecord {
    /// Converts `taken`, a visit to `cell`, to its stored form.
    pub fn from_taken(taken: &Taken, cell: &Cell) -> Self {
        Self {
            of_run: Some(OfRunRecord::from_taken(taken, cell)),
            ..Self::from_sample(&taken.sample)
        }
    }

    /// Converts `sample` to its stored form.
    pub fn from_sample(sample: &Sample) -> Self {
        Self {
            format: SAMPLE_FORMAT.into(),
            version: SAMPLE_VERSION,
            of_run: None,
            sequence: sample.sequence,
            warmup: sample.warmup,
            requested_url: sample.requested_url.clone(),
            visit_ns: u64::try_from(visit_time(sample).as_nanos()).ok(),
            connection: ConnectionRecord::from_connection(&sample.connection),
            redirects: sample.redirects.iter().map(ConnectionRecord::from_connection).collect(),
            requests: RequestsRecord::from_sample(sample),
        }
    }
}
