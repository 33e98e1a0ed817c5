//! Times of the client's acknowledgements. Pure acknowledgements have no timestamps, so this module simulates them as
//! Linux sends them.
//!
//! Input: the segments that arrived, the process's reads if they are known, and the client's sends. Output: every
//! acknowledgement, in order.

use super::constants::*;

/// An event at the client's device, nanoseconds from the origin; byte offsets in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A segment arrived.
    Segment { at: i64, start: u64, end: u64 },
    /// The process read all bytes before `end`.
    Read { at: i64, end: u64 },
    /// The client sent data, with an acknowledgement of all that had arrived.
    Sent { at: i64 },
}

impl Event {
    pub(crate) fn at(&self) -> i64 {
        match *self {
            Self::Segment { at, .. } | Self::Read { at, .. } | Self::Sent { at } => at,
        }
    }
}

/// What triggered an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The segment itself, at once.
    Segment,
    /// The client's data, which carried it.
    Data,
    /// The client's read, some time after the segment.
    Read,
    /// The timer of delayed acknowledgements.
    Timer,
}

/// An acknowledgement of all bytes before `covers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub left: i64,
    pub covers: u64,
    pub by: By,
    /// Arrival of the segment that it acknowledges: the first one held back, or the last.
    pub arrived: i64,
    /// It may not have been sent, depending on when the process read.
    pub uncertain: bool,
}

impl Ack {
    /// Earliest possible departure.
    pub(crate) fn earliest(&self) -> i64 {
        if self.by == By::Timer { self.left - TICK_EARLIER_NS } else { self.left }
    }

    /// Maximum delay of the departure after `left`.
    pub(crate) fn slack(&self) -> i64 {
        match self.by {
            By::Timer => TICK_LATER_NS,
            By::Read if self.left == self.arrived => READ_NS,
            By::Read | By::Segment | By::Data => 0,
        }
    }

    /// Whether it depends on a read at an unknown time.
    pub(crate) fn is_of_unknown_read(&self) -> bool {
        self.by == By::Read && self.left == self.arrived
    }
}

/// The receiving half of Linux's TCP, in order (`tcp_ack_snd_check`, `tcp_event_data_sent`).
#[derive(Debug, Default)]
struct Client {
    received: u64,
    told: u64,
    /// Interactive mode: data is answered with data, which carries the acknowledgements.
    pingpong: bool,
    last: Option<i64>,
    /// Segments that arrived back to back.
    burst: u32,
    small: u32,
    reads: Reads,
    /// Since when an acknowledgement is held back.
    held: Option<i64>,
    acks: Vec<Ack>,
}

/// When the client's process reads.
///
/// A read that empties the buffer after two small segments acknowledges both (`tcp_cleanup_rbuf`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    /// At the times given by events.
    Known,
    /// Assumed: at once.
    AtOnce,
    /// Assumed: so late that the timer acknowledges first.
    #[default]
    Late,
}

/// Unknown properties of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Habit {
    pub reads: Reads,
    /// Earlier requests were answered, so that acknowledgements wait for data to carry them.
    pub pingpong: bool,
}

/// The acknowledgements that a Linux client sends.
pub(crate) fn acknowledgements(events: &[Event], mss: u64, habit: Habit) -> Vec<Ack> {
    let Habit { reads, pingpong } = habit;
    let mut client = Client { pingpong, reads, ..Client::default() };
    for event in events {
        match *event {
            Event::Segment { at, start, end } => client.receive(at, start, end, mss),
            Event::Read { at, end } => client.read(at, end, mss),
            Event::Sent { at } => client.send(at),
        }
    }
    client.tick(i64::MAX);
    client.acks
}

impl Client {
    fn acknowledge(&mut self, left: i64, by: By) {
        let arrived = if by == By::Timer { self.held } else { self.last };
        let arrived = arrived.unwrap_or(left);
        self.acks.push(Ack { left, covers: self.received, by, arrived, uncertain: false });
        (self.told, self.held, self.small) = (self.received, None, 0);
    }

    fn tick(&mut self, now: i64) {
        if let Some(due) = self.held.map(|since| since.saturating_add(DELAYED_ACK_NS))
            && due <= now
        {
            self.acknowledge(due, By::Timer);
            // tcp_delack_timer_handler
            self.pingpong = false;
        }
    }

    fn receive(&mut self, at: i64, start: u64, end: u64, mss: u64) {
        self.tick(at);
        let follows = self.last.is_some_and(|last| at - last <= TOGETHER_NS);
        self.burst = if follows { self.burst + 1 } else { 1 };
        self.last = Some(at);
        self.received = self.received.max(end);
        // Sixteen at first, and more while the receive buffer grows (`tcp_grow_window`): a megabyte and more.
        if !self.pingpong {
            return self.acknowledge(at, By::Segment);
        }
        self.small += u32::from(end - start + RECORD_BYTES < mss);
        if self.received - self.told > mss + RECORD_BYTES {
            return self.acknowledge(at, By::Segment);
        }
        if self.reads == Reads::AtOnce && self.small > 1 {
            return self.acknowledge(at, By::Read);
        }
        self.held.get_or_insert(at);
        // The two segments before it are acknowledged at once only if the window moves on with them, which it does not
        // before they are read. The read then acknowledges all three, or anything a few bytes larger than a full
        // segment (`__tcp_ack_snd_check`, `tcp_cleanup_rbuf`).
        if self.burst > 2 || self.received - self.told > mss {
            let (covers, by) = (self.received, By::Read);
            self.acks.push(Ack { left: at, covers, by, arrived: at, uncertain: true });
        }
    }

    /// tcp_cleanup_rbuf
    fn read(&mut self, at: i64, end: u64, mss: u64) {
        self.tick(at);
        let emptied = end >= self.received && self.small > 1;
        if self.held.is_some() && (emptied || self.received - self.told > mss + RECORD_BYTES) {
            self.acknowledge(at, By::Read);
        }
    }

    fn send(&mut self, at: i64) {
        self.tick(at);
        if self.last.is_some_and(|last| at - last < DELAYED_ACK_NS) {
            self.pingpong = true;
        }
        if self.received > 0 {
            self.acknowledge(at, By::Data);
        }
    }
}
