//! One request and its response as HAR 1.2 entries.

use std::time::Duration;

use firstbyte_core::document::ConnectionRecord;
use firstbyte_core::run::{Cell, Taken};
use firstbyte_core::split::{phases, total};
use firstbyte_core::timeline::{Connection, HttpFacts, PhaseName};
use serde_json::{Map, Value, json};
use url::Url;

use crate::advice;
use crate::columns::sample::standing;
use crate::dates;
use firstbyte_core::shown_url::{shown_url, shown_urls_within};

/// HAR's value for an unknown or inapplicable size or time.
pub(super) const UNKNOWN: i64 = -1;

/// The entries of `taken`: one per redirect, and one for the final request.
pub(super) fn entries(cell: &Cell, taken: &Taken) -> impl Iterator<Item = Value> {
    let sample = &taken.sample;
    let connections = sample.redirects.iter().chain([&sample.connection]);
    let of_the_run = of_the_run(cell, taken);
    connections.map(move |connection| entry(connection, &of_the_run))
}

/// Where an entry's sample belongs in the run.
fn of_the_run(cell: &Cell, taken: &Taken) -> Map<String, Value> {
    let (standing, shortfall) = standing(taken.standing);
    let factors =
        cell.factors.iter().map(|f| (f.axis.clone(), Value::from(shown_urls_within(&f.value))));
    let members = [
        ("variant", json!(taken.cell)),
        ("variant_name", json!(cell.name())),
        ("factors", Value::Object(factors.collect())),
        ("round", json!(taken.sample.sequence)),
        ("warmup", json!(taken.sample.warmup)),
        ("outcome", json!(standing)),
        ("shortfall", json!(shortfall)),
        ("lateness_ns", json!(u64::try_from(taken.lateness.as_nanos()).unwrap_or(u64::MAX))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn entry(connection: &Connection, of_the_run: &Map<String, Value>) -> Value {
    let facts = &connection.facts;
    let started = connection.started_unix_ns;
    let date = dates::rfc3339_micros(started.unwrap_or(0)).unwrap_or_default();
    let mut entry = Map::new();
    entry.insert("startedDateTime".into(), date.into());
    entry.insert("time".into(), ms(total(connection)));
    entry.insert("request".into(), request(connection));
    entry.insert("response".into(), response(connection));
    entry.insert("cache".into(), json!({}));
    entry.insert("timings".into(), timings(connection));
    if let Some(remote) = facts.remote {
        entry.insert("serverIPAddress".into(), remote.ip().to_string().into());
    }
    if let Some(local) = facts.local {
        entry.insert("connection".into(), local.port().to_string().into());
    }
    if started.is_none() {
        entry.insert("comment".into(), "the time of the measurement is unknown".into());
    }
    if let Some(proxy) = &facts.proxy {
        entry.insert("_proxy".into(), proxy.to_string().into());
    }
    entry.insert("_firstbyte".into(), proof(connection, of_the_run));
    Value::Object(entry)
}

/// Data for which HAR has no field.
fn proof(connection: &Connection, of_the_run: &Map<String, Value>) -> Value {
    let mut members = of_the_run.clone();
    let record =
        serde_json::to_value(ConnectionRecord::from_connection(&advice::on_connection(connection)))
            .unwrap_or_default();
    if let Value::Object(mut record) = record {
        for name in ["marks", "split", "reused", "tcp", "quic", "tls", "failure"] {
            members.insert(name.into(), record.remove(name).unwrap_or_default());
        }
        members.extend(record.remove_entry("proxy"));
    }
    Value::Object(members)
}

fn version(http: Option<&HttpFacts>) -> String {
    let version = http.and_then(|http| http.version.as_deref());
    version.map_or_else(|| "unknown".into(), |version| format!("HTTP/{version}"))
}

/// Whether header sizes are those of the messages; later HTTP versions compress them.
fn is_http1(http: Option<&HttpFacts>) -> bool {
    http.and_then(|http| http.version.as_deref()).is_some_and(|v| v.starts_with("1."))
}

pub(super) fn size(bytes: Option<u64>) -> i64 {
    bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(UNKNOWN)
}

fn request(connection: &Connection) -> Value {
    let http = connection.facts.http.as_ref();
    let upload = http.and_then(|http| http.upload_bytes);
    let head = http
        .filter(|_| is_http1(http))
        .and_then(|http| http.request_bytes?.checked_sub(http.upload_bytes.unwrap_or(0)));
    let method = http.map_or("", |http| http.method.as_str());
    let url = shown_url(&connection.url);
    let query: Vec<Value> = Url::parse(&url).map_or_else(
        |_| Vec::new(),
        |url| {
            let pairs = url.query_pairs();
            pairs.map(|(name, value)| json!({ "name": name, "value": value })).collect()
        },
    );
    json!({
        "method": if method.is_empty() { "GET" } else { method },
        "url": url,
        "httpVersion": version(http),
        "cookies": [],
        "headers": [],
        "queryString": query,
        "headersSize": size(head),
        "bodySize": size(upload),
    })
}

fn response(connection: &Connection) -> Value {
    let http = connection.facts.http.as_ref();
    let header = |name: &str| http.and_then(|http| http.header(name)).unwrap_or_default();
    let headers = http.map(|http| http.headers.as_slice()).unwrap_or_default();
    let all: Vec<Value> =
        headers.iter().map(|h| json!({ "name": h.name, "value": h.value })).collect();
    let cookies = headers.iter().filter(|h| h.name.eq_ignore_ascii_case("set-cookie"));
    let body = http.and_then(|http| http.body_bytes);
    let decoded = http.and_then(|http| http.decoded_bytes);
    let mut content =
        json!({ "size": decoded.or(body).unwrap_or(0), "mimeType": header("content-type") });
    if let (Some(decoded), Some(body)) = (decoded, body) {
        content["compression"] = json!(i128::from(decoded) - i128::from(body));
    }
    let head = http.filter(|_| is_http1(http)).and_then(|http| http.header_bytes);
    json!({
        "status": http.and_then(|http| http.status).unwrap_or(0),
        "statusText": "",
        "httpVersion": version(http),
        "cookies": cookies.filter_map(|h| cookie(&h.value)).collect::<Vec<_>>(),
        "headers": all,
        "content": content,
        "redirectURL": header("location"),
        "headersSize": size(head),
        "bodySize": size(body),
    })
}

/// The name, the value and the attributes of a Set-Cookie field (RFC 6265 §5.2).
fn cookie(field: &str) -> Option<Value> {
    let mut parts = field.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let mut cookie = Map::new();
    cookie.insert("name".into(), name.trim().into());
    cookie.insert("value".into(), value.trim().into());
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "path" => cookie.insert("path".into(), value.trim().into()),
            "domain" => cookie.insert("domain".into(), value.trim().into()),
            "httponly" => cookie.insert("httpOnly".into(), true.into()),
            "secure" => cookie.insert("secure".into(), true.into()),
            _ => None,
        };
    }
    Some(Value::Object(cookie))
}

/// HAR's timings in milliseconds.
///
/// `connect` includes `ssl` and, with a proxy, the proxy's TLS and the tunnel. The sum without `ssl` is the entry's
/// `time`. Steps that did not happen are -1, but `send`, `wait` and `receive` must be times.
fn timings(connection: &Connection) -> Value {
    let phases = phases(connection);
    let took = |name| phases.iter().find(|p| p.name == name).map(|p| p.duration());
    let (tcp, tls) = (took(PhaseName::Connect), took(PhaseName::Tls));
    let (proxy_tls, tunnel) = (took(PhaseName::ProxyTls), took(PhaseName::Tunnel));
    // QUIC's handshake combines transport and TLS.
    let quic = took(PhaseName::Quic);
    let connect = [tcp, proxy_tls, tunnel, tls, quic].into_iter().flatten().reduce(|a, b| a + b);
    let or_unknown = |time: Option<Duration>| time.map_or_else(|| json!(UNKNOWN), ms);
    let or_zero = |time: Option<Duration>| ms(time.unwrap_or_default());
    json!({
        "blocked": UNKNOWN,
        "dns": or_unknown(took(PhaseName::Resolve)),
        "connect": or_unknown(connect),
        "ssl": or_unknown(tls.or(quic)),
        "send": or_zero(took(PhaseName::Send)),
        "wait": or_zero(took(PhaseName::Wait)),
        "receive": or_zero(took(PhaseName::Receive)),
    })
}

/// Nanosecond resolution: the printed values have at most six decimals and add up exactly.
pub(super) fn ms(duration: Duration) -> Value {
    (duration.as_nanos() as f64 / 1e6).into()
}
