use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::simulation::dialogue::Lines;

const MS: Nanos = 1_000_000;

/// Arrivals at the client, in order.
#[derive(Default)]
struct Arrivals {
    connected: Nanos,
    retransmits: u32,
    ranges: Vec<(Nanos, u64, u64)>,
}

impl Observer for Arrivals {
    fn connected(&mut self, _: Nanos, at: Nanos, retransmits: u32) {
        (self.connected, self.retransmits) = (at, retransmits);
    }

    fn sent(&mut self, _: Nanos, _: u64, _: u64, _: bool) {}

    fn received(&mut self, at: Nanos, start: u64, end: u64) {
        self.ranges.push((at, start, end));
    }

    fn acknowledged(&mut self, _: Nanos, _: u64) {}

    fn wrote(&mut self, _: Nanos, _: usize) {}
}

impl Arrivals {
    fn last(&self) -> Nanos {
        self.ranges.last().map_or(0, |(at, ..)| *at)
    }
}

/// A request of 100 bytes, and a response of `bytes`.
fn question(bytes: u64) -> Dialogue {
    let (mut client, mut server) = (Lines::default(), Lines::default());
    client.write(0, Duration::ZERO, 100);
    server.write(100, Duration::ZERO, bytes);
    let mut dialogue = Dialogue { client, server, ..Dialogue::default() };
    dialogue.places.response_end = bytes;
    dialogue
}

/// The path, and the hosts' behaviour.
struct Setup {
    path: Path,
    habits: Habits,
}

fn played(bytes: u64, change: impl FnOnce(&mut Setup)) -> Arrivals {
    tried(bytes, change).unwrap()
}

fn tried(bytes: u64, change: impl FnOnce(&mut Setup)) -> Result<Arrivals, GaveUp> {
    let mut setup = Setup {
        path: Path::with_rtt(Duration::from_millis(100)),
        habits: Habits { initial_window: 10, ..Habits::default() },
    };
    change(&mut setup);
    let mut arrivals = Arrivals::default();
    play(&question(bytes), &setup.habits, &setup.path, &mut arrivals)?;
    Ok(arrivals)
}

/// Textbook slow start: 10, 20, 40 segments per round trip.
#[test]
fn windows_double() {
    let last = |segments: u64| played(segments * 1_448, |_| {}).last() / MS;
    assert_eq!([1, 10, 11, 30, 31, 70].map(last), [200, 200, 300, 300, 400, 400]);
    let small = |setup: &mut Setup| setup.habits.initial_window = 2;
    // 2, 4, 8: 6 kB take a second round trip.
    assert_eq!(played(6_000, small).last() / MS, 300);
}

#[test]
fn a_rate_bounds_what_comes() {
    const RATE: u64 = 10_000_000;
    for control in CongestionControl::ALL {
        let arrivals = played(2_000_000, |setup| {
            setup.path.down.rate = Some(RATE);
            setup.habits.congestion_control = control;
        });
        // Headers take their share: 1,500 bytes per packet for 1,448 of payload.
        let least = 2_000_000 * 8 * 1_500 / 1_448 * 1_000 / RATE * MS;
        let took = arrivals.last() - 200 * MS;
        assert!(took > least, "{}: {took} {least}", control.name());
        assert!(took < least * 2, "{}: {took} {least}", control.name());
    }
}

/// BBR sends ten segments at once, and the others at 2.885 windows per round trip.
#[test]
fn bbr_spreads_what_comes_after_ten_segments() {
    let bbr = |segments: u64| {
        let set = |setup: &mut Setup| setup.habits.congestion_control = CongestionControl::Bbr;
        played(segments * 1_448, |setup| {
            set(setup);
            setup.habits.initial_window = 20;
        })
        .last()
    };
    assert_eq!(bbr(10) / MS, 200);
    // Half of the window remains, in bursts of two: 10 / (2.885 × 20) of a round trip, minus the last.
    let spread = bbr(20) - 200 * MS;
    assert!((13 * MS..19 * MS).contains(&spread), "{spread}");
}

#[test]
fn a_lost_syn_costs_a_second_and_what_the_timer_wheel_adds() {
    let lossy = |seed: u64| {
        played(1_000, |setup| {
            setup.path.up.loss = 0.3;
            setup.path.seed = seed;
        })
    };
    let seconds: Vec<Arrivals> = (0..40).map(lossy).collect();
    assert!(seconds.iter().any(|arrivals| arrivals.retransmits > 0));
    for arrivals in seconds.iter().filter(|arrivals| (1..=5).contains(&arrivals.retransmits)) {
        let late = arrivals.connected - 100 * MS;
        let again = u64::from(arrivals.retransmits - 1) * 1_024 * MS;
        assert!((1_000 * MS..=1_032 * MS).contains(&(late - again)), "{late}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever is lost, every byte arrives once, in order, and not faster than without losses.
    #[test]
    fn all_arrives_in_order(
        bytes in 1u64..300_000,
        loss in 0.0..0.25f64,
        seed: u64,
        control in prop::sample::select(CongestionControl::ALL.to_vec()),
        rate in prop::option::of(500_000u64..100_000_000),
    ) {
        let arrivals = tried(bytes, |setup| {
            setup.path.lose(loss);
            setup.path.seed = seed;
            setup.path.down.rate = rate;
            setup.habits.congestion_control = control;
        });
        // Over the lossiest paths, about one connection in ten thousand is not established.
        let unconnected = matches!(&arrivals, Err(gave_up) if gave_up.name == "connect-timed-out");
        prop_assume!(!unconnected);
        let arrivals = arrivals.unwrap();
        let mut next = 0;
        let mut time = 0;
        for (at, start, end) in &arrivals.ranges {
            prop_assert_eq!(*start, next);
            prop_assert!(*end > *start && *at >= time);
            (next, time) = (*end, *at);
        }
        prop_assert_eq!(next, bytes);
        prop_assert!(arrivals.last() >= 200 * MS);
    }
}
