//! Compares live captures with tcpdump: `cargo bench -p firstbyte --bench wire_live [-- CONNECTIONS [FLAG…]]`.
//!
//! Runs in a lab, on its client's interface (veth). Opens connections at a fixed pace (TLS 1.2 and 1.3, full and
//! resumed, one exchange each), captures them with `firstbyte wire -i eth0 --json` and with tcpdump at the same time,
//! reads tcpdump's file, and compares every connection's line. Prints pace, CPU time and drops. Fails if a frame was
//! dropped, a line differs, or fewer than 50,000 connections were opened per minute. Flags add outputs of
//! `firstbyte wire`, for example `-w FILE --server '*'`, which makes every packet wait for its connection's end.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../../tests/lab/tcpdump.rs"]
mod tcpdump;
mod traffic;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
const BAR_PER_MINUTE: f64 = 50_000.0;
const CONNECTIONS: usize = 50_000;
const PORT: &str = "443";
const INTERFACE: &str = "eth0";
/// `USER_HZ` of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [inside, connections, directory, flags @ ..] = arguments.as_slice()
        && inside == "--inside"
    {
        return inside_lab(connections.parse().unwrap(), Path::new(directory), flags);
    }
    let given = arguments.iter().position(|argument| argument.parse::<usize>().is_ok());
    let connections = given.map_or(CONNECTIONS, |place| arguments[place].parse().unwrap());
    // Cargo adds its own flag at the end.
    let flags = given.map_or(&[][..], |place| &arguments[place + 1..]);
    let flags = flags.iter().filter(|flag| *flag != "--bench");
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(PROGRAM)
        .args(["lab", "run", "quiet", "--server", "builtin", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--inside", &connections.to_string()])
        .arg(directory.path())
        .args(flags)
        .status()
        .unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn inside_lab(connections: usize, directory: &Path, flags: &[String]) -> ExitCode {
    let file = |name: &str| directory.join(name);
    let visitors = traffic::Visitors::new();
    let mut live = Command::new(PROGRAM)
        .args(["wire", "-i", INTERFACE, "--port", PORT, "--json"])
        .args(flags)
        .stdout(File::create(file("live")).unwrap())
        .stderr(File::create(file("notes")).unwrap())
        .spawn()
        .unwrap();
    let mut tcpdump = Command::new("tcpdump")
        .env("LD_PRELOAD", tcpdump::unchanged_groups(directory))
        .args(["-i", INTERFACE, "-Z", "root", "-B", "65536", "--time-stamp-precision=nano", "-w"])
        .arg(file("file.pcap"))
        .args(["port", PORT])
        .stderr(File::create(file("tcpdump")).unwrap())
        .spawn()
        .expect("this is held against tcpdump: install it (apt-get install tcpdump)");
    await_line(&file("notes"), "capturing");
    await_line(&file("tcpdump"), "listening");
    // The kernel starts timestamping shortly after it is asked to.
    sleep(Duration::from_millis(500));
    let before = cpu_seconds(&live);
    let seconds = visitors.visit(connections);
    // The kernel delivers the last packets to tcpdump after a second.
    sleep(Duration::from_millis(2_500));
    let cpu = cpu_seconds(&live) - before;
    let tcpdump_cpu = cpu_seconds(&tcpdump);
    for child in [&mut live, &mut tcpdump] {
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
        assert!(child.wait().unwrap().success());
    }

    let output = Command::new(PROGRAM)
        .args(["wire", "--json", "--port", PORT])
        .arg(file("file.pcap"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let (from_file, _) = lines(&String::from_utf8(output.stdout).unwrap());
    let (from_live, capture) = lines(&fs::read_to_string(file("live")).unwrap());
    let same = from_live.iter().filter(|(key, line)| from_file.get(*key) == Some(line)).count();
    let pace = connections as f64 / seconds * 60.0;
    let dropped = capture["dropped_frames"].as_u64().unwrap();
    let notes = fs::read_to_string(file("tcpdump")).unwrap();
    let by_tcpdump: u64 = count(&notes, " packets dropped by kernel");
    println!("{connections} connections in {seconds:.1} s: {pace:.0} a minute");
    println!(
        "{} frames, {:.1} MB; dropped: {dropped} by firstbyte, {by_tcpdump} by tcpdump",
        capture["frames"],
        capture["wire_bytes"].as_f64().unwrap() / 1e6
    );
    println!(
        "CPU time: firstbyte {cpu:.2} s ({:.1} % of a core, {:.0} µs a connection), tcpdump {tcpdump_cpu:.2} s",
        100.0 * cpu / seconds,
        1e6 * cpu / connections as f64
    );
    println!("lines: {} live, {} from the file, {same} the same", from_live.len(), from_file.len());
    show_difference(&from_live, &from_file);
    let held = dropped == 0
        && by_tcpdump == 0
        && pace >= BAR_PER_MINUTE
        && from_live.len() == connections
        && from_file.len() == connections
        && same == connections;
    println!(
        "{BAR_PER_MINUTE} a minute, nothing dropped, the same as from a file: {}",
        if held { "yes" } else { "NO" }
    );
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Lines = BTreeMap<String, Value>;

/// Lines of connections by their endpoints and start, and the line about the capture. Connection numbers are left out:
/// two sockets may see first packets in a different order.
fn lines(ndjson: &str) -> (Lines, Value) {
    let mut all = BTreeMap::new();
    let mut capture = Value::Null;
    for line in ndjson.lines() {
        let mut value: Value = serde_json::from_str(line).unwrap();
        if value["format"] == "firstbyte/wire-capture" {
            capture = value;
            continue;
        }
        value["number"] = Value::Null;
        let key = format!("{} {} {}", value["client"], value["server"], value["started_unix_ns"]);
        all.insert(key, value);
    }
    (all, capture)
}

/// Prints the first few connections whose lines differ, and the fields that differ.
fn show_difference(live: &Lines, file: &Lines) {
    let differing = live.iter().filter(|(key, line)| file.get(*key) != Some(line));
    for (key, line) in differing.take(5) {
        let Some(other) = file.get(key) else {
            println!("  {key}: not in the file");
            continue;
        };
        let fields =
            line.as_object().unwrap().iter().filter(|(name, value)| other[*name] != **value);
        for (name, value) in fields {
            println!("  {key}: {name}: live {value}, file {}", other[name]);
        }
    }
}

/// The number before `what`.
fn count(text: &str, what: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_suffix(what)).unwrap();
    line.trim().parse().unwrap()
}

fn await_line(file: &Path, what: &str) {
    for _ in 0..100 {
        if fs::read_to_string(file).unwrap().contains(what) {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("{}", fs::read_to_string(file).unwrap());
}

/// Processor time of a process (proc(5), `stat`).
fn cpu_seconds(child: &Child) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / TICKS_PER_SECOND
}
