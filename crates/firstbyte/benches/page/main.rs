//! Compares the savings that `firstbyte page` predicts for changes with pages where the changes were made.
//!
//! Draws pages (origins, round trips, resources that lead to others, server times, HTTP and TLS versions), has Chromium
//! load each in the lab, predicts every change, makes the change, and loads the page again. Definitions:
//! `docs/measurement.md`, "Pages".
//!
//!     cargo bench -p firstbyte --bench page -- [--pages N] [--seed N] [--visits N] [--keep DIR [--again]] [--fastest]
//!         [--all]
//!
//! Page loads are kept in DIR; those already there are compared again without a new measurement; with `--again` only
//! those. Compares the median loads, or with `--fastest` the fastest, which other work on the machine disturbs least.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal that has nobody to report to"
)]

mod drawn;
mod lab;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use drawn::DrawnPage;
use table::Held;

fn main() -> ExitCode {
    if has("--test") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    if let Some(job) = argument("--load") {
        return lab::load(&PathBuf::from(job));
    }
    let number = |name: &str, default: u64| match argument(name) {
        Some(text) => text.parse().map_err(|_| format!("{name} {text}: not a number")),
        None => Ok(default),
    };
    let (pages, seed, visits) =
        (number("--pages", 50)?, number("--seed", 1)?, number("--visits", 5)?);
    let kept = argument("--keep").map(PathBuf::from);
    let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = kept.unwrap_or_else(|| passing.path().to_owned());
    let of = if has("--fastest") { lab::fastest } else { lab::middle };
    let mut held: Vec<Held> = Vec::new();
    for seed in seed..seed + pages {
        let page = DrawnPage::draw(seed);
        let own = lab::hold(&page, &directory, visits, has("--again"), of)?;
        for one in &own {
            eprintln!("{}", one.line());
        }
        held.extend(own);
    }
    table::print(&held, has("--all"));
    Ok(())
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn has(name: &str) -> bool {
    std::env::args().any(|a| a == name)
}
