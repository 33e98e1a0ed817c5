//! Findings held against what removing a fault saves, over connections that are predicted.

use std::time::{Duration, Instant};

use firstbyte_core::split::Split;
use firstbyte_explain::{Evidence, FindingKind, Way, WayKind, findings};

use crate::{Setup, Tls, Way as Made, fixtures, predict};

const COUNT: u32 = 5;

/// A server on a path, and what is asked of it.
#[derive(Clone, Debug)]
struct Case {
    setup: Setup,
    tls: Tls,
}

const MS: Duration = Duration::from_millis(1);

impl Case {
    /// 40 ms, ten segments, no limit to the rate; a chain and a response that fit.
    fn sound() -> Self {
        let mut setup = fixtures::setup(1_000);
        setup.path.up.delay = Duration::from_millis(20);
        setup.path.down.delay = Duration::from_millis(20);
        setup.exchange.response_bytes = 9_000;
        Self { setup, tls: Tls::V1_3 }
    }

    fn with(&self, change: impl Fn(&mut Setup)) -> Self {
        let mut case = self.clone();
        change(&mut case.setup);
        case
    }

    #[allow(clippy::disallowed_methods, reason = "any instant: nothing compares it with a clock")]
    fn made(&self) -> firstbyte_core::timeline::Connection {
        let way = Made { tls: self.tls, ..Made::default() };
        predict(&self.setup, &way, Instant::now()).unwrap()
    }

    fn total(&self) -> Duration {
        Split::attribute(&self.made()).total()
    }

    fn found(&self) -> Vec<(FindingKind, Duration)> {
        let connection = self.made();
        let proven = (0..COUNT).map(|round| (round, connection.clone())).collect();
        let subject = Way { proven, ..Way::default() };
        let ways = vec![(WayKind::Subject, subject)];
        let found = findings(&Evidence { ways, redirects: Vec::new() });
        found.into_iter().map(|finding| (finding.kind, finding.cost)).collect()
    }

    /// What is found is this alone, and costs what `without` saves.
    fn costs(&self, kind: FindingKind, without: &Self) {
        let truth = self.total().saturating_sub(without.total());
        assert!(truth > 2 * MS, "{kind:?} costs {truth:?}");
        let found = self.found();
        let kinds: Vec<FindingKind> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [kind], "{truth:?}");
        let off = found[0].1.abs_diff(truth);
        assert!(off <= truth / 10, "{kind:?} costs {:?}, not {truth:?}", found[0].1);
    }
}

#[test]
fn a_sound_server_has_no_findings() {
    assert_eq!(Case::sound().found(), []);
    let quick = Case::sound().with(|setup| {
        setup.path.up.delay = Duration::from_micros(300);
        setup.path.down.delay = Duration::from_micros(300);
    });
    assert_eq!(quick.found(), []);
}

#[test]
fn a_slow_link_costs_what_its_rate_takes() {
    for mbit in [2, 5, 10] {
        let slow = Case::sound().with(|setup| setup.path.down.rate = Some(mbit * 1_000_000));
        slow.costs(FindingKind::SlowLink, &Case::sound());
    }
    // So quick that it does not matter.
    assert_eq!(Case::sound().with(|setup| setup.path.down.rate = Some(1_000_000_000)).found(), []);
}

#[test]
fn a_small_window_costs_the_round_trips_that_ten_segments_spare() {
    for window in [1, 2, 3, 4] {
        let small = Case::sound().with(|setup| setup.server.initial_window = window);
        small.costs(FindingKind::SmallWindow, &Case::sound());
    }
    // A small one that never fills is not seen, and costs nothing.
    let short = Case::sound().with(|setup| {
        setup.exchange.response_bytes = 300;
        setup.server.initial_window = 8;
    });
    assert_eq!(short.found(), []);
}

#[test]
fn a_large_response_costs_what_a_small_one_would_save() {
    let large = Case::sound().with(|setup| setup.exchange.response_bytes = 60_000);
    large.costs(FindingKind::SlowStart, &Case::sound().with(|s| s.exchange.response_bytes = 1_000));
}

#[test]
fn thinking_is_told_from_what_the_window_holds() {
    let small = Case::sound().with(|setup| setup.server.initial_window = 2);
    let both = small.with(|setup| setup.server.think_time = Duration::from_millis(70));
    let truth = both.total() - small.total();
    let found = both.found();
    let cost = |kind| found.iter().find(|(other, _)| *other == kind).map(|(_, cost)| *cost);
    let think = cost(FindingKind::SlowServer).unwrap();
    assert!(think.abs_diff(truth) <= truth / 10, "{think:?}, not {truth:?}");
    assert!(cost(FindingKind::SmallWindow).is_some(), "{found:?}");
}

#[test]
fn faults_that_hide_each_other_share_their_cost() {
    let both = Case::sound().with(|setup| {
        setup.path.down.rate = Some(4_000_000);
        setup.exchange.response_bytes = 40_000;
    });
    let without = |rate: bool, body: bool| {
        let case = both.with(|setup| {
            if rate {
                setup.path.down.rate = None;
            }
            if body {
                setup.exchange.response_bytes = 1_000;
            }
        });
        case.total().as_secs_f64()
    };
    let [whole, rate, body, none] =
        [(false, false), (true, false), (false, true), (true, true)].map(|(r, b)| without(r, b));
    let found = both.found();
    for (kind, first, other) in
        [(FindingKind::SlowLink, rate, body), (FindingKind::SlowStart, body, rate)]
    {
        let truth = ((whole - first) + (other - none)) / 2.0;
        let cost = found.iter().find(|(found, _)| *found == kind).unwrap().1.as_secs_f64();
        assert!((cost - truth).abs() <= truth / 10.0, "{kind:?} costs {cost}, not {truth}");
    }
}

#[test]
fn tls_1_2_costs_what_1_3_would_save() {
    let new = Case::sound();
    let old = Case { tls: Tls::V1_2, ..Case::sound() };
    old.costs(FindingKind::Tls12, &new);
    // On a path on which nothing takes time there is nothing to save.
    let near = |tls| Case {
        tls,
        ..Case::sound().with(|setup| {
            setup.path.up.delay = MS / 10;
            setup.path.down.delay = MS / 10;
        })
    };
    assert_eq!(near(Tls::V1_2).found(), []);
}
