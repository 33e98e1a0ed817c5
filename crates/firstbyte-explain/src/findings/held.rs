//! What the server's TCP held back: Nagle's algorithm, a window that begins small, one that has to grow.

use std::time::Duration;

use super::exchange::think;
use super::{Seen, bytes, ms};
use crate::replay::Fault;
use crate::{Change, Finding, FindingKind, Saving, WayKind};
use firstbyte_core::split::{Held, Split, Why};
use firstbyte_core::timeline::{Connection, Direction, PhaseName, TlsFacts};

const NODELAY: &str = "Disable Nagle's algorithm on the server (TCP_NODELAY; nginx: tcp_nodelay \
                       on), or write the whole answer at once.";

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    nagle(seen, found);
    windows(seen, found);
}

fn held(connection: &Connection, are: impl Fn(&Held) -> bool) -> Vec<Held> {
    Split::attribute(connection).held.into_iter().filter(are).collect()
}

pub(super) fn is_nagle(held: &Held) -> bool {
    held.why == Why::Nagle
}

fn is_window(held: &Held) -> bool {
    matches!(held.why, Why::Window(_))
}

pub(super) fn cost(connection: &Connection, are: impl Fn(&Held) -> bool) -> Duration {
    held(connection, are).iter().map(|held| held.cost).sum()
}

fn nagle(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(time) = seen.cost(Fault::Nagle) else { return };
    // On an open connection there are no tickets to wait behind.
    let before = |c: &Connection| {
        let answered = Split::attribute(c).phase(PhaseName::Wait).map(|wait| wait.phase.end);
        cost(c, |held| is_nagle(held) && answered == Some(held.until))
    };
    let before = seen.median(before);
    let reused = seen.evidence.way(WayKind::Reused).and_then(|way| way.median(|c| Some(think(c))));
    let n = seen.how_many(|c| !held(c, is_nagle).is_empty());
    let delayed = seen.median(|c| held(c, is_nagle).iter().map(|held| held.delayed).sum());
    let delayed = match delayed {
        Duration::ZERO => String::new(),
        delayed => format!(", {} of it because this client delays acknowledgements", ms(delayed)),
    };
    let reused = match reused {
        Some(reused) if !before.is_zero() => {
            format!("; on an open connection the server takes {}", ms(reused))
        }
        _ => String::new(),
    };
    found.push(Finding {
        kind: FindingKind::Nagle,
        title: "The server waits for acknowledgements (Nagle's algorithm)".into(),
        cost: time,
        evidence: format!(
            "In {n} of {} connections, the server held back a partial segment until earlier data \
             was acknowledged. This cost {}{delayed}{reused}.",
            seen.count(),
            ms(time)
        ),
        advice: NODELAY.into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
}

/// What the window's being full in a phase cost.
pub(super) fn stalled(connection: &Connection, phase: PhaseName) -> Duration {
    let split = Split::attribute(connection);
    let Some(phase) = split.phase(phase).map(|split| split.phase) else { return Duration::ZERO };
    let within = |held: &&Held| held.until > phase.start && held.until <= phase.end;
    split.held.iter().filter(within).filter(|held| is_window(held)).map(|held| held.cost).sum()
}

fn windows(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(middle) = seen.subject.middle() else { return };
    if let (Some(windows), Some(cost)) = (seen.costs.windows, seen.cost(Fault::Window)) {
        found.push(small_window(seen, windows, cost));
    }
    if let Some(cost) = seen.cost(Fault::Chain) {
        found.push(large_chain(middle, cost));
    }
    if let Some(cost) = seen.cost(Fault::Body) {
        found.push(slow_start(middle, cost));
    }
}

fn small_window(seen: &Seen<'_>, windows: (u32, u32), cost: Duration) -> Finding {
    let segments = match windows {
        (1, 1) => "one segment".into(),
        (least, most) if least == most => format!("{least} segments"),
        (least, most) => format!("{least} to {most} segments"),
    };
    Finding {
        kind: FindingKind::SmallWindow,
        title: format!("The server's initial congestion window is {segments}"),
        cost,
        evidence: format!(
            "In {} connections, data arrived as from a server that sends {segments} and then waits \
             for acknowledgements; an initial window of ten segments would save {}.",
            seen.count(),
            ms(cost)
        ),
        advice: "Use the usual initial window of ten segments (RFC 6928; ip route … initcwnd \
                 10)."
            .into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(cost), measured: None },
    }
}

/// The certificates keep the handshake waiting: for acknowledgements, or because the link is slow.
fn large_chain(middle: &Connection, cost: Duration) -> Finding {
    let chain = middle.facts.tls.as_ref().and_then(TlsFacts::certificate_chain_bytes);
    let chain = chain.map_or_else(
        || "The certificates are large".into(),
        |n| format!("The certificates have {}", bytes(n)),
    );
    let stalled = stalled(middle, PhaseName::Tls);
    let title = if stalled.is_zero() {
        "The certificates are large for this link"
    } else {
        "The certificates exceed the server's initial congestion window"
    };
    Finding {
        kind: FindingKind::LargeChain,
        title: title.into(),
        cost,
        evidence: format!("{chain}; {}.", waited(middle, stalled)),
        advice:
            "Send a shorter chain (no root, ECDSA instead of RSA), or use a larger initial window: \
             ten segments are usual (RFC 6928; ip route … initcwnd 10)."
                .into(),
        avoided_by: None,
        concerns: None,
        change: Some(Change::SmallChain),
        saving: Saving::default(),
    }
}

/// What an answer waited for, in words.
fn waited(middle: &Connection, stalled: Duration) -> String {
    if stalled.is_zero() {
        return "sending them kept the link busy".into();
    }
    let window = before_first_stall(middle);
    let window = window.map_or_else(String::new, |n| format!("after {} ", bytes(n)));
    format!("{window}the server waited {} for acknowledgements", ms(stalled))
}

/// Bytes that arrived until the window was full for the first time.
fn before_first_stall(connection: &Connection) -> Option<u64> {
    let until = held(connection, is_window).first()?.until;
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let before = received.flat_map(|f| &f.chunks).filter(|chunk| chunk.stamp.at < until);
    Some(before.map(|chunk| chunk.bytes).sum())
}

/// The response outgrows the window, or is large for the link.
fn slow_start(middle: &Connection, cost: Duration) -> Finding {
    let size = middle.facts.http.as_ref().and_then(|http| http.body_bytes);
    let size =
        size.map_or_else(|| "The response".into(), |n| format!("A response of {}", bytes(n)));
    let stalled = stalled(middle, PhaseName::Receive);
    let (title, kept) = if stalled.is_zero() {
        ("The response is large for this link", "kept the link busy".to_owned())
    } else {
        let title = "The response exceeds the server's congestion window";
        (title, format!("waited {} for acknowledgements", ms(stalled)))
    };
    Finding {
        kind: FindingKind::SlowStart,
        title: title.into(),
        cost,
        evidence: format!("{size} {kept}."),
        advice:
            "Send less at first (compression, splitting), keep connections open so that the window \
             has grown, or use a larger initial window."
                .into(),
        avoided_by: None,
        concerns: None,
        change: Some(Change::LargeWindow),
        saving: Saving::default(),
    }
}
