//! The server's TCP under a hypothesis: which segment may leave when.
//!
//! Input: the segments that arrived, the client's acknowledgements, a [`Hypothesis`]. Output: for each segment, the
//! acknowledgement that released it, if one did.

use super::acks::Ack;
use super::constants::*;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub at: i64,
    pub end: u64,
    pub full: bool,
    /// Came between request and response and is not full-sized: tickets and settings, which servers write one by one
    /// and kernels merge.
    pub between: bool,
    /// How long the slowest link is busy with this segment, as far as known.
    pub busy: i64,
    /// This segment, or one read together with it, waited behind a lost segment.
    pub waited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hypothesis {
    pub window: Option<u32>,
    pub nagle: bool,
    pub late: bool,
    /// Uncounted packets merged into each segment between request and response.
    pub merged: u32,
    /// Index of the assumed set of client acknowledgements.
    pub acks: usize,
    /// The server's send buffer holds a limited amount of unacknowledged data: the application writes on when there is
    /// room.
    pub buffer: bool,
}

impl Hypothesis {
    /// Candidate server TCPs for a server that sent `packets` packets, some of them between request and response if
    /// `between`; without the hosts' habits.
    pub(crate) fn servers(packets: u32, between: bool) -> impl Iterator<Item = Self> {
        // A window that holds all packets never fills.
        let most = packets
            .saturating_add(if between { MOST_MERGED_PACKETS } else { 0 })
            .min(LARGEST_WINDOW_PACKETS);
        // The usual windows first, so that costlier hypotheses are given up early.
        let usual = [None, Some(USUAL_WINDOW_PACKETS)]
            .into_iter()
            .filter(move |w| w.is_none_or(|w| w <= most));
        let windows =
            usual.chain((1..=most).filter(|window| *window != USUAL_WINDOW_PACKETS).map(Some));
        // Few servers write more than this and then stall.
        let buffers: &[bool] =
            if packets > 2 * SMALL_WINDOW_PACKETS { &[false, true] } else { &[false] };
        let windows = buffers.iter().flat_map(move |b| windows.clone().map(|window| (window, *b)));
        windows.flat_map(move |(window, buffer)| {
            let small = window.is_some_and(|window| window <= SMALL_WINDOW_PACKETS);
            let merged = if between && small { MOST_MERGED_PACKETS } else { 0 };
            let with = move |merged| Self { window, merged, buffer, ..Self::default() };
            (0..=merged).map(with)
        })
    }

    /// Whether both describe the same server, apart from the two hosts' habits.
    pub(crate) fn is_same_server(self, other: Self) -> bool {
        let server = |h: Self| (h.window, h.nagle, h.buffer);
        server(self) == server(other)
    }

    /// Whether nothing is ever held back if at most `peak` packets were in flight at each send: neither by the window
    /// nor by the check in `Judge::nearly_full`. Growing windows leave more room.
    pub(crate) fn never_holds(self, peak: u32) -> bool {
        self.window.is_some_and(|w| peak < w - w / SMALL_WINDOW_PACKETS)
            && (!self.buffer || peak < SMALL_WINDOW_PACKETS)
    }
}

/// Maximum number of packets in flight at any send: as counted, and with 1, 2, … extra packets in each segment between
/// request and response.
pub(crate) type Peaks = [u32; MOST_MERGED_PACKETS as usize + 1];

/// Observations made while replaying a hypothesis, up to where the replay stopped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub peaks: Peaks,
    /// A segment came between request and response.
    pub between: bool,
    /// Nagle's algorithm would have held back a small segment.
    pub small: bool,
}

/// A replayed hypothesis, from a connection without loss.
pub(crate) struct Played {
    pub hypothesis: Hypothesis,
    pub seen: Seen,
}

impl Played {
    /// Whether hypotheses with other windows, or with a buffer, may predict the same.
    pub(crate) const fn tells_of_others(&self) -> bool {
        self.hypothesis.window.is_none() || self.seen.peaks[0] < SMALL_WINDOW_PACKETS
    }

    /// Whether `other` predicts the same for every arrival at no lower cost, or does so up to where this replay was
    /// given up.
    ///
    /// A window that never gets full or nearly full holds nothing back, just like an unlimited one. The same goes for
    /// a buffer larger than any use of it, and for Nagle's algorithm if no small segment follows another.
    pub(crate) fn says_the_same(&self, other: Hypothesis) -> bool {
        let Hypothesis { window, nagle, late, merged, acks, .. } = self.hypothesis;
        let Seen { peaks, between, small } = self.seen;
        if (late, acks) != (other.late, other.acks) || nagle && !other.nagle {
            return false;
        }
        let as_many = merged == other.merged || merged == 0 && !between;
        let peak = if merged == 0 { peaks[other.merged as usize] } else { peaks[0] };
        let alike =
            window == other.window && as_many && (!other.buffer || peak < SMALL_WINDOW_PACKETS);
        let never_holds = window.is_none() && other.never_holds(peak);
        (alike || never_holds) && (nagle == other.nagle || !small)
    }
}

/// The sending half of the server's TCP, as far as the client saw it: Linux's slow start. The window grows by the
/// acknowledged packets if it was used (`tcp_cwnd_validate`), and is reset after idle time.
#[derive(Clone)]
pub(crate) struct Sender<'a> {
    segments: &'a [Segment],
    pub acks: std::iter::Peekable<std::slice::Iter<'a, Ack>>,
    pub initial: Option<u32>,
    pub merged: u32,
    pub in_flight: u32,
    /// Segments in flight that came between request and response.
    between: u32,
    pub window: u32,
    /// Segments before this one are acknowledged; those before `next` have left.
    acknowledged: usize,
    next: usize,
    covered: u64,
    used: Used,
    /// When the last segment left, on the client's clock.
    last: Option<i64>,
    /// Variation term of the timeout, reduced with each round trip (RFC 6298).
    variation: i64,
    /// End of the last segment that was not full-sized.
    small_end: u64,
    small_at: i64,
    /// Nagle's algorithm, not the window, held the last segment that was held.
    pub by_nagle: bool,
    /// Whether uncertain acknowledgements count as sent; `unheard` is the highest byte covered by those that did not
    /// count.
    lenient: bool,
    unheard: u64,
    /// Uncounted packets in the last segment before the given one.
    uncounted: (usize, u32),
    /// A loss shrank the window to an unknown size.
    pub lossy: bool,
}

/// Recent use of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    most: u32,
    whole: bool,
    until: usize,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
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
            between: 0,
            window: window.unwrap_or(u32::MAX),
            acknowledged: 0,
            next: 0,
            covered: 0,
            used: Used::default(),
            last: None,
            variation: rtt / 2,
            small_end: 0,
            small_at: -2 * LIMIT_NS,
            by_nagle: false,
            lenient: false,
            unheard: 0,
            uncounted: (0, 0),
            lossy: false,
        }
    }

    /// Packets in a segment under the hypothesis.
    fn packets(&self, index: usize) -> u32 {
        let (before, uncounted) = self.uncounted;
        let uncounted = if index + 1 == before { uncounted } else { 0 };
        1 + uncounted + if self.segments[index].between { self.merged } else { 0 }
    }

    /// A copy in which uncertain acknowledgements count as sent.
    pub(crate) fn lenient(&self) -> Self {
        let mut lenient = Self { lenient: true, ..self.clone() };
        lenient.cover(self.unheard);
        lenient
    }

    /// A copy in which uncertain acknowledgements no longer count.
    pub(crate) fn strict(self) -> Self {
        Self { lenient: false, ..self }
    }

    /// A copy in which the window was full, although the counted packets did not fill it.
    ///
    /// For the initial window, the difference is packets that were not counted. A later window grew less than assumed.
    pub(crate) fn filled(&self) -> Self {
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

    pub(crate) fn with_window_of(self, other: &Self) -> Self {
        Self { window: other.window, ..self }
    }

    pub(crate) fn lose(&mut self) {
        self.lossy = true;
        if self.initial.is_some() {
            self.window = u32::MAX;
        }
    }

    pub(crate) fn hear(&mut self) -> Option<Ack> {
        let mut ack = *self.acks.next()?;
        while ack.uncertain && !self.lenient {
            self.unheard = self.unheard.max(ack.covers);
            ack = *self.acks.next()?;
        }
        self.cover(ack.covers);
        Some(ack)
    }

    /// Marks everything before `covers` as acknowledged.
    fn cover(&mut self, covers: u64) {
        self.covered = self.covered.max(covers);
        let mut new = 0;
        while self.acknowledged < self.next && self.segments[self.acknowledged].end <= self.covered
        {
            new += self.packets(self.acknowledged);
            self.between -= u32::from(self.segments[self.acknowledged].between);
            self.acknowledged += 1;
        }
        self.in_flight = self.in_flight.saturating_sub(new);
        if new > 0 {
            self.variation = self.variation * 3 / 4;
        }
        if self.initial.is_some() && (self.used.whole || self.window < 2 * self.used.most) {
            self.window = self.window.saturating_add(new);
        }
        // tcp_write_xmit notes the use if it sent something, or if the window keeps it from sending.
        if self.in_flight >= self.window {
            self.note_use();
        }
    }

    /// Processes the acknowledgements whose effect the client can have seen by `seen`.
    pub(crate) fn hear_until(&mut self, seen: i64, rtt: i64) {
        while self.acks.peek().is_some_and(|ack| ack.left + rtt <= seen) {
            self.hear();
        }
    }

    /// Whether a segment must wait: the window is full, or Nagle's algorithm holds it.
    pub(crate) fn is_held(&self, index: usize, nagle: bool) -> bool {
        self.in_flight >= self.window || (nagle && self.waits_for_small(&self.segments[index]))
    }

    /// Whether Nagle's algorithm, if enabled, would hold the segment.
    fn waits_for_small(&self, segment: &Segment) -> bool {
        let together = segment.at - self.small_at <= TOGETHER_NS;
        !segment.full && self.small_end > self.covered && !together
    }

    /// The acknowledgement that releases a segment: `Some(None)` if nothing held it, `None` if nothing releases it.
    #[expect(clippy::option_option, reason = "two questions: can it leave, and what let it")]
    pub(crate) fn release(&mut self, index: usize, nagle: bool) -> Option<Option<Ack>> {
        let mut last = None;
        loop {
            let full = self.in_flight >= self.window;
            let held = nagle && self.waits_for_small(&self.segments[index]);
            if !full && !held {
                return Some(last);
            }
            self.by_nagle = held && !full;
            last = Some(self.hear()?);
        }
    }

    pub(crate) fn send(&mut self, index: usize, rtt: i64) {
        let segment = self.segments[index];
        if let (Some(initial), Some(last), 0) = (self.initial, self.last, self.in_flight) {
            // tcp_slow_start_after_idle_check
            if segment.at - last > rtt + LEAST_TIMEOUT_NS.max(4 * self.variation) {
                self.window = self.window.min(initial);
            }
        }
        self.next = index + 1;
        self.in_flight += self.packets(index);
        self.between += u32::from(segment.between);
        self.last = Some(segment.at);
        self.note_use();
        if !segment.full {
            (self.small_end, self.small_at) = (segment.end, segment.at);
        }
    }

    /// Updates `seen` with the state just before a segment is sent.
    pub(crate) fn seen(&self, index: usize, seen: &mut Seen) {
        for (more, peak) in (0..).zip(&mut seen.peaks) {
            *peak = (*peak).max(self.in_flight + more * self.between);
        }
        let segment = &self.segments[index];
        seen.between |= segment.between;
        seen.small |= self.waits_for_small(segment);
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
