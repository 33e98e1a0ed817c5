//! Ordinary pages on quiet links, cell by cell: whether the server's part of `wait` equals the server's true time.
//!
//! The truth is measured at the server: from the arrival of the request's last byte to the response's first byte.

use std::collections::BTreeMap;

use firstbyte_core::split::Part;
use firstbyte_core::stats;

use crate::case::Case;
use crate::reading::Quantity;
use crate::score::{Outcome, index};
use crate::table::share;
use crate::zoo::Server;

const SERVERS: [Server; 5] =
    [Server::Nginx, Server::Caddy, Server::Apache, Server::Go, Server::Builtin];
const ROUND_TRIPS_MS: [u64; 3] = [20, 80, 200];
const THINK_MS: [u64; 3] = [0, 8, 50];
const BODY_BYTES: [u64; 6] = [500, 2_000, 14_000, 40_000, 100_000, 200_000];

/// Every cell; the cell's number goes into the case's seed.
pub(crate) fn cases(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for server in SERVERS {
        for http in ["1.1", "2"] {
            for rtt_ms in ROUND_TRIPS_MS {
                for think_ms in THINK_MS {
                    for body in BODY_BYTES {
                        let seed = seed * 1_000 + cases.len() as u64;
                        cases.push(Case::quiet(seed, server, http, rtt_ms, think_ms, body));
                    }
                }
            }
        }
    }
    cases
}

/// The server's part of `wait` as reported, its true value, and `wait`: medians over a cell's samples, milliseconds.
struct Cell {
    said: f64,
    truth: f64,
    wait: f64,
}

impl Cell {
    fn measured(samples: &[&Outcome]) -> Option<Self> {
        let median = |of: &dyn Fn(&Outcome) -> Option<f64>| {
            let values: Vec<f64> = samples.iter().filter_map(|sample| of(sample)).collect();
            stats::median(&values)
        };
        let wait = |sample: &Outcome| sample.phases.iter().find(|p| p.name == "wait").cloned();
        let of_server = |sample: &Outcome| Some(wait(sample)?.said[index(Part::Server)]);
        let answer = |sample: &Outcome| {
            let reading = sample.wire.iter().find(|r| r.quantity == Quantity::Answer)?;
            Some(reading.truth[0])
        };
        Some(Self {
            said: median(&of_server)?,
            truth: median(&answer)?,
            wait: median(&|sample| Some(wait(sample)?.took))?,
        })
    }

    fn is_right(&self) -> bool {
        (self.said - self.truth).abs() <= (self.wait * 0.03).max(1.0)
    }
}

/// Prints the table and returns whether 99 % of the cells are right.
pub(crate) fn print(cases: &[Case], outcomes: &[Outcome]) -> bool {
    let mut rows: BTreeMap<(&str, &str), Vec<(bool, usize)>> = BTreeMap::new();
    let (mut wrong, mut untold, mut right) = (Vec::new(), 0, 0);
    for case in cases {
        let samples: Vec<&Outcome> =
            outcomes.iter().filter(|o| o.seed == case.seed && o.untold.is_none()).collect();
        let Some(cell) = Cell::measured(&samples) else {
            untold += 1;
            continue;
        };
        let rtt_ms = case.rtt_us() / 1_000;
        let column = ROUND_TRIPS_MS.iter().position(|rtt| *rtt == rtt_ms).unwrap_or_default();
        rows.entry((case.server.name(), case.http)).or_default().push((cell.is_right(), column));
        right += usize::from(cell.is_right());
        if !cell.is_right() {
            wrong.push(format!(
                "{} HTTP/{}, round trip {rtt_ms} ms, think {} ms, {} bytes: {:.1} for {:.1} of {:.1} ms",
                case.server.name(),
                case.http,
                case.think_us / 1_000,
                case.body,
                cell.said,
                cell.truth,
                cell.wait
            ));
        }
    }
    println!("| server | HTTP | round trip 20 ms | 80 ms | 200 ms |\n|---|---|---:|---:|---:|");
    for ((server, http), cells) in &rows {
        let of_column = |column: usize| {
            let of_it = cells.iter().filter(|(_, at)| *at == column);
            let right = of_it.clone().filter(|(right, _)| *right).count();
            format!("{right} of {}", of_it.count())
        };
        let columns = [0, 1, 2].map(of_column);
        println!("| {server} | {http} | {} |", columns.join(" | "));
    }
    let told = cases.len() - untold;
    println!(
        "\n{right} of {told} cells right: {:.1} %; {untold} without truth",
        share(right, told)
    );
    wrong.iter().for_each(|line| println!("- {line}"));
    right * 100 >= told * 99 && untold * 100 <= cases.len()
}
