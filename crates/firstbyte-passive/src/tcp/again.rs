//! Detects that a handshake lost packets although none is missing at the tap.
//!
//! In: segments from the start of a connection. Out: whether part of the handshake was retransmitted after its end, or
//! lost between its sender and the tap. In the second case the tap sees it only once, late. Then there is a gap in the
//! IP identification, if the sender counts packets with it (as Linux does per connection).

use crate::Time;
use crate::layers::{Packet, Segment};
use crate::table::Side;

/// Number of packets of each side to examine after the handshake.
const LOOKED_AT: u8 = 8;
/// Fewest steps of one that prove a counter; there must also be this many times as many as other steps.
const PROVEN: u8 = 3;
/// A larger step is not a gap: others share the counter.
const LARGEST_GAP: u16 = 8;
/// A longer packet may have been several on the wire.
const ONE_PACKET: u32 = 1460;

/// IP identifications of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// The highest one, unless its packet may have been several.
    last: Option<u16>,
    ones: u8,
    others: u8,
    /// Number of packets missing in the handshake.
    missing: u8,
    /// Number of packets after the handshake.
    behind: u8,
}

impl Counter {
    fn packet(&mut self, identification: u16, bytes: u32, in_handshake: bool) {
        let next = (bytes <= ONE_PACKET).then_some(identification);
        let Some(last) = self.last else {
            self.last = next;
            return;
        };
        let step = identification.wrapping_sub(last);
        if step.wrapping_neg() <= LARGEST_GAP && step != 0 {
            // A packet that counted as missing has come late.
            self.missing = self.missing.saturating_sub(1);
            self.others = self.others.saturating_sub(1);
            return;
        }
        self.last = next;
        if step == 1 {
            self.ones = self.ones.saturating_add(1);
            return;
        }
        self.others = self.others.saturating_add(1);
        if in_handshake && (2..=LARGEST_GAP).contains(&step) {
            self.missing = self.missing.saturating_add(step as u8 - 1);
        }
    }

    const fn lost(self) -> bool {
        self.missing > 0 && self.ones >= PROVEN && self.ones / PROVEN >= self.others
    }
}

/// State kept until a few packets after the handshake.
#[derive(Debug, Default)]
pub(super) struct Again {
    counters: [Counter; 2],
    /// Position of each side's stream at the end of the handshake, if known.
    end: [Option<u32>; 2],
    sent_again: bool,
    /// For each side, the end of the last new handshake data and when the tap saw it: gives a round trip when it is
    /// acknowledged.
    samples: [Option<(u32, Time)>; 2],
    /// The data sent before one of these. It may be acknowledged on its own, by a segment that crosses the later data.
    earlier: Option<(u8, u32, Time)>,
}

/// The data that an acknowledgment answers.
pub(super) struct Answered {
    /// When the tap saw the data.
    pub sent: Time,
    /// Whether it is the last new data of its side.
    pub all: bool,
}

impl Again {
    /// Handles a segment that is not a copy, during or after the handshake. Returns false if no more segments are
    /// needed.
    pub(super) fn segment(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        over: bool,
    ) -> bool {
        let counter = &mut self.counters[side];
        if !segment.has(Segment::SYN) {
            counter.packet(packet.identification, segment.payload.bytes, !over);
        }
        if let Some(end) = self.end[side] {
            let before = segment.sequence.wrapping_sub(end) as i32;
            self.sent_again |= segment.payload.bytes > 1 && before < 0;
        }
        counter.behind = counter.behind.saturating_add(u8::from(over));
        self.counters.iter().any(|counter| counter.behind < LOOKED_AT)
    }

    /// Notes new handshake data up to `end`.
    pub(super) fn sent(&mut self, side: Side, end: u32, at: Time) {
        let before = self.samples[side].replace((end, at));
        self.earlier = before.map(|(end, sent)| (side as u8, end, sent)).or(self.earlier);
    }

    /// Notes a retransmission: later acknowledgments are ambiguous.
    pub(super) fn sent_anew(&mut self, side: Side) {
        self.samples[side] = None;
        self.earlier = self.earlier.filter(|(of, ..)| usize::from(*of) != side);
    }

    /// The data of `side` that this acknowledges; returned once.
    pub(super) fn answered(&mut self, side: Side, acknowledgment: u32) -> Option<Answered> {
        let covers = |end: u32| acknowledgment.wrapping_sub(end) as i32 >= 0;
        if let Some((_, sent)) = self.samples[side].take_if(|(end, _)| covers(*end)) {
            self.earlier = self.earlier.filter(|(of, ..)| usize::from(*of) != side);
            return Some(Answered { sent, all: true });
        }
        let of_it = |(of, end, _): &mut (u8, u32, Time)| usize::from(*of) == side && covers(*end);
        self.earlier.take_if(of_it).map(|(.., sent)| Answered { sent, all: false })
    }

    /// Notes that the handshake is over, with the streams at `end`.
    pub(super) const fn over(&mut self, end: [Option<u32>; 2]) {
        self.end = end;
    }

    /// Whether packets of the handshake were lost.
    pub(super) fn lost(&self) -> bool {
        self.sent_again || self.counters.iter().any(|counter| counter.lost())
    }
}
