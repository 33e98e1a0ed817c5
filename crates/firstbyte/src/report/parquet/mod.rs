//! `--parquet`: all samples of a run as columns, for data frames and databases.
//!
//! One row a sample; nanoseconds as 64-bit integers, absent values as nulls, texts as UTF-8. Written
//! a group of rows at a time, so that the memory needed does not depend on the length of the run.

mod columns;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use firstbyte_core::run::{Cell, Taken};

use columns::{Column, Get, Seen};
use table::{Field, Kind, TableWriter, Value};

use crate::probe::shown_url::shown_urls_within;

/// Writes the samples of a run.
pub struct ParquetWriter<W: Write + Send> {
    table: TableWriter<W>,
    columns: Vec<Column>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file; `axes` are those of the run.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, axes: &[String]) -> io::Result<Self> {
        let columns = columns::all(axes);
        let fields = columns.iter().map(field).collect();
        Ok(Self { table: TableWriter::new(out, "sample", fields)?, columns })
    }

    /// Adds `taken`, a visit to `cell`.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn taken(&mut self, cell: &Cell, taken: &Taken) -> io::Result<()> {
        let seen = Seen::of(cell, taken);
        self.table.row(self.columns.iter().map(|column| value(column, &seen)))
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(self) -> io::Result<()> {
        self.table.finish()
    }
}

/// The names of the columns.
#[cfg(test)]
pub(super) fn column_names(axes: &[String]) -> Vec<String> {
    columns::all(axes).into_iter().map(|column| column.name).collect()
}

fn field(column: &Column) -> Field {
    let kind = match column.get {
        Get::Int(_) | Get::Duration(_) => Kind::Int,
        Get::Time(_) => Kind::Time,
        Get::Text(_) | Get::Factor(_) => Kind::Text,
        Get::Bool(_) => Kind::Bool,
    };
    Field { name: column.name.clone(), kind }
}

fn value(column: &Column, seen: &Seen<'_>) -> Option<Value> {
    match &column.get {
        Get::Int(get) | Get::Time(get) => get(seen).map(Value::Int),
        Get::Duration(get) => {
            let ns = get(seen)?.as_nanos();
            Some(Value::Int(i64::try_from(ns).unwrap_or(i64::MAX)))
        }
        Get::Text(get) => get(seen).map(Value::Text),
        Get::Factor(axis) => {
            let factor = seen.cell.factors.iter().find(|factor| factor.axis == *axis);
            factor.map(|factor| Value::Text(shown_urls_within(&factor.value)))
        }
        Get::Bool(get) => get(seen).map(Value::Bool),
    }
}
