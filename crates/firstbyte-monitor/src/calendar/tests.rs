//! Laws of the calendar, in virtual time.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn timing(every: Duration, host: &str) -> Timing {
    Timing { every, jitter: 0.1, host: host.to_owned() }
}

/// A calendar in simulated time: samples take `lasts`, and each sample selected by `fails` is followed by an extra one.
struct World<F> {
    calendar: Calendar,
    now: Duration,
    lasts: Duration,
    fails: F,
    under_way: BinaryHeap<Reverse<(Duration, SeriesNumber)>>,
    begun: Vec<(Duration, Begun)>,
    most_in_flight: usize,
    stood_for: BTreeMap<SeriesNumber, Duration>,
}

impl<F: Fn(SeriesNumber, Duration) -> bool> World<F> {
    fn new(limits: Limits, lasts: Duration, fails: F) -> Self {
        Self {
            calendar: Calendar::new(limits, 7),
            now: Duration::ZERO,
            lasts,
            fails,
            under_way: BinaryHeap::new(),
            begun: Vec::new(),
            most_in_flight: 0,
            stood_for: BTreeMap::new(),
        }
    }

    fn run_until(&mut self, end: Duration) {
        loop {
            while let Some(begun) = self.calendar.begin(self.now) {
                self.begun.push((self.now, begun));
                self.under_way.push(Reverse((self.now + self.lasts, begun.series)));
            }
            self.most_in_flight = self.most_in_flight.max(self.calendar.in_flight());
            assert_eq!(self.under_way.len(), self.calendar.in_flight());
            let ends = self.under_way.peek().map(|Reverse((at, _))| *at);
            let next = [ends, self.calendar.next()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(Reverse((at, series))) = self.under_way.peek().copied() {
                if at > self.now {
                    break;
                }
                self.under_way.pop();
                let stands_for = self.calendar.ended(series, self.now).unwrap();
                *self.stood_for.entry(series).or_default() += stands_for;
                if (self.fails)(series, self.now) {
                    self.calendar.measure_at_once(series, self.now);
                }
            }
        }
        self.now = end;
    }

    fn counts(&self) -> BTreeMap<SeriesNumber, usize> {
        let mut counts = BTreeMap::new();
        self.begun.iter().for_each(|(_, begun)| *counts.entry(begun.series).or_default() += 1);
        counts
    }
}

const WIDE: Limits = Limits { in_flight: 10_000, per_host: 100 };

#[test]
fn load_is_spread_and_every_series_has_its_share() {
    let mut world = World::new(WIDE, Duration::from_millis(200), |_, _| false);
    for number in 0..6_000 {
        world.calendar.add(number, &timing(60 * SECOND, &format!("host{number}")), Duration::ZERO);
    }
    world.run_until(600 * SECOND);
    // 100 samples a second on average; jitter alone makes it uneven.
    let mut seconds = vec![0_u32; 600];
    for (at, _) in &world.begun {
        seconds[(at.as_secs() as usize).min(599)] += 1;
    }
    // Allow five standard deviations. Skip the first seconds, from which jitter has moved samples to later ones.
    let settled = &seconds[12..588];
    let (least, most) = (settled.iter().min().unwrap(), settled.iter().max().unwrap());
    assert!((50..=100).contains(least) && (100..=150).contains(most), "{least} to {most} a second");
    assert!(seconds[..12].iter().all(|count| *count <= 150), "{:?}", &seconds[..12]);
    assert!(world.counts().values().all(|count| (9..=11).contains(count)));
    assert_eq!(world.calendar.missed(), 0);
    assert_eq!(world.calendar.lateness().quantile(1.0).unwrap().high, Duration::ZERO);
}

#[test]
fn jitter_does_not_add_up() {
    let mut world = World::new(WIDE, Duration::from_millis(1), |_, _| false);
    world.calendar.add(0, &timing(10 * SECOND, "a"), Duration::ZERO);
    world.run_until(100_000 * SECOND);
    for (number, (at, _)) in world.begun.iter().enumerate() {
        // The first place is one jitter after the start.
        let off = at.as_secs_f64() - 1.0 - 10.0 * number as f64;
        assert!((-1.001..=1.001).contains(&off), "sample {number} is off its place by {off} s");
    }
    let differences: Vec<f64> =
        world.begun.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
    let varied = differences.iter().filter(|seconds| (*seconds - 10.0).abs() > 0.1).count();
    assert!(varied > differences.len() / 2);
}

#[test]
fn a_host_is_not_asked_more_at_once_than_it_may_be() {
    let limits = Limits { in_flight: 1_000, per_host: 2 };
    let mut world = World::new(limits, 2 * SECOND, |_, _| false);
    for number in 0..20 {
        world.calendar.add(number, &timing(60 * SECOND, "one"), Duration::ZERO);
    }
    for number in 20..40 {
        world.calendar.add(number, &timing(60 * SECOND, &format!("h{number}")), Duration::ZERO);
    }
    world.run_until(3_600 * SECOND);
    let one: Vec<Duration> =
        world.begun.iter().filter(|(_, begun)| begun.series < 20).map(|(at, _)| *at).collect();
    for three in one.windows(3) {
        assert!(three[2] - three[0] >= 2 * SECOND, "three within {:?}", three[2] - three[0]);
    }
    assert!(world.counts().values().all(|count| (59..=61).contains(count)), "{:?}", world.counts());
}

#[test]
fn what_cannot_be_kept_up_with_is_counted_and_not_caught_up() {
    // Twenty samples a second are due, but the limit allows four.
    let limits = Limits { in_flight: 4, per_host: 100 };
    let mut world = World::new(limits, SECOND, |_, _| false);
    for number in 0..20 {
        world.calendar.add(number, &timing(SECOND, &format!("h{number}")), Duration::ZERO);
    }
    world.run_until(1_000 * SECOND);
    assert_eq!(world.most_in_flight, 4);
    let counts = world.counts();
    assert!(
        counts.values().all(|count| (190..=210).contains(count)),
        "shares are fair: {counts:?}"
    );
    let missed = world.calendar.missed();
    assert!((15_000..=16_500).contains(&missed), "{missed}");
    assert!(world.calendar.lateness().quantile(0.5).unwrap().low > SECOND);
}

#[test]
fn after_a_pause_each_series_is_measured_once() {
    let mut world = World::new(WIDE, Duration::from_millis(100), |_, _| false);
    for number in 0..100 {
        world.calendar.add(number, &timing(10 * SECOND, &format!("h{number}")), Duration::ZERO);
    }
    world.run_until(60 * SECOND);
    // The process stands still for an hour.
    let before = world.begun.len();
    world.now = 3_660 * SECOND;
    world.run_until(3_664 * SECOND);
    let after = world.begun.len() - before;
    assert!((100..=145).contains(&after), "{after} within four seconds");
    // The hour was not measured, so no sample may stand for it.
    let longest = world.stood_for.values().max().unwrap();
    assert!(*longest <= 2 * (60 * SECOND + LONGEST_SAMPLE), "{longest:?}");
    assert!(world.calendar.missed() > 35_000);
}

#[test]
fn extra_samples_leave_the_grid_as_it_is_and_stand_for_no_time() {
    // Every sample is followed by an extra one until half an hour is over.
    let extra = std::cell::Cell::new(false);
    let fails = |_, now: Duration| {
        let is_first = !extra.replace(!extra.get());
        is_first && now < 1_800 * SECOND
    };
    let mut world = World::new(WIDE, Duration::from_millis(100), fails);
    world.calendar.add(0, &timing(60 * SECOND, "a"), Duration::ZERO);
    world.run_until(1_800 * SECOND);
    let minutes: Vec<u64> =
        world.begun.iter().map(|(at, _)| (at.as_secs_f64() / 60.0).round() as u64).collect();
    let twice: Vec<u64> = (0..30).flat_map(|minute| [minute, minute]).collect();
    assert_eq!(minutes, twice);
    assert_eq!(world.stood_for[&0], 1_800 * SECOND);
    assert_eq!(world.calendar.missed(), 0);
}

#[test]
fn a_sample_that_takes_long_stands_for_all_of_its_time() {
    let mut world = World::new(WIDE, 30 * SECOND, |_, _| false);
    world.calendar.add(0, &timing(10 * SECOND, "a"), Duration::ZERO);
    world.run_until(36_000 * SECOND);
    let stood_for = world.stood_for[&0].as_secs_f64();
    assert!((35_900.0..=36_000.0).contains(&stood_for), "{stood_for}");
    assert!(world.begun.len() < 1_201, "{}", world.begun.len());
}

#[test]
fn what_is_removed_is_measured_no_more_and_frees_its_place() {
    let limits = Limits { in_flight: 1, per_host: 1 };
    let mut calendar = Calendar::new(limits, 1);
    for number in 0..2 {
        calendar.add(number, &timing(SECOND, "a"), Duration::ZERO);
    }
    let first = calendar.begin(SECOND).unwrap();
    assert_eq!(calendar.begin(SECOND), None);
    assert!(calendar.remove(first.series));
    let second = calendar.begin(SECOND).unwrap();
    assert_ne!(first.series, second.series);
    // Its sample ends although the series is gone.
    assert_eq!(calendar.ended(first.series, SECOND), None);
    assert_eq!((calendar.in_flight(), calendar.len()), (1, 1));
    // The series comes back under the same number, and its outdated due time is ignored.
    assert_eq!(calendar.ended(second.series, SECOND), Some(SECOND));
    calendar.remove(second.series);
    calendar.add(first.series, &timing(10 * SECOND, "a"), 2 * SECOND);
    let mut begun = 0;
    for tenth in 20..120 {
        let now = Duration::from_millis(100 * tenth);
        while let Some(sample) = calendar.begin(now) {
            calendar.ended(sample.series, now);
            begun += 1;
        }
    }
    assert_eq!(begun, 1);
}

proptest! {
    /// In every case: limits hold, no series begins before it is due or is under way twice, and no series is forgotten.
    #[test]
    fn limits_hold_and_nobody_is_forgotten(
        every in prop::collection::vec(1_u64..30, 1..30),
        hosts in 1_usize..6,
        in_flight in 1_usize..8,
        per_host in 1_usize..4,
        lasts in 1_u64..3_000,
        failing in 0_u32..4,
    ) {
        let limits = Limits { in_flight, per_host };
        let fails = move |series: SeriesNumber, _| series % 4 < failing;
        let mut world = World::new(limits, Duration::from_millis(lasts), fails);
        for (number, every) in every.iter().enumerate() {
            let host = format!("h{}", number % hosts);
            world.calendar.add(number as u32, &timing(Duration::from_secs(*every), &host), Duration::ZERO);
        }
        world.run_until(900 * SECOND);
        prop_assert!(world.most_in_flight <= in_flight.min(per_host * hosts));
        let mut last: BTreeMap<SeriesNumber, Duration> = BTreeMap::new();
        for (at, begun) in &world.begun {
            if let Some(before) = last.insert(begun.series, *at) {
                prop_assert!(*at >= before + world.lasts);
            }
        }
        prop_assert_eq!(last.len(), every.len());
        let longest = Duration::from_secs(4 * 30);
        for (series, at) in last {
            prop_assert!(world.now - at < longest + world.lasts * 40, "{} was forgotten", series);
        }
    }
}
