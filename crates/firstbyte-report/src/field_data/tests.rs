//! Views of field data, with the key numbers asserted.

use firstbyte_sources::field_data::{
    FieldLine, FieldLines, FieldSummary, parse_beacon, parse_reports,
};

use super::*;

const NOW: u64 = 1_795_417_000;

/// Beacons of a shop's pages: from two networks, with entries of the other classes, too.
fn beacons() -> Vec<FieldLine> {
    let beacon = |n: u64| {
        let fast = !n.is_multiple_of(3);
        let far = if fast { 18.0 } else { 90.0 } + (n % 7) as f64 / 10.0;
        let times = |lookup: f64, connect: f64, tls: f64, wait: f64| {
            let fetch = 1.0;
            let start = fetch + 0.4;
            let steps = [
                0.0,
                0.0,
                fetch,
                start,
                start + lookup,
                start + lookup,
                start + lookup + connect,
                start + lookup + connect + tls,
                start + lookup + connect + tls,
                0.0,
                start + lookup + connect + tls + wait,
                start + lookup + connect + tls + wait,
                start + lookup + connect + tls + wait + 3.0,
            ];
            steps.map(|ms| format!("{:.1}", ms)).join(",")
        };
        let own = times(if fast { 0.0 } else { 12.0 }, far, far + 2.0, far + 25.0);
        let other = times(4.0, 0.0, far + 3.0, far + 1.0);
        let kept = "2,0,2,2,2,2,2,2,2,0,30,30,31";
        let hidden = "2,0,2,0,0,0,0,0,0,0,0,0,31";
        let navigation = match n {
            1..3 => "back_forward",
            3 => "prerender",
            _ => "navigate",
        };
        let text = format!(
            r#"{{"v":1,"page":"https://shop.example","part":0.1,"step":{},"left":0,"entries":[
            ["{navigation}","","h2","",5,{own}],["","","h2","",4,{kept}],["","","h2","cache",2,{kept}],
            ["","https://media.cdn-with-a-long-name.example:8443","h3","",4,{other}],
            ["","https://ads.example","","",0,{hidden}],["","https://ads.example","","",0,{hidden}]]}}"#,
            if n.is_multiple_of(4) { 1.0 } else { 0.1 }
        );
        FieldLine::Beacon(parse_beacon(text.as_bytes(), NOW + n * 60).unwrap())
    };
    (0..60).map(beacon).collect()
}

fn reports() -> Vec<FieldLine> {
    let report = |kind: &str, phase: &str, fraction: f64| {
        format!(
            r#"{{"type":"network-error","url":"https://shop.example/","body":{{
            "sampling_fraction":{fraction},"elapsed_time":9,"phase":"{phase}","type":"{kind}"}}}}"#
        )
    };
    let mut all = vec![report("dns.address_changed", "dns", 0.5)];
    all.extend((0..5).map(|_| report("tcp.timed_out", "connection", 0.5)));
    all.extend((0..2).map(|_| report("tls.cert.date_invalid", "connection", 1.0)));
    all.extend((0..100).map(|_| report("ok", "application", 0.05)));
    let text = format!("[{}]", all.join(","));
    let kept = parse_reports(text.as_bytes(), NOW).unwrap().kept;
    kept.into_iter().map(FieldLine::Report).collect()
}

fn summary(lines: impl IntoIterator<Item = FieldLine>) -> FieldSummary {
    let mut all = FieldLines::default();
    lines.into_iter().for_each(|line| all.add(&line));
    all.into_summary()
}

fn everything() -> FieldSummary {
    let refused = [("too-large".to_owned(), 3), ("too-many-in-all".to_owned(), 1_204)];
    let refused = FieldLine::Refused(refused.into());
    summary(beacons().into_iter().chain(reports()).chain([refused]))
}

#[test]
fn everything_is_shown_within_eighty_columns() {
    let text = field_data(&everything(), &Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.starts_with("Field data: 60 page views for 600 · 2026-11-23 "), "{text}");
    insta::assert_snapshot!("field_data", text);
    let narrow = Style { width: 60, unicode: false, ..Style::default() };
    let text = field_data(&everything(), &narrow);
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 60), "{text}");
}

#[test]
fn few_say_little_and_nothing_says_nothing() {
    let text = field_data(&summary(beacons().into_iter().take(5)), &Style::default());
    insta::assert_snapshot!("field_data_few", text);
    let text = field_data(&summary([]), &Style::default());
    assert_eq!(text, "Field data: 0 page views\n");
}

#[test]
fn json_has_what_is_known_and_null_for_the_rest() {
    let value: Value = serde_json::from_str(&field_json(&everything())).unwrap();
    assert_eq!(value["page_views"]["estimate"], 600.0);
    assert_eq!(value["downgraded"]["seen"], 1);
    let group = &value["groups"][2];
    assert_eq!(
        (&group["origin"], &group["protocol"]),
        (&json!("https://shop.example"), &json!("h2"))
    );
    assert_eq!(
        group["entries"],
        json!({"new": 57, "reused": 60, "cached": 60, "prerendered": 1, "back-forward": 2})
    );
    assert_eq!(group["phases"]["connect"]["connections"], 57);
    let share = value["shares"][0]["share"].as_f64().unwrap();
    assert!((share - 12.0 / 2_012.0).abs() < 1e-9, "{share}");
    let value: Value = serde_json::from_str(&field_json(&summary([]))).unwrap();
    assert_eq!(value["received_unix_s"], Value::Null);
}

#[test]
fn rows_are_an_audience() {
    let mut out = Vec::new();
    field_rows_header(&mut out).unwrap();
    for line in beacons() {
        let FieldLine::Beacon(beacon) = line else { unreachable!() };
        field_rows(&beacon, &mut out).unwrap();
    }
    let text = String::from_utf8(out).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "origin,protocol,navigation,weight,clock_step_us,queue_us,resolve_us,connect_us,tls_us,quic_us,wait_us,\
         receive_us,first_byte_us,rtt_ms,rtt_least_ms,rtt_most_ms"
    );
    let first = "https://shop.example,h2,true,10.0000,1000.0000,400.0000,12000.0000,90000.0000,92000.0000,,\
                 115000.0000,3000.0000,309400.0000,90.0000,88.0000,92.0000";
    assert_eq!(lines.next().unwrap(), first);
    assert_eq!(lines.count() + 1, 57 + 60);
}

/// Every name in the file, in the object and in the rows is documented.
#[test]
fn every_field_is_described() {
    const FORMATS: &str = include_str!("../../../../docs/formats.md");
    fn names(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                into.push(name.clone());
                // The names of their members are classes, phases and reasons.
                if !["entries", "phases", "refused"].contains(&name.as_str()) {
                    names(value, into);
                }
            }),
            Value::Array(items) => items.iter().for_each(|item| names(item, into)),
            _ => {}
        }
    }
    let (_, section) = FORMATS.split_once("\n## Field data\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut all = Vec::new();
    names(&serde_json::from_str(&field_json(&everything())).unwrap(), &mut all);
    for line in beacons().into_iter().chain(reports()) {
        names(&serde_json::to_value(&line).unwrap(), &mut all);
    }
    let mut header = Vec::new();
    field_rows_header(&mut header).unwrap();
    all.extend(String::from_utf8(header).unwrap().trim().split(',').map(str::to_owned));
    all.sort();
    all.dedup();
    assert!(all.len() > 50, "{all:?}");
    for name in all {
        assert!(section.contains(&format!("`{name}`")), "{name} is not described");
    }
}
