//! The columns of an archive's requests. `docs/formats.md`, "Rows of archives", is generated from here.

use firstbyte_sources::har::{HarEntry, HarExchange, HarRules};

use crate::columns::{Column, ColumnType, ColumnValue, integer, text, time, timestamp};

/// A request, and the file it comes from.
pub(super) struct ArchiveRow<'a> {
    pub file: &'a str,
    pub page: Option<&'a str>,
    pub rules: &'a HarRules,
    pub entry: &'a HarEntry,
    pub exchange: &'a HarExchange,
}

/// A column of requests.
pub(super) type ArchiveColumn = Column<for<'a> fn(&'a ArchiveRow<'a>) -> Option<ColumnValue<'a>>>;

macro_rules! columns {
    ($($name:literal, $holds:ident, $get:expr, $doc:literal;)*) => {
        /// All columns, in order. Within a version of the format, new columns are only appended.
        pub(super) const COLUMNS: &[ArchiveColumn] =
            &[$(Column { name: $name, holds: ColumnType::$holds, get: $get, doc: $doc }),*];
    };
}

columns! {
    "file", Text, |r| text(r.file),
        "as given on the command line";
    "entry", Integer, |r| integer(r.entry.number),
        "number in the file, from 1";
    "page", Text, |r| text(r.page?),
        "the page's `id`";
    "started", Timestamp, |r| timestamp(r.entry.started_unix_ns?),
        "`startedDateTime`, if it has an offset from UTC";
    "origin", Text, |r| text(r.entry.authority.as_deref()?),
        "host and port";
    "url", Text, |r| Some(&*r.entry.url).filter(|url| !url.is_empty()).and_then(text),
        "without user, query and fragment";
    "method", Text, |r| text(r.entry.method.as_deref()?),
        "";
    "status", Integer, |r| r.entry.status.filter(|status| *status > 0).and_then(integer),
        "absent without a response";
    "protocol", Text, |r| text(r.entry.protocol.as_deref()?),
        "`http/1.1`, `h2`, `h3`, or as in the file";
    "outcome", Text, |r| text(r.exchange.outcome.name()),
        "`opened`, `reused`, `unsaid`, `cached`, `worker`, `failed`, `untimed`, `local`, `flawed` ([har.md](har.md#what-became-of-a-request))";
    "connection", Text, |r| text(r.entry.connection_name(r.rules)?),
        "identifies the connection within the file, if the creator writes that";
    "server", Text, |r| text(r.entry.server?.to_string()),
        "its address";
    "blocked", Time, |r| time(r.exchange.phases.blocked?),
        "before anything was done for the request";
    "dns", Time, |r| time(r.exchange.phases.dns?),
        "name lookup";
    "connect", Time, |r| time(r.exchange.phases.connect?),
        "TCP alone";
    "tls", Time, |r| time(r.exchange.phases.tls?),
        "over TCP";
    "quic", Time, |r| time(r.exchange.phases.quic?),
        "the handshake";
    "send", Time, |r| time(r.exchange.phases.send?),
        "";
    "wait", Time, |r| time(r.exchange.phases.wait?),
        "end of the request to the response";
    "receive", Time, |r| time(r.exchange.phases.receive?),
        "";
    "resolution", Time, |r| time(r.rules.resolution?),
        "clock step: each time is off by up to half of it";
    "transferred_bytes", Integer, |r| integer(r.entry.transferred_bytes?),
        "`response._transferSize`";
    "body_bytes", Integer, |r| integer(r.entry.body_bytes?),
        "`response.bodySize`";
    "decoded_bytes", Integer, |r| integer(r.entry.decoded_bytes?),
        "`response.content.size`";
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
        assert_documented("### Rows of archives", &rows);
    }
}
