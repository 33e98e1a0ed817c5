//! Signs that a handshake lost packets although none is missing at the tap.
//!
//! In: segments of a connection's beginning. Out: whether part of the handshake was sent again after it was over,
//! or was lost between its sender and the tap: there it is seen once, late. Then the IP identification, where
//! its sender counts packets with it (as Linux does, for each connection), has a gap.

use crate::Time;
use crate::layers::{Packet, Segment};
use crate::table::Side;

/// So many packets of a side behind the handshake are looked at.
const LOOKED_AT: u8 = 8;
/// Steps of one that prove a counter, and so many times as many as other steps.
const PROVEN: u8 = 3;
/// A larger step is no gap, but a counter that others share.
const LARGEST_GAP: u16 = 8;
/// What is longer may have been several packets on the wire.
const ONE_PACKET: u32 = 1460;

/// The identifications of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    /// The highest, unless what had it was several packets.
    last: Option<u16>,
    ones: u8,
    others: u8,
    /// In the handshake, so many are not there.
    missing: u8,
    /// Packets behind the handshake.
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
            // It came late, and was missing.
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

/// What is looked at until some packets behind the handshake.
#[derive(Debug, Default)]
pub(super) struct Again {
    counters: [Counter; 2],
    /// Where each side's stream was when the handshake was over, if anything of it was seen.
    end: [Option<u32>; 2],
    sent_again: bool,
    /// Of each side's, the last new data of the handshake, and when it was at the tap: for a round trip, when it is
    /// acknowledged.
    samples: [Option<(u32, Time)>; 2],
    /// What came before one of these: it may be acknowledged by itself, by what crosses the later data.
    earlier: Option<(u8, u32, Time)>,
}

/// What an acknowledgement answers.
pub(super) struct Answered {
    /// When it was at the tap.
    pub sent: Time,
    /// It is the last new data of its side's.
    pub all: bool,
}

impl Again {
    /// A segment that is no copy, within the handshake or behind it; false when no more need be looked at.
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

    /// New data of the handshake, up to `end`.
    pub(super) fn sent(&mut self, side: Side, end: u32, at: Time) {
        let before = self.samples[side].replace((end, at));
        self.earlier = before.map(|(end, sent)| (side as u8, end, sent)).or(self.earlier);
    }

    /// Some of it was sent again: what is acknowledged from now on may be either.
    pub(super) fn sent_anew(&mut self, side: Side) {
        self.samples[side] = None;
        self.earlier = self.earlier.filter(|(of, ..)| usize::from(*of) != side);
    }

    /// What of `side`'s data this acknowledges, once.
    pub(super) fn answered(&mut self, side: Side, acknowledgment: u32) -> Option<Answered> {
        let covers = |end: u32| acknowledgment.wrapping_sub(end) as i32 >= 0;
        if let Some((_, sent)) = self.samples[side].take_if(|(end, _)| covers(*end)) {
            self.earlier = self.earlier.filter(|(of, ..)| usize::from(*of) != side);
            return Some(Answered { sent, all: true });
        }
        let of_it = |(of, end, _): &mut (u8, u32, Time)| usize::from(*of) == side && covers(*end);
        self.earlier.take_if(of_it).map(|(.., sent)| Answered { sent, all: false })
    }

    /// The handshake is over, with the streams up to `end`.
    pub(super) const fn over(&mut self, end: [Option<u32>; 2]) {
        self.end = end;
    }

    /// Whether packets of the handshake were lost.
    pub(super) fn lost(&self) -> bool {
        self.sent_again || self.counters.iter().any(|counter| counter.lost())
    }
}
