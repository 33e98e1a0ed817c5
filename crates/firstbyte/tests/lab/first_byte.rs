//! The path of the first byte: the server's time before it, and how the client acknowledges meanwhile.
//!
//! The benchmarks `attribution -- --grid` and `accuracy -- --paired` measure every cell on an idle machine. These tests
//! measure a few cells, with bounds that other load can only loosen.

use std::fmt::Write as _;

use firstbyte_core::document::SampleRecord;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, phase, run, samples, text};

/// Servers that pass `/w` on to an application that thinks for as long as the request says.
const SERVERS: [&str; 3] = ["nginx", "caddy", "builtin"];
const ROUND_TRIPS: [u32; 2] = [20, 80];

/// Hosts `nginx20.test` and so on.
fn hosts() -> String {
    let mut hosts = String::new();
    let all = SERVERS.into_iter().flat_map(|server| ROUND_TRIPS.map(|rtt| (server, rtt)));
    for (index, (server, rtt)) in all.enumerate() {
        let backend = if server == "builtin" { "" } else { ", backend = true" };
        let _ = write!(
            hosts,
            r#"
[[host]]
name = "{server}{rtt}"
role = "server"
ipv4 = "198.51.100.{}"
names = ["{server}{rtt}.test"]
server = {{ kind = "{server}"{backend} }}
up = {{ delay = "{half}ms" }}
down = {{ delay = "{half}ms" }}
"#,
            index + 1,
            half = rtt / 2,
        );
    }
    hosts
}

/// Runs a script on the client; returns its output.
fn run_script(script: &str) -> Vec<u8> {
    let scene = Scene::with_servers(&hosts());
    let mut command = firstbyte(&["lab", "run"]);
    let output = run(command.arg(scene.file()).args(["--", "sh", "-c", script]));
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output.stderr));
    output.stdout
}

/// The application's time is the server's part of `wait`, whatever the size of the response, and whether the time is
/// shorter or longer than a round trip.
///
/// A full window delays the last byte, but says nothing about the first.
#[test]
fn think_time_is_the_servers_whatever_the_size_of_the_response() {
    let _permits = Permits::one();
    let sizes = [700, 14_000, 100_000];
    let thinks = [0, 8, 50];
    let mut script = String::new();
    for (server, rtt) in SERVERS.into_iter().flat_map(|s| ROUND_TRIPS.map(|rtt| (s, rtt))) {
        for (size, think) in sizes.into_iter().flat_map(|size| thinks.map(|think| (size, think))) {
            for http in ["--http1.1", "--http2"] {
                let url = format!("https://{server}{rtt}.test/w?think={think}&writes={size}");
                let _ = writeln!(script, "{PROGRAM} -4 -n 1 --warmup 0 --json {http} '{url}'");
            }
        }
    }
    let all = samples(&run_script(&script));
    assert_eq!(all.len(), SERVERS.len() * ROUND_TRIPS.len() * sizes.len() * thinks.len() * 2);
    let mut thought = all.iter().zip((0..).map(|index| thinks[index / 2 % thinks.len()]));
    // Other load makes round trips vary, and a share of the server's time is then reported as `variation`.
    let server_part = |sample: &SampleRecord| {
        let of_wait = phase(sample, "wait").map(|wait| &wait.parts);
        of_wait.map_or(0.0, |parts| (parts.server_ns + parts.variation_ns) as f64 / 1e6)
    };
    // The application's other work takes some time too, and more on a busy machine.
    let is_wrong = |sample: &SampleRecord, think: i32| {
        let beyond = server_part(sample) - f64::from(think);
        !(-0.5..20.0).contains(&beyond)
    };
    let wrong: Vec<String> = thought
        .by_ref()
        .filter(|(sample, think)| is_wrong(sample, *think))
        .map(|(sample, think)| {
            let remote = &sample.connection.remote;
            format!(
                "{think} ms: {:.1} from {remote:?}, {:?}",
                server_part(sample),
                phase(sample, "wait")
            )
        })
        .collect();
    assert!(
        wrong.len() * 50 <= all.len(),
        "{} of {}:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
}

/// The program's total equals curl's, because both acknowledge at the same times. If reports about sent data fill the
/// socket's buffer, an acknowledgement is delayed, which costs 40 ms. curl's own work takes up to 15 ms on a slow machine,
/// so the lower bound is that of the path.
#[test]
fn totals_are_those_of_curl() {
    const PAIRS: usize = 3;
    let _permits = Permits::all();
    // HTTP version, bytes, the server's milliseconds, and round trips of 80 ms: 40,000 bytes exceed the initial window.
    let cells = [
        ("--http1.1", 700, 0, 3),
        ("--http1.1", 14_000, 50, 3),
        ("--http1.1", 40_000, 50, 4),
        ("--http2", 14_000, 50, 3),
    ];
    let mut script = String::new();
    for (http, size, think, _) in cells {
        let url = format!("https://nginx80.test/w?think={think}&writes={size}");
        for _ in 0..PAIRS {
            let _ = writeln!(
                script,
                "curl -4ks {http} -o /dev/null -w '%{{time_total}} %{{time_namelookup}}\\n' '{url}'\n\
                 {PROGRAM} -4ks {http} -n 1 -o /dev/null -w '%{{time_total}} %{{time_namelookup}}\\n' '{url}'"
            );
        }
    }
    let said = run_script(&script);
    // Leave out the name lookup, which the two programs do differently.
    let times: Vec<f64> = text(&said)
        .lines()
        .filter_map(|line| {
            let (total, resolved) = line.split_once(' ')?;
            Some((total.parse::<f64>().ok()? - resolved.parse::<f64>().ok()?) * 1e3)
        })
        .collect();
    assert_eq!(times.len(), cells.len() * PAIRS * 2, "{}", text(&said));
    let fastest = |of: &[f64], tool: usize| {
        of.iter().skip(tool).step_by(2).copied().fold(f64::INFINITY, f64::min)
    };
    for (cell, times) in cells.iter().zip(times.chunks(PAIRS * 2)) {
        let (curl, ours) = (fastest(times, 0), fastest(times, 1));
        let (.., think, round_trips) = *cell;
        let least = f64::from(80 * round_trips + think);
        assert!((least..curl + 10.0).contains(&ours), "{cell:?}: {ours:.1} ms, curl {curl:.1} ms");
    }
}
