use std::collections::BTreeSet;
use std::time::Duration;

use firstbyte_sources::netlog::net_export::NetExportReader;
use firstbyte_sources::netlog::{NetLogFindingKind, NetLogReduction, NetLogRequest, NetLogSummary};
use serde_json::Value;

use super::*;
use crate::style::Style;

const LOGS: [&[u8]; 5] = [
    include_bytes!("../../../firstbyte-sources/fixtures/netlog/mixed.json"),
    include_bytes!("../../../firstbyte-sources/fixtures/netlog/quic-refused.json"),
    include_bytes!("../../../firstbyte-sources/fixtures/netlog/pool-stall.json"),
    include_bytes!("../../../firstbyte-sources/fixtures/netlog/http3.json"),
    include_bytes!("../../../firstbyte-sources/fixtures/netlog/proxy.json"),
];

fn requests(log: &[u8]) -> Vec<NetLogRequest> {
    let mut reader = NetExportReader::only(NetLogReduction::wants);
    let (mut reduction, mut requests) = (NetLogReduction::default(), Vec::new());
    let mut events = Vec::new();
    reader.feed(log, |event| events.push(event)).unwrap();
    for event in &events {
        reduction.push(event, &reader, &mut |request| requests.push(request));
    }
    reduction.finish(&reader, &mut |request| requests.push(request));
    requests
}

fn shown(log: &[u8], keep: usize, hosts: usize, style: &Style) -> String {
    let mut summary = NetLogSummary::keeping(keep);
    requests(log).into_iter().for_each(|request| summary.add(request));
    let report = NetLogReport {
        name: "netlog.json",
        client: Some(("Chromium", "156.0.8078.79")),
        span: Some(Duration::from_millis(3_140)),
        summary: &summary,
        hosts,
    };
    text(&report, style)
}

#[test]
fn a_page_that_asks_eight_hosts() {
    insta::assert_snapshot!(shown(LOGS[0], 5, 6, &Style::default()));
}

#[test]
fn quic_that_is_refused() {
    insta::assert_snapshot!(shown(LOGS[1], 5, 20, &Style::default()));
}

#[test]
fn every_line_fits_and_ends() {
    for log in LOGS {
        for (width, unicode) in [(60, false), (80, true), (200, true)] {
            let style = Style { color: false, width, unicode };
            let text = shown(log, 100, 3, &style);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            assert!(unicode || text.is_ascii(), "{text}");
        }
    }
}

#[test]
fn a_log_without_requests_says_so() {
    let text = shown(b"{\"constants\":{},\"events\":[]}", 5, 5, &Style::default());
    assert!(text.contains("0 requests to 0 hosts"), "{text}");
}

/// A name in the log cannot send control characters to the terminal.
#[test]
fn a_host_cannot_write_to_the_terminal() {
    let mut summary = NetLogSummary::keeping(5);
    let hostile = "a\u{1b}[2J.test".to_owned();
    summary.add(NetLogRequest {
        url: format!("https://{hostile}/"),
        host: hostile,
        stream: Some(Duration::ZERO),
        error: Some("ERR_\u{7}".into()),
        ..NetLogRequest::default()
    });
    let report = NetLogReport { name: "n", client: None, span: None, summary: &summary, hosts: 5 };
    let text = text(&report, &Style::default());
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

const FORMATS: &str = include_str!("../../../../docs/formats.md");

fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| {
            into.insert(key.clone());
            keys(value, into);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        _ => {}
    }
}

#[test]
fn every_field_is_described() {
    let (_, section) = FORMATS.split_once("## Requests of network logs").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut all = BTreeSet::new();
    for request in LOGS.into_iter().flat_map(requests) {
        let mut bytes = Vec::new();
        line(&request, &mut bytes).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'));
        keys(&serde_json::from_slice(&bytes).unwrap(), &mut all);
    }
    assert!(all.len() > 45, "{all:?}");
    for key in all {
        assert!(section.contains(&format!("`{key}`")), "{key} is not described");
    }
}

#[test]
fn every_finding_has_its_rule() {
    let document = include_str!("../../../../docs/netlog.md");
    for kind in NetLogFindingKind::ALL {
        assert!(document.contains(&format!("\n| `{}` | ", kind.name())), "{}", kind.name());
    }
}
