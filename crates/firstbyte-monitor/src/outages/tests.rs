//! Outages of simulated up and down times: when they are reported, and with which contents.

use super::*;

/// 27 November 2026, 13:00 UTC.
const START: i64 = 1_795_784_400_000;
const SECOND: i64 = 1_000;

fn labels(id: u64, target: &str, family: &str) -> SeriesLabels {
    let tags = BTreeMap::from([("family".to_owned(), family.to_owned())]);
    SeriesLabels { id, target: target.to_owned(), tags }
}

fn each_second(labels: &[SeriesLabels]) -> MonitoredSeries {
    MonitoredSeries { labels: labels.into(), every: vec![SECOND; labels.len()] }
}

/// Simulates `seconds` seconds of series of `targets` over both families, each measured every second; `fails` decides
/// when one fails.
///
/// As in the loop, a failure after a success is followed by a sample at once. Returns every reported event and its
/// time.
fn watched(
    tracker: &mut OutageTracker,
    targets: &[&str],
    seconds: std::ops::Range<i64>,
    fails: impl Fn(&str, u64, i64) -> Option<FailureType>,
) -> Vec<(i64, OutageEvent)> {
    let mut all = Vec::new();
    for target in targets {
        for family in ["4", "6"] {
            all.push(labels(all.len() as u64 + 1, target, family));
        }
    }
    tracker.follow(each_second(&all));
    let mut given = Vec::new();
    let mut failed = vec![false; all.len() + 1];
    for second in seconds {
        for one in &all {
            let id = one.id;
            let at = START + second * SECOND + 10 * id as i64;
            let failure = fails(&one.target, id, second);
            let stands_for = Duration::from_secs(1);
            let status = failure.map(|_| 503);
            let outcome = Outcome { series: id, at, stands_for, failure, status };
            tracker.add(&outcome);
            if failure.is_some() && !std::mem::replace(&mut failed[id as usize], true) {
                tracker.add(&Outcome { at: at + 5, stands_for: Duration::ZERO, ..outcome });
            }
            failed[id as usize] = failure.is_some();
        }
        let now = START + second * SECOND + 900;
        given.extend(tracker.take_changed(now).into_iter().map(|event| (second, event)));
    }
    given
}

/// The first event of each state.
fn states(given: &[(i64, OutageEvent)]) -> Vec<(i64, OutageState)> {
    let mut states: Vec<(i64, OutageState)> = Vec::new();
    for (second, event) in given {
        if states.last().is_none_or(|(_, state)| *state != event.state) {
            states.push((*second, event.state));
        }
    }
    states
}

#[test]
fn an_outage_is_told_at_its_begin_and_at_its_end() {
    let refused = FailureType::TcpRefused;
    let given =
        watched(&mut OutageTracker::default(), &["shop", "blog"], 0..200, |target, _, at| {
            (target == "shop" && (40..100).contains(&at)).then_some(refused)
        });
    assert_eq!(states(&given), [(40, OutageState::Began), (101, OutageState::Ended)]);
    let first = &given[0].1;
    assert_eq!((first.scope.targets.as_slice(), first.scope.of), (&["shop".to_owned()][..], 2));
    assert_eq!(first.series, [1, 2]);
    assert!(first.sentence().ends_with("connection refused (tcp.refused), both families."));
    let last = &given.last().unwrap().1;
    assert_eq!(last.began, START + 40 * SECOND + 10);
    assert_eq!(last.ended, Some(START + 100 * SECOND + 20));
    assert_eq!((last.failed_share, last.interruptions), (1.0, 1));
    assert_eq!(last.samples, 2 * 61);
    assert!(given.iter().all(|(_, event)| event.id == first.id));
}

#[test]
fn single_failures_are_no_outage() {
    let given = watched(&mut OutageTracker::default(), &["shop"], 0..300, |_, id, at| {
        (at % 7 == 3 && id == 1).then_some(FailureType::TcpReset)
    });
    // The extra samples of `watched` fail as well, so series 1 may have outages. The loop below adds no extra samples.
    assert!(given.iter().all(|(_, event)| event.series == [1]));
    let mut tracker = OutageTracker::default();
    tracker.follow(each_second(&[labels(1, "shop", "4")]));
    for second in 0..300 {
        let failure = (second % 2 == 1).then_some(FailureType::TcpReset);
        let at = START + second * SECOND;
        let stands_for = Duration::from_secs(1);
        tracker.add(&Outcome { series: 1, at, stands_for, failure, status: None });
        assert_eq!(tracker.take_changed(at + 500), []);
    }
}

#[test]
fn a_server_that_flaps_is_one_outage_with_its_share_of_time() {
    let down = |at: i64| (60..120).contains(&at) || (180..240).contains(&at);
    let mut tracker = OutageTracker::default();
    let given = watched(&mut tracker, &["shop"], 0..900, |_, _, at| {
        down(at).then_some(FailureType::HttpError)
    });
    let expected = [
        (60, OutageState::Began),
        (121, OutageState::Ended),
        (180, OutageState::Flapping),
        (840, OutageState::Ended),
    ];
    assert_eq!(states(&given), expected);
    let last = &given.last().unwrap().1;
    assert_eq!((last.interruptions, last.status), (2, Some(503)));
    assert!((last.failed_share - 2.0 / 3.0).abs() < 0.01, "{}", last.failed_share);
    assert_eq!(last.ended.map(|at| (at - START) / SECOND), Some(240));
    assert!(last.sentence().contains("down 2 times from"), "{}", last.sentence());
    assert!(tracker.events().is_empty());
}

#[test]
fn many_targets_that_fail_together_are_one_outage() {
    let names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let given = watched(&mut OutageTracker::default(), &names, 0..100, |_, _, at| {
        (30..60).contains(&at).then_some(FailureType::DnsUnreachable)
    });
    let ids: BTreeSet<&str> = given.iter().map(|(_, event)| event.id.as_str()).collect();
    // Two targets are reported alone, as two may be down at one time by chance. All others join one of them.
    assert_eq!(ids.len(), TARGETS_TOGETHER);
    let widest = given.iter().map(|(_, event)| event.scope.targets.len()).max();
    assert_eq!(widest, Some(19));
    assert!(given.iter().rev().take(2).all(|(_, event)| event.state == OutageState::Ended));
}

#[test]
fn an_outage_that_an_earlier_process_found_goes_on() {
    let refused = FailureType::TcpRefused;
    let mut tracker = OutageTracker::default();
    let given = watched(&mut tracker, &["shop"], 0..60, |_, _, at| (at >= 40).then_some(refused));
    let known: Vec<OutageEvent> = vec![given.last().unwrap().1.clone()];
    let mut tracker = OutageTracker::from_events(&known);
    let given = watched(&mut tracker, &["shop"], 90..200, |_, _, at| (at < 120).then_some(refused));
    let last = &given.last().unwrap().1;
    assert_eq!((&last.id, last.state), (&known[0].id, OutageState::Ended));
    assert_eq!((last.began, last.interruptions), (known[0].began, 1));
    assert_eq!(last.ended.map(|at| (at - START) / SECOND), Some(120));
}

#[test]
fn series_that_are_no_longer_measured_keep_no_outage_open() {
    let refused = FailureType::TcpRefused;
    let mut tracker = OutageTracker::default();
    watched(&mut tracker, &["shop"], 0..60, |_, _, at| (at >= 40).then_some(refused));
    tracker.follow(MonitoredSeries::default());
    let ended = tracker.take_changed(START + 61 * SECOND);
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].state, ended[0].no_longer_measured), (OutageState::Ended, true));
    let sentence = ended[0].sentence();
    assert!(
        sentence.starts_with("shop: down from ") && sentence.ends_with("; no longer measured.")
    );
}
