//! `page --har`: a page load as an HTTP Archive 1.2.
//!
//! There is one entry per request, in the page load's order: redirects, the document, then subresources. Times
//! follow each other without gaps: gaps between them, and waits for other requests, are `blocked`, so that all
//! times add up to the entry's `time` exactly. Set-up belongs to the request that opened the connection, as far as
//! that request waited for it. The archive contains no header fields.

use std::time::Duration;

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{
    Connection, ConnectionUse, DeliveredFrom, Mark, Marks, Navigation, Offset, PageConnection,
    Resource,
};
use firstbyte_pages::page_load::{PageLoad, PageRequest};
use serde_json::{Map, Value, json};

use super::entry::{UNKNOWN, ms, size};
use crate::dates;

/// The page as an archive.
pub fn page_archive(page: &Navigation) -> Vec<u8> {
    let load = PageLoad::from_navigation(page);
    let origin = origin_unix_ns(page);
    let date = |at: Offset| {
        let at = origin.and_then(|origin| origin.checked_add_signed(at.as_nanos()));
        dates::rfc3339_micros(at.unwrap_or(0)).unwrap_or_default()
    };
    let entries: Vec<Value> = load
        .requests
        .iter()
        .zip(beside(page))
        .map(|(request, beside)| entry(page, request, &beside, date(asked(request))))
        .collect();
    let since =
        |at: Option<Offset>| at.map_or_else(|| json!(UNKNOWN), |at| ms(at.since(Offset::ZERO)));
    let mut first = json!({
        "startedDateTime": date(Offset::ZERO),
        "id": "page_1",
        "title": shown_url(&page.main.requested_url),
        "pageTimings": {
            "onContentLoad": since(page.content_loaded.map(|stamp| stamp.at)),
            "onLoad": since(page.loaded.map(|stamp| stamp.at)),
        },
    });
    if origin.is_none() {
        first["comment"] = "the time of the load is unknown".into();
    }
    let archive = json!({ "log": {
        "version": "1.2",
        "creator": { "name": "firstbyte", "version": env!("CARGO_PKG_VERSION") },
        "pages": [first],
        "entries": entries,
    } });
    let mut bytes = archive.to_string().into_bytes();
    bytes.push(b'\n');
    bytes
}

/// Start time of the page load, from the clock of its first leg.
fn origin_unix_ns(page: &Navigation) -> Option<u64> {
    if let Some(first) = page.main.redirects.first() {
        return first.started_unix_ns;
    }
    page.main.connection.started_unix_ns?.checked_add_signed(-page.main_at.as_nanos())
}

/// Data of a request beyond the page's layout.
struct Beside<'a> {
    method: Option<&'a str>,
    protocol: Option<String>,
    /// When the last byte of the request was sent.
    request_end: Option<Offset>,
    body_bytes: Option<u64>,
    decoded_bytes: Option<u64>,
    transferred_bytes: Option<u64>,
    /// Whether it waited for its connection to be opened.
    opened: bool,
    priority: Option<&'a str>,
}

/// In the order of the layout's requests.
fn beside(page: &Navigation) -> impl Iterator<Item = Beside<'_>> {
    let first = page.main.redirects.first().and_then(|leg| leg.started_unix_ns);
    let legs = page.main.redirects.iter().map(move |leg| {
        let later = first.zip(leg.started_unix_ns);
        let later = later.map_or(0, |(first, this)| this.saturating_sub(first));
        let opened = !leg.facts.reused && leg.marks.at(Mark::ConnectStart).is_some();
        of_leg(leg, Offset::from_nanos(i64::try_from(later).unwrap_or(i64::MAX)), opened)
    });
    let opened = page.main_use == Some(ConnectionUse::Opened);
    let main = of_leg(&page.main.connection, page.main_at, opened);
    legs.chain([main]).chain(page.resources.iter().map(of_resource))
}

fn of_leg(leg: &Connection, origin: Offset, opened: bool) -> Beside<'_> {
    let http = leg.facts.http.as_ref();
    let version = http.and_then(|http| http.version.as_deref());
    let request_end = leg.marks.at(Mark::RequestEnd);
    Beside {
        method: http.map(|http| http.method.as_str()).filter(|method| !method.is_empty()),
        protocol: version.map(|version| format!("HTTP/{version}")),
        request_end: request_end.map(|at| origin + at.since(Offset::ZERO)),
        body_bytes: http.and_then(|http| http.body_bytes),
        decoded_bytes: http.and_then(|http| http.decoded_bytes),
        transferred_bytes: None,
        opened,
        priority: None,
    }
}

fn of_resource(resource: &Resource) -> Beside<'_> {
    Beside {
        method: resource.method.as_deref(),
        protocol: resource.protocol.as_deref().map(|alpn| match alpn {
            "h2" => "HTTP/2".to_owned(),
            "h3" => "HTTP/3".to_owned(),
            other => other.to_ascii_uppercase(),
        }),
        request_end: resource.marks.at(Mark::RequestEnd),
        body_bytes: resource.sizes.body_bytes,
        decoded_bytes: resource.sizes.decoded_bytes,
        transferred_bytes: resource.sizes.transferred_bytes,
        opened: resource.connection_use == Some(ConnectionUse::Opened),
        priority: resource.priority.as_deref(),
    }
}

/// When a request begins: not before it was asked for, if that time is known.
fn asked(request: &PageRequest) -> Offset {
    let first = [request.asked, request.sent, request.first_byte, request.end];
    first.into_iter().flatten().next().unwrap_or_default()
}

fn entry(page: &Navigation, request: &PageRequest, beside: &Beside<'_>, date: String) -> Value {
    let connection = request.connection.and_then(|place| page.connections.get(place));
    let opened = connection.filter(|_| beside.opened);
    let timings = timings(request, beside.request_end, opened.map(|c| &c.marks));
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("pageref", "page_1".into());
    put("startedDateTime", date.into());
    put("time", ms(timings.sum()));
    put("request", request_object(request, beside));
    put("response", response_object(request, beside));
    put("cache", json!({}));
    put("timings", timings.object());
    if let Some(remote) = connection.and_then(|connection| connection.remote) {
        put("serverIPAddress", remote.ip().to_string().into());
    }
    if let Some(place) = request.connection {
        put("connection", (place + 1).to_string().into());
    }
    if let Some(kept) = request.delivered_from.and_then(kept_in) {
        put("_fromCache", kept.into());
    }
    if let Some(priority) = beside.priority {
        put("_priority", priority.into());
    }
    put("_firstbyte", proof(request, connection));
    Value::Object(entry)
}

/// Chrome's name for the cache.
const fn kept_in(from: DeliveredFrom) -> Option<&'static str> {
    match from {
        DeliveredFrom::MemoryCache => Some("memory"),
        from if from.is_local() => Some("disk"),
        _ => None,
    }
}

/// Data for which HAR has no field.
fn proof(request: &PageRequest, connection: Option<&PageConnection>) -> Value {
    json!({
        "connection_use": request.connection_use.map(ConnectionUse::name),
        "delivered_from": request.delivered_from.map(DeliveredFrom::name),
        "connection_for": connection.map(|connection| &connection.authority),
        "failed": request.failed,
    })
}

fn version(beside: &Beside<'_>) -> String {
    beside.protocol.clone().unwrap_or_else(|| "unknown".to_owned())
}

fn request_object(request: &PageRequest, beside: &Beside<'_>) -> Value {
    json!({
        "method": beside.method.unwrap_or("GET"),
        "url": shown_url(&request.url),
        "httpVersion": version(beside),
        "cookies": [],
        "headers": [],
        "queryString": [],
        "headersSize": UNKNOWN,
        "bodySize": UNKNOWN,
    })
}

fn response_object(request: &PageRequest, beside: &Beside<'_>) -> Value {
    json!({
        "status": request.status.unwrap_or(0),
        "statusText": "",
        "httpVersion": version(beside),
        "cookies": [],
        "headers": [],
        "content": {
            "size": beside.decoded_bytes.or(beside.body_bytes).unwrap_or(0),
            "mimeType": "",
        },
        "redirectURL": "",
        "headersSize": UNKNOWN,
        "bodySize": size(beside.body_bytes),
        "_transferSize": size(beside.transferred_bytes),
    })
}

/// An entry's times. A time is absent if the step did not happen.
#[derive(Default)]
struct Timings {
    blocked: Duration,
    dns: Option<Duration>,
    connect: Option<Duration>,
    ssl: Option<Duration>,
    send: Duration,
    wait: Duration,
    receive: Duration,
}

impl Timings {
    fn sum(&self) -> Duration {
        let set_up = self.dns.unwrap_or_default() + self.connect.unwrap_or_default();
        self.blocked + set_up + self.send + self.wait + self.receive
    }

    fn object(&self) -> Value {
        let or_unknown = |time: Option<Duration>| time.map_or_else(|| json!(UNKNOWN), ms);
        json!({
            "blocked": ms(self.blocked),
            "dns": or_unknown(self.dns),
            "connect": or_unknown(self.connect),
            "ssl": or_unknown(self.ssl),
            "send": ms(self.send),
            "wait": ms(self.wait),
            "receive": ms(self.receive),
        })
    }
}

/// `set_up` contains the marks of the connection that the request opened.
fn timings(request: &PageRequest, request_end: Option<Offset>, set_up: Option<&Marks>) -> Timings {
    let begun = asked(request);
    // If one of these is unknown, treat its step as taking no time.
    let sent = request.sent.unwrap_or(begun).max(begun);
    let first_byte = request.first_byte.unwrap_or(sent).max(sent);
    let end = request.end.unwrap_or(first_byte).max(first_byte);
    let written = request_end.unwrap_or(sent).clamp(sent, first_byte);
    let mut timings = Timings {
        send: written.since(sent),
        wait: first_byte.since(written),
        receive: end.since(first_byte),
        ..Timings::default()
    };
    let mut at = begun;
    // The time between two marks, limited to the time before the request was sent and not yet counted.
    let mut stretch = |from: Option<Offset>, to: Option<Offset>| {
        let (from, to) = from.zip(to)?;
        let from = from.clamp(at, sent);
        let to = to.clamp(from, sent);
        timings.blocked += from.since(at);
        at = to;
        Some((from, to))
    };
    if let Some(marks) = set_up {
        let mark = |mark| marks.at(mark);
        let dns = stretch(mark(Mark::DomainLookupStart), mark(Mark::DomainLookupEnd));
        let ready = mark(Mark::HandshakeComplete).or_else(|| mark(Mark::TcpConnected));
        let connect = stretch(mark(Mark::ConnectStart), ready);
        timings.dns = dns.map(|(from, to)| to.since(from));
        timings.connect = connect.map(|(from, to)| to.since(from));
        let secure = mark(Mark::SecureConnectionStart).zip(mark(Mark::HandshakeComplete));
        timings.ssl =
            secure.zip(connect).map(|((begun, _), (from, to))| to.since(begun.clamp(from, to)));
    }
    timings.blocked += sent.since(at);
    timings
}

#[cfg(test)]
mod tests {
    use firstbyte_core::document::navigation;
    use firstbyte_sources::har::{HarOutcome, read_archive};

    use super::super::tests::check_archive;
    use super::*;

    fn fixtures() -> impl Iterator<Item = Navigation> {
        let all = [
            include_str!("../../../firstbyte-core/fixtures/navigation/chromium.ndjson"),
            include_str!("../../../firstbyte-core/fixtures/navigation/firefox.ndjson"),
        ];
        all.into_iter().flat_map(str::lines).map(|line| navigation(line.as_bytes()).unwrap())
    }

    /// Nanoseconds from a decimal number of milliseconds, without using a float.
    fn nanoseconds(value: &Value) -> i128 {
        let text = value.to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        assert!(decimals.len() <= 6, "{text}");
        format!("{whole}{decimals:0<6}").parse().unwrap()
    }

    #[test]
    fn a_page_validates_and_sums_exactly() {
        let mut entries = 0;
        for page in fixtures() {
            let bytes = page_archive(&page);
            let archive: Value = serde_json::from_slice(&bytes).unwrap();
            check_archive(&archive);
            for entry in archive["log"]["entries"].as_array().unwrap() {
                let times = ["blocked", "dns", "connect", "send", "wait", "receive"];
                let times = times.map(|name| nanoseconds(&entry["timings"][name]));
                let sum: i128 = times.iter().filter(|ns| **ns >= 0).sum();
                assert_eq!(nanoseconds(&entry["time"]), sum, "{entry}");
                entries += 1;
            }
            assert_eq!(
                archive["log"]["entries"].as_array().unwrap().len(),
                PageLoad::from_navigation(&page).requests.len()
            );
        }
        assert!(entries > 8, "{entries}");
    }

    /// Our own reader can read the archive back.
    #[test]
    fn our_own_reader_finds_the_same_connections() {
        for page in fixtures() {
            let archive = read_archive(&page_archive(&page)[..]).unwrap();
            let summary = archive.summary();
            assert_eq!((archive.rules().creator, summary.flaw_count), ("firstbyte", 0));
            let load = PageLoad::from_navigation(&page);
            let timed = |request: &&PageRequest| request.status.is_some();
            let opened = load
                .requests
                .iter()
                .filter(timed)
                .filter(|request| request.connection_use == Some(ConnectionUse::Opened));
            // Redirects do not say how they used connections.
            let found = summary.counts.with(HarOutcome::Opened);
            assert!(found >= opened.count() as u64, "{found}");
            let (_, laid_out) = firstbyte_sources::har::page(&archive, &summary).unwrap().unwrap();
            let whole = [laid_out.end, load.end].map(|end| end.as_nanos());
            assert!((whole[0] - whole[1]).abs() < 2_000, "{whole:?}");
        }
    }

    #[test]
    fn what_lets_somebody_in_is_not_written() {
        let mut page = fixtures().next().unwrap();
        let secret = "https://me:s3cret@a.test/?token=s3cret";
        page.main.requested_url = secret.into();
        page.main.connection.url = secret.into();
        page.resources[0].url = secret.into();
        assert!(!String::from_utf8(page_archive(&page)).unwrap().contains("s3cret"));
    }
}
