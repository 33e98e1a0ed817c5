//! Changing mixes of clients: one finding per cause, and costs that add up.

use super::super::changes_projected;
use super::*;

const MLKEM: u16 = 0x11ec;
const AES_128: u16 = 0x1301;

/// Round trips that everything is projected to as well.
const FAR: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

/// Kinds of clients, each with its share of the connections.
type Mix<'a> = &'a [(f64, Truth)];

/// Connections of a mix. Clients return again and again; a share `new` of the connections are their client's first,
/// with full handshakes.
fn mixed(traffic: &mut Simulation, n: usize, mix: Mix<'_>, new: f64) -> Side {
    let mut side = Side::default();
    for _ in 0..n {
        let mut left = traffic.random.f64();
        let kind = mix.iter().position(|(share, _)| {
            left -= share;
            left < 0.0
        });
        let kind = kind.unwrap_or(mix.len() - 1);
        let truth = mix[kind].1;
        let first = traffic.random.f64() < new;
        let resumption = if first { 0.0 } else { truth.resumption };
        let mut observed = traffic.one(&Truth { resumption, ..truth });
        let [.., high, low] = observed.number.to_be_bytes();
        let address = if first { [10, 1, high, low] } else { [10, 0, 0, kind as u8] };
        observed.client = Endpoint::new(address.into(), 40_000);
        side.add(&observed);
    }
    side
}

fn found(seed: u64, n: usize, mixes: [(Mix<'_>, f64); 2]) -> Changes {
    let mut traffic = Simulation::new(seed);
    let [before, after] = mixes.map(|(mix, new)| mixed(&mut traffic, n, mix, new));
    let pairs = [Pair { name: "10.0.0.5:443".into(), against: None, before, after }];
    changes_projected(&pairs, &FAR)
}

/// The findings with their figures, for the message of a failing test.
fn told(found: &Changes) -> String {
    let line = |change: &Change| {
        format!(
            "{:?}: {:?} -> {:?} ({:?})\n",
            change.what, change.before, change.after, change.within
        )
    };
    found.changes.iter().map(line).collect()
}

fn names(found: &Changes) -> Vec<&'static str> {
    found.changes.iter().map(|change| change.what.name()).collect()
}

/// Browsers that resume over TLS 1.3; older ones that resume; tools that never do, with another group and cipher suite,
/// and closer to the server.
fn clients(resumption: f64) -> [(f64, Truth); 4] {
    let quiet = Truth { hello_retry: 0.0, refused: 0.0, ..STEADY };
    let tls13 = Truth { version: TLS13, cipher_suite: AES_128, ..quiet };
    [
        (0.5, Truth { resumption, group: MLKEM, rtt_ms: 9.0, ..tls13 }),
        (0.3, Truth { resumption, rtt_ms: 9.0, ..quiet }),
        (0.1, Truth { resumption: 0.0, group: P256, rtt_ms: 1.0, exchange_ms: 9.0, ..tls13 }),
        (0.1, Truth { resumption: 0.0, group: P256, rtt_ms: 1.0, cipher_suite: 0xc030, ..quiet }),
    ]
}

/// Asserts that the parts add up to the total change.
fn adds_up(found: &Changes) {
    let [total] = found.totals.as_slice() else { panic!("{}", told(found)) };
    let costs = found.changes.iter().filter_map(|change| change.cost);
    let named: f64 = costs.map(|cost| cost.per_connection).sum();
    assert!((named - total.captured.named).abs() < 1e-12, "{}", told(found));
    let sums = total.projected.iter().map(|sum| sum.unwrap()).chain([total.captured]);
    for sum in sums {
        let parts = sum.named + sum.clients + sum.exchanges + sum.rest;
        assert!((parts - sum.difference()).abs() < 1e-12, "{total:?}");
    }
    // Projected sums add up in the same way as captured ones.
    for (place, sum) in total.projected.iter().enumerate() {
        let costs = found.changes.iter().filter_map(|change| *change.projected.get(place)?);
        let named: f64 = costs.map(|cost| cost.per_connection).sum();
        assert!((named - sum.unwrap().named).abs() < 1e-12, "{}", told(found));
    }
}

#[test]
fn resumption_that_is_lost_is_one_finding_whoever_had_it() {
    for seed in 0..8 {
        let (before, after) = (clients(0.95), clients(0.0));
        let found = found(seed, 1_500, [(&before, 0.05), (&after, 0.05)]);
        assert_eq!(names(&found), ["resumption"], "{}", told(&found));
        adds_up(&found);
        // Of those who resume, 95 % had connected before: a round trip of 9 ms, and 2.7 ms of server time.
        let expected = 0.8 * 0.95 * 0.95 * 11.7e-3;
        let cost = found.changes[0].cost.unwrap().per_connection;
        assert!((cost / expected - 1.0).abs() < 0.1, "{cost}, not {expected}");
    }
}

#[test]
fn resumption_that_is_won_is_one_finding() {
    for seed in 0..8 {
        let (before, after) = (clients(0.0), clients(0.95));
        let found = found(seed, 1_500, [(&before, 0.05), (&after, 0.05)]);
        assert_eq!(names(&found), ["resumption"], "{}", told(&found));
        adds_up(&found);
    }
}

#[test]
fn another_mix_of_clients_is_that_and_no_slower_path_or_server() {
    for seed in 0..8 {
        let (mut before, mut after) = (clients(0.95), clients(0.95));
        // Each version has the same share of tools.
        for (mix, tls13) in [(&mut before, 0.7), (&mut after, 0.3)] {
            let shares = [0.8 * tls13, 0.8 * (1.0 - tls13), 0.2 * tls13, 0.2 * (1.0 - tls13)];
            mix.iter_mut().zip(shares).for_each(|((share, _), new)| *share = new);
        }
        let found = found(seed, 1_500, [(&before, 0.05), (&after, 0.05)]);
        assert_eq!(names(&found), ["version"], "{}", told(&found));
        adds_up(&found);
    }
    // More clients that connect for the first time: more full handshakes, but no change.
    for seed in 0..8 {
        let mix = clients(0.95);
        let found = found(seed, 1_500, [(&mix, 0.6), (&mix, 0.1)]);
        assert_eq!(names(&found), Vec::<&str>::new(), "{}", told(&found));
    }
}

#[test]
fn a_new_key_is_named_with_the_old_one_and_what_it_costs_the_server() {
    let before = Truth { key: CertificateKey::P256, refused: 0.0, ..STEADY };
    let after = Truth { key: CertificateKey::Rsa(3072), full_ms: 6.2, ..before };
    for (seed, resumption) in [(1, 0.8), (2, 0.3), (3, 0.0)] {
        let [before, after] = [before, after].map(|truth| Truth { resumption, ..truth });
        let found = compared(seed, 1_500, &before, &after);
        let change = only(&found);
        let replaced = change.replaced.as_ref().unwrap();
        let both = [change.what, replaced.0];
        let keys = [CertificateKey::P256, CertificateKey::Rsa(3072)].map(What::CertificateKey);
        assert!(keys.iter().all(|key| both.contains(key)), "{}", told(&found));
        let server = change.server_time.unwrap();
        assert!((server / 3.2e-3 - 1.0).abs() < 0.1, "{server}");
        let cost = change.cost.unwrap().per_connection;
        assert!((cost / ((1.0 - resumption) * 3.2e-3) - 1.0).abs() < 0.12, "{cost}");
        adds_up(&found);
    }
}

#[test]
fn causes_that_come_together_are_named_each_and_add_up() {
    let before = Truth { key: CertificateKey::P256, refused: 0.0, hello_retry: 0.0, ..STEADY };
    let after = Truth {
        key: CertificateKey::Rsa(3072),
        full_ms: 6.2,
        resumption: 0.0,
        exchange_ms: 2.5,
        rtt_ms: 4.0,
        ..before
    };
    let found = compared(5, 2_000, &before, &after);
    let mut names = names(&found);
    names.sort_unstable();
    let expected = [
        "certificate-key",
        "client-round-trip",
        "resumption",
        "server-round-trip",
        "server-time-exchange",
    ];
    assert_eq!(names, expected, "{}", told(&found));
    adds_up(&found);
    let total = &found.totals[0];
    // Full handshakes: two round trips and 0.1 ms client time; resumed ones: one round trip; and ten exchanges.
    let full = |truth: &Truth| 3.0 * truth.rtt_ms + truth.full_ms;
    let short = |truth: &Truth| 2.0 * truth.rtt_ms + 0.3;
    let takes = |truth: &Truth| {
        let handshake = truth.resumption * short(truth) + (1.0 - truth.resumption) * full(truth);
        (handshake + 0.1 + 10.0 * (truth.rtt_ms + truth.exchange_ms)) / 1e3
    };
    let expected = takes(&after) - takes(&before);
    assert!(
        (total.captured.difference() / expected - 1.02).abs() < 0.03,
        "{total:?}, not {expected}"
    );
    assert!(total.captured.rest.abs() < 0.02 * expected, "{total:?}");
}

#[test]
fn steady_mixes_give_no_change() {
    let wrong = |n: usize, new: [f64; 2]| {
        let mix = clients(0.95);
        let wrong = |seed: &u64| {
            let found = found(700 + seed, n, new.map(|new| (&mix[..], new)));
            !found.changes.is_empty()
        };
        (0..100).filter(wrong).count()
    };
    for (n, new) in [(60, [0.1, 0.1]), (150, [0.5, 0.1]), (600, [0.5, 0.1])] {
        let wrong = wrong(n, new);
        assert!(wrong <= 5, "{n} connections: {wrong} of 100");
    }
}
