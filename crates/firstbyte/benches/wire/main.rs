//! How fast captures are read: `cargo bench -p firstbyte --bench wire [-- MEGABYTES]`.
//!
//! Generates a capture of full-size packets (TLS 1.3 connections of ten exchanges each, one after
//! another and side by side), then reads it from the page cache: firstbyte's one pass with every field, on one
//! core and on all, capinfos (which only walks the packets), tshark and ndpiReader, in the same run. Before it,
//! in processes of their own: the memory of 20,000 connections that are under way, over TCP and over QUIC. Fails
//! below 1.2 GB/s on one core, and above 1 kB a connection.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod live;
mod quic;
mod support;
mod sys;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use firstbyte::capture;
use firstbyte::clock::Monotonic;
use firstbyte_core::passive::{Analyzer, Limits};
use live::{Carrier, Stage};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use support::Generator;

const BAR_GB_PER_SECOND: f64 = 1.2;
const ROUNDS: usize = 5;
const LIVE: u32 = 20_000;
const BAR_LIVE_BYTES: usize = 1024;
const LIVES: [(&str, Carrier, Stage); 4] = [
    ("tcp-under-way", Carrier::Tcp, Stage::UnderWay),
    ("quic-under-way", Carrier::Quic, Stage::UnderWay),
    ("tcp-mid-handshake", Carrier::Tcp, Stage::MidHandshake),
    ("quic-mid-handshake", Carrier::Quic, Stage::MidHandshake),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(live) = LIVES.iter().find(|(name, ..)| arguments.iter().any(|a| a == name)) {
        return live_connections(*live);
    }
    let megabytes = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(500);
    let program = std::env::current_exe().unwrap();
    // Each in a process of its own: what one leaves behind is not the next one's.
    let small =
        LIVES.map(|(name, ..)| Command::new(&program).arg(name).status().unwrap().success());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full-size.pcap");
    Generator::default().write(&path, megabytes * 1_000_000u64);
    let bytes = fs::metadata(&path).unwrap().len();
    println!("{:.0} MB of full-size packets, in page cache", bytes as f64 / 1e6);
    let whole = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::count()).find(|n| whole.is_set(*n).unwrap()).unwrap()).unwrap();
    // The thread that reads is started by this one, and has its processors.
    sched_setaffinity(Pid::from_raw(0), &one).unwrap();
    let ours = rate("firstbyte, one core", bytes, best_of(&path, true));
    sched_setaffinity(Pid::from_raw(0), &whole).unwrap();
    let both = rate("firstbyte, all cores", bytes, best_of(&path, false));
    println!("{:<36} {:>7.2} ×", "all cores against one", both / ours);
    run("capinfos", bytes, &path, "capinfos", &["-c"]);
    let fields = ["-Y", "tls.handshake", "-T", "fields", "-e", "tls.handshake.type", "-r"];
    run("tshark -Y tls.handshake -T fields", bytes, &path, "tshark", &fields);
    run("ndpiReader", bytes, &path, "ndpiReader", &["-q", "-i"]);
    let (fast, small) = (ours >= BAR_GB_PER_SECOND, small.iter().all(|small| *small));
    let said = |held| if held { "yes" } else { "NO" };
    println!("at least {BAR_GB_PER_SECOND} GB/s: {}", said(fast));
    println!("at most {BAR_LIVE_BYTES} bytes a live connection: {}", said(small));
    if fast && small { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The shortest of some readings, seconds.
fn best_of(path: &Path, told: bool) -> f64 {
    let mut best = f64::MAX;
    for round in 0..ROUNDS {
        let begun = Monotonic::now();
        let mut analyzer = Analyzer::new(Limits::default());
        let mut connections = 0u64;
        capture::read(path, &mut analyzer, &mut |_| connections += 1).unwrap();
        analyzer.finish(&mut |_| connections += 1);
        best = best.min(Monotonic::now().since(begun).as_secs_f64());
        if round == 0 && told {
            println!("{} packets, {connections} connections", analyzer.hygiene().tcp_packets);
        }
    }
    best
}

fn rate(name: &str, bytes: u64, seconds: f64) -> f64 {
    let rate = bytes as f64 / 1e9 / seconds;
    println!("{name:<36} {rate:>7.3} GB/s  {seconds:>7.3} s");
    rate
}

/// Another program on the same file, the best of two runs; told when it is not there.
fn run(name: &str, bytes: u64, path: &Path, program: &str, arguments: &[&str]) {
    let mut best = f64::MAX;
    for _ in 0..2 {
        let begun = Monotonic::now();
        let status = Command::new(program)
            .args(arguments)
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            println!("{name:<36} not run: {program} is not installed");
            return;
        }
        best = best.min(Monotonic::now().since(begun).as_secs_f64());
    }
    rate(name, bytes, best);
}

/// Says what connections take. Those under way have a limit; handshakes are over soon, and have none.
fn live_connections((name, carrier, stage): (&str, Carrier, Stage)) -> ExitCode {
    let before = resident_bytes();
    let (analyzer, taken) = live::follow(carrier, stage, LIVE);
    let resident = resident_bytes() - before;
    assert_eq!(analyzer.live(), LIVE as usize);
    let each = taken / LIVE as usize;
    println!(
        "{LIVE} {name}: {:.1} MB, {each} bytes each ({:.1} MB resident, {})",
        taken as f64 / 1e6,
        resident as f64 / 1e6,
        resident / u64::from(LIVE),
    );
    let held = stage == Stage::MidHandshake || each <= BAR_LIVE_BYTES;
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Memory of this process (proc(5), statm), bytes.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}
