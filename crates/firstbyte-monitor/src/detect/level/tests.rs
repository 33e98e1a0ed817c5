//! Changes found in random series, and false alarms.

use super::drawn::{DAYS, Shape, changed, failing, hours, visits, watched};
use super::failures::{Counted, failure_changes, sudden_failures};
use super::*;
use firstbyte_core::stats::quantile;

const MS: f64 = 1e6;

/// The time of a change in the middle of a series, by its seed.
fn when(seed: u64) -> i64 {
    fastrand::Rng::with_seed(seed ^ 0xc0ffee).i64(10 * 24..30 * 24) * HOUR
}

/// With this few series, most must show the change, and almost nothing may be found elsewhere.
#[test]
fn a_drop_of_four_milliseconds_is_confirmed() {
    let (mut right, mut elsewhere) = (0, 0);
    for seed in 1_000..1_020 {
        let at = when(seed);
        let points = changed(hours(Shape::Plain, seed), at, -4.0 * MS);
        let is_right =
            |change: &Change| (change.at - at).abs() <= 2 * DAY && change.difference() < 0.0;
        let said = watched(&points, &LevelSettings::TIMES, 24);
        let found = said.confirmed.iter().filter(|(change, _)| is_right(change)).count();
        right += found.min(1);
        elsewhere += said.confirmed.len() - found;
    }
    println!("{right} of 20, {elsewhere} elsewhere");
    assert!(right >= 10 && elsewhere <= 1, "{right} of 20, {elsewhere} elsewhere");
}

/// `cargo test -p firstbyte-monitor --release --lib -- --ignored --nocapture change_tables`
#[test]
#[ignore = "minutes"]
fn change_tables() {
    let series: u64 = std::env::var("SERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let base: u64 = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(50_000);
    println!(
        "unchanged | provisional and withdrawn a series | series with a confirmed one, of {series}"
    );
    for shape in Shape::ALL {
        let (mut withdrawn, mut wrong) = (0, 0);
        for seed in base..base + series {
            let said = watched(&hours(shape, seed), &LevelSettings::TIMES, 6);
            withdrawn += said.withdrawn();
            wrong += usize::from(!said.confirmed.is_empty());
        }
        println!("{shape:?} | {:.2} | {wrong}", withdrawn as f64 / series as f64);
    }
    println!(
        "change, ms | confirmed, of {series} | within days, median | within, p90 | others | size held | time held"
    );
    for (shape, size) in [
        (Shape::Plain, -1.2),
        (Shape::Plain, -1.5),
        (Shape::Plain, 2.0),
        (Shape::Plain, 4.0),
        (Shape::Plain, 20.0),
        (Shape::Weekly, 2.0),
        (Shape::HeavyTails, 2.0),
        (Shape::Outages, 2.0),
        (Shape::Constant, 1.5),
        (Shape::TwoModes, 20.0),
        (Shape::Coarse, 2.0),
        (Shape::Slow, 3.0),
    ] {
        let (mut found, mut others, mut size_held, mut time_held) = (0, 0, 0, 0);
        let mut waits = Vec::new();
        let runs = series.min(100);
        for seed in base + 10_000..base + 10_000 + runs {
            let at = when(seed);
            let points = changed(hours(shape, seed), at, size * MS);
            let said = watched(&points, &LevelSettings::TIMES, 6);
            let right = |change: &Change| (change.at - at).abs() <= 2 * DAY;
            others += said.confirmed.iter().filter(|(change, _)| !right(change)).count();
            let Some((change, heard)) = said.confirmed.iter().find(|(change, _)| right(change))
            else {
                continue;
            };
            found += 1;
            waits.push((heard - at) as f64 / DAY as f64);
            let held = (change.interval.low..=change.interval.high).contains(&(size * MS));
            size_held += usize::from(held);
            time_held += usize::from((change.between[0]..=change.between[1]).contains(&at));
        }
        waits.sort_by(f64::total_cmp);
        let wait = |q| quantile(&waits, q).unwrap_or(f64::NAN);
        println!(
            "{shape:?} {size} | {found}/{runs} | {:.1} | {:.1} | {others} | {:.0} % | {:.0} %",
            wait(0.5),
            wait(0.9),
            100.0 * size_held as f64 / found.max(1) as f64,
            100.0 * time_held as f64 / found.max(1) as f64,
        );
    }
    let (mut early, mut sure, mut alarms, mut wrong) = (Vec::new(), Vec::new(), 0, 0);
    for seed in base..base + series {
        let samples = visits(3_000, seed);
        let mut alarmed = false;
        for end in (40..samples.len()).step_by(1) {
            let found = sudden(
                &samples[end.saturating_sub(240)..end],
                &KnownHours::default(),
                &LevelSettings::TIMES,
            );
            if found.is_some() && !alarmed {
                alarms += 1;
            }
            wrong +=
                usize::from(found.is_some_and(|change| change.certainty == Certainty::Confirmed));
            alarmed = found.is_some();
        }
        let at = 200;
        let samples = changed(visits(400, seed + 7), at * 60_000, 20.0 * MS);
        let first = |certainty: Certainty| {
            (200..400).find(|end| {
                sudden(&samples[..*end], &KnownHours::default(), &LevelSettings::TIMES)
                    .is_some_and(|change| change.certainty >= certainty)
            })
        };
        early.push(first(Certainty::Proposed).map_or(f64::INFINITY, |end| end as f64 - 200.0));
        sure.push(first(Certainty::Confirmed).map_or(f64::INFINITY, |end| end as f64 - 200.0));
    }
    println!(
        "sudden: alarms {alarms} (confirmed looks {wrong}) in {series} x 2960 looks; 20 ms proposed after {:?} samples, confirmed after {:?} (largest)",
        early.iter().copied().fold(0.0, f64::max),
        sure.iter().copied().fold(0.0, f64::max)
    );
    for (name, before, after) in [
        ("0 %, unchanged", 0.0, 0.0),
        ("1 %, unchanged", 0.01, 0.01),
        ("10 %, unchanged", 0.1, 0.1),
        ("0.5 to 5 %", 0.005, 0.05),
        ("1 to 3 %", 0.01, 0.03),
        ("0 to 100 %", 0.0, 1.0),
    ] {
        let (mut found, mut proposed, mut others) = (0, 0, 0);
        for seed in base..base + series {
            let at = when(seed);
            let points = failing(60, seed, |hour| if hour * HOUR >= at { after } else { before });
            for end in (48..=points.len()).step_by(6) {
                let all = failure_changes(&points[..end]);
                let _ = &all;
                proposed += all
                    .iter()
                    .filter(|c| (c.at - at).abs() > DAY && c.certainty == Certainty::Proposed)
                    .count();
                others += all
                    .iter()
                    .filter(|c| (c.at - at).abs() > DAY && c.certainty == Certainty::Confirmed)
                    .count();
            }
            let last = failure_changes(&points);
            found += usize::from(
                last.iter()
                    .any(|c| (c.at - at).abs() <= DAY && c.certainty == Certainty::Confirmed),
            );
        }
        println!(
            "failures {name} | {found}/{series} | other, looks: proposed {proposed} confirmed {others}"
        );
    }
    let points: Vec<_> = (0..20).map(|seed| hours(Shape::Plain, seed)).collect();
    let clock = firstbyte_clock::timer_now();
    points.iter().for_each(|points| {
        std::hint::black_box(changes(points, &LevelSettings::TIMES));
    });
    println!("one figure, {DAYS} days: {:?}", clock.elapsed() / 20);
}

/// One visit in six is slow before the change, and all are slow after it. One fifth more or fewer slow visits can be
/// chance; ten slow visits in a row cannot.
#[test]
fn a_slow_way_that_some_took_before_is_seen_when_all_do() {
    let slow = |index: usize| index >= 120 || index % 6 == 5;
    let samples: Vec<Point> = (0..160)
        .map(|index| {
            let wobble = (index * 7 % 11) as f64 * 0.02;
            let value = (if slow(index) { 120.0 } else { 60.0 } + wobble) * MS;
            Point { at: index as i64 * 60_000, value, samples: 1 }
        })
        .collect();
    let seen = |end: usize| sudden(&samples[..end], &KnownHours::default(), &LevelSettings::TIMES);
    let first = (40..160).find(|end| seen(*end).is_some()).unwrap();
    assert!((126..=130).contains(&first), "{first}");
    // The last sample before the change fits either level.
    assert!((119..=120).contains(&(seen(130).unwrap().at / 60_000)));
    assert_eq!(seen(160).unwrap().certainty, Certainty::Confirmed);
}

/// Failing targets are measured less often: twenty samples would take hours, so the usual duration of twenty samples
/// suffices.
#[test]
fn failures_are_confirmed_by_time_where_samples_become_rare() {
    let mut samples: Vec<Counted> =
        (0..60).map(|minute| Counted { at: minute * 60_000, failed: 0, samples: 1 }).collect();
    for minute in [60, 61, 62, 63, 64, 66, 70, 78, 86, 94] {
        samples.push(Counted { at: minute * 60_000, failed: 1, samples: 1 });
        let changes = sudden_failures(&samples);
        let certainty = changes.first().map(|change| change.certainty);
        let expected = match minute {
            60..64 => None,
            64..86 => Some(Certainty::Proposed),
            _ => Some(Certainty::Confirmed),
        };
        assert_eq!(certainty, expected, "{minute}");
    }
    // The failures have ended.
    for minute in 95..110 {
        samples.push(Counted { at: minute * 60_000, failed: 0, samples: 1 });
    }
    let [begun, ended] = sudden_failures(&samples)[..] else { panic!() };
    assert_eq!((begun.at / 60_000, ended.at / 60_000), (60, 95));
    assert_eq!((begun.certainty, ended.after), (Certainty::Confirmed, 0.0));
}
