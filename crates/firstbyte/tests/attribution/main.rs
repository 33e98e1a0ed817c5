//! A fixed set of cases of the benchmark `attribution`. Compares the parts that firstbyte reports with captures at both
//! ends, and checks that deliberately wrong rules are noticed. Twelve cases run with every change; sixty only by name.
//!
//! The benchmark's bars are for many cases on an idle machine. The bars here are for an unoptimised build on a busy
//! machine.

#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

#[path = "../../benches/attribution/batch.rs"]
mod batch;
#[path = "../../benches/attribution/case.rs"]
#[allow(dead_code, reason = "what the benchmark looks at besides")]
mod case;
#[path = "../../benches/attribution/faults.rs"]
#[allow(dead_code, reason = "what the benchmark prints besides")]
mod faults;
#[path = "../../benches/attribution/packets.rs"]
mod packets;
#[path = "../../benches/attribution/reading.rs"]
#[allow(dead_code, reason = "what the benchmark prints besides")]
mod reading;
#[path = "../../benches/attribution/score.rs"]
#[allow(dead_code, reason = "what the benchmark prints besides")]
mod score;
#[path = "../../benches/attribution/secrets.rs"]
mod secrets;
#[path = "../../benches/attribution/strace.rs"]
mod strace;
#[path = "../../benches/attribution/taps.rs"]
#[allow(dead_code, reason = "what the benchmark prints besides")]
mod taps;
#[path = "../../benches/attribution/zoo/mod.rs"]
mod zoo;

use std::collections::BTreeMap;

use case::Case;
use firstbyte_core::split::Rules;
use firstbyte_truth::Written;
use reading::Reading;
use score::Outcome;
use strace::{Witness, Writes};
use taps::Tap;
use zoo::{Server, Zoo};

const SEED: u64 = 1_414;

fn measured(count: usize) -> Vec<Outcome> {
    let mut seeds = fastrand::Rng::with_seed(SEED);
    let server = |index: usize| Server::ALL[index % Server::ALL.len()];
    let cases: Vec<Case> =
        (0..count).map(|index| Case::drawn(seeds.u64(..), server(index)).with_faults()).collect();
    let zoo = Zoo::build(&Zoo::directory(env!("CARGO_TARGET_TMPDIR")))
        .unwrap_or_else(|error| panic!("{error}"));
    let how = batch::How { samples: 3, lanes: 3, trace: 10, keep: None };
    let batches = batch::batches(cases);
    let measured = batches.iter().map(|b| batch::measure(b, &how, &|_, _, _, _| {}, &zoo).unwrap());
    measured.flatten().collect()
}

/// Describes the errors in a sample.
fn shown(outcome: &&Outcome) -> String {
    let mut parts: Vec<String> = outcome.wrong().map(|part| part.name().to_owned()).collect();
    parts.extend(
        outcome.wrong_phases().map(|(phase, part)| format!("{}/{}", phase.name, part.name())),
    );
    let Outcome { seed, server, sample, .. } = outcome;
    format!("{seed} {server} sample {sample}: {}", parts.join(", "))
}

#[test]
fn twelve_drawn_cases_are_attributed_as_both_ends_show() {
    assert_attributed_as_both_ends_show(&measured(12));
}

#[test]
#[ignore = "measures rather than checks: scripts/test --full"]
fn sixty_drawn_cases_are_attributed_as_both_ends_show() {
    let outcomes = measured(60);
    assert_attributed_as_both_ends_show(&outcomes);
    for (rules, _) in Rules::WRONG {
        assert!(noticed(&outcomes, rules) > 0, "no case shows that {rules:?} is wrong");
    }
}

fn assert_attributed_as_both_ends_show(outcomes: &[Outcome]) {
    let told: Vec<&Outcome> = outcomes.iter().filter(|o| o.untold.is_none()).collect();
    // Some samples have no truth: the capture misses packets, or datagrams could not be decrypted.
    assert!(told.len() * 10 >= outcomes.len() * 9, "{} of {}", told.len(), outcomes.len());
    // A wrong rule is wrong in every sample of a case. One or two wrong samples are due to a busy machine.
    let mut cases: BTreeMap<u64, Vec<&Outcome>> = BTreeMap::new();
    told.iter().for_each(|outcome| cases.entry(outcome.seed).or_default().push(outcome));
    let is_wrong = |samples: &&Vec<&Outcome>| samples.iter().all(|outcome| !outcome.is_right());
    let wrong: Vec<&Vec<&Outcome>> = cases.values().filter(is_wrong).collect();
    let samples = told.iter().filter(|outcome| !outcome.is_right()).count();
    println!(
        "wrong: {} of {} cases, {samples} of {} samples",
        wrong.len(),
        cases.len(),
        told.len()
    );
    let shown: Vec<String> = wrong.iter().flat_map(|samples| samples.iter()).map(shown).collect();
    // At most one in fifty on quiet links, one in eight overall: jitter, losses and slow links require some guessing.
    let quiet = |samples: &&Vec<&Outcome>| samples.first().is_some_and(|outcome| outcome.quiet);
    let (wrong_quiet, all_quiet) =
        (wrong.iter().copied().filter(quiet).count(), cases.values().filter(quiet).count());
    assert!(wrong_quiet * 50 <= all_quiet, "{wrong_quiet} of {all_quiet}:\n{}", shown.join("\n"));
    assert!(
        wrong.len() * 8 <= cases.len(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        shown.join("\n")
    );
    wire_is_seldom_sure_and_wrong(outcomes);
    writes_are_what_packets_show(outcomes);
    // The simulated oracle of `firstbyte_core::split` covers neither of these two.
    for rules in [Rules::LookupIsClientWork, Rules::AttemptsAreNetwork] {
        assert!(noticed(outcomes, rules) > 0, "no case shows that {rules:?} is wrong");
    }
}

/// Number of right samples that these rules would make wrong.
fn noticed(outcomes: &[Outcome], rules: Rules) -> usize {
    let name = format!("{rules:?}");
    outcomes.iter().filter(|outcome| outcome.notices.contains(&name)).count()
}

/// Each of the three taps has values to check, and few of the confident values are wrong.
fn wire_is_seldom_sure_and_wrong(outcomes: &[Outcome]) {
    for (index, tap) in Tap::ALL.into_iter().enumerate() {
        let readings = outcomes.iter().flat_map(|outcome| &outcome.wire);
        let sure: Vec<&Reading> =
            readings.filter(|r| usize::from(r.tap) == index && !r.doubted).collect();
        assert!(sure.len() > outcomes.len(), "{}: {}", tap.name(), sure.len());
        let wrong = sure.iter().filter(|reading| reading.is_wrong()).count();
        assert!(wrong * 5 <= sure.len(), "{}: {wrong} of {}", tap.name(), sure.len());
    }
}

/// One case in ten is traced, if it can be. On a busy machine each write may stop the server for a while.
fn writes_are_what_packets_show(outcomes: &[Outcome]) {
    let off = |outcome: &Outcome| match outcome.witness {
        Some(Witness::Traced { off, .. }) => Some(off.abs() <= (outcome.total * 0.1).max(5.0)),
        _ => None,
    };
    let close: Vec<bool> = outcomes.iter().filter_map(off).collect();
    assert!(!close.is_empty(), "no server was traced");
    let right = close.iter().filter(|close| **close).count();
    assert!(right * 10 >= close.len() * 8, "{right} of {}", close.len());
}

#[test]
fn writes_of_threads_that_interleave() {
    let [one, other] = [
        "<TCP:[198.51.100.1:443->192.0.2.10:40000]>",
        "<TCPv6:[[::ffff:198.51.100.1]:443->[::ffff:192.0.2.10]:40001]>",
    ];
    let text = [
        format!("12 1700000000.000001 write(7{one}, \"\"..., 100) = 100 <0.000009>"),
        format!("13 1700000000.000002 sendto(8{other}, \"\"... <unfinished ...>"),
        format!("12 1700000000.000013 write(7{one}, \"\"..., 5) = -1 EAGAIN (Busy) <0.000001>"),
        "12 1700000000.000014 write(3<TCP:[127.0.0.1:5->127.0.0.1:8]>, \"\"..., 5) = 5 <0.1>"
            .into(),
        "13 1700000000.000025 <... sendto resumed>) = 30 <0.000023>".into(),
        format!("12 1700000000.000026 write(7{one}, \"\"..., 50) = 50 <0.000002>"),
    ];
    let writes = Writes::parse(&text.join("\n")).unwrap();
    let second = 1_700_000_000_000_000_000;
    let write = |began: i64, ended: i64, end| {
        let [began, ended] = [began, ended].map(|us| us * 1_000);
        Written { began, ended, end }
    };
    assert_eq!(writes.of_port(40_000, second), [write(1, 10, 100), write(26, 28, 150)]);
    assert_eq!(writes.of_port(40_001, second), [write(2, 25, 30)]);
    assert!(Writes::parse("").is_err());
}
