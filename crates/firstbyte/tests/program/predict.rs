//! `firstbyte predict`: tables, exports, audiences, mistakes. `lab/predictions.rs` tests its accuracy.

use firstbyte_core::split::Split;
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::run::{Outcome, firstbyte};

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
    // Two round trips, the server's 8 ms, and the hosts' processing time.
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

/// Several requests: the four possible ways, with the same names as in measurements.
#[test]
fn several_requests_are_one_wait() {
    let text = succeeded(&["--rtt", "40ms", "--requests", "12"]);
    let ways = [
        "TLS 1.3 full, one after the other",
        "TLS 1.3 full, 6 connections",
        "TLS 1.3 full, one HTTP/2 connection",
        "TLS 1.3 full, one HTTP/3 connection",
    ];
    for (line, way) in text.lines().skip(1).zip(ways) {
        assert!(line.starts_with(way), "{text}");
    }
    assert!(text.contains("total: all 12 requests"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    let json = succeeded(&["--rtt", "40ms", "--requests", "12", "--parallel", "6", "--json"]);
    let line: Value = serde_json::from_str(&json).unwrap();
    let requests = &line["requests"];
    assert_eq!((&requests["parallel"], &requests["asked"]), (&"6".into(), &12.into()));
    assert_eq!((&requests["answered"], &requests["connections"]), (&12.into(), &6.into()));
    let ends = requests["exchanges"].as_array().unwrap().iter();
    let last = ends.map(|e| e["response_end"]["at_ns"].as_i64().unwrap()).max().unwrap();
    assert_eq!(requests["total_ns"], last);
    assert_eq!(line["visit_ns"], last);
    // Two round trips to set up, two for the first response of each connection, one for the second.
    assert!((200_000_000..210_000_000).contains(&last), "{last}");

    let csv = succeeded(&["--requests", "12", "--vary", "parallel=1,h2", "--csv"]);
    assert!(csv.lines().next().unwrap().contains("requests_connections"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    let drawn = succeeded(&["--requests", "12", "--parallel", "h2", "-v"]);
    assert!(drawn.contains("12 requests answered · 1 connection · 12 at once"), "{drawn}");
    let access = succeeded(&["--requests", "6", "--access", "fibre", "-n", "5"]);
    assert!(access.contains("connection"), "{access}");
}

#[test]
fn several_requests_that_cannot_be_had_are_named() {
    let directory = Directory::new();
    for (arguments, said) in [
        (&["--vary", "parallel=1,6"][..], "add --requests 12"),
        (&["--parallel", "6"], "--requests"),
        (&["--requests", "4", "--parallel", "6"], "more connections than requests"),
        (&["--requests", "200", "--parallel", "h2"], "streams"),
        (&["--requests", "4", "--parallel", "h2", "--upload", "1kB"], "uploads"),
        (&["--requests", "4", "--vary", "session=0rtt"], "early data"),
        (&["--requests", "4", "--population", "rum.csv"], "cannot be used with"),
    ] {
        let outcome = predict(&directory, arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{arguments:?}: {}", outcome.stderr);
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
fn rows_go_to_files_beside_the_table() {
    let directory = Directory::new();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let words = ["--vary", "tls=1.2,1.3"];
    let files = [format!("--json={}", path("a.json")), format!("--csv={}", path("a.csv"))];
    let table = succeeded(&[&words[..], &[&files[0], &files[1]]].concat());
    assert_eq!(table, succeeded(&words));
    for (name, flag) in [("a.json", "--json"), ("a.csv", "--csv")] {
        let lines = |text: &str| text.lines().count();
        let written = String::from_utf8(directory.read(name)).unwrap();
        assert_eq!(lines(&written), lines(&succeeded(&[&words[..], &[flag]].concat())));
    }
}

/// A connection that fails is a row with its failure, over TCP as over QUIC, and the others follow.
#[test]
fn a_connection_that_does_not_come_about_is_a_row() {
    let words = ["--vary", "http=2,3", "--loss", "70%", "-n", "40", "--response", "1000"];
    let text = succeeded(&[&words[..], &["--csv"]].concat());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let column = |name: &str, of: &csv::StringRecord| of.iter().position(|h| h == name).unwrap();
    let head = reader.headers().unwrap().clone();
    let [cause, phase, standing] =
        ["error_cause", "error_phase", "outcome"].map(|name| column(name, &head));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 80);
    let failed = |name: &str| rows.iter().filter(|row| &row[cause] == name).count();
    assert!(failed("connect-timed-out") > 0 && failed("quic") > 0, "{text}");
    for row in &rows {
        assert_eq!(&row[standing] == "failed", !row[cause].is_empty(), "{row:?}");
        assert!(&row[cause] != "connect-timed-out" || &row[phase] == "connect", "{row:?}");
    }
    let lines = succeeded(&[&words[..], &["--json"]].concat());
    assert_eq!(lines.lines().count(), 80);
    // The table counts failures.
    let table = succeeded(&words);
    assert!(table.contains("failed: "), "{table}");
}

/// First-byte times of `-n` connections for each way, from the export.
fn first_bytes(seed: &str) -> Vec<Vec<u64>> {
    let words = ["--vary", "tls=1.2,1.3", "--loss", "8%", "-n", "300", "--seed", seed, "--json"];
    let text = succeeded(&words);
    let mut ways = vec![Vec::new(); 2];
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let first = line["marks"]["response_start"]["at_ns"].as_u64().unwrap();
        ways[line["variant"].as_u64().unwrap() as usize].push(first);
    }
    ways
}

/// Rank correlation of lateness: a lost packet counts by rank, not by the second it costs.
fn correlation(a: &[u64], b: &[u64]) -> f64 {
    let late = |values: &[u64]| -> Vec<f64> {
        let least = *values.iter().min().unwrap();
        values.iter().map(|ns| f64::from(u8::from(*ns > least + 10_000_000))).collect()
    };
    let centred = |values: Vec<f64>| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.into_iter().map(|x| x - mean).collect()
    };
    let (a, b) = (centred(late(a)), centred(late(b)));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

/// Connection n + 1 of one seed does not equal connection n of the next, and ways do not share their losses.
#[test]
fn seeds_and_ways_have_losses_of_their_own() {
    let [one, two] = ["1", "2"].map(first_bytes);
    // With 300 connections, chance alone stays below 0.2 in 999 of 1,000 cases.
    for (what, a, b) in [
        ("seeds", &one[0][..], &two[0][..]),
        ("seeds, shifted by one", &one[0][1..], &two[0][..299]),
        ("ways", &one[0][..], &one[1][..]),
    ] {
        let found = correlation(a, b);
        assert!(found.abs() < 0.2, "{what}: {found}");
    }
    assert_eq!(first_bytes("1"), one, "a seed repeats what it gave");
}

#[test]
fn the_table_and_the_rows_are_of_the_same_connections() {
    let words = ["--vary", "http=1.1,3", "--loss", "4%", "-n", "31", "--response", "1000"];
    let text = succeeded(&[&words[..], &["--json"]].concat());
    let table = succeeded(&words);
    for (version, way) in [("1.1", "TLS 1.3 full, HTTP/1.1"), ("3", "TLS 1.3 full, HTTP/3")] {
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = lines.filter(|line| line["factors"]["http"] == version);
        let mut totals: Vec<u64> = lines.map(|line| line["total_ns"].as_u64().unwrap()).collect();
        totals.sort_unstable();
        let line = table.lines().find(|line| line.starts_with(way)).unwrap();
        let median = format!(" {:.1} ", totals[15] as f64 / 1e6);
        assert!(line.contains(&median), "{median}: {line}");
    }
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
    // The server's time is taken from the run's own connections; how busy this machine was during them is unknown.
    let server = line["split"]["parts"]["server_ns"].as_u64().unwrap();
    let run = firstbyte::runs::Run::read(&directory.path().join("a.run")).unwrap();
    let samples = run.each_taken().map(|taken| taken.unwrap().sample).filter(|s| !s.warmup);
    let of_server = samples.map(|sample| Split::attribute(&sample.connection).parts.server);
    let mut measured: Vec<u64> = of_server.map(|time| time.as_nanos() as u64).collect();
    measured.sort_unstable();
    let (measured, slack) = (measured[measured.len() / 2], 4_000_000);
    assert!(measured >= 5_000_000 && server >= 5_000_000, "{measured} {server}");
    assert!(server.abs_diff(measured) < slack + measured / 2, "{measured} {server}");
}

#[test]
fn mistakes_are_named() {
    let directory = Directory::new();
    std::fs::write(directory.path().join("rum.csv"), "rtt_ms,weight\nfar,1\n").unwrap();
    let cases: [(&[&str], u8, &str); 10] = [
        (&["--rtt", "far"], 2, "--rtt \"far\": not a time"),
        (&["--loss", "120%"], 2, "--loss"),
        (&["--chain", "100"], 2, "too small"),
        (&["--rate", "20"], 2, "write 512kbit/s or 100Mbit"),
        (&["--vary", "tls=2"], 2, "\"2\""),
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
    assert_eq!((outcome.code, outcome.stderr.contains("needs two variants")), (2, true));
}

#[test]
fn access_networks_are_rows_of_one_table() {
    let ways = ["--rtt", "20ms", "--vary", "tls=1.2,1.3", "-n", "20"];
    let text = succeeded(&[&["--access", "all"], &ways[..]].concat());
    for title in ["fibre to the home", "cable", "satellite, geostationary", "4G", "2G (EDGE)"] {
        assert!(text.lines().any(|line| line.starts_with(title)), "{title}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // A geostationary satellite: TCP, two round trips of TLS 1.2, the request.
    let line = text.lines().find(|line| line.starts_with("satellite, geo")).unwrap();
    let figures: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(figures[0], 620.0, "{line}");
    assert!((3095.0..3200.0).contains(&figures[1]) && figures[2] + 500.0 < figures[1], "{line}");
    let rows = succeeded(&[&["--access", "4g,cable", "--json"], &ways[..]].concat());
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2 * 2 * 20);
    assert_eq!(rows[0]["factors"]["access"], "4g");
}

#[test]
fn an_access_network_that_there_is_none_of() {
    let outcome = predict(&Directory::new(), &["--access", "5g"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("unknown access network"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("satellite-geo"), "{}", outcome.stderr);
}
