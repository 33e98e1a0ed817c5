//! Several requests as one sample, on loopback: the results equal the server's log.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown};
use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_core::run::{Metric, Shortfall, Standing};
use firstbyte_lab::access_log::{AccessLog, Entry};
use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;
use serde_json::Value;

use crate::support::dns::{Answer, DnsServer};
use crate::support::files::Directory;
use crate::support::peer::{Peer, answer, drain, read_head, send};
use crate::support::run::{Outcome, firstbyte};

const BODY: u64 = 20_000;
const THINK: Duration = Duration::from_millis(40);

struct Bench {
    server: Handle,
    directory: Directory,
}

impl Bench {
    fn new() -> Self {
        let ca = Ca::new().unwrap();
        let directory = Directory::new();
        let mut config = Config::new(ca.issue(&["localhost".to_owned()]).unwrap());
        config.page_bytes = BODY as usize;
        config.think_time = THINK;
        let log = File::create(directory.path().join("access.log")).unwrap();
        config.access_log = Some(AccessLog::new(log));
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { server, directory }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/", self.server.addr().port())
    }

    fn visit(&self, more: &[&str]) -> Outcome {
        let url = self.url();
        let words = ["-4", "--cacert", "ca.pem", "-m", "10", &url];
        let words: Vec<&str> = words.iter().chain(more).copied().collect();
        firstbyte(self.directory.path(), &words)
    }

    fn requests(&self, parallel: &str) -> Value {
        let outcome = self.visit(&["--requests", "12", "--parallel", parallel, "--json"]);
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    fn log(&self) -> Vec<Entry> {
        Entry::read_all(&self.directory.path().join("access.log")).unwrap()
    }
}

fn at(exchange: &Value, mark: &str) -> i64 {
    assert_eq!(exchange[mark]["clock"], "kernel", "{exchange}");
    exchange[mark]["at_ns"].as_i64().unwrap()
}

/// Each way: its argument, number of connections, and protocol.
const WAYS: [(&str, usize, &str); 4] =
    [("1", 1, "HTTP/1.1"), ("6", 6, "HTTP/1.1"), ("h2", 1, "HTTP/2.0"), ("h3", 1, "HTTP/3.0")];

#[test]
fn the_server_saw_so_many_requests_on_so_many_connections() {
    for (parallel, connections, protocol) in WAYS {
        let bench = Bench::new();
        let sample = bench.requests(parallel);
        let requests = &sample["requests"];
        assert_eq!(requests["asked"], 12, "{parallel}");
        assert_eq!(requests["answered"], 12, "{parallel}");
        assert_eq!(requests["connections"], connections, "{parallel}");
        assert_eq!(requests["further"].as_array().unwrap().len(), connections - 1, "{parallel}");
        let log = bench.log();
        let served: BTreeSet<_> = log.iter().map(|entry| entry.connection.unwrap()).collect();
        assert_eq!((log.len(), served.len()), (12, connections), "{parallel}");
        assert!(log.iter().all(|entry| entry.protocol == protocol), "{parallel}: {log:?}");

        let exchanges = requests["exchanges"].as_array().unwrap();
        for exchange in exchanges {
            let marks = ["request_start", "request_end", "response_start", "response_end"];
            let times = marks.map(|mark| at(exchange, mark));
            assert!(times.is_sorted(), "{parallel}: {times:?}");
            assert_eq!((&exchange["status"], &exchange["body_bytes"]), (&200.into(), &BODY.into()));
            // The server's think time lies in between.
            let waited = times[2] - times[1];
            assert!(waited >= i64::try_from(THINK.as_nanos()).unwrap(), "{parallel}: {waited}");
        }
        let last = exchanges.iter().map(|exchange| at(exchange, "response_end")).max().unwrap();
        assert_eq!(requests["total_ns"], last, "{parallel}");
        assert!(sample["total_ns"].as_i64().unwrap() <= last);
        // The marks at the top level are those of the first request.
        assert_eq!(sample["marks"]["response_start"], exchanges[0]["response_start"], "{parallel}");
        assert_eq!(sample["marks"]["response_end"], exchanges[0]["response_end"], "{parallel}");
    }
}

#[test]
fn a_user_waits_for_rounds_and_not_for_requests() {
    let bench = Bench::new();
    // Rounds of think time: twelve, two, one. How many of six connections are in use at once depends on how far apart
    // they are opened.
    let ways = [("1", 1..=1, 12), ("6", 2..=6, 2), ("h2", 12..=12, 1), ("h3", 12..=12, 1)];
    for (parallel, at_once, rounds) in ways {
        let samples: Vec<Value> = (0..3).map(|_| bench.requests(parallel)).collect();
        for sample in &samples {
            let most = sample["requests"]["most_at_once"].as_u64().unwrap();
            assert!(at_once.contains(&most), "{parallel}: {most}");
        }
        let total = |sample: &Value| sample["requests"]["total_ns"].as_u64().unwrap();
        let fastest = Duration::from_nanos(samples.iter().map(total).min().unwrap());
        assert!(fastest >= THINK * rounds, "{parallel}: {fastest:?}");
        assert!(fastest < THINK * (rounds * 2 + 4), "{parallel}: {fastest:?}");
    }
}

#[test]
fn every_way_is_proven_and_kept_in_the_run() {
    let bench = Bench::new();
    let (url, directory) = (bench.url(), bench.directory.path());
    let words = ["compare", &url, "-4", "--cacert", "ca.pem", "--interval", "0", "-s", "-n", "5"];
    let more = ["--requests", "12", "--vary", "parallel=1,6,h2,h3", "--run", "a.run"];
    let words: Vec<&str> = words.iter().chain(&more).copied().collect();
    let outcome = firstbyte(directory, &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let run = Run::read(&directory.join("a.run")).unwrap();
    let names: Vec<String> = run.header.cells().iter().map(|cell| cell.name()).collect();
    let expected =
        ["one after the other", "6 connections", "one HTTP/2 connection", "one HTTP/3 connection"];
    assert_eq!(names, expected);
    let mut fastest = [u64::MAX; 4];
    for (index, row) in run.rows.iter().enumerate() {
        assert_eq!(row.standing, Standing::Proven, "{row:?}");
        let sample = run.taken(index).unwrap().sample;
        let requests = sample.requests.unwrap();
        assert_eq!((requests.answered(), requests.exchanges.len()), (12, 12));
        let total = row.metric(Metric::Total).unwrap();
        assert_eq!(i64::try_from(total).unwrap(), requests.end().unwrap().as_nanos());
        let fastest = &mut fastest[usize::from(row.cell)];
        *fastest = total.min(*fastest);
    }
    assert!(fastest[0] > fastest[1] && fastest[1] > fastest[2], "{fastest:?}");
    let reported = firstbyte(directory, &["report", "a.run", "--csv"]);
    let header = reported.stdout.lines().next().unwrap();
    assert!(header.contains("requests_connections"), "{header}");
    assert_eq!(reported.stdout.lines().count(), run.rows.len() + 1);
}

#[test]
fn a_table_of_requests_is_shown() {
    let bench = Bench::new();
    let outcome = bench.visit(&["--requests", "12", "--parallel", "6"]);
    let summary = "12 requests answered · 6 connections · ";
    assert!(outcome.stdout.contains(summary), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("other requests"), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
}

#[test]
fn what_was_not_answered_in_time_fails_the_sample() {
    let bench = Bench::new();
    let more = ["--requests", "12", "--parallel", "1", "--json", "-m", "0.07"];
    let outcome = bench.visit(&more);
    assert_eq!(outcome.code, 28, "{}", outcome.stderr);
    let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let requests = &sample["requests"];
    let answered = requests["answered"].as_u64().unwrap();
    assert!(answered < 12 && requests["total_ns"].is_null(), "{requests}");
    let last = requests["exchanges"].as_array().unwrap().last().unwrap();
    assert_eq!(last["failure"]["cause"], "timed-out", "{last}");
}

/// A server that closes each connection after its response, so that one connection cannot serve all requests.
#[test]
fn connections_that_the_server_closes_are_counted() {
    let peer = Peer::tcp(|mut stream| {
        read_head(&mut stream);
        send(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        let _ = stream.shutdown(Shutdown::Write);
        drain(&mut stream);
    });
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/", peer.port());
    let words = ["compare", &url, "--requests", "4", "--vary", "parallel=1", "--aa", "-n", "2"];
    let more = ["--interval", "0", "-s", "--run", "a.run"];
    let words: Vec<&str> = words.iter().chain(&more).copied().collect();
    firstbyte(directory.path(), &words);
    let run = Run::read(&directory.path().join("a.run")).unwrap();
    assert!(!run.rows.is_empty());
    for (index, row) in run.rows.iter().enumerate() {
        assert_eq!(row.standing, Standing::Unproven(Shortfall::OtherConnections));
        let requests = run.taken(index).unwrap().sample.requests.unwrap();
        assert_eq!((requests.answered(), requests.connections()), (4, 4));
    }
}

/// The name's IPv6 address, where nobody listens, is known first; the IPv4 address arrives while connections are tried.
#[test]
fn every_connection_falls_back_to_addresses_that_come_late() {
    let addresses = vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()];
    let dns = DnsServer::start(Answer::LateIpv4 { addresses, after: Duration::from_millis(30) });
    let resolver = dns.address.to_string();
    let directory = Directory::new();
    for (parallel, connections) in [("1", 6), ("2", 6), ("6", 6)] {
        let peer = Peer::tcp(|stream| {
            answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        });
        let url = format!("http://late.test:{}/", peer.port());
        let words = ["--requests", "6", "--parallel", parallel, "--resolver", &resolver];
        let words = [&words[..], &["--json", "-m", "10", &url]].concat();
        let outcome = firstbyte(directory.path(), &words);
        assert_eq!(outcome.code, 0, "{parallel}: {}{}", outcome.stdout, outcome.stderr);
        let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let requests = &sample["requests"];
        let counts = (&requests["answered"], &requests["connections"]);
        assert_eq!(counts, (&6.into(), &connections.into()), "{parallel}");
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    let bench = Bench::new();
    for (words, said) in [
        (&["--parallel", "6"][..], "--requests"),
        (&["--requests", "1", "--parallel", "6"], "there is one"),
        (&["--requests", "12", "--parallel", "h1"], "no way to make requests"),
        (&["--requests", "4", "--parallel", "6"], "6 connections are more than the 4 requests"),
        (&["--requests", "12", "--parallel", "6", "--http3-only"], "HTTP/1.1"),
        (&["--requests", "12", "-L"], "redirects are not followed"),
        (&["--requests", "12", "-o", "body"], "bodies are not written"),
        (&["--requests", "1001"], "the maximum is 1000"),
        (&["--requests", "12", "--client", "curl"], "one request per sample"),
    ] {
        let outcome = bench.visit(words);
        assert_eq!(outcome.code, 2, "{words:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{words:?}: {}", outcome.stderr);
    }
    let plain = firstbyte(
        bench.directory.path(),
        &["http://127.0.0.1:9/", "--requests", "12", "--parallel", "h2"],
    );
    assert!(plain.stderr.contains("require https"), "{}", plain.stderr);
}
