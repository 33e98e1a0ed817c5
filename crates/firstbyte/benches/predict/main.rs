//! How far predictions are from measurements in a lab.
//!
//! Every way to connect × round trip × chain × response: the median of `firstbyte compare` next to `predict`, with the
//! worst cases. The table goes into `docs/prediction.md`.
//!
//!     cargo bench -p firstbyte --bench predict -- [--samples N] [--rtt MS,MS] [--chain BYTES,…]
//!         [--response BYTES,…] [--way PART-OF-ITS-NAME] [--congestion cubic|bbr|reno] [--window N] [--all]
//!     cargo bench -p firstbyte --bench predict -- --audience
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for the terminal that has nobody to report to"
)]

mod audience;
mod grid;

use std::process::ExitCode;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_predict::{CongestionControl, Way};
use grid::{Compared, Grid};

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--test") {
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|a| a == "--audience") {
        if let Err(message) = audience::cost() {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
        return ExitCode::SUCCESS;
    }
    let grid = Grid {
        rtts: numbers("--rtt", &[5, 30, 80, 200]).map(Duration::from_millis).collect(),
        chains: numbers("--chain", &[0, 3_000, 6_000, 20_000]).map(|n| n as usize).collect(),
        responses: numbers("--response", &[1_000, 20_000, 80_000, 1_000_000]).collect(),
        ways: ways(),
        samples: numbers("--samples", &[5]).next().unwrap_or(5) as u32,
        congestion_control: argument("--congestion")
            .map_or(CongestionControl::Cubic, |name| CongestionControl::named(&name).unwrap()),
        initial_window: numbers("--window", &[10]).next().unwrap_or(10) as u32,
    };
    match grid.compare() {
        Ok(compared) => {
            report(&compared, std::env::args().any(|a| a == "--all"));
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn ways() -> Vec<Way> {
    let named = argument("--way").unwrap_or_default();
    Way::all().into_iter().filter(|way| way.label().contains(&named)).collect()
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn numbers(name: &str, default: &[u64]) -> impl Iterator<Item = u64> {
    let given = argument(name);
    let given = given.map(|text| text.split(',').map(|n| n.parse().unwrap()).collect());
    given.unwrap_or_else(|| default.to_vec()).into_iter()
}

/// Prints Markdown: the error of the total for each way and round trip, then the worst cases.
fn report(compared: &[Compared], all: bool) {
    for metric in [Metric::Ttfb, Metric::Total] {
        let of_metric: Vec<&Compared> = compared.iter().filter(|c| c.metric == metric).collect();
        let good = of_metric.iter().filter(|c| c.badness() <= 1.0).count();
        println!("\n{}: {good} of {} within 3 % or 1 ms\n", metric.name(), of_metric.len());
        by_way(&of_metric);
        println!("\nworst, {}:\n", metric.name());
        let mut sorted = of_metric;
        sorted.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
        println!(
            "| way | RTT ms | chain | response | measured ms | fastest | predicted ms | error ms |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for case in sorted.iter().take(if all { usize::MAX } else { 15 }) {
            println!(
                "| {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {:+.2} |",
                case.way.label(),
                case.rtt.as_millis(),
                case.chain,
                case.response,
                case.measured.as_secs_f64() * 1e3,
                case.fastest.as_secs_f64() * 1e3,
                case.predicted.as_secs_f64() * 1e3,
                case.error_ms(),
            );
        }
    }
}

fn by_way(compared: &[&Compared]) {
    let rtts: Vec<u128> = {
        let mut rtts: Vec<u128> = compared.iter().map(|c| c.rtt.as_millis()).collect();
        rtts.sort_unstable();
        rtts.dedup();
        rtts
    };
    let mut heading = "| way, error in ms: median, worst |".to_owned();
    let mut rule = "|---|".to_owned();
    for rtt in &rtts {
        heading += &format!(" {rtt} ms |");
        rule += "---:|";
    }
    println!("{heading}\n{rule}");
    for way in ways() {
        let mut line = format!("| {} |", way.label());
        for rtt in &rtts {
            let mut errors: Vec<f64> = compared
                .iter()
                .filter(|c| c.way == way && c.rtt.as_millis() == *rtt)
                .map(|c| c.error_ms())
                .collect();
            errors.sort_by(f64::total_cmp);
            let worst = errors.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
            line += &match (errors.get(errors.len() / 2), worst) {
                (Some(middle), Some(worst)) => format!(" {middle:+.2}, {worst:+.2} |"),
                _ => " – |".to_owned(),
            };
        }
        println!("{line}");
    }
}
