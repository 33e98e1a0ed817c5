//! Requests as rows: NDJSON with nanoseconds and `null`, CSV with microseconds and empty fields.

use std::io::{self, Write};

use firstbyte_sources::har::{HarArchive, HarSummary};
use serde_json::{Map, Value};

use super::columns::{ArchiveRow, COLUMNS};
use crate::columns::{ColumnType, ColumnValue, delimited, nanoseconds};

fn each_row(
    file: &str,
    archive: &HarArchive,
    summary: &HarSummary,
    mut write: impl FnMut(&ArchiveRow<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let rules = archive.rules();
    for (entry, exchange) in archive.entries.iter().zip(&summary.exchanges) {
        let page = entry.page.and_then(|page| archive.pages.get(page as usize));
        let page = page.map(|page| &*page.id);
        write(&ArchiveRow { file, page, rules, entry, exchange })?;
    }
    Ok(())
}

/// Writes one line per request of `archive`.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn archive_lines(
    file: &str,
    archive: &HarArchive,
    summary: &HarSummary,
    out: &mut dyn Write,
) -> io::Result<()> {
    each_row(file, archive, summary, |row| {
        let mut line = Map::new();
        for column in COLUMNS {
            let name = match column.holds {
                ColumnType::Timestamp => format!("{}_unix_ns", column.name),
                holds => holds.parquet_heading(column.name),
            };
            let value = match (column.get)(row) {
                None => Value::Null,
                Some(ColumnValue::Integer(number) | ColumnValue::Timestamp(number)) => {
                    number.into()
                }
                Some(ColumnValue::Time(ns)) => nanoseconds(ns).into(),
                Some(ColumnValue::Number(number)) => number.into(),
                Some(ColumnValue::Text(text)) => text.into_owned().into(),
                Some(ColumnValue::Boolean(is)) => is.into(),
            };
            line.insert(name, value);
        }
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")
    })
}

/// Writes requests as CSV.
pub struct ArchiveCsvWriter<W: Write> {
    out: W,
}

impl<W: Write> ArchiveCsvWriter<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut row = Vec::new();
        let names = COLUMNS.iter().map(|column| column.holds.csv_heading(column.name));
        delimited::header(&mut row, names);
        out.write_all(&row)?;
        Ok(Self { out })
    }

    /// Adds one row per request of `archive`.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn archive(
        &mut self,
        file: &str,
        archive: &HarArchive,
        summary: &HarSummary,
    ) -> io::Result<()> {
        let mut row = Vec::new();
        each_row(file, archive, summary, |values| {
            row.clear();
            delimited::row(&mut row, COLUMNS.iter().map(|column| (column.get)(values)));
            self.out.write_all(&row)
        })
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
