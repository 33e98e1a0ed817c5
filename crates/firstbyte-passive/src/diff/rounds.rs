//! Round trips of a connection that its distance multiplies, besides those that the handshake is seen to wait for.
//!
//! In: an [`Observed`]. Out: counts. What they are for: a capture at a server next door shows a round trip of 0.2 ms
//! no matter how many there are; farther away each of them counts (`docs/wire.md`, "At other round trips").

use super::super::Doubts;
use super::super::observed::{Carrier, Observed};

/// What TCP may have under way before anything is acknowledged: ten segments (RFC 6928) of 1,448 bytes (Ethernet, with
/// time stamps).
const WINDOW_TCP: u64 = 10 * 1_448;
/// The same over QUIC (RFC 9002 §7.2): ten datagrams of 1,200 bytes.
const WINDOW_QUIC: u64 = 10 * 1_200;

/// Doubts with which there may have been more flights, or larger ones, than were seen, or repeated ones.
const UNCOUNTED: Doubts = Doubts::MID_STREAM
    .with(Doubts::ONE_SIDED)
    .with(Doubts::GAP)
    .with(Doubts::CUT)
    .with(Doubts::LOSS_IN_HANDSHAKE)
    .with(Doubts::CLOCK_STEP)
    .with(Doubts::FASTER_THAN_PATH)
    .with(Doubts::RECORDS_LOST);

/// Answers of the server that the first request did not wait for: it left before they came (early data that was not
/// refused, a false start: RFC 7918).
pub(super) fn overlapped(observed: &Observed) -> u32 {
    let Some(first) = observed.exchanges.first.first() else { return 0 };
    let early = observed.tls.as_deref().and_then(|tls| tls.early_data);
    if early.is_some_and(|early| early.accepted == Some(false)) {
        return 0;
    }
    let later = |start| first.request_start < start;
    observed.flights.iter().filter(|flight| !flight.by_client && later(flight.start)).count() as u32
}

/// Round trips of the handshake: the server's answers, and those that its flights need besides. Each flight that is larger
/// than the initial window waits for acknowledgments, with the window doubled each time (slow start, RFC 5681 §3.1). Absent where
/// the handshake was not seen to its end, or something of it was lost.
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
