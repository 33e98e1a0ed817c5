//! The arrows of connection attempts: SYNs, retransmitted SYNs, and SYNs to other addresses.
//!
//! Input: attempts and marks. Output: arrows. These packets belong to no flight: their bytes are unknown, and the
//! times of retransmissions follow from TCP's timer.

use std::time::Duration;

use super::{Arrow, ArrowKind, Burst, Moment, half};
use crate::split::Split;
use crate::timeline::{Attempt, AttemptOutcome, Connection, Direction, Mark, Offset, PhaseName};

pub(super) fn arrows(connection: &Connection, split: &Split) -> Vec<Arrow> {
    let quic = connection.facts.quic.is_some()
        || connection.stops_in().is_some_and(|(phase, _)| phase == PhaseName::Quic);
    let Some(begun) = connection.marks.at(Mark::ConnectStart) else { return Vec::new() };
    let main = connection.attempts.iter().position(|a| a.outcome == AttemptOutcome::Won);
    let main = main.or(connection.attempts.len().checked_sub(1));
    let several = connection.attempts.len() > 1;
    let mut arrows = Vec::new();
    for (index, attempt) in connection.attempts.iter().enumerate() {
        let is_main = Some(index) == main;
        if quic && is_main {
            continue; // its Initial is a flight
        }
        let until = attempt.end.or(connection.stops_in().and_then(|(_, at)| at));
        let from = arrows.len();
        match attempt.outcome {
            AttemptOutcome::Won => won(connection, attempt.start, split, &mut arrows),
            _ => lost(attempt, until, (is_main, quic), &mut arrows),
        }
        for arrow in &mut arrows[from..] {
            arrow.remote = several.then_some(attempt.remote);
        }
    }
    if connection.attempts.is_empty() && !quic {
        won(connection, begun, split, &mut arrows);
    }
    arrows
}

/// When an unanswered SYN is retransmitted, in seconds after the first: after 1 s, and then after twice as long each
/// time (RFC 6298 §2, §5.5).
const SENT_AGAIN: [u64; 6] = [1, 3, 7, 15, 31, 63];

/// An attempt that succeeded.
fn won(connection: &Connection, start: Offset, split: &Split, arrows: &mut Vec<Arrow>) {
    let Some(connected) = connection.marks.at(Mark::TcpConnected) else {
        arrows.push(syn(0, Moment::seen(start), None));
        return;
    };
    let again = sent_again(connection, start, connected, split.rtt);
    let mut departed = Moment::seen(start);
    for (number, &after) in SENT_AGAIN.iter().enumerate().take(again) {
        arrows.push(Arrow { unanswered: true, ..syn(number as u32, departed, None) });
        // The answer gives the departure time of the last SYN: the timer runs late, never early.
        let at = match split.rtt {
            Some(rtt) if number + 1 == again => connected - rtt,
            _ => start + Duration::from_secs(after),
        };
        departed = Moment::estimated(at);
    }
    let there = departed.at + half(connected.since(departed.at));
    arrows.push(syn(again as u32, departed, Some(Moment::estimated(there))));
    arrows.push(packet(
        ArrowKind::SynAck,
        Direction::Received,
        "SYN/ACK",
        Some(Moment::estimated(there)),
        Some(Moment::seen(connected)),
    ));
}

/// Number of retransmissions up to the SYN that was answered.
fn sent_again(
    connection: &Connection,
    start: Offset,
    connected: Offset,
    rtt: Option<Duration>,
) -> usize {
    let tcp = connection.facts.tcp.as_ref();
    if tcp.and_then(|t| t.retransmits) == Some(0) {
        return 0;
    }
    let Some(rtt) = rtt else { return 0 };
    // The kernel's timers run late, never early; the round trip may have been slightly shorter.
    let waited = connected.since(start).saturating_sub(rtt) + rtt / 4 + Duration::from_millis(10);
    SENT_AGAIN.iter().take_while(|after| Duration::from_secs(**after) <= waited).count()
}

/// An attempt that failed or was abandoned.
fn lost(
    attempt: &Attempt,
    until: Option<Offset>,
    (main, quic): (bool, bool),
    arrows: &mut Vec<Arrow>,
) {
    // A closed port answers UDP with ICMP.
    let (first, refusal) = if quic { ("Initial", "port unreachable") } else { ("SYN", "RST") };
    let kind = |retransmission| match main {
        true => ArrowKind::Syn { retransmission },
        false => ArrowKind::OtherAttempt,
    };
    let refused =
        matches!(&attempt.outcome, AttemptOutcome::Failed { error } if error.contains("refused"));
    if let (true, Some(end)) = (refused, until) {
        let there = Some(Moment::estimated(attempt.start + half(end.since(attempt.start))));
        let (sent, received) = (Direction::Sent, Direction::Received);
        arrows.push(packet(kind(0), sent, first, Some(Moment::seen(attempt.start)), there));
        arrows.push(packet(ArrowKind::Reset, received, refusal, there, Some(Moment::seen(end))));
        return;
    }
    let waited = until.map_or(Duration::ZERO, |end| end.since(attempt.start));
    let again = SENT_AGAIN.iter().map(|after| Duration::from_secs(*after));
    let again = again.take_while(|after| *after < waited).map(|after| (after, true));
    for (number, (after, estimated)) in
        (0..).zip([(Duration::ZERO, false)].into_iter().chain(again))
    {
        if estimated && !main {
            break; // one arrow tells as much
        }
        let departed = Moment { at: attempt.start + after, estimated };
        let arrow = packet(kind(number), Direction::Sent, first, Some(departed), None);
        arrows.push(Arrow { unanswered: true, ..arrow });
    }
}

fn syn(retransmission: u32, departed: Moment, arrived: Option<Moment>) -> Arrow {
    let kind = ArrowKind::Syn { retransmission };
    let arrow = packet(kind, Direction::Sent, "SYN", Some(departed), arrived);
    Arrow { unanswered: arrived.is_none(), ..arrow }
}

/// A packet without data.
fn packet(
    kind: ArrowKind,
    direction: Direction,
    name: &str,
    departed: Option<Moment>,
    arrived: Option<Moment>,
) -> Arrow {
    let burst = Burst { departed, arrived, spread: Duration::ZERO, bytes: None, chunks: 1 };
    Arrow {
        kind,
        direction,
        messages: vec![name.into()],
        bursts: vec![burst],
        unanswered: false,
        remote: None,
    }
}
