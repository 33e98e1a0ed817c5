//! Table of the third witness's results.

use std::collections::BTreeMap;

use crate::score::Outcome;
use crate::strace::Witness;
use crate::table::{cell, share};

/// Prints how often, and by how much, the truth of `server` and `pause` is off.
pub(crate) fn print(outcomes: &[Outcome]) {
    let mut untraced: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_server: BTreeMap<&str, Vec<(&Outcome, [f64; 2])>> = BTreeMap::new();
    for outcome in outcomes {
        match &outcome.witness {
            Some(Witness::Untraced(why)) => *untraced.entry(why).or_default() += 1,
            Some(Witness::Traced { off, open, .. }) => {
                by_server.entry(&outcome.server).or_default().push((outcome, [*off, *open]));
            }
            None => {}
        }
    }
    if by_server.is_empty() && untraced.is_empty() {
        return;
    }
    println!(
        "\nThe truth of server and pause held against `strace`: |error| in ms (median, p99, worst)\n"
    );
    println!(
        "| server | n | error | off by more than 1 ms and 3 %, % | an interval |\n|---|---:|---:|---:|---:|"
    );
    for (server, of) in &by_server {
        let mut errors: Vec<f64> = of.iter().map(|(_, [off, _])| off.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let off = of.iter().filter(|(outcome, [off, _])| is_off(outcome, *off)).count();
        let intervals = of.iter().filter(|(_, [_, open])| *open > 1.0).count();
        let (n, share) = (of.len(), share(off, of.len()));
        println!("| {server} | {n} | {} | {share:.1} | {intervals} |", cell(&errors));
    }
    for (why, count) in untraced {
        println!("\n- not traced, {count} samples: {why}");
    }
    let all = by_server.values().flatten().filter(|(outcome, [off, _])| is_off(outcome, *off));
    let mut off: Vec<_> = all.collect();
    off.sort_by(|a, b| b.1[0].abs().total_cmp(&a.1[0].abs()));
    if !off.is_empty() {
        println!("\nOff most (said too much is above zero):\n");
    }
    for (outcome, [off, _]) in off.iter().take(10) {
        println!(
            "- `-- --case {} --server {}`, sample {}: {off:.1} ms: {}",
            outcome.seed,
            outcome.server,
            outcome.sample,
            outcome.drawn()
        );
    }
}

fn is_off(outcome: &Outcome, off: f64) -> bool {
    off.abs() > (outcome.total * 0.03).max(1.0)
}
