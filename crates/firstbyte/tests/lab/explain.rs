//! `explain` in the shipped scenarios: each fault is one finding, and nothing else is found.

use serde_json::Value;

use crate::support::{PROGRAM, Permits, firstbyte, run, text};

const MS: f64 = 1e6;

/// Explains `url` in the lab of a shipped scenario.
fn explain(scenario: &str, arguments: &[&str]) -> Value {
    let mut command = firstbyte(&["lab", "run", scenario, "--", PROGRAM, "explain", "--json"]);
    let output = run(command.args(arguments));
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{scenario}: {:?}\n{stderr}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn findings(explanation: &Value) -> Vec<(&str, f64)> {
    let findings = explanation["findings"].as_array().unwrap();
    let one = |f: &'_ Value| f["cost_ns"].as_f64().unwrap() / MS;
    findings.iter().map(|f| (f["kind"].as_str().unwrap(), one(f))).collect()
}

/// The terms add up to the total; what is unexplained is less than 2 % of it.
fn assert_explained(scenario: &str, explanation: &Value) {
    let equation = &explanation["equation"];
    let total = equation["total_ns"].as_u64().unwrap();
    let terms = equation["terms"].as_array().unwrap();
    let sum: u64 = terms.iter().map(|term| term["ns"].as_u64().unwrap()).sum();
    assert_eq!(sum, total, "{scenario}");
    let unexplained = terms.iter().find(|term| term["kind"] == "unexplained");
    let unexplained = unexplained.map_or(0, |term| term["ns"].as_u64().unwrap());
    assert!(unexplained * 50 < total, "{scenario}: {unexplained} of {total} ns are unexplained");
}

/// Client, network and server share this machine. If it is busy, the server really takes so long for its answers, and a
/// program that is not optimised is not far from it: a finding that says so is right.
const BUSY_MS: f64 = 6.0;

/// The scenario has one finding, which costs this many milliseconds, and no other. Other load adds to a cost: the upper
/// bounds leave room for that, and none for a round trip of 30 ms.
#[track_caller]
fn assert_finds(scenario: &str, kind: &str, cost: std::ops::RangeInclusive<f64>) {
    let url = match scenario {
        "redirect-chain" => "http://redirect-chain.test/".to_owned(),
        _ => format!("https://www.{scenario}.test/"),
    };
    let explanation = explain(scenario, &["-n", "9", &url]);
    assert_explained(scenario, &explanation);
    let found = findings(&explanation);
    let (name, found_cost) = found[0];
    for (other, cost) in &found[1..] {
        let busy = ["slow-handshake", "slow-server"].contains(other) && *cost <= BUSY_MS;
        assert!(busy, "{scenario}: {found:?}");
    }
    assert_eq!(name, kind, "{scenario}");
    assert!(cost.contains(&found_cost), "{scenario}: {kind} costs {found_cost} ms");
}

/// A test for each scenario, so that they run side by side.
macro_rules! each_fault_is_the_only_finding {
    ($($test:ident: $scenario:literal, $kind:literal, $cost:expr;)*) => {$(
        #[test]
        fn $test() {
            let _permits = Permits::one();
            assert_finds($scenario, $kind, $cost);
        }
    )*};
}

each_fault_is_the_only_finding! {
    nagle: "nagle", "nagle", 68.0..=100.0;
    syn_loss: "syn-loss", "syn-loss", 990.0..=1_100.0;
    big_chain: "big-chain", "large-chain", 29.0..=44.0;
    hello_retry_request: "hrr", "hello-retry-request", 29.0..=44.0;
    slow_dns: "slow-dns", "slow-dns", 110.0..=150.0;
    slow_aaaa: "slow-aaaa", "late-aaaa", 45.0..=70.0;
    broken_ipv6: "broken-ipv6", "fallback", 245.0..=290.0;
    no_tickets: "no-tickets", "no-resumption", 0.2..=15.0;
    slow_server: "slow-server", "slow-server", 119.0..=145.0;
    quic_retry: "quic-retry", "quic-retry", 29.0..=44.0;
    redirect_chain: "redirect-chain", "redirects", 150.0..=200.0;
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let _permits = Permits::all();
    let explanation = explain("clean", &["-n", "9", "https://www.clean.test/"]);
    assert_explained("clean", &explanation);
    assert_eq!(findings(&explanation), []);
}

#[test]
fn half_a_second_for_eight_milliseconds_is_six_round_trips() {
    let _permits = Permits::one();
    let explanation = explain(
        "curl-length",
        &["-n", "5", "https://far.curl-length.test/", "--server-log-ms", "8"],
    );
    assert_explained("curl-length", &explanation);
    let equation = &explanation["equation"];
    assert_eq!(equation["round_trips"], 6);
    let trips = |kind: &str, span: &str| {
        let terms = equation["terms"].as_array().unwrap();
        let term = terms.iter().find(|term| term["kind"] == kind && term["span"] == span);
        term.map(|term| term["round_trips"].as_u64().unwrap())
    };
    assert_eq!(trips("round-trips", "tcp"), Some(1));
    assert_eq!(trips("round-trips", "tls"), Some(2));
    assert_eq!(trips("stalls", "tls"), Some(2));
    assert_eq!(trips("round-trips", "request"), Some(1));
    // The certificates outgrow a window that begins small: a shorter chain or a larger window would do.
    let mut names: Vec<&str> = findings(&explanation).iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, ["large-chain", "small-window", "tls-1.2"]);
    let all = explanation["findings"].as_array().unwrap();
    let large = all.iter().find(|finding| finding["kind"] == "large-chain").unwrap();
    let saves = large["saving_predicted_ns"].as_f64().unwrap() / MS;
    assert!((160.0..170.0).contains(&saves), "a chain that fits saves {saves} ms");
    assert_eq!(explanation["server"][0]["witness"], "log");
}

/// What a capture says of the server's time, from either end and brought later.
#[test]
fn a_capture_from_either_end_is_a_witness() {
    let _permits = Permits::one();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (kept, captures, pictures) = (path("kept.run"), path("captures"), path("pictures"));
    let lab = ["lab", "run", "slow-server", "--capture", &captures, "--", PROGRAM];
    let mut command = firstbyte(&lab);
    command.args(["explain", "-n", "3", "--run", &kept, "https://www.slow-server.test/"]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let from = |capture: &str| {
        let capture = format!("{captures}/{capture}.pcapng");
        let mut command = firstbyte(&["explain", "--json", "--from", &kept, "--svg", &pictures]);
        run(command.args(["--capture", &capture]))
    };
    for end in ["client", "middle", "server-web"] {
        let output = from(end);
        assert!(output.status.success(), "{end}: {}", text(&output.stderr));
        let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
        let said = &explanation["server"][0];
        assert_eq!(said["witness"], "capture");
        let ms = said["said_ns"].as_f64().unwrap() / MS;
        assert!((119.5..160.0).contains(&ms), "{end}: the server took {ms} ms");
        assert_eq!(said["agrees"], true, "{end}: {said}");
    }
    for name in ["variants", "sequences"] {
        let picture = std::fs::read_to_string(format!("{pictures}/{name}.svg")).unwrap();
        assert!(picture.contains("<svg") && picture.contains("server"), "{name}");
    }
    let other = from("server-clean");
    assert_eq!(other.status.code(), Some(26));
    assert!(text(&other.stderr).contains("contains none of the 3 connections"));
}
