//! Measures what the detector of a monitor finds and misses.
//!
//! `cargo bench -p firstbyte-monitor --bench changes [-- PART…] [OPTION…]`.
//!
//! | part | what | bar |
//! |---|---|---|
//! | `unchanged` | series that do not change, 40 days each, all figures together: false events | 1 confirmed in 1,000 series-days |
//! | `causes` | changes with decoys in 16 series of two targets: cause and scope named correctly | 95 % |
//! | `steps` | the smallest step that is confirmed within a day, and within a week | |
//! | `tails` | only p90 changes: a share of the visits becomes slower | |
//! | `failures` | a share of the samples begins to fail | |
//! | `look` | processor time of a look, per series | 0.5 ms |
//!
//! All time is simulated; the detector sees each sample once, in order, as in the program. Options: `--series N`, the
//! number of series of each kind (200); `--cases N`, the number of drawn changes (200); `--every SECONDS`, the sample
//! interval (300); `--seed N`. Prints each table as `docs/statistics.md` has it, and fails if a bar is missed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

mod causes;
mod series;
mod visits;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_monitor::detect::{State, Statistic};

use series::{Alteration, DAY, SeriesFindings, Shape, watch};

struct Options {
    parts: Vec<String>,
    series: u64,
    cases: u64,
    every: i64,
    seed: u64,
}

fn main() -> ExitCode {
    let mut options =
        Options { parts: Vec::new(), series: 200, cases: 200, every: 300, seed: 60_000 };
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            options.parts.push(argument);
            continue;
        }
        let value = arguments.next().and_then(|value| value.parse::<u64>().ok());
        let Some(value) = value else {
            println!("{argument} needs a number");
            return ExitCode::FAILURE;
        };
        match argument.as_str() {
            "--series" => options.series = value,
            "--cases" => options.cases = value,
            "--every" => options.every = value.cast_signed(),
            "--seed" => options.seed = value,
            _ => {
                println!("no option is called {argument}");
                return ExitCode::FAILURE;
            }
        }
    }
    type Part = (&'static str, fn(&Options) -> bool);
    const PARTS: [Part; 6] = [
        ("unchanged", unchanged),
        ("causes", causes),
        ("steps", steps),
        ("tails", tails),
        ("failures", failures),
        ("look", look),
    ];
    let mut all_held = true;
    for (name, measure) in PARTS {
        if options.parts.is_empty() || options.parts.iter().any(|part| part == name) {
            println!("\n{name}");
            all_held &= measure(&options);
        }
    }
    if all_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Results of `draw` for `n` seeds, computed in parallel.
fn drawn<T: Send>(first: u64, n: u64, draw: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= n {
                return done;
            }
            done.push((index, draw(first + index)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(u64, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

fn unchanged(options: &Options) -> bool {
    println!(
        "| series that do not change | provisional, per 1,000 series-days | of them by samples | confirmed | of them by samples |"
    );
    println!("|---|---:|---:|---:|---:|");
    let (mut all, mut all_days) = (0, 0);
    let only: Option<usize> = std::env::var("SHAPE").ok().and_then(|text| text.parse().ok());
    for (index, shape) in Shape::ALL.into_iter().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        let watched = drawn(options.seed, options.series, |seed| {
            watch(shape, &Alteration::Nothing, 40, options.every, seed)
        });
        let days = 40 * options.series;
        let per_thousand = |count: usize| count as f64 * 1_000.0 / days as f64;
        let provisional: usize = watched.iter().map(|one| one.provisional).sum();
        let confirmed: usize = watched.iter().map(|one| one.confirmed.len()).sum();
        let sudden = watched.iter().flat_map(|one| &one.confirmed);
        let sudden = sudden.filter(|(event, _)| event.samples.after < 300).count();
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            shape.phrase(),
            per_thousand(provisional),
            per_thousand(watched.iter().map(|one| one.provisional_by_samples).sum()),
            per_thousand(confirmed),
            per_thousand(sudden)
        );
        if std::env::var_os("SENTENCES").is_some() {
            for one in &watched {
                for (event, at) in &one.confirmed {
                    println!(
                        "  {:.2} d: {} [{:?}]",
                        (*at - series::START) as f64 / DAY as f64,
                        event.sentence(),
                        event.samples
                    );
                }
            }
        }
        all += confirmed;
        all_days += days;
    }
    let rate = all as f64 * 1_000.0 / all_days as f64;
    let held = rate <= 1.0;
    println!("confirmed in 1,000 series-days, all kinds: {rate:.2} (at most 1: {})", said(held));
    held
}

fn said(held: bool) -> &'static str {
    if held { "yes" } else { "NO" }
}

fn causes(options: &Options) -> bool {
    let right = drawn(options.seed, options.cases, causes::case);
    let mut late = [0, 0];
    let mut number = 0;
    for (what, told, _) in &right {
        match told {
            causes::Told::Right { proposed, confirmed } => {
                number += 1;
                late = [late[0].max(*proposed), late[1].max(*confirmed)];
            }
            causes::Told::Wrong(why) => println!("  wrong: {what}: {why}"),
        }
    }
    let share = number as f64 / options.cases.max(1) as f64;
    println!("cause, scope and number of events right: {number} of {}", options.cases);
    println!("latest: provisional after {} samples, confirmed after {}", late[0], late[1]);
    println!("  95 %: {}", said(share >= 0.95));
    share >= 0.95
}

/// Detection results: the share of series whose change was confirmed within a day and a week, and other confirmed
/// events.
struct DetectionRates {
    within_day: f64,
    within_week: f64,
    provisional_samples: f64,
    elsewhere: f64,
    size: f64,
}

fn found(
    watched: &[SeriesFindings],
    alteration: &Alteration,
    expected: &[Statistic],
) -> DetectionRates {
    let at = alteration.at();
    let is_it = |event: &firstbyte_monitor::detect::LevelEvent| {
        (event.at - at).abs() <= 2 * DAY && expected.contains(&event.statistic)
    };
    let within = |time: i64| {
        let found = |one: &&SeriesFindings| {
            one.confirmed.iter().any(|(event, told)| is_it(event) && told - at <= time)
        };
        watched.iter().filter(found).count() as f64 / watched.len() as f64
    };
    let mut samples: Vec<f64> =
        watched.iter().filter_map(|one| one.first_samples).map(|n| n as f64).collect();
    samples.sort_by(f64::total_cmp);
    let others = watched.iter().flat_map(|one| &one.confirmed).filter(|(event, _)| !is_it(event));
    let mut sizes: Vec<f64> = watched
        .iter()
        .flat_map(|one| one.confirmed.iter().rfind(|(event, _)| is_it(event)))
        .map(|(event, _)| event.size.difference())
        .collect();
    sizes.sort_by(f64::total_cmp);
    let middle = |values: &[f64]| values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    DetectionRates {
        within_day: within(DAY),
        within_week: within(7 * DAY),
        provisional_samples: middle(&samples),
        elsewhere: others.count() as f64 / watched.len() as f64,
        size: middle(&sizes),
    }
}

fn steps(options: &Options) -> bool {
    println!(
        "| step of the median | confirmed within a day | within a week | elsewhere, per series | told as |"
    );
    println!("|---|---:|---:|---:|---:|");
    let series = options.series.min(100);
    for (shape, sizes) in [
        (Shape::Normal, &[1.0, 1.5, 2.0, 3.0, 5.0, 20.0][..]),
        (Shape::Weekdays, &[2.0, 5.0]),
        (Shape::StudentT2, &[2.0, 5.0, 20.0]),
        (Shape::Slow, &[3.0, 5.0, 20.0]),
        (Shape::Losses, &[2.0, 5.0]),
    ] {
        for size in sizes {
            let alteration = Alteration::Step { at: 25 * DAY + DAY / 3, ms: *size };
            let watched = drawn(options.seed + 10_000, series, |seed| {
                watch(shape, &alteration, 33, options.every, seed)
            });
            let found = found(&watched, &alteration, &[Statistic::Median]);
            println!(
                "| {size} ms, {} | {:.0} % | {:.0} % | {:.2} | {:.1} ms |",
                shape.phrase(),
                found.within_day * 100.0,
                found.within_week * 100.0,
                found.elsewhere,
                found.size / 1e6,
            );
        }
    }
    true
}

fn tails(options: &Options) -> bool {
    println!(
        "| share of visits that take 40 ms longer | confirmed within a day | within a week | median samples to provisional | told as |"
    );
    println!("|---|---:|---:|---:|---:|");
    let series = options.series.min(100);
    for share in [0.11, 0.15, 0.2, 0.33] {
        let alteration = Alteration::Tail { at: 25 * DAY + DAY / 3, share, ms: 40.0 };
        let watched = drawn(options.seed + 20_000, series, |seed| {
            watch(Shape::Normal, &alteration, 33, options.every, seed)
        });
        let found = found(&watched, &alteration, &[Statistic::P90]);
        println!(
            "| {:.0} % | {:.0} % | {:.0} % | {:.0} | {:.1} ms |",
            share * 100.0,
            found.within_day * 100.0,
            found.within_week * 100.0,
            found.provisional_samples,
            found.size / 1e6,
        );
    }
    true
}

fn failures(options: &Options) -> bool {
    println!(
        "| share of samples that fail, after 0.1 % | confirmed within a day | within a week | median samples to provisional | told as |"
    );
    println!("|---|---:|---:|---:|---:|");
    let series = options.series.min(100);
    for share in [0.01, 0.05, 0.2] {
        let alteration = Alteration::Failures { at: 25 * DAY + DAY / 3, share };
        let watched = drawn(options.seed + 30_000, series, |seed| {
            watch(Shape::Normal, &alteration, 33, options.every, seed)
        });
        let found = found(&watched, &alteration, &[Statistic::Failures]);
        println!(
            "| {:.0} % | {:.0} % | {:.0} % | {:.0} | {:.1} % |",
            share * 100.0,
            found.within_day * 100.0,
            found.within_week * 100.0,
            found.provisional_samples,
            found.size * 100.0,
        );
    }
    true
}

fn look(options: &Options) -> bool {
    let began = Monotonic::now();
    let watched = watch(Shape::Normal, &Alteration::Nothing, 40, options.every, options.seed);
    let whole = Monotonic::now().since(began);
    let (looks, time) = watched.looks;
    let each = time / u32::try_from(looks).unwrap_or(u32::MAX).max(1);
    let held = each <= Duration::from_micros(500);
    println!("looks of one series in 40 days, one a sample: {looks} (all of it took {whole:.1?})");
    println!("  a look, hours included: {each:.1?} (at most 0.5 ms: {})", said(held));
    assert!(watched.confirmed.iter().all(|(event, _)| event.state == State::Confirmed));
    held
}
