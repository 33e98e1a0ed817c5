//! Unpacking gives back what was packed.

use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;

use super::{Packed, PackedList};
use crate::flights::Flight;
use crate::observed::{
    AlertSeen, CertificateKey, CertificatesSeen, EarlyDataSeen, Exchange, Resumption, TlsSeen,
};
use crate::{SessionId, Time};
use firstbyte_core::timeline::{Handshake, SessionMechanism};

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time::from_unix_ns)
}

fn text() -> impl Strategy<Value = Option<Box<str>>> {
    of("[ -~]{0,40}".prop_map(Into::into))
}

fn mechanism() -> impl Strategy<Value = Option<SessionMechanism>> {
    use SessionMechanism::{Psk, SessionId, Ticket};
    of(prop_oneof![Just(SessionId), Just(Ticket), Just(Psk)])
}

fn key() -> impl Strategy<Value = CertificateKey> {
    use CertificateKey::{Ed25519, MlDsa, Other, P256, P384, P521, Rsa};
    let simple = prop_oneof![Just(P256), Just(P384), Just(P521), Just(Ed25519), Just(Other)];
    prop_oneof![any::<u32>().prop_map(Rsa), any::<u8>().prop_map(MlDsa), simple]
}

prop_compose! {
    fn hellos()(
        (client_hello, server_hello, ech_offered, complete) in any::<(bool, bool, bool, bool)>(),
        (version_offered, version, cipher_suite, group) in
            any::<(Option<u16>, Option<u16>, Option<u16>, Option<u16>)>(),
        (sni, alpn_offered, alpn) in (text(), text(), text()),
        (client_hello_bytes, client_key_exchange_bytes, server_key_exchange_bytes) in
            any::<(Option<u32>, Option<u32>, Option<u32>)>(),
        server_flight_bytes in any::<Option<u64>>(),
    ) -> TlsSeen {
        TlsSeen {
            client_hello, server_hello, ech_offered, complete, version_offered, version,
            cipher_suite, group, sni, alpn_offered, alpn, client_hello_bytes,
            client_key_exchange_bytes, server_key_exchange_bytes, server_flight_bytes,
            ..TlsSeen::default()
        }
    }
}

prop_compose! {
    fn seen()(
        hellos in hellos(),
        certificates in of((any::<(u32, u64)>(), of(key()))),
        handshake in of(prop_oneof![
            Just(Handshake::Full),
            Just(Handshake::FullWithHelloRetryRequest),
            Just(Handshake::Resumed),
        ]),
        (offered, accepted) in (mechanism(), mechanism()),
        (offered_size, declined, hello_retry_request, client_certificate_requested, cut) in
            any::<(Option<u32>, bool, bool, bool, bool)>(),
        id_sent in any::<Option<(u64, u32)>>(),
        early in any::<Option<(bool, u64, Option<bool>, bool)>>(),
        (tickets, tickets_inferred) in any::<(Option<u32>, Option<u32>)>(),
        alert in of((any::<(bool, Option<u8>, bool)>(), time())),
    ) -> TlsSeen {
        TlsSeen {
            certificates: certificates
                .map(|((count, chain_bytes), key)| CertificatesSeen { count, chain_bytes, key }),
            handshake,
            resumption: Resumption {
                offered, offered_size, accepted, declined,
                id_sent: id_sent.map(|(id, length)| (SessionId(id), length)),
                cut,
            },
            early_data: early.map(|(offered, bytes, accepted, inferred)| EarlyDataSeen {
                offered, bytes, accepted, inferred,
            }),
            alert: alert.map(|((by_client, description, warning), at)| AlertSeen {
                by_client, description, warning, at,
            }),
            hello_retry_request, client_certificate_requested, tickets, tickets_inferred,
            ..hellos
        }
    }
}

prop_compose! {
    fn exchange()(
        (request_start, request_end) in (time(), time()),
        (response_first_packet, first_record_ns, response_end) in (of(time()), any::<u32>(), of(time())),
        (request_bytes, response_bytes) in any::<(u64, u64)>(),
    ) -> Exchange {
        Exchange {
            request_start,
            request_end,
            response_first_packet,
            first_record_ns,
            response_end,
            request_bytes,
            response_bytes,
        }
    }
}

prop_compose! {
    fn flight()(
        side in 0u8..2,
        (start, end, acknowledged) in (time(), time(), of(time())),
        bytes in any::<u32>(),
        codes in proptest::collection::vec(any::<u8>(), 0..=10),
    ) -> Flight {
        let mut flight = Flight::new(side.into(), start);
        (flight.bytes, flight.end, flight.acknowledged) = (bytes, end, acknowledged);
        codes.into_iter().for_each(|code| flight.name(code));
        flight
    }
}

proptest! {
    #[test]
    fn handshakes_are_the_same_afterwards(
        seen in seen(),
        flights in proptest::collection::vec(flight(), 0..12),
    ) {
        let packed = Packed::from_value(&(seen.clone(), flights.clone()));
        prop_assert_eq!(packed.value(), (seen, flights));
    }

    #[test]
    fn exchanges_are_the_same_afterwards(
        exchanges in proptest::collection::vec(exchange(), 0..12),
    ) {
        let mut packed = PackedList::default();
        exchanges.iter().for_each(|exchange| packed.push(exchange));
        prop_assert_eq!(packed.values().collect::<Vec<_>>(), exchanges);
    }

    #[test]
    fn durations_are_the_same_afterwards(seconds in any::<u64>(), ns in 0u32..1_000_000_000) {
        let duration = Some(Duration::new(seconds, ns));
        prop_assert_eq!(Packed::from_value(&duration).value(), duration);
    }
}

#[test]
fn what_is_changed_is_the_rest_and_the_change() {
    let mut packed = Packed::from_value(&(Some(7u32), Time::from_unix_ns(i64::MAX)));
    packed.change(|value| value.0 = None);
    assert_eq!(packed.value(), (None, Time::from_unix_ns(i64::MAX)));
}

#[test]
fn of_nothing_there_is_the_empty_value() {
    assert_eq!(Packed::<TlsSeen>::default().value(), TlsSeen::default());
    assert_eq!(PackedList::<Exchange>::default().values().count(), 0);
}

/// The memory that connections are expected to take; `cargo test -p firstbyte --test wire_memory` measures all of it.
#[test]
fn an_exchange_takes_about_twenty_bytes() {
    let ms = |ms: i64| Time::from_unix_ns(1_763_700_000_123_456_789 + ms * 1_000_003);
    let mut packed = PackedList::default();
    for second in 0..8 {
        packed.push(&Exchange {
            request_start: ms(1000 * second),
            request_end: ms(1000 * second),
            response_first_packet: Some(ms(1000 * second + 40)),
            first_record_ns: 0,
            response_end: Some(ms(1000 * second + 41)),
            request_bytes: 700,
            response_bytes: 60_000,
        });
    }
    assert!(packed.0.len() < 8 * 22, "{packed:?}");
}
