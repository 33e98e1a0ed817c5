//! `wire --parquet`: one row per connection, times in nanoseconds. What is not known is null.

use std::io::{self, Write};

use firstbyte_core::passive::Observed;

use super::columns::{COLUMNS, Kind, Value};
use crate::report::parquet::table::{self, TableWriter};

/// Writes connections as Parquet.
pub struct ParquetWriter<W: Write + Send>(TableWriter<W>);

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let fields = COLUMNS.iter().map(|column| {
            let (name, kind) = match column.kind {
                Kind::Time => (format!("{}_ns", column.name), table::Kind::Int),
                Kind::Int => (column.name.into(), table::Kind::Int),
                Kind::Point => (column.name.into(), table::Kind::Time),
                Kind::Number => (column.name.into(), table::Kind::Number),
                Kind::Text => (column.name.into(), table::Kind::Text),
                Kind::Bool => (column.name.into(), table::Kind::Bool),
            };
            table::Field { name, kind }
        });
        TableWriter::new(out, "connection", fields.collect()).map(Self)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn row(&mut self, observed: &Observed) -> io::Result<()> {
        self.0.row(COLUMNS.iter().map(|column| (column.get)(observed).map(cell)))
    }

    /// Writes what is left, and the end of the file.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(self) -> io::Result<()> {
        self.0.finish()
    }
}

fn cell(value: Value) -> table::Value {
    match value {
        Value::Int(number) | Value::Point(number) => table::Value::Int(number),
        Value::Time(time) => table::Value::Int(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)),
        Value::Number(number) => table::Value::Number(number),
        Value::Text(text) => table::Value::Text(text),
        Value::Bool(bool) => table::Value::Bool(bool),
    }
}
