//! Requests as rows: CSV with times in microseconds, and JSON with times in nanoseconds. Unknown values are empty
//! fields in CSV, and are left out of JSON.

use std::io::{self, Write};

use firstbyte_sources::server_log::{LoggedRequest, LoggedTime};
use serde_json::{Map, Value, json};

use crate::columns::delimited;
use crate::columns::{
    Column, ColumnType, ColumnValue, boolean, integer, nanoseconds, text, time, timestamp,
};
use crate::dates::rfc3339_micros;

/// A column of requests.
type ServerLogColumn = Column<for<'a> fn(&'a LoggedRequest) -> Option<ColumnValue<'a>>>;

macro_rules! columns {
    ($($name:literal, $holds:ident, $get:expr, $doc:literal;)*) => {
        /// All columns, in order. Within a version of the format, new columns are only appended.
        const COLUMNS: &[ServerLogColumn] =
            &[$(Column { name: $name, holds: ColumnType::$holds, get: $get, doc: $doc }),*];
    };
}

columns! {
    "form", Text, |r| text(r.form.name()), "`nginx`, `apache`, `caddy`, `combined`";
    "logged", Timestamp, |r| r.logged.and_then(|at| timestamp(at.as_nanos())),
        "by the server's clock, at the end of the request; Apache's `combined`: at its arrival";
    "host", Text, |r| r.host.as_deref().and_then(text), "as requested, without a port";
    "port", Integer, |r| r.port.and_then(integer), "";
    "protocol", Text, |r| r.protocol.and_then(text), "`HTTP/1.0`, `HTTP/1.1`, `HTTP/2`, `HTTP/3`";
    "method", Text, |r| r.method.as_deref().and_then(text), "";
    "path", Text, |r| r.path.as_deref().and_then(text), "without the query";
    "status", Integer, |r| r.status.and_then(integer), "";
    "bytes", Integer, |r| r.bytes.and_then(integer),
        "sent; `nginx` and `apache` count the head, `caddy` does not, `combined` sometimes does";
    "client_port", Integer, |r| r.client_port.and_then(integer), "of the client, or of a proxy in between";
    "connection", Integer, |r| r.connection.and_then(integer), "nginx's number of the connection";
    "number", Integer, |r| r.number.and_then(integer), "of the request on its connection, from 1";
    "tls_version", Text, |r| r.tls.as_deref().and_then(text), "empty without TLS or if not logged";
    "resumed", Boolean, |r| r.resumed.and_then(boolean), "the TLS session was resumed";
    "early_data", Boolean, |r| r.early_data.and_then(boolean), "the request arrived before the handshake was complete";
    "request_time", Time, |r| logged(r.request_time), "duration, as the server counts it";
    "first_byte", Time, |r| logged(r.first_byte), "until the first byte of the response (Apache)";
    "upstream_connect", Time, |r| logged(r.upstream_connect), "until the upstream was connected (nginx)";
    "upstream_header", Time, |r| logged(r.upstream_header), "until its header was read, connecting included";
    "upstream_response", Time, |r| logged(r.upstream_response), "until its response was read, connecting included";
    "rtt", Time, |r| r.rtt.and_then(time), "smoothed round-trip time of the server's kernel (nginx)";
    "time_step", Time, |r| r.request_time.and_then(|it| time(it.step)),
        "clock step of `request_time`, which is off by less than one step";
}

fn logged<'a>(logged: Option<LoggedTime>) -> Option<ColumnValue<'a>> {
    time(logged?.value)
}

/// Writes `request` as an object and a line end.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn line(request: &LoggedRequest, out: &mut dyn Write) -> io::Result<()> {
    let members = COLUMNS.iter().filter_map(|column| {
        let value = match (column.get)(request)? {
            ColumnValue::Integer(integer) => json!(integer),
            ColumnValue::Number(number) => json!(number),
            ColumnValue::Text(text) => json!(text),
            ColumnValue::Boolean(yes) => json!(yes),
            ColumnValue::Time(ns) => json!(nanoseconds(ns)),
            ColumnValue::Timestamp(ns) => json!(rfc3339_micros(u64::try_from(ns).ok()?)?),
        };
        Some((column.holds.parquet_heading(column.name), value))
    });
    let object: Map<String, Value> = members.collect();
    serde_json::to_writer(&mut *out, &Value::Object(object))?;
    out.write_all(b"\n")
}

/// Writes requests as CSV.
pub struct ServerLogCsv<W: Write> {
    out: W,
    row: Vec<u8>,
}

impl<W: Write> ServerLogCsv<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut row = Vec::new();
        delimited::header(&mut row, COLUMNS.iter().map(|it| it.holds.csv_heading(it.name)));
        out.write_all(&row)?;
        Ok(Self { out, row })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, request: &LoggedRequest) -> io::Result<()> {
        self.row.clear();
        delimited::row(&mut self.row, COLUMNS.iter().map(|column| (column.get)(request)));
        self.out.write_all(&self.row)
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::described::{assert_documented, row};

    #[test]
    fn the_table_in_the_documents_is_this_one() {
        let rows: Vec<String> = COLUMNS
            .iter()
            .map(|column| row(&[format!("`{}`", column.name)], column.holds, column.doc))
            .collect();
        assert_documented("## Requests of server logs", &rows);
    }
}
