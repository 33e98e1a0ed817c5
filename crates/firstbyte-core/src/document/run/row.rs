//! The fast path through a run file: reads only the part of each line that statistics need.
//!
//! firstbyte writes each line with its reduced form first, in fixed order and without spaces; this parser ignores the
//! rest of the line. A line that begins differently (because another program rewrote it) goes through the slow path,
//! with the same result.

use std::collections::HashMap;

use serde::Deserialize;

use super::LineError;
use crate::run::{Metric, Metrics, Row, Shortfall, Standing, VisitAnswer};

/// Kind of a line in a run file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// A sample.
    Sample,
    /// A fact shared by samples.
    Fact,
    /// Anything that this version does not need.
    Other,
}

/// Determines the kind of `line`.
pub fn kind(line: &[u8]) -> LineKind {
    if line.starts_with(b"{\"variant\":") {
        return LineKind::Sample;
    }
    if line.starts_with(b"{\"fact\":") {
        return LineKind::Fact;
    }
    #[derive(Deserialize)]
    struct Either {
        variant: Option<serde::de::IgnoredAny>,
        fact: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice(line) {
        Ok(Either { variant: Some(_), .. }) => LineKind::Sample,
        Ok(Either { fact: Some(_), .. }) => LineKind::Fact,
        Ok(_) => LineKind::Other,
        // Assume that invalid JSON was meant as a sample: most lines are samples.
        Err(_) => LineKind::Sample,
    }
}

/// Reads the row at the start of `line`, a sample.
///
/// # Errors
/// The line does not begin with a row.
pub fn row(line: &[u8]) -> Result<Row, LineError> {
    match quick(line) {
        Some((row, _)) => Ok(row),
        None => slow(line),
    }
}

/// Reads the row and returns the rest of `line`; `None` if the line needs the slow path.
pub(super) fn quick(line: &[u8]) -> Option<(Row, &[u8])> {
    let mut cursor = Cursor { rest: line };
    let row = cursor.row()?;
    Some((row, cursor.rest))
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn row(&mut self) -> Option<Row> {
        self.skip(b"{\"variant\":")?;
        let cell = u16::try_from(self.number()?).ok()?;
        self.skip(b",\"round\":")?;
        let round = u32::try_from(self.number()?).ok()?;
        self.skip(b",\"warmup\":")?;
        let warmup = self.boolean()?;
        self.skip(b",\"outcome\":")?;
        let standing = match self.word()? {
            b"verified" => Standing::Proven,
            b"failed" => Standing::Failed,
            b"unverified" => {
                self.skip(b",\"shortfall\":")?;
                let name = std::str::from_utf8(self.word()?).ok()?;
                Standing::Unproven(Shortfall::named(name)?)
            }
            _ => return None,
        };
        self.skip(b",\"started_unix_ns\":")?;
        let started_unix_ns = if self.skip(b"null").is_some() { 0 } else { self.number()? };
        self.skip(b",\"lateness_ns\":")?;
        let lateness_ns = self.number()?;
        let mut stands_for_ns = None;
        if self.skip(b",\"stands_for_ns\":").is_some() {
            stands_for_ns = Some(self.number()?);
        }
        let mut metrics = Metrics::default();
        if self.skip(b",\"resolution_ns\":").is_some() {
            metrics.resolution_ns = u32::try_from(self.number()?).ok()?;
        }
        let (mut status, mut body_bytes) = (None, None);
        if self.skip(b",\"status\":").is_some() {
            status = Some(u16::try_from(self.number()?).ok()?);
        }
        if self.skip(b",\"body_bytes\":").is_some() {
            body_bytes = Some(self.number()?);
        }
        let answer = VisitAnswer::new(status, body_bytes);
        self.skip(b",\"metrics_ns\":{")?;
        if self.skip(b"}").is_none() {
            // Metrics are written in order, so each follows the previous ones.
            let mut behind = 0;
            loop {
                let metric = metric(self.word()?, &mut behind);
                self.skip(b":")?;
                let ns = self.number()?;
                if let Some(metric) = metric {
                    metrics.set_ns(metric, ns);
                }
                if self.skip(b"}").is_some() {
                    break;
                }
                self.skip(b",")?;
            }
        }
        Some(Row {
            cell,
            round,
            warmup,
            standing,
            started_unix_ns,
            lateness_ns,
            stands_for_ns,
            metrics,
            answer,
        })
    }

    fn skip(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let (mut number, mut digits) = (0u64, 0);
        while let Some(digit) = self.rest.get(digits).filter(|byte| byte.is_ascii_digit()) {
            // Nineteen digits cannot overflow; longer numbers take the slow path.
            if digits == 19 {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            digits += 1;
        }
        // JSON does not allow leading zeros.
        if digits == 0 || (digits > 1 && self.rest[0] == b'0') {
            return None;
        }
        self.rest = &self.rest[digits..];
        Some(number)
    }

    fn boolean(&mut self) -> Option<bool> {
        if self.skip(b"false").is_some() {
            return Some(false);
        }
        self.skip(b"true").map(|()| true)
    }

    /// A quoted string without escapes.
    fn word(&mut self) -> Option<&'a [u8]> {
        let inner = self.rest.strip_prefix(b"\"")?;
        let end = inner.iter().position(|b| matches!(b, b'"' | b'\\' | ..b' '))?;
        self.rest = inner[end..].strip_prefix(b"\"")?;
        Some(&inner[..end])
    }
}

/// Finds a metric by name, starting at `behind`, the expected place of the next one.
fn metric(name: &[u8], behind: &mut usize) -> Option<Metric> {
    let named = |metric: &Metric| metric.name().as_bytes() == name;
    let found = Metric::ALL.iter().skip(*behind).position(named).map(|place| *behind + place);
    let place = found.or_else(|| Metric::ALL.iter().position(named))?;
    *behind = place + 1;
    Metric::ALL.get(place).copied()
}

fn slow(line: &[u8]) -> Result<Row, LineError> {
    #[derive(Deserialize)]
    struct Reduced {
        #[serde(rename = "variant")]
        cell: u16,
        round: u32,
        warmup: bool,
        #[serde(rename = "outcome")]
        standing: String,
        shortfall: Option<String>,
        started_unix_ns: Option<u64>,
        #[serde(default)]
        lateness_ns: u64,
        stands_for_ns: Option<u64>,
        #[serde(default)]
        resolution_ns: u32,
        status: Option<u16>,
        body_bytes: Option<u64>,
        #[serde(default)]
        metrics_ns: HashMap<String, u64>,
    }
    let reduced: Reduced =
        serde_json::from_slice(line).map_err(|e| LineError::from_json_error(&e))?;
    let standing = match (reduced.standing.as_str(), reduced.shortfall.as_deref()) {
        ("verified", _) => Standing::Proven,
        ("failed", _) => Standing::Failed,
        ("unverified", Some(name)) => Standing::Unproven(
            Shortfall::named(name).ok_or_else(|| LineError::unknown("shortfall", name))?,
        ),
        (name, _) => return Err(LineError::unknown("outcome", name)),
    };
    let mut metrics = Metrics::default();
    metrics.resolution_ns = reduced.resolution_ns;
    for (name, ns) in reduced.metrics_ns {
        if let Some(metric) = Metric::named(&name) {
            metrics.set_ns(metric, ns);
        }
    }
    Ok(Row {
        cell: reduced.cell,
        round: reduced.round,
        warmup: reduced.warmup,
        standing,
        started_unix_ns: reduced.started_unix_ns.unwrap_or(0),
        lateness_ns: reduced.lateness_ns,
        stands_for_ns: reduced.stands_for_ns,
        metrics,
        answer: VisitAnswer::new(reduced.status, reduced.body_bytes),
    })
}
