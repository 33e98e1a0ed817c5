//! Compares the split with the truth, on connections simulated end to end.
//!
//! `drawn` generates random paths, servers and conversations; `seen` plays them over the simulated TCP of `predict`
//! and records the client's view; `truth` traces the critical path backwards. `docs/measurement.md` defines the parts.

mod digest;
mod drawn;
mod score;
mod seen;
mod truth;

use std::time::Duration;

use super::{AttributedConnection, Part, Rules, Split};
use crate::split::server_model::ServerFit;
use drawn::{case, visit};
use score::Score;

/// `cargo test -p firstbyte-core oracle -- --ignored --nocapture` prints the table; `ORACLE=first..end` selects the
/// seeds.
#[test]
#[ignore = "prints a table"]
fn table_of_errors() {
    let range = std::env::var("ORACLE").unwrap_or_else(|_| "0..20000".into());
    let (first, end) = range.split_once("..").unwrap();
    println!("{}", score(first.parse().unwrap()..end.parse().unwrap(), Rules::Right).report());
}

/// On quiet links the arrivals leave little to guess.
#[test]
fn parts_are_the_truth() {
    let score = score(0..500, Rules::Right);
    assert!(score.right_on_quiet_links() >= 98.0, "{}", score.report());
}

/// Each wrong rule is applied in the attribution, and the truth must contradict it. This simulation has no name
/// service and no second address; the lab's oracle covers those.
#[test]
fn wrong_rules_are_noticed() {
    let right = score(0..2_000, Rules::Right).bad();
    for (rules, part) in Rules::WRONG {
        if matches!(part, Part::Resolver | Part::Fallback) {
            continue;
        }
        let bad = score(0..2_000, rules).bad();
        let noticed = bad.iter().filter(|seed| !right.contains(seed)).count();
        println!("{rules:?}: noticed in {noticed} of 2,000, {} were wrong before", right.len());
        assert!(noticed >= 10, "{rules:?} is noticed in {noticed} of 2,000");
    }
}

fn score(seeds: std::ops::Range<u64>, rules: Rules) -> Score {
    let mut score = Score::default();
    for seed in seeds {
        score.add(&case(seed), rules);
    }
    score
}

/// The split of a connection alone and its split along with others to the same server agree: no part differs by more
/// than the larger ± plus half a millisecond.
#[test]
fn all_connections_and_each_alone_agree() {
    let (mut agree, mut count) = (0, 0);
    for seed in 0..150 {
        let server = case(seed);
        let visits = (1..=5).map(|number| visit(&server, number));
        let played = visits.filter_map(|case| Some(seen::Log::play_case(&case)?.connection(&case)));
        let played: Vec<_> = played.collect();
        let fit = ServerFit::from_connections(&played, None);
        for connection in played {
            let alone = Split::attribute(&connection);
            let by_fit = AttributedConnection::by_fit(connection, &fit).split;
            let within = [&alone, &by_fit].into_iter().filter_map(Split::server_uncertainty).max();
            let within = within.unwrap_or_default() + Duration::from_micros(500);
            count += 1;
            agree += usize::from(alone.parts.most_apart(&by_fit.parts) <= within);
        }
    }
    println!("{agree} of {count} connections agree");
    assert!(agree * 100 >= count * 99, "{agree} of {count} connections agree");
}

/// Scores of connections to one server: split with a model of all of them, and each by itself.
fn scores_of_servers(seeds: std::ops::Range<u64>, visits: u64) -> (Score, Score) {
    let (mut by_fit, mut alone) = (Score::default(), Score::default());
    for seed in seeds {
        let server = case(seed);
        let cases: Vec<_> = (1..=visits).map(|number| visit(&server, number)).collect();
        let played = cases.iter().filter_map(|case| Some((case, seen::Log::play_case(case)?)));
        let played: Vec<_> = played.map(|(case, log)| (case, log.connection(case), log)).collect();
        let fit = ServerFit::from_connections(played.iter().map(|(_, c, _)| c), None);
        for (case, connection, log) in &played {
            by_fit.judge(case, log, &AttributedConnection::by_fit(connection.clone(), &fit).split);
            alone.judge(case, log, &AttributedConnection::alone(connection.clone()).split);
        }
    }
    (by_fit, alone)
}

/// `cargo test -p firstbyte-core servers -- --ignored --nocapture` prints both tables; `ORACLE=first..end` selects the
/// servers, `VISITS` the number of connections to each.
#[test]
#[ignore = "prints a table"]
fn table_of_servers() {
    let range = std::env::var("ORACLE").unwrap_or_else(|_| "0..1000".into());
    let (first, end) = range.split_once("..").unwrap();
    let visits = std::env::var("VISITS").map_or(10, |n| n.parse().unwrap());
    let (by_fit, alone) = scores_of_servers(first.parse().unwrap()..end.parse().unwrap(), visits);
    println!("alone\n{}\nby the fit\n{}", alone.report(), by_fit.report());
}

/// `ORACLE=seed..` shows one connection: the client's view, the split, and the truth.
#[test]
#[ignore = "prints a connection"]
fn one_connection() {
    let seed = std::env::var("ORACLE").unwrap_or_else(|_| "0".into());
    let case = case(seed.trim_end_matches('.').parse().unwrap());
    let log = seen::Log::play_case(&case).unwrap();
    let connection = log.connection(&case);
    println!("{}\n{:?}", case.about, truth::Tracer::course(&case, &log));
    println!("{:?}\n{:?}", connection.marks.iter().collect::<Vec<_>>(), connection.facts.tcp);
    let ms = |at: crate::timeline::Offset| at.as_nanos() as f64 / 1e6;
    for flight in &connection.flights {
        for chunk in &flight.chunks {
            let acknowledged = chunk.acknowledged.map(ms);
            println!(
                "{:?} {:.3} {} {acknowledged:?}",
                flight.direction,
                ms(chunk.stamp.at),
                chunk.bytes
            );
        }
    }
    let (split, course) = super::Split::in_order(&connection);
    for stretch in course.stretches {
        let (start, end) = (ms(stretch.start), ms(stretch.end));
        println!(
            "{:?} {:?} {start:.3} to {end:.3} ({:.3})",
            stretch.phase,
            stretch.part,
            end - start
        );
    }
    for phase in split.phases {
        println!("{phase:?}");
    }
    println!("rtt {:?} spread {:?}", split.rtt, split.rtt_spread);
    println!("{}", super::hypotheses(&connection));
}
