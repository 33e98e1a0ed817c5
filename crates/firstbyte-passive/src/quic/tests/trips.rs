//! The path's round trip, if it is visible; and that a slow server is not mistaken for a long path.

use super::connections::{client_initial, server_initial};
use super::made::{
    HANDSHAKE, Initial, MS, SERVER_HELLO, Talk, ZERO_RTT, crypto, hex, sealed, short,
};
use crate::{Doubts, Observed};

const FIRST: [u8; 8] = [1; 8];
const CLIENT: [u8; 5] = [2; 5];
const SERVER: [u8; 6] = [3; 6];

/// 40 ms to the server and back, the tap at the client; the server works for 60 ms before its ServerHello.
fn slow(prompt: bool, early: bool) -> Talk {
    let mut talk = Talk::new();
    if early {
        let data = sealed(ZERO_RTT, &FIRST, &CLIENT, 80);
        let mut datagram = client_initial().padded(1200 - data.len());
        datagram.extend(data);
        talk.client(datagram);
    } else {
        talk.client(client_initial().padded(1200));
    }
    if prompt {
        let frames = hex("0200000000");
        talk.after(40 * MS).server(Initial { frames, ..server_initial() }.seal()).after(60 * MS);
    } else {
        talk.after(100 * MS);
    }
    let mut flight = Initial { number: 1, ..server_initial() }.seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 900));
    // Its SETTINGS come with the flight.
    talk.server(flight).after(MS / 20).server(short(&CLIENT, false, 70));
    let frames = hex("0201000000");
    let acknowledgment =
        Initial { frames, number: 1, destination: SERVER.into(), ..client_initial() };
    let finished = sealed(HANDSHAKE, &SERVER, &CLIENT, 60);
    let mut last = acknowledgment.padded(1200 - finished.len());
    last.extend(finished);
    talk.after(MS / 2).client(last).client(short(&SERVER, false, 100));
    talk
}

/// Network and server time of the handshake, ms, and whether they are certain.
fn split(talk: &Talk) -> (u128, u128, bool) {
    let time = talk.only().handshake_time.unwrap();
    (time.network.as_millis(), time.server.as_millis(), time.confident)
}

fn is_unknown(observed: &Observed) -> bool {
    observed.round_trips.path().is_none() && observed.doubts.any(Doubts::PATH_UNKNOWN)
}

#[test]
fn what_answers_the_finished_shows_the_path_although_the_server_spoke_before() {
    let mut talk = slow(false, false);
    talk.after(40 * MS).server(short(&CLIENT, false, 280)).after(30 * MS);
    talk.server(short(&CLIENT, false, 1180));
    assert_eq!(split(&talk), (40, 60, true));
    // A packet sent together with the flight does not answer anything.
    let mut talk = slow(false, false);
    talk.after(MS / 10).server(short(&CLIENT, false, 70));
    talk.after(40 * MS - MS / 10).server(short(&CLIENT, false, 280));
    assert_eq!(split(&talk), (40, 60, true));
}

#[test]
fn an_acknowledgment_alone_shows_the_path() {
    assert_eq!(split(&slow(true, false)), (40, 60, true));
    assert_eq!(split(&slow(true, true)), (40, 60, true));
    // An acknowledgment that comes together with the computed answer does not show it.
    let mut talk = Talk::new();
    talk.client(client_initial().padded(1200)).after(100 * MS);
    talk.server(Initial { frames: hex("0200000000"), ..server_initial() }.seal()).after(MS / 10);
    let hello = crypto(0, &hex(SERVER_HELLO)[9..]);
    let mut flight = Initial { frames: hello, number: 1, ..server_initial() }.seal();
    flight.extend(sealed(HANDSHAKE, &CLIENT, &SERVER, 900));
    talk.server(flight).after(MS / 10).client(sealed(HANDSHAKE, &SERVER, &CLIENT, 60));
    let observed = talk.only();
    assert!(!observed.handshake_time.unwrap().confident);
    assert!(is_unknown(&observed));
}

#[test]
fn a_path_that_does_not_show_is_unknown() {
    let talk = slow(false, false);
    assert!(is_unknown(&talk.only()));
    let time = talk.only().handshake_time.unwrap();
    assert_eq!((time.total().as_millis(), time.confident), (100, false));
    // An answer to early data may already have been on its way.
    let mut early = slow(false, true);
    early.after(7 * MS).server(short(&CLIENT, false, 900));
    assert!(is_unknown(&early.only()));
    // If two answers took the same time, the server did no work.
    let mut early = slow(false, true);
    early.after(100 * MS).server(short(&CLIENT, false, 900));
    assert_eq!(split(&early), (100, 0, true));
}

#[test]
fn the_spin_bit_shows_the_path_where_nothing_else_does() {
    let spun = |broken: bool| {
        let mut talk = slow(false, true);
        talk.after(7 * MS).server(short(&CLIENT, false, 900));
        for turn in 0..10 {
            let bit = turn % 2 == 0;
            talk.after(MS / 5).client(short(&SERVER, bit, 60)).after(40 * MS);
            talk.server(short(&CLIENT, bit != (broken && turn == 5), 60));
        }
        talk
    };
    assert_eq!(split(&spun(false)), (40, 60, true));
    assert!(is_unknown(&spun(true).only()));
}
