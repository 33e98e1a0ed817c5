//! Requests as CSV, one per row, times in microseconds. An unknown value is an empty field.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use firstbyte_sources::netlog::{
    AttemptEnd, NetLogConnection, NetLogRequest, NetLogTransport, SocketOrigin,
};

use super::json::{end, limit};
use crate::columns::delimited;
use crate::columns::{Column, ColumnType, ColumnValue, boolean, integer, text, time};

/// A column of requests.
type NetLogColumn = Column<for<'a> fn(&'a NetLogRequest) -> Option<ColumnValue<'a>>>;

macro_rules! columns {
    ($($name:literal, $holds:ident, $get:expr, $doc:literal;)*) => {
        /// All columns, in order. Within a version of the format, new columns are only appended.
        const COLUMNS: &[NetLogColumn] =
            &[$(Column { name: $name, holds: ColumnType::$holds, get: $get, doc: $doc }),*];
    };
}

columns! {
    "url", Text, |r| text(&*r.url), "scheme, host and path";
    "host", Text, |r| text(&*r.host), "with the port, unless it is the default";
    "method", Text, |r| known_text(&r.method), "";
    "began", Time, |r| time(r.began), "since the log's first event";
    "total", Time, |r| r.total.and_then(time), "duration; empty if the log ends earlier";
    "status", Integer, |r| r.status.and_then(integer), "";
    "error", Text, |r| known_text(&r.error), "Chromium's name: `ERR_CONNECTION_REFUSED`";
    "stream", Time, |r| r.stream.and_then(time),
        "wait for a connection; empty if none was needed";
    "send", Time, |r| r.send.and_then(time), "";
    "wait", Time, |r| r.wait.and_then(time), "end of the request to the response's header";
    "receive", Time, |r| r.receive.and_then(time), "reading the body";
    "jobs", Text, |r| joined(r.jobs.iter().map(|job| job.name.clone())),
        "those that tried to get a connection, joined by `+`: `main`, `alternative`, `dns_alpn_h3`";
    "winner", Text, |r| r.winner().and_then(|job| text(&*job.name)), "the job that got one";
    "alternative", Text, |r| r.alternative.as_ref().and_then(|it| text(&*it.service)),
        "announced by the origin (Alt-Svc): `quic example.com:443`";
    "alternative_broken", Boolean, |r| r.alternative.as_ref().and_then(|it| boolean(it.broken)),
        "not tried, because it failed before";
    "proxy", Text, |r| known_text(&r.proxy), "";
    "tunnel", Time, |r| r.tunnel.and_then(time), "the proxy's CONNECT";
    "lookup", Time, |r| r.lookup.as_ref().and_then(|it| it.took).and_then(time),
        "the longest name lookup it waited for";
    "lookup_sources", Text,
        |r| joined(r.lookup.iter().flat_map(|it| &it.sources).map(|it| it.name().to_owned())),
        "joined by `+`: `cache`, `hosts`, `system`, `dns`, `doh`";
    "lookup_error", Text, |r| r.lookup.as_ref().and_then(|it| known_text(&it.error)), "";
    "attempts", Text, |r| joined(r.attempts.iter().map(|attempt| match end(attempt) {
            (end, None) => format!("{}={end}", attempt.address),
            (end, Some(error)) => format!("{}={end}:{error}", attempt.address),
        })),
        "addresses tried over TCP, joined by `+`: `192.0.2.1:443=connected`, `…=failed:ERR_TIMED_OUT`, `…=given-up`";
    "connect", Time, connect, "the successful attempt";
    "stall", Time, |r| r.stall.as_ref().and_then(|it| it.took).and_then(time),
        "wait for the full socket pool";
    "stall_limit", Text, |r| r.stall.as_ref().and_then(|it| text(limit(it.limit))),
        "`host`, `pool`";
    "origin", Text, |r| r.origin.map(SocketOrigin::name).and_then(text),
        "of the connection: `new`, `in-advance`, `reused`, `shared`, `coalesced`";
    "connection", Integer, |r| over(r).and_then(|it| integer(it.number)),
        "its number in the log";
    "transport", Text, |r| over(r).map(|it| it.transport.name()).and_then(text), "`tcp`, `quic`";
    "remote", Text, |r| over(r).and_then(|it| known_text(&it.remote)), "";
    "handshake", Time, |r| over(r).and_then(|it| it.handshake).and_then(time),
        "TLS or QUIC, whichever request waited for it";
    "tls_version", Text, |r| over(r).and_then(|it| known_text(&it.tls_version)), "";
    "cipher_suite", Text, |r| over(r).and_then(|it| known_text(&it.cipher_suite)), "";
    "group", Text, |r| over(r).and_then(|it| known_text(&it.group)), "";
    "alpn", Text, |r| over(r).and_then(|it| known_text(&it.alpn)), "";
    "resumed", Boolean, |r| over(r).and_then(|it| it.resumed).and_then(boolean),
        "over QUIC known only with 0-RTT";
    "early_data_accepted", Boolean, |r| over(r).and_then(|it| it.early_data).and_then(boolean),
        "empty if none was sent";
    "hello_retry", Time, |r| over(r).and_then(|it| it.hello_retry).and_then(time),
        "round trip of a HelloRetryRequest";
    "encrypted_hello", Boolean, |r| over(r).and_then(|it| it.encrypted_hello).and_then(boolean),
        "ECH was accepted";
    "quic_version", Text, |r| over(r).and_then(|it| known_text(&it.quic_version)), "`RFCv1`";
    "lost_packets", Integer,
        |r| over(r).filter(|it| it.transport == NetLogTransport::Quic).and_then(|it| integer(it.lost_packets)),
        "QUIC packets declared lost";
    "restarts", Text, |r| joined(r.restarts.iter().cloned()),
        "errors after which it was sent again, joined by `+`";
    "findings", Text, |r| joined(r.findings.iter().map(|it| it.kind.name().to_owned())),
        "joined by `+`; see [netlog.md](netlog.md#findings)";
    "cost", Time, |r| Some(r.cost()).filter(|cost| *cost > Duration::ZERO).and_then(time),
        "of all findings";
}

fn known_text(text: &Option<String>) -> Option<ColumnValue<'_>> {
    Some(ColumnValue::Text(Cow::Borrowed(text.as_deref()?)))
}

fn over(request: &NetLogRequest) -> Option<&NetLogConnection> {
    request.connection.as_ref()
}

fn joined<'a>(items: impl Iterator<Item = String>) -> Option<ColumnValue<'a>> {
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then(|| ColumnValue::Text(items.join("+").into()))
}

fn connect(request: &NetLogRequest) -> Option<ColumnValue<'_>> {
    let mut attempts = request.attempts.iter();
    attempts.find(|attempt| attempt.end == AttemptEnd::Connected)?.took.and_then(time)
}

/// Writes requests as CSV.
pub struct NetLogCsv<W: Write> {
    out: W,
    row: Vec<u8>,
}

impl<W: Write> NetLogCsv<W> {
    /// Creates a writer and writes the header.
    ///
    /// # Errors
    /// Returns errors from writing to `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        let mut row = Vec::new();
        let names = COLUMNS.iter().map(|column| column.holds.csv_heading(column.name));
        delimited::header(&mut row, names);
        out.write_all(&row)?;
        Ok(Self { out, row })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, request: &NetLogRequest) -> io::Result<()> {
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
        assert_documented("### Rows of network logs", &rows);
    }
}
