//! Table of faults that were drawn together.

use std::collections::BTreeMap;

use crate::faults::FAULTS;
use crate::score::Outcome;

/// Prints how often each fault was drawn, and each pair.
pub(crate) fn print(outcomes: &[Outcome]) {
    let mut cases: BTreeMap<(u64, &str), &[String]> = BTreeMap::new();
    for outcome in outcomes {
        cases.insert((outcome.seed, &outcome.server), &outcome.faults);
    }
    let mut together: BTreeMap<usize, usize> = BTreeMap::new();
    for faults in cases.values() {
        *together.entry(faults.len()).or_default() += 1;
    }
    let together: Vec<String> =
        together.iter().map(|(faults, cases)| format!("{faults}: {cases}")).collect();
    println!("\nFaults of a case, and how many cases have so many: {}\n", together.join(", "));
    let numbers: Vec<String> = (1..=FAULTS.len()).map(|number| number.to_string()).collect();
    println!(
        "| | in scenario | {} |\n|---|---|{}",
        numbers.join(" | "),
        "---:|".repeat(FAULTS.len())
    );
    let has = |faults: &[String], name: &str| faults.iter().any(|fault| fault == name);
    for (row, (name, scenario)) in FAULTS.iter().enumerate() {
        let both = |other: &str| {
            cases.values().filter(|faults| has(faults, name) && has(faults, other)).count()
        };
        let cells: Vec<String> = FAULTS
            .iter()
            .enumerate()
            .map(|(column, (other, _))| match column <= row {
                true => both(other).to_string(),
                false => String::new(),
            })
            .collect();
        println!("| {} {name} | {scenario} | {} |", row + 1, cells.join(" | "));
    }
}
