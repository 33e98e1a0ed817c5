//! The receiving half of a Linux TCP connection: reassembly and acknowledgements.

use super::Nanos;
use super::wire::SACK_BLOCKS;

/// TCP_DELACK_MIN and TCP_ATO_MIN of Linux.
const DELAYED_ACK: Nanos = 40_000_000;
/// TCP_MAX_QUICKACKS of Linux: number of acknowledgements sent at once initially.
pub const QUICK_ACKS: u32 = 16;

#[derive(Debug)]
pub(super) struct Receiver {
    /// All bytes before this one have arrived.
    pub next: u64,
    /// Ranges received beyond `next`, sorted and disjoint.
    beyond: Vec<(u64, u64)>,
    /// The range that grew last, which comes first in a SACK (RFC 2018 §4).
    newest: (u64, u64),
    /// Last acknowledgement sent to the other side.
    told: u64,
    pub quick: u32,
    /// Interactive mode: data is answered with data, which carries the acknowledgements.
    pingpong: bool,
    last_received: Option<Nanos>,
    small_segments: u32,
    /// Whether the process reads so late that no acknowledgement is triggered by a read that empties the buffer.
    pub reads_late: bool,
    /// When a delayed acknowledgement is sent by itself.
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
    /// Processes a segment. Returns whether to acknowledge it at once.
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
        // RFC 5681 §4.2: acknowledge at once if out of order, in a hole, or a duplicate.
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

    /// State for the acknowledgement in every outgoing packet.
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

    /// A delayed acknowledgement is due: no data was sent to carry it, so interactive mode ends
    /// (`tcp_delack_timer_handler`).
    pub(super) fn timed_out(&mut self) {
        self.pingpong = false;
    }

    /// Records that this side sends data.
    pub(super) fn note_sending(&mut self, now: Nanos) {
        if self.last_received.is_some_and(|last| now - last < DELAYED_ACK) {
            self.pingpong = true;
        }
    }
}
