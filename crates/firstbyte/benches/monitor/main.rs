//! The monitor's capacity: `cargo bench -p firstbyte --bench monitor [-- PART…] [OPTION…]`.
//!
//! | part | what | bar |
//! |---|---|---|
//! | `sizes` | bytes of an hour's rollup of 60 samples; of a minute's; of a target for a year | 1.5 kB an hour |
//! | `tls` | full TLS 1.3 probes a second that one core does, to the built-in server on loopback | |
//! | `many` | 50,000 targets in one process: its memory, and how long until the first sample | 500 MB, 2 s |
//! | `recorder` | samples a second through the recorder alone | 10,000 |
//! | `disk` | 2,000 series, each once a minute: bytes written to the disk for each byte of raw samples | 4 |
//! | `sustained` | 10,000 synthetic samples a second for a minute through a busy monitor | lateness p99 1 s, no loss |
//! | `year` | a year of 1,000 targets in two ways, by hours and days: the start, and each view | 2 s, 300 ms |
//!
//! Without a part, all but `year` run; `year` is a suite of its own: it writes up to 30 GB below `--tmpdir` (default:
//! the system's) and removes them. In `sustained` a prober without network makes the samples, while retention deletes
//! and the server is queried all the time. `--seconds N`, `--rate N` and `--series N` belong to `sustained`,
//! `--targets N` and `--days N` to `year`. Prints each figure with its bar next to it, and fails if one is missed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod ask;
mod disk;
mod generated;
mod many;
mod options;
mod processor;
mod recorder;
mod sizes;
mod sustained;
mod synthetic;
mod tls;
#[path = "../visits/mod.rs"]
mod visits;
mod year;

use std::process::ExitCode;

use options::Options;

/// A part, whether it runs by default, and its function, which returns whether every bar is met.
type Part = (&'static str, bool, fn(&Options) -> bool);

const PARTS: [Part; 7] = [
    ("sizes", true, sizes::measure),
    ("tls", true, tls::measure),
    ("many", true, many::measure),
    ("recorder", true, recorder::measure),
    ("disk", true, disk::measure),
    ("sustained", true, sustained::measure),
    ("year", false, year::measure),
];

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(what) => {
            println!("{what}");
            return ExitCode::FAILURE;
        }
    };
    if options.parts == [many::CHILD] {
        return many::child();
    }
    if let Some(unknown) =
        options.parts.iter().find(|part| !PARTS.iter().any(|(name, ..)| name == part))
    {
        let parts = PARTS.map(|(name, ..)| name).join(", ");
        println!("no part is called {unknown:?}: there are {parts}");
        return ExitCode::FAILURE;
    }
    let mut all_held = true;
    for (name, usual, measure) in PARTS {
        let is_asked = match options.parts.is_empty() {
            true => usual,
            false => options.parts.iter().any(|part| part == name),
        };
        if is_asked {
            println!("\n{name}");
            all_held &= measure(&options);
        }
    }
    if all_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a figure, and whether it is within its bar.
fn barred(name: &str, figure: &str, bar: &str, is_held: bool) -> bool {
    let said = if is_held { "yes" } else { "NO" };
    println!("  {name:<56} {figure:>14}   {bar}: {said}");
    is_held
}

/// Prints a figure that has no bar.
fn figure(name: &str, figure: &str) {
    println!("  {name:<56} {figure:>14}");
}
