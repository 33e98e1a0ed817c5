//! `firstbyte predict`: tables, exports, audiences, mistakes. How true it is: `lab/predictions.rs`.
#![allow(clippy::unwrap_used, reason = "a test program")]

mod support;

use serde_json::Value;

use support::files::Directory;
use support::run::{Outcome, firstbyte};

fn predict(directory: &Directory, arguments: &[&str]) -> Outcome {
    firstbyte(directory.path(), &[&["predict"], arguments].concat())
}

fn succeeded(arguments: &[&str]) -> String {
    let outcome = predict(&Directory::new(), arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn the_table_has_every_way() {
    let text = succeeded(&["--rtt", "80ms", "--think", "8ms", "--response", "1000"]);
    // Two round trips, the server's 8 ms, and what hosts take.
    let line = text.lines().find(|line| line.starts_with("no TLS, HTTP/1.1 ")).unwrap();
    assert!(line.contains("168.4"), "{line}");
    for way in ["TLS 1.2 full, HTTP/2", "TLS 1.3 0-RTT, HTTP/3", "TLS 1.3 kept alive, HTTP/1.1"] {
        assert!(text.lines().any(|line| line.starts_with(way)), "{way}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_way_is_drawn_with_its_flights() {
    let text = succeeded(&["--vary", "tls=1.2", "--initial-window", "2", "--chain", "5000", "-v"]);
    assert!(text.contains("tls 321.4 ms = 3 round trips") || text.contains("3 round trips × 80"));
    assert!(text.contains("ClientKeyExchange") && text.contains("simulated"), "{text}");
}

#[test]
fn json_is_that_of_samples() {
    let text = succeeded(&["--vary", "http=1.1,2,3", "--json"]);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for (line, version) in lines.iter().zip(["1.1", "2", "3"]) {
        assert_eq!(line["format"], "firstbyte/sample");
        assert_eq!(line["factors"]["http"], version);
        assert_eq!(line["http"]["version"], version);
        assert_eq!(line["marks"]["response_end"]["clock"], "simulated");
        let parts = line["split"]["parts"].as_object().unwrap();
        let sum: u64 = parts.values().map(|ns| ns.as_u64().unwrap()).sum();
        assert_eq!(sum, line["total_ns"].as_u64().unwrap());
    }
}

#[test]
fn csv_has_a_row_for_each_connection_that_loses_packets() {
    let text = succeeded(&["--vary", "tls=1.2,1.3", "--loss", "5%", "-n", "4", "--csv"]);
    assert_eq!(text.lines().count(), 1 + 2 * 4);
    assert!(text.lines().skip(1).all(|line| line.contains("simulated")), "{text}");
    let again = succeeded(&["--vary", "tls=1.2,1.3", "--loss", "5%", "-n", "4", "--csv"]);
    assert_eq!(text.lines().count(), again.lines().count());
}

#[test]
fn an_audience_is_played_before_and_after() {
    let directory = Directory::new();
    let table = "rtt_ms,weight,loss\n20,3,0\n200,1,0.5%\n";
    std::fs::write(directory.path().join("rum.csv"), table).unwrap();
    let arguments = ["--population", "rum.csv", "--change", "tls=1.2:1.3", "--connections", "4000"];
    let outcome = predict(&directory, &arguments);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("4,000 visitors: "), "{}", outcome.stdout);
    let outcome = predict(
        &directory,
        &[&arguments[..], &["--json", "--svg", "charts", "--html", "a.html"]].concat(),
    );
    let record: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let median = |side: &str| record[side]["first_byte"]["percentiles_ns"][50].as_u64().unwrap();
    // Three in four are 20 ms away, and save that much.
    let saved = median("before") - median("after");
    assert!((19_000_000..21_000_000).contains(&saved), "{saved}");
    assert_eq!(record["visitors"], 4000);
    let chart = std::fs::read_to_string(directory.path().join("charts/audience.svg")).unwrap();
    assert!(chart.contains("TLS 1.2 full, HTTP/2") && chart.contains("Total time"));
    let page = std::fs::read_to_string(directory.path().join("a.html")).unwrap();
    assert!(page.contains("4,000 visitors") && page.contains("<svg") && !page.contains("<script"));
}

#[test]
fn a_run_gives_path_chain_and_sizes() {
    use firstbyte_lab::builtin_server::{Config, Listeners, spawn};
    use firstbyte_lab::ca::{Ca, LeafOptions};
    let directory = Directory::new();
    let ca = Ca::new().unwrap();
    let options = LeafOptions { chain_bytes: Some(4_000), ..LeafOptions::default() };
    let certificate = ca.issue_with(&["localhost".to_owned()], &options).unwrap();
    let mut config = Config::new(certificate);
    config.page_bytes = 12_345;
    config.think_time = std::time::Duration::from_millis(5);
    let server = spawn(config, Listeners::loopback().unwrap()).unwrap();
    std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
    let url = format!("https://localhost:{}/", server.addr().port());
    let words = ["compare", &url, "--cacert", "ca.pem", "-4", "-s", "-n", "5", "--interval", "0"];
    let words = [&words[..], &["--vary", "tls=1.3", "--run", "a.run"]].concat();
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = predict(&directory, &["--from", "a.run", "--vary", "tls=1.3", "--json"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let line: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(line["http"]["body_bytes"], 12_345);
    assert_eq!(line["url"], url);
    let chain = line["tls"]["certificate_chain_bytes"].as_u64().unwrap();
    assert!(chain.abs_diff(4_000) <= 20, "{chain}");
    let server = line["split"]["parts"]["server_ns"].as_u64().unwrap();
    assert!((5_000_000..9_000_000).contains(&server), "{server}");
}

#[test]
fn mistakes_are_named() {
    let directory = Directory::new();
    std::fs::write(directory.path().join("rum.csv"), "rtt_ms,weight\nfar,1\n").unwrap();
    let cases: [(&[&str], u8, &str); 10] = [
        (&["--rtt", "far"], 2, "--rtt \"far\": not a time"),
        (&["--loss", "120%"], 2, "--loss"),
        (&["--chain", "100"], 2, "too short"),
        (&["--rate", "20"], 2, "write 512kbit or 20mbit"),
        (&["--vary", "tls=2"], 2, "no value of tls"),
        (&["--vary", "http=3", "--vary", "tls=1.2"], 2, "RFC 9001"),
        (&["--congestion-control", "vegas"], 2, "one of cubic, reno, bbr"),
        (&["--population", "none.csv", "--change", "tls=1.2:1.3"], 26, "none.csv"),
        (&["--population", "rum.csv", "--change", "tls=1.2:1.3"], 26, "line 2: rtt_ms is \"far\""),
        (&["--from", "rum.csv"], 26, "rum.csv"),
    ];
    for (arguments, code, says) in cases {
        let outcome = predict(&directory, arguments);
        assert_eq!(outcome.code, i32::from(code), "{arguments:?}\n{}", outcome.stderr);
        assert!(outcome.stderr.contains(says), "{arguments:?}\n{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
    }
    std::fs::write(directory.path().join("rum.csv"), "rtt_ms,weight\n20,1\n").unwrap();
    let outcome = predict(&directory, &["--population", "rum.csv", "--vary", "http=1.1,2,3"]);
    assert_eq!((outcome.code, outcome.stderr.contains("takes two ways")), (2, true));
}
