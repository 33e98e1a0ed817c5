//! Renders a format for a sample as pieces of text.

use std::time::Duration;

use firstbyte_core::split;
use firstbyte_core::timeline::{Header, Sample};

use super::strftime::strftime;
use super::variable::{VARIABLES, Value};
use super::{Format, Item, Piece, Target, Transfer};

impl Format {
    /// The format's output for `sample`. The first piece goes to standard output and may be empty.
    pub fn render(&self, sample: &Sample, transfer: &Transfer) -> Vec<Piece> {
        let mut pieces = vec![Piece { target: Target::Stdout, text: String::new() }];
        for item in &self.items {
            let text = match item {
                Item::Text(text) => text.clone(),
                Item::Variable(variable) => plain(variable.value(sample, transfer)),
                Item::Unknown(_) => continue,
                Item::Header(name) => header(sample, name),
                Item::Time(format) => {
                    ended(sample).map(|at| strftime(format, at)).unwrap_or_default()
                }
                Item::Json => json(sample, transfer),
                Item::HeaderJson => header_json(headers(sample)),
                Item::OnError if transfer.exit_code == 0 => break,
                Item::OnError => continue,
                Item::Switch(target) => {
                    pieces.push(Piece { target: target.clone(), text: String::new() });
                    continue;
                }
            };
            if let Some(piece) = pieces.last_mut() {
                piece.text += &text;
            }
        }
        pieces
    }
}

fn plain(value: Value) -> String {
    match value {
        Value::Text(text) => text.unwrap_or_default(),
        Value::Number(number) => number.to_string(),
        Value::Code(code) => format!("{code:03}"),
        Value::Time(time) => seconds(time),
    }
}

/// Every variable as a key, then `curl_version`, which curl appends although it is not a variable.
fn json(sample: &Sample, transfer: &Transfer) -> String {
    let mut out = String::from("{");
    for (name, variable) in VARIABLES {
        let value = match variable.value(sample, transfer) {
            Value::Text(text) => text.map_or("null".to_owned(), |text| quoted(&text)),
            Value::Number(number) | Value::Code(number) => number.to_string(),
            Value::Time(time) => seconds(time),
        };
        out += &format!("{}:{value},", quoted(name));
    }
    out + &format!(
        "\"curl_version\":{}}}",
        quoted(concat!("firstbyte/", env!("CARGO_PKG_VERSION")))
    )
}

/// One header per line with all its values, at the place of its first occurrence.
fn header_json(headers: &[Header]) -> String {
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for header in headers {
        let name = header.name.to_ascii_lowercase();
        let value = quoted(&header.value);
        match fields.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => fields.push((name, vec![value])),
        }
    }
    let lines: Vec<String> = fields
        .into_iter()
        .map(|(name, values)| format!("{}:[{}]", quoted(&name), values.join(",")))
        .collect();
    format!("{{{}\n}}", lines.join(",\n"))
}

fn headers(sample: &Sample) -> &[Header] {
    sample.connection.facts.http.as_ref().map_or(&[], |http| &http.headers)
}

fn header(sample: &Sample, name: &str) -> String {
    let http = sample.connection.facts.http.as_ref();
    http.and_then(|h| h.header(name)).unwrap_or_default().to_owned()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Seconds with microseconds; smaller digits are truncated, as in curl.
fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// End of the transfer, when curl would read the clock.
fn ended(sample: &Sample) -> Option<u64> {
    let total = split::total(&sample.connection);
    sample.connection.started_unix_ns?.checked_add(u64::try_from(total.as_nanos()).ok()?)
}
