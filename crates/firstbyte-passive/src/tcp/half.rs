//! One direction of a TCP connection: its bytes in order, with known gaps.
//!
//! In: segments with sequence numbers. Out: the stream, passed to the record reader. Segments are buffered only while
//! earlier bytes may still arrive, and only the bytes that will be read.

use crate::layers::Payload;
use crate::observed::Traffic;
use crate::table::Side;
use crate::tls::{Place, Reader, Session};
use crate::{Doubts, Time};

/// Most segments buffered at once; beyond this the capture is assumed to have a gap.
const MOST_HELD: usize = 256;
/// Time after which bytes that the other end has acknowledged count as missing from the capture.
const GAP_AFTER_NS: i64 = 2_000_000;
/// A segment that fills a gap within this time was reordered; later ones are retransmissions (as in Wireshark).
const REORDERED_NS: i64 = 3_000_000;

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Half {
    pub(super) reader: Reader,
    pub(super) traffic: Traffic,
    /// Sequence number of the stream's first byte; valid once `started`.
    start: u32,
    /// Next expected sequence number.
    next: u32,
    /// Sequence number up to which the other end has acknowledged; valid once `has_acked`.
    acked: u32,
    started: bool,
    has_acked: bool,
    /// Whether any payload was seen.
    pub(super) flowing: bool,
    pub(super) fin: bool,
    held: Option<Box<Held>>,
}

#[derive(Debug)]
struct Held {
    since: Time,
    /// Sorted by sequence number, each with a different start.
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    sequence: u32,
    bytes: u32,
    captured: Box<[u8]>,
    at: Time,
    acked: Option<u32>,
}

impl Half {
    /// Starts the stream after this SYN.
    pub(super) fn open(&mut self, sequence: u32) {
        self.start = sequence.wrapping_add(1);
        self.next = self.start;
        self.started = true;
    }

    /// Starts the stream here, as the other end's first acknowledgment shows.
    pub(super) const fn opened_at(&mut self, sequence: u32) {
        if !self.started {
            (self.start, self.next, self.started) = (sequence, sequence, true);
        }
    }

    pub(super) const fn started(&self) -> bool {
        self.started
    }

    pub(super) const fn start(&self) -> u32 {
        self.start
    }

    pub(super) const fn next(&self) -> u32 {
        self.next
    }

    /// Bytes buffered.
    pub(super) fn held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| {
            held.segments.iter().map(|s| s.captured.len() + size_of::<Segment>()).sum()
        })
    }

    /// Notes that the other end acknowledged everything before `sequence`.
    pub(super) const fn acknowledged(&mut self, sequence: u32) {
        if !self.has_acked || sequence.wrapping_sub(self.acked) as i32 > 0 {
            (self.acked, self.has_acked) = (sequence, true);
        }
    }

    /// How much of this direction `acknowledgment` covers.
    #[inline]
    pub(super) const fn relative(&self, acknowledgment: u32) -> Option<u32> {
        if self.started { Some(acknowledgment.wrapping_sub(self.start)) } else { None }
    }

    /// Whether a segment holds nothing new.
    #[inline]
    pub(super) const fn is_old(&self, sequence: u32, bytes: u32) -> bool {
        self.started && sequence.wrapping_add(bytes).wrapping_sub(self.next) as i32 <= 0
    }

    /// Takes the payload of the segment at `sequence`.
    pub(super) fn payload(
        &mut self,
        session: &mut Session,
        side: Side,
        sequence: u32,
        payload: Payload<'_>,
        (at, acked): (Time, Option<u32>),
        doubts: &mut Doubts,
    ) {
        if !self.started {
            (self.start, self.next, self.started) = (sequence, sequence, true);
            self.reader = Reader::mid_stream();
            doubts.add(Doubts::MID_STREAM);
        }
        self.flowing = true;
        let bytes = payload.bytes;
        if (payload.captured.len() as u64) < u64::from(bytes) {
            doubts.add(Doubts::CUT);
        }
        let ahead = sequence.wrapping_sub(self.next) as i32;
        if ahead > 0 {
            self.hold(sequence, payload, at, acked, doubts);
            return;
        }
        let known = ahead.unsigned_abs();
        if known >= bytes {
            // A keep-alive probe is not a retransmission (RFC 1122 §4.2.3.6).
            if bytes > 1 || known > 1 {
                self.repeated(session, doubts);
            }
            return;
        }
        if let Some(held) = &self.held {
            let waited = at.signed_since(held.since);
            if waited <= REORDERED_NS {
                self.traffic.reordered += 1;
            } else {
                self.repeated(session, doubts);
            }
        }
        let captured = payload.captured.get(known as usize..).unwrap_or_default();
        self.deliver(session, side, captured, bytes - known, at, acked);
        if self.held.is_some() {
            self.drain(session, side, at);
        }
    }

    /// Notes a retransmitted segment.
    pub(super) fn repeated(&mut self, session: &Session, doubts: &mut Doubts) {
        self.traffic.retransmitted += 1;
        if !session.handshake_over() {
            doubts.add(Doubts::LOSS_IN_HANDSHAKE);
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        session: &mut Session,
        side: Side,
        captured: &[u8],
        bytes: u32,
        at: Time,
        acked: Option<u32>,
    ) {
        let place = Place { at, position: self.next.wrapping_sub(self.start), acked };
        self.next = self.next.wrapping_add(bytes);
        self.traffic.bytes += u64::from(bytes);
        self.reader.segment(session, side, place, captured, bytes);
    }

    fn hold(
        &mut self,
        sequence: u32,
        payload: Payload<'_>,
        at: Time,
        acked: Option<u32>,
        doubts: &mut Doubts,
    ) {
        let behind = sequence.wrapping_sub(self.next).saturating_add(payload.bytes);
        // Bytes within a payload that is skipped anyway need not be kept.
        let captured =
            if self.reader.skips(behind) { Box::default() } else { payload.captured.into() };
        let next = self.next;
        let held =
            self.held.get_or_insert_with(|| Box::new(Held { since: at, segments: Vec::new() }));
        let distance = |s: u32| s.wrapping_sub(next);
        let place = held.segments.partition_point(|s| distance(s.sequence) < distance(sequence));
        let again = held
            .segments
            .get(place)
            .is_some_and(|s| s.sequence == sequence && s.bytes >= payload.bytes);
        if again {
            self.traffic.retransmitted += 1;
            return;
        }
        if held.segments.len() >= MOST_HELD {
            doubts.add(Doubts::TOO_MUCH_HELD);
            return;
        }
        let bytes = payload.bytes;
        held.segments.insert(place, Segment { sequence, bytes, captured, at, acked });
    }

    /// Whether the bytes missing before the buffered segments will not come any more.
    pub(super) fn is_gap(&self, now: Time) -> bool {
        let Some(held) = &self.held else { return false };
        let Some(first) = held.segments.first() else { return false };
        let acknowledged = self.has_acked && self.acked.wrapping_sub(first.sequence) as i32 >= 0;
        held.segments.len() >= MOST_HELD
            || acknowledged && now.signed_since(held.since) > GAP_AFTER_NS
    }

    /// Gives up the bytes missing before the first buffered segment.
    pub(super) fn skip_gap(&mut self, session: &mut Session, side: Side, doubts: &mut Doubts) {
        let Some(first) = self.held.as_ref().and_then(|held| held.segments.first()) else {
            return;
        };
        let missing = first.sequence.wrapping_sub(self.next);
        let place = Place {
            at: first.at,
            position: self.next.wrapping_sub(self.start),
            acked: first.acked,
        };
        doubts.add(Doubts::GAP);
        self.traffic.missing_bytes += u64::from(missing);
        self.reader.missing(session, side, place, missing);
        self.next = self.next.wrapping_add(missing);
        let at = place.at;
        self.drain(session, side, at);
    }

    /// Passes on the buffered segments that are now in order.
    fn drain(&mut self, session: &mut Session, side: Side, filled: Time) {
        let Some(mut held) = self.held.take() else { return };
        let mut taken = 0;
        // They could be read only when the gap was filled.
        for segment in &held.segments {
            let ahead = segment.sequence.wrapping_sub(self.next) as i32;
            if ahead > 0 {
                break;
            }
            taken += 1;
            let known = ahead.unsigned_abs();
            if known < segment.bytes {
                let captured = segment.captured.get(known as usize..).unwrap_or_default();
                let bytes = segment.bytes - known;
                let at = segment.at.max(filled);
                self.deliver(session, side, captured, bytes, at, segment.acked);
            }
        }
        held.segments.drain(..taken);
        if let Some(first) = held.segments.first() {
            held.since = first.at;
            self.held = Some(held);
        }
    }

    /// At the connection's end: number of bytes that were acknowledged but never captured.
    pub(super) const fn missing_at_end(&self) -> u32 {
        if !self.has_acked || !self.started {
            return 0;
        }
        let ahead = self.acked.wrapping_sub(self.next) as i32;
        let beyond = ahead.saturating_sub(self.fin as i32);
        if beyond > 0 { beyond as u32 } else { 0 }
    }
}
