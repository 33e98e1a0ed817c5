//! A sample as a line of a run file, and back.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use serde::Deserialize;

use super::row::row;
use crate::document::FailureRecord;
use crate::document::interned::{FactTable, Interner};
use crate::document::stored::StoredSample;
use crate::run::{Metric, Standing, Taken};

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError(String);

impl LineError {
    pub(super) fn of(error: &serde_json::Error) -> Self {
        Self(error.to_string())
    }

    pub(super) fn unknown(what: &str, value: &str) -> Self {
        Self(format!("unknown {what} {value:?}: written by a later firstbyte?"))
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LineError {}

/// Appends the line of `taken`, a visit to the cell with the URL `url`, to `out`, with its end, and
/// before it the lines of facts that it refers to and that were not stored before.
///
/// # Errors
/// None that can occur: the model has a stored form for everything.
pub fn sample_line(
    taken: &Taken,
    url: &str,
    interner: &mut Interner,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut stored = StoredSample::of(&taken.sample, url, interner);
    // It stands before it.
    stored.connection.started_unix_ns = None;
    interner.fresh().iter().for_each(|line| out.extend_from_slice(line.as_bytes()));
    let row = taken.row();
    write!(out, r#"{{"cell":{},"round":{},"warmup":{}"#, row.cell, row.round, row.warmup)?;
    match row.standing {
        Standing::Proven => write!(out, r#","standing":"proven""#)?,
        Standing::Failed => write!(out, r#","standing":"failed""#)?,
        Standing::Unproven(shortfall) => {
            write!(out, r#","standing":"unproven","shortfall":"{}""#, shortfall.name())?;
        }
    }
    match taken.sample.connection.started_unix_ns {
        Some(ns) => write!(out, r#","started_unix_ns":{ns}"#)?,
        None => write!(out, r#","started_unix_ns":null"#)?,
    }
    write!(out, r#","lateness_ns":{}"#, row.lateness_ns)?;
    if row.metrics.resolution_ns > 0 {
        write!(out, r#","resolution_ns":{}"#, row.metrics.resolution_ns)?;
    }
    out.extend_from_slice(br#","metrics_ns":{"#);
    let mut first = true;
    for metric in Metric::ALL {
        if let Some(ns) = row.metric(metric) {
            let comma = if first { "" } else { "," };
            write!(out, r#"{comma}"{}":{ns}"#, metric.name())?;
            first = false;
        }
    }
    out.extend_from_slice(br#"},"sample":"#);
    serde_json::to_writer(&mut *out, &stored)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// The sample of `line`, whole; `urls` are those of the cells.
///
/// # Errors
/// When it is not a sample's line, or refers to what is not there.
pub fn taken(line: &[u8], urls: &[String], facts: &FactTable) -> Result<Taken, LineError> {
    #[derive(Deserialize)]
    struct Whole {
        started_unix_ns: Option<u64>,
        sample: StoredSample,
    }
    let row = row(line)?;
    // Looked at once as a whole, not string by string.
    let text = std::str::from_utf8(line).map_err(|error| LineError(error.to_string()))?;
    let mut whole: Whole = serde_json::from_str(text).map_err(|e| LineError::of(&e))?;
    whole.sample.connection.started_unix_ns = whole.started_unix_ns;
    let url = urls.get(usize::from(row.cell)).map_or("", String::as_str);
    let sample = whole.sample.sample(url, row.round, row.warmup, facts);
    Ok(Taken {
        cell: row.cell,
        standing: row.standing,
        lateness: Duration::from_nanos(row.lateness_ns),
        sample: sample.map_err(|missing| LineError(missing.to_string()))?,
    })
}

/// Why the sample of `line` failed, "connect: connection refused by …"; absent when it did not, or
/// cannot be read.
pub fn failure(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        sample: OfSample,
    }
    #[derive(Deserialize)]
    struct OfSample {
        connection: OfConnection,
    }
    #[derive(Deserialize)]
    struct OfConnection {
        failure: Option<FailureRecord>,
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    let failure = line.sample.connection.failure?;
    Some(format!("{}: {}", failure.phase, failure.message))
}
