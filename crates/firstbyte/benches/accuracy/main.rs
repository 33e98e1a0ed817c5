//! How far firstbyte and curl are from the wire.
//!
//! Both measure connections over the lab's `accuracy` scenario, in turn, while the lab's packet sockets capture the
//! client's link. They run in one process and in one process per connection, alone and with many connections in flight
//! and both cores busy. Prints tool minus wire. Definitions: `docs/measurement.md`, "Accuracy".
//!     cargo bench -p firstbyte --bench accuracy -- [--connections N] [--in-flight N]
//!         [--each | --loop] [--alone | --loaded] [--unprivileged]
//!     cargo bench -p firstbyte --bench accuracy -- --paired [--pairs N]
//!
//! `--paired` compares totals of firstbyte and curl over pages of 0.5 to 200 kB instead.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for the terminal that has nobody to report to"
)]

mod paired;
mod wire;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte::cli::options_for;
use firstbyte_core::document::SampleRecord;
use firstbyte_core::stats::quantile;
use firstbyte_core::timeline::{Connection, Mark};
use firstbyte_lab::{LabOptions, Scenario, run};
use firstbyte_probe::probe::{Equipment, NetProber, Prober, Target};
use wire::Wire;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
const URL: &str = "https://server.accuracy.test/";
const STAGES: [&str; 4] = ["connect", "tls", "wait", "first byte"];

/// One connection as reported by a tool: its local port, and the stages in microseconds.
struct Said {
    port: u16,
    stages: [f64; 4],
}

/// One measurement configuration.
#[derive(Clone, Copy)]
struct Case {
    /// Every connection gets a new process.
    each: bool,
    /// Without `CAP_NET_RAW`; only used with one process per connection.
    unprivileged: bool,
    /// With more than one connection in flight, a busy loop also runs on each core.
    in_flight: usize,
    tls: &'static str,
    http: &'static str,
}

fn main() -> ExitCode {
    let (connections, in_flight) = (argument("--connections", 200), argument("--in-flight", 200));
    if has("--test") {
        return ExitCode::SUCCESS;
    }
    let curl = Command::new("curl").arg("--version").output();
    let curl = match &curl {
        Ok(output) => {
            String::from_utf8_lossy(&output.stdout).split_whitespace().nth(1).map(str::to_owned)
        }
        Err(_) => None,
    };
    let Some(curl) = curl else {
        eprintln!("this comparison needs curl: install Debian's package curl");
        return ExitCode::FAILURE;
    };
    if has("--paired") {
        return match paired::measure(argument("--pairs", 5)) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        };
    }
    println!("tool minus wire, µs: median, and p99 of the absolute error; curl {curl}");
    let unprivileged = has("--unprivileged");
    let hows = [(false, "--each"), (true, "--loop")];
    for (each, other) in hows {
        if has(other) || (!each && unprivileged) {
            continue;
        }
        for (in_flight, other) in [(1, "--loaded"), (in_flight, "--alone")] {
            if has(other) {
                continue;
            }
            for (tls, http) in [("1.3", "1.1"), ("1.3", "2"), ("1.2", "1.1"), ("1.2", "2")] {
                let case = Case { each, unprivileged, in_flight, tls, http };
                if let Err(message) = measure(case, connections) {
                    eprintln!("{message}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn has(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|a| a != name).skip(1);
    arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn measure(case: Case, connections: usize) -> Result<(), String> {
    let scenario = Scenario::load("accuracy").map_err(|e| e.to_string())?;
    let captures = tempfile::tempdir().map_err(|e| e.to_string())?;
    let said = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let options = LabOptions { capture: Some(captures.path().to_owned()), ..LabOptions::default() };
    let code = run(&scenario, &options, |lab| {
        let burners = Burners::start(if case.in_flight == 1 { 0 } else { 2 });
        let results = take(case, connections, lab.ca_pem());
        drop(burners);
        let text: String = results
            .iter()
            .flat_map(|(tool, said)| said.iter().map(move |s| (tool, s)))
            .map(|(tool, s)| {
                let [a, b, c, d] = s.stages;
                format!("{tool} {} {a} {b} {c} {d}\n", s.port)
            })
            .collect();
        let stats = lab.forwarder_stats();
        let lost = stats.ring_full + stats.send_failed;
        if lost > 0 {
            eprintln!("warning: the lab lost {lost} frames under load");
        }
        i32::from(std::fs::write(said.path(), text).is_err())
    });
    code.map_err(|e| e.to_string())?;
    let wire = wire::read(&captures.path().join("client.pcapng"), case.http == "2");
    report(case, &wire, said.path());
    Ok(())
}

/// Keeps cores busy until dropped.
struct Burners(Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>);

impl Burners {
    fn start(count: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self(stop, threads)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

type Results = Vec<(&'static str, Vec<Said>)>;

fn take(case: Case, connections: usize, ca: &str) -> Results {
    let ca_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca_file.path(), ca).unwrap();
    let ca = ca_file.path().to_str().unwrap();
    let http = format!("--http{}", case.http);
    let arguments = ["--cacert", ca, &http, "-4", "--tls-max", case.tls, URL];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let prober = runtime.block_on(async {
        std::rc::Rc::new(
            NetProber::new(options_for(&arguments).unwrap(), &Equipment::default()).unwrap(),
        )
    });
    let target = Target::parse(URL).unwrap();
    let (mut firstbyte, mut curl) = (Vec::new(), Vec::new());
    for _ in 0..connections.div_ceil(case.in_flight) {
        if case.each {
            firstbyte.extend(processes(case, &arguments));
        } else {
            local.block_on(&runtime, async {
                let probes: Vec<_> = (0..case.in_flight)
                    .map(|_| {
                        let (prober, target) = (std::rc::Rc::clone(&prober), target.clone());
                        tokio::task::spawn_local(async move { prober.probe(&target).await })
                    })
                    .collect();
                for probe in probes {
                    firstbyte.extend(said(&probe.await.unwrap().connection));
                }
            });
        }
        curl.extend(run_curl(case, ca, &http));
    }
    vec![("firstbyte", firstbyte), ("curl", curl)]
}

/// Runs as many processes at once as connections should be in flight.
fn processes(case: Case, arguments: &[&str]) -> Vec<Said> {
    let start = |_| -> Child {
        let mut command = Command::new(if case.unprivileged { "setpriv" } else { PROGRAM });
        if case.unprivileged {
            command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", PROGRAM]);
        }
        command.args(["--json", "-n", "1", "--warmup", "0"]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let running: Vec<Child> = (0..case.in_flight).map(start).collect();
    let outputs = running.into_iter().map(|child| child.wait_with_output().unwrap());
    outputs.filter_map(|output| said_in(&output.stdout)).collect()
}

/// Parses the output of a process.
fn said_in(output: &[u8]) -> Option<Said> {
    let sample: SampleRecord = serde_json::from_slice(output).ok()?;
    let connection = &sample.connection;
    if let Some(failure) = &connection.failure {
        eprintln!("firstbyte: {failure:?}");
        return None;
    }
    let at = |mark: &str| connection.marks.get(mark).map(|m| m.at_ns as f64 / 1e3);
    Some(Said {
        port: connection.local.as_ref()?.rsplit(':').next()?.parse().ok()?,
        stages: [
            at("tcp_connected")? - at("connect_start")?,
            at("handshake_complete")? - at("tcp_connected")?,
            at("response_start")? - at("request_end")?,
            at("response_start")? - at("connect_start")?,
        ],
    })
}

fn said(connection: &Connection) -> Option<Said> {
    if let Some(failure) = &connection.failure {
        eprintln!("firstbyte: {failure}");
        return None;
    }
    let at = |mark| connection.marks.at(mark).map(|o| o.as_nanos() as f64 / 1e3);
    Some(Said {
        port: connection.facts.local?.port(),
        stages: [
            at(Mark::TcpConnected)? - at(Mark::ConnectStart)?,
            at(Mark::HandshakeComplete)? - at(Mark::TcpConnected)?,
            at(Mark::ResponseStart)? - at(Mark::RequestEnd)?,
            at(Mark::ResponseStart)? - at(Mark::ConnectStart)?,
        ],
    })
}

/// Runs one curl with all transfers in flight, or one curl per transfer.
fn run_curl(case: Case, ca: &str, http: &str) -> Vec<Said> {
    const FORMAT: &str = "%{local_port} %{time_namelookup} %{time_connect} %{time_appconnect} \
                          %{time_pretransfer} %{time_starttransfer}\\n";
    let start = |transfers: usize| -> Child {
        let mut command = Command::new("curl");
        command.args(["-s", "-4", http, "--cacert", ca, "--tls-max", case.tls, "-w", FORMAT]);
        if case.http == "1.1" {
            command.args(["-H", "Connection: close"]);
        }
        if transfers > 1 {
            let most = transfers.to_string();
            command.args(["-Z", "--parallel-immediate", "--parallel-max", &most]);
        }
        for _ in 0..transfers {
            command.args(["-o", "/dev/null", URL]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let running: Vec<Child> = if case.each {
        (0..case.in_flight).map(|_| start(1)).collect()
    } else {
        vec![start(case.in_flight)]
    };
    let outputs = running.into_iter().map(|child| child.wait_with_output().unwrap());
    outputs.flat_map(|output| said_by_curl(&output.stdout)).collect()
}

fn said_by_curl(output: &[u8]) -> Vec<Said> {
    String::from_utf8_lossy(output)
        .lines()
        .filter_map(|line| {
            let fields: Vec<f64> = line.split(' ').filter_map(|f| f.parse().ok()).collect();
            let [port, name, connect, tls, request, response] = fields[..] else { return None };
            let us = 1e6;
            Some(Said {
                port: port as u16,
                stages: [
                    (connect - name) * us,
                    (tls - connect) * us,
                    (response - request) * us,
                    (response - name) * us,
                ],
            })
        })
        .collect()
}

fn report(case: Case, wire: &HashMap<u16, Wire>, said: &Path) {
    let mut errors: HashMap<(String, usize), Vec<f64>> = HashMap::new();
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for line in std::fs::read_to_string(said).unwrap().lines() {
        let mut fields = line.split(' ');
        let tool = fields.next().unwrap().to_owned();
        let port: u16 = fields.next().unwrap().parse().unwrap();
        let stages: Vec<f64> = fields.map(|f| f.parse().unwrap()).collect();
        let count = counts.entry(tool.clone()).or_default();
        let Some(truth) = wire.get(&port).and_then(true_stages) else {
            count.1 += 1;
            continue;
        };
        count.0 += 1;
        for (stage, (said, truth)) in stages.iter().zip(truth).enumerate() {
            errors.entry((tool.clone(), stage)).or_default().push(said - truth);
        }
    }
    let how = if case.each { "a process each" } else { "one process" };
    let rights = if case.unprivileged { ", unprivileged" } else { "" };
    let load = match case.in_flight {
        1 => "alone".to_owned(),
        many => format!("{many} in flight, both cores busy"),
    };
    println!("\n{how}{rights}, {load}, TLS {}, HTTP/{}", case.tls, case.http);
    println!("{:<11} {:>20}   {:>20}", "", "firstbyte", "curl");
    println!("{:<11} {:>10} {:>9}   {:>10} {:>9}", "", "median", "p99", "median", "p99");
    for (index, stage) in STAGES.iter().enumerate() {
        let mut line = format!("{stage:<11}");
        for tool in ["firstbyte", "curl"] {
            let mut found = errors.remove(&(tool.to_owned(), index)).unwrap_or_default();
            found.sort_by(f64::total_cmp);
            let median = quantile(&found, 0.5).unwrap_or(f64::NAN);
            let mut absolute: Vec<f64> = found.iter().map(|e| e.abs()).collect();
            absolute.sort_by(f64::total_cmp);
            let p99 = quantile(&absolute, 0.99).unwrap_or(f64::NAN);
            line += &format!(" {median:>+10.1} {p99:>9.1}  ");
        }
        println!("{}", line.trim_end());
    }
    for tool in ["firstbyte", "curl"] {
        let (compared, missing) = counts.get(tool).copied().unwrap_or_default();
        println!("{tool}: {compared} connections compared, {missing} not found whole on the wire");
    }
}

fn true_stages(wire: &Wire) -> Option<[f64; 4]> {
    let between = |from: i64, to: i64| (to - from) as f64 / 1e3;
    Some([
        between(wire.syn?, wire.syn_ack?),
        between(wire.syn_ack?, wire.handshake_complete?),
        between(wire.request_end?, wire.response_start?),
        between(wire.syn?, wire.response_start?),
    ])
}
