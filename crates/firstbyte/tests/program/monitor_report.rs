//! `firstbyte report` of a monitor's store: its figures equal those of `monitor export`, and it reads nothing else.

use std::collections::HashMap;

use firstbyte_monitor::store::{Retention, Store};
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::monitor_history::Past;
use crate::support::run::{Outcome, firstbyte};

/// 2026-11-20, noon.
const UNTIL: i64 = 1_795_176_000;

fn past(targets: usize) -> Directory {
    let directory = Directory::new();
    let targets = (1..=targets).map(|n| format!("shop{n}.example")).collect();
    Past { targets, until: UNTIL, days: 4, every: 30 }.write(&directory.path().join("store"));
    directory
}

fn run(directory: &Directory, words: &str) -> Outcome {
    let words: Vec<&str> = words.split(' ').collect();
    firstbyte(directory.path(), &words)
}

fn report(directory: &Directory, words: &str) -> Value {
    let outcome = run(directory, &format!("report store --json {words}"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// A whole day or hour is one rollup of the export; a longer period has as many samples as its hours together.
#[test]
fn its_figures_are_those_of_the_export() {
    let directory = past(3);
    for (step, period) in [
        ("day", "--since 2026-11-18 --until 2026-11-19"),
        ("hour", "--since 2026-11-18T07:00:00Z --until 2026-11-18T08:00:00Z"),
    ] {
        let all = report(&directory, period);
        let rows = all["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 6);
        let export = run(
            &directory,
            &format!("monitor export --store store --step {step} --format ndjson {period}"),
        );
        let mut compared = 0;
        for line in export.stdout.lines() {
            let exported: Value = serde_json::from_str(line).unwrap();
            let same = |row: &&Value| {
                ["target", "variant", "place"].iter().all(|key| row[*key] == exported[*key])
            };
            let row = rows.iter().find(same).unwrap();
            assert_eq!(row["samples"], exported["samples"], "{exported}");
            assert_eq!(row["failures"], exported["failures"], "{exported}");
            let Some(metric) = exported["metric"].as_str() else { continue };
            let times = &row["times"][metric];
            for figure in ["count", "median_ns", "p90_ns", "p95_ns", "p99_ns"] {
                assert_eq!(times[figure], exported[figure], "{metric} {figure}: {exported}");
            }
            compared += 1;
        }
        assert!(compared >= 6 * 12, "{compared}");
    }
    let whole = report(&directory, "--since 2026-11-16T12:00:00Z --until 2026-11-20T12:00:00Z");
    let export = run(
        &directory,
        "monitor export --store store --step hour --format ndjson --since 2026-11-16T12:00:00Z --until 2026-11-20T12:00:00Z",
    );
    let mut samples: HashMap<(String, String, String), u64> = HashMap::new();
    let name = |row: &Value| ["target", "variant"].map(|key| row[key].as_str().unwrap().to_owned());
    for line in export.stdout.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let [target, variant] = name(&row);
        let start = row["start"].to_string();
        // There is one row per metric.
        samples.insert((target, variant, start), row["samples"].as_u64().unwrap());
    }
    for row in whole["rows"].as_array().unwrap() {
        let [target, variant] = name(row);
        let own = samples.iter().filter(|((t, w, _), _)| (t, w) == (&target, &variant));
        let sum: u64 = own.map(|(_, number)| number).sum();
        assert_eq!((row["samples"].as_u64(), sum), (Some(4 * 48), 4 * 48), "{target} {variant}");
    }
    assert_eq!(whole["events"].as_array().unwrap().len(), 1);
}

/// Minutes are deleted after two weeks, and hours later: a period that begins or ends within a deleted one is rounded.
#[test]
fn no_samples_are_missing_where_minutes_are_kept_no_more() {
    let directory = past(1);
    let periods = [
        ("--since 2026-11-18T07:10:00Z --until 2026-11-18T08:50:00Z", 2 * 3, 2 * 4, 2 * 48),
        ("--since 2026-11-17T07:10:00Z --until 2026-11-18T08:10:00Z", 2 * 50, 2 * 52, 2 * 96),
    ];
    let samples = |period: &str| -> u64 {
        let report = report(&directory, period);
        let rows = report["rows"].as_array().unwrap();
        rows.iter().map(|row| row["samples"].as_u64().unwrap()).sum()
    };
    let store = Store::open(&directory.path().join("store/store.sqlite")).unwrap();
    let forget = |minutes, hours| {
        let retention = Retention { minutes, hours, days: None };
        // Each call deletes only a little.
        while store.retain(&retention, UNTIL).unwrap().deleted > 0 {}
    };
    for (period, by_minutes, _, _) in periods {
        assert_eq!(samples(period), by_minutes, "{period}");
    }
    forget(Some(60), None);
    for (period, _, by_hours, _) in periods {
        assert_eq!(samples(period), by_hours, "{period}");
    }
    forget(Some(60), Some(60));
    for (period, _, _, by_days) in periods {
        assert_eq!(samples(period), by_days, "{period}");
    }
}

#[test]
fn a_page_of_text_has_figures_facts_and_what_changed() {
    let directory = past(2);
    // The raw files do not exist, because the report does not read them.
    let outcome = run(&directory, "report store --since 2026-11-17 --until 2026-11-20T12:00:00Z");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    insta::assert_snapshot!("monitor_report", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{}", outcome.stdout);
    let many = past(9);
    let outcome =
        run(&many, "report store/store.sqlite --since 2026-11-17 --until 2026-11-20T12:00:00Z");
    assert!(!outcome.stdout.contains("tls.version"), "{}", outcome.stdout);
    let one = run(&many, "report store --since 2026-11-17 --target shop3.example");
    assert!(one.stdout.contains("tls.version"), "{one:?}");
}

#[test]
fn a_page_has_the_changes_and_a_picture_of_each_series() {
    let directory = past(2);
    let period = "--since 2026-11-17 --until 2026-11-20T12:00:00Z";
    let outcome = run(&directory, &format!("report store --html a.html --svg pictures {period}"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let (page, picture) = (read("a.html"), read("pictures/course.svg"));
    assert_eq!(page.matches("<svg class=\"panel\"").count(), 4);
    assert_eq!(page.matches("</li>").count(), 4 + 2, "keys, an event, an annotation: {page}");
    assert_eq!(page.matches("confirmed</strong>: ").count(), 1, "{page}");
    for text in [&page, &picture] {
        // Three and a half days of half-hourly samples, each a point.
        assert_eq!(text.matches("<circle").count(), 4 * 168);
    }
    // If there are many series, only the first twelve have pictures.
    let outcome = run(&past(7), "report store --html a.html");
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let directory = past(1);
    std::fs::create_dir(directory.path().join("store/raw")).unwrap();
    directory.write("store/raw/2026-11-19.run", "samples");
    directory.write("run.csv", "DNS,Connect,SSL,Wait,TTFB,Total Time\n0.1,0.1,0.1,0.1,0.1,0.1\n");
    for (words, code, part) in [
        ("report store --html store/raw/2026-11-19.run", 2, "2026-11-19.run"),
        ("report store --json=store/store.sqlite", 2, "store.sqlite"),
        ("report store --csv=a.csv", 2, "--csv: not possible for a monitor's store"),
        ("report store --target shop", 2, "the store has no target \"shop\""),
        ("report store --since 2026-11-19 --until 2026-11-18", 2, "is not before --until"),
        ("report store --since yesterday", 2, "--since \"yesterday\" is not a time"),
        ("report run.csv --since 7d", 2, "--since: only possible with a monitor's store"),
        ("report nowhere --since 7d", 26, "nowhere"),
        ("report store store", 2, "shown one at a time"),
        ("report store run.csv", 2, "cannot be shown together"),
    ] {
        let outcome = run(&directory, words);
        assert!(outcome.code == code && outcome.stderr.contains(part), "{words}: {outcome:?}");
    }
    let outcome = run(&directory, "report store --since 2020-01-01 --until 2020-01-02");
    assert!(
        outcome.code == 0 && outcome.stdout.contains("No samples in this period."),
        "{outcome:?}"
    );
    directory.write("store/store.sqlite", "SQLite format 3\0 and no more");
    let outcome = run(&directory, "report store");
    assert!(outcome.code != 0 && outcome.stderr.contains("store.sqlite"), "{outcome:?}");
}
