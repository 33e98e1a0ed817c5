//! How long it takes to report a long run: `cargo bench -p firstbyte --bench report [-- ROUNDS CELLS]`.
//!
//! Writes a run of 100,000 rounds of 12 cells to a temporary directory, as firstbyte would but without waiting for the
//! disk, then runs `firstbyte report` on it as a user would, and prints wall clock, processor time and the largest
//! resident set. Fails if the terminal or HTML report, or the time of an export, exceeds its limit; the limits are for
//! 1.2 million samples on two idle processors.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod visits;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use firstbyte::runs::{Run, environment};
use firstbyte_clock::Monotonic;
use firstbyte_core::document::Interner;
use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader, sample_line,
};
use firstbyte_core::run::{Cell, Factor, Shortfall, Standing, Taken};
use nix::sys::resource::{UsageWho, getrusage};
use visits::Visit;

/// Time limit of a report of the whole run.
const WALL: Duration = Duration::from_secs(5);
/// Time limit of an export, which reads every sample completely.
const CSV_WALL: Duration = Duration::from_secs(8);
const PARQUET_WALL: Duration = Duration::from_secs(10);
const MEMORY_BYTES: u64 = 500 << 20;

fn main() -> ExitCode {
    let numbers = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    let rounds = numbers.first().copied().unwrap_or(100_000);
    let cells = numbers.get(1).copied().unwrap_or(12);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.run");
    let begun = Monotonic::now();
    write(&path, rounds, cells);
    let size = fs::metadata(&path).unwrap().len();
    println!(
        "{rounds} rounds × {cells} cells: {:.0} MB, {} bytes a sample, made in {:.1} s",
        size as f64 / 1e6,
        size / u64::from(rounds * cells),
        seconds(begun)
    );
    let begun = Monotonic::now();
    let rows = Run::read(&path).unwrap().rows.len();
    println!("rows of {rows} samples read in {:.2} s", seconds(begun));

    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let good = [
        report("terminal", &path, &[], WALL),
        report("terminal and HTML", &path, &["--html", &file("report.html")], WALL),
        report("--csv", &path, &[&format!("--csv={}", file("all.csv"))], CSV_WALL),
        report("--parquet", &path, &["--parquet", &file("all.parquet")], PARQUET_WALL),
    ];
    let [terminal, csv, parquet] = [WALL, CSV_WALL, PARQUET_WALL].map(|limit| limit.as_secs());
    let held = good == [true; 4];
    println!(
        "within {terminal} s (terminal and HTML), {csv} s (CSV), {parquet} s (Parquet) and {} MB: {}",
        MEMORY_BYTES >> 20,
        if held { "yes" } else { "NO" }
    );
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn seconds(begun: Monotonic) -> f64 {
    Monotonic::now().since(begun).as_secs_f64()
}

/// Runs `firstbyte report` and returns whether it stayed within its limits.
fn report(name: &str, path: &Path, arguments: &[&str], limit: Duration) -> bool {
    let before = processor_time();
    let begun = Monotonic::now();
    let status = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .arg("report")
        .arg(path)
        .args(arguments)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let wall = Monotonic::now().since(begun);
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    // This is the largest of all children so far, so later reports can only look worse than they are.
    let memory = u64::try_from(usage.max_rss()).unwrap() * 1024;
    println!(
        "{name}: {:.2} s, processor {:.2} s, memory {:.0} MB",
        wall.as_secs_f64(),
        processor_time() - before,
        memory as f64 / 1e6,
    );
    status.success() && wall <= limit && memory <= MEMORY_BYTES
}

/// Processor time of all children, seconds.
fn processor_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn write(path: &Path, rounds: u32, cells: u32) {
    let cell = |n: u32| {
        let factor =
            |axis: &str, value: String| Factor { axis: axis.into(), label: value.clone(), value };
        Cell {
            factors: vec![
                factor("tls", if n.is_multiple_of(2) { "1.2" } else { "1.3" }.into()),
                factor("edge", format!("edge-{}", n / 2)),
            ],
            url: format!("https://edge-{}.example/", n / 2),
            twin_of: None,
        }
    };
    let cells: Vec<Cell> = (0..cells).map(cell).collect();
    let axis = |name: &str, values: &[&str]| AxisRecord {
        name: name.into(),
        values: values.iter().map(ToString::to_string).collect(),
    };
    let header = RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: STARTED,
        firstbyte_version: env!("CARGO_PKG_VERSION").into(),
        command: ["firstbyte", "compare", "https://example.com/"].map(String::from).into(),
        plan: serde_json::Value::Null,
        design: DesignRecord { rounds: Some(rounds), concurrent: 1, ..DesignRecord::default() },
        axes: vec![axis("tls", &["1.2", "1.3"]), axis("edge", &[])],
        cells: cells.iter().map(CellRecord::from_cell).collect(),
        environment: environment::gather(),
    };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    out.write_all(&header.line().unwrap()).unwrap();
    let mut interner = Interner::default();
    let mut random = fastrand::Rng::with_seed(1);
    let mut line = Vec::new();
    for round in 0..rounds {
        for (index, cell) in cells.iter().enumerate() {
            line.clear();
            let taken = taken(index, cell, round, &mut random);
            sample_line(&taken, &cell.url, &mut interner, &mut line).unwrap();
            interner.stored();
            out.write_all(&line).unwrap();
        }
    }
    out.flush().unwrap();
}

const STARTED: u64 = 1_795_183_509_123_456_000;

fn taken(index: usize, cell: &Cell, round: u32, random: &mut fastrand::Rng) -> Taken {
    let visit = Visit {
        url: &cell.url,
        is_tls12: index.is_multiple_of(2),
        rtt: Duration::from_micros(10_000 * (1 + index as u64 / 2)),
        started_unix_ns: STARTED + u64::from(round) * 400_000_000,
        number: round,
    };
    Taken {
        stands_for: None,
        cell: index as u16,
        standing: match random.u32(0..200) {
            0 => Standing::Unproven(Shortfall::NotResumed),
            _ => Standing::Proven,
        },
        lateness: Duration::from_nanos(random.u64(0..90_000)),
        sample: visit.sample(random),
    }
}
