//! The server's TCP, as a hypothesis has it: what may leave when.
//!
//! Input: the segments that arrived, the client's acknowledgements, a [`Hypothesis`]. Output: for each segment, the
//! acknowledgement that let it leave, if one did.

use super::acks::Ack;
use super::constants::*;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hypothesis {
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

impl Hypothesis {
    /// What the TCP of a server can be that has sent so many packets, some between request and response or none; without
    /// the habits that each may have.
    pub(crate) fn servers(packets: u32, between: bool) -> impl Iterator<Item = Self> {
        // A window that holds all there was never fills.
        let most = packets
            .saturating_add(if between { MOST_MERGED_PACKETS } else { 0 })
            .min(LARGEST_WINDOW_PACKETS);
        // The usual ones first: others that cost more are given up early.
        let usual = [None, Some(USUAL_WINDOW_PACKETS)]
            .into_iter()
            .filter(move |w| w.is_none_or(|w| w <= most));
        let windows =
            usual.chain((1..=most).filter(|window| *window != USUAL_WINDOW_PACKETS).map(Some));
        // Few have written more than that, and then stood still.
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

    /// Whether both are one server, whatever habits the two hosts have.
    pub(crate) fn is_same_server(self, other: Self) -> bool {
        let server = |h: Self| (h.window, h.nagle, h.buffer);
        server(self) == server(other)
    }

    /// Whether nothing is ever held back where no more than `peak` packets were under way when another was to be sent:
    /// neither by the window, nor by what `Judge::nearly_full` looks at. Windows that grow leave more room.
    pub(crate) fn never_holds(self, peak: u32) -> bool {
        self.window.is_some_and(|w| peak < w - w / SMALL_WINDOW_PACKETS)
            && (!self.buffer || peak < SMALL_WINDOW_PACKETS)
    }
}

/// The most packets that were under way when another one was to be sent: as they were counted, and with so many more in
/// each segment between request and response.
pub(crate) type Peaks = [u32; MOST_MERGED_PACKETS as usize + 1];

/// What was seen while a hypothesis was held against the arrivals, as far as it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub peaks: Peaks,
    /// There was a segment between request and response.
    pub between: bool,
    /// There was a small segment that Nagle's algorithm would have held back.
    pub small: bool,
}

/// A hypothesis that was looked at, where nothing was lost.
pub(crate) struct Played {
    pub hypothesis: Hypothesis,
    pub seen: Seen,
}

impl Played {
    /// Whether those with other windows, or a buffer, may say the same.
    pub(crate) const fn tells_of_others(&self) -> bool {
        self.hypothesis.window.is_none() || self.seen.peaks[0] < SMALL_WINDOW_PACKETS
    }

    /// Whether `other` says the same of every arrival, and costs as much at least; or does up to where this one was
    /// given up.
    ///
    /// A window that is never full, nor nearly, keeps nothing back, as one that never fills; nor does a buffer of which
    /// nobody has used as much, or Nagle's algorithm where nothing small follows something small.
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

/// The sending half of the server's TCP, up to what the client saw of it: Linux's slow start, in which the window
/// grows by what is acknowledged where it had been used (`tcp_cwnd_validate`), and begins anew after rest.
#[derive(Clone)]
pub(crate) struct Sender<'a> {
    segments: &'a [Segment],
    pub acks: std::iter::Peekable<std::slice::Iter<'a, Ack>>,
    pub initial: Option<u32>,
    pub merged: u32,
    pub in_flight: u32,
    /// Of these, segments between the request and the response.
    between: u32,
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

    /// Packets that a segment was, as far as the hypothesis says.
    fn packets(&self, index: usize) -> u32 {
        let (before, uncounted) = self.uncounted;
        let uncounted = if index + 1 == before { uncounted } else { 0 };
        1 + uncounted + if self.segments[index].between { self.merged } else { 0 }
    }

    /// The same, where acknowledgements were sent that may not have been.
    pub(crate) fn lenient(&self) -> Self {
        let mut lenient = Self { lenient: true, ..self.clone() };
        lenient.cover(self.unheard);
        lenient
    }

    /// No longer so.
    pub(crate) fn strict(self) -> Self {
        Self { lenient: false, ..self }
    }

    /// The window, which was not full by what was counted, was.
    ///
    /// What was sent with the initial one was packets that were not counted; a later one did not grow by as much.
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

    /// The same with the window of another.
    pub(crate) fn with_window_of(self, other: &Self) -> Self {
        Self { window: other.window, ..self }
    }

    /// Something was lost.
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

    /// Takes note that all before this is acknowledged.
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
        // tcp_write_xmit notes the use where it sent something, or the window keeps it from that.
        if self.in_flight >= self.window {
            self.note_use();
        }
    }

    /// Hears the acknowledgements whose effect the client can have seen before.
    pub(crate) fn hear_until(&mut self, seen: i64, rtt: i64) {
        while self.acks.peek().is_some_and(|ack| ack.left + rtt <= seen) {
            self.hear();
        }
    }

    /// Whether something keeps a segment from leaving: the window is full, or Nagle's algorithm waits.
    pub(crate) fn is_held(&self, index: usize, nagle: bool) -> bool {
        self.in_flight >= self.window || (nagle && self.waits_for_small(&self.segments[index]))
    }

    /// Nagle's algorithm, where it is on.
    fn waits_for_small(&self, segment: &Segment) -> bool {
        let together = segment.at - self.small_at <= TOGETHER_NS;
        !segment.full && self.small_end > self.covered && !together
    }

    /// What lets a segment leave; `None` within when nothing kept it, `None` when nothing does.
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

    /// Takes note in `seen` of what there is when a segment is to be sent.
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
