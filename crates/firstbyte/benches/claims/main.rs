//! Compares every client's claims about its connections with the other end: session resumed, early data accepted,
//! protocol, new or reused.
//!
//! firstbyte, curl, Chromium and Firefox each visit servers in a lab in every way they support, each visit under a
//! unique path: nginx over TCP, Caddy over QUIC, and servers that answer early data late, refuse it, or resume nothing.
//! The access logs give the truth. For QUIC at Caddy the capture does: tshark decrypts it with the secrets that the
//! clients logged. Definitions: `docs/measurement.md`, "Claims of every client".
//!
//!     cargo bench -p firstbyte --bench claims -- [--visits N] [--client NAME] [--keep DIR] [--all]
//!
//! Makes N visits of each client (200), spread over its ways; `--all` prints a row for each way. Fails if the other end
//! contradicts a claim, or if a visit failed or is in no log.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the terminal that has nobody to report to"
)]

mod lab;
mod truth;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use lab::Visit;
use truth::Truth;

fn main() -> ExitCode {
    if has("--test") {
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

/// Returns whether no claim was contradicted.
fn run() -> Result<bool, String> {
    if let Some(directory) = argument("--in-lab") {
        return lab::visit(&PathBuf::from(directory)).map(|()| true);
    }
    let visits = match argument("--visits") {
        Some(text) => text.parse().map_err(|_| format!("--visits {text}: not a number"))?,
        None => 200,
    };
    let passing = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = argument("--keep").map_or_else(|| passing.path().to_owned(), PathBuf::from);
    let taken = lab::run(&directory, visits, argument("--client").as_deref())?;
    let truth = truth::read(&directory)?;
    Ok(table(&taken, &truth))
}

/// How many claims were compared with the other end, and how many it confirmed.
#[derive(Default)]
struct Agreement {
    compared: u32,
    agree: u32,
    /// How many of these are "yes" at the other end. Without any, a client that always says "no" would pass.
    yes: u32,
}

#[derive(Default)]
struct Row {
    visits: u32,
    /// Visits that failed or are not in the log.
    lost: u32,
    agreements: [Agreement; 4],
}

/// Name of the row that sums up all ways of a client.
const ALL: &str = "all";
const CLAIMS: [&str; 4] = ["protocol", "resumed", "early data", "reused"];

/// Markdown: a row for each client and way.
fn table(taken: &[Visit], truth: &BTreeMap<String, Truth>) -> bool {
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    let mut contradicted = BTreeSet::new();
    for visit in taken {
        for key in [visit.way.clone(), ALL.to_owned()] {
            let row = rows.entry((visit.client.clone(), key)).or_default();
            row.visits += 1;
            let Some(was) = truth.get(&visit.path).filter(|_| visit.failure.is_none()) else {
                row.lost += 1;
                continue;
            };
            let held = hold(visit, was);
            for ((name, agreement), (said, so)) in
                CLAIMS.into_iter().zip(&mut row.agreements).zip(held)
            {
                // A client that makes no claim is not compared.
                let (Some(said), Some(so)) = (said, so) else { continue };
                agreement.compared += 1;
                agreement.yes += u32::from(so != "no");
                agreement.agree += u32::from(said == so);
                if said != so {
                    contradicted.insert(format!("{}: {name}: said {said}, was {so}", visit.path));
                }
            }
        }
    }
    println!("| client | way | visits | lost | {} |", CLAIMS.join(" | "));
    println!("|---|---|---:|---:|{}", "---:|".repeat(CLAIMS.len()));
    for ((client, way), row) in rows.iter().filter(|((_, way), _)| has("--all") || way == ALL) {
        let cells = row.agreements.iter().map(|agreement| match agreement {
            Agreement { compared: 0, .. } => "not said".to_owned(),
            Agreement { compared, agree, yes } => format!("{agree} of {compared}, {yes} yes"),
        });
        let cells: Vec<String> = cells.collect();
        println!("| {client} | {way} | {} | {} | {} |", row.visits, row.lost, cells.join(" | "));
    }
    for line in &contradicted {
        println!("contradicted: {line}");
    }
    for visit in taken {
        if let Some(failure) = &visit.failure {
            println!("failed: {}: {failure}", visit.path);
        } else if !truth.contains_key(&visit.path) {
            println!("not in the log: {}", visit.path);
        }
    }
    let lost = rows.values().any(|row| row.lost > 0);
    contradicted.is_empty() && !lost && !rows.is_empty()
}

/// The claimed and the true values as text; protocol first.
fn hold(visit: &Visit, was: &Truth) -> [(Option<String>, Option<String>); 4] {
    let yes_or_no = |value: bool| if value { "yes" } else { "no" }.to_owned();
    [
        (visit.protocol.clone(), Some(was.protocol.clone())),
        (visit.resumed.map(yes_or_no), was.resumed.map(yes_or_no)),
        (visit.early.map(yes_or_no), was.early.map(yes_or_no)),
        (Some(yes_or_no(visit.reused)), Some(yes_or_no(was.reused))),
    ]
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn has(name: &str) -> bool {
    std::env::args().any(|a| a == name)
}
