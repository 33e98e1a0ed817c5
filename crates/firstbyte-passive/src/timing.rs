//! Where the time of a handshake was spent, as seen from the tap (`docs/wire.md`, "Handshake time").
//!
//! In: the handshake's flights and the round trips on both sides of the tap. Out: network, server and client time,
//! which add up to the handshake's duration as the client saw it.

use std::time::Duration;

use super::Doubts;
use super::flights::Flight;
use super::observed::HandshakeTime;
use super::table::Side;

/// The data from which a handshake's time is computed.
pub(super) struct Timed<'a> {
    pub(super) client: Side,
    /// Smallest round trip between the tap and each side, nanoseconds.
    pub(super) least: [Option<i64>; 2],
    /// Round trip of the opening.
    pub(super) opening: [Option<i64>; 2],
    pub(super) flights: &'a [Flight],
}

/// An answer that comes more than this before the smallest round trip is over cannot be an answer.
const FASTER_NS: i64 = 200_000;
/// An acknowledgment that takes longer than the smallest round trip by 1/32 of it, and by this much, was delayed.
const HELD_BACK_NS: i64 = 1_500_000;
/// No delayed-acknowledgment timer is shorter than this (Linux 40 ms, QUIC 25 ms). So if a flight's own acknowledgment
/// took longer than the smallest round trip, by up to this, the path was the cause: a queue, or the flight's length on
/// a slow link.
const TIMER_NS: i64 = 15_000_000;
/// The opening's round trip is far from the smallest one if it is longer by a quarter and by this much.
const UNSTABLE: Duration = Duration::from_millis(1);

/// Network, server and client time of a handshake; `None` without round trips on both sides.
pub(super) fn handshake(timed: &Timed<'_>, doubts: &mut Doubts) -> Option<HandshakeTime> {
    let server = 1 - timed.client;
    let (to_server, to_client) = (Path::timed(server, timed)?, Path::timed(timed.client, timed)?);
    let (mut network_ns, mut server_ns, mut client_ns, mut round_trips) = (0, 0, 0, 0);
    for pair in timed.flights.windows(2) {
        let [before, after] = pair else { continue };
        let waited = after.start.signed_since(before.end);
        let (path, host) = if after.side() == server {
            round_trips += 1;
            (to_server.behind(before, waited), &mut server_ns)
        } else {
            (to_client.behind(before, waited), &mut client_ns)
        };
        if waited < path - FASTER_NS {
            doubts.add(Doubts::FASTER_THAN_PATH);
        }
        network_ns += path.min(waited);
        *host += (waited - path).max(0);
    }
    for flight in timed.flights {
        let passing = flight.end.signed_since(flight.start).max(0);
        if passing > (to_server.least_ns + to_client.least_ns) / 2 + FASTER_NS {
            doubts.add(Doubts::SLOW_FLIGHT);
        }
        network_ns += passing;
    }
    // The client sent its first flight half a round trip before the tap saw it, and receives the server's last flight
    // half a round trip later.
    if timed.flights.last().is_some_and(|flight| flight.side() == server) {
        network_ns += to_client.typical_ns;
    }
    const SPOILS: Doubts = Doubts::LOSS_IN_HANDSHAKE
        .with(Doubts::ONE_SIDED)
        .with(Doubts::GAP)
        .with(Doubts::MID_STREAM)
        .with(Doubts::CLOCK_STEP)
        .with(Doubts::FASTER_THAN_PATH)
        .with(Doubts::SLOW_FLIGHT)
        .with(Doubts::OPENING_REPEATED)
        .with(Doubts::PATH_UNKNOWN)
        .with(Doubts::RECORDS_LOST);
    Some(HandshakeTime {
        network: duration(network_ns),
        server: duration(server_ns),
        client: duration(client_ns),
        round_trips,
        confident: !doubts.any(SPOILS),
    })
}

/// Round trips between the tap and one side, without those that a timer delayed.
struct Path {
    least_ns: i64,
    allowed_ns: i64,
    /// Mean of the round trips up to `allowed_ns`.
    typical_ns: i64,
}

impl Path {
    fn timed(side: Side, timed: &Timed<'_>) -> Option<Self> {
        let least_ns = timed.least[side]?;
        let allowed_ns = least_ns + (least_ns / 32).max(HELD_BACK_NS);
        let flights = timed.flights.iter().filter(|flight| flight.side() != side);
        let (sum, count) = flights
            .filter_map(acknowledged_after)
            .chain(timed.opening[side])
            .filter(|ns| (least_ns..=allowed_ns).contains(ns))
            .fold((0, 0), |(sum, count), ns| (sum + ns, count + 1));
        let typical_ns = if count > 0 { sum / count } else { least_ns };
        Some(Self { least_ns, allowed_ns, typical_ns })
    }

    /// The round trip for a flight that was answered after `waited_ns`: the time until it was acknowledged, unless a
    /// timer delayed that; then the mean of the other round trips.
    fn behind(&self, flight: &Flight, waited_ns: i64) -> i64 {
        let own = self.least_ns..=self.allowed_ns.max(self.least_ns + TIMER_NS);
        acknowledged_after(flight)
            .filter(|ns| own.contains(ns))
            .unwrap_or(self.typical_ns)
            .min(waited_ns.max(self.least_ns))
    }
}

fn acknowledged_after(flight: &Flight) -> Option<i64> {
    flight.acknowledged.map(|at| at.signed_since(flight.end))
}

/// Nanoseconds as a duration; zero when negative.
pub(super) fn duration(ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}

/// A duration as nanoseconds.
pub(super) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether two times can be round trips of one path, neither of them delayed.
pub(super) const fn is_near(one_ns: i64, other_ns: i64) -> bool {
    let least = if one_ns < other_ns { one_ns } else { other_ns };
    let allowed = if least / 32 > HELD_BACK_NS { least / 32 } else { HELD_BACK_NS };
    (one_ns - other_ns).abs() <= allowed
}

/// Whether the opening's round trip is far from the smallest seen.
pub(super) fn is_unstable(opening: Option<Duration>, least: Option<Duration>) -> bool {
    match (opening, least) {
        (Some(opening), Some(least)) => opening > least + least / 4 && opening > least + UNSTABLE,
        _ => false,
    }
}
