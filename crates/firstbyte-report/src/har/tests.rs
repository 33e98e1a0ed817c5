//! Checks the output against the fields that HAR 1.2 requires, with a checker made from its specification
//! (http://www.softwareishard.com/blog/har-12-spec/). Every object has its required members with the right types,
//! and no others except those that begin with an underscore.

use std::time::Duration;

use firstbyte_core::run::{Cell, Factor, Standing, Taken};
use firstbyte_core::timeline::Sample;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::super::fixtures;
use super::*;

fn archive(samples: &[Sample]) -> Value {
    let factor = Factor { axis: "tls".into(), value: "1.3".into(), label: "TLS 1.3".into() };
    let cell = Cell { factors: vec![factor], url: "https://a/".into(), twin_of: None };
    let mut out = Vec::new();
    let mut writer = HarWriter::new(&mut out).unwrap();
    for sample in samples {
        let standing = if sample.failure().is_some() { Standing::Failed } else { Standing::Proven };
        let lateness = Duration::from_nanos(40);
        let taken = Taken { stands_for: None, cell: 0, standing, lateness, sample: sample.clone() };
        let mut part = Vec::new();
        entries(&cell, &taken, &mut part).unwrap();
        writer.append(&part).unwrap();
    }
    writer.finish().unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// Fails if `archive` is not valid HAR 1.2.
pub(super) fn check_archive(archive: &Value) {
    object("", archive.as_object().unwrap(), &[must("log", Object(LOG))]);
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A number, at least zero.
    Number,
    /// An integer, at least zero, or -1.
    Size,
    /// A time, at least zero, or -1.
    Time,
    Flag,
    Object(&'static [Member]),
    List(&'static [Member]),
    Date,
    Any,
}

struct Member(&'static str, Kind, bool);

use Kind::{Any, Date, Flag, List, Number, Object, Size, Text, Time};

const fn must(name: &'static str, kind: Kind) -> Member {
    Member(name, kind, true)
}

const fn may(name: &'static str, kind: Kind) -> Member {
    Member(name, kind, false)
}

const PAIR: &[Member] = &[must("name", Text), must("value", Text), may("comment", Text)];
const COOKIE: &[Member] = &[
    must("name", Text),
    must("value", Text),
    may("path", Text),
    may("domain", Text),
    may("expires", Date),
    may("httpOnly", Flag),
    may("secure", Flag),
    may("comment", Text),
];
const REQUEST: &[Member] = &[
    must("method", Text),
    must("url", Text),
    must("httpVersion", Text),
    must("cookies", List(COOKIE)),
    must("headers", List(PAIR)),
    must("queryString", List(PAIR)),
    may("postData", Any),
    must("headersSize", Size),
    must("bodySize", Size),
    may("comment", Text),
];
const CONTENT: &[Member] = &[
    must("size", Number),
    may("compression", Number),
    must("mimeType", Text),
    may("text", Text),
    may("encoding", Text),
    may("comment", Text),
];
const RESPONSE: &[Member] = &[
    must("status", Number),
    must("statusText", Text),
    must("httpVersion", Text),
    must("cookies", List(COOKIE)),
    must("headers", List(PAIR)),
    must("content", Object(CONTENT)),
    must("redirectURL", Text),
    must("headersSize", Size),
    must("bodySize", Size),
    may("comment", Text),
];
const TIMINGS: &[Member] = &[
    may("blocked", Time),
    may("dns", Time),
    may("connect", Time),
    must("send", Number),
    must("wait", Number),
    must("receive", Number),
    may("ssl", Time),
    may("comment", Text),
];
const CACHE: &[Member] =
    &[may("beforeRequest", Any), may("afterRequest", Any), may("comment", Text)];
const ENTRY: &[Member] = &[
    may("pageref", Text),
    must("startedDateTime", Date),
    must("time", Number),
    must("request", Object(REQUEST)),
    must("response", Object(RESPONSE)),
    must("cache", Object(CACHE)),
    must("timings", Object(TIMINGS)),
    may("serverIPAddress", Text),
    may("connection", Text),
    may("comment", Text),
];
const NAMED: &[Member] = &[must("name", Text), must("version", Text), may("comment", Text)];
const LOG: &[Member] = &[
    must("version", Text),
    must("creator", Object(NAMED)),
    may("browser", Object(NAMED)),
    may("pages", Any),
    must("entries", List(ENTRY)),
    may("comment", Text),
];

fn check(at: &str, value: &Value, kind: Kind) {
    let number = || value.as_f64().unwrap_or_else(|| panic!("{at} is not a number: {value}"));
    match kind {
        Any => {}
        Text => assert!(value.is_string(), "{at}: {value}"),
        Flag => assert!(value.is_boolean(), "{at}: {value}"),
        Number => assert!(number() >= 0.0, "{at}: {value}"),
        Time => assert!(number() >= 0.0 || number() == -1.0, "{at}: {value}"),
        Size => assert!(value.as_i64().is_some_and(|size| size >= -1), "{at}: {value}"),
        Date => {
            let text = value.as_str().unwrap_or_else(|| panic!("{at}: {value}"));
            OffsetDateTime::parse(text, &Rfc3339).unwrap_or_else(|e| panic!("{at}: {text}: {e}"));
        }
        Object(members) => object(at, value.as_object().unwrap(), members),
        List(members) => {
            let items = value.as_array().unwrap_or_else(|| panic!("{at} is not a list"));
            for (n, item) in items.iter().enumerate() {
                object(&format!("{at}[{n}]"), item.as_object().unwrap(), members);
            }
        }
    }
}

fn object(at: &str, object: &Map<String, Value>, members: &[Member]) {
    for Member(name, kind, needed) in members {
        match object.get(*name) {
            Some(value) => check(&format!("{at}.{name}"), value, *kind),
            None => assert!(!needed, "{at} has no {name}"),
        }
    }
    for name in object.keys().filter(|name| !name.starts_with('_')) {
        assert!(members.iter().any(|member| member.0 == name), "{at}.{name} is not of HAR");
    }
}

/// Checks that related members are consistent.
fn consistent(entry: &Value) {
    let timings = &entry["timings"];
    let time = |name: &str| timings[name].as_f64().unwrap();
    let done = |name: &str| time(name).max(0.0);
    let sum: f64 =
        ["blocked", "dns", "connect", "send", "wait", "receive"].iter().map(|n| done(n)).sum();
    assert!((sum - entry["time"].as_f64().unwrap()).abs() < 1e-6, "{entry}");
    assert!(time("ssl") == -1.0 || time("ssl") <= time("connect"), "{timings}");
}

#[test]
fn every_entry_is_one_of_har_1_2() {
    let archive = archive(&fixtures::all());
    object("", archive.as_object().unwrap(), &[must("log", Object(LOG))]);
    assert_eq!(archive["log"]["version"], "1.2");
    let entries = archive["log"]["entries"].as_array().unwrap();
    assert!(entries.len() > fixtures::all().len());
    entries.iter().for_each(consistent);
}

#[test]
fn nothing_at_all_is_an_archive_too() {
    let archive = archive(&[]);
    object("", archive.as_object().unwrap(), &[must("log", Object(LOG))]);
}

#[test]
fn timings_are_the_phases() {
    let archive = archive(&[fixtures::tls12_sydney(), fixtures::plain_http()]);
    let entries = &archive["log"]["entries"];
    let tls = &entries[0]["timings"];
    // TCP 81.125 ms and TLS 166.3 ms: `connect` is their sum.
    assert_eq!(tls["dns"], 2.165);
    assert_eq!(tls["ssl"], 166.3);
    assert_eq!(tls["connect"], 247.425);
    assert_eq!(tls["wait"], 89.38);
    let plain = &entries[1]["timings"];
    assert_eq!((&plain["dns"], &plain["ssl"]), (&(-1).into(), &(-1).into()));
    assert_eq!(plain["connect"], 20.48);
    let first = &entries[0];
    assert_eq!(first["serverIPAddress"], "198.51.100.7");
    assert_eq!(first["response"]["content"]["mimeType"], "text/html; charset=utf-8");
    let cookies = &first["response"]["cookies"];
    assert_eq!(cookies[0], serde_json::json!({"name": "a", "value": "1", "path": "/"}));
    assert_eq!(first["_firstbyte"]["factors"]["tls"], "1.3");
    assert_eq!(first["_firstbyte"]["tls"]["handshake"], "full");
}

#[test]
fn connecting_includes_a_proxys_tls_and_tunnel() {
    let archive = archive(&[fixtures::proxied(), fixtures::tls13_http2()]);
    check_archive(&archive);
    let [proxied, direct] = [0, 1].map(|n| &archive["log"]["entries"][n]);
    consistent(proxied);
    assert_eq!(proxied["timings"]["connect"], 62.02);
    assert_eq!(proxied["timings"]["ssl"], 20.4);
    assert_eq!(proxied["_proxy"], "https proxy.test:3129");
    assert_eq!(proxied["_firstbyte"]["proxy"]["status"], 200);
    assert!(direct.get("_proxy").is_none() && direct["_firstbyte"].get("proxy").is_none());
}

#[test]
fn content_is_as_large_as_it_was_decoded() {
    let response = |decoded| {
        let mut sample = fixtures::tls13_http2();
        sample.connection.facts.http.as_mut().unwrap().decoded_bytes = decoded;
        archive(&[sample])["log"]["entries"][0]["response"].clone()
    };
    let packed = response(Some(10_000));
    assert_eq!((&packed["bodySize"], &packed["content"]["size"]), (&3_704.into(), &10_000.into()));
    assert_eq!(packed["content"]["compression"], 6_296);
    let plain = response(None);
    assert_eq!(
        (&plain["content"]["size"], &plain["content"]["compression"]),
        (&3_704.into(), &Value::Null)
    );
}

#[test]
fn redirects_are_entries_and_failures_have_no_response() {
    let archive = archive(&[fixtures::redirects(), fixtures::connect_timeout()]);
    let entries = archive["log"]["entries"].as_array().unwrap();
    let status: Vec<_> = entries.iter().map(|e| e["response"]["status"].as_u64()).collect();
    assert_eq!(status, [Some(301), Some(302), Some(200), Some(0)]);
    assert_eq!(entries[0]["response"]["redirectURL"], "https://gov.example/");
    assert_eq!(entries[3]["_firstbyte"]["failure"]["cause"], "connect-timed-out");
    assert_eq!(entries[3]["timings"]["connect"], 2000.04);
}
