//! The receiving half of a TCP connection as Linux has it: what is whole, and when it is acknowledged.

use super::Nanos;
use super::wire::SACK_BLOCKS;

/// TCP_DELACK_MIN and TCP_ATO_MIN of Linux.
const DELAYED_ACK: Nanos = 40_000_000;
/// TCP_MAX_QUICKACKS of Linux: so many acknowledgements are sent at once at first.
pub const QUICK_ACKS: u32 = 16;

#[derive(Debug)]
pub(super) struct Receiver {
    /// Everything before it has arrived.
    pub next: u64,
    /// What arrived beyond, in order and apart from each other.
    beyond: Vec<(u64, u64)>,
    /// The range that grew last comes first in a SACK (RFC 2018 §4).
    newest: (u64, u64),
    /// What the other side was told last.
    told: u64,
    pub quick: u32,
    /// Data is answered with data: acknowledgements ride on it.
    pingpong: bool,
    last_received: Option<Nanos>,
    small_segments: u32,
    /// The process reads so late that nothing is acknowledged by a read that empties the buffer.
    pub reads_late: bool,
    /// When what is held back is acknowledged by itself.
    pub ack_at: Option<Nanos>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            next: 0,
            beyond: Vec::new(),
            newest: (0, 0),
            told: 0,
            quick: QUICK_ACKS,
            pingpong: false,
            last_received: None,
            small_segments: 0,
            reads_late: false,
            ack_at: None,
        }
    }
}

impl Receiver {
    /// A segment arrives. Whether it is acknowledged at once.
    pub(super) fn receive(&mut self, now: Nanos, start: u64, end: u64, mss: u64) -> bool {
        self.last_received = Some(now);
        let in_order = start <= self.next && end > self.next;
        let holes = !self.beyond.is_empty();
        if in_order {
            self.next = end;
            let next = &mut self.next;
            self.beyond.retain(|range| {
                if range.0 <= *next {
                    *next = range.1.max(*next);
                }
                range.1 > *next
            });
        } else if end > self.next {
            self.keep(start, end);
        }
        // RFC 5681 §4.2: out of order, in a hole, or again: at once.
        if !in_order || holes {
            return true;
        }
        if self.quick > 0 && !self.pingpong {
            self.quick -= 1;
            return true;
        }
        self.small_segments += u32::from(end - start < mss);
        if self.next - self.told > mss || self.small_segments > 1 && !self.reads_late {
            return true;
        }
        self.ack_at.get_or_insert(now + DELAYED_ACK);
        false
    }

    fn keep(&mut self, mut start: u64, mut end: u64) {
        self.beyond.retain(|range| {
            let apart = range.1 < start || range.0 > end;
            if !apart {
                start = start.min(range.0);
                end = end.max(range.1);
            }
            apart
        });
        let at = self.beyond.partition_point(|range| range.0 < start);
        self.beyond.insert(at, (start, end));
        self.newest = (start, end);
    }

    /// Everything that leaves says what has arrived.
    pub(super) fn acknowledge(&mut self) -> (u64, [(u64, u64); SACK_BLOCKS]) {
        self.told = self.next;
        self.ack_at = None;
        self.small_segments = 0;
        let mut sacks = [(0, 0); SACK_BLOCKS];
        if !self.beyond.is_empty() {
            let newest = self.beyond.iter().find(|range| **range == self.newest);
            let others = self.beyond.iter().rev().filter(|range| **range != self.newest);
            for (into, range) in sacks.iter_mut().zip(newest.into_iter().chain(others)) {
                *into = *range;
            }
        }
        (self.next, sacks)
    }

    /// The time of a delayed acknowledgement has come: nothing was sent for it to ride on, and data is not answered
    /// with data any more (`tcp_delack_timer_handler`).
    pub(super) fn timed_out(&mut self) {
        self.pingpong = false;
    }

    /// This side sends data.
    pub(super) fn note_sending(&mut self, now: Nanos) {
        if self.last_received.is_some_and(|last| now - last < DELAYED_ACK) {
            self.pingpong = true;
        }
    }
}
