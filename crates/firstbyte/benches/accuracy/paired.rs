//! Totals of firstbyte and curl over the same path, in turn: measuring must not change how the peer behaves.
//!
//! If a client acknowledges small segments late, a server whose window is full, or that waits because of Nagle's
//! algorithm, sends later.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use firstbyte_core::stats::median;
use firstbyte_lab::{LabOptions, Scenario, run};

use crate::PROGRAM;

const ROUND_TRIPS_MS: [u32; 2] = [20, 80];
const THINK_MS: [u32; 2] = [0, 50];
const BODY_BYTES: [u32; 5] = [500, 14_000, 40_000, 100_000, 200_000];

/// A request that both programs make.
struct Cell {
    host: String,
    http: &'static str,
    think_ms: u32,
    body: u32,
}

impl Cell {
    /// nginx in its default configuration at both round trips, and a server without session tickets.
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for http in ["1.1", "2"] {
            for rtt in ROUND_TRIPS_MS {
                for think_ms in THINK_MS {
                    for body in BODY_BYTES {
                        cells.push(Self { host: format!("nginx{rtt}"), http, think_ms, body });
                    }
                }
                for body in [500, 40_000] {
                    cells.push(Self { host: format!("bare{rtt}"), http, think_ms: 0, body });
                }
            }
        }
        cells
    }

    fn url(&self) -> String {
        let Self { host, think_ms, body, .. } = self;
        format!("https://{host}.paired.test/w?think={think_ms}&writes={body}")
    }
}

fn scenario() -> String {
    let mut text = String::from(
        "description = \"totals of two clients\"\nseed = 1\n\
         [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\n\
         [[host]]\nname = \"resolver\"\nrole = \"resolver\"\nipv4 = \"192.0.2.53\"\n",
    );
    let servers = [
        ("nginx", "{ kind = \"nginx\", backend = true }"),
        ("bare", "{ kind = \"builtin\", resumption = \"none\" }"),
    ];
    let hosts = servers.into_iter().flat_map(|server| ROUND_TRIPS_MS.map(|rtt| (server, rtt)));
    for (index, ((name, server), rtt)) in hosts.enumerate() {
        let _ = write!(
            text,
            "[[host]]\nname = \"{name}{rtt}\"\nrole = \"server\"\nipv4 = \"198.51.100.{}\"\n\
             names = [\"{name}{rtt}.paired.test\"]\nserver = {server}\n\
             up = {{ delay = \"{half}ms\" }}\ndown = {{ delay = \"{half}ms\" }}\n",
            index + 1,
            half = rtt / 2
        );
    }
    text
}

/// Measures every cell `pairs` times with each program and prints the median totals.
///
/// Returns whether the medians are within 1 ms or 1 % of each other in all but one of forty cells.
pub(crate) fn measure(pairs: usize) -> Result<bool, String> {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().map_err(|e| e.to_string())?;
    std::fs::write(file.path(), scenario()).map_err(|e| e.to_string())?;
    let scenario = Scenario::load(&file.path().to_string_lossy()).map_err(|e| e.to_string())?;
    let said = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let code = run(&scenario, &LabOptions::default(), |_| {
        let cells = Cell::all();
        let lines: String = cells.iter().map(|cell| line(cell, pairs)).collect();
        i32::from(std::fs::write(said.path(), lines).is_err())
    });
    code.map_err(|e| e.to_string())?;
    print(said.path())
}

/// The totals of one cell as text: firstbyte's, then curl's, in milliseconds.
fn line(cell: &Cell, pairs: usize) -> String {
    let mut times = [Vec::new(), Vec::new()];
    // The first pair only loads both programs from disk.
    for pair in 0..=pairs {
        for (of, program) in times.iter_mut().zip([PROGRAM, "curl"]) {
            let total = total(program, cell);
            if pair > 0 {
                of.extend(total);
            }
        }
    }
    let Cell { host, http, think_ms, body } = cell;
    let [ours, curl] = times.map(|of| median(&of).unwrap_or(f64::NAN));
    format!("{host} {http} {think_ms} {body} {ours} {curl}\n")
}

/// From the end of the handshake to the last byte: before that, curl takes 2 ms to look up the name in a separate
/// thread and to initialise its TLS library.
fn total(program: &str, cell: &Cell) -> Option<f64> {
    let mut command = Command::new(program);
    command.args([
        "-4",
        "-k",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{time_total} %{time_appconnect}\\n",
    ]);
    command.arg(format!("--http{}", cell.http)).arg(cell.url());
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (total, handshake) = text.trim().split_once(' ')?;
    Some((total.parse::<f64>().ok()? - handshake.parse::<f64>().ok()?) * 1e3)
}

fn print(said: &Path) -> Result<bool, String> {
    let text = std::fs::read_to_string(said).map_err(|e| e.to_string())?;
    println!("\nFrom the end of the handshake to the last byte, ms: medians\n");
    println!("| server | HTTP | think, ms | bytes | firstbyte | curl | difference |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    let (mut cells, mut apart) = (0, 0);
    for line in text.lines() {
        let [host, http, think, body, ours, curl] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{line:?}: not a cell"));
        };
        let [ours, curl] = [ours, curl].map(|ms| ms.parse::<f64>().unwrap_or(f64::NAN));
        let difference = ours - curl;
        let is_apart = difference.is_nan() || difference.abs() > (curl * 0.01).max(1.0);
        (cells, apart) = (cells + 1, apart + usize::from(is_apart));
        let mark = if is_apart { " (!)" } else { "" };
        println!(
            "| {host} | {http} | {think} | {body} | {ours:.1} | {curl:.1} | {difference:+.1}{mark} |"
        );
    }
    println!("\n{apart} of {cells} cells differ by more than 1 ms and 1 %");
    Ok(apart * 40 <= cells)
}
