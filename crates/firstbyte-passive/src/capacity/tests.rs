//! Simulated queues with known service demands.

use firstbyte_core::stats::Interval;

use super::estimate::judge;
use super::{Capacity, Standing, Visit};

const FULL_NS: f64 = 2e6;
const RESUMED_NS: f64 = 0.5e6;

/// How handshakes arrive.
#[derive(Clone, Copy)]
enum Arrivals {
    /// At random, with this load relative to what all workers can do.
    Random(f64),
    /// At equal intervals, with this load.
    Even(f64),
    /// From this many clients; each begins its next handshake after an answer.
    Clients(&'static [usize]),
}

/// How long the server works on a handshake.
#[derive(Clone, Copy)]
enum Work {
    Constant,
    Exponential,
}

struct Simulated {
    handshakes: usize,
    arrivals: Arrivals,
    work: Work,
    workers: usize,
    /// Share of resumed handshakes.
    resumed: f64,
}

impl Simulated {
    const USUAL: Self = Self {
        handshakes: 1_000,
        arrivals: Arrivals::Random(0.7),
        work: Work::Exponential,
        workers: 1,
        resumed: 0.5,
    };

    /// The visits that a tap at the server sees.
    fn visits(&self, seed: u64) -> Vec<Visit> {
        let mut random = fastrand::Rng::with_seed(seed);
        let exponential = |random: &mut fastrand::Rng| -(1.0 - random.f64()).ln();
        let mean_ns = self.resumed * RESUMED_NS + (1.0 - self.resumed) * FULL_NS;
        let mut free = vec![0.0_f64; self.workers];
        let steps = match self.arrivals {
            Arrivals::Clients(steps) => steps,
            _ => &[1],
        };
        let mut clients = Vec::new();
        let mut visits = Vec::new();
        for number in 0..self.handshakes {
            if number % (self.handshakes / steps.len()) == 0 {
                let begin = clients.iter().copied().fold(0.0, f64::max);
                clients = vec![
                    begin;
                    steps[(number * steps.len() / self.handshakes).min(steps.len() - 1)]
                ];
            }
            let client = earliest(&clients);
            let from = clients[client];
            let resumed = random.f64() < self.resumed;
            let mean = if resumed { RESUMED_NS } else { FULL_NS };
            let work = match self.work {
                Work::Constant => mean,
                Work::Exponential => mean * exponential(&mut random),
            };
            let worker = earliest(&free);
            let until = free[worker].max(from) + work;
            free[worker] = until;
            let gap = mean_ns / self.workers as f64;
            clients[client] = match self.arrivals {
                Arrivals::Random(load) => from + gap / load * exponential(&mut random),
                Arrivals::Even(load) => from + gap / load,
                // The path to the client and back, whose duration varies.
                Arrivals::Clients(_) => until + 200_000.0 * (0.5 + random.f64()),
            };
            visits.push(Visit { from: from as i64, until: until as i64, resumed, first: true });
        }
        visits
    }

    fn judge(&self, seed: u64) -> Capacity {
        judge(&self.visits(seed), self.handshakes as u64, 0)
    }
}

fn earliest(of: &[f64]) -> usize {
    (0..of.len()).min_by(|a, b| of[*a].total_cmp(&of[*b])).unwrap()
}

/// Number of draws per simulated server.
const DRAWS: u64 = 200;

/// Counts over these draws.
#[derive(Debug, Default)]
struct Held {
    /// A capacity was stated.
    stated: u32,
    /// The interval exists and contains the true value: for full handshakes, for resumed ones, for all as mixed.
    hold: [u32; 3],
    /// The interval exists but does not contain it.
    miss: [u32; 3],
}

fn draws(simulated: &Simulated) -> Held {
    let mixed_ns = simulated.resumed * RESUMED_NS + (1.0 - simulated.resumed) * FULL_NS;
    let truth = [FULL_NS, RESUMED_NS, mixed_ns].map(|ns| ns / 1e9 / simulated.workers as f64);
    let mut held = Held::default();
    for seed in 0..DRAWS {
        let capacity = simulated.judge(seed);
        let [full, resumed] = capacity.demands;
        let demands = [full, resumed, capacity.mixed.map(|(demand, _)| demand)];
        let stated = matches!(capacity.standing, Standing::Queueing { .. });
        held.stated += u32::from(stated);
        for (kind, demand) in demands.iter().enumerate() {
            let Some(demand) = demand else { continue };
            assert!(stated, "{seed}: {capacity:?}");
            let Interval { low, high } = demand.interval;
            // Times are whole nanoseconds.
            let holds = (low - 2e-9..=high + 2e-9).contains(&truth[kind]);
            held.hold[kind] += u32::from(holds);
            held.miss[kind] += u32::from(!holds);
        }
    }
    println!("  {held:?}");
    held
}

/// Nine of ten intervals contain the true value.
fn holds(held: &Held, kinds: &[usize]) {
    for kind in kinds {
        let (hold, miss) = (held.hold[*kind], held.miss[*kind]);
        assert!(hold > 0 && hold >= 9 * miss, "{kind}: {held:?}");
    }
}

#[test]
fn handshakes_at_random_at_one_worker() {
    for (load, work) in [(0.5, Work::Exponential), (0.8, Work::Exponential), (0.7, Work::Constant)]
    {
        let held = draws(&Simulated { arrivals: Arrivals::Random(load), work, ..Simulated::USUAL });
        assert_eq!(u64::from(held.stated), DRAWS, "{load}");
        holds(&held, &[0, 1, 2]);
    }
}

#[test]
fn more_and_more_clients_at_one_worker() {
    let arrivals = Arrivals::Clients(&[1, 2, 4, 8, 16]);
    let held = draws(&Simulated { arrivals, ..Simulated::USUAL });
    assert_eq!(u64::from(held.stated), DRAWS);
    holds(&held, &[0, 1, 2]);
}

/// Little's law applies to any server: if the number present is constant, nothing shows whether handshakes wait.
#[test]
fn as_many_all_the_time_say_nothing() {
    let arrivals = Arrivals::Clients(&[16]);
    let queue = Simulated { arrivals, ..Simulated::USUAL };
    for seed in 0..20 {
        assert_eq!(queue.judge(seed).standing, Standing::Unclear, "{seed}");
    }
}

/// With several workers, the time between departures belongs to both kinds together, not to one of them.
#[test]
fn several_workers_are_stated_as_one_only_where_many_wait() {
    let four = |load, resumed| Simulated {
        workers: 4,
        arrivals: Arrivals::Random(load),
        resumed,
        ..Simulated::USUAL
    };
    assert_eq!(draws(&four(0.3, 0.5)).stated, 0);
    let busy = draws(&four(0.95, 0.5));
    assert!(busy.stated > 150, "{busy:?}");
    holds(&busy, &[2]);
    assert_eq!((busy.hold[0] + busy.miss[0], busy.hold[1] + busy.miss[1]), (0, 0));
    let full = draws(&four(0.95, 0.0));
    assert!(full.stated > 150, "{full:?}");
    holds(&full, &[0]);
}

#[test]
fn a_server_at_which_nothing_waits_has_no_known_capacity() {
    for work in [Work::Constant, Work::Exponential] {
        let arrivals = Arrivals::Random(0.3);
        let held = draws(&Simulated { workers: 64, work, arrivals, ..Simulated::USUAL });
        assert_eq!(held.stated, 0, "{held:?}");
    }
    let capacity =
        Simulated { workers: 64, arrivals: Arrivals::Random(0.3), ..Simulated::USUAL }.judge(1);
    assert!(capacity.most_at_once > 5 && capacity.standing != Standing::OneAtATime, "{capacity:?}");
}

#[test]
fn one_at_a_time_has_a_time_and_no_capacity() {
    let single =
        Simulated { arrivals: Arrivals::Even(0.2), work: Work::Constant, ..Simulated::USUAL }
            .judge(1);
    assert_eq!((single.standing, single.most_at_once), (Standing::OneAtATime, 1));
    assert_eq!((single.demands, single.mixed), ([None; 2], None));
    let [full, resumed] = single.alone.map(|demand| demand.unwrap().seconds);
    assert!((full - 2e-3).abs() < 1e-8 && (resumed - 5e-4).abs() < 1e-8, "{full} {resumed}");
    let one = Simulated { arrivals: Arrivals::Clients(&[1]), ..Simulated::USUAL }.judge(1);
    assert_eq!(one.standing, Standing::OneAtATime);
}

#[test]
fn few_and_doubtful_handshakes_say_nothing() {
    let visits = Simulated { handshakes: 99, ..Simulated::USUAL }.visits(1);
    assert_eq!(judge(&visits, 99, 0).standing, Standing::TooFew);
    let visits = Simulated::USUAL.visits(1);
    assert_eq!(judge(&visits, 1_000, 300).standing, Standing::InDoubt);
    let none = judge(&[], 0, 0);
    assert_eq!((none.standing, none.busy_share, none.most_at_once), (Standing::TooFew, None, 0));
}

/// Handshakes with two visits each: both count.
#[test]
fn a_handshake_may_come_back() {
    let mut visits = Simulated { resumed: 0.0, ..Simulated::USUAL }.visits(7);
    for (place, visit) in visits.iter_mut().enumerate() {
        visit.first = place % 2 == 0;
    }
    let capacity = judge(&visits, 500, 0);
    let demand = capacity.demands[0].unwrap();
    assert!((demand.interval.low..=demand.interval.high).contains(&4e-3), "{demand:?}");
    assert!((demand.rate().0 * demand.seconds - 1.0).abs() < 1e-12);
}
