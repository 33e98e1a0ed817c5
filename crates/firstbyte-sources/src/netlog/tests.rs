//! Requests of logs whose truth is known (`fixtures/netlog/README.md`), and of the same logs truncated, malformed, or
//! of another version.
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::net_export::NetExportReader;
use super::*;

const MIXED: &[u8] = include_bytes!("../../fixtures/netlog/mixed.json");
const STALL: &[u8] = include_bytes!("../../fixtures/netlog/pool-stall.json");
const QUIC_REFUSED: &[u8] = include_bytes!("../../fixtures/netlog/quic-refused.json");
const QUIC_UNANSWERED: &[u8] = include_bytes!("../../fixtures/netlog/quic-unanswered.json");
const HTTP2: &[u8] = include_bytes!("../../fixtures/netlog/http2.json");
const HTTP3: &[u8] = include_bytes!("../../fixtures/netlog/http3.json");
const NEWER: &[u8] = include_bytes!("../../fixtures/netlog/happy-eyeballs-v3.json");
const NEWER_QUIC: &[u8] = include_bytes!("../../fixtures/netlog/happy-eyeballs-v3-quic.json");
const PROXY: &[u8] = include_bytes!("../../fixtures/netlog/proxy.json");

struct Read {
    requests: Vec<NetLogRequest>,
    result: Result<bool, NetLogError>,
    unnamed: u64,
}

impl Read {
    fn request(&self, url: &str) -> &NetLogRequest {
        let mut found = self.requests.iter().filter(|request| request.url.ends_with(url));
        found.next().unwrap_or_else(|| panic!("{url}"))
    }
}

fn read(bytes: &[u8]) -> Read {
    let mut reader = NetExportReader::only(NetLogReduction::wants);
    let (mut reduction, mut requests) = (NetLogReduction::default(), Vec::new());
    let mut events = Vec::new();
    let result = reader.feed(bytes, |event| events.push(event));
    for event in &events {
        reduction.push(event, &reader, &mut |request| requests.push(request));
    }
    reduction.finish(&reader, &mut |request| requests.push(request));
    let result = result.map(|()| reader.is_whole());
    Read { requests, result, unnamed: reduction.unnamed() }
}

/// A log of `events`, each of one source, with its own names and numbers.
fn log(events: &[Value]) -> Vec<u8> {
    let names: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let kinds: Vec<&str> =
        events.iter().filter_map(|event| event["source"]["type"].as_str()).collect();
    let table = |names: &[&str]| -> Value {
        names
            .iter()
            .enumerate()
            .map(|(at, name)| ((*name).to_owned(), json!(at + 7)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let (types, sources) = (table(&names), table(&kinds));
    let events: Vec<Value> = events
        .iter()
        .map(|event| {
            let mut event = event.clone();
            event["type"] = types[event["type"].as_str().unwrap()].clone();
            event["source"]["type"] = sources[event["source"]["type"].as_str().unwrap()].clone();
            event
        })
        .collect();
    json!({
        "constants": {
            "logEventTypes": types,
            "logSourceType": sources,
            "logEventPhase": { "PHASE_NONE": 40, "PHASE_BEGIN": 41, "PHASE_END": 42 },
            "netError": { "ERR_ABORTED": -3, "ERR_TIMED_OUT": -7 },
        },
        "events": events,
    })
    .to_string()
    .into_bytes()
}

fn event(source: (u64, &str), at: &str, phase: u64, name: &str, params: Value) -> Value {
    json!({
        "source": { "id": source.0, "type": source.1 }, "time": at, "phase": phase, "type": name,
        "params": params,
    })
}

const BEGIN: u64 = 41;
const END: u64 = 42;
const POINT: u64 = 40;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn kinds(request: &NetLogRequest) -> Vec<&'static str> {
    request.findings.iter().map(|finding| finding.kind.name()).collect()
}

#[test]
fn a_name_server_that_takes_400_ms_is_a_slow_lookup() {
    let log = read(MIXED);
    let slow = log.request("//slow.site.test:18460/");
    let lookup = slow.lookup.as_ref().unwrap();
    assert_eq!((lookup.took, &lookup.sources[..]), (Some(ms(402)), &[LookupSource::Dns][..]));
    assert_eq!(kinds(slow), ["slow-dns"]);
    assert_eq!(slow.findings[0].cost, Some(ms(402)));
    assert_eq!((slow.stream, slow.total), (Some(ms(407)), Some(ms(409))));
    // A second lookup is answered from the cache.
    let again = log.request(":18461/again").lookup.as_ref().unwrap();
    assert_eq!(again.sources, [LookupSource::Cache]);
}

#[test]
fn addresses_that_fail_or_do_not_answer_are_tried_first() {
    let log = read(MIXED);
    let hole = log.request("//hole.site.test:18460/");
    let ends: Vec<_> = hole.attempts.iter().map(|it| (&*it.address, it.end.clone())).collect();
    assert_eq!(
        ends,
        [("[2001:db8::1]:18460", AttemptEnd::GivenUp), ("127.0.0.1:18460", AttemptEnd::Connected)]
    );
    assert_eq!((kinds(hole), hole.findings[0].cost), (vec!["fallback"], Some(ms(301))));
    // An address that refuses at once costs nothing: no finding.
    let six = log.request("//six.site.test:18460/");
    assert_eq!(six.attempts[0].end, AttemptEnd::Failed("ERR_CONNECTION_REFUSED".into()));
    assert_eq!(kinds(six), [""; 0]);
}

#[test]
fn handshakes_are_full_resumed_of_tls_12_or_asked_again() {
    let log = read(MIXED);
    let tls = |url: &str| log.request(url).connection.as_ref().unwrap();
    let first = tls(":18461/");
    assert_eq!((first.tls_version.as_deref(), first.resumed), (Some("TLS 1.2"), Some(false)));
    assert_eq!(kinds(log.request(":18461/")), ["tls-1.2"]);
    let again = tls(":18461/again");
    assert_eq!((again.resumed, again.ticket_held), (Some(true), true));
    assert_eq!(kinds(log.request(":18461/again")), [""; 0]);
    let retried = tls(":18462/one");
    assert_eq!((retried.hello_retry, retried.group.as_deref()), (Some(ms(11)), Some("secp384r1")));
    assert_eq!(kinds(log.request(":18462/one")), ["hello-retry-request"]);
    assert_eq!(retried.cipher_suite.as_deref(), Some("TLS_AES_256_GCM_SHA384"));
    assert_eq!(tls(":18462/two").resumed, Some(true));
}

#[test]
fn what_failed_says_why() {
    let log = read(MIXED);
    let refused = log.request(":18464/refused");
    assert_eq!(refused.error.as_deref(), Some("ERR_CONNECTION_REFUSED"));
    assert_eq!(refused.attempts.len(), 1);
    assert_eq!((refused.winner(), &refused.connection), (None, &None));
    let none = log.request("//none.site.test:18460/");
    let lookup = none.lookup.as_ref().unwrap();
    assert_eq!(lookup.error.as_deref(), Some("ERR_NAME_NOT_RESOLVED"));
    assert_eq!(lookup.sources, [LookupSource::Dns, LookupSource::System]);
}

/// Twelve images that take 200 ms each over HTTP/1.1: six are requested at once, the other six wait for them.
#[test]
fn six_requests_wait_for_the_six_before_them() {
    let log = read(STALL);
    assert_eq!(log.requests.len(), 13);
    let stalled: Vec<_> = log.requests.iter().filter(|it| it.stall.is_some()).collect();
    assert_eq!(stalled.len(), 6);
    for request in stalled {
        let stall = request.stall.as_ref().unwrap();
        assert_eq!(stall.limit, PoolLimit::Host);
        assert!((ms(180)..ms(210)).contains(&stall.took.unwrap()), "{request:?}");
        assert_eq!(kinds(request), ["pool-stall"]);
        assert!(matches!(request.origin, Some(SocketOrigin::Idle { idle: Some(Duration::ZERO) })));
    }
    // The page requested "/slow/200?user=me&n=3".
    assert!(log.requests.iter().all(|request| !format!("{request:?}").contains("user=me")));
}

/// Alt-Svc leads to a port without a listener; afterwards the browser remembers the failure.
#[test]
fn quic_that_is_refused_costs_little_and_is_not_tried_again() {
    let log = read(QUIC_REFUSED);
    let first = log.request("/slow/2500");
    let jobs: Vec<_> = first.jobs.iter().map(|job| (&*job.name, job.outcome.clone())).collect();
    assert_eq!(
        jobs,
        [
            ("alternative", JobOutcome::Failed("ERR_QUIC_HANDSHAKE_FAILED".into())),
            ("dns_alpn_h3", JobOutcome::NothingToTry),
            ("main", JobOutcome::Won)
        ]
    );
    assert_eq!((kinds(first), first.findings[0].cost), (vec!["quic-failed"], Some(ms(1))));
    for n in 1..4 {
        let later = log.request(&format!("/next/{n}"));
        assert!(later.alternative.as_ref().unwrap().broken);
        assert_eq!((kinds(later), later.jobs.len()), (vec!["quic-broken"], 2));
    }
}

/// Alt-Svc leads to a port that drops everything. TCP was not held back for it.
#[test]
fn quic_that_is_not_answered_is_told_though_nobody_waited() {
    let log = read(QUIC_UNANSWERED);
    let next = log.request("/next/1");
    let alternative = &next.jobs[0];
    assert_eq!((alternative.answered, alternative.connect), (Some(false), Some(ms(2578))));
    assert_eq!((kinds(next), next.findings[0].cost), (vec!["quic-failed"], Some(ms(0))));
}

#[test]
fn connections_of_http2_and_http3_are_shared_and_coalesced() {
    for (bytes, alpn, transport) in
        [(HTTP2, "h2", NetLogTransport::Tcp), (HTTP3, "h3", NetLogTransport::Quic)]
    {
        let log = read(bytes);
        let origin = |url: &str| log.request(url).origin;
        assert_eq!(origin("//site.test:18450/"), Some(SocketOrigin::New));
        assert_eq!(origin("/a.txt"), Some(SocketOrigin::Shared));
        assert_eq!(origin("/c.txt"), Some(SocketOrigin::Shared));
        assert_eq!(origin("//b.site.test:18450/b.txt"), Some(SocketOrigin::Coalesced));
        for request in &log.requests {
            let connection = request.connection.as_ref().unwrap();
            assert_eq!((connection.alpn.as_deref(), connection.transport), (Some(alpn), transport));
            assert_eq!(connection.number, log.requests[0].connection.as_ref().unwrap().number);
        }
    }
    let http3 = read(HTTP3);
    let connection = http3.requests[0].connection.as_ref().unwrap();
    assert_eq!(connection.quic_version.as_deref(), Some("RFCv1"));
    assert_eq!((connection.handshake, connection.lost_packets), (Some(ms(23)), 1));
}

#[test]
fn a_proxy_is_named_with_what_its_tunnel_took() {
    let log = read(PROXY);
    let page = log.request(":18443/");
    assert_eq!(page.proxy.as_deref(), Some("127.0.0.1:18990"));
    assert_eq!(page.tunnel, Some(ms(52)));
    assert!(log.requests.iter().all(|request| request.proxy.is_some()));
}

/// The newer pool, which has attempts in place of jobs, gives the same results for the same page.
#[test]
fn the_newer_pool_has_the_same_attempts_and_findings() {
    let log = read(NEWER);
    assert_eq!(log.requests.len(), 13);
    let ends = |url: &str| -> Vec<_> {
        log.request(url).attempts.iter().map(|it| (it.address.clone(), it.end.clone())).collect()
    };
    let (six, four) = ("[::1]:18460".to_owned(), "127.0.0.1:18460".to_owned());
    let refused = AttemptEnd::Failed("ERR_CONNECTION_REFUSED".into());
    assert_eq!(
        ends("//six.site.test:18460/"),
        [(six, refused), (four.clone(), AttemptEnd::Connected)]
    );
    let hole = log.request("//hole.site.test:18460/");
    assert_eq!((kinds(hole), hole.findings[0].cost), (vec!["fallback"], Some(ms(252))));
    assert_eq!(kinds(log.request("//slow.site.test:18460/")), ["slow-dns"]);
    assert_eq!(kinds(log.request(":18461/")), ["tls-1.2"]);
    assert_eq!(kinds(log.request(":18462/one")), ["hello-retry-request"]);
    assert_eq!(log.request(":18462/two").connection.as_ref().unwrap().resumed, Some(true));
    let page = |url: &str| log.request(url).origin;
    assert_eq!(page(":18459/"), Some(SocketOrigin::New));
    // The log does not tell which idle socket a request gets.
    assert_eq!(page("/slow/3000"), None);
    let none = log.request("//none.site.test:18460/");
    assert_eq!(none.error.as_deref(), Some("ERR_NAME_NOT_RESOLVED"));
    let quic = read(NEWER_QUIC);
    let job = quic.request("/next/1").jobs.iter().find(|job| job.quic).unwrap();
    assert_eq!((&job.outcome, job.answered), (&JobOutcome::Lost, Some(false)));
    // The job ends before its connection attempt does.
    assert_eq!(job.connect, None);
}

#[test]
fn sums_are_those_of_the_requests() {
    let mut summary = NetLogSummary::keeping(3);
    read(MIXED).requests.into_iter().for_each(|request| summary.add(request));
    let hosts = summary.hosts();
    assert_eq!((&*hosts[0].host, hosts[0].waited), ("slow.site.test:18460", ms(407)));
    assert!(hosts.is_sorted_by(|a, b| a.waited >= b.waited));
    let found: Vec<_> = summary.findings().iter().map(|it| (it.kind.name(), it.cost)).collect();
    assert_eq!(
        found,
        [
            ("slow-dns", Some(ms(402))),
            ("fallback", Some(ms(301))),
            ("hello-retry-request", Some(ms(15))),
            ("tls-1.2", Some(ms(1)))
        ]
    );
    assert_eq!(summary.slowest().len(), 3);
    assert_eq!(summary.requests(), 13);
}

#[test]
fn hosts_are_told_apart_up_to_a_most() {
    let mut summary = NetLogSummary::keeping(0);
    for n in 0..5_000 {
        let host = format!("h{n}.test");
        summary.add(NetLogRequest { host, stream: Some(ms(1)), ..NetLogRequest::default() });
    }
    let hosts = summary.hosts();
    assert_eq!(hosts.len(), 4_097);
    assert_eq!((&*hosts[0].host, hosts[0].requests), (summary::OTHER_HOSTS, 904));
}

/// An older Chromium: other names for the same events, several addresses in one socket.
#[test]
fn names_of_older_versions_say_the_same() {
    let (request, controller, job) =
        ((1, "URL_REQUEST"), (2, "HTTP_STREAM_JOB_CONTROLLER"), (3, "HTTP_STREAM_JOB"));
    let (connect, socket, resolver) =
        ((4, "TRANSPORT_CONNECT_JOB"), (5, "SOCKET"), (6, "HOST_RESOLVER_IMPL_JOB"));
    let to = |number: u64| json!({ "source_dependency": { "id": number, "type": 0 } });
    let none = || json!({});
    let events = [
        event(
            request,
            "100",
            BEGIN,
            "URL_REQUEST_START_JOB",
            json!({ "url": "http://a.test/?q", "method": "GET" }),
        ),
        event(request, "100", POINT, "SOMETHING_NEW", json!({ "url": "http://b.test/" })),
        event(request, "100", BEGIN, "HTTP_STREAM_REQUEST", none()),
        event(request, "100", POINT, "HTTP_STREAM_JOB_CONTROLLER_BOUND", to(2)),
        event(controller, "100", POINT, "HTTP_STREAM_REQUEST_STARTED_JOB", to(3)),
        event(job, "100", BEGIN, "SOCKET_POOL", none()),
        event(connect, "100", BEGIN, "CONNECT_JOB", none()),
        event(connect, "100", BEGIN, "HOST_RESOLVER_IMPL_REQUEST", none()),
        event(connect, "100", POINT, "HOST_RESOLVER_IMPL_JOB_ATTACH", to(6)),
        event(resolver, "100", BEGIN, "HOST_RESOLVER_IMPL_PROC_TASK", none()),
        event(resolver, "130", END, "HOST_RESOLVER_IMPL_JOB", none()),
        event(connect, "130", END, "HOST_RESOLVER_IMPL_REQUEST", none()),
        event(socket, "130", BEGIN, "SOCKET_ALIVE", to(4)),
        event(socket, "130", BEGIN, "TCP_CONNECT_ATTEMPT", json!({ "address": "[::1]:80" })),
        event(socket, "140", END, "TCP_CONNECT_ATTEMPT", json!({ "os_error": 110 })),
        event(socket, "140", BEGIN, "TCP_CONNECT_ATTEMPT", json!({ "address": "127.0.0.1:80" })),
        event(socket, "145", END, "TCP_CONNECT_ATTEMPT", none()),
        event(socket, "145", END, "TCP_CONNECT", none()),
        event(job, "145", POINT, "SOCKET_POOL_BOUND_TO_CONNECT_JOB", to(4)),
        event(job, "145", POINT, "SOCKET_POOL_BOUND_TO_SOCKET", to(5)),
        event(connect, "145", END, "CONNECT_JOB", none()),
        event(job, "145", END, "SOCKET_POOL", none()),
        event(request, "145", POINT, "HTTP_STREAM_REQUEST_BOUND_TO_JOB", to(3)),
        event(request, "145", END, "HTTP_STREAM_REQUEST", none()),
        event(job, "145", END, "HTTP_STREAM_JOB", none()),
        event(request, "150", END, "REQUEST_ALIVE", none()),
    ];
    let log = read(&log(&events));
    assert_eq!(log.result, Ok(true));
    let [request] = &log.requests[..] else { panic!("{}", log.requests.len()) };
    assert_eq!((&*request.url, request.total), ("http://a.test/", Some(ms(50))));
    let lookup = request.lookup.as_ref().unwrap();
    assert_eq!((lookup.took, lookup.sources[0]), (Some(ms(30)), LookupSource::System));
    let attempt = |n: usize| (&*request.attempts[n].address, request.attempts[n].end.clone());
    assert_eq!(attempt(0), ("[::1]:80", AttemptEnd::Failed("system error 110".into())));
    assert_eq!(attempt(1), ("127.0.0.1:80", AttemptEnd::Connected));
    assert_eq!(kinds(request), ["slow-dns", "fallback"]);
    assert_eq!(request.findings[1].cost, Some(ms(10)));
}

#[test]
fn stamps_that_go_back_or_are_none_give_no_durations() {
    let request = (1, "URL_REQUEST");
    let url = json!({ "url": "https://a.test/" });
    let events = [
        event(request, "100", BEGIN, "REQUEST_ALIVE", url),
        event(request, "1e308", BEGIN, "HTTP_STREAM_REQUEST", json!({})),
        event(request, "9223372036854775807", END, "HTTP_STREAM_REQUEST", json!({})),
        event(request, "90", BEGIN, "HTTP_TRANSACTION_SEND_REQUEST", json!({ "net_error": 1e308 })),
        event(request, "-5", END, "HTTP_TRANSACTION_SEND_REQUEST", json!(7)),
        event(request, "50", END, "REQUEST_ALIVE", json!({ "net_error": "none" })),
    ];
    let log = read(&log(&events));
    assert_eq!(log.result, Ok(true));
    let request = &log.requests[0];
    assert_eq!((request.total, request.send, request.stream), (None, None, None));
    assert_eq!(request.error, None);
}

#[test]
fn a_redirect_is_a_request_by_itself() {
    let request = (1, "URL_REQUEST");
    let url = |url: &str| json!({ "url": url });
    let events = [
        event(request, "0", BEGIN, "REQUEST_ALIVE", url("http://a.test/")),
        event(request, "0", BEGIN, "URL_REQUEST_START_JOB", url("http://a.test/")),
        event(request, "5", BEGIN, "HTTP_TRANSACTION_SEND_REQUEST", json!({})),
        event(request, "6", END, "HTTP_TRANSACTION_SEND_REQUEST", json!({})),
        event(
            request,
            "9",
            POINT,
            "HTTP_TRANSACTION_READ_RESPONSE_HEADERS",
            json!({ "headers": ["HTTP/1.1 301 Moved", "Set-Cookie: secret"] }),
        ),
        event(request, "10", BEGIN, "URL_REQUEST_START_JOB", url("https://a.test/")),
        event(
            request,
            "30",
            POINT,
            "HTTP_TRANSACTION_READ_RESPONSE_HEADERS",
            json!({ "headers": ["HTTP/1.1 200", "a: b"] }),
        ),
        event(request, "40", END, "REQUEST_ALIVE", json!({})),
    ];
    let requests = read(&log(&events)).requests;
    let seen: Vec<_> = requests.iter().map(|it| (&*it.url, it.status, it.total)).collect();
    assert_eq!(
        seen,
        [("http://a.test/", Some(301), Some(ms(10))), ("https://a.test/", Some(200), Some(ms(30)))]
    );
    assert!(!format!("{requests:?}").contains("secret"));
}

#[test]
fn what_begins_behind_its_beginning_is_counted() {
    let events = [event((1, "URL_REQUEST"), "0", END, "REQUEST_ALIVE", json!({}))];
    let log = read(&log(&events));
    assert_eq!((log.requests.len(), log.unnamed), (0, 1));
}

#[test]
fn what_a_log_is_its_first_bytes_say() {
    for log in [MIXED, b"\xef\xbb\xbf { \"constants\" :", b"{\n\t\"constants\":{"] {
        assert!(net_export::begins_like(log));
    }
    for other in [&b"{\"format\":\"firstbyte/run\"}"[..], b"{\"log\":{}}", b"[{\"constants\"", b""]
    {
        assert!(!net_export::begins_like(other));
    }
}

#[test]
fn a_log_without_its_constants_is_none() {
    for bad in [&b"{\"events\":[{}]}"[..], b"{\"constants\":{]}", b"[]", b"{1:2}"] {
        assert!(read(bad).result.is_err(), "{bad:?}");
    }
    // Constants without names: no event is known.
    let log = read(b"{\"constants\":{},\"events\":[{\"time\":\"1\",\"type\":1,\"phase\":1,\"source\":{\"id\":1,\"type\":1}}]}");
    assert_eq!((log.result, log.requests.len()), (Ok(true), 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn cut_anywhere_it_shows_what_was_whole(end in 0..MIXED.len()) {
        let cut = read(&MIXED[..end]);
        prop_assert!(cut.result.is_ok());
        let whole = read(MIXED);
        prop_assert!(cut.requests.len() <= whole.requests.len());
        // Requests that end before the cut are the same as in the whole log.
        for request in cut.requests.iter().filter(|request| request.total.is_some()) {
            let same = whole.requests.iter().any(|other| {
                (&other.url, other.total, &other.error, other.stream)
                    == (&request.url, request.total, &request.error, request.stream)
            });
            prop_assert!(same, "{request:?}");
        }
    }

    #[test]
    fn pieces_change_nothing(size in 1usize..3_000) {
        let mut reader = NetExportReader::only(NetLogReduction::wants);
        let mut events = 0;
        for piece in HTTP2.chunks(size) {
            reader.feed(piece, |_| events += 1).unwrap();
        }
        let mut whole = 0;
        NetExportReader::only(NetLogReduction::wants).feed(HTTP2, |_| whole += 1).unwrap();
        prop_assert_eq!((events, reader.is_whole()), (whole, true));
    }

    #[test]
    fn garbled_it_ends_no_program(
        places in prop::collection::vec((0..QUIC_REFUSED.len(), any::<u8>()), 1..20),
    ) {
        let mut bytes = QUIC_REFUSED.to_vec();
        for (place, byte) in places {
            bytes[place] = byte;
        }
        let log = read(&bytes);
        prop_assert!(log.requests.len() <= 400);
    }

    /// Changed numbers: sources that others refer to wrongly, ends without beginnings.
    #[test]
    fn sources_that_are_mixed_up_end_no_program(shift in 1u64..40, every in 1usize..9) {
        let mut log: Value = serde_json::from_slice(QUIC_UNANSWERED).unwrap();
        for event in log["events"].as_array_mut().unwrap().iter_mut().step_by(every) {
            let id = event["source"]["id"].as_u64().unwrap();
            event["source"]["id"] = json!(id % 97 + shift);
        }
        let read = read(log.to_string().as_bytes());
        prop_assert_eq!(read.result, Ok(true));
    }
}
