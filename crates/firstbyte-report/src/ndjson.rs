//! `--json`: one JSON object per line and sample, as described in `docs/formats.md`.

use std::io::{self, Write};

use firstbyte_core::document::{ConnectionRecord, SampleRecord};
use firstbyte_core::run::{Cell, Taken};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::Sample;

use firstbyte_core::shown_url::{shown_url, shown_urls_within};

use crate::advice;

/// Writes `sample` as one line.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn sample(sample: &Sample, out: &mut dyn Write) -> io::Result<()> {
    line(SampleRecord::from_sample(&advice::on_sample(sample)), out)
}

/// Writes `taken`, a visit to `cell`, as one line.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn taken(cell: &Cell, taken: &Taken, out: &mut dyn Write) -> io::Result<()> {
    line(SampleRecord::from_taken(&advice::on_taken(taken), cell), out)
}

/// The stored form of `connection`, for a document that is displayed.
pub(super) fn shown_connection(attributed: &AttributedConnection) -> ConnectionRecord {
    let AttributedConnection { connection, split, .. } = attributed;
    ConnectionRecord {
        url: shown_url(&connection.url),
        ..ConnectionRecord::with_split(&advice::on_connection(connection), split)
    }
}

fn line(mut record: SampleRecord, out: &mut dyn Write) -> io::Result<()> {
    record.requested_url = shown_url(&record.requested_url);
    for connection in record.redirects.iter_mut().chain([&mut record.connection]) {
        connection.url = shown_url(&connection.url);
    }
    for value in record.of_run.iter_mut().flat_map(|of_run| of_run.factors.values_mut()) {
        *value = shown_urls_within(value);
    }
    serde_json::to_writer(&mut *out, &record)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_sample_is_a_line_that_says_what_it_is() {
        for fixture in fixtures::all() {
            let mut out = Vec::new();
            sample(&fixture, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.lines().count(), 1);
            assert!(text.starts_with(r#"{"format":"firstbyte/sample","version":1,"sequence":0,"#));
            let back: SampleRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(back.connection.url, shown_url(&fixture.connection.url));
        }
    }

    #[test]
    fn tls13_with_http2() {
        let value =
            serde_json::to_string_pretty(&SampleRecord::from_sample(&fixtures::tls13_http2()));
        let text = value.unwrap();
        assert!(text.contains("\"certificate_chain_bytes\": 3815"));
        assert!(text.contains("\"rtt_ns\": 10240000"));
        insta::assert_snapshot!(text);
    }
}
