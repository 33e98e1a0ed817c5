//! Predictions against the lab: every way to connect, and what small windows and BBR make of a few.
//!
//! The whole grid is the benchmark `predict`; `docs/prediction.md` has its table.

use std::time::Duration;

use firstbyte_core::predict::{CongestionControl, Http, Session, Tls, Way};

use crate::grid::{Compared, Grid};
use crate::support::alone;

const RTT: Duration = Duration::from_millis(40);

fn grid(ways: Vec<Way>) -> Grid {
    Grid {
        rtts: vec![RTT],
        chains: vec![0, 6_000],
        responses: vec![1_000, 20_000],
        ways,
        samples: 5,
        congestion_control: CongestionControl::Cubic,
        initial_window: 10,
    }
}

/// No round trip too many, none missing, by the fastest of the samples.
#[track_caller]
fn assert_true(compared: &[Compared]) {
    for case in compared {
        assert!(
            case.fastest.abs_diff(case.predicted) < RTT / 2,
            "{} over {:?}, {:?}: {} bytes of chain, {} of response: measured {:?}, predicted {:?}",
            case.way.label(),
            case.rtt,
            case.metric,
            case.chain,
            case.response,
            case.fastest,
            case.predicted,
        );
    }
    // A busy machine makes handshakes late: of the fastest, half are close all the same.
    let close = |case: &&Compared| case.fastest.abs_diff(case.predicted) < RTT / 10;
    let count = compared.iter().filter(close).count();
    assert!(count * 2 > compared.len(), "{count} of {} are close", compared.len());
}

#[test]
fn every_way_takes_what_was_predicted() {
    let _alone = alone();
    let ways = Way::all();
    let compared = grid(ways.clone()).compare().unwrap();
    // Chains, responses; first byte and total, but for the total of HTTP/3 kept alive.
    assert!(compared.len() >= (ways.len() * 2 - 1) * 2 * 2);
    assert_true(&compared);
}

#[test]
fn small_windows_and_bbr_take_what_was_predicted() {
    let _alone = alone();
    let way = |tls| Way { tls, session: Session::Full, http: Http::V1_1, ..Way::default() };
    let ways = vec![way(Tls::V1_2), way(Tls::V1_3)];
    let small = Grid { initial_window: 2, ..grid(ways.clone()) };
    assert_true(&small.compare().unwrap());
    let bbr = Grid {
        congestion_control: CongestionControl::Bbr,
        responses: vec![20_000, 60_000],
        ..grid(ways)
    };
    assert_true(&bbr.compare().unwrap());
}
