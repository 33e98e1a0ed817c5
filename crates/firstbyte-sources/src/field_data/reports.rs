//! Network Error Logging (W3C, 2026-01-28): reports of failed requests, and of a sample of successful ones.
//!
//! Fields that could identify a person (`referrer`, `user_agent`, `server_ip`, the path and query of `url`) are not
//! read; only the origin is taken from `url`. Callers that count reports correct for the policy's sampling fractions;
//! this module does not.

use std::fmt;

use serde_json::Value;

use super::line::ReportRecord;
use super::origin::{page_origin, protocol_name};
use super::sampling;
use firstbyte_core::timeline::FailureType;

/// Maximum number of reports in one upload: browsers send a few at a time.
pub const MOST_REPORTS: usize = 200;
/// Longest time a request can have been under way, milliseconds: a day.
const LONGEST_MS: u64 = 86_400_000;

/// Why an upload is rejected as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BadReports {
    /// Not JSON, or cut short.
    NotJson,
    /// JSON, but not an array of reports.
    NotReports,
    /// More than [`MOST_REPORTS`].
    TooMany,
}

impl BadReports {
    /// Name used in counts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotJson => "not-json",
            Self::NotReports => "not-reports",
            Self::TooMany => "too-many-reports",
        }
    }
}

impl fmt::Display for BadReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotJson => "not JSON, or cut short",
            Self::NotReports => "not an array of reports",
            Self::TooMany => "more than 200 reports",
        })
    }
}

impl std::error::Error for BadReports {}

/// Contents of an upload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadReports {
    /// Network errors, and successful requests.
    pub kept: Vec<ReportRecord>,
    /// Number of reports of other types (CSP, deprecations), which are not field data.
    pub others: u64,
    /// Number of reports with contradictory or impossible fields.
    pub impossible: u64,
}

/// Reads an upload of the Reporting API (`application/reports+json`) received at `received_unix_s`, which is stored to
/// the minute.
///
/// # Errors
/// If it is not an array of reports. Impossible reports are counted and do not invalidate the others.
pub fn parse_reports(bytes: &[u8], received_unix_s: u64) -> Result<ReadReports, BadReports> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| BadReports::NotJson)?;
    let reports = value.as_array().ok_or(BadReports::NotReports)?;
    if reports.len() > MOST_REPORTS {
        return Err(BadReports::TooMany);
    }
    let mut read = ReadReports::default();
    for report in reports {
        match report.get("type").and_then(Value::as_str) {
            Some("network-error") => match report_record(report, received_unix_s) {
                Some(record) => read.kept.push(record),
                None => read.impossible += 1,
            },
            Some(_) => read.others += 1,
            None => read.impossible += 1,
        }
    }
    Ok(read)
}

/// Reads one report; `None` if its fields are impossible or contradict each other.
fn report_record(report: &Value, received_unix_s: u64) -> Option<ReportRecord> {
    let body = report.get("body")?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let origin = page_origin(report.get("url")?.as_str()?)?;
    let sampling = sampling(body.get("sampling_fraction")?.as_f64()?)?;
    let phase = match text("phase")? {
        "dns" => "dns",
        "connection" => "connection",
        "application" => "application",
        _ => return None,
    };
    let said = text("type")?;
    let is_ok = said == "ok";
    if !goes_with(said, phase) {
        return None;
    }
    let failure = (!is_ok).then(|| FailureType::nearest(said));
    let is_downgraded = failure == Some(FailureType::DnsAddressChanged);
    let number = |name: &str| match body.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_f64().filter(|n| *n >= 0.0 && *n <= LONGEST_MS as f64).map(Some),
    };
    let elapsed = number("elapsed_time")?.map(|ms| ms as u64);
    let status = number("status_code")?.map(|code| code as u16);
    if status.is_some_and(|code| code != 0 && !(100..=999).contains(&code)) {
        return None;
    }
    Some(ReportRecord {
        received_unix_s: received_unix_s / 60 * 60,
        origin,
        sampling,
        phase: phase.to_owned(),
        failure: failure.map(|failure| failure.as_str().to_owned()),
        protocol: protocol_name(text("protocol").unwrap_or_default()).to_owned(),
        // A downgraded report has neither: the values in it are not measurements (§5, step 9).
        elapsed_ms: elapsed.filter(|_| !is_downgraded),
        status: status.filter(|code| *code > 0 && !is_downgraded),
    })
}

/// Whether errors of this type belong to this phase (§6).
fn goes_with(said: &str, phase: &str) -> bool {
    match said.split('.').next().unwrap_or_default() {
        "dns" => phase == "dns",
        "tcp" | "tls" => phase == "connection",
        "http" | "ok" => phase == "application",
        _ => true,
    }
}
