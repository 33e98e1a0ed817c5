use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use firstbyte_core::run::Metric;

use super::*;
use crate::rollup::{Measure, MonitoredFact, Rollup};

const TTFB: Measure = Measure::Metric(Metric::Ttfb);
const NOW: i64 = 1_795_392_000;

fn labels(target: &str) -> SeriesLabels {
    SeriesLabels {
        target: target.to_owned(),
        variant: "tls=1.3".to_owned(),
        place: "fra1".to_owned(),
        variant_label: "TLS 1.3".to_owned(),
        url: format!("https://{target}/"),
        tags: BTreeMap::from([("service".to_owned(), "shop".to_owned())]),
    }
}

fn sample(ms: u64, version: &str) -> Rollup {
    let mut rollup = Rollup { samples: 1, ..Rollup::default() };
    rollup.add_time(TTFB, Duration::from_millis(ms));
    rollup.add_fact(MonitoredFact::TlsVersion, version, 1);
    rollup
}

fn at(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap() * 1_000_000_000
}

struct Fixture {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        Self { _directory: directory, path }
    }
}

#[test]
fn what_is_added_is_in_every_step_once_over_many_flushes_and_starts() {
    let fixture = Fixture::new();
    for start in 0..3 {
        let mut store = Store::open(&fixture.path).unwrap();
        let ids = store.enrol(&[labels("a"), labels("b")]).unwrap();
        assert_eq!(ids, [1, 2]);
        for minute in 0..90 {
            store.add_rollup(ids[0], at(NOW + minute * 60), &sample(20 + start, "TLSv1.3"));
            if minute % 7 == 0 {
                store.flush(&[]).unwrap();
            }
        }
        store.add_rollup(ids[1], at(NOW), &sample(50, "TLSv1.2"));
        let folded = [Folded { file: "2026-11-23.run".to_owned(), bytes: start * 100 }];
        store.flush(&folded).unwrap();
        assert_eq!((store.pending(), store.folded().unwrap()), (0, folded.to_vec()));
    }
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    let series: Vec<SeriesLabels> =
        reader.series().unwrap().into_iter().map(|(_, labels)| labels).collect();
    assert_eq!(series, [labels("a"), labels("b")]);
    let mut counts = |step| {
        let rollups = reader.rollups(1, step, NOW - 86_400, NOW + 86_400, |_| true).unwrap();
        let of = |at: &RollupAt| (at.start - NOW, at.rollup.samples);
        rollups.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(counts(Step::Minute).len(), 90);
    assert_eq!(counts(Step::Minute)[1], (60, 3));
    assert_eq!(counts(Step::Hour), [(0, 180), (3_600, 90)]);
    // NOW is a midnight.
    assert_eq!(counts(Step::Day), [(0, 270)]);
    let sum = reader.sum(1, NOW, NOW + 3_660, |measure| measure == TTFB).unwrap();
    assert_eq!(sum.samples, 183);
    assert_eq!(sum.times(TTFB).unwrap().count(), 183);
    assert_eq!(sum.facts[&MonitoredFact::TlsVersion]["TLSv1.3"], 183);
}

#[test]
fn a_reader_sees_values_that_came_after_it_was_opened() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    store.enrol(&[labels("a")]).unwrap();
    let mode = std::fs::metadata(&fixture.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    for version in ["TLSv1.2", "TLSv1.3"] {
        store.add_rollup(1, at(NOW), &sample(20, version));
        store.flush(&[]).unwrap();
        let sum = reader.sum(1, NOW, NOW + 60, |_| true).unwrap();
        assert!(sum.facts[&MonitoredFact::TlsVersion].contains_key(version));
    }
    assert_eq!(reader.damaged(), 0);
}

#[test]
fn what_is_old_goes_in_steps() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    let ids = store.enrol(&[labels("a"), labels("b"), labels("c")]).unwrap();
    for id in &ids {
        for minute in 0..1_500 {
            store.add_rollup(*id, at(NOW + minute * 60), &sample(20, "TLSv1.3"));
        }
    }
    store.flush(&[]).unwrap();
    let retention = Retention { minutes: Some(3_600), ..Retention::default() };
    let now = NOW + 1_500 * 60;
    let mut deleted = Vec::new();
    loop {
        let retained = store.retain(&retention, now).unwrap();
        deleted.push(retained.deleted);
        if !retained.unfinished {
            break;
        }
    }
    assert_eq!(deleted.iter().sum::<u64>(), 3 * 1_440, "{deleted:?}");
    assert!(deleted.len() > 1);
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    for id in ids {
        assert_eq!(reader.rollups(id, Step::Minute, 0, now, |_| false).unwrap().len(), 60);
        assert_eq!(reader.rollups(id, Step::Hour, 0, now, |_| false).unwrap().len(), 25);
    }
}

#[test]
fn events_are_edited_in_place() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.path).unwrap();
    let event = |id: &str, at, state: &str| StoredEvent {
        id: id.to_owned(),
        at,
        state: state.to_owned(),
        json: "{}".to_owned(),
    };
    store.put_event(&event("a", NOW, "provisional")).unwrap();
    store.put_event(&event("b", NOW + 60, "provisional")).unwrap();
    store.put_event(&event("a", NOW + 120, "confirmed")).unwrap();
    let annotation = Annotation { at: NOW, text: "deploy 4812".to_owned(), tags: labels("a").tags };
    store.put_annotation(&annotation).unwrap();
    let reader = StoreReader::open(&fixture.path).unwrap();
    let found = reader.events(NOW, NOW + 3_600).unwrap();
    assert_eq!(found, [event("a", NOW + 120, "confirmed"), event("b", NOW + 60, "provisional")]);
    assert_eq!(reader.annotations(NOW, NOW + 1).unwrap(), [annotation]);
}

#[test]
fn what_is_no_store_is_named_and_moved_aside_with_all_that_was_in_it() {
    let fixture = Fixture::new();
    std::fs::write(&fixture.path, "a diary, not a database: ".repeat(1_000)).unwrap();
    let error = Store::open(&fixture.path).map(drop).unwrap_err();
    assert!(error.is_corrupt(), "{error}");
    let aside = Store::move_aside(&fixture.path, "20261123").unwrap();
    assert!(std::fs::read_to_string(&aside).unwrap().starts_with("a diary"));
    Store::open(&fixture.path).unwrap().enrol(&[labels("a")]).unwrap();
}

#[test]
fn a_damaged_rollup_is_counted_and_begins_anew() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    store.enrol(&[labels("a")]).unwrap();
    store.add_rollup(1, at(NOW), &sample(20, "TLSv1.3"));
    store.flush(&[]).unwrap();
    store.connection().execute("UPDATE rollup_minute SET body = x'01ff'", []).unwrap();
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    assert_eq!(reader.rollups(1, Step::Minute, 0, NOW + 60, |_| true).unwrap(), []);
    assert_eq!(reader.damaged(), 1);
    store.add_rollup(1, at(NOW), &sample(20, "TLSv1.3"));
    assert_eq!(store.flush(&[]).unwrap(), Flushed { written: 3, damaged: 1 });
}

#[test]
fn a_later_version_is_left_alone() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.path).unwrap();
    store.connection().pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let error = Store::open(&fixture.path).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Version { version: 99, .. }), "{error}");
    assert!(StoreReader::open(&fixture.path).is_err());
}

/// As when another process holds it for longer than one waits.
#[test]
fn a_flush_that_fails_keeps_what_was_counted() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    store.enrol(&[labels("a")]).unwrap();
    store.connection().busy_timeout(Duration::from_millis(1)).unwrap();
    store.add_rollup(1, at(NOW), &sample(20, "TLSv1.3"));
    let other = rusqlite::Connection::open(&fixture.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.flush(&[]).unwrap_err();
    assert!(error.is_locked(), "{error}");
    assert_eq!(store.pending(), 1);
    other.execute_batch("COMMIT").unwrap();
    store.flush(&[]).unwrap();
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    assert_eq!(reader.sum(1, NOW, NOW + 60, |_| true).unwrap().samples, 1);
}

#[test]
fn whole_rollups_of_a_step_stand_in_place_of_what_is_there() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    let ids = store.enrol(&[labels("a")]).unwrap();
    let (first, second) = (sample(20, "TLSv1.2"), sample(30, "TLSv1.3"));
    for rollup in [&first, &second] {
        store.put_rollups(Step::Hour, [(ids[0], NOW, rollup)]).unwrap();
    }
    let mut reader = StoreReader::open(&fixture.path).unwrap();
    let all = |reader: &mut StoreReader, step| {
        reader.rollups(ids[0], step, 0, NOW + 86_400, |_| true).unwrap()
    };
    assert_eq!(all(&mut reader, Step::Hour), [RollupAt { start: NOW, rollup: second.clone() }]);
    assert_eq!(all(&mut reader, Step::Day), []);
    let mut bare = StoreReader::open(&fixture.path).unwrap().without_facts();
    let times = bare.rollups(ids[0], Step::Hour, 0, NOW + 1, |_| true).unwrap();
    let without_facts = Rollup { facts: BTreeMap::new(), ..second.clone() };
    assert_eq!(times, [RollupAt { start: NOW, rollup: without_facts }]);
    // What is summed up later is added.
    let mut pending = PendingRollups::default();
    pending.add(ids[0], at(NOW + 60), &first);
    let mut others = PendingRollups::default();
    others.add(ids[0], at(NOW + 61), &first);
    pending.add_all(others);
    store.add_pending(pending);
    store.flush(&[]).unwrap();
    assert_eq!(all(&mut reader, Step::Hour)[0].rollup.samples, 3);
    assert_eq!(all(&mut reader, Step::Minute)[0].rollup.samples, 2);
}
