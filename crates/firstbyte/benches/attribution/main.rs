//! Compares every part of measured connections with captures at both ends.
//!
//! Draws cases (path, server, way to connect, exchange), measures each in the lab with `firstbyte compare`, and
//! compares the reported parts with the truth that `firstbyte_truth` reads from the packets at both ends. Definitions:
//! `docs/measurement.md`, "Accuracy of the parts".
//!
//!     cargo bench -p firstbyte --bench attribution -- [--cases N] [--seed N] [--lanes N] [--samples N]
//!         [--results FILE] [--keep DIR [--show SEED] [--again]] [--server NAME] [--http VERSION] [--explain N]
//!         [--trace N]
//!     cargo bench -p firstbyte --bench attribution -- --grid [--seed N] [--lanes N] [--samples N]
//!     cargo bench -p firstbyte --bench attribution -- --pages [--seed N] [--lanes N]
//!     cargo bench -p firstbyte --bench attribution -- --case SEED --server NAME [--keep DIR] | --explain-case SEED
//!
//! One case in N is traced (`--trace`, 10; 0 disables). Scored samples are appended to FILE; cases already in it are
//! not measured again. Captures and runs are kept in DIR; those already there are scored again with the current
//! program, and not measured again. The measurements for `explain` are kept there too, and explained again with
//! `--again`: the truth does not change when findings do.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal that has nobody to report to"
)]

mod batch;
mod case;
mod course;
mod explain;
mod faults;
mod grid;
mod packets;
mod pages;
mod pairs;
mod reading;
mod score;
mod secrets;
mod strace;
mod table;
mod taps;
mod wire;
mod witness;
mod zoo;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use case::Case;
use explain::Explained;
use score::Outcome;
use zoo::{Server, Zoo};

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--test") {
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn number(name: &str, default: u64) -> Result<u64, String> {
    let text = argument(name);
    text.map_or(Ok(default), |text| {
        text.parse().map_err(|_| format!("{name} {text}: not a number"))
    })
}

fn run() -> Result<bool, String> {
    let zoo = Zoo::build(&Zoo::directory(env!("CARGO_TARGET_TMPDIR")))
        .map_err(|error| error.to_string())?;
    if argument("--explain-case").is_some() {
        let kept = argument("--keep").map(PathBuf::from);
        let seed = number("--explain-case", 0)?;
        println!("{:#?}", explain::drawn(seed));
        let explained = explain::measure(seed, &zoo, kept.as_deref())?;
        println!("{explained:#?}");
        return Ok(explain::print(&[explained]));
    }
    let now = firstbyte_clock::Realtime::now().unix_nanos();
    let seed = number("--seed", now % 1_000_000_000)?;
    let (count, lanes) = (number("--cases", 2_000)? as usize, number("--lanes", 4)? as usize);
    if std::env::args().any(|a| a == "--pages") {
        println!("seed {seed}");
        return pages::measure(seed, lanes, &zoo);
    }
    let samples = number("--samples", 3)? as u32;
    let how = batch::How {
        samples,
        lanes,
        trace: number("--trace", 10)?,
        keep: argument("--keep").map(PathBuf::from),
    };
    if std::env::args().any(|a| a == "--grid") {
        let cases = grid::cases(seed);
        println!("seed {seed}");
        let mut outcomes = Vec::new();
        for batch in &batch::batches(cases.clone()) {
            eprint!("\r{} of {} samples", outcomes.len(), cases.len() * samples as usize);
            outcomes.extend(batch::measure(batch, &how, &|_, _, _, _| {}, &zoo)?);
        }
        eprintln!();
        return Ok(grid::print(&cases, &outcomes));
    }
    let cases = drawn(seed, count)?;
    println!("seed {seed}");
    let results = argument("--results").map(PathBuf::from);
    let mut outcomes: Vec<Outcome> = match &results {
        Some(file) if file.exists() => stored(file)?,
        _ => Vec::new(),
    };
    let done: HashSet<(u64, String)> =
        outcomes.iter().map(|o| (o.seed, o.server.clone())).collect();
    let left: Vec<Case> = cases
        .into_iter()
        .filter(|case| !done.contains(&(case.seed, case.server.name().to_owned())))
        .collect();
    let shown = argument("--show").or_else(|| argument("--case"));
    let show: batch::Show<'_> = &|case, number, connection, truth| {
        if shown.as_ref().is_some_and(|seed| *seed == case.seed.to_string()) {
            course::print(number, connection, truth);
        }
    };
    let (all, mut begun) = (left.len(), 0);
    for batch in &batch::batches(left) {
        eprint!("\r{begun} of {all} cases");
        begun += batch.len();
        let scored = batch::measure(batch, &how, show, &zoo)?;
        if let Some(file) = &results {
            store(file, &scored)?;
        }
        outcomes.extend(scored);
    }
    eprintln!();
    let met = table::print(&outcomes).met;
    let explained = explanations(seed, number("--explain", 400)? as usize, lanes, &zoo)?;
    Ok(explain::print(&explained) && met)
}

/// Runs `explain` on `count` cases, `lanes` at a time. Cases in the results file are not measured again.
fn explanations(
    seed: u64,
    count: usize,
    lanes: usize,
    zoo: &Zoo,
) -> Result<Vec<Explained>, String> {
    let file = argument("--results").map(|file| PathBuf::from(file + ".explained"));
    let mut all: Vec<Explained> = match &file {
        Some(file) if file.exists() => stored(file)?,
        _ => Vec::new(),
    };
    let kept = argument("--keep").map(PathBuf::from);
    if let Some(kept) = &kept
        && std::env::args().any(|a| a == "--again")
    {
        for explained in &mut all {
            explain::again(explained, kept)?;
        }
        return Ok(all);
    }
    let mut seeds = fastrand::Rng::with_seed(!seed);
    let seeds: Vec<u64> = (0..count).map(|_| seeds.u64(..)).collect();
    let left: Vec<u64> =
        seeds.into_iter().filter(|seed| all.iter().all(|done| done.seed != *seed)).collect();
    let measure = |seed| explain::measure(seed, zoo, kept.as_deref());
    for (index, seeds) in left.chunks(lanes).enumerate() {
        eprint!("\r{} of {} explanations", index * lanes, left.len());
        let measured: Vec<Result<Explained, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = seeds.iter().map(|seed| scope.spawn(|| measure(*seed))).collect();
            let died = |_| Err("a thread died".to_owned());
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
        });
        for explained in measured {
            let explained = explained?;
            if let Some(file) = &file {
                store(file, std::slice::from_ref(&explained))?;
            }
            all.push(explained);
        }
    }
    eprintln!();
    Ok(all)
}

/// The cases of this run: the same number for each server.
fn drawn(seed: u64, count: usize) -> Result<Vec<Case>, String> {
    let named = argument("--server");
    let servers: Vec<Server> = Server::ALL
        .into_iter()
        .filter(|server| named.as_deref().is_none_or(|name| name == server.name()))
        .collect();
    if servers.is_empty() {
        let names = Server::ALL.map(Server::name).join(", ");
        return Err(format!("--server {}: it is one of {names}", named.unwrap_or_default()));
    }
    if argument("--case").is_some() {
        let seed = number("--case", 0)?;
        return Ok(servers.into_iter().map(|s| Case::drawn(seed, s).with_faults()).collect());
    }
    let mut seeds = fastrand::Rng::with_seed(seed);
    let server = |index: usize| servers[index % servers.len()];
    let http = argument("--http");
    if !http.as_deref().is_none_or(|http| ["1.1", "2", "3"].contains(&http)) {
        return Err("--http: it is one of 1.1, 2, 3".to_owned());
    }
    // A server may not support the requested version at all, so limit the number of draws.
    let most = count.saturating_mul(20).saturating_mul(servers.len());
    let all = (0..most).map(|index| Case::drawn(seeds.u64(..), server(index)).with_faults());
    let wanted = all.filter(|case| http.as_deref().is_none_or(|http| case.http == http));
    Ok(wanted.take(count).collect())
}

fn stored<T: serde::de::DeserializeOwned>(file: &PathBuf) -> Result<Vec<T>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let line = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| format!("{}:{}: {e}", file.display(), index + 1))
    };
    text.lines().enumerate().map(line).collect()
}

fn store<T: serde::Serialize>(file: &PathBuf, outcomes: &[T]) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", file.display());
    let mut out =
        std::fs::OpenOptions::new().append(true).create(true).open(file).map_err(failed)?;
    for outcome in outcomes {
        let line = serde_json::to_string(outcome).map_err(|e| e.to_string())?;
        writeln!(out, "{line}").map_err(failed)?;
    }
    out.flush().map_err(failed)
}
