//! `wire --parquet`: one row per connection, times in nanoseconds. An unknown value is null.

use std::io::{self, Write};

use firstbyte_passive::Observed;

use super::columns::COLUMNS;
use crate::parquet::table::{Field, TableWriter};

/// Writes connections as Parquet.
pub struct ParquetWriter<W: Write + Send>(TableWriter<W>);

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let fields = COLUMNS.iter().map(|column| Field::new(column.name, column.holds));
        TableWriter::new(out, "connection", &fields.collect::<Vec<_>>()).map(Self)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, observed: &Observed) -> io::Result<()> {
        self.0.row(COLUMNS.iter().map(|column| (column.get)(observed)))
    }

    /// Writes the remaining rows and the end of the file.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()
    }
}
