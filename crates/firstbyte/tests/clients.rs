//! Other clients through the program: `--client`, and `client` as an axis.
#![allow(clippy::unwrap_used, reason = "a test program")]

mod support;

use std::process::Command;

use firstbyte_lab::builtin_server::{Config, EarlyData, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;

use support::files::Directory;
use support::run::{Outcome, firstbyte};

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
        let words = [command, &url, "--cacert", "ca.pem", "--resolve", &pin, "--silent"];
        let words: Vec<String> = words.iter().chain(more).map(|word| (*word).to_owned()).collect();
        firstbyte(self.directory.path(), &words)
    }
}

#[test]
fn a_browser_stands_beside_us_in_a_comparison() {
    let bench = Bench::new();
    let vary = ["--vary", "client=firstbyte,chromium", "--vary", "http=1.1,2,3", "-n", "2"];
    let outcome = bench.run("compare", &vary);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    assert!(outcome.stdout.contains("All 12 samples proved"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("Chromium against firstbyte"), "{}", outcome.stdout);
}

#[test]
fn what_a_browser_cannot_do_is_left_out_and_named() {
    let bench = Bench::new();
    let vary = ["--vary", "client=firstbyte,chromium", "--vary", "kex=x25519,p256", "-n", "1"];
    let outcome = bench.run("compare", &vary);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    let why = "left out: Chromium, X25519: Chromium cannot be told which key-exchange groups";
    assert!(outcome.stderr.contains(why), "{}", outcome.stderr);
    let outcome = bench.run("probe", &["--client", "chromium", "-H", "a: b"]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("Chromium cannot be given header fields"),
        "{}",
        outcome.stderr
    );
    let outcome = bench.run("probe", &["--client", "netscape"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("firstbyte, curl, chromium or firefox"), "{}", outcome.stderr);
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
