//! Simulated changes with decoys: the detector must name the right cause and scope, and report nothing else.

use std::collections::BTreeMap;

use firstbyte_monitor::detect::{
    Cause, Detector, InMemory, LevelEvent, SeriesLabels, Settings, State,
};

use super::visits::{CAUSES, DECOYS, MINUTE, START, Way, cause, decoy, network};

#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    Right { proposed: usize, confirmed: usize },
    Wrong(String),
}

pub(crate) fn first_name(event: &LevelEvent) -> String {
    match event.cause.first() {
        Some(Cause::Fact { fact, .. }) => fact.clone(),
        Some(Cause::Part { part, .. }) => part.clone(),
        None => "nothing".to_owned(),
    }
}

/// Simulates 120 minutes of a sample a minute, then a change, and reports events until 70 samples after it.
pub(crate) fn case(seed: u64) -> (String, Told, Option<String>) {
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
        // The decoy affects all series of the target, whatever the scope of the change.
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
