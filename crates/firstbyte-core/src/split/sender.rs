//! The server's TCP, as a hypothesis has it: what may leave when.
//!
//! Input: the segments that arrived, the client's acknowledgements, a [`Hypothesis`]. Output: for each segment, the
//! acknowledgement that let it leave, if one did.

use super::acks::Ack;
use super::judge::{LIMIT, TOGETHER};

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub at: i64,
    pub end: u64,
    pub full: bool,
    /// It came between the request and the response, and is no full one: tickets and settings, which servers
    /// write one by one and kernels merge.
    pub between: bool,
    /// How long the slowest link is busy with it, as far as that is known.
    pub busy: i64,
    /// It, or what was read with it, had waited behind a segment that was lost.
    pub waited: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Hypothesis {
    pub window: Option<u32>,
    pub nagle: bool,
    pub late: bool,
    /// Packets more than are seen, in each segment between request and response.
    pub merged: u32,
    /// Which of the client's acknowledgements.
    pub acks: usize,
    /// The server's TCP takes only so much that is not acknowledged: its application writes on when there is room.
    pub buffer: bool,
}

/// The sending half of the server's TCP, up to what the client saw of it: Linux's slow start, in which the window
/// grows by what is acknowledged where it had been used (`tcp_cwnd_validate`), and begins anew after rest.
#[derive(Clone)]
pub(super) struct Sender<'a> {
    segments: &'a [Segment],
    pub acks: std::iter::Peekable<std::slice::Iter<'a, Ack>>,
    pub initial: Option<u32>,
    pub merged: u32,
    pub in_flight: u32,
    pub window: u32,
    /// Segments before this one are acknowledged, and those before `next` have left.
    acknowledged: usize,
    next: usize,
    covered: u64,
    used: Used,
    /// When the last one left, as the client saw it.
    last: Option<i64>,
    /// How the timeout's variation falls with each round trip seen (RFC 6298).
    variation: i64,
    /// Where the last segment ends that was less than a full one.
    small_end: u64,
    small_at: i64,
    /// What was held last, was by Nagle's algorithm.
    pub by_nagle: bool,
    /// Acknowledgements are heard that may not have been sent; and up to where those say that were not.
    lenient: bool,
    unheard: u64,
    /// Packets more than were counted, in the last segment before one.
    uncounted: (usize, u32),
    /// Something was lost: the window is smaller since, and not known.
    pub lossy: bool,
}

/// How much of the window was used of late.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    most: u32,
    whole: bool,
    until: usize,
}

/// TCP_RTO_MIN of Linux.
const LEAST_TIMEOUT: i64 = 200_000_000;

impl<'a> Sender<'a> {
    pub(super) fn new(
        hypothesis: Hypothesis,
        segments: &'a [Segment],
        acks: &'a [Ack],
        rtt: i64,
    ) -> Self {
        let Hypothesis { window, merged, .. } = hypothesis;
        Self {
            segments,
            acks: acks.iter().peekable(),
            initial: window,
            merged,
            in_flight: 0,
            window: window.unwrap_or(u32::MAX),
            acknowledged: 0,
            next: 0,
            covered: 0,
            used: Used::default(),
            last: None,
            variation: rtt / 2,
            small_end: 0,
            small_at: -2 * LIMIT,
            by_nagle: false,
            lenient: false,
            unheard: 0,
            uncounted: (0, 0),
            lossy: false,
        }
    }

    /// Packets that a segment was, as far as the hypothesis says.
    fn packets(&self, index: usize) -> u32 {
        let (before, uncounted) = self.uncounted;
        let uncounted = if index + 1 == before { uncounted } else { 0 };
        1 + uncounted + if self.segments[index].between { self.merged } else { 0 }
    }

    /// The same, where acknowledgements were sent that may not have been.
    pub(super) fn lenient(&self) -> Self {
        let mut lenient = Self { lenient: true, ..self.clone() };
        lenient.cover(self.unheard);
        lenient
    }

    /// No longer so.
    pub(super) fn strict(self) -> Self {
        Self { lenient: false, ..self }
    }

    /// The window, which was not full by what was counted, was.
    ///
    /// What was sent with the initial one was packets that were not counted; a later one did not grow by as much.
    pub(super) fn filled(&self) -> Self {
        let mut filled = self.clone();
        let missing = self.window.saturating_sub(self.in_flight);
        if self.initial == Some(self.window) && self.next > 0 && self.acknowledged < self.next {
            filled.uncounted = (self.next, missing);
            filled.in_flight += missing;
        } else {
            filled.window = self.in_flight;
        }
        filled
    }

    /// The same with the window of another.
    pub(super) fn with_window_of(self, other: &Self) -> Self {
        Self { window: other.window, ..self }
    }

    /// Something was lost.
    pub(super) fn lose(&mut self) {
        self.lossy = true;
        if self.initial.is_some() {
            self.window = u32::MAX;
        }
    }

    pub(super) fn hear(&mut self) -> Option<Ack> {
        let mut ack = *self.acks.next()?;
        while ack.uncertain && !self.lenient {
            self.unheard = self.unheard.max(ack.covers);
            ack = *self.acks.next()?;
        }
        self.cover(ack.covers);
        Some(ack)
    }

    /// Takes note that all before this is acknowledged.
    fn cover(&mut self, covers: u64) {
        self.covered = self.covered.max(covers);
        let mut new = 0;
        while self.acknowledged < self.next && self.segments[self.acknowledged].end <= self.covered
        {
            new += self.packets(self.acknowledged);
            self.acknowledged += 1;
        }
        self.in_flight = self.in_flight.saturating_sub(new);
        if new > 0 {
            self.variation = self.variation * 3 / 4;
        }
        if self.initial.is_some() && (self.used.whole || self.window < 2 * self.used.most) {
            self.window = self.window.saturating_add(new);
        }
        // tcp_write_xmit notes the use where it sent something, or the window keeps it from that.
        if self.in_flight >= self.window {
            self.note_use();
        }
    }

    /// Hears the acknowledgements whose effect the client can have seen before.
    pub(super) fn hear_until(&mut self, seen: i64, rtt: i64) {
        while self.acks.peek().is_some_and(|ack| ack.left + rtt <= seen) {
            self.hear();
        }
    }

    /// What lets a segment leave; `None` within when nothing kept it, `None` when nothing does.
    #[expect(clippy::option_option, reason = "two questions: can it leave, and what let it")]
    pub(super) fn release(&mut self, index: usize, nagle: bool) -> Option<Option<Ack>> {
        let mut last = None;
        loop {
            let full = self.in_flight >= self.window;
            let segment = &self.segments[index];
            let together = segment.at - self.small_at <= TOGETHER;
            let held = nagle && !segment.full && self.small_end > self.covered && !together;
            if !full && !held {
                return Some(last);
            }
            self.by_nagle = held && !full;
            last = Some(self.hear()?);
        }
    }

    pub(super) fn send(&mut self, index: usize, rtt: i64) {
        let segment = self.segments[index];
        if let (Some(initial), Some(last), 0) = (self.initial, self.last, self.in_flight) {
            // tcp_slow_start_after_idle_check
            if segment.at - last > rtt + LEAST_TIMEOUT.max(4 * self.variation) {
                self.window = self.window.min(initial);
            }
        }
        self.next = index + 1;
        self.in_flight += self.packets(index);
        self.last = Some(segment.at);
        self.note_use();
        if !segment.full {
            (self.small_end, self.small_at) = (segment.end, segment.at);
        }
    }

    fn note_use(&mut self) {
        let (packets, whole) = (self.in_flight, self.in_flight >= self.window);
        if self.acknowledged >= self.used.until
            || whole
            || (!self.used.whole && packets > self.used.most)
        {
            self.used = Used { most: packets, whole, until: self.next };
        }
    }
}
