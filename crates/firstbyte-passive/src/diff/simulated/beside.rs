//! Both sides side by side: counts that match the simulated ones, strengths by class, throughput.

use super::*;
use crate::diff::{Beside, Subject, Table, beside};
use crate::observed::EarlyDataSeen;
use firstbyte_core::timeline::SessionMechanism;

fn besides(sides: [Vec<Observed>; 2]) -> Beside {
    let [before, after] = sides.map(|all| {
        let mut side = Side::default();
        all.iter().for_each(|observed| side.add(observed));
        side
    });
    let pairs = [Pair { name: "a".into(), against: None, before, after }];
    beside(&pairs).remove(0)
}

fn made(seed: u64, n: usize, truth: &Truth) -> Vec<Observed> {
    let mut traffic = Simulation::new(seed);
    (0..n).map(|_| traffic.one(truth)).collect()
}

fn table(beside: &Beside, subject: Subject) -> &Table {
    beside.tables.iter().find(|table| table.subject == subject).unwrap()
}

fn counts(beside: &Beside, subject: Subject) -> Vec<(&str, [usize; 2], bool)> {
    let values = table(beside, subject).values.iter();
    values.map(|value| (value.name.as_str(), value.counts, value.weak)).collect()
}

#[test]
fn failures_are_shares_of_all_connections_by_type() {
    let worse = Truth { refused: 0.2, ..STEADY };
    let sides = [made(1, 500, &STEADY), made(2, 500, &worse)];
    let refused = sides
        .each_ref()
        .map(|side| side.iter().filter(|observed| observed.ending == Ending::Refused).count());
    let found = besides(sides);
    assert_eq!(counts(&found, Subject::Failures), [("tcp.refused", refused, false)]);
    let failures = table(&found, Subject::Failures);
    assert_eq!(failures.of, [500, 500]);
    let value = &failures.values[0];
    let difference = value.difference.unwrap();
    assert!(difference.low > 0.1 && difference.high < 0.26, "{value:?}");
    for (interval, count) in value.intervals.iter().zip(refused) {
        let (interval, share) = (interval.unwrap(), count as f64 / 500.0);
        assert!(interval.low < share && share < interval.high, "{value:?}");
    }
}

#[test]
fn every_handshake_is_of_one_kind() {
    let plain = Truth { refused: 0.0, hello_retry: 0.0, ..STEADY };
    let mut after = made(3, 300, &plain);
    let mut expected = [0; 4];
    for (place, observed) in after.iter_mut().enumerate() {
        let tls = observed.tls.as_mut().unwrap();
        let resumed = tls.handshake == Some(Handshake::Resumed);
        match (resumed, place % 3) {
            (true, 0) => tls.resumption.accepted = Some(SessionMechanism::Ticket),
            (true, 1) => tls.resumption.accepted = Some(SessionMechanism::Psk),
            (true, _) => {
                let (bytes, accepted) = (300, Some(true));
                let early = EarlyDataSeen { bytes, accepted, ..EarlyDataSeen::default() };
                tls.early_data = Some(early);
            }
            (false, _) => tls.resumption.declined = true,
        }
        expected[if resumed { place % 3 } else { 3 }] += 1;
    }
    let found = besides([made(3, 300, &plain), after]);
    let sessions = counts(&found, Subject::Sessions);
    let sum: usize = sessions.iter().map(|(_, [_, after], _)| after).sum();
    assert_eq!(sum, 300);
    let after = ["resumed by ticket", "resumed by PSK", "0-RTT, taken", "full, session declined"];
    for (name, count) in after.into_iter().zip(expected) {
        let row = sessions.iter().find(|row| row.0 == name).unwrap();
        assert_eq!(row.1[1], count, "{name}");
        assert_eq!(row.1[0], 0, "{name}");
    }
}

#[test]
fn what_is_weak_is_named_and_the_rest_is_in_classes() {
    let quiet = Truth { refused: 0.0, resumption: 0.0, ..STEADY };
    let old = Truth { key: CertificateKey::Rsa(1_024), cipher_suite: 0x000a, ..quiet };
    let mut before = made(4, 100, &old);
    for observed in &mut before {
        // With RSA key exchange, the certificate's key is the key exchange.
        observed.tls.as_mut().unwrap().group = None;
    }
    let found = besides([before, made(5, 120, &quiet)]);
    let key = [
        ("80 bits: RSA 1024, without forward secrecy", [100, 0], true),
        ("128 bits", [0, 120], false),
    ];
    assert_eq!(counts(&found, Subject::KeyExchange), key);
    let key = [("80 bits: RSA 1024", [100, 0], true), ("112 bits", [0, 120], false)];
    assert_eq!(counts(&found, Subject::CertificateKey), key);
    let cipher = [
        ("112 bits: TLS_RSA_WITH_3DES_EDE_CBC_SHA", [100, 0], true),
        ("128 bits", [0, 120], false),
    ];
    assert_eq!(counts(&found, Subject::Cipher), cipher);
}

#[test]
fn throughput_is_bytes_of_responses_in_the_time_of_exchanges() {
    let steady = Truth { refused: 0.0, ..STEADY };
    let sides = [made(6, 200, &steady), made(7, 200, &Truth { exchange_ms: 15.0, ..steady })];
    let expected = sides.each_ref().map(|side| {
        let rate = |observed: &Observed| {
            let exchange = &observed.exchanges.first[0];
            2_000.0 / exchange.response_end.unwrap().since(exchange.request_start).as_secs_f64()
        };
        median(&side.iter().map(rate).collect::<Vec<f64>>()).unwrap()
    });
    let found = besides(sides);
    for (side, expected) in found.throughput.iter().zip(expected) {
        let side = side.unwrap();
        assert_eq!(side.connections, 200);
        assert!((side.percentiles[1] / expected - 1.0).abs() < 1e-9, "{side:?}");
        assert!(side.percentiles.is_sorted() && side.together > 0.0, "{side:?}");
    }
    assert!(found.throughput_difference.unwrap().high < 0.0);
}
