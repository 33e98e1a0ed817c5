//! How many round trips a response waited for its sender's congestion window.
//!
//! A new connection's sender may have ten segments unacknowledged (RFC 6928), and one more for each acknowledged
//! segment. Input: the responses of one connection, with their earliest beginnings and sizes. Output: the round trips
//! that each spent waiting for the window. Losses and the sender's other limits are not known, so the observed times
//! bound the result.

use std::collections::VecDeque;

/// Bytes that a sender may have unacknowledged at first: ten full segments.
const INITIAL_WINDOW: u64 = 14_600;
/// Payload of a full segment, in bytes.
const SEGMENT: u64 = 1_460;
/// Readers need a whole TLS record, and servers fill them: 2^14 bytes (RFC 8446 §5.1).
const RECORD: u64 = 16_384;
/// Beyond this many bytes, the link determines the time, not the window.
const COUNTED_BYTES: u64 = 2_000_000;

/// A sender in slow start, as the receiver sees it: times are arrival times.
pub(super) struct Window {
    round_trip: i64,
    /// Bytes that may be unacknowledged.
    size: u64,
    in_flight: u64,
    /// When acknowledgements make room for more data to arrive, and for how many bytes.
    acknowledged: VecDeque<(i64, u64)>,
    /// Arrival of the last byte so far: responses are sent one after the other.
    last: i64,
}

impl Window {
    pub(super) fn new(round_trip: i64) -> Self {
        Self {
            round_trip: round_trip.max(1),
            size: INITIAL_WINDOW,
            in_flight: 0,
            acknowledged: VecDeque::new(),
            last: i64::MIN,
        }
    }

    /// When the first and the last TLS record of `bytes` arrive, if the first could arrive at `from`.
    pub(super) fn deliver(&mut self, from: i64, bytes: u64) -> (i64, i64) {
        let mut now = from.max(self.last);
        let mut first = None;
        let all = bytes.clamp(1, COUNTED_BYTES);
        let mut left = all;
        while left > 0 {
            self.take_acknowledgements(now);
            let segment = left.min(SEGMENT);
            if self.in_flight > 0 && self.in_flight + segment > self.size {
                let Some((at, _)) = self.acknowledged.front() else { break };
                now = now.max(*at);
                continue;
            }
            self.in_flight += segment;
            self.acknowledged.push_back((now + self.round_trip, segment));
            left -= segment;
            if all - left >= all.min(RECORD) {
                first = first.or(Some(now));
            }
        }
        self.last = now;
        (first.unwrap_or(now), now)
    }

    fn take_acknowledgements(&mut self, now: i64) {
        while let Some((_, bytes)) = self.acknowledged.front().copied().filter(|(at, _)| *at <= now)
        {
            self.acknowledged.pop_front();
            self.in_flight -= bytes;
            self.size += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_with_every_round_trip() {
        let ends = |bytes| Window::new(10).deliver(0, bytes).1;
        assert_eq!([ends(14_600), ends(14_601), ends(43_800), ends(43_801)], [0, 10, 10, 20]);
    }

    #[test]
    fn what_came_before_has_opened_it() {
        let mut window = Window::new(10);
        assert_eq!(window.deliver(0, 14_600), (0, 0));
        // Nothing is acknowledged yet.
        assert_eq!(window.deliver(5, 1_000), (10, 10));
        assert_eq!(window.deliver(100, 29_000), (100, 100));
    }

    #[test]
    fn a_record_that_does_not_fit_is_late_as_a_whole() {
        assert_eq!(Window::new(10).deliver(0, 24_000), (10, 10));
        assert_eq!(Window::new(10).deliver(0, 50_000), (10, 20));
    }
}
