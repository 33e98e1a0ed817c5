//! Facts about connections: roles, versions, sessions, time, addresses.

use super::made::{
    CLIENT_HELLO, HANDSHAKE, Initial, MS, Made, PORT, SERVER_HELLO, Talk, V1, V2, ZERO_RTT, crypto,
    hex, read, sealed, short,
};
use crate::{Doubts, Ending, Limits, Observed, QuicSeen, Roles, TlsSeen};
use firstbyte_core::timeline::Handshake;

const FIRST: [u8; 8] = [1; 8];
const CLIENT: [u8; 5] = [2; 5];
const SERVER: [u8; 6] = [3; 6];

pub(super) fn client_initial() -> Initial {
    Initial {
        version: V1,
        keys: FIRST.into(),
        by_client: true,
        destination: FIRST.into(),
        source: CLIENT.into(),
        token: Vec::new(),
        number: 0,
        frames: hex(CLIENT_HELLO),
    }
}

pub(super) fn server_initial() -> Initial {
    Initial {
        by_client: false,
        destination: CLIENT.into(),
        source: SERVER.into(),
        frames: hex(SERVER_HELLO),
        ..client_initial()
    }
}

/// The client's acknowledgment of the server's packet 0.
fn acknowledgment() -> Initial {
    Initial {
        destination: SERVER.into(),
        number: 1,
        frames: vec![2, 0, 0, 0, 0],
        ..client_initial()
    }
}

/// 6 ms to the server and back, 20 ms to the client and back; the server takes 3 ms, the client 2 ms. Two exchanges
/// follow.
pub(super) fn conversation() -> Talk {
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(9 * MS);
    flight(&mut talk);
    rest(&mut talk);
    talk
}

/// The server's flight: an Initial followed by a Handshake packet.
fn flight(talk: &mut Talk) {
    let mut flight = server_initial().seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 900));
    talk.server(flight);
}

/// The conversation after the server's flight.
fn rest(talk: &mut Talk) {
    talk.after(20 * MS).client(acknowledgment().seal()).after(2 * MS);
    talk.client(sealed(HANDSHAKE, &SERVER, &CLIENT, 60));
    talk.client(short(&SERVER, false, 100));
    talk.after(6 * MS).server(short(&CLIENT, false, 300));
    talk.after(5 * MS);
    for _ in 0..3 {
        talk.server(short(&CLIENT, false, 1180));
    }
    talk.after(20 * MS).client(short(&SERVER, true, 26));
    talk.after(100 * MS).client(short(&SERVER, true, 90));
    talk.after(16 * MS).server(short(&CLIENT, true, 500));
}

fn tls(observed: &Observed) -> &TlsSeen {
    observed.tls.as_deref().unwrap()
}

fn quic(observed: &Observed) -> &QuicSeen {
    observed.quic.as_deref().unwrap()
}

fn messages(observed: &Observed) -> Vec<(bool, Vec<&'static str>)> {
    observed.flights.iter().map(|f| (f.by_client, f.messages.clone())).collect()
}

#[test]
fn a_handshake_is_read_and_its_time_split() {
    let observed = conversation().only();
    assert_eq!(observed.roles, Roles::Opening);
    assert_eq!((observed.client.socket_addr().port(), observed.ending), (PORT, Ending::Open));
    let seen = tls(&observed);
    assert_eq!(seen.sni.as_deref(), Some("example.com"));
    assert_eq!(seen.alpn_offered.as_deref(), Some("alpn"));
    assert_eq!(
        (seen.version, seen.cipher_suite, seen.group),
        (Some(0x304), Some(0x1301), Some(29))
    );
    assert_eq!((seen.client_hello_bytes, seen.handshake), (Some(241), Some(Handshake::Full)));
    assert!(seen.complete && seen.early_data.is_none() && !seen.resumption.declined);
    let time = observed.handshake_time.unwrap();
    assert_eq!((time.network.as_millis(), time.server.as_millis()), (26, 3));
    assert_eq!((time.client.as_millis(), time.round_trips, time.confident), (2, 1, true));
    assert_eq!(observed.round_trips.tap_position().map(|p| (p * 26.0).round()), Some(20.0));
    assert!(observed.doubts.is_empty(), "{:?}", observed.doubts.names().collect::<Vec<_>>());
    let exchanges = &observed.exchanges;
    assert_eq!((exchanges.count, exchanges.answered, exchanges.approximate), (Some(2), 2, true));
    assert_eq!(exchanges.time.unwrap().as_millis(), 11 + 16);
    let quic = quic(&observed);
    assert_eq!((quic.version, quic.first_version, quic.token_bytes), (Some(1), None, None));
    assert_eq!((quic.sent.initial, quic.sent.handshake, quic.sent.one_rtt), (2, 1, 3));
    assert_eq!((quic.received.coalesced, quic.received.one_rtt), (1, 5));
    assert_eq!((quic.client_cid_bytes, quic.server_cid_bytes), (Some(5), Some(6)));
    assert_eq!((quic.unvalidated_limit, quic.limit_stall), (Some(3600), None));
    assert_eq!(
        messages(&observed),
        [
            (true, vec!["ClientHello"]),
            (false, vec!["ServerHello", "{…}"]),
            (true, vec!["{Finished}"])
        ]
    );
}

#[test]
fn a_hello_over_several_packets_out_of_order() {
    let frame = hex(CLIENT_HELLO);
    let hello = &frame[4..];
    let piece = |from: usize, to: usize, number| {
        let frames = crypto(from, &hello[from..to]);
        Initial { frames, number, ..client_initial() }
    };
    // Two packets in one datagram, and a datagram that overtakes its predecessor.
    let mut second = piece(150, 200, 1).seal();
    second.extend(piece(60, 150, 2).padded(1000));
    let mut talk = Talk::new();
    talk.client(piece(200, 241, 3).padded(1200))
        .client(second)
        .client(piece(0, 60, 0).padded(1200));
    talk.after(9 * MS);
    flight(&mut talk);
    rest(&mut talk);
    let observed = talk.only();
    assert_eq!(tls(&observed).sni.as_deref(), Some("example.com"));
    assert_eq!((tls(&observed).handshake, observed.sent.retransmitted), (Some(Handshake::Full), 0));
    assert_eq!(quic(&observed).sent.initial, 5);
    assert!(observed.handshake_time.is_some());
}

/// The ServerHello with a `pre_shared_key`, or a HelloRetryRequest.
fn server_hello(psk: bool, retry: bool) -> Vec<u8> {
    let frames = hex(SERVER_HELLO);
    let mut hello = frames[5 + 4..].to_vec();
    if retry {
        let random = hex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c");
        hello[6..38].copy_from_slice(&random);
        // Its key share holds only the group.
        hello.truncate(42);
        hello.extend(hex("000c00330002001d002b00020304"));
    }
    if psk {
        hello.extend(hex("002900020000"));
        let extensions = hello.len() - 44;
        hello[42..44].copy_from_slice(&(extensions as u16).to_be_bytes());
    }
    let length = hello.len() - 4;
    hello[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    hello
}

/// The ClientHello with `early_data` and `pre_shared_key`.
fn offering() -> Vec<u8> {
    let mut hello = hex(CLIENT_HELLO)[4..].to_vec();
    hello.extend(hex("002a0000"));
    hello.extend(hex("0029002f000a0004aabbccdd00000000"));
    hello.extend(hex("002120"));
    hello.extend([7; 32]);
    // After header, version, random, session ID, suites and compression.
    let place = 4 + 2 + 32 + 1 + 6 + 2;
    let extensions = hello.len() - place - 2;
    hello[place..place + 2].copy_from_slice(&(extensions as u16).to_be_bytes());
    let length = hello.len() - 4;
    hello[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    hello
}

fn resumption(zero_rtt: bool, psk: bool, early_answer: bool) -> Observed {
    let mut talk = Talk::new();
    let mut first = Initial { frames: crypto(0, &offering()), ..client_initial() };
    if zero_rtt {
        let early = sealed(ZERO_RTT, &FIRST, &CLIENT, 80);
        let mut datagram = first.padded(1200 - early.len());
        datagram.extend(early);
        talk.client(datagram);
    } else {
        first.frames.extend([1]);
        talk.client(first.padded(1200));
    }
    talk.after(9 * MS);
    let frames = [hex("0200000000"), crypto(0, &server_hello(psk, false))].concat();
    let mut flight = Initial { frames, ..server_initial() }.seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 200));
    talk.server(flight);
    if early_answer {
        talk.server(short(&CLIENT, false, 700));
    }
    rest(&mut talk);
    talk.only()
}

#[test]
fn an_offer_is_no_early_data() {
    let observed = resumption(false, true, false);
    let seen = tls(&observed);
    assert_eq!(seen.handshake, Some(Handshake::Resumed));
    assert_eq!(seen.resumption.offered_size, Some(1));
    let early = seen.early_data.unwrap();
    assert_eq!((early.offered, early.bytes, early.accepted), (true, 0, None));
    assert_eq!(quic(&observed).sent.zero_rtt, 0);
}

#[test]
fn early_data_taken_is_inferred_and_declined_is_proven() {
    let observed = resumption(true, true, true);
    let early = tls(&observed).early_data.unwrap();
    assert_eq!((early.accepted, early.inferred), (Some(true), true));
    assert_eq!(early.bytes, 80 + 7 + 8 + 5 + 2);
    assert_eq!(quic(&observed).sent.zero_rtt, 1);
    assert!(messages(&observed)[0].1.contains(&"(early data)"));
    // A later answer shows nothing.
    assert_eq!(tls(&resumption(true, true, false)).early_data.unwrap().accepted, None);
    let observed = resumption(true, false, false);
    let early = tls(&observed).early_data.unwrap();
    assert_eq!((early.accepted, early.inferred), (Some(false), false));
    assert!(tls(&observed).resumption.declined);
    assert_eq!(observed.exchanges.count, Some(2));
}

#[test]
fn after_a_hello_retry_request_there_is_one_more_round_trip() {
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(6 * MS);
    let retry = server_hello(false, true);
    let frames = [hex("0200000000"), crypto(0, &retry)].concat();
    talk.server(Initial { frames, ..server_initial() }.padded(1200)).after(20 * MS);
    let frames = [hex("0200000000"), crypto(241, &hex(CLIENT_HELLO)[4..])].concat();
    let destination = SERVER.to_vec();
    talk.client(Initial { frames, number: 1, destination, ..client_initial() }.padded(1200));
    talk.after(9 * MS);
    let frames = [hex("0201000000"), crypto(retry.len(), &server_hello(false, false))].concat();
    let mut flight = Initial { frames, number: 1, ..server_initial() }.seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 900));
    talk.server(flight);
    talk.after(22 * MS).client(sealed(HANDSHAKE, &SERVER, &CLIENT, 60));
    let observed = talk.only();
    assert!(tls(&observed).hello_retry_request);
    assert_eq!(tls(&observed).handshake, Some(Handshake::FullWithHelloRetryRequest));
    let time = observed.handshake_time.unwrap();
    assert_eq!((time.round_trips, time.server.as_millis(), time.client.as_millis()), (2, 3, 2));
}

#[test]
fn keys_follow_a_retry() {
    const RETRIED: [u8; 7] = [9; 7];
    let mut talk = Talk::new();
    let mut retry = vec![0xf0, 0, 0, 0, 1, 5];
    retry.extend(CLIENT);
    retry.push(7);
    retry.extend(RETRIED);
    retry.extend([0x5a; 40]);
    talk.client(client_initial().padded(1200)).after(6 * MS).server(retry).after(20 * MS);
    let keys = RETRIED.to_vec();
    let token = vec![0x5a; 24];
    let again = Initial { number: 1, token, destination: keys.clone(), keys, ..client_initial() };
    talk.client(again.padded(1200)).after(9 * MS);
    let keys = RETRIED.to_vec();
    let frames = [hex("0201000000"), crypto(0, &server_hello(false, false))].concat();
    let mut flight = Initial { keys: keys.clone(), frames, ..server_initial() }.seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 900));
    talk.server(flight).after(20 * MS).client(Initial { keys, ..acknowledgment() }.seal());
    talk.after(2 * MS).client(sealed(HANDSHAKE, &SERVER, &CLIENT, 60));
    let observed = talk.only();
    assert_eq!((quic(&observed).retries, quic(&observed).token_bytes), (1, None));
    // The token proves the address.
    assert_eq!(quic(&observed).unvalidated_bytes, None);
    assert_eq!(tls(&observed).handshake, Some(Handshake::Full));
    let time = observed.handshake_time.unwrap();
    assert_eq!((time.round_trips, time.network.as_millis()), (2, 52));
    assert_eq!((time.server.as_millis(), time.client.as_millis()), (3, 2));
    let names: Vec<_> = messages(&observed).into_iter().map(|(_, names)| names[0]).collect();
    assert_eq!(names, ["ClientHello", "Retry", "ClientHello", "ServerHello", "{Finished}"]);
}

#[test]
fn version_negotiation_is_part_of_its_connection() {
    let mut talk = Talk::new();
    // The tag must differ.
    let mut first = Initial { number: 9, ..client_initial() }.padded(1200);
    first[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    let mut negotiation = vec![0x80, 0, 0, 0, 0, 5];
    negotiation.extend(CLIENT);
    negotiation.push(8);
    negotiation.extend(FIRST);
    negotiation.extend(V1.to_be_bytes());
    talk.client(first).after(6 * MS).server(negotiation).after(20 * MS);
    talk.made.extend(conversation().made.into_iter().map(|m| Made { at: m.at + 26 * MS, ..m }));
    let observed = talk.only();
    let quic = quic(&observed);
    assert_eq!((quic.version_negotiations, quic.version), (1, Some(V1)));
    assert_eq!(quic.first_version, Some(0x1a2a_3a4a));
    assert_eq!(tls(&observed).handshake, Some(Handshake::Full));
}

#[test]
fn a_server_may_answer_in_version_2() {
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(9 * MS);
    let mut flight = Initial { version: V2, ..server_initial() }.seal();
    let mut handshake = sealed(HANDSHAKE, &CLIENT, &SERVER, 900);
    handshake[0] = 0xf0;
    handshake[1..5].copy_from_slice(&V2.to_be_bytes());
    flight.extend(handshake);
    talk.server(flight).after(20 * MS);
    talk.client(Initial { version: V2, ..acknowledgment() }.seal());
    talk.client(short(&SERVER, false, 100));
    let observed = talk.only();
    assert_eq!((quic(&observed).first_version, quic(&observed).version), (Some(V1), Some(V2)));
    assert_eq!(tls(&observed).handshake, Some(Handshake::Full));
    assert!(tls(&observed).complete);
}

#[test]
fn a_new_address_with_the_same_ids_is_a_migration() {
    for port in [PORT + 1, 1] {
        let mut talk = conversation();
        let place = talk.made.len();
        talk.port = port;
        talk.after(50 * MS).client(short(&SERVER, true, 90));
        talk.after(16 * MS).server(short(&CLIENT, true, 500));
        // A late packet from the old address.
        talk.port = PORT;
        talk.client(short(&SERVER, true, 20));
        talk.port = port;
        talk.after(16 * MS).client(short(&SERVER, true, 90));
        assert!(talk.made[place..].len() == 4);
        let observed = talk.only();
        assert_eq!(quic(&observed).migrations, 1);
        assert_eq!(observed.client.socket_addr().port(), port);
        assert_eq!(observed.exchanges.count, Some(4));
    }
}

#[test]
fn new_connection_ids_are_counted() {
    let mut talk = conversation();
    talk.client(short(&[7; 6], true, 90)).server(short(&CLIENT, true, 90));
    talk.client(short(&[7; 6], true, 90));
    let observed = talk.only();
    let quic = quic(&observed);
    assert_eq!((quic.server_cid_changes, quic.client_cid_changes, quic.migrations), (1, 0, 0));
}

#[test]
fn connections_between_the_same_ends_are_told_by_ids() {
    let mut talk = conversation();
    let other = |bytes: &[u8]| bytes.iter().map(|b| b ^ 0x40).collect::<Vec<_>>();
    let renamed = |initial: Initial| Initial {
        keys: other(&initial.keys),
        destination: other(&initial.destination),
        source: other(&initial.source),
        ..initial
    };
    talk.client(renamed(client_initial()).padded(1200));
    talk.server(renamed(server_initial()).seal());
    talk.client(short(&SERVER, true, 90)).client(short(&other(&SERVER), true, 90));
    let (all, hygiene) = read(&talk.made, Limits::default());
    assert_eq!((all.len(), hygiene.port_reuses), (2, 0));
    assert_eq!(quic(&all[0]).sent.one_rtt, 4);
    assert_eq!(quic(&all[1]).sent.one_rtt, 1);
}

#[test]
fn without_ids_a_new_connection_replaces_the_old_one() {
    let source = Vec::new();
    let first = Initial { source: source.clone(), ..client_initial() };
    let answer = Initial { destination: source.clone(), ..server_initial() };
    let second = Initial { source, keys: vec![5; 8], destination: vec![5; 8], ..client_initial() };
    let mut talk = Talk::new();
    talk.client(first.padded(1200)).server(answer.seal()).client(second.padded(1200));
    let (all, hygiene) = read(&talk.made, Limits::default());
    assert_eq!((all.len(), hygiene.port_reuses), (2, 1));
    assert_eq!(all[0].ending, Ending::Replaced);
    // The capture ends before anything could have answered.
    assert_eq!(all[1].ending, Ending::Open);
}

#[test]
fn a_flight_beyond_three_times_waits_for_the_client() {
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(6 * MS);
    flight(&mut talk);
    talk.server(sealed(HANDSHAKE, &CLIENT, &SERVER, 1180));
    talk.server(sealed(HANDSHAKE, &CLIENT, &SERVER, 1180));
    talk.after(20 * MS).client(acknowledgment().padded(1200)).after(6 * MS);
    talk.server(sealed(HANDSHAKE, &CLIENT, &SERVER, 1180)).after(22 * MS);
    talk.client(sealed(HANDSHAKE, &SERVER, &CLIENT, 60));
    let observed = talk.only();
    assert_eq!(quic(&observed).limit_stall.unwrap().as_millis(), 26);
    assert!(quic(&observed).unvalidated_bytes.unwrap() > 3600);
    let time = observed.handshake_time.unwrap();
    assert_eq!((time.round_trips, time.network.as_millis(), time.client.as_millis()), (2, 52, 2));
    assert!(messages(&observed).contains(&(true, vec!["(acknowledgment)"])));
}

#[test]
fn the_spin_bit_counts_where_it_spins() {
    let spins = |period: i64| {
        let mut talk = conversation();
        for turn in 0..12 {
            let bit = turn % 2 == 0;
            talk.after(period * MS / 2).client(short(&SERVER, bit, 60));
            talk.after(period * MS / 2).server(short(&CLIENT, bit, 60));
        }
        quic(&talk.only()).spin_round_trip
    };
    assert_eq!(spins(28).map(|d| d.as_millis()), Some(28));
    // Random bits, and an interval that does not fit the path.
    assert_eq!((spins(2), spins(90)), (None, None));
    assert_eq!(quic(&conversation().only()).spin_round_trip, None);
}

#[test]
fn an_alert_in_an_initial_is_read() {
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(6 * MS);
    let frames = vec![0x1c, 0x41, 0x28, 6, 0];
    talk.server(Initial { frames, ..server_initial() }.padded(100));
    let observed = talk.only();
    assert_eq!(tls(&observed).alert.unwrap().description, Some(40));
    assert_eq!(observed.ending, Ending::Closed);
    assert!(!tls(&observed).alert.unwrap().by_client);
}

#[test]
fn copies_and_repeated_packets_are_told_apart() {
    let mut talk = conversation();
    let copied: Vec<Made> = talk
        .made
        .iter()
        .flat_map(|made| [made.clone(), Made { at: made.at + 20_000, ..made.clone() }])
        .collect();
    let (all, hygiene) = read(&copied, Limits::default());
    assert_eq!(hygiene.duplicates, talk.made.len() as u64);
    assert_eq!(all[0].handshake_time, talk.only().handshake_time);
    // The ClientHello again, in a new packet.
    let again = Initial { number: 7, ..client_initial() }.padded(1200);
    let repeated = Made { at: talk.made[0].at + 5 * MS, payload: again, ..talk.made[0].clone() };
    talk.made.insert(1, repeated);
    let observed = talk.only();
    assert_eq!(observed.sent.retransmitted, 1);
    assert!(observed.doubts.any(Doubts::LOSS_IN_HANDSHAKE));
}

#[test]
fn what_is_not_quic_is_left_alone() {
    let mut talk = Talk::new();
    talk.client(vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]).server(vec![0x80; 200]);
    talk.client(short(&SERVER, true, 50)).server(vec![0; 100]);
    let mut reserved = client_initial().padded(1200);
    reserved[1..5].copy_from_slice(&[0x1a, 0x2a, 0x3a, 0x4a]);
    talk.client(reserved);
    assert!(read(&talk.made, Limits::default()).0.is_empty());
}

#[test]
fn one_direction_says_what_it_can() {
    let made = conversation().made;
    let (client, server): (Vec<_>, Vec<_>) = made.into_iter().partition(|made| made.by_client);
    let observed = read(&client, Limits::default()).0.remove(0);
    assert_eq!(tls(&observed).sni.as_deref(), Some("example.com"));
    assert!(observed.doubts.any(Doubts::ONE_SIDED) && observed.handshake_time.is_none());
    assert_eq!((observed.exchanges.count, observed.ending), (None, Ending::Open));
    // From the server's side alone nothing can be opened: its keys come from the client's packet.
    let observed = read(&server, Limits::default()).0.remove(0);
    assert_eq!((observed.roles, observed.tls.is_none()), (Roles::Unknown, true));
    assert!(observed.doubts.any(Doubts::MID_STREAM));
}
