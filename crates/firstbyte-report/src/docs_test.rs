//! Checks that `docs/formats.md` describes every field and variable, and that equally named fields mean the same in
//! all formats. Columns are checked where they are defined.

use std::collections::BTreeSet;
use std::time::Duration;

use firstbyte_core::document::run::sample_line;
use firstbyte_core::document::{Interner, SampleRecord};
use firstbyte_core::run::{Standing, Taken};
use serde_json::Value;

use super::{fixtures, write_out};

const FORMATS: &str = include_str!("../../../docs/formats.md");

fn assert_described(section: &str, names: impl IntoIterator<Item = String>) {
    let start = FORMATS.find(section).unwrap();
    let text = &FORMATS[start..];
    let end = text[2..].find("\n## ").map_or(text.len(), |end| end + 2);
    for name in names {
        assert!(text[..end].contains(&format!("`{name}`")), "{section}: {name} is not described");
    }
}

fn keys(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                into.insert(key.clone());
                keys(value, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, into)),
        _ => {}
    }
}

#[test]
fn json_fields() {
    let mut all = BTreeSet::new();
    for sample in fixtures::all().into_iter().chain([fixtures::proxied()]) {
        keys(&serde_json::to_value(SampleRecord::from_sample(&sample)).unwrap(), &mut all);
    }
    assert!(all.len() > 70);
    assert_described("## JSON", all);
}

#[test]
fn write_out_variables() {
    let special = ["json", "header_json", "onerror", "stdout", "stderr"].map(String::from);
    assert_described("## Write-out", write_out::variable_names().map(String::from).chain(special));
}

/// A connection has two stored forms (see `docs/decisions/stored-forms.md`); fields with the same name in both are
/// equal.
#[test]
fn run_files_and_json_agree() {
    let others = [fixtures::every_fact(), fixtures::proxied()];
    let samples = fixtures::all().into_iter().chain(others);
    let mut compared = BTreeSet::new();
    for sample in samples {
        let record = serde_json::to_value(SampleRecord::from_sample(&sample)).unwrap();
        let url = sample.requested_url.clone();
        let taken = Taken {
            stands_for: None,
            cell: 0,
            standing: Standing::Proven,
            lateness: Duration::ZERO,
            sample,
        };
        let mut lines = Vec::new();
        sample_line(&taken, &url, &mut Interner::default(), &mut lines).unwrap();
        let lines: Vec<Value> = lines
            .split_inclusive(|b| *b == b'\n')
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect();
        let stored = &lines.last().unwrap()["sample"]["connection"];
        // TLS facts are a separate line, the first of their kind, and so are a proxy's.
        let of_kind =
            |kind: &str| lines.iter().find(|line| line["kind"] == kind).map(|line| &line["value"]);
        for (name, stored) in stored.as_object().unwrap() {
            let members = match name.as_str() {
                "marks" | "flights" => continue,
                "tls" | "proxy" => of_kind(name).unwrap(),
                _ => stored,
            };
            assert_part_of(members, &record[name], name, &mut compared);
        }
    }
    assert!(compared.len() > 45, "{compared:?}");
}

/// Every member of `stored` is in `record`, except numbers that refer to separate lines.
fn assert_part_of(stored: &Value, record: &Value, path: &str, compared: &mut BTreeSet<String>) {
    match (stored, record) {
        _ if path.ends_with("headers") || path.ends_with("certificates") => {}
        (Value::Object(members), Value::Object(_)) => {
            for (name, member) in members {
                assert_part_of(member, &record[name], &format!("{path}.{name}"), compared);
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            assert_eq!(items.len(), others.len(), "{path}");
            for (item, other) in items.iter().zip(others) {
                assert_part_of(item, other, path, compared);
            }
        }
        _ => {
            compared.insert(path.to_owned());
            assert_eq!(stored, record, "{path}");
        }
    }
}
