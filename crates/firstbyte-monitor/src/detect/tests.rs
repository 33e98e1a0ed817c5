//! Changes that are drawn, with decoys: the cause and the scope are to be named rightly, and nothing else is to be told.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::timeline::FailureType;

use super::level::HOUR;
use super::*;
use crate::rollup::{Measure, MonitoredFact as Fact, MonitoredPart, Rollup};

const MINUTE: i64 = 60_000;
/// 1 April 2026.
const START: i64 = 1_775_001_600_000;

/// How a series behaves.
#[derive(Clone, Debug)]
struct Way {
    rtt: f64,
    resolver: f64,
    tls13: f64,
    resumed: f64,
    chain_trips: f64,
    chain_bytes: u32,
    certificate: &'static str,
    group: &'static str,
    http: &'static str,
    status: &'static str,
    address: &'static str,
    handshake_server: f64,
    server: f64,
    failing: f64,
}

impl Way {
    fn usual() -> Self {
        Self {
            rtt: 40.0,
            resolver: 2.0,
            tls13: 0.0,
            resumed: 0.0,
            chain_trips: 0.0,
            chain_bytes: 3_000,
            certificate: "EC P-256, issued by Lab CA, until 2026-06-01",
            group: "x25519",
            http: "2",
            status: "200",
            address: "192.0.2.1",
            handshake_server: 2.0,
            server: 8.0,
            failing: 0.0,
        }
    }

    /// One visit.
    fn visit(&self, random: &mut fastrand::Rng) -> Rollup {
        let mut rollup = Rollup { samples: 1, ..Rollup::default() };
        if random.f64() < self.failing {
            rollup.failures.insert(FailureType::TcpRefused, 1);
            return rollup;
        }
        let mut vary = |ms: f64| ms * (1.0 + 0.01 * (random.f64() - 0.5)) + 0.1 * random.f64();
        let (rtt, resolver) = (vary(self.rtt), vary(self.resolver));
        let (handshake_server, server, client) =
            (vary(self.handshake_server), vary(self.server), vary(1.0));
        let new = random.f64() < self.tls13;
        let resumed = random.f64() < self.resumed;
        let mut trips = if new || resumed { 1.0 } else { 2.0 };
        trips += if resumed { 0.0 } else { self.chain_trips };
        let working = handshake_server * if resumed { 0.2 } else { 1.0 };
        let late = if random.f64() < 0.02 { 10.0 + 400.0 * random.f64() } else { 0.0 };
        let tls = trips * rtt + working + client;
        let wait = rtt + server + late;
        let mut time =
            |measure, ms: f64| rollup.add_time(measure, Duration::from_secs_f64(ms / 1e3));
        for (metric, ms) in [
            (Metric::Resolve, resolver),
            (Metric::Connect, rtt),
            (Metric::Tls, tls),
            (Metric::Wait, wait),
            (Metric::Total, resolver + rtt + tls + wait),
        ] {
            time(Measure::Metric(metric), ms);
        }
        for (part, ms) in [
            (MonitoredPart::Network, (trips + 2.0) * rtt),
            (MonitoredPart::Server, working + server + late),
            (MonitoredPart::Client, client),
        ] {
            time(Measure::Part(part), ms);
        }
        time(Measure::Rtt, rtt);
        let version = if new { "TLSv1.3" } else { "TLSv1.2" };
        for (fact, value) in [
            (Fact::Address, self.address),
            (Fact::TlsVersion, version),
            (Fact::Group, self.group),
            (Fact::Handshake, if resumed { "resumed" } else { "full" }),
            (Fact::Certificate, self.certificate),
            (Fact::HttpVersion, self.http),
            (Fact::HttpStatus, self.status),
            (Fact::ChainBytes, &self.chain_bytes.to_string()),
            (Fact::RoundTrips, &(trips + 2.0).to_string()),
        ] {
            rollup.add_fact(fact, value, 1);
        }
        rollup
    }
}

/// What is made to change, and what the event has to name first.
const CAUSES: [(&str, &str); 8] = [
    ("version", "tls.version"),
    ("tickets", "tls.handshake"),
    ("chain", "tls.chain_bytes"),
    ("rtt", "rtt"),
    ("server", "server"),
    ("resolver", "resolver"),
    ("refused", "failure"),
    ("address", "address"),
];

/// What changes at the same time, and matters to nobody.
const DECOYS: [&str; 6] = ["group", "renewal", "http", "cipher", "version", "chain"];

fn cause(name: &str, way: &mut Way) {
    match name {
        "version" => way.tls13 = 1.0,
        "tickets" => way.resumed = 0.0,
        "chain" => (way.chain_bytes, way.chain_trips) = (19_000, 1.0),
        "rtt" => way.rtt += 20.0,
        "server" => way.server += 10.0,
        "resolver" => way.resolver += 15.0,
        "refused" => way.failing = 1.0,
        "address" => (way.address, way.rtt) = ("192.0.2.77", way.rtt + 25.0),
        _ => {}
    }
}

/// A decoy that can be told from `cause`: it changes what cannot have moved what moved.
fn decoy(name: &str, cause: &str, way: &mut Way) -> &'static str {
    match (name, cause) {
        ("renewal", _) => {
            way.certificate = "EC P-256, issued by Lab CA, until 2026-09-01";
            "tls.certificate"
        }
        ("http", "rtt" | "resolver" | "refused" | "address") => {
            way.http = "1.1";
            "http.version"
        }
        // A chain that still fits into the window.
        ("chain", "rtt" | "server" | "resolver" | "refused" | "address") => {
            way.chain_bytes = 4_100;
            "tls.chain_bytes"
        }
        _ => {
            way.group = "X25519MLKEM768";
            "tls.group"
        }
    }
}

/// Four places × two families × two ways, all of one target, and one target beside it.
fn network() -> Vec<SeriesLabels> {
    let mut all = Vec::new();
    for target in ["shop", "other"] {
        for place in ["fra", "syd", "nyc", "gru"] {
            for family in ["4", "6"] {
                let tags = [("place", place), ("family", family)];
                let tags = tags.map(|(tag, value)| (tag.to_owned(), value.to_owned()));
                let id = all.len() as u64 + 1;
                all.push(SeriesLabels {
                    id,
                    target: target.to_owned(),
                    tags: BTreeMap::from(tags),
                });
            }
        }
    }
    all
}

/// What a drawn case came to.
#[derive(Debug, PartialEq)]
enum Told {
    Right { proposed: usize, confirmed: usize },
    Wrong(String),
}

fn first_name(event: &Event) -> String {
    match event.cause.first() {
        Some(Cause::Fact { fact, .. }) => fact.clone(),
        Some(Cause::Part { part, .. }) => part.clone(),
        None => "nothing".to_owned(),
    }
}

/// A change after 120 minutes of a sample a minute; told until 70 samples after it.
fn case(seed: u64) -> (String, Told, Option<String>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (name, expected) = CAUSES[random.usize(..CAUSES.len())];
    let decoys = DECOYS[random.usize(..DECOYS.len())];
    let scope = [
        vec![],
        vec![("family", "6")],
        vec![("place", "syd")],
        vec![("family", "4"), ("place", "nyc")],
    ];
    let scope = scope[random.usize(..scope.len())].clone();
    let at = START + 120 * MINUTE;
    let mut history = InMemory::default();
    let mut decoyed = "";
    let all = network();
    let affected = |series: &SeriesLabels| {
        series.target == "shop"
            && scope
                .iter()
                .all(|(tag, value)| series.tags.get(*tag).is_some_and(|own| own == value))
    };
    let mut ways = Vec::new();
    for series in &all {
        history.add_series(series.clone());
        let mut before = Way::usual();
        before.rtt = 20.0 + 100.0 * random.f64();
        if name == "tickets" {
            before.resumed = 0.9;
        }
        let mut after = before.clone();
        if affected(series) {
            cause(name, &mut after);
        }
        // The decoy is everywhere at the target, whatever the scope of the change.
        if series.target == "shop" {
            decoyed = decoy(decoys, name, &mut after);
        }
        ways.push((series.id, before, after));
    }
    let mut detector = Detector::new(Settings::default(), Vec::new());
    let (mut proposed, mut confirmed) = (None, None);
    for minute in 0..190_i64 {
        let now = START + minute * MINUTE;
        for (id, before, after) in &ways {
            let way = if now >= at { after } else { before };
            history.add(*id, now, &way.visit(&mut random));
        }
        if minute % 5 == 4 || (120..=130).contains(&minute) {
            detector.look(&history, now);
        }
        let count = (minute - 119) as usize;
        if let Some(event) = detector.events().first() {
            proposed = proposed.or(Some(count));
            if event.state == State::Confirmed {
                confirmed = confirmed.or(Some(count));
            }
        }
    }
    let what = format!("{name}, decoy {decoyed}, scope {scope:?}");
    let events = detector.events();
    let [event] = events else {
        let told: Vec<String> = events
            .iter()
            .map(|event| format!("{} {:?}", event.sentence(), event.also_changed))
            .collect();
        return (what, Told::Wrong(format!("{} events: {told:#?}", events.len())), None);
    };
    let sentence = event.sentence();
    let tags: BTreeMap<String, String> =
        scope.iter().map(|(tag, value)| ((*tag).to_owned(), (*value).to_owned())).collect();
    let affected: Vec<u64> = all.iter().filter(|s| affected(s)).map(|s| s.id).collect();
    let right = first_name(event) == expected
        && event.scope.tags == tags
        && event.scope.targets == ["shop"]
        && event.series == affected;
    let told = match (right, proposed, confirmed) {
        (true, Some(proposed), Some(confirmed)) => Told::Right { proposed, confirmed },
        _ => Told::Wrong(format!("{sentence} {event:?}")),
    };
    (what, told, Some(sentence))
}

#[test]
fn cause_and_scope_of_drawn_changes_are_right() {
    assert_eq!(right_of(1..9), 8);
}

/// `cargo test -p firstbyte-monitor --release --lib -- --ignored --nocapture hundred_changes`
#[test]
#[ignore = "minutes"]
fn hundred_changes_with_decoys() {
    let base = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5_000);
    let right = right_of(base..base + 100);
    println!("{right} of 100 right");
    assert!(right >= 95);
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
    let text = serde_json::to_string(&event).unwrap();
    assert!(
        text.starts_with(
            r#"{"format":"firstbyte/event","version":1,"id":"20260401T010000Z-tls-1","#
        ),
        "{text}"
    );
    assert!(text.contains(r#""at":"2026-04-01T01:00:00Z""#), "{text}");
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
    println!("{text}");
}

/// Notes of the time that may be about one of the series; one that comes later edits the event.
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
    assert!(edited.is_news_after(event));
    let samples = Samples { after: 1_000, ..edited.samples };
    assert!(!Event { samples, ..edited.clone() }.is_news_after(edited));
    assert!(Event { state: State::Withdrawn, ..edited.clone() }.is_news_after(edited));
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

/// `cargo test -p firstbyte-monitor --release --lib -- --ignored --nocapture cost_of_a_look`
#[test]
#[ignore = "prints a figure"]
fn cost_of_a_look() {
    let mut history = InMemory::default();
    let tags = BTreeMap::new();
    history.add_series(SeriesLabels { id: 1, target: "shop".to_owned(), tags });
    let mut random = fastrand::Rng::with_seed(3);
    for hour in 0..40 * 24 {
        for _ in 0..60 {
            history.add_hours(1, START + hour * HOUR, &Way::usual().visit(&mut random));
        }
    }
    for minute in 0..360 {
        let at = START + 40 * DAY - 360 * MINUTE + minute * MINUTE;
        let visit = Way::usual().visit(&mut random);
        history.samples_only(1, at, &visit);
    }
    let now = START + 40 * DAY;
    let mut detector = Detector::new(Settings::default(), Vec::new());
    let clock = firstbyte_clock::timer_now();
    assert_eq!(detector.look(&history, now), []);
    let first = clock.elapsed();
    let clock = firstbyte_clock::timer_now();
    assert_eq!(detector.look(&history, now + MINUTE), []);
    println!("40 days of hours: {first:?}; the latest samples alone: {:?}", clock.elapsed());
}

/// The network is away for an hour: who fails is asked less often. That is one event, which ends; that times were not measured for
/// so long is none.
#[test]
fn an_hour_without_a_network_is_one_event_that_ends() {
    let mut history = InMemory::default();
    let mut random = fastrand::Rng::with_seed(11);
    for id in 1..=4 {
        let tags = BTreeMap::from([("family".to_owned(), (4 + 2 * (id % 2)).to_string())]);
        history.add_series(SeriesLabels { id, target: format!("t{}", id / 2), tags });
    }
    let away = 180..240;
    let mut detector = Detector::new(Settings::default(), Vec::new());
    for minute in 0..420_i64 {
        let now = START + minute * MINUTE;
        for id in 1..=4 {
            let fails = away.contains(&minute);
            // Twice as seldom with each failure after the fifth, down to an eighth.
            let since = minute - away.start;
            if fails && ![0, 1, 2, 3, 4, 6, 10, 18, 26, 34, 42, 50, 58].contains(&since) {
                continue;
            }
            let way = Way { failing: if fails { 1.0 } else { 0.0 }, ..Way::usual() };
            history.add(id, now, &way.visit(&mut random));
        }
        if minute % 2 == 1 {
            detector.look(&history, now);
        }
    }
    let [event] = detector.events() else { panic!("{:#?}", detector.events()) };
    assert_eq!((event.state, event.metric.as_str()), (State::Confirmed, "failures"), "{event:#?}");
    assert_eq!(event.series, [1, 2, 3, 4]);
    let minute = |at: i64| (at - START) / MINUTE;
    assert_eq!(minute(event.at), away.start);
    let until = minute(event.until.unwrap());
    assert!((away.end - 2..=away.end).contains(&until), "{until}");
}

/// A clock that is set back: samples come that are older than those before them.
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
