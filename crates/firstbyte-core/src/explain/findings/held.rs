//! What the server's TCP held back: Nagle's algorithm, a window that begins small, one that has to grow.

use std::time::Duration;

use super::exchange::think;
use super::{LEAST, Seen, bytes, ms, round_trips};
use crate::explain::{Change, Finding, FindingKind, Saving, WayKind};
use crate::split::{Held, Split, Why};
use crate::timeline::{Connection, Direction, PhaseName, TlsFacts};

const NODELAY: &str = "turn Nagle's algorithm off at the server (TCP_NODELAY; nginx: tcp_nodelay on), \
                       or write all that is there at once";
/// Most chains have 2 to 4 kB. One that is longer fills a small window by itself, and can be shortened.
const LONG_CHAIN: u64 = 6_000;
/// What servers begin with (RFC 6928).
const USUAL: u32 = 10;

/// Gives how much of what seemed to be held back was the server's time.
pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) -> Duration {
    let servers = nagle(seen, found);
    windows(seen, found);
    servers
}

fn held(connection: &Connection, are: impl Fn(&Held) -> bool) -> Vec<Held> {
    Split::of(connection).held.into_iter().filter(are).collect()
}

fn is_nagle(held: &Held) -> bool {
    held.why == Why::Nagle
}

fn is_window(held: &Held) -> bool {
    matches!(held.why, Why::Window(_))
}

fn cost(connection: &Connection, are: impl Fn(&Held) -> bool) -> Duration {
    held(connection, are).iter().map(|held| held.cost).sum()
}

fn nagle(seen: &Seen<'_>, found: &mut Vec<Finding>) -> Duration {
    let time = seen.median(|c| cost(c, is_nagle));
    if time < seen.matters(LEAST) {
        return Duration::ZERO;
    }
    // On an open connection there are no tickets to wait behind. Is it as slow there, it is the server.
    let before = |c: &Connection| {
        let answered = Split::of(c).phase(PhaseName::Wait).map(|wait| wait.phase.end);
        cost(c, |held| is_nagle(held) && answered == Some(held.until))
    };
    let before = seen.median(before);
    let reused = seen.evidence.way(WayKind::Reused).and_then(|way| way.median(|c| Some(think(c))));
    if before * 4 >= time * 3
        && let Some(reused) = reused.filter(|reused| *reused * 4 >= before * 3)
    {
        return before.min(reused);
    }
    let n = seen.how_many(|c| !held(c, is_nagle).is_empty());
    let delayed = seen.median(|c| held(c, is_nagle).iter().map(|held| held.delayed).sum());
    let delayed = match delayed {
        Duration::ZERO => String::new(),
        delayed => format!(", {} of it for acknowledgements that this client delays", ms(delayed)),
    };
    let reused = match reused {
        Some(reused) if !before.is_zero() => {
            format!("; on an open connection the server takes {}", ms(reused))
        }
        _ => String::new(),
    };
    found.push(Finding {
        kind: FindingKind::Nagle,
        title: "the server waits for acknowledgements (Nagle's algorithm)".into(),
        cost: time,
        evidence: format!(
            "less than a full segment was held back until what went before it was acknowledged, in {n} of {} \
             connections, for {}{delayed}{reused}",
            seen.count(),
            ms(time)
        ),
        advice: NODELAY.into(),
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
    Duration::ZERO
}

/// How often a sender stands still that begins with so many segments and doubles them each round trip.
const fn standing(mut window: u64, mut segments: u64) -> u32 {
    let mut times = 0;
    while segments > window {
        segments -= window;
        window *= 2;
        times += 1;
    }
    times
}

/// What arrived in a phase, in segments.
fn segments(connection: &Connection, phase: PhaseName) -> u64 {
    let split = Split::of(connection);
    let Some(phase) = split.phase(phase).map(|split| split.phase) else { return 0 };
    let mss = connection.facts.tcp.as_ref().and_then(|tcp| tcp.send_mss).unwrap_or(1_448);
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let chunks = received.flat_map(|flight| &flight.chunks);
    let within = chunks.filter(|c| c.stamp.at > phase.start && c.stamp.at <= phase.end);
    within.map(|chunk| chunk.bytes).sum::<u64>().div_ceil(u64::from(mss.max(1)))
}

/// How often the window was full in a phase, the median over connections.
fn stalls(seen: &Seen<'_>, phase: PhaseName) -> u32 {
    let of = |c: &Connection| {
        let split = Split::of(c);
        let Some(phase) = split.phase(phase).map(|split| split.phase) else { return 0 };
        let within = |held: &&Held| held.until > phase.start && held.until <= phase.end;
        split.held.iter().filter(within).filter(|held| is_window(held)).count()
    };
    let mut counts: Vec<usize> = seen.connections().map(of).collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).and_then(|n| u32::try_from(*n).ok()).unwrap_or(0)
}

/// The window that the server began with, by most connections that show it.
fn initial_window(seen: &Seen<'_>) -> Option<u32> {
    let of = |c: &Connection| {
        held(c, is_window).iter().find_map(|held| match held.why {
            Why::Window(window) => window,
            _ => None,
        })
    };
    let mut windows: Vec<u32> = seen.connections().filter_map(of).collect();
    windows.sort_unstable();
    windows.get(windows.len() / 2).copied().filter(|_| windows.len() * 2 > seen.count())
}

fn windows(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let (Some(rtt), Some(middle)) = (seen.rtt, seen.subject.middle()) else { return };
    let small = initial_window(seen).filter(|window| *window < USUAL);
    let chain = middle.facts.tls.as_ref().and_then(TlsFacts::certificate_chain_bytes);
    let in_phase = |phase| {
        let stalls = stalls(seen, phase);
        let long_chain = phase == PhaseName::Tls && chain.is_some_and(|bytes| bytes >= LONG_CHAIN);
        if small.is_none() || long_chain {
            return stalls;
        }
        // As many as with the usual window.
        stalls.min(standing(USUAL.into(), segments(middle, phase)))
    };
    let (handshake, response) = (in_phase(PhaseName::Tls), in_phase(PhaseName::Receive));
    if let Some(window) = small {
        let cost = seen.median(|c| cost(c, is_window)).saturating_sub(rtt * (handshake + response));
        if cost >= seen.matters(LEAST) {
            found.push(small_window(seen, window, cost));
        }
    }
    if handshake > 0 && rtt * handshake >= seen.matters(LEAST) {
        found.push(large_chain(middle, rtt, handshake));
    }
    if response > 0 && rtt * response >= seen.matters(LEAST) {
        found.push(slow_start(middle, rtt, response));
    }
}

fn small_window(seen: &Seen<'_>, window: u32, cost: Duration) -> Finding {
    let mut times: Vec<usize> = seen.connections().map(|c| held(c, is_window).len()).collect();
    times.sort_unstable();
    let times = times.get(times.len() / 2).copied().unwrap_or(0);
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    let segments = if window == 1 { "one segment".into() } else { format!("{window} segments") };
    Finding {
        kind: FindingKind::SmallWindow,
        title: format!("the server's congestion window begins with {segments}"),
        cost,
        evidence: format!(
            "with so much under way it stood still {times} for acknowledgements, in the median of {}",
            seen.count()
        ),
        advice: "begin with ten segments, as is usual (RFC 6928; ip route … initcwnd 10)".into(),
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(cost), measured: None },
    }
}

/// The server's flight stood still for acknowledgements within the handshake.
fn large_chain(middle: &Connection, rtt: Duration, stalls: u32) -> Finding {
    let window = before_first_stall(middle);
    let window = window.map_or_else(String::new, |n| format!("after {} ", bytes(n)));
    let tls = middle.facts.tls.as_ref();
    let chain = tls.and_then(TlsFacts::certificate_chain_bytes);
    let chain = chain.map_or_else(String::new, |n| format!("; the certificates are {}", bytes(n)));
    Finding {
        kind: FindingKind::LargeChain,
        title: "the certificates outgrow the server's initial congestion window".into(),
        cost: rtt * stalls,
        evidence: format!(
            "{window}the server's flight stood still for {}{chain}",
            round_trips(stalls)
        ),
        advice:
            "send a shorter chain (no root, ECDSA instead of RSA), or begin with a larger window: \
                 ten segments are usual (RFC 6928; ip route … initcwnd 10)"
                .into(),
        concerns: None,
        change: Some(Change::SmallChain),
        saving: Saving::default(),
    }
}

/// Bytes that arrived until the window was full for the first time.
fn before_first_stall(connection: &Connection) -> Option<u64> {
    let until = held(connection, is_window).first()?.until;
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let before = received.flat_map(|f| &f.chunks).filter(|chunk| chunk.stamp.at < until);
    Some(before.map(|chunk| chunk.bytes).sum())
}

fn slow_start(middle: &Connection, rtt: Duration, stalls: u32) -> Finding {
    let size = middle.facts.http.as_ref().and_then(|http| http.body_bytes);
    let size =
        size.map_or_else(|| "the response".into(), |n| format!("a response of {}", bytes(n)));
    Finding {
        kind: FindingKind::SlowStart,
        title: "the response outgrows the server's congestion window".into(),
        cost: rtt * stalls,
        evidence: format!("{size} stood still for {}", round_trips(stalls)),
        advice:
            "send less before it is needed (compress, split), keep connections open so that the \
                 window has grown, or begin with a larger one"
                .into(),
        concerns: None,
        change: Some(Change::LargeWindow),
        saving: Saving::default(),
    }
}
