//! `--parquet`: all samples of a run as columns, for data frames and databases.
//!
//! One row per sample; nanoseconds as 64-bit integers, absent values as nulls, texts as UTF-8. Rows are written in
//! groups, so that memory use does not depend on the length of the run. Any thread can make groups.

pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::Arc;

use super::columns::sample::{SampleField, SampleRow, parquet_fields};
pub(super) use table::{EncodedGroup, GROUP, GroupRows};
use table::{Field, Layout, TableWriter};

/// Writes the samples of a run.
pub struct ParquetWriter<W: Write + Send> {
    table: TableWriter<W>,
    fields: Vec<SampleField>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file; `axes` are those of the run.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let fields = parquet_fields(axes);
        let headings = fields.iter().map(SampleField::heading);
        let columns: Vec<Field> = headings.map(|(name, holds)| Field::new(&name, holds)).collect();
        Ok(Self { table: TableWriter::new(out, "sample", &columns)?, fields })
    }

    /// Creates a maker of row groups for this file.
    pub(super) fn grouper(&self) -> SampleGrouper {
        SampleGrouper { fields: self.fields.clone(), layout: self.table.layout() }
    }

    /// Appends a row group.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub(super) fn append(&mut self, group: EncodedGroup) -> io::Result<()> {
        self.table.append(group)
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(self) -> io::Result<()> {
        self.table.finish()
    }
}

/// Makes row groups from the samples of a run, on any thread.
pub(super) struct SampleGrouper {
    fields: Vec<SampleField>,
    layout: Arc<Layout>,
}

impl SampleGrouper {
    pub(super) fn begin(&self) -> GroupRows {
        GroupRows::new(&self.layout)
    }

    pub(super) fn add(&self, group: &mut GroupRows, row: &SampleRow<'_>) {
        group.push(self.fields.iter().map(|field| field.value(row)));
    }

    /// # Errors
    /// Never fails in practice.
    pub(super) fn end(&self, group: GroupRows) -> io::Result<EncodedGroup> {
        group.encoded(&self.layout)
    }
}
