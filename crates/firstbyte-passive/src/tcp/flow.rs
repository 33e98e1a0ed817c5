//! One TCP connection: its opening, its two directions, its end.

use super::again::{Again, Answered};
use super::copies::{Copies, signature};
use super::half::Half;
use super::nagle::{Nagle, Seen};
use crate::elapsed::Elapsed;
use crate::flights::Flight;
use crate::layers::{Packet, Segment};
use crate::numbers::Spent;
use crate::observed::ANSWER_WITHIN;
use crate::observed::{Carrier, Closing, Ending, HeldBack, Observed, Roles, RoundTrips};
use crate::passed::{Passed, STEP_NS, passed_before};
use crate::table::{Key, Lasting, Side};
use crate::timing::{self, Timed};
use crate::tls::{Place, Session, message_name};
use crate::{Doubts, Hygiene, SessionId, Time};

/// Effect of a segment on the memory in buffers.
pub(super) enum Taken {
    Nothing,
    /// Bytes buffered before and after.
    Held(usize, usize),
}

/// A connection in progress.
#[derive(Debug)]
pub(super) struct Flow {
    halves: [Half; 2],
    session: Session,
    copies: Copies,
    /// Dropped a few packets after the handshake.
    again: Option<Box<Again>>,
    nagle: Nagle,
    number: u64,
    began: Time,
    passed: Passed,
    /// When the tap saw the SYN, the SYN/ACK and the ACK.
    opening: [Option<Time>; 3],
    /// Smallest round trip between the tap and each side.
    least: [Option<Elapsed>; 2],
    doubts: Doubts,
    /// The side that sent the SYN, or that received the SYN/ACK.
    opener: Option<u8>,
    /// The side that sent the first captured packet.
    first: u8,
    /// The side that reset it.
    reset: Option<u8>,
    /// The first FIN or RST: its sender, whether it was a RST, and its time.
    closed: Option<(u8, bool, Time)>,
    /// Whether the SYN, and the SYN/ACK, were retransmitted.
    repeated: [bool; 2],
}

impl Lasting for Flow {
    fn last(&self) -> Time {
        self.passed.last()
    }
}

impl Flow {
    pub(super) fn new(number: u64, at: Time, side: Side, exchanges: usize) -> Self {
        Self {
            halves: Default::default(),
            session: Session::new(exchanges),
            copies: Copies::default(),
            again: Some(Box::default()),
            nagle: Nagle::default(),
            number,
            began: at,
            passed: Passed::new(at),
            opening: [None; 3],
            least: [None; 2],
            doubts: Doubts::NONE,
            opener: None,
            first: side as u8,
            reset: None,
            closed: None,
            repeated: [false; 2],
        }
    }

    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Notes a segment without a time.
    pub(super) fn untimed(&mut self) {
        self.doubts.add(Doubts::UNTIMED);
    }

    /// The session ID that the server issued for a new session; returned once.
    #[inline]
    pub(super) fn take_issued(&mut self) -> Option<SessionId> {
        self.session.take_issued()
    }

    fn opener(&self) -> Option<Side> {
        self.opener.map(Side::from)
    }

    /// Whether the connection has not got beyond the SYN exchange.
    pub(super) fn is_half_open(&self) -> bool {
        self.opening[2].is_none() && !self.halves.iter().any(|half| half.flowing)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.reset.is_some() || self.halves.iter().all(|half| half.fin)
    }

    /// Bytes buffered.
    pub(super) fn held(&self) -> usize {
        self.session.held() + self.halves.iter().map(Half::held).sum::<usize>()
    }

    /// Whether `segment` begins a new connection between the same endpoints.
    pub(super) fn is_replaced_by(&self, side: Side, segment: &Segment<'_>, at: Time) -> bool {
        if !segment.has(Segment::SYN) || segment.has(Segment::ACK) {
            return false;
        }
        let half = &self.halves[side];
        let same = half.started() && half.start() == segment.sequence.wrapping_add(1);
        // Long after the close, an equal sequence number is a coincidence.
        let long_after = self.is_closed() && at.signed_since(self.last()) > STEP_NS;
        // In a simultaneous open (RFC 9293 §3.5) the other end's SYN does not begin a new connection.
        let opens = self.opener.is_some() && self.is_half_open();
        let both_open = !half.started() && opens && !self.is_closed();
        (!same || long_after) && !both_open
    }

    /// Takes the next segment.
    #[inline]
    pub(super) fn segment(
        &mut self,
        at: Time,
        side: Side,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        hygiene: &mut Hygiene,
    ) -> Taken {
        let mut sequence = segment.sequence;
        let bytes = segment.payload.bytes;
        let signature = signature(packet, segment, side);
        let nothing_new = bytes == 0 || self.halves[side].is_old(sequence, bytes);
        if nothing_new && self.copies.is_copy(signature, at, packet.identification) {
            self.halves[side].traffic.duplicates += 1;
            hygiene.duplicates += 1;
            return Taken::Nothing;
        }
        self.copies.remember(signature, at);
        let over = self.session.handshake_over();
        self.look_for_losses(side, packet, segment, over);
        self.look_for_nagle(at, side, segment, nothing_new);
        self.pass(at);
        self.halves[side].traffic.packets += 1;
        if segment.flags & (Segment::SYN | Segment::RST | Segment::FIN) != 0 {
            self.control(at, side, segment);
            if segment.has(Segment::SYN) {
                sequence = sequence.wrapping_add(1);
            }
        }
        if segment.has(Segment::ACK) && !segment.has(Segment::RST) {
            self.acknowledgment(at, side, segment);
        }
        if bytes == 0 || segment.has(Segment::RST) {
            return self.close_gaps(at);
        }
        let acked = if segment.has(Segment::ACK) {
            self.halves[1 - side].relative(segment.acknowledgment)
        } else {
            None
        };
        let half = &mut self.halves[side];
        if half.reader.skips(bytes) && half.next() == sequence && half.held() == 0 {
            // The end of a record may end the handshake, which frees its buffers.
            let before = self.session.held();
            half.payload(
                &mut self.session,
                side,
                sequence,
                segment.payload,
                (at, acked),
                &mut self.doubts,
            );
            if !over {
                self.note_end();
            }
            let after = self.session.held();
            return if before == after { Taken::Nothing } else { Taken::Held(before, after) };
        }
        let before = self.held();
        let half = &mut self.halves[side];
        let (next, repeated) = (half.next(), half.traffic.retransmitted);
        half.payload(
            &mut self.session,
            side,
            sequence,
            segment.payload,
            (at, acked),
            &mut self.doubts,
        );
        if let Some(again) = &mut self.again {
            if half.traffic.retransmitted != repeated {
                again.sent_anew(side);
            }
            if !self.session.handshake_over() && half.next() != next {
                again.sent(side, half.next(), at);
            }
        }
        if !over {
            self.note_end();
        }
        self.close_gaps(at);
        Taken::Held(before, self.held())
    }

    /// Frees buffers when they are too large: gives up gaps and incomplete hellos. Returns the number of bytes freed.
    pub(super) fn let_go(&mut self, _at: Time) -> usize {
        let before = self.held();
        self.doubts.add(Doubts::TOO_MUCH_HELD);
        for side in [0, 1] {
            while self.halves[side].held() > 0 {
                self.halves[side].skip_gap(&mut self.session, side, &mut self.doubts);
            }
        }
        self.session.forget();
        before.saturating_sub(self.held())
    }

    #[inline]
    fn look_for_losses(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        segment: &Segment<'_>,
        over: bool,
    ) {
        if let Some(again) = &mut self.again
            && !again.segment(side, packet, segment, over)
        {
            self.settle_losses();
        }
    }

    /// Notes the positions of the streams if the last segment ended the handshake.
    fn note_end(&mut self) {
        if self.session.had_handshake()
            && let Some(again) = &mut self.again
        {
            again.over(self.halves.each_ref().map(|half| half.started().then(|| half.next())));
        }
    }

    fn settle_losses(&mut self) {
        if self.again.take().is_some_and(|again| again.lost()) {
            self.doubts.add(Doubts::LOSS_IN_HANDSHAKE);
        }
    }

    #[inline]
    fn look_for_nagle(&mut self, at: Time, side: Side, segment: &Segment<'_>, nothing_new: bool) {
        let bytes = segment.payload.bytes;
        let seen = Seen {
            at,
            side,
            bytes,
            other: segment.flags & (Segment::SYN | Segment::RST | Segment::FIN) != 0
                || bytes > 0 && nothing_new,
            all: segment.acknowledgment == self.halves[1 - side].next(),
        };
        self.nagle.segment(&seen, self.least.map(|least| least.map(Elapsed::ns)));
    }

    #[inline]
    fn pass(&mut self, at: Time) {
        if !self.passed.pass(at) {
            self.doubts.add(Doubts::CLOCK_STEP);
        }
    }

    fn close_gaps(&mut self, at: Time) -> Taken {
        if !self.halves.iter().any(|half| half.is_gap(at)) {
            return Taken::Nothing;
        }
        let before = self.held();
        for side in [0, 1] {
            if self.halves[side].is_gap(at) {
                self.halves[side].skip_gap(&mut self.session, side, &mut self.doubts);
            }
        }
        Taken::Held(before, self.held())
    }

    fn control(&mut self, at: Time, side: Side, segment: &Segment<'_>) {
        if segment.has(Segment::RST) {
            self.reset.get_or_insert(side as u8);
            self.close(side, true, at);
            return;
        }
        if segment.has(Segment::FIN) {
            self.close(side, false, at);
            self.halves[side].fin = true;
        }
        if !segment.has(Segment::SYN) {
            return;
        }
        let answer = segment.has(Segment::ACK);
        let (place, opener) = if answer { (1, 1 - side) } else { (0, side) };
        let half = &mut self.halves[side];
        let again = half.started() && half.start() == segment.sequence.wrapping_add(1);
        if again {
            if self.opening[place].is_some() {
                half.traffic.retransmitted += 1;
                self.repeated[place] = true;
                self.doubts.add(Doubts::OPENING_REPEATED);
            }
        } else if half.started() && (half.flowing || !answer) {
            return;
        } else {
            if half.started() {
                self.doubts.add(Doubts::OPENING_REPEATED);
            }
            half.open(segment.sequence);
        }
        self.opener.get_or_insert(opener as u8);
        if self.opener() == Some(opener) && (self.opening[2].is_none()) {
            // Of several SYNs, the last one before the answer is taken to be the one answered.
            self.opening[place] = Some(at);
            if answer
                && !self.repeated[0]
                && let Some(syn) = self.opening[0]
            {
                self.round_trip(side, syn, at);
            }
        }
    }

    /// If two cross, the one that passed the tap first counts.
    fn close(&mut self, side: Side, reset: bool, at: Time) {
        if self.closed.is_none_or(|(_, _, closed)| passed_before(at, closed)) {
            self.closed = Some((side as u8, reset, at));
        }
    }

    #[inline]
    fn acknowledgment(&mut self, at: Time, side: Side, segment: &Segment<'_>) {
        let other = 1 - side;
        let acknowledgment = segment.acknowledgment;
        if !self.halves[other].started() && self.opener() == Some(side) {
            // The opener's first acknowledgment shows where the other direction begins.
            self.halves[other].opened_at(acknowledgment);
        }
        self.halves[other].acknowledged(acknowledgment);
        if self.opening[2].is_none() && self.opener() == Some(side) && !segment.has(Segment::SYN) {
            self.opening[2] = Some(at);
            if !self.repeated[1]
                && let Some(answer) = self.opening[1]
            {
                self.round_trip(side, answer, at);
            }
        }
        let answered = self.again.as_mut().and_then(|again| again.answered(other, acknowledgment));
        if let Some(Answered { sent, all }) = answered {
            self.round_trip(side, sent, at);
            if all && segment.payload.bytes == 0 {
                self.session.acknowledged(other, sent, at);
            }
        }
    }

    /// Notes that at `at` `side` answered a packet that passed the tap at `sent`.
    fn round_trip(&mut self, side: Side, sent: Time, at: Time) {
        if let Some(trip) = Elapsed::between(sent, at) {
            self.least[side] = trip.least(self.least[side]);
        }
    }

    /// Ends the connection, with `ending` or else as its packets show. The record reuses the memory in `spent`.
    pub(super) fn end(&mut self, key: &Key, ending: Option<Ending>, spent: Spent) -> Observed {
        let ends = key.ends();
        self.settle();
        self.settle_losses();
        let hello = self.session.client();
        let (client, roles) = match (hello, self.opener()) {
            (Some(client), Some(opener)) if client == opener => (client, Roles::Opening),
            (Some(client), _) => (client, Roles::Hello),
            (None, Some(opener)) => (opener, Roles::Opening),
            (None, None) => (self.first.into(), Roles::Unknown),
        };
        let server = 1 - client;
        let soon = self.last().since(self.began) < ANSWER_WITHIN;
        let ending = match (self.ending(client), ending) {
            (Some(Ending::Unanswered), Some(Ending::Idle)) => Ending::Unanswered,
            (Some(Ending::Unanswered), Some(Ending::Replaced)) if soon => Ending::Replaced,
            (_, Some(forced @ (Ending::Idle | Ending::Evicted))) => forced,
            (own, other) => own.or(other).unwrap_or(Ending::Open),
        };
        let round_trips = self.round_trips(client);
        let (tls, flights) =
            self.session.end(Place { at: self.last(), position: 0, acked: None }).unzip();
        let flights = flights.unwrap_or_default();
        if self.session.malformed() {
            self.doubts.add(Doubts::MALFORMED_HANDSHAKE);
        }
        if self.session.lost_records() {
            self.doubts.add(Doubts::RECORDS_LOST);
        }
        let complete = tls.as_ref().is_some_and(|tls| tls.complete);
        let mut opening = [None; 2];
        opening[client] = round_trips.client_syn.map(timing::nanoseconds);
        opening[server] = round_trips.server_syn.map(timing::nanoseconds);
        let least = self.least.map(|least| least.map(Elapsed::ns));
        let timed = Timed { client, least, opening, flights: &flights };
        let handshake_time =
            if complete { timing::handshake(&timed, &mut self.doubts) } else { None };
        let exchanges = self.session.exchanges(complete, spent.exchanges);
        Observed {
            number: self.number,
            carrier: Carrier::Tcp,
            client: ends[client],
            server: ends[server],
            roles,
            started: self.began,
            last: self.last(),
            opening: self.opening,
            ending,
            closing: self.closed.map(|(side, reset, at)| {
                let by_client = Side::from(side) == client;
                Closing { by_client, reset, at }
            }),
            sent: self.halves[client].traffic,
            received: self.halves[server].traffic,
            held_back: self.nagle.held(server).map(|held| HeldBack {
                segments: held.segments,
                time: timing::duration(held.time_ns),
            }),
            round_trips,
            tls: tls.map(|seen| Spent::tls(spent.tls, seen)),
            quic: None,
            handshake_time,
            flights: Flight::all_seen(&flights, spent.flights, client, message_name),
            exchanges,
            longest_idle: Some(timing::duration(self.passed.longest())),
            doubts: self.doubts,
        }
    }

    /// Passes on everything buffered, and notes the gaps.
    fn settle(&mut self) {
        for side in [0, 1] {
            while self.halves[side].held() > 0 {
                self.halves[side].skip_gap(&mut self.session, side, &mut self.doubts);
            }
            let missing = self.halves[side].missing_at_end();
            if missing > 0 && self.halves[side].flowing {
                self.halves[side].traffic.missing_bytes += u64::from(missing);
                self.doubts.add(Doubts::GAP);
            }
        }
        let packets = self.halves.each_ref().map(|half| half.traffic.packets);
        if packets.contains(&0) && (self.halves.iter().any(|half| half.flowing)) {
            self.doubts.add(Doubts::ONE_SIDED);
        }
        if self.opening[0].is_none() && self.opening[1].is_none() {
            self.doubts.add(Doubts::MID_STREAM);
        }
    }

    fn ending(&self, client: Side) -> Option<Ending> {
        let answered = self.opening[1].is_some() || self.halves[1 - client].flowing;
        match self.reset {
            Some(side) if usize::from(side) == client => Some(Ending::ResetByClient),
            Some(_) if self.opening[0].is_some() && !answered => Some(Ending::Refused),
            Some(_) => Some(Ending::ResetByServer),
            None if self.halves.iter().all(|half| half.fin) => Some(Ending::Closed),
            // Whatever the client acknowledges was sent, even if it was not captured.
            None if self.opening[0].is_some()
                && self.opening[2].is_none()
                && self.halves[1 - client].traffic.packets == 0
                && !self.halves[client].flowing =>
            {
                Some(Ending::Unanswered)
            }
            None => None,
        }
    }

    fn round_trips(&mut self, client: Side) -> RoundTrips {
        let [syn, answer, ack] = self.opening;
        let between = |from: Option<Time>, to: Option<Time>, again: bool| {
            let trip = Elapsed::between(from?, to?).filter(|_| !again)?;
            Some(timing::duration(trip.ns()))
        };
        let opened_by_client = self.opener() == Some(client);
        let server_syn = between(syn, answer, self.repeated[0]).filter(|_| opened_by_client);
        let client_syn = between(answer, ack, self.repeated[1]).filter(|_| opened_by_client);
        let least = self.least.map(|least| least.map(|least| timing::duration(least.ns())));
        let (server_min, client_min) = (least[1 - client], least[client]);
        let unstable = [(server_syn, server_min), (client_syn, client_min)]
            .into_iter()
            .any(|(syn, min)| timing::is_unstable(syn, min));
        if unstable {
            self.doubts.add(Doubts::ROUND_TRIP_UNSTABLE);
        }
        RoundTrips { server_syn, client_syn, server_min, client_min }
    }
}
