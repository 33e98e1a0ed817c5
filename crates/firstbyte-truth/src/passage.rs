//! The quantities that a reader of packets should find for a connection, wherever it observes between the ends.
//!
//! In: a measured connection (positions in its streams), its packets at both ends, the path. Out: the quantities of
//! `docs/wire.md` as they were at the ends themselves.

use std::time::Duration;

use super::places::{Places, bytes};
use super::stream::Stream;
use super::walk::{Event, Walk};
use super::{Captured, End, Known, Rule, Truth, Untold};
use firstbyte_core::split::Part;
use firstbyte_core::timeline::{Connection, Direction, Handshake, Mark};

/// Nagle's algorithm may hold back segments shorter than this, in bytes.
const SMALL: u64 = 1_200;
/// An acknowledgement this late had waited for its timer, in nanoseconds.
const DELAYED: i64 = 15_000_000;

/// A connection's quantities as they were at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Sum of the minimum times in each direction, over packets up to the end of the handshake.
    pub round_trip: Duration,
    /// From the SYN to the SYN/ACK at the client; absent over QUIC.
    pub connect: Option<Duration>,
    /// Like `connect`, from the last SYN: every observer sees that one, but the first may not have reached it.
    pub connect_last: Option<Duration>,
    /// Where the handshake's time went.
    pub handshake: HandshakeTruth,
    /// At the client, from the last byte of the request to the first byte of the response.
    pub wait: Duration,
    /// The same at the server.
    pub answer: Duration,
    /// At the client, from the first byte of the response to its last.
    pub transfer: Duration,
    /// Maximum time for which the server's kernel held small segments until delayed acknowledgements came; zero if it
    /// held none.
    pub held: Duration,
}

/// From the departure of the ClientHello to the departure of the client's Finished; in full TLS 1.2 handshakes, to the
/// arrival of the server's Finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeTruth {
    /// On the network, including losses and waits for acknowledgements.
    pub network: Duration,
    /// Within the server: before its messages, and between the writes of a message.
    pub server: Duration,
    /// Within the client.
    pub client: Duration,
    /// How much larger `server` may be, and how much smaller `network`.
    pub open: Duration,
}

impl HandshakeTruth {
    /// The whole handshake.
    pub fn total(&self) -> Duration {
        self.network + self.server + self.client
    }
}

/// The true quantities of `connection`, for comparison with those of a reader of its packets.
///
/// # Errors
/// Why they cannot be determined; also if the connection was already open.
pub fn passage(
    connection: &Connection,
    captured: &Captured,
    known: &Known,
) -> Result<Passage, Untold> {
    let places = Places::from_connection(connection).ok_or(Untold::NotMeasured)?;
    if connection.facts.reused {
        return Err(Untold::NotMeasured);
    }
    let [client, server] =
        [End::Client, End::Server].map(|from| Stream::from_captured(captured, from));
    let found = |packet: Option<usize>| packet.ok_or(Untold::NotCaptured);
    let hello = found(client.sent.iter().position(|sent| sent.has_payload()))?;
    let begin = client.sent[hello].departed;
    let last =
        last_of_handshake(connection, &places, &client, &server).ok_or(Untold::NotCaptured)?;
    let [first, readable, whole] = match places.stream {
        true => [places.response_start + 1, places.response_readable, places.response_end]
            .map(|end| server.completes(end)),
        false => [places.response_start_at, places.response_start_at, places.response_end_at]
            .map(|at| server.last_arrival(at + super::walk::TOUCHING, |_| true)),
    };
    let (first, readable, whole) = (found(first)?, found(readable)?, found(whole)?);
    let asked = found(match places.stream {
        true => client.sent.iter().position(|sent| sent.end >= places.request_end),
        false => client
            .sent
            .iter()
            .rposition(|sent| sent.departed <= places.request_end_at + super::walk::TOUCHING),
    })?;
    let arrived =
        |stream: &Stream, index: usize| stream.sent[index].arrived.ok_or(Untold::NotCaptured);
    let there = match places.stream {
        true => found(client.completes(places.request_end))?,
        false => asked,
    };
    let (begun, ended) = (arrived(&server, readable)?, arrived(&server, whole)?);
    let answered = server.sent[server.first_copy(first)].departed;
    let opened = |stream: &Stream, from_arrival: bool| {
        let syn = stream.sent.iter().find(|sent| sent.syn)?;
        if from_arrival { syn.arrived } else { Some(syn.departed) }
    };
    let connect = opened(&server, true).zip(opened(&client, false)).map(|(to, from)| to - from);
    let last_syn = client.sent.iter().rfind(|sent| sent.syn).map(|sent| sent.departed);
    let connect_last = opened(&server, true).zip(last_syn).map(|(to, from)| to - from);
    let over = match last {
        Event::Departed(_, index) => client.sent[index].departed,
        Event::Arrived(_, index) => arrived(&server, index)?,
        Event::Origin => return Err(Untold::NoPath),
    };
    let least = |stream: &Stream| {
        let before = stream.sent.iter().filter(|sent| sent.departed <= over);
        before.filter_map(|sent| Some(sent.arrived? - sent.departed)).min()
    };
    let round_trip = least(&client).zip(least(&server)).ok_or(Untold::NotCaptured)?;
    let wait = begun - client.sent[asked].departed;
    let answer = answered - arrived(&client, there)?;
    let handshake = Places { origin: begin, ..places };
    let walk = Walk::new([client, server], handshake, *known, Vec::new());
    let held = walk.held_back(|small, late| small < SMALL && late >= DELAYED);
    let truth = walk.run_from(last)?;
    Ok(Passage {
        round_trip: time(round_trip.0 + round_trip.1),
        connect: connect.map(time),
        connect_last: connect_last.map(time),
        handshake: handshake_truth(&truth),
        wait: time(wait),
        answer: time(answer),
        transfer: time(ended - begun),
        held: time(held),
    })
}

/// The event that ended the handshake for the client.
fn last_of_handshake(
    connection: &Connection,
    places: &Places,
    client: &Stream,
    server: &Stream,
) -> Option<Event> {
    let complete = connection.marks.at(Mark::HandshakeComplete)?;
    let tls = connection.facts.tls.as_ref()?;
    let by_server =
        tls.version.as_deref() == Some("TLSv1.2") && tls.handshake == Some(Handshake::Full);
    if !places.stream {
        let at = places.origin + complete.as_nanos();
        let distance = |index: &usize| (client.sent[*index].departed - at).abs();
        let left = (0..client.sent.len()).min_by_key(distance)?;
        return Some(Event::Departed(End::Client, left));
    }
    if by_server {
        let place = bytes(connection, Direction::Received, |at| at <= complete);
        return Some(Event::Arrived(End::Server, server.completes(place)?));
    }
    let place = bytes(connection, Direction::Sent, |at| at < complete);
    let left = client.sent.iter().position(|sent| sent.has_payload() && sent.end > place)?;
    Some(Event::Departed(End::Client, left))
}

fn handshake_truth(truth: &Truth) -> HandshakeTruth {
    let mut sums = [0; 3];
    for step in &truth.path {
        let of = match (step.part, step.rule) {
            (Part::Pause, Rule::DelayedAck) => 0,
            (Part::Server | Part::Pause, _) => 1,
            (Part::Client, _) => 2,
            _ => 0,
        };
        sums[of] += step.to - step.from;
    }
    let [network, server, client] = sums.map(time);
    HandshakeTruth { network, server, client, open: truth.open }
}

fn time(ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}
