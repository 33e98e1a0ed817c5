//! Simulated traffic with known changes: real changes are reported with their cost, and nothing else is.

use std::time::Duration;

use super::super::layers::Endpoint;
use super::super::observed::{
    Carrier, CertificateKey, CertificatesSeen, Ending, Exchange, Exchanges, HandshakeTime,
    Observed, Resumption, Roles, RoundTrips, TlsSeen, Traffic,
};
use super::super::{Doubts, Time};
use super::{Change, Changes, Pair, Servers, Side, Spread, What, changes, changes_projected};
use firstbyte_core::stats::median;
use firstbyte_core::timeline::Handshake;

mod beside;
mod mixes;
mod projected;

const TLS12: u16 = 0x0303;
const TLS13: u16 = 0x0304;
const X25519: u16 = 29;
const P256: u16 = 23;

/// The properties of a server and its network.
#[derive(Clone, Copy)]
struct Truth {
    resumption: f64,
    version: u16,
    key: CertificateKey,
    group: u16,
    cipher_suite: u16,
    hello_retry: f64,
    rtt_ms: f64,
    full_ms: f64,
    exchange_ms: f64,
    refused: f64,
    /// Share of a connection's noise that is carried over from the one before.
    sticky: f64,
}

const STEADY: Truth = Truth {
    resumption: 0.8,
    version: TLS12,
    key: CertificateKey::Rsa(2048),
    group: X25519,
    cipher_suite: 0xc02f,
    hello_retry: 0.05,
    rtt_ms: 0.8,
    full_ms: 3.0,
    exchange_ms: 1.5,
    refused: 0.02,
    sticky: 0.0,
};

struct Simulation {
    random: fastrand::Rng,
    state: f64,
    number: u64,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), state: 0.0, number: 0 }
    }

    /// Roughly normal noise with variance one, part of which is carried over.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }

    /// A log-normal time around `median`, in milliseconds, with part of the noise taken from the state.
    fn around(&mut self, median: f64, sticky: f64) -> Duration {
        let noise = sticky.sqrt() * self.state + (1.0 - sticky).sqrt() * self.noise();
        Duration::from_secs_f64(median * (0.25 * noise).exp() / 1e3)
    }

    fn one(&mut self, truth: &Truth) -> Observed {
        let sticky = truth.sticky;
        let innovation = self.noise();
        self.state = 0.8 * self.state + 0.6 * innovation;
        self.number += 1;
        let started = Time::from_unix_ns(self.number as i64 * 20_000_000);
        let server_rtt = self.around(truth.rtt_ms * 0.9, sticky);
        let client_rtt = self.around(truth.rtt_ms * 0.1, sticky);
        let short = self.random.f64() < truth.resumption;
        let refused = self.random.f64() < truth.refused;
        let retry = self.random.f64() < truth.hello_retry;
        let server = self.around(if short { 0.3 } else { truth.full_ms }, sticky);
        let round_trips = if short { 1 } else { 2 };
        let wait = server_rtt + self.around(truth.exchange_ms, sticky);
        let after = |time: Duration| Time::from_unix_ns(started.unix_ns() + time.as_nanos() as i64);
        let exchange = Exchange {
            request_start: after(Duration::from_millis(30)),
            request_end: after(Duration::from_millis(30)),
            response_first_packet: Some(after(Duration::from_millis(30) + wait)),
            first_record_ns: 0,
            response_end: Some(after(Duration::from_millis(30) + wait)),
            request_bytes: 200,
            response_bytes: 2_000,
        };
        let tls = TlsSeen {
            client_hello: true,
            server_hello: true,
            version: Some(truth.version),
            // In TLS 1.3 resumption includes a key exchange, and certificates are encrypted.
            group: (!short || truth.version == TLS13).then_some(truth.group),
            cipher_suite: Some(truth.cipher_suite),
            certificates: (!short && truth.version != TLS13).then_some(CertificatesSeen {
                count: 1,
                chain_bytes: 900,
                key: Some(truth.key),
            }),
            handshake: Some(if short { Handshake::Resumed } else { Handshake::Full }),
            resumption: Resumption::default(),
            hello_retry_request: retry,
            complete: true,
            ..TlsSeen::default()
        };
        Observed {
            number: self.number,
            carrier: Carrier::Tcp,
            client: Endpoint::new([10, 0, 0, 1].into(), 40_000),
            server: Endpoint::new([10, 0, 0, 5].into(), 443),
            roles: Roles::Opening,
            started,
            last: after(Duration::from_millis(60)),
            opening: [None; 3],
            closing: None,
            ending: if refused { Ending::Refused } else { Ending::Closed },
            sent: Traffic::default(),
            received: Traffic::default(),
            round_trips: RoundTrips {
                server_syn: Some(server_rtt),
                client_syn: Some(client_rtt),
                server_min: Some(server_rtt),
                client_min: Some(client_rtt),
            },
            tls: (!refused).then(|| Box::new(tls)),
            quic: None,
            held_back: None,
            handshake_time: (!refused).then(|| HandshakeTime {
                network: (server_rtt + client_rtt) * round_trips,
                server,
                client: Duration::from_micros(100),
                round_trips,
                confident: true,
            }),
            flights: Vec::new(),
            exchanges: Exchanges {
                count: Some(10),
                answered: if refused { 0 } else { 10 },
                time: Some(wait * 10),
                first: if refused { Vec::new() } else { vec![exchange] },
                approximate: false,
            },
            longest_idle: None,
            doubts: Doubts::NONE,
        }
    }

    fn side(&mut self, connections: usize, truth: &Truth) -> Side {
        let mut side = Side::default();
        for _ in 0..connections {
            side.add(&self.one(truth));
        }
        side
    }
}

fn compared(seed: u64, n: usize, before: &Truth, after: &Truth) -> Changes {
    let mut traffic = Simulation::new(seed);
    let (before, after) = (traffic.side(n, before), traffic.side(n, after));
    changes(&[Pair { name: "10.0.0.5:443".into(), against: None, before, after }])
}

fn only(found: &Changes) -> &Change {
    assert_eq!(found.changes.len(), 1, "{found:#?}");
    &found.changes[0]
}

#[test]
fn lost_resumption_is_named_with_its_ratio_and_cost() {
    let found = compared(1, 600, &STEADY, &Truth { resumption: 0.0, ..STEADY });
    let change = only(&found);
    assert_eq!(change.what, What::Resumption);
    assert!((change.difference.value + 0.8).abs() < 0.05, "{change:?}");
    // Full: 2 round trips of 0.8 ms and 3 ms; resumed: 1 round trip and 0.3 ms.
    let ratio = change.handshakes.unwrap().ratio().unwrap();
    assert!((ratio - 4.7 / 1.2).abs() < 0.4, "{ratio}");
    let cost = change.cost.unwrap();
    let expected = 0.8 * (4.7e-3 - 1.2e-3);
    assert!((cost.per_connection / expected - 1.0).abs() < 0.1, "{cost:?}, not {expected}");
    let interval = cost.interval.unwrap();
    assert!(interval.low <= cost.per_connection && cost.per_connection <= interval.high);
    // Of fifty connections per second, one is refused.
    assert!((cost.per_second.unwrap() / cost.per_connection - 49.0).abs() < 1.0, "{cost:?}");
}

#[test]
fn every_kind_of_change_is_named_alone() {
    let cases: [(&str, Truth); 9] = [
        ("version", Truth { version: TLS13, ..STEADY }),
        ("certificate-key", Truth { key: CertificateKey::P256, ..STEADY }),
        ("group", Truth { group: P256, ..STEADY }),
        ("cipher-suite", Truth { cipher_suite: 0xc030, ..STEADY }),
        ("hello-retry-request", Truth { hello_retry: 0.5, ..STEADY }),
        ("server-time-full", Truth { full_ms: 6.0, ..STEADY }),
        ("server-time-exchange", Truth { exchange_ms: 3.0, ..STEADY }),
        ("refused", Truth { refused: 0.2, ..STEADY }),
        ("resumption", Truth { resumption: 0.4, ..STEADY }),
    ];
    for (seed, (name, after)) in cases.into_iter().enumerate() {
        let found = compared(seed as u64, 800, &STEADY, &after);
        assert_eq!(only(&found).what.name(), name);
    }
    // The round trip grows on both sides of the tap; a retry costs the new round trip.
    let found = compared(9, 800, &STEADY, &Truth { rtt_ms: 4.0, ..STEADY });
    let names: Vec<_> = found.changes.iter().map(|change| change.what.name()).collect();
    assert_eq!(names, ["server-round-trip", "client-round-trip"]);
    // The opening, 1.2 round trips of the handshake, ten exchanges.
    let each = found.changes[0].cost.unwrap().per_connection / found.changes[0].difference.value;
    // The mean of log-normal noise is 3 % above its median.
    assert!((each / 12.2 - 1.03).abs() < 0.03, "{each}");
}

#[test]
fn largest_cost_comes_first_and_failures_before_it() {
    let worse = Truth { resumption: 0.0, exchange_ms: 9.0, refused: 0.1, ..STEADY };
    let found = compared(4, 800, &STEADY, &worse);
    let names: Vec<_> = found.changes.iter().map(|change| change.what.name()).collect();
    assert_eq!(names, ["refused", "server-time-exchange", "resumption"]);
}

#[test]
fn figures_are_those_of_what_they_are_taken_from() {
    let mut traffic = Simulation::new(11);
    let worse = Truth { resumption: 0.0, exchange_ms: 9.0, rtt_ms: 4.0, refused: 0.1, ..STEADY };
    let (before, after) = (traffic.side(400, &STEADY), traffic.side(500, &worse));
    let pairs = [Pair { name: "10.0.0.5:443".into(), against: None, before, after }];
    let found = changes(&pairs);
    assert!(found.changes.len() >= 4, "{found:#?}");
    for change in &found.changes {
        let figures = [change.before, change.after];
        match change.spread(&pairs) {
            Spread::Times(times) => {
                for (times, figure) in times.iter().zip(figures) {
                    assert_eq!(times.len(), figure.of);
                    // The median over two strata lies between their medians.
                    let ratio = median(times).unwrap() / figure.value;
                    assert!((ratio - 1.0).abs() < 0.03, "{change:?}: {ratio}");
                }
            }
            Spread::Shares(values) => {
                let (_, shares) = values.into_iter().find(|(it, _)| *it == change.what).unwrap();
                assert_eq!(shares, figures);
            }
        }
    }
}

#[test]
fn what_is_small_or_rare_is_not_named() {
    // Certain, but below the threshold.
    let found =
        compared(5, 20_000, &STEADY, &Truth { resumption: 0.77, exchange_ms: 1.55, ..STEADY });
    assert_eq!(found.changes, []);
    // Large, but based on only ten connections.
    let found = compared(6, 10, &STEADY, &Truth { resumption: 0.0, ..STEADY });
    assert_eq!((found.changes.len(), found.tested), (0, 0));
    assert!(found.too_few > 0);
}

/// Share of unchanged pairs in which a change is reported.
fn cries_of_wolf(n: usize, sticky: f64, runs: u64) -> f64 {
    let truth = Truth { sticky, ..STEADY };
    let wrong = (0..runs)
        .filter(|seed| !compared(1_000 + seed, n, &truth, &truth).changes.is_empty())
        .count();
    wrong as f64 / runs as f64
}

#[test]
fn two_halves_of_steady_traffic_give_no_change() {
    for (n, sticky) in [(40, 0.0), (150, 0.0), (150, 0.5), (600, 0.5)] {
        let wrong = cries_of_wolf(n, sticky, 200);
        assert!(wrong <= 0.05, "{n} connections, {sticky}: {wrong}");
    }
}

/// Clients' first handshakes are full, and at the start of a capture most are first ones.
#[test]
fn a_capture_that_begins_cold_gives_no_change() {
    let wrong = (0..200)
        .filter(|seed| {
            let mut simulation = Simulation::new(*seed);
            let mut met = std::collections::HashSet::new();
            let [before, after] = [(); 2].map(|()| {
                let mut side = Side::default();
                for _ in 0..120 {
                    let client = simulation.random.u8(1..40);
                    let resumption = if met.insert(client) { 0.0 } else { 0.9 };
                    let mut observed = simulation.one(&Truth { resumption, ..STEADY });
                    observed.client = Endpoint::new([10, 1, 0, client].into(), 40_000);
                    side.add(&observed);
                }
                side
            });
            let pair = Pair { name: "a".into(), against: None, before, after };
            !changes(&[pair]).changes.is_empty()
        })
        .count();
    assert!(wrong <= 10, "{wrong} of 200");
}

#[test]
#[ignore = "prints the table of docs/statistics.md; run with --release"]
fn false_positives_table() {
    for n in [25, 50, 100, 200, 500, 1_000, 5_000] {
        let figures: Vec<String> = [0.0, 0.5, 0.9]
            .into_iter()
            .map(|sticky| format!("{:.1}", 100.0 * cries_of_wolf(n, sticky, 1_000)))
            .collect();
        println!("| {n} | {} |", figures.join(" | "));
    }
}

#[test]
fn servers_are_held_against_the_others() {
    let mut traffic = Simulation::new(7);
    let mut servers = Servers::default();
    for index in 0..300_u16 {
        let node = (index % 3) as u8 + 1;
        let truth = Truth { resumption: if node == 2 { 0.0 } else { 0.9 }, ..STEADY };
        let mut observed = traffic.one(&truth);
        observed.server = Endpoint::new([10, 0, 0, node].into(), 443);
        if let Some(tls) = &mut observed.tls {
            tls.sni = Some(format!("node{node}.test").into());
        }
        servers.add(&observed);
    }
    let (pairs, all) = servers.each_against_others();
    assert_eq!(pairs.len(), all);
    let found = changes(&pairs);
    let worst = &found.changes[0];
    assert_eq!(pairs[worst.pair].name, "node2.test (10.0.0.2:443)");
    assert_eq!(worst.what, What::Resumption);
    assert!(worst.cost.unwrap().per_connection > 0.0);
    assert_eq!(servers.group(&["node1*", "10.0.0.3"]).connections(), 200);

    let (pairs, [before, after]) = Servers::pairs(&servers, &Servers::default());
    assert_eq!((pairs.len(), before.len(), after.len()), (0, 3, 0));
}
