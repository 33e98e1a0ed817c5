//! Archives compared with the conditions under which they were made: exports of a lab with known round trips (40 ms to
//! `near.har.test`, 80 ms to `far.har.test`, name lookups of 15 ms), and malformed archives.

use std::io::Read;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use firstbyte_core::timeline::Beginning;

const CHROMIUM_HTTPS: &str = include_str!("../../fixtures/har/chromium-https.har");
const CHROMIUM_HTTP: &str = include_str!("../../fixtures/har/chromium-http.har");
const FIREFOX_HTTPS: &str = include_str!("../../fixtures/har/firefox-https.har");
const FIREFOX_HTTP: &str = include_str!("../../fixtures/har/firefox-http.har");
const EXPORTS: [&str; 4] = [CHROMIUM_HTTPS, CHROMIUM_HTTP, FIREFOX_HTTPS, FIREFOX_HTTP];

fn read(text: &str) -> (HarArchive, HarSummary) {
    let archive = read_archive(text.as_bytes()).unwrap();
    let summary = archive.summary();
    (archive, summary)
}

fn of_origin<'a>(summary: &'a HarSummary, authority: &str) -> &'a HarOrigin {
    summary.origins.iter().find(|origin| &*origin.authority == authority).unwrap()
}

fn ms(time: Option<Duration>) -> Option<f64> {
    time.map(|time| time.as_secs_f64() * 1e3)
}

/// Non-zero counts with their names.
fn counts(counts: &HarCounts) -> Vec<(&'static str, u64)> {
    let all = HarOutcome::ALL.map(|outcome| (outcome.name(), counts.with(outcome)));
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn chromium_over_http2() {
    let (archive, summary) = read(CHROMIUM_HTTPS);
    assert_eq!(archive.rules().creator, "Chrome's DevTools");
    assert_eq!((archive.end.clone(), summary.flaw_count), (HarEnd::Whole, 0));
    let expected = [("opened", 2), ("reused", 12), ("cached", 1), ("failed", 1)];
    assert_eq!(counts(&summary.counts), expected);
    // `connection` holds the port, which is the same for all; the identifiers distinguish two connections.
    let [near, far] = ["near.har.test:443", "far.har.test:443"].map(|o| of_origin(&summary, o));
    assert_eq!([near.connections, far.connections], [Some(1), Some(1)]);
    // Each step blocks a request for the wire's time plus some browser time: TCP 40 and 80 ms, TLS 40 and 80.
    for (origin, trip) in [(near, 40.0), (far, 80.0)] {
        let [tcp, tls]: [HarPhaseOf; 2] = [|phases| phases.connect, |phases| phases.tls];
        let [tcp, tls] = [tcp, tls].map(|phase| ms(origin.median(phase)).unwrap());
        assert!((trip..trip + 20.0).contains(&tcp), "{tcp}");
        assert!((trip..trip + 12.0).contains(&tls), "{tls}");
        let wait = ms(origin.median(|phases| phases.wait)).unwrap();
        assert!((trip..trip + 2.0).contains(&wait), "{wait}");
        assert_eq!(origin.p95(|phases| phases.wait), None);
    }
    assert!((15.0..18.0).contains(&ms(far.median(|phases| phases.dns)).unwrap()));
}

#[test]
fn two_connections_to_one_host_are_two() {
    let (_, summary) = read(CHROMIUM_HTTP);
    let [near, far] = ["near.har.test:80", "far.har.test:80"].map(|o| of_origin(&summary, o));
    // Of the three connections to the near host, two were started before their requests.
    assert_eq!((near.connections, near.counts.with(HarOutcome::Opened)), (Some(3), 1));
    assert_eq!((far.connections, far.counts.with(HarOutcome::Opened)), (Some(2), 2));
    assert_eq!(far.median(|phases| phases.tls), None);
    assert!((80.0..98.0).contains(&ms(far.median(|phases| phases.connect)).unwrap()));
}

#[test]
fn firefox_sums_tls_on_top_of_tcp() {
    let (archive, summary) = read(FIREFOX_HTTPS);
    assert_eq!(archive.rules().creator, "Firefox's DevTools");
    let expected = [("opened", 2), ("reused", 17), ("cached", 2), ("failed", 1), ("local", 2)];
    assert_eq!((counts(&summary.counts), summary.flaw_count), (expected.to_vec(), 0));
    let [near, far] = ["near.har.test:443", "far.har.test:443"].map(|o| of_origin(&summary, o));
    // Firefox only reports the port of connections.
    assert_eq!([near.connections, far.connections], [None, None]);
    // If it were part of `connect`, TCP would take -7 and -3 ms.
    assert_eq!(ms(near.median(|phases| phases.connect)), Some(40.0));
    assert_eq!(ms(far.median(|phases| phases.connect)), Some(80.0));
    assert_eq!(ms(far.median(|phases| phases.tls)), Some(83.0));
    // The name was cached. Firefox writes 0 for that, which is not a duration.
    assert_eq!(far.median(|phases| phases.dns), None);
    let (_, summary) = read(FIREFOX_HTTP);
    let far = of_origin(&summary, "far.har.test:80");
    assert_eq!(ms(far.median(|phases| phases.connect)), Some(80.0));
    assert_eq!(ms(far.median(|phases| phases.dns)), Some(16.0));
    let near = of_origin(&summary, "near.har.test:80");
    assert_eq!(near.counts.with(HarOutcome::Opened), 6);
    assert_eq!(ms(near.median(|phases| phases.connect)), Some(40.0));
}

#[test]
fn pages_are_laid_out_as_loads() {
    for (text, opened, connections, trips) in [
        (CHROMIUM_HTTPS, 2, 2, [None, None]),
        (CHROMIUM_HTTP, 3, 5, [None, None]),
        (FIREFOX_HTTPS, 2, 2, [Some(40.0), Some(80.0)]),
        (FIREFOX_HTTP, 7, 7, [Some(40.0), Some(80.0)]),
    ] {
        let (archive, summary) = read(text);
        let (page, load) = page(&archive, &summary).unwrap().unwrap();
        let is_opened = |beginning: Option<Beginning>| beginning == Some(Beginning::Opened);
        let found = page.connections.iter().filter(|c| is_opened(c.beginning)).count();
        assert_eq!((found, page.connections.len()), (opened, connections));
        assert_eq!(page.main_connection, Some(0));
        assert_eq!(
            load.origins.iter().take(2).map(|o| ms(o.round_trip)).collect::<Vec<_>>(),
            trips
        );
        let loaded =
            ms(page.loaded.map(|stamp| stamp.at.since(firstbyte_core::timeline::Offset::ZERO)));
        assert!((400.0..800.0).contains(&loaded.unwrap()), "{loaded:?}");
        assert!(load.set_up_share().unwrap() > 0.2);
    }
}

/// An archive with one entry by `creator`, modified by `change`.
fn one(creator: &str, change: Value) -> String {
    let mut entry = json!({
        "startedDateTime": "2026-11-23T06:26:54.604Z",
        "time": 50,
        "request": { "method": "GET", "url": "https://a.test/", "httpVersion": "h2" },
        "response": { "status": 200, "httpVersion": "h2", "content": { "size": 3 } },
        "cache": {},
        "timings": { "blocked": 1, "dns": 2, "connect": 20, "ssl": 12, "send": 1, "wait": 20, "receive": 6 },
    });
    fn merge(into: &mut Value, from: Value) {
        match (into, from) {
            (Value::Object(into), Value::Object(from)) => {
                for (name, value) in from {
                    merge(into.entry(name).or_insert(Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }
    merge(&mut entry, change);
    let creator = json!({ "name": creator, "version": "1" });
    json!({ "log": { "version": "1.2", "creator": creator, "entries": [entry] } }).to_string()
}

/// Outcome and flaws of the one entry.
fn judged(creator: &str, change: Value) -> (HarExchange, Vec<(&'static str, String)>) {
    let (_, summary) = read(&one(creator, change));
    let flaws = summary.flaws.into_iter().map(|flaw| (flaw.field, flaw.says)).collect();
    (summary.exchanges[0], flaws)
}

#[test]
fn each_creator_by_its_own_rules() {
    let phases = |creator: &str, change: Value| {
        let (exchange, flaws) = judged(creator, change);
        assert!(flaws.is_empty(), "{creator}: {flaws:?}");
        let HarPhases { dns, connect, tls, quic, send, wait, receive, .. } = exchange.phases;
        (exchange.outcome, [dns, connect, tls, quic, send, wait, receive].map(ms))
    };
    use HarOutcome::{Cached, Failed, Local, Opened, Reused, Unsaid, Untimed, Worker};
    let none = [None; 7];
    let all = |list: [f64; 7]| list.map(|time| (time >= 0.0).then_some(time));
    let reused = json!({ "timings": { "dns": 0, "connect": 0, "ssl": 0 } });
    let zeros = json!({ "time": 0, "timings": {
        "blocked": 0, "dns": 0, "connect": 0, "ssl": 0, "send": 0, "wait": 0, "receive": 0 } });
    let h3 = json!({ "response": { "httpVersion": "h3" }, "timings": { "ssl": 20 } });
    let plain = json!({ "request": { "url": "http://a.test/" }, "timings": { "ssl": 21 } });
    for (creator, change, expected) in [
        ("WebInspector", json!({}), (Opened, all([2.0, 8.0, 12.0, -1.0, 1.0, 20.0, 6.0]))),
        ("WebInspector", h3.clone(), (Opened, all([2.0, -1.0, -1.0, 20.0, 1.0, 20.0, 6.0]))),
        (
            "WebInspector",
            json!({ "time": 28, "timings": { "dns": -1, "connect": -1, "ssl": -1 } }),
            (Reused, all([-1.0, -1.0, -1.0, -1.0, 1.0, 20.0, 6.0])),
        ),
        ("WebInspector", json!({ "_fromCache": "disk" }), (Cached, none)),
        (
            "WebInspector",
            json!({ "response": { "_fetchedViaServiceWorker": true } }),
            (Worker, none),
        ),
        ("WebInspector", json!({ "response": { "_error": "net::ERR_ABORTED" } }), (Failed, none)),
        ("WebInspector", json!({ "response": { "status": 0 } }), (Failed, none)),
        ("WebInspector", zeros.clone(), (Untimed, none)),
        ("Firefox", json!({ "time": 62 }), (Opened, all([2.0, 20.0, 12.0, -1.0, 1.0, 20.0, 6.0]))),
        (
            "Firefox",
            json!({ "time": 28, "timings": { "dns": 0, "connect": 0, "ssl": 0 } }),
            (Reused, all([-1.0, -1.0, -1.0, -1.0, 1.0, 20.0, 6.0])),
        ),
        ("Firefox", zeros.clone(), (Cached, none)),
        ("Firefox", json!({ "request": { "url": "data:,x" } }), (Local, none)),
        ("WebKit Web Inspector", json!({}), (Opened, all([2.0, 8.0, 12.0, -1.0, -1.0, 20.0, 6.0]))),
        ("WebKit Web Inspector", json!({ "_fetchType": "Memory Cache" }), (Cached, none)),
        ("Playwright", json!({}), (Opened, all([2.0, 8.0, 12.0, -1.0, -1.0, 20.0, 6.0]))),
        ("Playwright", plain, (Opened, all([2.0, 20.0, -1.0, -1.0, -1.0, 20.0, 6.0]))),
        ("Playwright", json!({ "response": { "status": -1 } }), (Failed, none)),
        ("Playwright", json!({ "_wasFulfilled": true }), (Cached, none)),
        ("Browsertime", json!({ "cache": { "beforeRequest": { "hitCount": 0 } } }), (Cached, none)),
        ("WebPagetest", json!({}), (Opened, all([2.0, 8.0, 12.0, -1.0, 1.0, 20.0, 6.0]))),
        ("somebody", reused, (Unsaid, all([-1.0, -1.0, -1.0, -1.0, 1.0, 20.0, 6.0]))),
        ("somebody", zeros, (Untimed, none)),
        // TLS is longer than `connect`, which should contain it: the TCP part is unknown.
        (
            "somebody",
            json!({ "timings": { "ssl": 30 } }),
            (Opened, all([2.0, -1.0, 30.0, -1.0, 1.0, 20.0, 6.0])),
        ),
    ] {
        assert_eq!(phases(creator, change.clone()), expected, "{creator}: {change}");
    }
}

#[test]
fn what_tells_connections_apart() {
    let name = |creator: &str, change: Value| {
        let (archive, _) = read(&one(creator, change));
        archive.entries[0].connection_name(archive.rules()).map(str::to_owned)
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(
        name("WebInspector", json!({ "connection": "443", "_connectionId": "17" })),
        named("17")
    );
    assert_eq!(name("WebInspector", json!({ "connection": "443" })), None);
    // As written before there was a field for it.
    assert_eq!(name("WebInspector", json!({ "connection": "1041" })), named("1041"));
    assert_eq!(name("Firefox", json!({ "connection": "443" })), None);
    assert_eq!(name("Firefox", json!({ "connection": "8443" })), None);
    assert_eq!(name("chrome-har", json!({ "connection": "17" })), named("17"));
    assert_eq!(name("chrome-har", json!({ "connection": "0" })), None);
    assert_eq!(name("WebPagetest", json!({ "_socket": 5 })), named("5"));
    assert_eq!(name("somebody", json!({ "connection": "5" })), None);
}

#[test]
fn what_cannot_be_so_is_named_and_not_used() {
    let lies = [
        (json!({ "timings": { "wait": -20 } }), "timings.wait", "-20 ms"),
        (json!({ "timings": { "dns": 1e300 } }), "timings.dns", "1e300 ms"),
        (json!({ "timings": { "send": "1" } }), "timings.send", "a text, not a number"),
        (json!({ "timings": { "send": { "ms": 1 } } }), "timings.send", "not a number"),
        (json!({ "timings": 5 }), "timings", "not an object"),
        (json!({ "time": 500 }), "time", "500 ms, but its parts add up to 50 ms"),
        (
            json!({ "timings": { "ssl": 30 } }),
            "timings.ssl",
            "30 ms, longer than `connect` (20 ms)",
        ),
    ];
    for (change, field, says) in lies {
        let (exchange, flaws) = judged("WebInspector", change.clone());
        assert_eq!(exchange.outcome, HarOutcome::Flawed, "{change}");
        assert_eq!(exchange.phases, HarPhases::default());
        assert_eq!(flaws, [(field, says.to_owned())], "{change}");
    }
    for (number, says) in [("NaN", "NaN"), ("1e999", "1e999"), ("-Infinity", "-Infinity")] {
        let text = one("WebInspector", json!({ "time": 7_777 })).replace("7777", number);
        let (_, summary) = read(&text);
        assert_eq!(summary.exchanges[0].outcome, HarOutcome::Flawed);
        assert_eq!((summary.flaws[0].field, &*summary.flaws[0].says), ("time", says));
        assert_eq!(summary.flaws[0].entry, Some(1));
    }
    // A wrong date does not invalidate the durations.
    let (exchange, flaws) =
        judged("WebInspector", json!({ "startedDateTime": "2026-11-23T06:26:54.604" }));
    assert_eq!(exchange.outcome, HarOutcome::Opened);
    assert_eq!(flaws, [("startedDateTime", "no offset from UTC".to_owned())]);
}

#[test]
fn an_archive_is_known_by_what_is_in_it() {
    for text in EXPORTS {
        assert!(begins_archive(&text.as_bytes()[..4_096]));
    }
    for (text, is) in [
        ("\u{feff} {\"log\": {\"entries\": [", true),
        (r#"{"comment":"x","log":{"creator":{"#, true),
        (r#"{"log":"entries"}"#, false),
        (r#"{"log":{}}"#, false),
        (r#"{"format":"firstbyte/run","log":1}"#, false),
        (r#"{"constants":{"logEventTypes":{}}}"#, false),
        ("DNS,Connect,SSL", false),
        ("", false),
    ] {
        assert_eq!(begins_archive(text.as_bytes()), is, "{text}");
    }
    for (text, says) in [
        ("", "the file is empty"),
        ("{}", "it has no member `log`"),
        ("[]", "it has no member `log`"),
        (r#"{"entries":[]}"#, "it has no member `log`"),
        (r#"{"log":1}"#, "it has no member `log`"),
        (r#"{"log":{"version""#, "the file ends at byte 17, in the middle of a value"),
        ("GIF89a", "not JSON at byte 0: expected a value"),
    ] {
        let Err(HarError::NotHar { detail }) = read_archive(text.as_bytes()) else {
            panic!("{text}")
        };
        assert_eq!(detail, says, "{text}");
        let error = clean(text.as_bytes(), Vec::new()).unwrap_err();
        assert!(matches!(error, CleanError::Read(HarError::NotHar { .. })), "{text}: {error:?}");
    }
    assert_eq!(read(r#"{"log":{"entries":[]}}"#).0.end, HarEnd::Whole);
    // Once it begins like an archive, both readers agree on it.
    check(br#"{"log":{"version":"#);
    check(br#"{"log":{"x":1"#);
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let whole = CHROMIUM_HTTPS;
    let (all, _) = read(whole);
    // Within the tenth entry.
    let at = whole.match_indices("\"_initiator\"").nth(9).unwrap().0 + 40;
    let (archive, summary) = read(&whole[..at]);
    assert_eq!(archive.end, HarEnd::Cut { offset: at as u64 });
    assert_eq!(archive.entries[..], all.entries[..9]);
    assert_eq!(summary.counts.all(), 9);
    let mut out = Vec::new();
    let cleaned = clean(&whole.as_bytes()[..at], &mut out).unwrap();
    assert_eq!((cleaned.entries, cleaned.end), (9, HarEnd::Cut { offset: at as u64 }));
    assert_eq!(read(std::str::from_utf8(&out).unwrap()).0.entries.len(), 9);
    // Damage in the middle of the file.
    let damaged = whole.replacen("\"cache\": {}", "\"cache\" {}", 3);
    let (archive, _) = read(&damaged);
    assert!(matches!(archive.end, HarEnd::Damaged { .. }), "{:?}", archive.end);
    assert_eq!(archive.entries.len(), 0);
}

#[test]
fn what_is_cleaned_says_the_same_and_has_no_secret() {
    for text in EXPORTS {
        let mut out = Vec::new();
        let cleaned = clean(text.as_bytes(), &mut out).unwrap();
        let cleaned_text = String::from_utf8(out).unwrap();
        for secret in ["s3cret", "token", "Mozilla", "nginx", "doctype", "base64", "set-cookie"] {
            assert!(!cleaned_text.contains(secret), "{secret}");
            assert!(secret == "base64" || text.to_lowercase().contains(&secret.to_lowercase()));
        }
        let [(before, says_before), (after, says_after)] = [text, &*cleaned_text].map(read);
        assert_eq!(says_before, says_after);
        assert_eq!(before.entries, after.entries);
        assert_eq!(before.pages, after.pages);
        assert_eq!(cleaned.entries, before.entries.len() as u64);
        assert!(cleaned.cookies > 5 && cleaned.fields > 100 && cleaned.urls >= 5, "{cleaned:?}");
        // Numbers are copied digit by digit.
        let [old, new]: [Value; 2] =
            [text, &cleaned_text].map(|t| serde_json::from_str(t).unwrap());
        let entries = |archive: &Value| archive["log"]["entries"].as_array().unwrap().clone();
        for (old, new) in entries(&old).iter().zip(&entries(&new)) {
            assert_eq!(old["timings"], new["timings"]);
            assert_eq!(old["time"], new["time"]);
            for list in ["/request/cookies", "/request/queryString", "/response/cookies"] {
                assert_eq!(new.pointer(list).unwrap(), &json!([]));
            }
            assert_eq!(new["cache"], json!({}));
        }
        // Cleaning twice changes nothing.
        let mut again = Vec::new();
        clean(cleaned_text.as_bytes(), &mut again).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), cleaned_text);
    }
}

#[test]
fn secrets_have_nowhere_to_hide() {
    let s = "s3cret";
    let pair = json!([{ "name": s, "value": s, "comment": s }, { "name": "Date", "value": "today", s: s },
        { "name": "Content-Type", "value": "multipart/form-data; boundary=s3cret" }]);
    let change = json!({
        s: s, "comment": s, "pageref": s, "connection": "s3cret s3cret", "serverIPAddress": s,
        "_initiator": { "url": s, "stack": { s: s } }, "_webSocketMessages": [{ "data": s }],
        "cache": { "beforeRequest": { "eTag": s } }, "_priority": "s3cret:", "_securityState": s,
        "request": {
            "method": "GET", "url": "https://s3cret:s3cret@a.test/x?s3cret=s3cret#s3cret",
            "headers": pair, "cookies": pair, "queryString": pair, "comment": s,
            "postData": { "mimeType": s, "text": s, "params": pair },
        },
        "response": {
            "statusText": s, "headers": pair, "cookies": pair, "redirectURL": "/y?s3cret", "_error": s,
            "content": { "mimeType": "text/html; s3cret", "text": s, "encoding": s, s: s },
        },
        "timings": { s: s, "comment": s },
    });
    let text = one("x", change).replacen(
        "{\"log\":{",
        r#"{"s3cret":1,"log":{"comment":"s3cret","pages":[{"id":"s3cret","title":"s3cret","startedDateTime":"s3cret","pageTimings":{"s3cret":2}}],"#,
        1,
    );
    let mut out = Vec::new();
    let cleaned = clean(text.as_bytes(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(!out.contains(s), "{out}");
    assert_eq!((cleaned.cookies, cleaned.fields, cleaned.bodies, cleaned.posted), (6, 4, 1, 1));
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["log"]["entries"][0]["request"]["url"], "https://a.test/x");
    assert_eq!(value["log"]["entries"][0]["response"]["redirectURL"], "/y");
    assert_eq!(value["log"]["entries"][0]["pageref"], value["log"]["pages"][0]["id"]);
    assert_eq!(value["log"]["entries"][0]["request"]["headers"][0]["value"], "multipart/form-data");
}

/// Cleaning preserves the outcome of a request, even if free text expressed it, and removes the text.
#[test]
fn what_became_of_a_request_stays() {
    use HarOutcome::{Cached, Failed, Flawed, Opened, Reused, Worker};
    let zeros = json!({ "blocked": 0, "dns": 0, "connect": 0, "ssl": 0, "send": 0, "wait": 0, "receive": 0 });
    for (creator, change, outcome) in [
        ("WebInspector", json!({ "response": { "status": 0, "_error": "s3cret words" } }), Failed),
        ("WebInspector", json!({ "response": { "_error": "net::ERR_ABORTED" } }), Failed),
        ("Playwright", json!({ "response": { "_failureText": "NS_BINDING_ABORTED" } }), Failed),
        ("Playwright", json!({ "response": { "_failureText": "s3cret.example refused" } }), Failed),
        ("Playwright", json!({ "_wasAborted": true }), Failed),
        ("Playwright", json!({ "_wasFulfilled": true }), Cached),
        ("WebInspector", json!({ "_fromCache": "disk" }), Cached),
        ("WebInspector", json!({ "_fromCache": "s3cret cache" }), Cached),
        ("WebKit Web Inspector", json!({ "_fetchType": "Memory Cache" }), Cached),
        ("WebKit Web Inspector", json!({ "_fetchType": "Service Worker" }), Worker),
        ("WebInspector", json!({ "response": { "_fetchedViaServiceWorker": true } }), Worker),
        ("Browsertime", json!({ "cache": { "beforeRequest": { "eTag": "s3cret" } } }), Cached),
        ("Firefox", json!({ "time": 0, "timings": zeros }), Cached),
        ("WebInspector", json!({ "timings": { "dns": "s3cret" } }), Flawed),
        ("WebInspector", json!({ "time": { "s3cret": 1 } }), Flawed),
        ("WebInspector", json!({ "timings": { "wait": -7 } }), Flawed),
        ("WebInspector", json!({}), Opened),
        (
            "WebInspector",
            json!({ "time": 28, "timings": { "dns": -1, "connect": -1, "ssl": -1 } }),
            Reused,
        ),
    ] {
        let name = change.to_string();
        let text = one(creator, change);
        let mut out = Vec::new();
        clean(text.as_bytes(), &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains("s3cret"), "{out}");
        let [(before, says_before), (after, says_after)] = [&text, &out].map(|text| read(text));
        assert_eq!(says_before.exchanges[0].outcome, outcome, "{creator} {name}");
        assert_eq!(says_after.exchanges, says_before.exchanges, "{creator} {name}: {out}");
        // Its times are preserved too, even if they do not count.
        if outcome != Flawed {
            assert_eq!(before.entries[0].timings, after.entries[0].timings, "{creator} {name}");
        }
    }
}

/// Connections can still be told apart after their names have been replaced.
#[test]
fn connections_are_the_same_under_other_names() {
    let uuids = ["6f9619ff-8b86-d011-b42d-00c04fc964ff", "0e984725-c51c-4bf4-9960-e1c80e27aba0"];
    let names = [
        (json!(uuids[0]), "c1"),
        (json!(uuids[1]), "c2"),
        (json!(uuids[0]), "c1"),
        (json!("443"), "443"),
        (json!(51_234), "51234"),
        (json!(1_234_567_890_123_u64), "c3"),
        (json!("1234567890123"), "c3"),
        (json!("10.0.0.7:51234"), "c4"),
        (json!("c1"), "c5"),
    ];
    let entries: Vec<Value> = names
        .iter()
        .map(|(name, _)| {
            json!({ "connection": name, "_connectionId": name, "request": { "url": "https://a.test/" } })
        })
        .collect();
    let text = json!({ "log": { "entries": entries } }).to_string();
    let mut out = Vec::new();
    clean(text.as_bytes(), &mut out).unwrap();
    let cleaned: Value = serde_json::from_slice(&out).unwrap();
    for (entry, (name, expected)) in
        cleaned["log"]["entries"].as_array().unwrap().iter().zip(&names)
    {
        assert_eq!(entry["connection"], *expected, "{name}");
        assert_eq!(entry["_connectionId"], *expected, "{name}");
    }
}

/// One entry with a huge number of members: output and memory are bounded.
#[test]
fn an_entry_without_an_end_is_no_memory() {
    const FIELD: &str = r#"{"name":"Date","value":"Mon, 23 Nov 2026 06:27:01 GMT"},"#;
    let open = r#"{"log":{"entries":[{"time":1,"timings":{"wait":1},"request":{"url":"https://a.test/","headers":["#;
    let repeated = |piece: &'static str, times: u64| (0..times).flat_map(move |_| piece.bytes());
    /// Generates bytes on demand.
    struct Made<I>(I);
    impl<I: Iterator<Item = u8>> Read for Made<I> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let mut n = 0;
            for (place, byte) in buffer.iter_mut().zip(&mut self.0) {
                *place = byte;
                n += 1;
            }
            Ok(n)
        }
    }
    let fields = || open.bytes().chain(repeated(FIELD, 100_000)).chain("{}]}}]}}".bytes());
    let mut out = Vec::new();
    let cleaned = clean(Made(fields()), &mut out).unwrap();
    assert_eq!((cleaned.entries, cleaned.members, &cleaned.end), (1, 99_501, &HarEnd::Whole));
    assert!(out.len() < 50_000, "{}", out.len());
    let value: Value = serde_json::from_slice(&out).unwrap();
    let kept = value.pointer("/log/entries/0/request/headers").unwrap().as_array().unwrap().len();
    assert_eq!(kept, 500);
    assert_eq!(read_archive(Made(fields())).unwrap().entries.len(), 1);
    // A repeated member is written once, and only some of its flaws are kept.
    let open = r#"{"log":{"entries":[{"request":{"url":"https://a.test/"}"#;
    let again = || {
        let pieces = repeated(r#","time":"x","timings":{"dns":1}"#, 100_000);
        open.bytes().chain(pieces).chain("}]}}".bytes())
    };
    let mut out = Vec::new();
    clean(Made(again()), &mut out).unwrap();
    assert!(out.len() < 1_000, "{}", out.len());
    let archive = read_archive(Made(again())).unwrap();
    assert!(archive.flaw_count <= 50 && archive.entries[0].is_flawed, "{}", archive.flaw_count);
}

/// A title is free text, and so is an invalid redirect target.
#[test]
fn free_text_before_a_colon_is_left_out() {
    let change = json!({ "response": { "redirectURL": "s3cret words" } });
    let text = one("x", change).replacen(
        "{\"log\":{",
        r#"{"log":{"pages":[{"id":"p","title":"S3cret: a diagnosis"}],"#,
        1,
    );
    let mut out = Vec::new();
    clean(text.as_bytes(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap().to_lowercase();
    assert!(!out.contains("s3cret"), "{out}");
}

/// A reader may return a byte-order mark in pieces, as a chain after two peeked bytes does.
#[test]
fn a_byte_order_mark_is_passed_over_in_pieces() {
    let text = format!("\u{feff}{}", one("x", json!({})));
    let (begin, rest) = text.as_bytes().split_at(2);
    let whole = read_archive(text.as_bytes()).unwrap();
    let pieces = read_archive(begin.chain(rest)).unwrap();
    assert_eq!((whole.entries.len(), pieces.entries.len()), (1, 1));
}

/// A very long stream of entries that is never held in memory.
struct Endless {
    entry: Vec<u8>,
    left: usize,
    at: usize,
    begun: bool,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.begun {
            self.begun = true;
            let head = br#"{"log":{"creator":{"name":"WebInspector","version":"1"},"entries":["#;
            buffer[..head.len()].copy_from_slice(head);
            return Ok(head.len());
        }
        if self.at == self.entry.len() {
            self.left -= 1;
            self.at = 0;
        }
        match self.left {
            0 => Ok(0),
            _ => {
                let n = buffer.len().min(self.entry.len() - self.at);
                buffer[..n].copy_from_slice(&self.entry[self.at..self.at + n]);
                self.at += n;
                Ok(n)
            }
        }
    }
}

#[test]
fn a_hundred_thousand_entries_with_deep_and_long_ones() {
    let text = one(
        "WebInspector",
        json!({ "_initiator": "STACK", "response": { "content": { "text": "x".repeat(300) } } }),
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    let stack = r#"{"parent":"#.repeat(300) + "1" + &"}".repeat(300);
    let entry = value["log"]["entries"][0].to_string().replace("\"STACK\"", &stack) + ",";
    let input = Endless { entry: entry.into_bytes(), left: 100_000, at: 0, begun: false };
    let archive = read_archive(input).unwrap();
    assert!(matches!(archive.end, HarEnd::Cut { .. }));
    let summary = archive.summary();
    assert_eq!(summary.counts.with(HarOutcome::Opened), 100_000);
    assert_eq!(ms(summary.origins[0].p95(|phases| phases.connect)), Some(8.0));
}

/// Properties of any input.
fn check(bytes: &[u8]) {
    let mut out = Vec::new();
    let cleaned = clean(bytes, &mut out);
    let Ok(archive) = read_archive(bytes) else {
        assert!(cleaned.is_err());
        return;
    };
    let summary = archive.summary();
    assert_eq!(summary.counts.all(), archive.entries.len() as u64);
    assert_eq!(summary.exchanges.len(), archive.entries.len());
    for (entry, exchange) in archive.entries.iter().zip(&summary.exchanges) {
        let HarPhases { dns, connect, tls, quic, .. } = exchange.phases;
        let (_, flaws) = entry.judge(archive.rules());
        let is_flawed = entry.is_flawed || !flaws.is_empty();
        let is_local = exchange.outcome == HarOutcome::Local;
        assert!(is_local || is_flawed == (exchange.outcome == HarOutcome::Flawed));
        if !exchange.outcome.is_timed() {
            assert_eq!(exchange.phases, HarPhases::default());
        }
        if exchange.outcome == HarOutcome::Reused {
            assert_eq!([connect, tls, quic], [None; 3], "{entry:?}");
        }
        // Absent times stay absent: -1, `null` and missing values never become durations.
        let is_there = |time: Option<f64>| time.is_some_and(|time| time > -0.5);
        assert!(dns.is_none() || is_there(entry.timings.dns));
        assert!(
            (connect.is_none() && quic.is_none())
                || is_there(entry.timings.connect)
                || is_there(entry.timings.ssl)
        );
        assert!(tls.is_none() || is_there(entry.timings.ssl));
    }
    let _ = page(&archive, &summary);
    // The cleaned archive is valid JSON with as many entries as were complete.
    let cleaned = cleaned.unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}"));
    let entries = value["log"]["entries"].as_array().map_or(0, Vec::len);
    assert_eq!(entries as u64, cleaned.entries);
}

proptest! {
    #[test]
    fn whatever_bytes_come(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        check(&bytes);
    }

    #[test]
    fn an_export_that_is_cut_or_hurt(
        which in 0..EXPORTS.len(),
        at in 0.0..1.0_f64,
        with in proptest::option::of("[\\[\\]{}\",:0-9eE.\\-a-z]{0,3}"),
    ) {
        let text = EXPORTS[which].as_bytes();
        let at = (text.len() as f64 * at) as usize;
        let mut bytes = text[..at].to_vec();
        if let Some(with) = with {
            bytes.extend_from_slice(with.as_bytes());
            bytes.extend_from_slice(&text[(at + with.len()).min(text.len())..]);
        }
        check(&bytes);
    }

    #[test]
    fn times_of_any_kind(
        creator in proptest::sample::select(vec!["WebInspector", "Firefox", "Playwright", "x"]),
        times in proptest::collection::vec(proptest::option::of(proptest::sample::select(
            vec![-1.0, 0.0, -0.0, 0.5, 3.0, 40.25, -7.0, 1e308, f64::MIN_POSITIVE, -1e-14])), 8),
        status in -1..600_i64,
    ) {
        let names = ["blocked", "dns", "connect", "ssl", "send", "wait", "receive"];
        let timings: serde_json::Map<_, _> =
            names.iter().zip(&times).map(|(name, time)| ((*name).to_owned(), json!(time))).collect();
        let change = json!({ "time": times[7], "timings": timings, "response": { "status": status } });
        let text = one(creator, change);
        check(text.as_bytes());
        let mut out = Vec::new();
        clean(text.as_bytes(), &mut out).unwrap();
        let after = read_archive(&*out).unwrap().summary();
        prop_assert_eq!(after.exchanges, read_archive(text.as_bytes()).unwrap().summary().exchanges);
    }
}
