//! `--parquet`: all samples of a run as columns, for data frames and databases.
//!
//! One row a sample; nanoseconds as 64-bit integers, absent values as nulls, texts as UTF-8. Written
//! a group of rows at a time, so that the memory needed does not depend on the length of the run.

pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};

use super::columns::sample::{SampleField, SampleRow, parquet_fields};
use table::{Field, TableWriter};

/// Writes the samples of a run.
pub struct ParquetWriter<W: Write + Send> {
    table: TableWriter<W>,
    fields: Vec<SampleField>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file; `axes` are those of the run.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let fields = parquet_fields(axes);
        let headings = fields.iter().map(SampleField::heading);
        let columns = headings.map(|(name, holds)| Field::new(&name, holds)).collect();
        Ok(Self { table: TableWriter::new(out, "sample", columns)?, fields })
    }

    /// Adds `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        let row = SampleRow::of_run(cell, taken);
        self.table.row(self.fields.iter().map(|field| field.value(&row)))
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(self) -> io::Result<()> {
        self.table.finish()
    }
}
