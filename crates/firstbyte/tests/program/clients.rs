//! Other clients run through the program: `--client`, and `client` as an axis.

use std::process::Command;

use firstbyte_lab::builtin_server::{Config, EarlyData, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};

struct Bench {
    server: Handle,
    directory: Directory,
}

impl Bench {
    fn new() -> Self {
        let ca = Ca::new().unwrap();
        let mut config = Config::new(ca.issue(&["site.test".to_owned()]).unwrap());
        config.early_data = EarlyData::Accept;
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        let directory = Directory::new();
        std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { server, directory }
    }

    fn run(&self, command: &str, more: &[&str]) -> Outcome {
        let port = self.server.addr().port();
        let url = format!("https://site.test:{port}/");
        let pin = format!("site.test:{port}:127.0.0.1");
        let silent = if command == "page" { None } else { Some("--silent") };
        let words = [command, &url, "--cacert", "ca.pem", "--resolve", &pin];
        let words = words.into_iter().chain(silent);
        let words: Vec<String> = words.chain(more.iter().copied()).map(str::to_owned).collect();
        firstbyte(self.directory.path(), &words)
    }
}

#[test]
fn clients_stand_beside_each_other_in_a_comparison() {
    let bench = Bench::new();
    let clients = "client=firstbyte,curl,chromium,firefox";
    let outcome = bench.run("compare", &["--vary", clients, "--vary", "http=1.1,2,3", "-n", "1"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    // curl may or may not be built with HTTP/3.
    let left_out = outcome.stderr.lines().filter(|line| line.starts_with("left out: curl, HTTP/3"));
    let proved = format!("All {} samples were verified", 12 - left_out.count());
    assert!(outcome.stdout.contains(&proved), "{}\n{}", outcome.stderr, outcome.stdout);
    for other in ["curl", "Chromium", "Firefox"] {
        let heading = format!("{other}: medians");
        assert!(outcome.stdout.contains(&heading), "{}", outcome.stdout);
    }
}

#[test]
fn another_client_stands_beside_an_explanation() {
    let bench = Bench::new();
    let outcome = bench.run("explain", &["--client", "curl", "-n", "3", "--run", "why.run"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    assert!(outcome.stdout.contains("against curl "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\nTLS handshake "), "{}", outcome.stdout);

    let words = ["explain", "--from", "why.run", "--json"].map(str::to_owned);
    let again = firstbyte(bench.directory.path(), &words);
    let whole: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
    let other = &whole["other_client"];
    assert_eq!(
        (other["client"]["name"].as_str(), other["asked"].as_u64()),
        (Some("curl"), Some(3))
    );
    let total = other["times"].as_array().unwrap().iter().find(|t| t["metric"] == "total").unwrap();
    assert_eq!(total["rounds"], 3);
    // Only our own measurements are explained: no variant of the equation belongs to another client.
    let ways: Vec<_> =
        whole["variants"].as_array().unwrap().iter().map(|way| &way["variant"]).collect();
    assert!(ways.len() > 3 && ways.iter().all(|way| **way != "other client"), "{ways:?}");
}

#[test]
fn what_a_browser_cannot_do_is_left_out_and_named() {
    let bench = Bench::new();
    let vary = ["--vary", "client=firstbyte,chromium", "--vary", "kex=x25519,p256", "-n", "1"];
    let outcome = bench.run("compare", &vary);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    let why = "left out: Chromium, X25519: Chromium cannot offer given key-exchange groups";
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    let outcome = bench.run("probe", &["--client", "chromium", "-H", "a: b"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("Chromium cannot send given header fields"),
        "{}",
        outcome.stderr
    );
    let outcome = bench.run("probe", &["--client", "netscape"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("firstbyte, curl, chromium or firefox"), "{}", outcome.stderr);
}

#[test]
fn a_page_is_shown_with_its_connections() {
    let bench = Bench::new();
    let outcome = bench.run("page", &[]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    // A second connection may be listed: the browser tries QUIC because the server announces it, and gives up.
    let first = outcome.stdout.lines().next().unwrap_or_default();
    assert!(
        first.contains("1 request · ") && first.contains(" · loaded in "),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains(" h2 new "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\nwaiting for set-up: "), "{}", outcome.stdout);
    let outcome = bench.run("page", &["--json"]);
    let page: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    // Connections tried over QUIC, because the server announces it, carry nothing.
    let connections = page["connections"].as_array().unwrap();
    let over_tcp = connections.iter().filter(|connection| connection["protocol"] != "h3");
    assert_eq!(over_tcp.count(), 1, "{page}");
    let outcome = bench.run("page", &["--client", "firefox"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    assert!(outcome.stdout.contains("site.test"), "{}", outcome.stdout);
    let outcome = bench.run("page", &["--client", "curl"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("a page needs a browser"), "{}", outcome.stderr);
}

#[test]
fn a_sample_says_who_took_it() {
    let bench = Bench::new();
    let outcome = bench.run("probe", &["--client", "chromium"]);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    let line = outcome.stdout.lines().find(|line| line.starts_with("client")).unwrap();
    assert!(line.contains("Chromium 1") && line.ends_with("BoringSSL"), "{line}");
    let outcome = bench.run("probe", &["--client", "chromium", "--json"]);
    let row: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(row["client"]["name"], "Chromium", "{row}");
}

#[test]
fn a_browser_that_is_missing_is_named_with_its_package() {
    let bench = Bench::new();
    let port = bench.server.addr().port();
    let outcome = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["--client", "chromium", &format!("https://site.test:{port}/")])
        .env("PATH", bench.directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_ne!(outcome.status.code(), Some(0));
    assert!(said.contains("apt-get install chromium"), "{said}");
}
