//! How fast captures are read: `cargo bench -p firstbyte --bench wire [-- MEGABYTES]`.
//!
//! Generates three captures (TLS 1.3 connections one after another and in parallel): large records in full-size
//! packets, short records, and handshakes with hardly any data after them. Reads each from the page cache, every field
//! in one pass, on one core and on all in turn. Next to each rate it prints what the machine could do at that moment:
//! how much faster all its cores compute together, how fast they copy the file out of the page cache without looking at
//! it (an upper bound for any reader), and, from processor time, the rate of all cores if they had done nothing else.
//! Then runs capinfos (which only walks the packets), tshark and ndpiReader on the first capture. Before that, in
//! separate processes: the memory of 20,000 live connections over TCP and over QUIC. Fails below 1.2 GB/s of large
//! records on one core, below 2.5 GB/s of short connections on two, and above 1 kB per connection.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod live;
mod pairs;
mod quic;
mod support;
mod sys;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use firstbyte_clock::Monotonic;
use live::{Carrier, Stage};
use pairs::Cores;
use support::{Generator, HANDSHAKES, LARGE, SHORT, Shape};

const BAR_GB_PER_SECOND: f64 = 1.2;
/// Ten short responses per handshake, on two or more cores.
const BAR_SHORT_GB_PER_SECOND: f64 = 2.5;
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
    // Separate processes, so that memory left over by one does not affect the next.
    let small =
        LIVES.map(|(name, ..)| Command::new(&program).arg(name).status().unwrap().success());
    let directory = tempfile::tempdir().unwrap();
    let cores = Cores::here();
    let path = directory.path().join("large.pcap");
    let [ours, _] = capture(&cores, "large records in full-size packets", &path, LARGE, megabytes);
    let other = directory.path().join("other.pcap");
    let name = "ten short responses a handshake";
    let [_, short] = capture(&cores, name, &other, SHORT, megabytes / 2);
    capture(&cores, "two short responses a handshake", &other, HANDSHAKES, megabytes / 2);
    fs::remove_file(other).unwrap();
    println!();
    let bytes = fs::metadata(&path).unwrap().len();
    run("capinfos", bytes, &path, "capinfos", &["-c"]);
    let fields = ["-Y", "tls.handshake", "-T", "fields", "-e", "tls.handshake.type", "-r"];
    run("tshark -Y tls.handshake -T fields", bytes, &path, "tshark", &fields);
    run("ndpiReader", bytes, &path, "ndpiReader", &["-q", "-i"]);
    let (fast, small) = (ours >= BAR_GB_PER_SECOND, small.iter().all(|small| *small));
    let said = |held| if held { "yes" } else { "NO" };
    println!("at least {BAR_GB_PER_SECOND} GB/s: {}", said(fast));
    let quick = cores.count < 2 || short >= BAR_SHORT_GB_PER_SECOND;
    println!(
        "at least {BAR_SHORT_GB_PER_SECOND} GB/s of short connections on two cores: {}",
        if cores.count < 2 { "there is one" } else { said(quick) }
    );
    println!("at most {BAR_LIVE_BYTES} bytes a live connection: {}", said(small));
    if fast && quick && small { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Generates a capture and reads it; returns GB/s on one core and on all.
fn capture(cores: &Cores, name: &str, path: &Path, shape: Shape, megabytes: u64) -> [f64; 2] {
    Generator::new(shape).write(path, megabytes * 1_000_000);
    let file = File::open(path).unwrap();
    let bytes = file.metadata().unwrap().len();
    let (packets, connections) = pairs::analyse(path, 1);
    let million = bytes as f64 / 1e6;
    println!("\n{name}: {million:.0} MB, {packets} packets, {connections} connections");
    let analysed = pairs::pairs(cores, &|threads| {
        pairs::analyse(path, threads);
    });
    rate("firstbyte, one core", bytes, analysed.one);
    rate(&format!("firstbyte, {} cores", cores.count), bytes, analysed.all);
    times("all cores against one", analysed.times);
    times("their work against that of one", analysed.work);
    let copied = pairs::pairs(cores, &|threads| pairs::copy(&file, bytes, threads));
    rate("copying the file, one core", bytes, copied.one);
    rate(&format!("copying the file, {} cores", cores.count), bytes, copied.all);
    times("all cores against one", copied.times);
    // From processor time: the rate of an otherwise idle machine, and the share of copying in the work.
    let undisturbed = analysed.used[1] / cores.count as f64;
    rate(&format!("{} cores that do nothing else", cores.count), bytes, undisturbed);
    let copying = 100.0 * copied.used[0] / analysed.used[0];
    println!("{:<36} {copying:>7.0} %", "share of copying in one core's work");
    times("computing, all cores against one", pairs::pairs(cores, &pairs::compute).times);
    [analysed.one, analysed.all].map(|seconds| bytes as f64 / 1e9 / seconds)
}

fn rate(name: &str, bytes: u64, seconds: f64) {
    let rate = bytes as f64 / 1e9 / seconds;
    println!("{name:<36} {rate:>7.3} GB/s  {seconds:>7.3} s");
}

/// Prints median, minimum and maximum.
fn times(name: &str, [median, least, most]: [f64; 3]) {
    println!("{name:<36} {median:>7.2} ×     {least:>7.2} to {most:.2}");
}

/// Runs another program on the same file and prints the best of two runs, or that the program is missing.
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

/// Prints the memory of connections. Live ones have a limit; handshakes end soon and have none.
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

/// Resident memory of this process (proc(5), statm), bytes.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * text.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}
