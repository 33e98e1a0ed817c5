//! Data that the server's TCP held back: Nagle's algorithm, a small initial window, and slow start.

use std::time::Duration;

use super::exchange::think;
use super::{Seen, bytes, ms};
use crate::replay::Fault;
use crate::{Finding, FindingKind, TimeSaved, WayKind};
use firstbyte_core::split::server_model::constants::USUAL_WINDOW_PACKETS;
use firstbyte_core::split::{AttributedConnection, Held, Why, segment_bytes};
use firstbyte_core::timeline::{Direction, PhaseName, TlsFacts};

const NODELAY: &str = "Disable Nagle's algorithm on the server (TCP_NODELAY; nginx: tcp_nodelay \
                       on), or write the whole answer at once.";

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    nagle(seen, found);
    windows(seen, found);
}

fn held(connection: &AttributedConnection, are: impl Fn(&Held) -> bool) -> Vec<Held> {
    connection.split.held.iter().filter(|held| are(held)).copied().collect()
}

pub(super) fn is_nagle(held: &Held) -> bool {
    held.why == Why::Nagle
}

fn is_window(held: &Held) -> bool {
    matches!(held.why, Why::Window(_))
}

pub(super) fn cost(connection: &AttributedConnection, are: impl Fn(&Held) -> bool) -> Duration {
    held(connection, are).iter().map(|held| held.cost).sum()
}

fn nagle(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(saved) = seen.saved(Fault::Nagle) else { return };
    let time = saved.total;
    // On a reused connection the response does not queue behind tickets.
    let before = |c: &AttributedConnection| {
        let answered = c.split.phase(PhaseName::Wait).map(|wait| wait.phase.end);
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
        title: "The server waits for acknowledgements (Nagle's algorithm)".into(),
        evidence: format!(
            "In {n} of {} connections, the server held back a partial segment until earlier data \
             was acknowledged. This cost {}{delayed}{reused}.",
            seen.count(),
            ms(time)
        ),
        advice: NODELAY.into(),
        ..Finding::saving(FindingKind::Nagle, saved)
    });
}

/// Cost of a full window in a phase.
pub(super) fn stalled(connection: &AttributedConnection, phase: PhaseName) -> Duration {
    let split = &connection.split;
    let Some(phase) = split.phase(phase).map(|split| split.phase) else { return Duration::ZERO };
    let within = |held: &&Held| held.until > phase.start && held.until <= phase.end;
    split.held.iter().filter(within).filter(|held| is_window(held)).map(|held| held.cost).sum()
}

/// Cost of a full window after the first packet of the response. If the first record is larger than the window, the
/// first byte waits for it.
pub(super) fn response_stalled(connection: &AttributedConnection) -> Duration {
    let begun = connection.connection.marks.first_packet_of_response();
    let within = |held: &&Held| is_window(held) && begun.is_some_and(|begun| held.until > begun);
    connection.split.held.iter().filter(within).map(|held| held.cost).sum()
}

fn windows(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(middle) = seen.subject.middle() else { return };
    if let (Some(windows), Some(saved)) = (seen.costs.windows, seen.saved(Fault::Window)) {
        found.push(small_window(seen, windows, saved));
    }
    if let Some(saved) = seen.saved(Fault::Chain) {
        found.push(large_chain(middle, saved));
    }
    if let Some(saved) = seen.saved(Fault::Body) {
        // A window that is too small for any response is a separate finding.
        let usual_window = seen.saved(Fault::Window).map(|saved| saved.total);
        let both = seen.costs.saved(&[Fault::Window, Fault::Body]).total;
        if usual_window.is_some_and(|usual| both.saturating_sub(usual) < seen.least()) {
            return;
        }
        if seen.most(|c| !response_stalled(c).is_zero()) {
            found.push(slow_start(middle, saved));
        } else if seen.costs.rate.is_some() && is_large(middle) {
            found.push(large_response(middle, saved));
        }
    }
}

fn small_window(seen: &Seen<'_>, windows: (u32, u32), saved: TimeSaved) -> Finding {
    let cost = saved.total;
    let segments = match windows {
        (1, 1) => "one segment".into(),
        (least, most) if least == most => format!("{least} segments"),
        (least, most) => format!("{least} to {most} segments"),
    };
    Finding {
        title: format!("The server's initial congestion window is {segments}"),
        evidence: format!(
            "In {} connections, data arrived as from a server that sends {segments} and then waits \
             for acknowledgements; an initial window of ten segments would save {}.",
            seen.count(),
            ms(cost)
        ),
        advice: "Use the usual initial window of ten segments (RFC 6928; ip route … initcwnd \
                 10)."
            .into(),
        ..Finding::saving(FindingKind::SmallWindow, saved)
    }
}

/// The handshake waits for the certificates: for acknowledgements, or because the link is slow.
fn large_chain(middle: &AttributedConnection, saved: TimeSaved) -> Finding {
    let chain = middle.connection.facts.tls.as_ref().and_then(TlsFacts::certificate_chain_bytes);
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
        title: title.into(),
        evidence: format!("{chain}; {}.", waited(middle, stalled)),
        advice:
            "Send a shorter chain (no root, ECDSA instead of RSA), or use a larger initial window: \
             ten segments are usual (RFC 6928; ip route … initcwnd 10)."
                .into(),
        ..Finding::saving(FindingKind::LargeChain, saved)
    }
}

/// What an answer waited for, as text.
fn waited(middle: &AttributedConnection, stalled: Duration) -> String {
    if stalled.is_zero() {
        return "sending them kept the link busy".into();
    }
    let window = before_first_stall(middle);
    let window = window.map_or_else(String::new, |n| format!("after {} ", bytes(n)));
    format!("{window}the server waited {} for acknowledgements", ms(stalled))
}

/// Bytes that arrived before the window was first full.
fn before_first_stall(connection: &AttributedConnection) -> Option<u64> {
    let until = held(connection, is_window).first()?.until;
    let received =
        connection.connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let before = received.flat_map(|f| &f.chunks).filter(|chunk| chunk.stamp.at < until);
    Some(before.map(|chunk| chunk.bytes).sum())
}

/// The response's size, as text.
fn response_size(middle: &AttributedConnection) -> String {
    let size = middle.connection.facts.http.as_ref().and_then(|http| http.body_bytes);
    size.map_or_else(|| "The response".into(), |n| format!("A response of {}", bytes(n)))
}

/// Whether the response exceeds a window of ten segments.
fn is_large(connection: &AttributedConnection) -> bool {
    let body = connection.connection.facts.http.as_ref().and_then(|http| http.body_bytes);
    let window = u64::from(USUAL_WINDOW_PACKETS) * segment_bytes(&connection.connection);
    body.is_some_and(|bytes| bytes > window)
}

/// Corresponds to the response's "full window" term in the equation.
fn slow_start(middle: &AttributedConnection, saved: TimeSaved) -> Finding {
    let waited = ms(response_stalled(middle));
    Finding {
        title: "The response fills the server's congestion window".into(),
        evidence: format!("{} waited {waited} for acknowledgements.", response_size(middle)),
        advice:
            "Send less at first (compression, splitting), keep connections open so that the window \
             has grown, or use a larger initial window."
                .into(),
        ..Finding::saving(FindingKind::SlowStart, saved)
    }
}

fn large_response(middle: &AttributedConnection, saved: TimeSaved) -> Finding {
    Finding {
        title: "The response is large for this link".into(),
        evidence: format!("{} kept the link busy.", response_size(middle)),
        advice: "Send less at first (compression, splitting).".into(),
        ..Finding::saving(FindingKind::LargeResponse, saved)
    }
}
