//! Simulated changes with decoys: the detector must name the right cause and scope, and report nothing else.

use std::collections::BTreeMap;

use super::*;

#[path = "../../benches/changes/causes.rs"]
mod causes;
#[path = "../../benches/changes/visits.rs"]
mod visits;

use causes::{Told, case};
use visits::{MINUTE, START, Way};

#[test]
fn cause_and_scope_of_drawn_changes_are_right() {
    assert_eq!(right_of(1..9), 8);
}

fn right_of(seeds: std::ops::Range<u64>) -> usize {
    let (mut right, mut late) = (0, [0, 0]);
    for seed in seeds {
        let (what, told, sentence) = case(seed);
        match told {
            Told::Right { proposed, confirmed } => {
                right += 1;
                late = [late[0].max(proposed), late[1].max(confirmed)];
                println!("{seed}: {}", sentence.unwrap_or_default());
            }
            Told::Wrong(why) => println!("{seed}: WRONG {what}: {why}"),
        }
    }
    println!("latest: proposed after {} samples, confirmed after {}", late[0], late[1]);
    right
}

#[test]
fn an_event_is_read_as_it_was_written() {
    let event = {
        let (_, _, _) = case(1);
        let mut history = InMemory::default();
        let labels = SeriesLabels { id: 1, target: "shop".to_owned(), tags: BTreeMap::new() };
        history.add_series(labels);
        let mut random = fastrand::Rng::with_seed(3);
        let mut after = Way::usual();
        after.tls13 = 1.0;
        for minute in 0..100 {
            let way = if minute < 60 { Way::usual() } else { after.clone() };
            history.add(1, START + minute * MINUTE, &way.visit(&mut random));
        }
        let mut detector = Detector::new(Settings::default(), Vec::new());
        detector.look(&history, START + 100 * MINUTE).remove(0)
    };
    let event = Event::Level(event);
    let text = serde_json::to_string(&event).unwrap();
    assert!(
        text.starts_with(
            r#"{"kind":"level","format":"firstbyte/event","version":1,"id":"20260401T010000Z-ttfb-1","#
        ),
        "{text}"
    );
    assert!(text.contains(r#""at":"2026-04-01T01:00:00Z""#), "{text}");
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    println!("{text}");
}

/// Annotations near the change that may concern one of the series are reported with it; a later one updates the event.
#[test]
fn what_people_noted_is_told_with_the_change() {
    let mut history = InMemory::default();
    let tags = BTreeMap::from([("service".to_owned(), "shop".to_owned())]);
    history.add_series(SeriesLabels { id: 1, target: "a".to_owned(), tags });
    let mut random = fastrand::Rng::with_seed(3);
    let slower = Way { server: 40.0, ..Way::usual() };
    for minute in 0..100 {
        let way = if minute < 60 { Way::usual() } else { slower.clone() };
        history.add(1, START + minute * MINUTE, &way.visit(&mut random));
    }
    let note = |minute: i64, text: &str, tags: &[(&str, &str)]| Note {
        at: START + minute * MINUTE,
        text: text.to_owned(),
        tags: tags.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    };
    for (minute, text, tags) in [
        (55, "deploy 4812", &[("service", "shop"), ("version", "7")][..]),
        (58, "of another service", &[("service", "blog")]),
        (59, "of another target", &[("target", "b")]),
        (20, "long before", &[]),
    ] {
        history.add_note(note(minute, text, tags));
    }
    let mut detector = Detector::new(Settings::default(), Vec::new());
    let now = START + 100 * MINUTE;
    let told = detector.look(&history, now);
    let [event] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(event.annotations, ["deploy 4812"]);
    assert!(
        event.sentence().ends_with(". Annotations at that time: deploy 4812."),
        "{}",
        event.sentence()
    );
    assert_eq!(detector.look(&history, now + MINUTE), []);
    history.add_note(note(62, "rolled out", &[("target", "a")]));
    let told = detector.look(&history, now + 2 * MINUTE);
    let [edited] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((&edited.id, edited.annotations.len()), (&event.id, 2));
}

#[test]
fn what_goes_away_before_it_is_sure_is_withdrawn() {
    let mut history = InMemory::default();
    let tags = BTreeMap::new();
    history.add_series(SeriesLabels { id: 1, target: "shop".to_owned(), tags });
    let mut random = fastrand::Rng::with_seed(3);
    let mut slow = Way::usual();
    slow.server += 30.0;
    let mut detector = Detector::new(Settings::default(), Vec::new());
    let mut told = Vec::new();
    for minute in 0..200 {
        let way = if (100..115).contains(&minute) { slow.clone() } else { Way::usual() };
        let now = START + minute * MINUTE;
        history.add(1, now, &way.visit(&mut random));
        told.extend(detector.look(&history, now));
    }
    assert_eq!(told.first().map(|event| event.state), Some(State::Provisional), "{told:?}");
    assert_eq!(told.last().map(|event| event.state), Some(State::Withdrawn), "{told:?}");
    assert!(told.iter().all(|event| event.id == told[0].id), "{told:?}");
    assert_eq!(detector.events(), []);
}

/// An outage is reported as an outage: the level detector ignores its failures.
#[test]
fn an_hour_without_a_network_changes_no_level() {
    let mut history = InMemory::default();
    let mut random = fastrand::Rng::with_seed(11);
    let away = 180..240;
    for id in 1..=4 {
        let tags = BTreeMap::from([("family".to_owned(), (4 + 2 * (id % 2)).to_string())]);
        history.add_series(SeriesLabels { id, target: format!("t{}", id / 2), tags });
        history.add_outage(id, [START + away.start * MINUTE, START + away.end * MINUTE]);
    }
    let mut detector = Detector::new(Settings::default(), Vec::new());
    for minute in 0..420_i64 {
        let now = START + minute * MINUTE;
        for id in 1..=4 {
            let fails = away.contains(&minute);
            let way = Way { failing: if fails { 1.0 } else { 0.0 }, ..Way::usual() };
            history.add(id, now, &way.visit(&mut random));
        }
        let found = detector.look(&history, now);
        assert!(found.is_empty(), "{found:#?}");
    }
}

/// The clock is set back, so samples arrive that are older than earlier ones.
#[test]
fn a_clock_that_is_set_back_changes_nothing() {
    for back in [5, 60, 24 * 60] {
        let mut history = InMemory::default();
        history.add_series(SeriesLabels { id: 1, target: "a".to_owned(), tags: BTreeMap::new() });
        let mut random = fastrand::Rng::with_seed(5);
        let mut detector = Detector::new(Settings::default(), Vec::new());
        for minute in 0..300_i64 {
            let now = START + (minute - if minute < 150 { 0 } else { back }) * MINUTE;
            history.add(1, now, &Way::usual().visit(&mut random));
            let told = detector.look(&history, now);
            assert!(told.iter().all(|event| event.state != State::Confirmed), "{told:#?}");
        }
        assert!(detector.events().is_empty(), "{:#?}", detector.events());
    }
}
