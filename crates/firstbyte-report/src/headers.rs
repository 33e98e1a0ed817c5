//! Response headers as text.

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{Connection, Header, Sample};

use crate::Style;

/// The head of each response, redirects first: status line, fields, empty line. User information and query values
/// are removed from redirects' URLs.
pub fn headers(sample: &Sample, style: &Style) -> String {
    let show = |field: &Header| match field.name.eq_ignore_ascii_case("location") {
        true => shown_url(&field.value),
        false => field.value.clone(),
    };
    let connections = sample.redirects.iter().chain([&sample.connection]);
    let heads = connections.filter_map(|connection| write_head(connection, show));
    heads.map(|head| style.safe_lines(&head)).collect()
}

/// The head of one response as received, if there was one. Names are in lower case, as in HTTP/2.
pub fn head(connection: &Connection) -> Option<String> {
    write_head(connection, |field| field.value.clone())
}

fn write_head(connection: &Connection, value: impl Fn(&Header) -> String) -> Option<String> {
    let http = connection.facts.http.as_ref()?;
    let (version, status) = (http.version.as_deref()?, http.status?);
    let fields = http.headers.iter().map(|field| format!("{}: {}\n", field.name, value(field)));
    Some(format!("HTTP/{version} {status}\n{}\n", fields.collect::<String>()))
}
