//! Compares the estimate of the server's time with the truth: servers that take as long as configured.
//!
//! `cargo test -p firstbyte --test lab -- --ignored --nocapture server_time` measures every cell and prints the table
//! of `docs/measurement.md`; every run checks a few of the cells against their bars.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::document::SampleRecord;
use firstbyte_core::stats;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, phase, run, samples, text};

/// One server behind one link.
struct Cell {
    name: String,
    /// Round trip in milliseconds.
    rtt: u32,
    /// Think time before the answer, milliseconds.
    think: u32,
    /// Other settings of the link towards the client: keys of a scenario.
    down: &'static str,
    /// Other settings of the server: keys of a scenario.
    server: &'static str,
    about: &'static str,
}

impl Cell {
    fn quiet(rtt: u32, think: u32) -> Self {
        Self::new("quiet", rtt, think, "", "")
    }

    fn new(
        about: &'static str,
        rtt: u32,
        think: u32,
        down: &'static str,
        server: &'static str,
    ) -> Self {
        let letters: String = about.chars().filter(char::is_ascii_alphabetic).take(6).collect();
        Self { name: format!("{letters}{rtt}-{think}"), rtt, think, down, server, about }
    }

    fn host(&self, number: usize) -> String {
        let Self { name, rtt, think, down, server, .. } = self;
        let half = f64::from(*rtt) / 2.0;
        format!(
            r#"
[[host]]
name = "{name}"
role = "server"
ipv4 = "198.51.100.{number}"
names = ["{name}.test"]
server = {{ kind = "builtin", page_bytes = 500, think_time = "{think}ms"{server} }}
up = {{ delay = "{half}ms"{down} }}
down = {{ delay = "{half}ms" }}
"#
        )
    }
}

/// Estimates for a cell, one per round, milliseconds.
struct Estimated {
    server: Vec<f64>,
    uncertainty: Option<f64>,
}

impl Estimated {
    fn median(&self) -> f64 {
        stats::median(&self.server).unwrap()
    }
}

/// Visits every cell once per round, so that other work on the machine affects all cells.
fn measure(cells: &[Cell], rounds: usize) -> Vec<Estimated> {
    let hosts: Vec<String> = cells.iter().enumerate().map(|(i, cell)| cell.host(i + 1)).collect();
    let scene = Scene::with_servers(&hosts.concat());
    let mut round = String::new();
    for cell in cells {
        let _ = writeln!(round, "{PROGRAM} --json --tlsv1.3 -n 1 https://{}.test/", cell.name);
    }
    let script = format!("for round in $(seq {rounds}); do\n{round}done");
    let mut command = firstbyte(&["lab", "run"]);
    // At hundreds of milliseconds per visit, the table needs a longer timeout.
    command = {
        let mut longer = std::process::Command::new("timeout");
        longer.args(["--kill-after=5", "590", PROGRAM]).args(command.get_args().skip(3));
        longer.env("LC_ALL", "C.UTF-8").stdin(std::process::Stdio::null());
        longer
    };
    let output = run(command.arg(scene.file()).args(["--", "sh", "-c", &script]));
    assert!(output.status.success(), "{:?}\n{}", output.status, text(&output.stderr));
    let all = samples(&output.stdout);
    let per_cell = |cell: &Cell| -> Vec<SampleRecord> {
        let url = format!("https://{}.test/", cell.name);
        all.iter().filter(|sample| sample.requested_url == url).cloned().collect()
    };
    cells.iter().map(|cell| estimated(&per_cell(cell), rounds)).collect()
}

fn estimated(samples: &[SampleRecord], rounds: usize) -> Estimated {
    assert_eq!(samples.len(), rounds);
    let ms = |ns: u64| Duration::from_nanos(ns).as_secs_f64() * 1e3;
    let of_server = |s| ms(phase(s, "wait").map_or(0, |wait| wait.parts.server_ns));
    let uncertain: Vec<u64> =
        samples.iter().filter_map(|s| s.connection.split.server_uncertainty_ns).collect();
    let uncertainty =
        (!uncertain.is_empty()).then(|| crate::support::middle(uncertain).as_secs_f64() * 1e3);
    Estimated { server: samples.iter().map(of_server).collect(), uncertainty }
}

/// The tolerance: half a millisecond or 5 %, whichever is larger.
fn bar(think: u32) -> f64 {
    (f64::from(think) * 0.05).max(0.5)
}

/// A server configured to take no time still needs some, and that estimate is true as well.
///
/// A cell's error is therefore its difference to that cell, round by round. On a busy machine the interval becomes
/// wider, but neither end moves beyond the truth.
#[test]
fn on_a_quiet_link_the_estimate_is_true() {
    let _permits = Permits::one();
    let cells = [Cell::quiet(1, 0), Cell::quiet(1, 8), Cell::quiet(20, 8), Cell::quiet(80, 50)];
    let estimates = measure(&cells, stats::FEWEST_ROUNDS + 1);
    for (cell, estimate) in cells.iter().zip(&estimates).skip(1) {
        let effect = stats::paired_effect(&estimates[0].server, &estimate.server, 1).unwrap();
        let interval = effect.difference.interval.unwrap();
        let (think, bar) = (f64::from(cell.think), bar(cell.think));
        let holds = interval.low <= think + bar && interval.high >= think - bar;
        assert!(holds, "{}: {:?}", cell.name, effect.difference);
    }
}

#[test]
#[ignore = "takes minutes: prints the table of docs/measurement.md"]
fn table_of_estimated_and_true_server_times() {
    let _permits = Permits::all();
    let quiet = |rtt: u32| [0, 2, 8, 50, 250].map(|think| Cell::quiet(rtt, think));
    let mut cells: Vec<Cell> = [1, 5, 20, 80, 200].into_iter().flat_map(quiet).collect();
    for think in [8, 50] {
        cells.push(Cell::new("jitter of 1 ms", 20, think, r#", jitter = "1ms""#, ""));
        cells.push(Cell::new("more jitter: 5 ms", 20, think, r#", jitter = "5ms""#, ""));
        cells.push(Cell::new("loss of 1 %", 20, think, r#", loss = "1%""#, ""));
        cells.push(Cell::new("nagle's delay", 20, think, "", ", nagle = true"));
        cells.push(Cell::new("slow link, 8 Mbit/s", 20, think, r#", rate = "8mbit""#, ""));
    }
    let estimates = measure(&cells, 20);
    let floor = estimates[0].median();
    println!("the server's own time, told to take none: {floor:.2} ms");
    println!("| path | round trip | think time | estimated | error | ± |");
    println!("|---|---:|---:|---:|---:|---:|");
    let mut worst: f64 = 0.0;
    for (cell, estimate) in cells.iter().zip(&estimates) {
        let error = estimate.median() - f64::from(cell.think) - floor;
        if cell.about == "quiet" {
            worst = worst.max(error.abs() / bar(cell.think));
        }
        let uncertainty = estimate.uncertainty.map_or("–".into(), |u| format!("{u:.2}"));
        println!(
            "| {} | {} | {} | {:.2} | {error:+.2} | {uncertainty} |",
            cell.about,
            cell.rtt,
            cell.think,
            estimate.median()
        );
    }
    println!("worst error on a quiet link, as a share of 0.5 ms or 5 %: {worst:.2}");
    assert!(worst <= 1.0);
}
