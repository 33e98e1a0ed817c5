//! Conversion of packets to the common model.

use super::made::conversation13;
use super::{ms, only};
use crate::model::{ENCRYPTED_RECORDS, connection};
use firstbyte_core::sequence::{Arrow, Sequence};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Handshake, Mark};

#[test]
fn the_split_of_the_model_is_what_was_put_in() {
    let observed = only(&conversation13(false, 1_400).packets);
    let connection = connection(&observed);
    assert_eq!(connection.marks.disorder(), None);
    // The SYN was sent at once; its answer took the whole path.
    assert_eq!(connection.marks.at(Mark::ConnectStart).unwrap().as_nanos(), 0);
    assert_eq!(connection.marks.at(Mark::TcpConnected).unwrap().as_nanos(), 10_000_000);
    assert_eq!(connection.facts.tls.as_ref().unwrap().handshake, Some(Handshake::Full));
    let split = Split::attribute(&connection);
    assert_eq!(split.rtt, Some(ms(10)));
    // TCP, TLS 1.3 and the first exchange: one round trip each.
    assert_eq!(split.round_trips, 3);
    assert_eq!(split.parts.network, ms(30));
    assert_eq!(split.parts.server, ms(15 + 25));
    // 12 ms before its Finished, 3 ms before its request, and half a millisecond before its hello.
    assert_eq!(split.parts.client, ms(15) + ms(1) / 2);
    assert_eq!(
        split.parts.sum(),
        split.phases.iter().map(|p| p.phase.end.since(p.phase.start)).sum::<std::time::Duration>()
    );
}

/// Encrypted messages have no name, and the diagram has every byte of the flights.
#[test]
fn what_is_encrypted_is_not_named() {
    let observed = only(&conversation13(false, 1_400).packets);
    let sequence = Sequence::lay_out(&connection(&observed));
    let names: Vec<String> = sequence.arrows.iter().map(|a| a.messages.join(", ")).collect();
    assert!(names.iter().any(|name| name == "ClientHello"), "{names:?}");
    assert!(names.iter().any(|name| name.contains(ENCRYPTED_RECORDS)), "{names:?}");
    assert!(names.iter().all(|name| !name.contains('{')), "{names:?}");
    let drawn: u64 = sequence.arrows.iter().filter_map(Arrow::bytes).sum();
    let first = observed.exchanges.first[0];
    let seen: u64 = observed.flights.iter().map(|flight| flight.bytes).sum();
    assert_eq!(drawn, seen + first.request_bytes + first.response_bytes);
}
