//! `docs/formats.md` describes every field and variable. Columns are held against it where they are defined.

use std::collections::BTreeSet;

use firstbyte_core::document::SampleRecord;
use serde_json::Value;

use super::{fixtures, write_out};

const FORMATS: &str = include_str!("../../../../docs/formats.md");

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
    for sample in fixtures::all() {
        keys(&serde_json::to_value(SampleRecord::of(&sample)).unwrap(), &mut all);
    }
    assert!(all.len() > 70);
    assert_described("## JSON", all);
}

#[test]
fn write_out_variables() {
    let special = ["json", "header_json", "onerror", "stdout", "stderr"].map(String::from);
    assert_described("## Write-out", write_out::variable_names().map(String::from).chain(special));
}
