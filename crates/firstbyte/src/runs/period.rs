//! Reads the samples of a short period from a long run file without reading all of it.
//!
//! In: a file, a period, a cell. Out: its rows, with the offsets of their lines. Samples are written when they end, so
//! a file is sorted by end time, which is nearly the order of start times. A bisection finds the place, and a margin
//! covers the samples around it. If the clock was set back, samples of the repeated time may be missed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

use firstbyte_core::document::run::{LineKind, RunHeader, failure, kind, row};
use firstbyte_core::run::Row;

use super::RunError;
use super::read::{LineRules, Part, header, read_line};

/// Maximum duration of a sample, in nanoseconds.
const MARGIN_NS: u64 = 600 * 1_000_000_000;
/// Ranges shorter than this (in bytes) are read from their beginning.
const WORTH_SEARCHING: u64 = 256 << 10;

/// A row and its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRow {
    /// The row.
    pub row: Row,
    /// Offset of its line.
    pub offset: u64,
    /// Why the sample failed; absent if it did not.
    pub failure: Option<String>,
}

/// Rows of the run at `path` that began within `period`, in nanoseconds since the Unix epoch.
///
/// `cell` selects the cell by the run's header; if it returns `None`, there are no rows.
///
/// # Errors
/// If the file cannot be read, is not a run, or has a later version.
pub fn rows_of_period(
    path: &Path,
    period: Range<u64>,
    cell: impl Fn(&RunHeader) -> Option<u16>,
) -> Result<Vec<PlacedRow>, RunError> {
    let failed = |error: io::Error| RunError::io(path, "read")(error);
    let file = File::open(path).map_err(failed)?;
    let (header, begin) = header(&file, path)?;
    let Some(cell) = cell(&header) else { return Ok(Vec::new()) };
    let length = file.metadata().map_err(failed)?.len();
    let earliest = period.start.saturating_sub(MARGIN_NS);
    let latest = period.end.saturating_add(MARGIN_NS);
    let from = first_from(&file, begin..length, earliest).map_err(failed)?;
    let to = first_from(&file, from..length, latest).map_err(failed)?;
    // Include the last searched range, which may begin before its first sample.
    let to = to.saturating_add(WORTH_SEARCHING).min(length);
    let part = Part::read(&file, from, to, from > begin, LineRules::from_header(&header))
        .map_err(failed)?;
    let mut found = Vec::new();
    let mut line = Vec::new();
    for (row, offset) in part.rows.into_iter().zip(part.offsets) {
        if row.cell == cell && period.contains(&row.started_unix_ns) {
            read_line(&file, offset, &mut line).map_err(failed)?;
            found.push(PlacedRow { row, offset, failure: failure(&line) });
        }
    }
    Ok(found)
}

/// An offset in `range` that is before all samples of `earliest` and later, if the file is sorted.
fn first_from(file: &File, range: Range<u64>, earliest: u64) -> io::Result<u64> {
    let Range { start: mut low, end: mut high } = range;
    while high.saturating_sub(low) > WORTH_SEARCHING {
        let middle = low + (high - low) / 2;
        match sample_behind(file, middle..high)? {
            Some(began) if began < earliest => low = middle,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Start time of the first sample whose line begins after the first line end within `range`.
fn sample_behind(file: &File, range: Range<u64>) -> io::Result<Option<u64>> {
    let mut line = Vec::new();
    read_line(file, range.start, &mut line)?;
    let mut at = range.start + line.len() as u64 + 1;
    while at < range.end {
        read_line(file, at, &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        let began = row(&line).ok().filter(|_| kind(&line) == LineKind::Sample);
        // A sample without a time says nothing about the order.
        if let Some(began) = began.map(|row| row.started_unix_ns).filter(|began| *began > 0) {
            return Ok(Some(began));
        }
        at += line.len() as u64 + 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use firstbyte_core::document::run::{CellRecord, DesignRecord, RUN_FORMAT};
    use firstbyte_core::run::Cell;

    use super::*;
    use crate::runs::Run;

    const SECOND: u64 = 1_000_000_000;

    fn header() -> String {
        let cell = CellRecord::from_cell(&Cell::default());
        let header = RunHeader {
            format: RUN_FORMAT.into(),
            // Without checksums.
            version: 2,
            created_unix_ns: 0,
            firstbyte_version: "0".into(),
            command: Vec::new(),
            plan: serde_json::Value::Null,
            design: DesignRecord {
                warmup: 0,
                rounds: None,
                until: None,
                seed: 0,
                concurrent: 1,
                interval_ns: None,
            },
            axes: Vec::new(),
            cells: vec![cell.clone(), cell],
            environment: crate::runs::environment::gather(),
        };
        serde_json::to_string(&header).unwrap()
    }

    /// A day with two samples a second. Every thousandth line is not a sample; lines are as long as real ones.
    fn day(header: &str, samples: u64) -> String {
        let mut text = format!("{header}\n");
        for n in 0..samples {
            // They end in a different order than they began.
            let began = (10_000 + n / 2) * SECOND + (n * 7_919 % 5) * SECOND;
            let _ = writeln!(
                text,
                "{{\"variant\":{},\"round\":{n},\"warmup\":false,\"outcome\":\"verified\",\"started_unix_ns\":{began},\"lateness_ns\":0,\
                 \"metrics_ns\":{{\"total\":{n}}},\"sample\":{{\"x\":\"{}\"}}}}",
                n % 2,
                "-".repeat(100)
            );
            if n % 1_000 == 0 {
                text += "{\"other\":1}\n";
            }
        }
        text
    }

    #[test]
    fn what_is_found_is_what_a_whole_reading_finds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("day.run");
        std::fs::write(&path, day(&header(), 20_000)).unwrap();
        let whole = Run::read(&path).unwrap();
        assert_eq!(whole.rows.len(), 20_000);
        for begin in [0, 9_990, 10_000, 10_003, 12_345, 15_000, 19_999, 30_000] {
            let period = begin * SECOND..(begin + 60) * SECOND;
            let found = rows_of_period(&path, period.clone(), |_| Some(1)).unwrap();
            let expected: Vec<(Row, u64)> = (0..whole.rows.len())
                .map(|n| (whole.rows[n], whole.offset(n)))
                .filter(|(row, _)| row.cell == 1 && period.contains(&row.started_unix_ns))
                .collect();
            let found: Vec<(Row, u64)> =
                found.into_iter().map(|one| (one.row, one.offset)).collect();
            assert_eq!(found, expected, "{begin}");
            assert_eq!(found.is_empty(), !(9_990..=19_999).contains(&begin), "{begin}");
        }
        assert_eq!(rows_of_period(&path, 0..u64::MAX, |_| None).unwrap(), []);
        assert_eq!(rows_of_period(&path, 0..u64::MAX, |_| Some(0)).unwrap().len(), 10_000);
    }
}
