//! Counts of round trips, and times, compared with the configured delays.

use std::time::Duration;

use firstbyte_core::document::SampleRecord;

use crate::support::{
    LINKS, Permits, RTT_RESOLVER, RTT_V4, RTT_V6, Scene, assert_within, fastest, phase, sum,
};

const TLS12: &[&str] = &["--tls-max", "1.2"];
const TLS13: &[&str] = &["--tlsv1.3"];
const HTTPS: &str = "https://server.test/";
const MS: Duration = Duration::from_millis(1);

#[test]
fn nginx_tls13() {
    over_both_families("nginx", TLS13, HTTPS, 1, Some("h2"));
}

#[test]
fn nginx_tls12() {
    over_both_families("nginx", TLS12, HTTPS, 2, Some("h2"));
}

#[test]
fn nginx_http11_over_tls13() {
    over_both_families("nginx", &["--tlsv1.3", "--http1.1"], HTTPS, 1, Some("http/1.1"));
}

#[test]
fn nginx_without_tls() {
    over_both_families("nginx", &[], "http://server.test/", 0, None);
}

#[test]
fn builtin_tls13() {
    over_both_families("builtin", TLS13, HTTPS, 1, Some("h2"));
}

#[test]
fn builtin_tls12() {
    over_both_families("builtin", TLS12, HTTPS, 2, Some("h2"));
}

#[test]
fn builtin_without_tls() {
    over_both_families("builtin", &[], "http://server.test/", 0, None);
}

fn over_both_families(
    server: &str,
    flags: &[&str],
    url: &str,
    tls_round_trips: u32,
    alpn: Option<&str>,
) {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    for (family, rtt) in [("-4", RTT_V4), ("-6", RTT_V6)] {
        let probe = [&[family, "-n", "15"], flags, &[url]].concat();
        let samples = scene.measure(&["--server", server], &probe);
        assert_eq!(samples.len(), 15);
        for sample in &samples {
            check(sample, tls_round_trips, alpn, family == "-6");
        }
        check_round_trips(&samples, tls_round_trips);
        check_times(&samples, rtt, tls_round_trips);
    }
}

/// Checks that hold for every sample.
fn check(sample: &SampleRecord, tls_round_trips: u32, alpn: Option<&str>, ipv6: bool) {
    let connection = &sample.connection;
    assert_eq!(connection.failure.as_ref().map(|f| &f.message), None);
    assert_eq!(connection.remote.as_ref().unwrap().starts_with('['), ipv6);
    assert_eq!(connection.http.as_ref().unwrap().status, Some(200));

    assert_eq!(phase(sample, "tls").is_some(), tls_round_trips > 0);

    let tls = connection.tls.as_ref();
    let version = ["", "TLSv1.3", "TLSv1.2"][tls_round_trips as usize];
    assert_eq!(tls.map_or("", |tls| tls.version.as_deref().unwrap()), version);
    assert_eq!(tls.and_then(|tls| tls.alpn.as_deref()), alpn);

    assert_eq!(sum(&connection.split.parts), connection.total_ns);
    for phase in &connection.split.phases {
        assert_eq!(sum(&phase.parts), phase.duration_ns, "{}", phase.name);
    }
    let total: u64 = connection.split.phases.iter().map(|phase| phase.duration_ns).sum();
    assert_eq!(total, connection.total_ns);

    assert!(connection.flights.len() >= 2);
    for chunk in connection.flights.iter().flat_map(|flight| &flight.chunks) {
        // Derived if the kernel merged the server's Finished with its settings.
        assert!(["kernel", "kernel-derived"].contains(&chunk.clock.as_str()), "{}", chunk.clock);
    }
    for mark in ["request_start", "request_end", "response_start", "response_end"] {
        assert_eq!(connection.marks[mark].clock, "kernel", "{mark}");
    }
}

/// Checks nearly all samples: if the machine pauses for a round trip during a flight, an extra round trip is counted.
fn check_round_trips(samples: &[SampleRecord], tls_round_trips: u32) {
    let counted = |sample: &SampleRecord| {
        let of = |name| phase(sample, name).map_or(0, |phase| phase.round_trips);
        ([of("connect"), of("tls"), of("wait")], sample.connection.split.round_trips)
    };
    let counted: Vec<_> = samples.iter().map(counted).collect();
    let expected = ([1, tls_round_trips, 1], 2 + tls_round_trips);
    let other = counted.iter().filter(|counts| **counts != expected).count();
    assert!(other * 3 <= samples.len(), "{counted:?}");
}

/// Checks the times of the least disturbed sample.
fn check_times(samples: &[SampleRecord], rtt: Duration, tls_round_trips: u32) {
    let duration = |name| fastest(samples, |s| phase(s, name).unwrap().duration_ns);
    let network = |name| fastest(samples, |s| phase(s, name).unwrap().parts.network_ns);
    let server = |name| fastest(samples, |s| phase(s, name).unwrap().parts.server_ns);
    let client = |name| fastest(samples, |s| phase(s, name).unwrap().parts.client_ns);

    // A timestamp that is late by itself, as in a paused virtual machine, shortens the phase that begins with it.
    let about = |time, trips: u32, what| {
        assert_within(time, rtt * trips - MS, MS + rtt * trips / 8, what);
    };
    about(fastest(samples, |s| s.connection.split.rtt_ns.unwrap()), 1, "round trip");
    about(duration("connect"), 1, "connect");
    about(network("wait"), 1, "network in wait");
    // The tolerance is far less than a missing or an extra round trip.
    assert_within(server("wait"), Duration::ZERO, rtt / 4, "server in wait");
    assert_within(duration("wait"), rtt - MS, rtt / 4, "wait");
    if tls_round_trips > 0 {
        let trips = rtt * tls_round_trips;
        about(network("tls"), tls_round_trips, "network in tls");
        assert_within(server("tls"), Duration::ZERO, rtt / 2, "server in tls");
        assert_within(client("tls"), Duration::ZERO, rtt / 2, "client in tls");
        assert_within(duration("tls"), trips - MS, rtt * 3 / 4, "tls");
    }
}

#[test]
fn a_and_aaaa_are_timed_apart() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let samples = scene.measure(&[], &["-n", "15", HTTPS]);
    for record_type in ["A", "AAAA"] {
        let lookup = |sample: &SampleRecord| {
            let [lookup] = sample
                .connection
                .lookups
                .iter()
                .filter(|lookup| lookup.record_type == record_type)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            lookup.clone()
        };
        let took = fastest(&samples, |sample| {
            let lookup = lookup(sample);
            assert_eq!(lookup.addresses.len(), 1, "{record_type}");
            u64::try_from(lookup.end_ns.unwrap() - lookup.start_ns).unwrap()
        });
        // The process reads this time and may have to wait for a processor, so the bound is just less than a second
        // round trip.
        assert_within(took, RTT_RESOLVER, 15 * MS, record_type);
    }
    // The IPv6 answer came first, so nothing waited for the other.
    let resolve = fastest(&samples, |sample| phase(sample, "resolve").unwrap().duration_ns);
    assert_within(resolve, RTT_RESOLVER, 15 * MS, "resolve");
    assert!(samples.iter().all(|sample| sample.connection.attempts.len() == 1));
}
