//! `explain` in the shipped scenarios: each fault produces one finding, and there are no other findings.

use serde_json::Value;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, run, text};

const MS: f64 = 1e6;

/// Runs `explain` on `url` in the lab of a shipped scenario.
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

/// Asserts that the terms add up to the total, with less than 2 % unexplained.
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

/// Client, network and server share this machine. If it is busy, or the program is not optimised, the server really
/// takes about this long to answer, and a finding that says so is right.
const BUSY_MS: f64 = 6.0;

fn is_of_a_busy_machine(kind: &str, cost: f64) -> bool {
    ["slow-handshake", "slow-server"].contains(&kind) && cost <= BUSY_MS
}

/// Asserts that the only finding in the scenario is `kind`, with this cost in milliseconds. Other load adds to a cost:
/// the upper bounds leave room for that, but not for a round trip of 30 ms.
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
        assert!(is_of_a_busy_machine(other, *cost), "{scenario}: {found:?}");
    }
    assert_eq!(name, kind, "{scenario}");
    assert!(cost.contains(&found_cost), "{scenario}: {kind} costs {found_cost} ms");
}

/// One test per scenario, so that they run in parallel.
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
    // If other load makes round trips vary, a share of the server's 120 ms is reported as variation.
    slow_server: "slow-server", "slow-server", 110.0..=145.0;
    quic_retry: "quic-retry", "quic-retry", 29.0..=44.0;
    redirect_chain: "redirect-chain", "redirects", 150.0..=200.0;
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let _permits = Permits::all();
    let explanation = explain("clean", &["-n", "9", "https://www.clean.test/"]);
    assert_explained("clean", &explanation);
    let mut found = findings(&explanation);
    found.retain(|(kind, cost)| !is_of_a_busy_machine(kind, *cost));
    assert_eq!(found, []);
}

/// The median total of the unchanged visits.
fn median_total(explanation: &Value) -> f64 {
    let variants = explanation["variants"].as_array().unwrap();
    let own = variants.iter().find(|variant| variant["variant"] == "as it is").unwrap();
    own["connection"]["total_ns"].as_f64().unwrap() / MS
}

/// Pages whose only fault is their size. Slow start costs the extra time compared with a 2 kB page.
#[test]
fn slow_start_is_all_that_is_found_on_static_pages() {
    const PAGES_KB: [u32; 4] = [2, 15, 40, 100];
    const RUNS: usize = 2;
    let _permits = Permits::one();
    let (mut hosts, mut script) = (String::new(), String::new());
    for (index, kb) in PAGES_KB.into_iter().enumerate() {
        let address = format!("198.51.100.{}", index + 1);
        hosts += &format!(
            r#"
[[host]]
name = "page{kb}"
role = "server"
ipv4 = "{address}"
names = ["page{kb}.test"]
server = {{ kind = "builtin", page_bytes = {} }}
up = {{ delay = "10ms" }}
down = {{ delay = "10ms" }}
"#,
            kb * 1_000
        );
        let explain = format!("{PROGRAM} explain -s --json -4 -n 6 --resolve '*:*:{address}'");
        script += &format!("{explain} https://page{kb}.test/\n").repeat(RUNS);
    }
    let scene = Scene::with_servers(&hosts);
    let mut command = firstbyte(&["lab", "run"]);
    let output = run(command.arg(scene.file()).args(["--", "sh", "-ec", &script]));
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output.stderr));
    let explanations: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(explanations.len(), PAGES_KB.len() * RUNS);
    // Other load only adds to a total, so the smaller median is the better one.
    let totals = explanations.chunks(RUNS);
    let totals = totals.map(|runs| runs.iter().map(median_total).fold(f64::INFINITY, f64::min));
    let totals: Vec<f64> = totals.collect();
    for ((kb, total), runs) in PAGES_KB.into_iter().zip(&totals).zip(explanations.chunks(RUNS)) {
        let truth = total - totals[0];
        let is_near = |cost: f64, other: f64| (cost - other).abs() <= (other / 5.0).max(4.0);
        let costs: Vec<f64> = runs
            .iter()
            .filter_map(|explanation| {
                let all =
                    explanation["findings"].as_array().unwrap().iter().zip(findings(explanation));
                let found: Vec<(&str, f64)> = all
                    .filter(|(finding, _)| finding["concerns"].is_null())
                    .map(|(_, found)| found)
                    .filter(|(kind, cost)| !is_of_a_busy_machine(kind, *cost))
                    .collect();
                match found[..] {
                    [] if kb == 2 => None,
                    [("slow-start", cost)] if kb > 2 && is_near(cost, truth) => Some(cost),
                    _ => panic!("{kb} kB, slow start costs {truth:.1} ms: {found:?}"),
                }
            })
            .collect();
        if let [cost, again] = costs[..] {
            assert!(is_near(cost, again), "{kb} kB: {cost:.1} ms, then {again:.1} ms");
        }
    }
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
    // The certificates exceed a small initial window: a shorter chain or a larger window would fix that.
    let mut names: Vec<&str> = findings(&explanation).iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(names, ["large-chain", "small-window", "tls-1.2"]);
    let all = explanation["findings"].as_array().unwrap();
    let large = all.iter().find(|finding| finding["kind"] == "large-chain").unwrap();
    let saved = |value: &Value| value["total_ns"].as_f64().unwrap() / MS;
    // A shorter chain alone saves as much as predicted: though the window is small, the response does not wait then.
    let scenario = include_str!("../../../firstbyte-lab/scenarios/curl-length.toml");
    let hosts = scenario.replace("chain_bytes = 11000", "chain_bytes = 900");
    let (_, hosts) = hosts.split_once("[[host]]").unwrap();
    let scene = Scene::with_hosts(&format!("[[host]]{hosts}"));
    let shorter =
        explain(scene.file().to_str().unwrap(), &["-n", "5", "https://far.curl-length.test/"]);
    let saves = saved(&large["saving_predicted"]);
    let saved_by_it = median_total(&explanation) - median_total(&shorter);
    assert!((saves - saved_by_it).abs() < 10.0, "predicted {saves} ms, measured {saved_by_it} ms");
    let all = saved(&explanation["without_all_findings"]);
    assert!((240.0..260.0).contains(&all), "without all findings, {all} ms are saved");
    assert_eq!(explanation["server"][0]["witness"], "log");
}

/// A capture from either end shows the server's time, also if it is added later.
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
