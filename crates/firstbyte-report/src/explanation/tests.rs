use std::collections::BTreeSet;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::split::Split;
use firstbyte_core::stats::{Estimate, Interval};
use firstbyte_core::timeline::{ClientFacts, Sample};
use firstbyte_explain::reconcile::{Witness, reconcile};
use firstbyte_explain::{
    Agreement, BesideTime, Equation, Evidence, MeasuredWay, MeasuredWays, ServerLogWitness, Unlike,
    WayKind, findings,
};
use firstbyte_sources::server_log::LogForm;
use serde_json::Value;

use super::*;
use crate::fixtures;
use crate::style::Style;

fn way(sample: &Sample, first: Option<&Sample>) -> MeasuredWay {
    let connections = (0..20).map(|round| (round, sample.connection.clone()));
    MeasuredWay {
        proven: connections.collect(),
        first: first.map(|first| first.connection.clone()),
        ..MeasuredWay::default()
    }
}

fn beside_time(metric: Metric, ours: f64, other: f64) -> BesideTime {
    let value = (other - ours) * 1e6;
    let interval = Some(Interval { low: value - 0.4e6, high: value + 1.2e6 });
    let difference = Estimate { value, interval, p_value: None };
    BesideTime { metric, rounds: 19, ours: ours * 1e6, other: other * 1e6, difference }
}

fn explanation() -> Explanation {
    let subject = fixtures::tls12_sydney();
    let evidence = Evidence::from_measured(MeasuredWays {
        ways: vec![
            (WayKind::Subject, way(&subject, Some(&fixtures::fallback()))),
            (WayKind::Plain, way(&fixtures::plain_http(), None)),
            (WayKind::Tls13, way(&fixtures::tls13_http2(), None)),
        ],
        redirects: Vec::new(),
    });
    let equation = |split: &Split, first| {
        Equation::from_splits(std::iter::repeat_n(split, 20), first).unwrap()
    };
    let ways = evidence.ways.iter().map(|(kind, way)| WayView {
        kind: *kind,
        equation: equation(&way.middle().unwrap().split, None),
        asked: if *kind == WayKind::Tls13 { 22 } else { 20 },
        proven: 20,
        middle: way.middle().unwrap().clone(),
    });
    let ms = Duration::from_millis;
    Explanation {
        url: subject.connection.url.clone(),
        date: "20 November 2026, 14:05 UTC".into(),
        command: vec!["firstbyte".into(), "explain".into(), subject.connection.url.clone()],
        equation: equation(
            &Split::attribute(&subject.connection),
            Some(&Split::attribute(&fixtures::fallback().connection)),
        ),
        failed: 1,
        ways: ways.collect(),
        left_out: vec![(WayKind::Ipv6, "connect: connection refused".into())],
        redirects: vec![AttributedConnection::alone(fixtures::plain_http().connection)],
        findings: findings(&evidence),
        server: evidence.fit.clone(),
        beside: Some(Beside {
            client: ClientFacts {
                name: "Chromium".into(),
                version: Some("156.0".into()),
                tls_library: None,
            },
            connections: 19,
            asked: 20,
            times: vec![
                beside_time(Metric::Tls, 33.0, 44.5),
                beside_time(Metric::Wait, 30.4, 30.1),
                beside_time(Metric::Total, 95.2, 106.4),
            ],
            unlike: vec![Unlike { what: "HTTP", ours: "2".into(), other: "1.1".into() }],
        }),
        reconciled: vec![
            reconcile(Witness::Log, ms(8), ms(9), None, None),
            reconcile(Witness::ServerTiming(vec!["app".into()]), ms(8), ms(8), None, None),
            reconcile(Witness::Capture, ms(9), ms(2), None, None),
        ],
        warnings: vec![crate::warning::Warning::NoIntervals { rounds: 1, needed: 20 }],
    }
}

#[test]
fn the_text_fits_eighty_columns() {
    let explanation = explanation();
    let style = Style::default();
    let text = text(&explanation, &style);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(text.contains("TLS 2 × 81.1"));
    assert!(text.contains("1. The server chooses TLS 1.2"));
    insta::assert_snapshot!(text);
}

#[test]
fn ascii_and_colours_change_nothing_else() {
    let explanation = explanation();
    let plain = Style { unicode: false, ..Style::default() };
    let ascii = text(&explanation, &plain);
    assert!(ascii.is_ascii());
    let coloured = text(&explanation, &Style { color: true, ..Style::default() });
    let undressed: Vec<String> =
        fixtures::undressed(&coloured).lines().map(|line| line.trim_end().to_owned()).collect();
    let text = text(&explanation, &Style::default());
    assert_eq!(undressed, text.lines().collect::<Vec<_>>());
}

#[test]
fn figures_printed_add_up() {
    let explanation = explanation();
    let scale = crate::units::Scale::for_largest(explanation.equation.total);
    let (rows, scale) = super::text::rows(&explanation.equation, scale);
    let sum: u64 = rows.iter().map(|row| row.steps).sum();
    assert_eq!(sum, scale.steps(explanation.equation.total));
}

#[test]
fn every_field_of_the_json_is_documented() {
    const FORMATS: &str = include_str!("../../../../docs/formats.md");
    let value: Value = serde_json::from_str(&json(&explanation())).unwrap();
    assert_eq!((&value["format"], &value["version"]), (&"firstbyte/explanation".into(), &2.into()));
    let mut names = BTreeSet::new();
    let mut open = vec![&value];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    names.insert(name.clone());
                    // Connections are described together with samples.
                    if name != "connection" && name != "redirects" {
                        open.push(value);
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        assert!(FORMATS.contains(&format!("`{name}`")), "{name} is not described");
    }
}

#[test]
fn the_page_loads_and_runs_nothing() {
    let mut explanation = explanation();
    explanation.url = "https://<script>alert(1)</script>/".into();
    let page = page(&explanation);
    assert!(page.contains("script-src 'none'") && page.contains("default-src 'none'"));
    assert!(!page.contains("<script"));
    assert!(page.contains("All variants"));
    assert_eq!(page.matches("<section").count(), page.matches("</section>").count());
}

/// One line is half a round trip: three columns with as many lines as half round trips.
#[test]
fn the_whiteboard_is_drawn_to_scale() {
    let explanation = explanation();
    let board = super::whiteboard::whiteboard(&explanation, &Style::default());
    let find = |words: &str| board.iter().position(|line| line.contains(words)).unwrap();
    // TCP, two round trips of TLS, and the request: four round trips of two lines each.
    assert_eq!(find("ClientHello") - find("SYN ─"), 2);
    assert!(board.last().unwrap().contains("81.1 ms"), "{board:?}");
    for line in &board {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let mut without_tls = explanation;
    without_tls.ways[0].middle = AttributedConnection::alone(fixtures::plain_http().connection);
    assert_eq!(super::whiteboard::whiteboard(&without_tls, &Style::default()), [""; 0]);
}

#[test]
fn an_access_log_says_what_lies_outside_of_what_it_counts() {
    let ms = Duration::from_millis;
    let log = ServerLogWitness {
        form: LogForm::Nginx,
        found: 19,
        of: 20,
        to_first_byte: false,
        difference: None,
        step: ms(1),
        upstream: [None, Some(ms(18)), None],
        body_bytes: None,
        resumed: Agreement { compared: 40, agree: 40, logged_yes: 20 },
        early_data: Agreement::default(),
        clock_ahead_ns: None,
    };
    let mut explanation = explanation();
    let said = |said, explanation: &mut Explanation| {
        let witness = Witness::ServerLog(Box::new(log.clone()));
        explanation.reconciled = vec![reconcile(witness, ms(said), ms(42), None, Some(ms(1)))];
        text(explanation, &Style::default()).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let less = said(20, &mut explanation);
    for words in [
        "the access log (nginx, 19 of 20 requests found) says 20.0 ms",
        "22.0 ms lie outside the span that nginx counts",
        "of that, the upstream: header after 18.0 ms",
        "logged as resumed: 40 of 40 agree with the client, 20 yes",
    ] {
        assert!(less.contains(words), "{words}: {less}");
    }
    assert!(!less.contains("early data: 0"), "{less}");
    let more = said(60, &mut explanation);
    assert!(more.contains("nginx counts until the last byte is in its kernel: 18.0 ms"), "{more}");
    assert!(said(42, &mut explanation).contains("they agree"));
    let value: Value = serde_json::from_str(&json(&explanation)).unwrap();
    assert_eq!(value["server"][0]["log"]["upstream_header_ns"], 18_000_000);
}
