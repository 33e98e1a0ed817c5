//! Converts between a sample and its line in a run file.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use serde::Deserialize;

use super::quick::{self, Otherwise, SampleDetail};
use super::row;
use crate::document::FailureRecord;
use crate::document::interned::{FactTable, Interner};
use crate::document::seal;
use crate::document::stored::StoredSample;
use crate::run::{Metric, Row, Standing, Taken};
use crate::timeline::Sample;

/// Why a line cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError(String);

impl LineError {
    pub(super) fn from_json_error(error: &serde_json::Error) -> Self {
        Self(error.to_string())
    }

    pub(super) fn unknown(what: &str, value: &str) -> Self {
        Self(format!("unknown {what} {value:?}; a later version of firstbyte may have written it"))
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LineError {}

/// Appends the line of `taken`, a visit to the cell with the URL `url`, to `out`, with its line ending.
///
/// Facts that it refers to and that were not stored before precede it as lines of their own.
///
/// # Errors
/// Cannot occur: the model has a stored form for everything.
pub fn sample_line(
    taken: &Taken,
    url: &str,
    interner: &mut Interner,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let mut stored = StoredSample::from_sample(&taken.sample, url, interner);
    // The row before it has this value.
    stored.connection.started_unix_ns = None;
    interner.fresh().iter().for_each(|line| out.extend_from_slice(line.as_bytes()));
    let row = taken.row();
    let begin = out.len();
    write!(out, r#"{{"variant":{},"round":{},"warmup":{}"#, row.cell, row.round, row.warmup)?;
    match row.standing {
        Standing::Proven => write!(out, r#","outcome":"verified""#)?,
        Standing::Failed => write!(out, r#","outcome":"failed""#)?,
        Standing::Unproven(shortfall) => {
            write!(out, r#","outcome":"unverified","shortfall":"{}""#, shortfall.name())?;
        }
    }
    match taken.sample.connection.started_unix_ns {
        Some(ns) => write!(out, r#","started_unix_ns":{ns}"#)?,
        None => write!(out, r#","started_unix_ns":null"#)?,
    }
    write!(out, r#","lateness_ns":{}"#, row.lateness_ns)?;
    if let Some(ns) = row.stands_for_ns {
        write!(out, r#","stands_for_ns":{ns}"#)?;
    }
    if row.metrics.resolution_ns > 0 {
        write!(out, r#","resolution_ns":{}"#, row.metrics.resolution_ns)?;
    }
    if let Some(status) = row.answer.status() {
        write!(out, r#","status":{status}"#)?;
    }
    if let Some(bytes) = row.answer.body_bytes() {
        write!(out, r#","body_bytes":{bytes}"#)?;
    }
    out.extend_from_slice(br#","metrics_ns":{"#);
    let mut first = true;
    for metric in Metric::ALL {
        if let Some(ns) = row.metric(metric) {
            let comma = if first { "" } else { "," };
            write!(out, r#"{comma}"{}":{ns}"#, metric.name())?;
            first = false;
        }
    }
    out.extend_from_slice(br#"},"sample":"#);
    serde_json::to_writer(&mut *out, &stored)?;
    out.push(b'}');
    seal(out, begin);
    out.push(b'\n');
    Ok(())
}

/// Parses the whole sample in `line`; `urls` are those of the cells.
///
/// # Errors
/// The line is not a sample, or refers to something that does not exist.
pub fn taken(line: &[u8], urls: &[String], facts: &FactTable) -> Result<Taken, LineError> {
    taken_in_detail(line, urls, facts, SampleDetail::Whole)
}

/// Like [`taken`], with the given amount of `detail`.
///
/// # Errors
/// Those of [`taken`].
pub fn taken_in_detail(
    line: &[u8],
    urls: &[String],
    facts: &FactTable,
    detail: SampleDetail,
) -> Result<Taken, LineError> {
    let (row, behind) = match row::quick(line) {
        Some((row, behind)) => (row, Some(behind.len())),
        None => (row::row(line)?, None),
    };
    // Validate once as a whole, not string by string.
    let text = std::str::from_utf8(line).map_err(|error| LineError(error.to_string()))?;
    let url = urls.get(usize::from(row.cell)).map_or("", String::as_str);
    let rest = behind.and_then(|length| text.get(text.len() - length..));
    let sample = match rest.map(|rest| quick::sample(rest, &row, url, facts, detail)) {
        Some(Ok(sample)) => sample,
        None | Some(Err(Otherwise)) => slow(text, &row, url, facts)?,
    };
    let lateness = Duration::from_nanos(row.lateness_ns);
    let stands_for = row.stands_for_ns.map(Duration::from_nanos);
    Ok(Taken { cell: row.cell, standing: row.standing, lateness, stands_for, sample })
}

fn slow(text: &str, row: &Row, url: &str, facts: &FactTable) -> Result<Sample, LineError> {
    #[derive(Deserialize)]
    struct Whole {
        started_unix_ns: Option<u64>,
        sample: StoredSample,
    }
    let mut whole: Whole =
        serde_json::from_str(text).map_err(|e| LineError::from_json_error(&e))?;
    whole.sample.connection.started_unix_ns = whole.started_unix_ns;
    let sample = whole.sample.sample(url, row.round, row.warmup, facts);
    sample.map_err(|missing| LineError(missing.to_string()))
}

/// Why the sample in `line` failed, "connect: connection refused by …"; `None` if it did not fail or cannot be parsed.
pub fn failure(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Line {
        sample: OfSample,
    }
    #[derive(Deserialize)]
    struct OfSample {
        connection: OfConnection,
    }
    #[derive(Deserialize)]
    struct OfConnection {
        failure: Option<FailureRecord>,
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    let failure = line.sample.connection.failure?;
    Some(format!("{}: {}", failure.phase, failure.message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::run::{LineKind, kind};
    use crate::document::stored::tests::any_taken;
    use crate::timeline::{Certificate, Facts};

    /// A sample with nearly all optional parts, preceded by lines of facts.
    const LINES: &[&str] = &[
        r#"{"fact":0,"kind":"messages","value":["ClientHello"]}"#,
        r#"{"fact":1,"kind":"tls","value":{"version":"TLSv1.3","handshake":"full"}}"#,
        r#"{"fact":2,"kind":"header","value":["server","nginx"]}"#,
        r#"{"fact":3,"kind":"client","value":{"name":"curl","version":"8"}}"#,
        r#"{"fact":4,"kind":"proxy","value":{"kind":"http","authority":"p:1","tunnel":true,"status":200}}"#,
        concat!(
            r#"{"variant":0,"round":7,"warmup":false,"outcome":"verified","started_unix_ns":1795183509123456000,"#,
            r#""lateness_ns":12,"status":200,"body_bytes":4,"metrics_ns":{"connect":8,"total":9},"#,
            r#""sample":{"requested_url":"https://a/é","#,
            r#""connection":{"url":"https://b/","marks":{"connect_start":[-5,"u"],"response_end":[70,"r100"]},"#,
            r#""lookups":[{"record_type":"AAAA","start_ns":1,"end_ns":2,"addresses":["192.0.2.1","::1"],"#,
            r#""tries":[{"server":"192.0.2.53:53","transport":"udp","start_ns":1,"error":"no answer"},"#,
            r#"{"server":"[::1]:53","transport":"tcp","start_ns":1,"end_ns":2}]}],"#,
            r#""attempts":[{"remote":"[::1]:443","start_ns":3,"end_ns":4,"outcome":"failed","error":"no"},"#,
            r#"{"remote":"192.0.2.1:443","start_ns":3,"outcome":"won"}],"#,
            r#""flights":[{"direction":"sent","chunks":[[5,"k",517,8]],"messages":0},"#,
            r#"{"direction":"received","chunks":[[9,"k",2896,null],[11,"d",100,null]],"segments":[2,null],"#,
            r#""messages":["ServerHello","{Finished}"]}],"#,
            r#""client":3,"remote":"192.0.2.1:443","local":"192.0.2.2:5","reused":true,"proxy":4,"#,
            r#""tcp":{"syn_rtt_ns":6,"retransmits":0,"congestion_control":"cubic"},"#,
            r#""quic":{"version":"1","min_rtt_ns":7,"datagrams_sent":1,"datagrams_received":2,"retry":true,"#,
            r#""datagrams":[{"sent":true,"at_ns":5,"new":true,"acknowledged_ns":9},{"sent":false,"at_ns":8,"skipped":1}]},"#,
            r#""tls":1,"http":{"method":"GET","version":"2","status":200,"headers":[2,["date","today"]],"#,
            r#""request_bytes":3,"body_bytes":4,"may_be_cut_short":true}},"redirects":[{"remote":"[::1]:1"}]}}"#,
        ),
    ];

    fn by_both_ways(line: &[u8], facts: &FactTable) -> Option<[Result<Sample, LineError>; 2]> {
        let (row, behind) = row::quick(line)?;
        let text = std::str::from_utf8(line).ok()?;
        let rest = text.get(text.len() - behind.len()..)?;
        let quick = quick::sample(rest, &row, "https://c/", facts, SampleDetail::Whole).ok()?;
        Some([Ok(quick), slow(text, &row, "https://c/", facts)])
    }

    #[test]
    fn most_samples_are_read_the_fast_way() {
        let mut facts = FactTable::default();
        let (sample, of_facts) = LINES.split_last().unwrap();
        of_facts.iter().for_each(|line| facts.take(line.as_bytes()).unwrap());
        let [quick, slow] = by_both_ways(sample.as_bytes(), &facts).unwrap();
        let sample = quick.clone().unwrap();
        assert_eq!(quick, slow);
        assert_eq!(sample.connection.facts.http.unwrap().headers.len(), 2);
        assert_eq!(sample.connection.flights[1].chunks[0].segments, Some(2));
        assert_eq!(sample.connection.facts.quic.unwrap().datagrams.len(), 2);
        assert_eq!(sample.connection.facts.proxy.unwrap().status, Some(200));
        assert_eq!(sample.redirects.len(), 1);
    }

    #[test]
    fn what_no_column_is_made_of_can_be_left_out() {
        let mut facts = FactTable::default();
        let (sample, of_facts) = LINES.split_last().unwrap();
        let certificates = r#"[{"subject":"a","issuer":"b","key":"RSA","der_bytes":700}]"#;
        for line in of_facts {
            let line = line.replace("full\"", &format!("full\",\"certificates\":{certificates}"));
            facts.take(line.as_bytes()).unwrap();
        }
        let urls = ["https://c/".to_owned()];
        let mut whole = taken(sample.as_bytes(), &urls, &facts).unwrap();
        let columns =
            taken_in_detail(sample.as_bytes(), &urls, &facts, SampleDetail::Columns).unwrap();
        assert_ne!(columns, whole);
        let Facts { tls, http, .. } = &mut whole.sample.connection.facts;
        http.as_mut().unwrap().headers.clear();
        for certificate in &mut tls.as_mut().unwrap().certificates {
            let der_bytes = certificate.der_bytes;
            *certificate = Certificate { der_bytes, ..Certificate::default() };
        }
        assert_eq!(columns, whole);
        assert_eq!(
            columns.sample.connection.facts.tls.unwrap().certificate_chain_bytes(),
            Some(700)
        );
    }

    /// Each byte of the line in turn is replaced, removed or doubled.
    #[test]
    fn what_is_damaged_is_read_as_the_slow_way_reads_it() {
        let mut facts = FactTable::default();
        let (sample, of_facts) = LINES.split_last().unwrap();
        of_facts.iter().for_each(|line| facts.take(line.as_bytes()).unwrap());
        for at in 0..sample.len() {
            for byte in *b"0-9\"{}[],:\\ ae\n" {
                for (removed, added) in [(1, 1), (1, 0), (0, 1)] {
                    let mut line = sample.as_bytes().to_vec();
                    line.splice(at..at + removed, std::iter::repeat_n(byte, added));
                    if let Some([quick, slow]) = by_both_ways(&line, &facts) {
                        assert_eq!(quick, slow, "{}", String::from_utf8_lossy(&line));
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_has_status_and_size_and_does_without_them() {
        let line = LINES.last().unwrap().as_bytes();
        let (quick, _) = row::quick(line).unwrap();
        assert_eq!((quick.answer.status(), quick.answer.body_bytes()), (Some(200), Some(4)));
        // As another program writes it, and as earlier versions wrote it.
        let spaced = LINES.last().unwrap().replacen("\"round\":", "\"round\": ", 1);
        assert_eq!(row::row(spaced.as_bytes()).unwrap(), quick);
        let earlier = LINES.last().unwrap().replacen("\"status\":200,\"body_bytes\":4,", "", 1);
        let (earlier, _) = row::quick(earlier.as_bytes()).unwrap();
        assert_eq!((earlier.answer.status(), earlier.answer.body_bytes()), (None, None));
        assert_eq!(earlier.metrics, quick.metrics);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn both_ways_say_the_same(taken in any_taken()) {
            let (mut interner, mut out) = (Interner::default(), Vec::new());
            sample_line(&taken, "https://c/", &mut interner, &mut out).unwrap();
            let mut facts = FactTable::default();
            for line in out.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
                match kind(line) {
                    LineKind::Fact => facts.take(line).unwrap(),
                    _ => if let Some([quick, slow]) = by_both_ways(line, &facts) {
                        prop_assert_eq!(quick, slow);
                    }
                }
            }
        }
    }
}
