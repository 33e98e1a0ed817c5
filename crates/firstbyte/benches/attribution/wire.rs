//! Tables of the passive reader's results at three taps.

use std::collections::BTreeMap;

use crate::reading::{Quantity, Reading};
use crate::score::Outcome;
use crate::table::cell;
use crate::taps::Tap;

/// Prints the error of each quantity by tap and by server, and the largest errors.
pub(crate) fn print(outcomes: &[Outcome]) {
    let all: Vec<(&Outcome, &Reading)> =
        outcomes.iter().flat_map(|o| o.wire.iter().map(move |reading| (o, reading))).collect();
    if all.is_empty() {
        return;
    }
    println!("\n`wire` at three taps: error in ms of confident figures (median, p99, worst)\n");
    println!(
        "| | tap | n | says nothing | in doubt | error | confident and wrong, % | of those in doubt, wrong, % |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for (quantity, name) in Quantity::ALL {
        for (index, tap) in Tap::ALL.into_iter().enumerate() {
            let of = |(_, r): &&(&Outcome, &Reading)| {
                r.quantity == quantity && usize::from(r.tap) == index
            };
            let readings: Vec<&Reading> = all.iter().filter(of).map(|(_, r)| *r).collect();
            let said: Vec<&Reading> =
                readings.iter().copied().filter(|r| r.said.is_some()).collect();
            let (doubted, sure): (Vec<&Reading>, Vec<&Reading>) =
                said.iter().copied().partition(|r| r.doubted);
            println!(
                "| {name} | {} | {} | {} | {} | {} | {:.1} | {:.1} |",
                tap.name(),
                readings.len(),
                readings.len() - said.len(),
                doubted.len(),
                errors(&sure),
                wrong(&sure),
                wrong(&doubted),
            );
        }
    }
    by_server(&all);
    worst(&all);
}

fn errors(readings: &[&Reading]) -> String {
    let mut errors: Vec<f64> = readings.iter().filter_map(|r| r.error()).map(f64::abs).collect();
    errors.sort_by(f64::total_cmp);
    if errors.is_empty() { String::new() } else { cell(&errors) }
}

fn wrong(readings: &[&Reading]) -> f64 {
    let wrong = readings.iter().filter(|r| r.is_wrong()).count();
    100.0 * wrong as f64 / readings.len().max(1) as f64
}

fn by_server(all: &[(&Outcome, &Reading)]) {
    let mut groups: BTreeMap<&str, Vec<&Reading>> = BTreeMap::new();
    for (outcome, reading) in all.iter().filter(|(_, r)| !r.doubted) {
        groups.entry(&outcome.server).or_default().push(reading);
    }
    let names: Vec<&str> = Quantity::ALL.iter().map(|(quantity, _)| quantity.name()).collect();
    println!("\nThe same by server, over the taps\n");
    println!("| server | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    for (server, readings) in groups {
        let cells = Quantity::ALL.map(|(quantity, _)| {
            let of = readings.iter().copied().filter(|r| r.quantity == quantity);
            errors(&of.collect::<Vec<_>>())
        });
        println!("| {server} | {} |", cells.join(" | "));
    }
}

fn worst(all: &[(&Outcome, &Reading)]) {
    let mut bad: Vec<&(&Outcome, &Reading)> =
        all.iter().filter(|(_, reading)| reading.badness() > 1.0).collect();
    bad.sort_by(|a, b| b.1.badness().total_cmp(&a.1.badness()));
    println!(
        "\nConfident and wrong: {} readings. The worst twenty, each connection once\n",
        bad.len()
    );
    let mut told: Vec<(u64, u32)> = Vec::new();
    for (outcome, _) in &bad {
        if told.len() < 20 && !told.contains(&(outcome.seed, outcome.sample)) {
            told.push((outcome.seed, outcome.sample));
        }
    }
    for (seed, sample) in told {
        let of = bad.iter().filter(|(o, _)| (o.seed, o.sample) == (seed, sample));
        let mut said: Vec<String> = Vec::new();
        let mut about = None;
        for (outcome, r) in of {
            about.get_or_insert(*outcome);
            let tap = Tap::ALL[usize::from(r.tap)].name();
            let (is, truth) = (r.said.unwrap_or_default(), r.truth[0]);
            said.push(format!("{} at {tap} {is:.1} for {truth:.1}", r.quantity.name()));
        }
        let Some(outcome) = about else { continue };
        println!(
            "- `-- --case {seed} --server {}`, sample {sample}: {}: {}",
            outcome.server,
            said.join("; "),
            outcome.drawn()
        );
    }
}
