use std::time::{Duration, Instant};

use super::fixtures::{RTT, setup};
use super::*;
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Handshake, Mark, Offset, PhaseName};

/// Any instant: nothing compares it with a clock.
#[allow(clippy::disallowed_methods, reason = "tests stand for the caller, who has a clock")]
pub(crate) fn base() -> Instant {
    Instant::now()
}

fn way(tls: Tls, session: Session, http: Http) -> Way {
    Way { tls, session, http, ..Way::default() }
}

fn predicted(setup: &Setup, way: &Way) -> Connection {
    predict(setup, way, base()).unwrap()
}

fn first_byte(connection: &Connection) -> Duration {
    connection.marks.at(Mark::ResponseStart).unwrap().since(Offset::ZERO)
}

/// Round trips until the first byte, by the textbook: hosts take no time, and no window overflows.
#[test]
fn round_trips_to_the_first_byte() {
    let mut setup = setup(2_000);
    setup.exchange.response_bytes = 1_000;
    let cases = [
        (way(Tls::None, Session::Full, Http::V1_1), 2),
        (way(Tls::V1_2, Session::Full, Http::V1_1), 4),
        (way(Tls::V1_2, Session::Full, Http::V2), 4),
        (way(Tls::V1_2, Session::Resumed, Http::V1_1), 3),
        (way(Tls::V1_3, Session::Full, Http::V1_1), 3),
        (way(Tls::V1_3, Session::Full, Http::V2), 3),
        (way(Tls::V1_3, Session::Resumed, Http::V2), 3),
        (way(Tls::V1_3, Session::ZeroRtt, Http::V2), 2),
        (Way { reuse: Reuse::Reused, ..way(Tls::V1_3, Session::Full, Http::V2) }, 1),
        (Way { reuse: Reuse::Reused, ..way(Tls::V1_2, Session::Full, Http::V1_1) }, 1),
        (Way { reuse: Reuse::Reused, ..way(Tls::None, Session::Full, Http::V1_1) }, 1),
    ];
    for (way, round_trips) in cases {
        let connection = predicted(&setup, &way);
        assert_eq!(first_byte(&connection), RTT * round_trips, "{}", way.label());
        let split = Split::attribute(&connection);
        assert_eq!(split.round_trips, round_trips, "{}", way.label());
        assert_eq!(connection.marks.disorder(), None);
    }
}

#[test]
fn sessions_are_what_they_are_called() {
    let setup = setup(3_000);
    for tls in [Tls::V1_2, Tls::V1_3] {
        let resumed = predicted(&setup, &way(tls, Session::Resumed, Http::V2));
        assert_eq!(resumed.facts.tls.unwrap().handshake, Some(Handshake::Resumed));
        let full = predicted(&setup, &way(tls, Session::Full, Http::V2)).facts.tls.unwrap();
        assert_eq!(full.handshake, Some(Handshake::Full));
        assert!(full.certificate_chain_bytes().unwrap().abs_diff(3_000) < 30, "{full:?}");
    }
    let early = predicted(&setup, &way(Tls::V1_3, Session::ZeroRtt, Http::V2));
    let early = early.facts.tls.unwrap().early_data.unwrap();
    assert_eq!(early.accepted, Some(true));
    assert!(early.bytes_before_server_hello > Some(80));
}

/// The classic case: a chain that exceeds a small initial window costs a round trip.
#[test]
fn a_chain_over_the_initial_window_costs_a_round_trip() {
    let mut setup = setup(5_000);
    setup.server.initial_window = 2;
    let connection = predicted(&setup, &way(Tls::V1_2, Session::Full, Http::V1_1));
    let tls = Split::attribute(&connection).phase(PhaseName::Tls).unwrap().round_trips;
    assert_eq!(tls, 3);
    let first_packet = connection.marks.first_packet_of_response().unwrap();
    assert_eq!(first_packet.since(Offset::ZERO), RTT * 5);
    // The response's record exceeds the window, too, so it is complete one round trip later.
    assert_eq!(first_byte(&connection), RTT * 6);
}

#[test]
fn flights_name_their_messages() {
    let connection = predicted(&setup(2_000), &way(Tls::V1_3, Session::Full, Http::V2));
    let flights: Vec<String> =
        connection.flights.iter().map(|flight| flight.messages.join(" ")).collect();
    insta::assert_snapshot!(flights.join("\n"));
}

/// Asserts the number of round trips until the first byte. A host's datagrams leave within a fraction of a round
/// trip.
#[track_caller]
fn assert_about(connection: &Connection, round_trips: u32, what: &str) {
    let (least, found) = (RTT * round_trips, first_byte(connection));
    assert!((least..least + RTT / 10).contains(&found), "{what}: {found:?}");
}

#[test]
fn round_trips_over_quic() {
    let mut setup = setup(2_000);
    setup.exchange.response_bytes = 1_000;
    let full = way(Tls::V1_3, Session::Full, Http::V3);
    let cases = [
        (full, 2),
        (way(Tls::V1_3, Session::Resumed, Http::V3), 2),
        (way(Tls::V1_3, Session::ZeroRtt, Http::V3), 1),
        (Way { reuse: Reuse::Reused, ..full }, 1),
        (Way { group: Some(KexGroup::X25519), ..full }, 2),
    ];
    for (way, round_trips) in cases {
        let connection = predicted(&setup, &way);
        assert_about(&connection, round_trips, &way.label());
    }
    let early = predicted(&setup, &way(Tls::V1_3, Session::ZeroRtt, Http::V3));
    assert_eq!(early.facts.tls.unwrap().early_data.unwrap().accepted, Some(true));
}

#[test]
fn a_retry_costs_a_round_trip_and_so_does_a_chain_over_three_times_the_hello() {
    let full = way(Tls::V1_3, Session::Full, Http::V3);
    let mut setup = setup(2_000);
    setup.exchange.response_bytes = 1_000;
    setup.server.retry = true;
    assert_about(&predicted(&setup, &full), 3, "Retry");
    let mut setup = super::fixtures::setup(5_000);
    setup.exchange.response_bytes = 1_000;
    let x25519 = Way { group: Some(KexGroup::X25519), ..full };
    assert_about(&predicted(&setup, &x25519), 3, "5 kB after 1,200 bytes");
    // A post-quantum hello takes two datagrams: twice the credit.
    assert_about(&predicted(&setup, &full), 2, "5 kB after 2,400 bytes");
}

/// The duration of pacing depends on the offset of the server's clock within a millisecond. The shown connection is
/// neither the fastest nor the slowest. Without pacing the offset has no effect.
#[test]
fn over_quic_the_middling_clock_is_shown() {
    let way = way(Tls::V1_3, Session::ZeroRtt, Http::V3);
    for (response_bytes, paced) in [(1_000, false), (1_000_000, true)] {
        let mut setup = setup(3_000);
        setup.path = Path::with_rtt(Duration::from_millis(5));
        setup.exchange.response_bytes = response_bytes;
        let total = |connection: &Connection| connection.marks.at(Mark::ResponseEnd).unwrap();
        let mut totals: Vec<Offset> = [100_000, 300_000, 500_000, 700_000, 900_000]
            .into_iter()
            .map(|clock| {
                let chance = quic::Chance { clock, fate: None };
                let played = quic::play(&setup, &way, base(), chance).unwrap();
                total(&played.connection(&setup, &way))
            })
            .collect();
        totals.sort_unstable();
        assert_eq!(total(&predicted(&setup, &way)), totals[2], "{totals:?}");
        assert_eq!(totals[0] < totals[4], paced, "{totals:?}");
    }
}

mod audience {
    use super::*;
    use proptest::prelude::*;

    fn range(loses: bool) -> Range {
        let ms = Duration::from_millis;
        let losses = loses.then_some([0.001, 0.1]);
        Range { shortest: ms(5), longest: ms(300), losses, members: 300 }
    }

    fn player(setup: &Setup, way: &Way, range: &Range) -> Player {
        Player::new(setup, way, range, base(), &|n, work| (0..n).map(work).collect()).unwrap()
    }

    fn whole(connection: &Connection) -> Outcome {
        let total = connection.marks.at(Mark::ResponseEnd).unwrap().since(Offset::ZERO);
        Outcome { first_byte: first_byte(connection), total }
    }

    /// The same visitor, from the player and from an individual prediction.
    fn both(player: &Player, way: &Way, rtt: Duration, loss: f64, seed: u64) -> [Outcome; 2] {
        let mut one = setup(3_000);
        one.path = Path { seed, ..Path::with_rtt(rtt) };
        one.path.lose(loss);
        [player.play(rtt, loss, seed).unwrap(), whole(&predicted(&one, way))]
    }

    #[test]
    fn over_tcp_a_player_says_what_predictions_say() {
        for way in Way::all().into_iter().filter(|way| way.http != Http::V3) {
            let player = player(&setup(3_000), &way, &range(true));
            for (rtt, loss) in [(7, 0.0), (80, 0.0), (211, 0.0), (30, 0.05), (90, 0.02)] {
                let rtt = Duration::from_millis(rtt);
                let [fast, full] = both(&player, &way, rtt, loss, 3);
                assert_eq!(fast, full, "{} {rtt:?} {loss}", way.label());
            }
        }
    }

    #[test]
    fn over_quic_a_player_is_within_a_hundredth() {
        for session in [Session::Full, Session::ZeroRtt] {
            let way = way(Tls::V1_3, session, Http::V3);
            let player = player(&setup(3_000), &way, &range(false));
            for rtt in [6, 17, 80, 211, 290].map(Duration::from_millis) {
                let [fast, full] = both(&player, &way, rtt, 0.0, 3);
                for (fast, full) in [(fast.first_byte, full.first_byte), (fast.total, full.total)] {
                    // The server's timers expire at whole milliseconds.
                    let allowed = full / 100 + Duration::from_millis(1);
                    assert!(
                        fast.abs_diff(full) < allowed,
                        "{} {rtt:?}: {fast:?} {full:?}",
                        way.label()
                    );
                }
            }
        }
    }

    /// Sorted totals of visitors, from the player and from the state machines.
    fn under_loss(
        way: &Way,
        (rtt, loss, response): (u64, f64, u64),
        visitors: [u64; 2],
    ) -> [Vec<Duration>; 2] {
        let rtt = Duration::from_millis(rtt);
        let mut setup = setup(3_000);
        setup.exchange.response_bytes = response;
        let range = Range {
            shortest: rtt * 3 / 4,
            longest: rtt * 4 / 3,
            losses: Some([loss; 2]),
            members: if visitors[1] > 1_000 { 2_000 } else { 500 },
        };
        let player = player(&setup, way, &range);
        let fast = (0..visitors[0]).filter_map(|n| player.play(rtt, loss, derived_seed(1, n)));
        let mut fast: Vec<Duration> = fast.map(|outcome| outcome.total).collect();
        let one = |n: u64| {
            let mut setup = setup.clone();
            let seed = derived_seed(loss.to_bits() ^ rtt.as_nanos() as u64 ^ response, n);
            setup.path = Path { seed, ..Path::with_rtt(rtt) };
            setup.path.lose(loss);
            let connection = predicted(&setup, way);
            connection.failure.is_none().then(|| whole(&connection).total)
        };
        let half = |n: u64| (n..visitors[1]).step_by(2).filter_map(one).collect::<Vec<_>>();
        let mut full: Vec<Duration> = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mut all = half(0);
            all.extend(other.join().unwrap());
            all
        });
        fast.sort_unstable();
        full.sort_unstable();
        [fast, full]
    }

    /// Under loss, both give the same distribution of times.
    #[test]
    fn over_quic_with_losses_the_distributions_agree() {
        let way = way(Tls::V1_3, Session::Full, Http::V3);
        for loss in [0.005, 0.03] {
            let [fast, full] = under_loss(&way, (70, loss, 20_000), [5_000, 300]);
            // Kolmogorov–Smirnov test: chance alone stays below 0.12 in 999 of 1,000 cases.
            let found = apart(&fast, &full);
            assert!(found < 0.12, "{loss}: {found}");
        }
    }

    /// Largest difference between the two distributions. Times may differ by a few milliseconds, as pacing's steps
    /// do.
    fn apart(fast: &[Duration], full: &[Duration]) -> f64 {
        let slack = Duration::from_millis(2);
        let share = |sorted: &[Duration], t: Duration| {
            sorted.partition_point(|d| *d <= t) as f64 / sorted.len() as f64
        };
        let off = |t: &Duration| {
            let (low, high) = (share(fast, *t - slack), share(fast, *t + slack));
            let found = share(full, *t);
            (low - found).max(found - high)
        };
        full.iter().step_by(5).map(off).fold(0.0, f64::max)
    }

    /// `cargo test -p firstbyte-predict -- --ignored --nocapture losses_table` prints the error of audiences over
    /// HTTP/3 (with two standard errors), and the distribution of times.
    #[test]
    #[ignore = "minutes; prints the table of docs/prediction.md"]
    fn losses_table() {
        let visitors = std::env::var("VISITORS").map_or(4_000, |n| n.parse().unwrap());
        let full = way(Tls::V1_3, Session::Full, Http::V3);
        let early = way(Tls::V1_3, Session::ZeroRtt, Http::V3);
        println!(
            "| way, round trip, response | loss | mean of the truth, ms | off, % | shares off, % |"
        );
        for (way, rtt, response) in
            [(full, 70, 20_000), (full, 30, 100_000), (early, 70, 20_000), (full, 150, 1_000)]
        {
            for loss in [0.005, 0.01, 0.02, 0.03, 0.06] {
                let [fast, full] = under_loss(&way, (rtt, loss, response), [20_000, visitors]);
                let ms = |d: &Duration| d.as_secs_f64() * 1e3;
                let mean = |all: &[Duration]| all.iter().map(ms).sum::<f64>() / all.len() as f64;
                let (m, n) = (mean(&full), full.len() as f64);
                let variance = full.iter().map(|d| (ms(d) - m).powi(2)).sum::<f64>() / n;
                println!(
                    "| {}, {rtt} ms, {response} B | {:.1} % | {m:.0} | {:+.1} ± {:.1} | {:.1} |",
                    way.label(),
                    loss * 100.0,
                    (mean(&fast) / m - 1.0) * 100.0,
                    2.0 * (variance / n).sqrt() / m * 100.0,
                    apart(&fast, &full) * 100.0,
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Losses never make a connection faster, except by a reordered packet, and every connection ends.
        #[test]
        fn every_visitor_is_served(rtt in 1u64..400, loss in 0.0..0.1f64, seed: u64) {
            let way = way(Tls::V1_2, Session::Full, Http::V1_1);
            let player = player(&setup(3_000), &way, &range(true));
            let rtt = Duration::from_millis(rtt);
            let calm = player.play(rtt, 0.0, seed).unwrap();
            let lossy = player.play(rtt, loss, seed).unwrap();
            prop_assert!(lossy.total + rtt / 2 >= calm.total);
            prop_assert!(lossy.first_byte <= lossy.total);
        }
    }
}

/// Eleven SYNs in a row; each is lost with probability one half, and so is each answer.
#[test]
fn who_is_never_answered_has_no_times() {
    let way = way(Tls::V1_3, Session::Full, Http::V2);
    let range = Range { shortest: RTT, longest: RTT, losses: Some([0.5; 2]), members: 0 };
    let workers: Workers<'_> = &|n, work| (0..n).map(work).collect();
    let player = Player::new(&setup(3_000), &way, &range, base(), workers).unwrap();
    let gone = (0..2_000).filter(|seed| player.play(RTT, 0.5, *seed).is_none()).count();
    // (3/4)^11 is 0.042: 84 ± 9.
    assert!((48..120).contains(&gone), "{gone} of 2,000");
}

/// Losses that prevent a connection are recorded in it: how far it came, and where it failed.
#[test]
fn what_does_not_come_about_is_a_failed_connection() {
    let mut setup = setup(3_000);
    setup.path.lose(0.999);
    let ways = [way(Tls::V1_3, Session::Full, Http::V2), way(Tls::V1_3, Session::Full, Http::V3)];
    // 67 s until the last SYN, and 64 s more to wait for its answer, both a little longer (ip-sysctl of Linux 6.18:
    // 131 s in total).
    let expected = [(PhaseName::Connect, "connect-timed-out", 131), (PhaseName::Quic, "quic", 30)];
    for (way, (phase, name, seconds)) in ways.iter().zip(expected) {
        let connection = predicted(&setup, way);
        let failure = connection.failure.clone().unwrap();
        assert_eq!((failure.phase, failure.cause.name()), (phase, name), "{}", way.label());
        let at = failure.at.unwrap().since(Offset::ZERO).as_secs_f64();
        assert!((seconds as f64..seconds as f64 * 1.05).contains(&at), "{at}");
        assert_eq!((connection.facts.tls, connection.facts.http), (None, None));
        assert!(connection.marks.at(Mark::TcpConnected).is_none());
        assert!(connection.marks.at(Mark::HandshakeComplete).is_none());
    }
    // With a lower loss rate, some fail later, in the phase that they had reached.
    setup.path.lose(0.6);
    setup.exchange.response_bytes = 3_000_000;
    let mut phases = std::collections::BTreeSet::new();
    for seed in 0..60 {
        setup.path.seed = seed;
        let connection = predicted(&setup, &ways[0]);
        let end = connection.marks.at(Mark::ResponseEnd);
        assert_eq!(end.is_none(), connection.failure.is_some());
        assert_eq!(connection.marks.disorder(), None);
        phases.extend(connection.failure.map(|failure| failure.phase));
    }
    assert!(phases.contains(&PhaseName::Connect) && phases.len() > 1, "{phases:?}");
}

#[test]
fn uploads_go_beyond_what_early_data_may_hold() {
    let mut setup = setup(2_000);
    setup.exchange.upload_bytes = 100_000;
    for way in Way::all() {
        let connection = predicted(&setup, &way);
        let sent: u64 = connection
            .flights
            .iter()
            .filter(|flight| flight.direction == firstbyte_core::timeline::Direction::Sent)
            .map(firstbyte_core::timeline::Flight::bytes)
            .sum();
        assert!(sent > 100_000, "{}: {sent}", way.label());
        let [end, answer] = [Mark::RequestEnd, Mark::ResponseStart].map(|m| connection.marks.at(m));
        assert!(end.unwrap() <= answer.unwrap(), "{}", way.label());
    }
}
