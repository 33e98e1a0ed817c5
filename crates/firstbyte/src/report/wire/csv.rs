//! `wire --csv`: one row per connection, times in microseconds. What is not known is an empty field.

use std::io::{self, Write};
use std::time::Duration;

use firstbyte_core::passive::Observed;

use super::columns::{COLUMNS, Kind, Value};
use crate::report::dates;

/// Writes connections as CSV.
pub struct CsvWriter<W: Write>(csv::Writer<W>);

impl<W: Write> CsvWriter<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns())?;
        Ok(Self(writer))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn row(&mut self, observed: &Observed) -> io::Result<()> {
        let fields = COLUMNS.iter().map(|c| (c.get)(observed).map(printed).unwrap_or_default());
        Ok(self.0.write_record(fields)?)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The names of the columns.
pub(super) fn columns() -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|column| match column.kind {
        Kind::Time => format!("{}_us", column.name),
        _ => column.name.to_owned(),
    })
}

fn printed(value: Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Number(number) => format!("{number:.4}"),
        Value::Text(text) => text,
        Value::Bool(bool) => bool.to_string(),
        Value::Time(time) => micros(time),
        Value::Point(ns) => {
            u64::try_from(ns).ok().and_then(dates::rfc3339_micros).unwrap_or_default()
        }
    }
}

/// Microseconds, exact to the nanosecond.
fn micros(time: Duration) -> String {
    let ns = time.as_nanos();
    let text = format!("{}.{:03}", ns / 1_000, ns % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
