//! Where the time of a handshake went, as seen from the tap (`docs/wire.md`, "Handshake time").
//!
//! In: the handshake's flights and the smallest round trips on both sides of the tap. Out: network, server
//! and client, which add up to the handshake as the client saw it.

use std::time::Duration;

use super::Doubts;
use super::observed::HandshakeTime;
use super::table::Side;
use super::tls::LiveFlight;

/// What a handshake's time is read from.
pub(super) struct Timed<'a> {
    pub(super) client: Side,
    /// Smallest round trip between the tap and each side, nanoseconds.
    pub(super) least: [Option<i64>; 2],
    pub(super) flights: &'a [LiveFlight],
}

/// An answer that is faster than the smallest round trip by more than this was not an answer.
const FASTER_NS: i64 = 200_000;
/// The opening's round trip is far from the smallest when it is longer by a quarter and by this much.
const UNSTABLE: Duration = Duration::from_millis(1);

/// Network, server and client of a handshake; `None` without round trips on both sides.
pub(super) fn handshake(timed: &Timed<'_>, doubts: &mut Doubts) -> Option<HandshakeTime> {
    let server = 1 - timed.client;
    let (to_server, to_client) = (timed.least[server]?, timed.least[timed.client]?);
    let (mut network_ns, mut server_ns, mut client_ns, mut round_trips) = (0, 0, 0, 0);
    for pair in timed.flights.windows(2) {
        let [before, after] = pair else { continue };
        let waited = after.start.signed_since(before.end);
        let by_server = usize::from(after.side) == server;
        let (path, host) = if by_server {
            round_trips += 1;
            (to_server, &mut server_ns)
        } else {
            (to_client, &mut client_ns)
        };
        if waited < path - FASTER_NS {
            doubts.add(Doubts::FASTER_THAN_PATH);
        }
        network_ns += path.min(waited);
        *host += (waited - path).max(0);
    }
    for flight in timed.flights {
        let passing = flight.end.signed_since(flight.start).max(0);
        if passing > (to_server + to_client) / 2 + FASTER_NS {
            doubts.add(Doubts::SLOW_FLIGHT);
        }
        network_ns += passing;
    }
    // The client sent its first flight half a round trip before the tap saw it, and has the server's last
    // one half a round trip later.
    if timed.flights.last().is_some_and(|flight| usize::from(flight.side) == server) {
        network_ns += to_client;
    }
    const SPOILS: Doubts = Doubts::LOSS_IN_HANDSHAKE
        .with(Doubts::ONE_SIDED)
        .with(Doubts::GAP)
        .with(Doubts::MID_STREAM)
        .with(Doubts::CLOCK_STEP)
        .with(Doubts::FASTER_THAN_PATH)
        .with(Doubts::SLOW_FLIGHT)
        .with(Doubts::OPENING_REPEATED)
        .with(Doubts::RECORDS_LOST);
    Some(HandshakeTime {
        network: duration(network_ns),
        server: duration(server_ns),
        client: duration(client_ns),
        round_trips,
        confident: !doubts.any(SPOILS),
    })
}

/// Nanoseconds as a duration; zero when negative.
pub(super) fn duration(ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

/// Whether the opening's round trip is far from the smallest seen.
pub(super) fn is_unstable(opening: Option<Duration>, least: Option<Duration>) -> bool {
    match (opening, least) {
        (Some(opening), Some(least)) => opening > least + least / 4 && opening > least + UNSTABLE,
        _ => false,
    }
}
