//! `wire --csv`: one row per connection, times in microseconds. An unknown value is an empty field.

use std::io::{self, Write};

use firstbyte_passive::Observed;

use super::columns::COLUMNS;
use crate::columns::delimited;

/// Writes connections as CSV.
pub struct CsvWriter<W: Write> {
    out: io::BufWriter<W>,
    row: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut row = Vec::new();
        let names = COLUMNS.iter().map(|column| column.holds.csv_heading(column.name));
        delimited::header(&mut row, names);
        let mut out = io::BufWriter::new(out);
        out.write_all(&row)?;
        Ok(Self { out, row })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, observed: &Observed) -> io::Result<()> {
        self.row.clear();
        delimited::row(&mut self.row, COLUMNS.iter().map(|column| (column.get)(observed)));
        self.out.write_all(&self.row)
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the remaining data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
