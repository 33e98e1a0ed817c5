//! Round trips of a connection that scale with distance, beyond those that the handshake is seen to wait for.
//!
//! In: an [`Observed`]. Out: counts. A capture at a server nearby shows a round trip of 0.2 ms, however many there are;
//! farther away each of them counts (`docs/wire.md`, "At other round trips").

use super::super::Doubts;
use super::super::observed::{Carrier, Observed};

/// TCP's initial window: ten segments (RFC 6928) of 1,448 bytes (Ethernet, with timestamps).
const WINDOW_TCP: u64 = 10 * 1_448;
/// QUIC's initial window (RFC 9002 §7.2): ten datagrams of 1,200 bytes.
const WINDOW_QUIC: u64 = 10 * 1_200;

/// Doubts that mean there may have been more or larger flights than were seen, or retransmitted ones.
const UNCOUNTED: Doubts = Doubts::MID_STREAM
    .with(Doubts::ONE_SIDED)
    .with(Doubts::GAP)
    .with(Doubts::CUT)
    .with(Doubts::LOSS_IN_HANDSHAKE)
    .with(Doubts::CLOCK_STEP)
    .with(Doubts::FASTER_THAN_PATH)
    .with(Doubts::RECORDS_LOST);

/// Answers from the server that the first request did not wait for: it was sent before they came (early data that was
/// not refused, or a false start: RFC 7918).
pub(super) fn overlapped(observed: &Observed) -> u32 {
    let Some(first) = observed.exchanges.first.first() else { return 0 };
    let early = observed.tls.as_deref().and_then(|tls| tls.early_data);
    if early.is_some_and(|early| early.accepted == Some(false)) {
        return 0;
    }
    let later = |start| first.request_start < start;
    observed.flights.iter().filter(|flight| !flight.by_client && later(flight.start)).count() as u32
}

/// Round trips of the handshake: the server's answers, and those needed by large flights.
///
/// A flight larger than the initial window waits for acknowledgments, with the window doubled each time (slow start,
/// RFC 5681 §3.1). Absent if the handshake was not seen to its end, or part of it was lost.
pub(super) fn of_handshake(observed: &Observed) -> Option<u32> {
    let time = observed.handshake_time?;
    if !time.confident && observed.doubts.any(UNCOUNTED) {
        return None;
    }
    let window = match observed.carrier {
        Carrier::Tcp => WINDOW_TCP,
        Carrier::Quic => WINDOW_QUIC,
    };
    let more: u32 = observed.flights.iter().map(|flight| beyond(flight.bytes, window)).sum();
    Some(time.round_trips + more)
}

/// How often `bytes` have to wait for an acknowledgment.
fn beyond(bytes: u64, window: u64) -> u32 {
    let (mut sent, mut allowed, mut waits) = (window, window, 0);
    while sent < bytes {
        allowed = allowed.saturating_mul(2);
        sent = sent.saturating_add(allowed);
        waits += 1;
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_doubles_with_each_round_trip() {
        let waits = [0, 14_480, 14_481, 43_440, 43_441, 101_360, 101_361, u64::MAX]
            .map(|bytes| beyond(bytes, WINDOW_TCP));
        assert_eq!(waits[..7], [0, 0, 1, 1, 2, 2, 3]);
        assert!(waits[7] < 64);
    }
}
