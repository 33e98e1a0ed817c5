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

/// Closes everything that is over at `now` and returns the number of closed hours and days.
fn close_all(store: &mut Store, now: i64) -> u64 {
    let mut all = 0;
    loop {
        let ClosedPeriods { closed, damaged } = store.close_periods(now).unwrap();
        assert_eq!(damaged, 0);
        all += closed;
        if closed == 0 {
            return all;
        }
    }
}

/// Starts and samples of all rollups of a series.
fn samples_of(path: &std::path::Path, series: SeriesId, step: Step) -> Vec<(i64, u64)> {
    let mut reader = StoreReader::open(path).unwrap();
    let until = NOW + 4_000 * 86_400;
    let all = reader.rollups(series, step, 0, until, |_| true).unwrap();
    all.iter().map(|at| (at.start - NOW, at.rollup.samples)).collect()
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
    // Hours are made from the kept minutes.
    assert_eq!(store.retain(&retention, now).unwrap(), Retained::default());
    close_all(&mut store, now);
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
fn events_of_a_period_include_outages_that_reach_into_it() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.path).unwrap();
    let put = |id: &str, at: i64, json: &str| {
        let (id, state, json) = (id.to_owned(), "x".to_owned(), json.to_owned());
        store.put_event(&StoredEvent { id, at, state, json }).unwrap();
    };
    let stamp = |at: i64| {
        let at = time::OffsetDateTime::from_unix_timestamp(at).unwrap();
        at.format(&time::format_description::well_known::Rfc3339).unwrap()
    };
    let ended = format!(r#"{{"kind":"outage","ended":"{}"}}"#, stamp(NOW));
    put("open", NOW - 50, r#"{"kind":"outage"}"#);
    put("ended", NOW - 100, &ended);
    put("level", NOW - 10, r#"{"kind":"level"}"#);
    put("broken", NOW - 10, "{");
    let reader = StoreReader::open(&fixture.path).unwrap();
    let ids = |from: i64, until: i64| -> Vec<String> {
        reader.events(from, until).unwrap().into_iter().map(|event| event.id).collect()
    };
    assert_eq!(ids(NOW, NOW + 10), ["open", "ended"]);
    assert_eq!(ids(NOW + 1, NOW + 10), ["open"]);
    assert_eq!(ids(NOW - 200, NOW - 50), ["ended"]);
    assert_eq!(ids(NOW - 10, NOW), ["broken", "level", "open", "ended"]);
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
    assert_eq!(store.flush(&[]).unwrap(), Flushed { written: 1, damaged: 1 });
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

/// Another process holds the lock for longer than the busy timeout.
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
    // Later sums are added.
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

/// Reads return the same whether hours and days are closed or not, and each sample counts once, however late it
/// arrives.
#[test]
fn hours_and_days_are_the_same_before_and_after_they_are_closed() {
    const DAY: i64 = 86_400;
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    let ids = store.enrol(&[labels("a"), labels("b")]).unwrap();
    let looks = || {
        let steps = [Step::Minute, Step::Hour, Step::Day];
        ids.iter()
            .flat_map(|id| steps.map(|step| samples_of(&fixture.path, *id, step)))
            .collect::<Vec<_>>()
    };
    for minute in (0..2 * 1_440).step_by(7) {
        for id in &ids {
            store.add_rollup(*id, at(NOW + minute * 60), &sample(20, "TLSv1.3"));
        }
    }
    store.flush(&[]).unwrap();
    let before = looks();
    assert_eq!((before[1].len(), before[2].clone()), (48, vec![(0, 206), (DAY, 206)]));
    // One hour is over, first not for long enough, then for long enough.
    assert_eq!(close_all(&mut store, NOW + 3_600), 0);
    assert_eq!(close_all(&mut store, NOW + 3_900), 2);
    assert_eq!(looks(), before);
    // The rest of the first day, the day itself, and the next hour.
    assert_eq!(close_all(&mut store, NOW + DAY + 3_900), 2 * 24 + 2);
    assert_eq!(looks(), before);
    let rows = |table: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        store.connection().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!((rows("rollup_hour"), rows("rollup_day"), rows("open_day")), (50, 2, 2));
    // Late samples: of a closed day, a closed hour of an open day, an hour without a row, and an open hour.
    for (seconds, id) in [(60, ids[0]), (DAY + 60, ids[0]), (-DAY, ids[1]), (DAY + 8_000, ids[1])] {
        store.add_rollup(id, at(NOW + seconds), &sample(20, "TLSv1.3"));
    }
    store.flush(&[]).unwrap();
    let late = looks();
    assert_eq!(late[2], [(0, 207), (DAY, 207)]);
    assert_eq!(late[5], [(-DAY, 1), (0, 206), (DAY, 207)]);
    drop(store);
    let mut store = Store::open(&fixture.path).unwrap();
    assert!(close_all(&mut store, NOW + 3 * DAY) > 0);
    assert_eq!(looks(), late);
    for step in ["open_hour", "open_day"] {
        let sql = format!("SELECT count(*) FROM {step}");
        let left: i64 = store.connection().query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{step}");
    }
    let reader = StoreReader::open(&fixture.path).unwrap();
    assert_eq!(reader.oldest(Step::Hour).unwrap(), Some(NOW - DAY));
}

/// Only a part of a raw file was summed up; the rest arrives when its minutes have been deleted.
#[test]
fn samples_that_come_after_their_minutes_went_are_added_to_what_is_kept() {
    const DAY: i64 = 86_400;
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    let id = store.enrol(&[labels("a")]).unwrap()[0];
    let now = NOW + 100 * DAY;
    let mut retention = Retention { minutes: Some(DAY), hours: Some(3_600), days: None };
    let add = |store: &mut Store, seconds: i64| {
        store.add_rollup(id, at(NOW + seconds), &sample(20, "TLSv1.3"));
        store.flush(&[]).unwrap();
    };
    let retain = |store: &Store, retention: &Retention| {
        while store.retain(retention, now).unwrap().unfinished {}
    };
    add(&mut store, 30);
    close_all(&mut store, now);
    // Hours are kept at least as long as minutes, whatever the settings say.
    retain(&store, &Retention { minutes: None, ..retention });
    assert_eq!(samples_of(&fixture.path, id, Step::Hour), [(0, 1)]);
    retention.hours = None;
    retain(&store, &retention);
    assert_eq!(samples_of(&fixture.path, id, Step::Minute), []);
    add(&mut store, 40);
    assert_eq!(samples_of(&fixture.path, id, Step::Hour), [(0, 2)]);
    retention.hours = Some(DAY);
    retain(&store, &retention);
    for step in [Step::Minute, Step::Hour] {
        assert_eq!(samples_of(&fixture.path, id, step), []);
    }
    add(&mut store, 50);
    assert_eq!(samples_of(&fixture.path, id, Step::Day), [(0, 3)]);
    close_all(&mut store, now);
    assert_eq!(samples_of(&fixture.path, id, Step::Day), [(0, 3)]);
}

/// The clock was two years ahead for a while.
#[test]
fn hours_of_a_time_to_come_are_closed() {
    let fixture = Fixture::new();
    let mut store = Store::open(&fixture.path).unwrap();
    let id = store.enrol(&[labels("a")]).unwrap()[0];
    for seconds in [0, 730 * 86_400] {
        store.add_rollup(id, at(NOW + seconds), &sample(20, "TLSv1.3"));
    }
    store.flush(&[]).unwrap();
    // The current hour stays open.
    assert_eq!(close_all(&mut store, NOW + 60), 2);
    let days = [(0, 1), (730 * 86_400, 1)];
    assert_eq!(samples_of(&fixture.path, id, Step::Day), days);
    assert_eq!(samples_of(&fixture.path, id, Step::Hour), days);
}
