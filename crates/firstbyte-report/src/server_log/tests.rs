//! Views of a small log with fixed figures.

use std::collections::BTreeMap;

use firstbyte_sources::server_log::{LoggedRequest, ServerLogReader};

use super::text::summed;
use super::*;
use crate::style::Style;

/// Forty requests on ten connections, logged by nginx.
fn log() -> Vec<LoggedRequest> {
    let mut text = String::new();
    for n in 0..40_u64 {
        let (connection, number) = (n / 4, n % 4 + 1);
        let resumed = if connection % 2 == 0 { "." } else { "r" };
        let early = if number == 1 && connection % 2 == 1 { "01" } else { "0" };
        let (path, time) = if n % 10 == 0 { ("/search", 240 + n) } else { ("/", 20 + n % 4) };
        text += &format!(
            "{{\"firstbyte\":\"nginx 1\",\"time\":\"{}.5\",\"host\":\"www.example.com\",\"port\":\"443\",\
             \"protocol\":\"HTTP/2.0\",\"method\":\"GET\",\"path\":\"{path}\",\"status\":\"200\",\
             \"bytes\":\"5000\",\"client_port\":\"{}\",\"connection\":\"{connection}\",\
             \"request\":\"{number}\",\"tls\":\"TLSv1.3\",\"resumed\":\"{resumed}\",\
             \"early_data\":\"{early}\",\"request_time\":\"{}.{:03}\",\
             \"upstream_connect_time\":\"0.000\",\"upstream_header_time\":\"0.{:03}\",\
             \"upstream_response_time\":\"0.{:03}\",\"rtt\":\"{}\"}}\n",
            1_795_443_500 + n,
            50_000 + connection,
            time / 1000,
            time % 1000,
            time - 2,
            time - 1,
            30_000 + n
        );
    }
    let mut requests = Vec::new();
    ServerLogReader::default().feed(text.as_bytes(), |_, line| requests.extend(line));
    assert_eq!(requests.len(), 40);
    requests
}

fn shown(requests: &[LoggedRequest], style: &Style) -> String {
    let skipped = BTreeMap::from([("not JSON, or cut short".to_owned(), (17, 2))]);
    text(
        &ServerLogReport {
            name: "access.log",
            summary: &summed(requests),
            skipped: &skipped,
            groups: 20,
            paths: 10,
        },
        style,
    )
}

/// `text` on one line, without line breaks.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_log_of_nginx() {
    let style = Style { width: 80, color: false, unicode: true };
    let shown = shown(&log(), &style);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for said in [
        "40 requests to 1 host · 10 connections",
        "50.0 % of 10 TLS connections resumed",
        "12.5 % of 40 requests as early data",
    ] {
        assert!(words(&shown).contains(said), "{said}: {shown}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn hostile_names_move_no_cursor() {
    let mut requests = log();
    requests[0].path = Some("/\u{1b}[2J\u{202e}x".repeat(30));
    requests[1].host = Some("\u{1b}]0;title\u{7}.test".into());
    let shown = shown(&requests, &Style { width: 60, color: false, unicode: false });
    assert!(shown.is_ascii() && !shown.contains('\u{1b}'), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
}

#[test]
fn rows_have_what_is_known() {
    let requests = log();
    let mut json = Vec::new();
    line(&requests[4], &mut json).unwrap();
    let row: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&row["request_time_ns"], &row["time_step_ns"]),
        (&20_000_000.into(), &1_000_000.into())
    );
    assert_eq!(
        (&row["early_data"], &row["resumed"], &row["number"]),
        (&true.into(), &true.into(), &1.into())
    );
    assert_eq!(row["logged"], "2026-11-23T14:18:24.500000Z");
    assert!(row.get("first_byte_ns").is_none());
    let mut csv = Vec::new();
    let mut rows = ServerLogCsv::new(&mut csv).unwrap();
    rows.row(&requests[4]).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.starts_with("form,logged,host,"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().contains(",true,true,20000"), "{csv}");
}
