//! What held each arrival back over QUIC.
//!
//! Input: a [`Connection`] over QUIC and its round-trip time. Output: the [`Reading`] of which arrivals an
//! acknowledgement released. Definitions: `docs/measurement.md`.

use std::time::Duration;

use super::acks::By;
use super::judge::{Reading, Release, Released, Why};
use crate::timeline::{Connection, Direction, Mark, Offset};

/// Over QUIC nothing is known of acknowledgements: an answer that stood still for about a round trip, after as
/// much as a congestion window begins with (RFC 9002 §7.2: ten datagrams), waited for them; and in the
/// handshake, after three times what an unvalidated client had sent (RFC 9000 §8.1).
pub(super) fn datagrams(connection: &Connection, rtt: Duration) -> Reading {
    const WINDOW: u64 = 10 * 1_200;
    const AMPLIFICATION: u64 = 3;
    let handshake = connection.marks.at(Mark::HandshakeComplete);
    let mut reading = Reading::default();
    let (mut sent, mut run) = (0, 0);
    let mut previous: Option<Offset> = None;
    for flight in &connection.flights {
        for chunk in &flight.chunks {
            let at = chunk.stamp.at;
            if flight.direction == Direction::Sent {
                sent += chunk.bytes;
                continue;
            }
            let unvalidated = handshake.is_none_or(|handshake| at <= handshake);
            let limit = if unvalidated { WINDOW.min(AMPLIFICATION * sent) } else { WINDOW };
            if let Some(cause) = previous
                && at.since(cause) >= rtt / 2
            {
                // The last datagram that fitted may have been a small one.
                if run + 1_200 > limit {
                    let by = Released::Acknowledgement(By::Segment);
                    let (left, earliest, why) = (cause, cause, Why::Window(None));
                    reading.releases.push(Release { arrived: at, left, cause, earliest, by, why });
                }
                run = 0;
            }
            run += chunk.bytes;
            previous = Some(at);
        }
    }
    reading
}
