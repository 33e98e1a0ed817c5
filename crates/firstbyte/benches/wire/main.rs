//! How fast captures are read: `cargo bench -p firstbyte --bench wire [-- MEGABYTES]`.
//!
//! Generates a capture of full-size packets (TLS 1.3 connections of ten exchanges each, one after
//! another and side by side), then reads it from the page cache: firstbyte's one pass with every field, on one
//! core and on all, capinfos (which only walks the packets), tshark and ndpiReader, in the same run. Prints
//! memory per live connection. Fails below 1.2 GB/s on one core.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use firstbyte::capture;
use firstbyte::clock::Monotonic;
use firstbyte_core::passive::{Analyzer, Limits};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use support::Generator;

const BAR_GB_PER_SECOND: f64 = 1.2;
const ROUNDS: usize = 5;

fn main() -> ExitCode {
    let megabytes = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(500);
    live();
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
    let held = ours >= BAR_GB_PER_SECOND;
    println!("at least {BAR_GB_PER_SECOND} GB/s: {}", if held { "yes" } else { "NO" });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

/// Memory of 20,000 connections after their handshakes and some exchanges.
fn live() {
    const CONNECTIONS: u32 = 20_000;
    let before = resident_bytes();
    let mut analyzer = Analyzer::new(Limits::default());
    Generator::default().live(CONNECTIONS, &mut analyzer);
    let bytes = resident_bytes() - before;
    println!(
        "{} live connections: {:.1} MB, {} bytes each",
        analyzer.live(),
        bytes as f64 / 1e6,
        bytes / u64::from(CONNECTIONS)
    );
}

/// Memory of this process (proc(5), statm), bytes.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}
