//! The peer's last sign of life when the time runs out: paths that drop large packets, and limits too short for a
//! verdict.

use std::time::Duration;

use firstbyte_core::timeline::LastSeen;

use super::visit::{Asked, Client, simulated};
use crate::net::simulated::{Path, Said, Silent, StreamPeer};

const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Answers with one write of zeros.
struct ZerosPeer(usize);

impl StreamPeer for ZerosPeer {
    fn take(&mut self, _: &[u8]) -> Vec<Said> {
        vec![Said::bytes(0, vec![0; self.0])]
    }
}

/// The peer's last sign of life after `after_ms`.
fn timed_out(path: Path, after_ms: u64, peer: impl StreamPeer + 'static) -> LastSeen {
    simulated(async {
        let mut client = Client::new(&Asked::default());
        client.path = path;
        client.time_out(Duration::from_millis(after_ms), peer).await
    })
}

#[test]
fn an_answer_whose_large_segments_vanish_has_a_hole() {
    let path = Path { round_trip: ROUND_TRIP, passes: 1_400, ..Path::default() };
    assert_eq!(timed_out(path, 3_000, ZerosPeer(2_000)), LastSeen::Hole);
    // A lost segment would not have been retransmitted by then.
    assert_eq!(timed_out(path, 900, ZerosPeer(2_000)), LastSeen::Acknowledged);
    // The whole response is lost, so nothing shows that there was one.
    assert_eq!(timed_out(path, 3_000, ZerosPeer(1_448)), LastSeen::Acknowledged);
}

#[test]
fn a_hello_whose_first_segment_vanishes_is_stuck() {
    let path = Path { round_trip: ROUND_TRIP, segment: 200, passes: 150, ..Path::default() };
    let LastSeen::HelloStuck { hello_bytes, segment_bytes, retransmits, end_arrived } =
        timed_out(path, 3_000, Silent)
    else {
        panic!("not stuck");
    };
    assert!((200..400).contains(&hello_bytes), "{hello_bytes}");
    assert_eq!((segment_bytes, retransmits, end_arrived), (200, 4, true));
    // A ClientHello that fits in one segment is merely unanswered.
    let path = Path { segment: 1_448, ..path };
    assert_eq!(timed_out(path, 3_000, Silent), LastSeen::Nothing);
}

#[test]
fn silence_counts_once_it_is_longer_than_an_answer_takes() {
    for (round_trip, limit, expected) in [
        // Connected after 41 ms, acknowledged after 81 ms.
        (40, 60, LastSeen::TooSoon),
        (40, 170, LastSeen::TooSoon),
        (40, 220, LastSeen::Acknowledged),
        (200, 900, LastSeen::TooSoon),
        (200, 1_100, LastSeen::Acknowledged),
    ] {
        let path = Path { round_trip: Duration::from_millis(round_trip), ..Path::default() };
        let seen = timed_out(path, limit, Silent);
        assert_eq!(seen, expected, "{round_trip} ms, {limit} ms");
    }
}
