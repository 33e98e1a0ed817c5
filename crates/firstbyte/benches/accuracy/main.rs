//! How far firstbyte and curl are from the wire.
//!
//! Both measure connections over the lab's `accuracy` scenario, in turn, while the client's link is
//! captured by packet sockets of the lab: once alone, once with many connections in flight and both
//! cores busy. Printed is tool minus wire. Definitions: `docs/measurement.md`, "Accuracy".
//!
//!     cargo bench -p firstbyte --bench accuracy -- [--connections N] [--in-flight N] [--loaded]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for the terminal that has nobody to report to"
)]

mod wire;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firstbyte::cli::options_for;
use firstbyte::probe::{NetProber, Prober, Target};
use firstbyte_core::stats::quantile;
use firstbyte_core::timeline::{Connection, Mark};
use firstbyte_lab::{LabOptions, Scenario, run};
use wire::Wire;

const URL: &str = "https://server.accuracy.test/";
const STAGES: [&str; 4] = ["connect", "tls", "wait", "first byte"];

/// What a tool said of one connection: its local port, and the stages in microseconds.
struct Said {
    port: u16,
    stages: [f64; 4],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Alone,
    Loaded { in_flight: usize },
}

fn main() -> ExitCode {
    let (connections, in_flight) = (argument("--connections", 200), argument("--in-flight", 200));
    if std::env::args().any(|a| a == "--test") {
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
    println!("tool minus wire, µs: median, and p99 of the absolute error; curl {curl}");
    let loaded_only = std::env::args().any(|a| a == "--loaded");
    let loads = [Load::Alone, Load::Loaded { in_flight }];
    for load in loads.into_iter().skip(usize::from(loaded_only)) {
        for tls in ["1.3", "1.2"] {
            if let Err(message) = measure(load, tls, connections) {
                eprintln!("{message}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args().skip_while(|a| a != name).skip(1);
    arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn measure(load: Load, tls: &'static str, connections: usize) -> Result<(), String> {
    let scenario = Scenario::load("accuracy").map_err(|e| e.to_string())?;
    let captures = tempfile::tempdir().map_err(|e| e.to_string())?;
    let said = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let options = LabOptions { capture: Some(captures.path().to_owned()), ..LabOptions::default() };
    let code = run(&scenario, &options, |lab| {
        let burners = Burners::start(if load == Load::Alone { 0 } else { 2 });
        let results = take(load, tls, connections, lab.ca_pem());
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
    let wire = wire::read(&captures.path().join("client.pcapng"));
    report(load, tls, &wire, said.path());
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

fn take(load: Load, tls: &'static str, connections: usize, ca: &str) -> Results {
    let ca_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca_file.path(), ca).unwrap();
    let ca = ca_file.path().to_str().unwrap();
    let arguments = ["--cacert", ca, "--http1.1", "-4", "--tls-max", tls, URL];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let prober = runtime.block_on(async {
        std::rc::Rc::new(NetProber::new(options_for(&arguments).unwrap()).unwrap())
    });
    let target = Target::parse(URL).unwrap();
    let (mut firstbyte, mut curl) = (Vec::new(), Vec::new());
    match load {
        Load::Alone => {
            for _ in 0..connections {
                let sample = local.block_on(&runtime, prober.probe(&target));
                firstbyte.extend(said(&sample.connection));
                curl.extend(run_curl(ca, tls, 1));
            }
        }
        Load::Loaded { in_flight } => {
            for _ in 0..connections.div_ceil(in_flight) {
                local.block_on(&runtime, async {
                    let probes: Vec<_> = (0..in_flight)
                        .map(|_| {
                            let (prober, target) = (std::rc::Rc::clone(&prober), target.clone());
                            tokio::task::spawn_local(async move { prober.probe(&target).await })
                        })
                        .collect();
                    for probe in probes {
                        firstbyte.extend(said(&probe.await.unwrap().connection));
                    }
                });
                curl.extend(run_curl(ca, tls, in_flight));
            }
        }
    }
    vec![("firstbyte", firstbyte), ("curl", curl)]
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

/// One curl with `count` transfers in flight.
fn run_curl(ca: &str, tls: &str, count: usize) -> Vec<Said> {
    const FORMAT: &str = "%{local_port} %{time_namelookup} %{time_connect} %{time_appconnect} \
                          %{time_pretransfer} %{time_starttransfer}\\n";
    let mut command = Command::new("curl");
    command.args(["-s", "-4", "--http1.1", "--cacert", ca, "--tls-max", tls, "-w", FORMAT]);
    command.args(["-H", "Connection: close"]);
    if count > 1 {
        let most = count.to_string();
        command.args(["-Z", "--parallel-immediate", "--parallel-max", &most]);
    }
    for _ in 0..count {
        command.args(["-o", "/dev/null", URL]);
    }
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8_lossy(&output.stdout)
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

fn report(load: Load, tls: &str, wire: &HashMap<u16, Wire>, said: &Path) {
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
    let load = match load {
        Load::Alone => "alone".to_owned(),
        Load::Loaded { in_flight } => format!("{in_flight} in flight, both cores busy"),
    };
    println!("\n{load}, TLS {tls}");
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
