//! The shipped scenarios with one fault each: the fault costs what the scenario's story says, and nothing else is
//! wrong.

use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_core::document::SampleRecord;
use firstbyte_core::run::Standing;

use crate::support::{
    PROGRAM, Permits, assert_within, fastest, firstbyte, least, middle, phase, run, samples, sum,
    text,
};

const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(30);
/// Enough samples that other work on the machine hardly disturbs at least one of them.
const SAMPLES: usize = 15;
/// Slack for processing, in one connection and in a difference: less than half a round trip.
const SLACK: Duration = Duration::from_millis(14);

/// Runs these probes on the client of a scenario.
fn measure(scenario: &str, server: &str, probe: &[&str]) -> Vec<SampleRecord> {
    let mut command = firstbyte(&["lab", "run", scenario, "--server", server, "--", PROGRAM]);
    command.args(["--json", "--interval", "0", "-n", &SAMPLES.to_string()]).args(probe);
    let output = run(&mut command);
    assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
    let samples = samples(&output.stdout);
    for sample in &samples {
        assert_eq!(sum(&sample.connection.split.parts), sample.connection.total_ns);
        assert_eq!(sample.connection.http.as_ref().unwrap().status, Some(200));
    }
    samples
}

/// The samples of `www.NAME.test` and of `clean.NAME.test`.
fn both(scenario: &str, server: &str, flags: &[&str]) -> [Vec<SampleRecord>; 2] {
    let urls = ["www", "clean"].map(|host| format!("https://{host}.{scenario}.test/"));
    let words = [flags, &[&urls[0], &urls[1]]].concat();
    let samples = measure(scenario, server, &words);
    urls.map(|url| {
        let of_url: Vec<_> =
            samples.iter().filter(|sample| sample.requested_url == url).cloned().collect();
        assert_eq!(of_url.len(), SAMPLES, "{url}");
        of_url
    })
}

fn total(samples: &[SampleRecord]) -> Duration {
    fastest(samples, |sample| sample.connection.total_ns)
}

fn duration(samples: &[SampleRecord], name: &str) -> Duration {
    fastest(samples, |sample| phase(sample, name).unwrap().duration_ns)
}

/// Round trips of each phase, in order, in the least disturbed sample: if the machine pauses for half a round trip,
/// that looks like a round trip.
fn round_trips(samples: &[SampleRecord]) -> Vec<(&str, u32)> {
    let fastest = samples.iter().min_by_key(|sample| sample.connection.total_ns).unwrap();
    let phases = fastest.connection.split.phases.iter();
    let counted = phases.map(|phase| (phase.name.as_str(), phase.round_trips));
    counted.filter(|(_, count)| *count > 0).collect()
}

const AS_IT_SHOULD_BE: [(&str, u32); 3] = [("connect", 1), ("tls", 1), ("wait", 1)];

/// Asserts a full TLS 1.3 handshake over IPv6 in three round trips, with little other time.
fn assert_clean(samples: &[SampleRecord], rtt: Duration) {
    assert_eq!(round_trips(samples), AS_IT_SHOULD_BE);
    assert_within(total(samples), 3 * rtt + 2 * MS, SLACK, "total without a fault");
    for sample in samples {
        let tls = sample.connection.tls.as_ref().unwrap();
        assert_eq!(tls.version.as_deref(), Some("TLSv1.3"));
        assert_eq!(tls.handshake.as_deref(), Some("full"));
        assert!(tls.certificate_chain_bytes.unwrap() < 2_000);
        assert_eq!(sample.connection.attempts.len(), 1);
        assert!(sample.redirects.is_empty());
    }
    assert_eq!(retransmits(samples), 0);
}

/// Retransmits of the median sample. The kernel sends again what it believes lost (after two round trips, RFC 8985 §7),
/// and a machine that pauses for so long makes it believe that.
fn retransmits(samples: &[SampleRecord]) -> u32 {
    let of = |s: &SampleRecord| s.connection.tcp.as_ref().unwrap().retransmits.unwrap();
    let mut all: Vec<u32> = samples.iter().map(of).collect();
    all.sort_unstable();
    all[all.len() / 2]
}

/// Asserts the cost of the fault as the difference of the fastest samples; either may be late by `slack`.
#[track_caller]
fn assert_costs(fault: &[SampleRecord], clean: &[SampleRecord], cost: Duration, slack: Duration) {
    let (fault, clean) = (total(fault), total(clean));
    println!("  {fault:?} instead of {clean:?}");
    let off = fault.abs_diff(clean + cost);
    assert!(off <= slack, "{fault:?} is not {cost:?} above {clean:?}");
}

#[test]
fn clean_has_nothing_to_find() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let samples = measure("clean", server, &["https://www.clean.test/"]);
        assert_clean(&samples, 10 * MS);
    }
}

#[test]
fn nagle_costs_a_delayed_acknowledgement_and_a_round_trip() {
    let _permits = Permits::one();
    let [fault, clean] = both("nagle", "auto", &[]);
    assert_clean(&clean, RTT);
    // The kernel's timer of 40 ms, at HZ=100 in the worst case.
    assert_costs(&fault, &clean, 40 * MS + RTT, SLACK);
    assert_within(duration(&fault, "tls"), RTT, SLACK, "tls");
    assert_within(duration(&fault, "wait"), 2 * RTT + 40 * MS, SLACK, "wait");
}

#[test]
fn a_lost_syn_costs_a_second() {
    let _permits = Permits::one();
    let [fault, clean] = both("syn-loss", "auto", &[]);
    assert_clean(&clean, RTT);
    assert_costs(&fault, &clean, 1_000 * MS, 80 * MS);
    assert_within(duration(&fault, "connect"), 1_000 * MS + RTT, 80 * MS, "connect");
    assert_eq!(retransmits(&fault), 1);
    assert!(fault.iter().all(|sample| sample.connection.attempts.len() == 1));
}

#[test]
fn a_big_chain_costs_a_round_trip() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let [fault, clean] = both("big-chain", server, &[]);
        assert_clean(&clean, RTT);
        assert_costs(&fault, &clean, RTT, SLACK);
        assert_eq!(round_trips(&fault), [("connect", 1), ("tls", 2), ("wait", 1)], "{server}");
        let chain = fault[0].connection.tls.as_ref().unwrap().certificate_chain_bytes.unwrap();
        assert!(chain.abs_diff(20_000) <= 10, "{chain}");
    }
}

#[test]
fn a_hello_retry_request_costs_a_round_trip() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let [fault, clean] = both("hrr", server, &[]);
        assert_clean(&clean, RTT);
        assert_costs(&fault, &clean, RTT, SLACK);
        assert_eq!(round_trips(&fault), [("connect", 1), ("tls", 2), ("wait", 1)], "{server}");
        let tls = fault[0].connection.tls.as_ref().unwrap();
        assert_eq!(tls.handshake.as_deref(), Some("full-hello-retry-request"));
        assert_eq!(tls.group.as_deref(), Some("secp256r1"));
    }
}

#[test]
fn a_slow_resolver_costs_its_time() {
    let _permits = Permits::one();
    let samples = measure("slow-dns", "auto", &["https://www.slow-dns.test/"]);
    assert_eq!(round_trips(&samples), AS_IT_SHOULD_BE);
    assert_within(duration(&samples, "resolve"), 122 * MS, SLACK, "resolve");
    assert_within(total(&samples), 122 * MS + 3 * RTT, SLACK, "total");
    let known = "www.slow-dns.test:443:198.51.100.1";
    let samples = measure("slow-dns", "auto", &["--resolve", known, "https://www.slow-dns.test/"]);
    assert_within(total(&samples), 3 * RTT, SLACK, "total without a lookup");
}

/// RFC 8305 §3: the Resolution Delay is 50 ms.
#[test]
fn a_slow_aaaa_costs_the_resolution_delay() {
    let _permits = Permits::one();
    let url = "https://www.slow-aaaa.test/";
    let samples = measure("slow-aaaa", "auto", &[url]);
    assert_eq!(round_trips(&samples), AS_IT_SHOULD_BE);
    assert_within(duration(&samples, "resolve"), 52 * MS, SLACK, "resolve");
    for sample in &samples {
        assert!(sample.connection.remote.as_ref().unwrap().starts_with("198.51.100.1"));
    }
    let samples = measure("slow-aaaa", "auto", &["-6", url]);
    assert_within(duration(&samples, "resolve"), 202 * MS, SLACK, "resolve, IPv6 alone");
    let samples = measure("slow-aaaa", "auto", &["-4", url]);
    assert_within(duration(&samples, "resolve"), 2 * MS, SLACK, "resolve, IPv4 alone");
}

/// RFC 8305 §5: the Connection Attempt Delay is 250 ms.
#[test]
fn broken_ipv6_costs_the_attempt_delay() {
    let _permits = Permits::one();
    let [fault, clean] = both("broken-ipv6", "auto", &[]);
    assert_clean(&clean, RTT);
    assert_costs(&fault, &clean, 250 * MS, SLACK);
    for sample in &fault {
        let outcomes: Vec<_> = sample.connection.attempts.iter().map(|it| &it.outcome).collect();
        assert_eq!(outcomes, ["lost", "won"]);
        let fallback = phase(sample, "connect").unwrap().parts.fallback_ns;
        assert!(fallback > 240_000_000, "{fallback} ns");
    }
    let url = "https://www.broken-ipv6.test/";
    let samples = measure("broken-ipv6", "auto", &["-4", url]);
    assert_within(total(&samples), 3 * RTT, SLACK, "total over IPv4");
}

/// Every connection of a visit falls back, not only the first.
#[test]
fn connections_of_a_visit_fall_back_together() {
    let _permits = Permits::one();
    let url = "https://www.broken-ipv6.test/";
    let arguments = ["--requests", "6", "--parallel", "6", "--connect-timeout", "5", url];
    let samples = measure("broken-ipv6", "auto", &arguments);
    // Six handshakes share two processors with other tests, so only the fastest sample shows the path.
    let total = least(samples.into_iter().map(|sample| {
        let requests = sample.requests.unwrap();
        assert_eq!((requests.answered, requests.connections), (6, 6));
        requests.total_ns.unwrap()
    }));
    assert_within(total, 250 * MS + 3 * RTT, SLACK + 20 * MS, "total of six connections");
}

/// A single visit is as fast, but a returning visitor finds no session.
#[test]
fn without_tickets_nothing_is_resumed() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let [fault, clean] = both("no-tickets", server, &[]);
        assert_clean(&clean, RTT);
        assert_clean(&fault, RTT);
        assert_costs(&fault, &clean, Duration::ZERO, SLACK);
        let tickets = |samples: &[SampleRecord]| {
            samples.iter().map(|s| s.connection.tls.as_ref().unwrap().tickets_received).max()
        };
        assert_eq!(tickets(&fault).unwrap(), Some(0), "{server}");
        assert!(tickets(&clean).unwrap() >= Some(1), "{server}");

        for (host, resumes) in [("clean", true), ("www", false)] {
            let url = format!("https://{host}.no-tickets.test/");
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("sessions.run");
            let mut command = firstbyte(&["lab", "run", "no-tickets", "--server", server]);
            command.args(["--", PROGRAM, "compare", &url, "-n", "3", "--interval", "0"]);
            command.args(["--variant", "resumed: tls=1.3 session=resumed"]).arg("--run").arg(&file);
            let output = run(&mut command);
            let run = Run::read(&file).unwrap_or_else(|why| panic!("{why}, {output:?}"));
            let rows = run.rows.iter().filter(|row| !row.warmup);
            let proven: Vec<_> = rows.map(|row| row.standing == Standing::Proven).collect();
            assert_eq!(proven, [resumes; 3], "{server} on {host}, {output:?}");
        }
    }
}

#[test]
fn a_slow_server_costs_its_time() {
    let _permits = Permits::one();
    let [fault, clean] = both("slow-server", "auto", &[]);
    assert_clean(&clean, RTT);
    assert_eq!(round_trips(&fault), AS_IT_SHOULD_BE);
    assert_costs(&fault, &clean, 120 * MS, SLACK);
    // The part may also be too small: if times vary, some of it is reported as variation.
    let server = fault.iter().map(|s| phase(s, "wait").unwrap().parts.server_ns).collect();
    assert_within(middle(server), 115 * MS, 20 * MS, "server in wait");
}

#[test]
fn a_redirect_chain_costs_five_round_trips() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let url = "http://redirect-chain.test/";
        let samples = measure("redirect-chain", server, &["-L", url]);
        for sample in &samples {
            let hops: Vec<_> = sample.redirects.iter().map(|hop| hop.url.as_str()).collect();
            assert_eq!(hops, [url, "https://redirect-chain.test/"]);
            let status = |hop: &firstbyte_core::document::ConnectionRecord| {
                hop.http.as_ref().unwrap().status.unwrap()
            };
            assert!(sample.redirects.iter().all(|hop| status(hop) == 301));
            let trips: Vec<_> = sample.redirects.iter().map(|hop| hop.split.round_trips).collect();
            assert_eq!(trips, [2, 3], "{server}");
            assert_eq!(sample.connection.url, "https://www.redirect-chain.test/");
        }
        let before = fastest(&samples, |s| s.redirects.iter().map(|hop| hop.total_ns).sum());
        assert_within(before, 5 * RTT + 4 * MS, 2 * SLACK, "redirects");
        // The page fetched directly, by its final URL.
        let samples = measure("redirect-chain", server, &["https://www.redirect-chain.test/"]);
        assert_clean(&samples, RTT);
    }
}

#[test]
fn a_quic_retry_costs_a_round_trip() {
    let _permits = Permits::one();
    for server in ["nginx", "builtin"] {
        let [fault, clean] = both("quic-retry", server, &["--http3-only"]);
        assert_eq!(round_trips(&clean), [("quic", 1), ("wait", 1)], "{server}");
        assert_eq!(round_trips(&fault), [("quic", 2), ("wait", 1)], "{server}");
        assert_costs(&fault, &clean, RTT, SLACK);
        let retry = |samples: &[SampleRecord]| {
            samples.iter().map(|s| s.connection.quic.as_ref().unwrap().retry).collect::<Vec<_>>()
        };
        assert_eq!((retry(&fault), retry(&clean)), (vec![true; SAMPLES], vec![false; SAMPLES]));
    }
}
