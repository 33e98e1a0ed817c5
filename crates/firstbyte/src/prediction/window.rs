//! The server's initial window, as a run shows it: the one whose arrivals are most like those measured.
//!
//! Input: measured connections, and the setup that they are predicted with. What a server may not send yet
//! comes a round trip later; the simulation says for every window when what would come. Nothing is read off a
//! single pause: a server that thinks, or writes in pieces, pauses as well.

use std::time::Duration;

use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Connection, Direction};
use firstbyte_predict::{Http, Path, Reuse, Setup, Way, predict};

use firstbyte_clock::timer_now;

/// The windows that are tried.
const WINDOWS: std::ops::RangeInclusive<u32> = 1..=32;
/// Connections of each way that are looked at: those in the middle by their totals.
const OF_EACH_WAY: usize = 3;

/// The connections of each way that are most usual, of those that show a server's window: over TCP, from its
/// first packet on, and none of the client's lost.
pub fn usual<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Vec<Connection> {
    let mut by_way: Vec<(Way, Vec<(Duration, &Connection)>)> = Vec::new();
    for connection in connections {
        let lost = connection.facts.tcp.as_ref().and_then(|tcp| tcp.retransmits);
        let Some(way) = Way::from_connection(connection) else { continue };
        let shows = way.http != Http::V3 && way.reuse == Reuse::New;
        if !shows || connection.failure.is_some() || lost.is_some_and(|lost| lost > 0) {
            continue;
        }
        let timed = (Split::attribute(connection).total(), connection);
        match by_way.iter_mut().find(|(other, _)| *other == way) {
            Some((_, timed_of_way)) => timed_of_way.push(timed),
            None => by_way.push((way, vec![timed])),
        }
    }
    let middle = |(_, mut timed): (Way, Vec<(Duration, &Connection)>)| {
        timed.sort_by_key(|(total, _)| *total);
        let skipped = timed.len().saturating_sub(OF_EACH_WAY) / 2;
        let middle = timed.into_iter().skip(skipped).take(OF_EACH_WAY);
        middle.map(|(_, connection)| connection.clone()).collect::<Vec<_>>()
    };
    by_way.into_iter().flat_map(middle).collect()
}

/// The initial window that fits `measured` best, over a path with this round-trip time; absent where all fit
/// alike, because nothing filled a window.
pub fn initial_window(setup: &Setup, measured: &[Connection], rtt: Duration) -> Option<u32> {
    let quiet = Setup { path: Path::with_rtt(rtt), ..setup.clone() };
    let base = timer_now().into_std();
    let seen: Vec<(Way, Vec<u64>)> =
        measured.iter().filter_map(|c| Some((Way::from_connection(c)?, bursts(c, rtt)))).collect();
    let cost = |window: u32| -> Option<u64> {
        let mut setup = quiet.clone();
        setup.server.initial_window = window;
        let mut predicted: Vec<(Way, Vec<u64>)> = Vec::new();
        let mut sum = 0;
        for (way, seen) in &seen {
            if predicted.iter().all(|(other, _)| other != way) {
                let connection = predict(&setup, way, base).ok()?;
                predicted.push((*way, bursts(&connection, rtt)));
            }
            let (_, expected) = predicted.iter().find(|(other, _)| other == way)?;
            sum += apart(seen, expected) / u64::from(setup.path.mss);
        }
        Some(sum)
    };
    let costs: Vec<(u32, u64)> = WINDOWS.filter_map(|w| Some((w, cost(w)?))).collect();
    let least = costs.iter().map(|(_, cost)| *cost).min()?;
    let best = || costs.iter().filter(|(_, cost)| *cost == least).map(|(window, _)| *window);
    let usual = setup.server.initial_window;
    // What fits no better than the usual one is not shown.
    if best().any(|window| window == usual) { None } else { best().next() }
}

/// How many bytes had arrived at the end of each burst. Bursts are apart by more than half of a round trip in
/// which the client sent nothing: its own next flight begins another count.
fn bursts(connection: &Connection, rtt: Duration) -> Vec<u64> {
    let mut ends = Vec::new();
    let mut bytes = 0;
    for flight in connection.flights.iter().filter(|f| f.direction == Direction::Received) {
        let mut last = None;
        for chunk in &flight.chunks {
            if last.is_some_and(|last| chunk.stamp.at.since(last) > rtt / 2) {
                ends.push(bytes);
            }
            bytes += chunk.bytes;
            last = Some(chunk.stamp.at);
        }
        ends.push(bytes);
    }
    ends
}

/// How many bytes came in another burst than expected; a burst too many or too few counts whole.
fn apart(seen: &[u64], expected: &[u64]) -> u64 {
    let last = |ends: &[u64]| ends.last().copied().unwrap_or(0);
    let at = |ends: &[u64], n: usize| ends.get(n).copied().unwrap_or(last(ends));
    (0..seen.len().max(expected.len())).map(|n| at(seen, n).abs_diff(at(expected, n))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::setup::chain;

    const RTT: Duration = Duration::from_millis(60);

    fn setup(response_bytes: u64) -> Setup {
        let mut setup = Setup::new(RTT, chain(6_000).unwrap());
        setup.exchange.response_bytes = response_bytes;
        setup
    }

    fn made(setup: &Setup, ways: &[Way]) -> Vec<Connection> {
        let base = timer_now().into_std();
        ways.iter().map(|way| predict(setup, way, base).unwrap()).collect()
    }

    /// What was made with a window is known by it: where it was filled.
    #[test]
    fn the_window_is_found_that_connections_were_made_with() {
        let new: Vec<Way> = Way::all().into_iter().filter(|w| w.reuse == Reuse::New).collect();
        for window in [1, 2, 3, 4, 6, 7, 14, 20, 30] {
            let mut real = setup(70_000);
            real.server.initial_window = window;
            // Other hosts, and a server that thinks, change nothing about it.
            real.server.think_time = Duration::from_millis(35);
            real.server.hello_time.full = Duration::from_millis(12);
            let connections = made(&real, &new);
            let mut from = setup(70_000);
            from.server.think_time = real.server.think_time;
            let found = initial_window(&from, &usual(&connections), RTT);
            assert_eq!(found, Some(window));
            // One way alone may fit several: one that is found then sends as it was sent.
            for way in new.iter().filter(|way| way.http != Http::V3) {
                let alone = made(&real, &[*way]);
                let mut again = real.clone();
                let found = initial_window(&from, &usual(&alone), RTT);
                again.server.initial_window = found.unwrap_or(from.server.initial_window);
                let [one, other] = [&alone, &made(&again, &[*way])].map(|c| bursts(&c[0], RTT));
                // Signatures differ by a byte or two.
                assert_eq!(one.len(), other.len(), "{}: {window}", way.label());
                assert!(apart(&one, &other) < 100, "{}: {window}", way.label());
            }
        }
    }

    #[test]
    fn what_fills_no_window_shows_none() {
        let new: Vec<Way> = Way::all().into_iter().filter(|w| w.reuse == Reuse::New).collect();
        for (window, response) in [(10, 70_000), (10, 1_000), (20, 1_000)] {
            let mut real = setup(response);
            real.server.initial_window = window;
            let found = initial_window(&setup(response), &usual(&made(&real, &new)), RTT);
            assert_eq!(found, None, "{window}, {response} bytes");
        }
    }
}
