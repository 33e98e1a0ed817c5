//! The tables: Markdown for `docs/measurement.md`.

use std::collections::BTreeMap;

use firstbyte_core::split::{Part, Rules};

use crate::score::Outcome;

/// The targets, and whether they are met.
pub(crate) struct Bars {
    pub(crate) met: bool,
}

pub(crate) fn print(outcomes: &[Outcome]) -> Bars {
    let told: Vec<&Outcome> = outcomes.iter().filter(|o| o.untold.is_none()).collect();
    drawn(outcomes);
    crate::pairs::print(outcomes);
    untold(outcomes);
    errors("server", &told);
    errors("path", &told);
    confusion(&told);
    worst(&told);
    crate::wire::print(outcomes);
    crate::witness::print(outcomes);
    phases(&told);
    wrong_rules(&told);
    bars(&told)
}

pub(crate) fn rank(sorted: &[f64], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((quantile * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Median, p99 and maximum.
pub(crate) fn cell(sorted: &[f64]) -> String {
    let [a, b, c] = [0.5, 0.99, 1.0].map(|q| rank(sorted, q));
    format!("{a:.2}, {b:.1}, {c:.1}")
}

pub(crate) fn share(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// How often each value of each axis was drawn.
fn drawn(outcomes: &[Outcome]) {
    let mut counts: BTreeMap<(usize, &str), BTreeMap<&str, usize>> = BTreeMap::new();
    let mut cases: Vec<u64> = Vec::new();
    for outcome in outcomes {
        if cases.last() != Some(&outcome.seed) {
            cases.push(outcome.seed);
            for (index, (axis, value)) in outcome.axes.iter().enumerate() {
                *counts.entry((index, axis)).or_default().entry(value).or_default() += 1;
            }
        }
    }
    println!("{} cases, {} samples. Drawn how often:\n", cases.len(), outcomes.len());
    println!("| axis | values |\n|---|---|");
    for ((_, axis), values) in counts {
        let values: Vec<String> = values.iter().map(|(v, n)| format!("{v}: {n}")).collect();
        println!("| {axis} | {} |", values.join(", "));
    }
}

fn untold(outcomes: &[Outcome]) {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in outcomes.iter().filter_map(|o| o.untold.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    if !reasons.is_empty() {
        println!("\nWithout truth:\n");
        for (reason, count) in reasons {
            println!("- {count}: {reason}");
        }
    }
}

fn kind_of_path(outcome: &Outcome) -> String {
    let axis = |name: &str| {
        outcome.axes.iter().find(|(axis, _)| axis == name).is_some_and(|(_, v)| v == "yes")
    };
    let mut kinds = Vec::new();
    for (name, of) in [
        ("jitter", &["jitter"][..]),
        ("loss", &["loss up", "loss down"]),
        ("rate", &["rate up", "rate down"]),
    ] {
        if of.iter().any(|of| axis(of)) {
            kinds.push(name);
        }
    }
    if kinds.is_empty() { "quiet".into() } else { kinds.join(" and ") }
}

/// Error of every part: median, p99 and maximum of the absolute error.
fn errors(by: &str, told: &[&Outcome]) {
    let mut groups: BTreeMap<String, Vec<&Outcome>> = BTreeMap::new();
    for outcome in told {
        let group = if by == "server" { outcome.server.clone() } else { kind_of_path(outcome) };
        groups.entry(group).or_default().push(outcome);
    }
    println!("\nError in ms by {by}: median, p99 and worst of the absolute error; ± median\n");
    let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| *part != Part::Resolver).collect();
    let names: Vec<&str> = parts.iter().map(|part| part.name()).collect();
    println!("| {by} | n | {} | ± |", names.join(" | "));
    println!("|---|---:|{}---:|", "---:|".repeat(parts.len()));
    for (name, group) in groups {
        let mut line = format!("| {name} | {} |", group.len());
        for part in &parts {
            let mut errors: Vec<f64> = group.iter().map(|o| o.error(*part).abs()).collect();
            errors.sort_by(f64::total_cmp);
            line += &format!(" {} |", cell(&errors));
        }
        let mut uncertainty: Vec<f64> = group.iter().filter_map(|o| o.uncertainty).collect();
        uncertainty.sort_by(f64::total_cmp);
        println!("{line} {:.2} |", rank(&uncertainty, 0.5));
    }
}

fn confusion(told: &[&Outcome]) {
    let mut counts: BTreeMap<(Part, Part), usize> = BTreeMap::new();
    for outcome in told {
        *counts.entry(outcome.largest()).or_default() += 1;
    }
    println!("\nThe largest part was (row), was said to be (column)\n");
    let names: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
    println!("| | {} |\n|---|{}", names.join(" | "), "---:|".repeat(names.len()));
    for truth in Part::ALL {
        let row: Vec<String> = Part::ALL
            .iter()
            .map(|said| counts.get(&(truth, *said)).map_or_else(String::new, usize::to_string))
            .collect();
        println!("| {} | {} |", truth.name(), row.join(" | "));
    }
}

fn worst(told: &[&Outcome]) {
    let mut sorted = told.to_vec();
    sorted.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    println!("\nThe worst twenty\n");
    for outcome in sorted.iter().filter(|o| o.badness() > 1.0).take(20) {
        let values: Vec<String> = outcome
            .wrong()
            .map(|part| {
                let index = Part::ALL.iter().position(|other| *other == part).unwrap_or_default();
                format!(
                    "{} {:.1} for {:.1}",
                    part.name(),
                    outcome.said[index],
                    outcome.truth[index]
                )
            })
            .collect();
        println!(
            "- `-- --case {} --server {}`, sample {}: {} (± {:.2}, total {:.1} ms): {}",
            outcome.seed,
            outcome.server,
            outcome.sample,
            values.join(", "),
            outcome.uncertainty.unwrap_or(0.0),
            outcome.total,
            outcome.drawn()
        );
        for (phase, part) in outcome.wrong_phases() {
            let index = crate::score::index(part);
            let (name, part) = (&phase.name, part.name());
            println!("  - {name}: {part} {:.1} for {:.1}", phase.said[index], phase.truth[index]);
        }
    }
}

/// Deliberately wrong rules: how many right samples each of them makes wrong.
fn wrong_rules(told: &[&Outcome]) {
    println!("\nA wrong rule put into the program: samples that are right, and by it are not\n");
    println!("| rule | gets wrong | noticed in |\n|---|---|---:|");
    for (rules, part) in Rules::WRONG {
        let name = format!("{rules:?}");
        let noticed = told.iter().filter(|o| o.notices.contains(&name)).count();
        println!("| {name} | {} | {noticed} |", part.name());
    }
}

/// Prints the errors by phase, up to the response's first byte.
fn phases(told: &[&Outcome]) {
    println!("\nPhases up to the first byte, on quiet links and on others\n");
    println!(
        "| phase | quiet | parts right, % | others | parts right, % |\n|---|---:|---:|---:|---:|"
    );
    for name in ["resolve", "connect", "tls", "quic", "send", "wait"] {
        let mut line = format!("| {name} |");
        for quiet in [true, false] {
            let samples = told.iter().filter(|outcome| outcome.quiet == quiet);
            let open = samples.flat_map(|o| o.phases.iter().map(|phase| (phase, o.open)));
            let of_it: Vec<_> = open.filter(|(phase, _)| phase.name == name).collect();
            let right = of_it.iter().filter(|(phase, open)| phase.wrong(*open).is_none()).count();
            line += &format!(" {} | {:.2} |", of_it.len(), share(right, of_it.len()));
        }
        println!("{line}");
    }
}

fn bars(told: &[&Outcome]) -> Bars {
    let n = told.len();
    let right = told.iter().filter(|o| o.wrong().next().is_none()).count();
    let first = told.iter().filter(|o| o.quiet).collect::<Vec<_>>();
    let first_right = first.iter().filter(|o| o.wrong_phases().next().is_none()).count();
    let evaded = told.iter().filter(|o| o.evades()).count();
    let named = told
        .iter()
        .filter(|o| {
            let (truth, said) = o.largest();
            truth == said
        })
        .count();
    let covered: Vec<bool> = told.iter().filter_map(|o| o.covered()).collect();
    let honest = covered.iter().filter(|covered| **covered).count();
    let mut quiet: Vec<f64> =
        told.iter().filter(|o| o.quiet).filter_map(|o| o.uncertainty).collect();
    quiet.sort_by(f64::total_cmp);
    // If the uncertainty exceeds the usual tolerance.
    let open = told.iter().filter(|o| o.open > o.allowed()).count();
    let rows = [
        ("no part wrong by more than 1 ms, 3 %, ±", share(right, n), 99.5, false),
        (
            "phases up to the first byte right, quiet links",
            share(first_right, first.len()),
            99.0,
            false,
        ),
        ("the largest part rightly named", share(named, n), 99.9, false),
        ("unexplained above 1 ms, 3 %", share(evaded, n), 0.5, true),
        ("± covers the truth", share(honest, covered.len()), 95.0, false),
        ("median ± on a quiet link, ms", rank(&quiet, 0.5), 0.3, true),
        ("truth is an interval, %", share(open, n), 5.0, true),
    ];
    println!("\n| over {n} samples | is | to reach |\n|---|---:|---:|");
    let mut met = true;
    for (name, is, bar, most) in rows {
        met &= if most { is <= bar } else { is >= bar };
        println!("| {name} | {is:.2} | {bar} |");
    }
    Bars { met }
}
