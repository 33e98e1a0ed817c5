use std::collections::BTreeSet;
use std::time::Duration;

use super::super::fixtures::{RTT, setup};
use super::super::tests::base;
use super::super::{Http, PredictError, predict, predict_sample};
use super::*;
use firstbyte_core::run::{Metric, Metrics};
use firstbyte_core::timeline::Sample;

const MS: Duration = Duration::from_millis(1);

/// Hosts without any processing time.
fn idle(response_bytes: u64) -> Setup {
    let mut setup = setup(2_000);
    setup.client.next_time = Duration::ZERO;
    setup.client.connect_spacing = Duration::ZERO;
    setup.exchange.response_bytes = response_bytes;
    setup
}

fn way(count: u32, parallel: &str) -> Way {
    let parallel = Parallel::named(parallel).unwrap();
    let http = match parallel {
        Parallel::Connections(_) => Http::V1_1,
        Parallel::Http2 => Http::V2,
        Parallel::Http3 => Http::V3,
    };
    Way { http, several: Some(Several { count, parallel }), ..Way::default() }
}

fn taken(setup: &Setup, way: &Way) -> Sample {
    predict_sample(setup, way, base()).unwrap()
}

fn total(sample: &Sample) -> Duration {
    Duration::from_nanos(Metrics::from_sample(sample).get(Metric::Total).unwrap())
}

/// Textbook values: two round trips for set-up (one over QUIC), and one for each round of requests.
#[test]
fn a_user_waits_for_rounds() {
    let mut setup = idle(500);
    setup.server.think_time = 10 * MS;
    for (parallel, set_up, rounds) in
        [("1", 2, 12), ("5", 2, 3), ("6", 2, 2), ("12", 2, 1), ("h2", 2, 1), ("h3", 1, 1)]
    {
        let total = total(&taken(&setup, &way(12, parallel)));
        let expected = RTT * set_up + (RTT + 10 * MS) * rounds;
        // quinn uses pacing, and its hosts take some time per datagram.
        let more = if parallel == "h3" { 3 * MS } else { Duration::ZERO };
        assert!((expected..=expected + more).contains(&total), "{parallel}: {total:?}");
    }
}

#[test]
fn every_request_is_answered_on_the_connection_it_was_given_to() {
    for (parallel, connections) in [("1", 1), ("5", 5), ("h2", 1), ("h3", 1)] {
        let sample = taken(&idle(20_000), &way(12, parallel));
        let requests = sample.requests.as_ref().unwrap();
        assert_eq!((requests.asked, requests.answered()), (12, 12), "{parallel}");
        assert_eq!(requests.connections(), connections, "{parallel}");
        assert_eq!(requests.further.len(), connections - 1, "{parallel}");
        let at_once = if connections == 1 && parallel != "1" { 12 } else { connections };
        assert_eq!(requests.most_at_once(), at_once, "{parallel}");
        for exchange in &requests.exchanges {
            let times = [
                exchange.request_start,
                exchange.request_end,
                exchange.response_start,
                exchange.response_end,
            ];
            assert!(times.map(|at| at.unwrap().at).is_sorted(), "{parallel}: {times:?}");
            assert_eq!((exchange.status, exchange.body_bytes), (Some(200), Some(20_000)));
        }
        assert_eq!(
            sample.connection.marks.stamp(Mark::ResponseEnd),
            requests.exchanges[0].response_end
        );
        // Over QUIC the server chooses when to confirm the handshake.
        if parallel != "h3" {
            assert_eq!(sample.connection.marks.disorder(), None);
        }
    }
}

/// Later exchanges do not affect the first one.
#[test]
fn the_first_of_several_is_as_one_alone() {
    let mut setup = idle(20_000);
    setup.client.resolver_time = Some(3 * MS);
    let several = taken(&setup, &way(12, "1")).connection;
    let alone = predict(&setup, &Way { several: None, ..way(12, "1") }, base()).unwrap();
    assert_eq!(several.marks, alone.marks);
    assert_eq!(several.flights, alone.flights);
    assert_eq!(several.facts, alone.facts);
    assert_eq!(predict(&setup, &way(12, "1"), base()).unwrap().marks, alone.marks);
}

/// Parallel connections share the link, which carries all bytes and is hardly ever idle.
#[test]
fn connections_compete_for_the_link() {
    let mut setup = idle(100_000);
    setup.path.down.rate = Some(8_000_000);
    // Nothing is dropped.
    setup.path.down.queue = 2_000 * MS;
    let bytes_take = Duration::from_millis(1_200);
    for parallel in ["6", "h2", "h3"] {
        let total = total(&taken(&setup, &way(12, parallel)));
        let expected = bytes_take..bytes_take + bytes_take / 5 + RTT * 3;
        assert!(expected.contains(&total), "{parallel}: {total:?}");
    }
}

/// A host handles one connection after the other.
#[test]
fn handshakes_wait_for_each_other() {
    let mut setup = idle(1_000);
    setup.server.hello_time.full = 5 * MS;
    let sample = taken(&setup, &way(4, "4"));
    let further = &sample.requests.unwrap().further;
    let ends = std::iter::once(&sample.connection).chain(further);
    let ends: Vec<i64> =
        ends.map(|c| c.marks.at(Mark::HandshakeComplete).unwrap().as_nanos()).collect();
    for pair in ends.windows(2) {
        assert_eq!(pair[1] - pair[0], 5_000_000, "{ends:?}");
    }
}

/// A connection whose SYN is lost is one second late; meanwhile the others do the work.
#[test]
fn with_losses_the_free_connections_take_what_is_left() {
    let mut setup = idle(5_000);
    setup.path.lose(0.05);
    let mut uneven = 0;
    let mut totals = BTreeSet::new();
    for seed in 0..100 {
        setup.path.seed = seed;
        let sample = taken(&setup, &way(24, "4"));
        assert_eq!(sample, taken(&setup, &way(24, "4")));
        let requests = sample.requests.as_ref().unwrap();
        assert_eq!(requests.exchanges.len(), 24);
        let of = |number| requests.exchanges.iter().filter(|e| e.connection == number).count();
        assert!((0..4).all(|number| of(number) >= 1));
        uneven += usize::from((0..4).any(|number| of(number) != 6));
        totals.insert(total(&sample));
    }
    assert!(uneven > 50, "{uneven}");
    assert!(totals.len() > 50 && *totals.first().unwrap() >= RTT * 8);
}

#[test]
fn what_does_not_come_to_its_end_has_no_total() {
    let mut setup = idle(5_000);
    setup.path.lose(0.9);
    for parallel in ["1", "3", "h2", "h3"] {
        let sample = taken(&setup, &way(6, parallel));
        assert!(sample.failure().is_some(), "{parallel}");
        assert_eq!(Metrics::from_sample(&sample).get(Metric::Total), None, "{parallel}");
    }
}

#[test]
fn what_is_not_known_is_not_predicted() {
    let mut uploads = idle(1_000);
    uploads.exchange.upload_bytes = 1_000;
    for (setup, way, why) in [
        (&uploads, way(2, "h2"), "uploads"),
        (&uploads, way(2, "h3"), "uploads"),
        (&idle(60_000_000), way(2, "h2"), "100 MB"),
        (&idle(1_000), way(101, "h3"), "streams"),
        (&idle(1_000), way(2, "3"), "more connections"),
    ] {
        let refused = predict_sample(setup, &way, base()).unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
        let named =
            matches!(refused, PredictError::NotPredicted { .. } | PredictError::NoSuchWay { .. });
        assert!(named, "{refused:?}");
    }
    assert!(predict_sample(&uploads, &way(4, "2"), base()).is_ok());
}
