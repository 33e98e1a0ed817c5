//! Compares findings with the time that removing a fault saves, over predicted connections.

use std::time::{Duration, Instant};

use firstbyte_core::split::Split;
use firstbyte_explain::{
    Equation, Evidence, FindingKind, MeasuredWay, MeasuredWays, Span, Term, TermKind, TimeSaved,
    WayKind, findings,
};

use crate::{Setup, Tls, Way as Made, fixtures, predict};

const COUNT: u32 = 5;

/// A server on a path, and the TLS version to use.
#[derive(Clone, Debug)]
struct Case {
    setup: Setup,
    tls: Tls,
}

const MS: Duration = Duration::from_millis(1);

impl Case {
    /// 40 ms, ten segments, unlimited rate; a chain and a response that fit the window.
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
        self.found_together().0
    }

    /// The findings, and the time that a visit saves without all of them.
    fn found_together(&self) -> (Vec<(FindingKind, Duration)>, Option<TimeSaved>) {
        let connection = self.made();
        let proven = (0..COUNT).map(|round| (round, connection.clone())).collect();
        let subject = MeasuredWay { proven, ..MeasuredWay::default() };
        let ways = vec![(WayKind::Subject, subject)];
        let measured = MeasuredWays { ways, redirects: Vec::new() };
        let found = findings(&Evidence::from_measured(measured));
        let costs = found.all.into_iter().map(|finding| (finding.kind, finding.cost)).collect();
        (costs, found.together)
    }

    /// Asserts that this is the only finding, and that its cost is what `without` saves.
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
    // So fast that it does not matter.
    assert_eq!(Case::sound().with(|setup| setup.path.down.rate = Some(1_000_000_000)).found(), []);
}

#[test]
fn a_small_window_costs_the_round_trips_that_ten_segments_spare() {
    for window in [1, 2, 3, 4] {
        let small = Case::sound().with(|setup| setup.server.initial_window = window);
        small.costs(FindingKind::SmallWindow, &Case::sound());
    }
    // A small window that never fills is not visible and costs nothing.
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

/// Tickets and settings use part of the window, so a response of ten segments or less may fill it. If and only if
/// it does, the equation has the term and there is a finding.
#[test]
fn slow_start_is_found_where_the_equation_has_it() {
    for response_bytes in (8_000..18_000).step_by(500) {
        let case = Case::sound().with(|setup| setup.exchange.response_bytes = response_bytes);
        let connection = case.made();
        let equation = Equation::from_splits([&Split::attribute(&connection)], None).unwrap();
        let is_stall = |term: &Term| {
            let spans = [Some(Span::Request), Some(Span::Response)];
            term.kind == TermKind::Stalls && spans.contains(&term.span)
        };
        let stalled = equation.terms.iter().any(is_stall);
        let found: Vec<FindingKind> = case.found().into_iter().map(|(kind, _)| kind).collect();
        let expected: &[FindingKind] = if stalled { &[FindingKind::SlowStart] } else { &[] };
        assert_eq!(found, expected, "{response_bytes} bytes");
    }
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
fn each_of_two_faults_costs_what_it_alone_saves() {
    let both = Case::sound().with(|setup| {
        // Ten segments take longer than a round trip, so no window is ever full.
        setup.path.down.rate = Some(2_000_000);
        setup.exchange.response_bytes = 40_000;
    });
    let fast = both.with(|setup| setup.path.down.rate = None);
    let short = both.with(|setup| setup.exchange.response_bytes = 1_000);
    let neither = fast.with(|setup| setup.exchange.response_bytes = 1_000);
    let saves = |without: &Case| both.total().saturating_sub(without.total());
    let (found, together) = both.found_together();
    for (kind, truth) in
        [(FindingKind::SlowLink, saves(&fast)), (FindingKind::LargeResponse, saves(&short))]
    {
        let cost = found.iter().find(|(found, _)| *found == kind).unwrap().1;
        assert!(cost.abs_diff(truth) <= truth / 10, "{kind:?} costs {cost:?}, not {truth:?}");
    }
    let (all, truth) = (together.unwrap().total, saves(&neither));
    assert!(all.abs_diff(truth) <= truth / 10, "all of them cost {all:?}, not {truth:?}");
}

#[test]
fn tls_1_2_costs_what_1_3_would_save() {
    let new = Case::sound();
    let old = Case { tls: Tls::V1_2, ..Case::sound() };
    old.costs(FindingKind::Tls12, &new);
    // On a path without any delay there is nothing to save.
    let near = |tls| Case {
        tls,
        ..Case::sound().with(|setup| {
            setup.path.up.delay = MS / 10;
            setup.path.down.delay = MS / 10;
        })
    };
    assert_eq!(near(Tls::V1_2).found(), []);
}
