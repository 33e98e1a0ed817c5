//! Responses' headers as text.

use firstbyte_core::timeline::{Connection, Sample};

use crate::Style;

/// The head of each response, redirects first: a status line, the fields, an empty line.
pub fn headers(sample: &Sample, style: &Style) -> String {
    let connections = sample.redirects.iter().chain([&sample.connection]);
    connections.filter_map(head).map(|head| style.safe_lines(&head)).collect()
}

/// The head of one response, if there was one; names are in the letters of HTTP/2.
pub fn head(connection: &Connection) -> Option<String> {
    let http = connection.facts.http.as_ref()?;
    let (version, status) = (http.version.as_deref()?, http.status?);
    let fields = http.headers.iter().map(|field| format!("{}: {}\n", field.name, field.value));
    Some(format!("HTTP/{version} {status}\n{}\n", fields.collect::<String>()))
}
