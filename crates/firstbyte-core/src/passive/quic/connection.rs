//! One QUIC connection, from its datagrams to what can be known of it.
//!
//! In: datagrams that are its own. Out: an [`Observed`]. Which end is the client is proven by an Initial
//! that opens with the client's keys. Of Handshake and 1-RTT packets only sizes, directions and times are
//! known: what is told by them is inferred, and said to be in `docs/wire.md`.

use super::exchanges::{self, Exchanges};
use super::flights::{Flights, Message};
use super::handshake::{self, Live};
use super::packet::{self, Cid, Kind, Long, Packet, Short};
use super::spin::Spin;
use crate::passive::layers::{Endpoint, Payload};
use crate::passive::observed::{
    AlertSeen, Carrier, EarlyDataSeen, Ending, Observed, QuicSeen, Roles, RoundTrips, TlsSeen,
    Traffic,
};
use crate::passive::table::Side;
use crate::passive::timing::{self, Timed};
use crate::passive::{Doubts, Hygiene, Time};

/// A clock that goes back by more was set.
const STEP_NS: i64 = 1_000_000_000;
/// Length field of a Handshake packet that carries more than an acknowledgment: the shortest Finished is
/// 36 bytes, its frame's header 3, packet number 1, tag 16.
const HANDSHAKE_DATA: u32 = 52;
/// Clients pad datagrams with Initials to this (RFC 9000 §14.1).
const PADDED: u32 = 1200;
/// Frames of 1-RTT that a server sends before the client's Finished, beyond which they answer early data.
const EARLY_ANSWER: u32 = 200;
/// Packets of one direction by whose tags copies are told.
const COPIES: usize = 4;

/// A QUIC connection that is under way.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) ends: [Endpoint; 2],
    pub(super) last: Time,
    began: Time,
    longest_idle_ns: i64,
    first: Side,
    /// Proven by an Initial.
    client: Option<Side>,
    traffic: [Traffic; 2],
    tags: [[u64; COPIES]; 2],
    /// The connection IDs by which each side is sent to: those that it chose in the handshake, and
    /// what came in their place.
    pub(super) to: [Option<Cid>; 2],
    /// The one before.
    before: [Option<Cid>; 2],
    /// Destinations that the client made up, or took from a Retry.
    made_up: [Option<Cid>; 2],
    /// Where the client was before it migrated.
    moved_from: Option<Endpoint>,
    live: Option<Box<Live>>,
    seen: Option<Box<TlsSeen>>,
    facts: Box<QuicSeen>,
    flights: Flights,
    exchanges: Exchanges,
    spin: Spin,
    opening: [Option<Time>; 3],
    /// First round trip between the tap and each side, and the smallest.
    initial: [Option<i64>; 2],
    least: [Option<i64>; 2],
    /// When the client's Finished was at the tap.
    finished: Option<Time>,
    /// The server has sent something since.
    confirmed: bool,
    complete: bool,
    early_bytes: u64,
    early_content: u64,
    /// Content of the server's 1-RTT packets before the client's Finished.
    early_answer: u32,
    closed: Option<(Side, u64)>,
    doubts: Doubts,
}

/// What a datagram has in it.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    packets: u32,
    initial: bool,
    /// Length of its last Handshake packet, and whether that is the last packet.
    handshake: Option<u32>,
    handshake_last: bool,
    one_rtt: bool,
}

impl Connection {
    pub(super) fn new(
        number: u64,
        at: Time,
        (source, destination): (Endpoint, Endpoint),
        side: Side,
        limit: usize,
    ) -> Self {
        let ends = if side == 0 { [source, destination] } else { [destination, source] };
        Self {
            number,
            ends,
            last: at,
            began: at,
            longest_idle_ns: 0,
            first: side,
            client: None,
            traffic: Default::default(),
            tags: Default::default(),
            to: [None; 2],
            before: [None; 2],
            made_up: [None; 2],
            moved_from: None,
            live: Some(Box::default()),
            seen: None,
            facts: Box::default(),
            flights: Flights::default(),
            exchanges: Exchanges::new(limit),
            spin: Spin::default(),
            opening: [None; 3],
            initial: [None; 2],
            least: [None; 2],
            finished: None,
            confirmed: false,
            complete: false,
            early_bytes: 0,
            early_content: 0,
            early_answer: 0,
            closed: None,
            doubts: Doubts::NONE,
        }
    }

    /// Bytes held for messages that are not whole.
    pub(super) fn held(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.held())
    }

    /// Whether several connections can share the addresses and ports with this one: both ends can be told
    /// by connection IDs.
    pub(super) fn is_told_by_ids(&self) -> bool {
        self.to.iter().all(|cid| cid.is_some_and(|cid| cid.len() >= super::TELLING))
    }

    /// Whether `packet`, the first of a datagram from `side`, begins another connection between the same
    /// ends.
    pub(super) fn is_replaced_by(
        &mut self,
        side: Side,
        packet: &Long<'_>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let destination = Some(packet.destination);
        if packet.kind != Kind::Initial
            || self.made_up.contains(&destination)
            || self.to[1 - side] == destination
        {
            return false;
        }
        if let (Some(live), Some(client)) = (&mut self.live, self.client)
            && live.opens(side == client, packet, scratch)
        {
            return false;
        }
        if !handshake::opens_by_itself(packet, scratch) {
            return false;
        }
        let server_silent = self.facts.received.initial == 0;
        match self.client {
            None => self.traffic[1 - side].packets > 0 && self.facts.version_negotiations == 0,
            Some(client) if client != side => true,
            Some(_) if self.facts.retries > 0 && packet.token > 0 => !server_silent,
            Some(_) => self.facts.version_negotiations == 0 || !server_silent,
        }
    }

    /// An end has another address, with its connection ID kept.
    pub(super) fn moved(&mut self, side: Side, to: Endpoint) {
        let from = std::mem::replace(&mut self.ends[side], to);
        // Late packets from where it was before are no migration back.
        if self.moved_from != Some(to) {
            self.facts.migrations += 1;
        }
        self.moved_from = Some(from);
    }

    /// The next datagram. Of messages in pieces `room` more bytes are held at most.
    pub(super) fn datagram(
        &mut self,
        at: Time,
        side: Side,
        payload: Payload<'_>,
        room: usize,
        scratch: &mut Vec<u8>,
        hygiene: &mut Hygiene,
    ) {
        if self.is_copy(side, payload) {
            self.traffic[side].duplicates += 1;
            hygiene.duplicates += 1;
            return;
        }
        let since = at.signed_since(self.last);
        if since < -STEP_NS {
            self.doubts.add(Doubts::CLOCK_STEP);
        }
        self.longest_idle_ns = self.longest_idle_ns.max(since);
        self.last = at;
        self.traffic[side].packets += 1;
        self.traffic[side].bytes += u64::from(payload.bytes);
        if payload.captured.len() < payload.bytes as usize {
            self.doubts.add(Doubts::CUT);
        }
        self.unvalidated(side, at, payload.bytes);
        let mut contents = Contents::default();
        for packet in packet::packets(payload) {
            contents.packets += 1;
            contents.handshake_last = false;
            match packet {
                Packet::Long(long) => self.long(at, side, &long, &mut contents, room, scratch),
                Packet::Short(short) => {
                    contents.one_rtt = true;
                    // Beside an Initial it may be padding for the most part (RFC 9000 §14.1).
                    let padded = contents.initial && payload.bytes >= PADDED;
                    self.short(at, side, &short, padded);
                }
            }
        }
        if contents.packets > 1 {
            self.sent_by(side).coalesced += 1;
        }
        self.handshake(at, side, payload.bytes, contents);
    }

    /// Every protected packet ends in a tag of its own: the same tag again is a copy.
    fn is_copy(&mut self, side: Side, payload: Payload<'_>) -> bool {
        let whole = payload.captured.len() == payload.bytes as usize;
        let negotiates = payload.captured.get(1..5) == Some(&[0; 4]);
        let Some(tag) = payload.captured.last_chunk::<8>().filter(|_| whole && !negotiates) else {
            return false;
        };
        // A padded datagram's end may be zeros (RFC 9000 §12.2 leaves what is no packet alone).
        let tag = u64::from_be_bytes(*tag);
        if tag == 0 {
            return false;
        }
        if self.tags[side].contains(&tag) {
            return true;
        }
        self.tags[side].rotate_right(1);
        self.tags[side][0] = tag;
        false
    }

    const fn sent_by(&mut self, side: Side) -> &mut crate::passive::observed::QuicPackets {
        // Until the client is known it is the side that was first seen.
        let client = match self.client {
            Some(client) => client,
            None => self.first,
        };
        if side == client { &mut self.facts.sent } else { &mut self.facts.received }
    }

    fn long(
        &mut self,
        at: Time,
        side: Side,
        packet: &Long<'_>,
        contents: &mut Contents,
        room: usize,
        scratch: &mut Vec<u8>,
    ) {
        if packet.version != 0 {
            let version = self.facts.version.replace(packet.version);
            if version.is_some_and(|version| version != packet.version) {
                self.facts.first_version = self.facts.first_version.or(version);
            }
        }
        if packet.kind != Kind::VersionNegotiation {
            self.chosen(side, packet.source);
        }
        match packet.kind {
            Kind::Initial => {
                contents.initial = true;
                self.initial(at, side, packet, room, scratch);
                self.sent_by(side).initial += 1;
                self.server_flight(side, packet);
            }
            Kind::ZeroRtt => {
                self.sent_by(side).zero_rtt += 1;
                if self.client.is_none_or(|client| client == side) {
                    let header = packet.number_at as u32;
                    let content = exchanges::content(packet.wire_bytes, header);
                    self.early_bytes += u64::from(packet.wire_bytes);
                    self.early_content += u64::from(content);
                    self.exchanges.request(at, packet.wire_bytes, content, true);
                    if self.finished.is_none() {
                        let early = Some(Message::EarlyData);
                        self.flights.add(side, at, packet.wire_bytes, early);
                    }
                }
            }
            Kind::Handshake => {
                contents.handshake = Some(packet.length);
                contents.handshake_last = true;
                self.sent_by(side).handshake += 1;
                self.server_flight(side, packet);
            }
            Kind::Retry => {
                self.facts.retries += 1;
                self.made_up[1] = Some(packet.source);
                self.answered(at, side);
                if self.client == Some(1 - side) && self.flights.last() == Some(1 - side) {
                    let sent = self.flights.span().map(|(_, end)| end);
                    self.round_trip(side, at, sent);
                }
                self.flights.add(side, at, packet.wire_bytes, Some(Message::Retry));
            }
            Kind::VersionNegotiation => {
                self.facts.version_negotiations += 1;
                self.answered(at, side);
                self.flights.add(side, at, packet.wire_bytes, Some(Message::VersionNegotiation));
            }
            Kind::Unknown => {
                if self.client.is_none() && side == self.first && self.flights.last().is_none() {
                    self.flights.add(side, at, packet.wire_bytes, None);
                    self.opening[0] = Some(at);
                }
            }
        }
    }

    fn server_flight(&mut self, side: Side, packet: &Long<'_>) {
        if self.client == Some(1 - side)
            && self.finished.is_none()
            && let Some(live) = &mut self.live
        {
            live.server_flight += u64::from(packet.wire_bytes);
        }
    }

    /// `side` chose `cid` for itself.
    fn chosen(&mut self, side: Side, cid: Cid) {
        if self.to[side] != Some(cid) {
            self.before[side] = self.to[side].replace(cid);
        }
    }

    fn initial(
        &mut self,
        at: Time,
        side: Side,
        packet: &Long<'_>,
        room: usize,
        scratch: &mut Vec<u8>,
    ) {
        let Some(live) = &mut self.live else { return };
        let by_client = self.client.is_none_or(|client| client == side);
        let begins = by_client
            && !(self.client.is_some() && live.opens(true, packet, scratch))
            && handshake::opens_by_itself(packet, scratch);
        if begins {
            let again = live.has_keys();
            live.adopt(packet);
            if self.client.is_none() && self.first != side && self.facts.version.is_some() {
                std::mem::swap(&mut self.facts.sent, &mut self.facts.received);
            }
            self.client = Some(side);
            let known = self.made_up.contains(&Some(packet.destination));
            if !known {
                let place = usize::from(self.made_up[0].is_some());
                self.made_up[place] = Some(packet.destination);
            }
            if packet.token > 0 {
                live.validated = true;
                if self.facts.retries == 0 {
                    self.facts.token_bytes = Some(packet.token);
                }
            }
            if !again {
                self.opening[0].get_or_insert(at);
            }
        }
        let Some(client) = self.client else { return };
        let by_client = client == side;
        let seen = self.seen.get_or_insert_default();
        let read = live.initial((at, side, by_client), packet, seen, room, scratch);
        let Some(brought) = read else { return };
        if brought.malformed {
            self.doubts.add(Doubts::MALFORMED_HANDSHAKE);
        }
        if brought.too_much {
            self.doubts.add(Doubts::TOO_MUCH_HELD);
        }
        if brought.again && !brought.new {
            self.traffic[side].retransmitted += 1;
            self.doubts.add(Doubts::LOSS_IN_HANDSHAKE);
        }
        if !by_client {
            self.answered(at, side);
        } else if self.opening[1].is_some() {
            self.opening[2].get_or_insert(at);
        }
        self.round_trip(side, at, brought.acknowledged);
        if let Some(code) = brought.close {
            self.closed.get_or_insert((side, code));
            self.close(at, by_client, code);
            self.flights.add(side, at, packet.wire_bytes, Some(Message::Close));
        }
        if brought.new {
            self.flights.add(side, at, packet.wire_bytes, None);
        }
        for message in brought.messages {
            self.flights.add(side, at, 0, Some(message));
        }
    }

    /// The first answer of the server's.
    fn answered(&mut self, at: Time, side: Side) {
        if self.client == Some(1 - side) && self.opening[0].is_some() {
            self.opening[1].get_or_insert(at);
        }
    }

    fn close(&mut self, at: Time, by_client: bool, code: u64) {
        // TLS alerts are among the error codes (RFC 9001 §4.8).
        const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
        if ALERTS.contains(&code)
            && let Some(seen) = &mut self.seen
        {
            let description = Some(code as u8);
            seen.alert.get_or_insert(AlertSeen { by_client, description, at });
        }
    }

    /// `side` has acknowledged or answered at `at` what passed the tap at `sent`.
    fn round_trip(&mut self, side: Side, at: Time, sent: Option<Time>) {
        let Some(ns) = sent.map(|sent| at.signed_since(sent)).filter(|ns| *ns >= 0) else { return };
        self.initial[side].get_or_insert(ns);
        self.least[side] = Some(self.least[side].map_or(ns, |least| least.min(ns)));
    }

    /// Counts what the server may send before it knows that the client is where it says.
    fn unvalidated(&mut self, side: Side, at: Time, bytes: u32) {
        let Some(live) = self.live.as_mut().filter(|live| !live.validated) else { return };
        if self.client == Some(side) && live.reply.is_none() && live.server_flight > 0 {
            live.reply = Some((at, live.unvalidated));
        }
        live.unvalidated[side] += u64::from(bytes);
    }

    fn handshake(&mut self, at: Time, side: Side, bytes: u32, contents: Contents) {
        let Some(client) = self.client else { return };
        if side != client {
            self.server_handshake(at, side, bytes, contents);
            return;
        }
        if self.finished.is_some() {
            return;
        }
        let Some(live) = &mut self.live else { return };
        if contents.handshake.is_some() && !live.validated {
            live.validated = true;
            let limit = live.reply.map_or(live.unvalidated[client], |(_, sent)| sent[client]);
            // What the server had sent by then; the datagram that validates does not count.
            self.facts.unvalidated_bytes = Some(live.unvalidated[1 - client]);
            self.facts.unvalidated_limit = Some(3 * limit.max(1));
        }
        let padded = contents.initial && contents.handshake_last && bytes >= PADDED;
        let data = contents.handshake.is_some_and(|length| length >= HANDSHAKE_DATA);
        let finished = if data && padded {
            // It may be padding around an acknowledgment.
            live.perhaps_finished.get_or_insert(at);
            None
        } else if data {
            Some(at)
        } else if contents.one_rtt {
            // Its Finished comes before; where it was under padding, that was when.
            Some(live.perhaps_finished.unwrap_or(at))
        } else {
            None
        };
        if let Some(finished) = finished {
            // It answers the end of the server's flight; where that took longer than a round trip, its end
            // may have been sent again.
            if self.flights.last() == Some(1 - side)
                && let Some((start, end)) = self.flights.span()
                && self.least[side].is_none_or(|least| end.signed_since(start) < least)
            {
                self.round_trip(side, finished, Some(end));
            }
            self.flights.add(side, finished, bytes, Some(Message::Finished));
            self.finish(at);
        }
    }

    fn server_handshake(&mut self, at: Time, side: Side, bytes: u32, contents: Contents) {
        if self.finished.is_some() {
            self.confirm(at, side, contents);
            return;
        }
        let Some(live) = &mut self.live else { return };
        if contents.handshake.is_none_or(|length| length < HANDSHAKE_DATA) {
            return;
        }
        if let Some((reply, sent)) = live.reply.take()
            && self.flights.last() == Some(side)
            && let Some((_, ended)) = self.flights.span()
            && sent[side] + u64::from(bytes) > 3 * sent[1 - side]
            && self.least[side].is_none_or(|least| at.signed_since(reply) >= least - least / 8)
            && self.facts.limit_stall.is_none()
        {
            self.facts.limit_stall = Some(at.since(ended));
            self.flights.add(1 - side, reply, 0, Some(Message::Acknowledgment));
        }
        live.server_handshake = true;
        live.perhaps_finished = None;
        self.flights.add(side, at, bytes, Some(Message::Encrypted));
    }

    /// The client's Finished was seen, or is behind.
    fn finish(&mut self, at: Time) {
        self.finished = Some(at);
        let Some(mut live) = self.live.take() else { return };
        self.complete = live.server_handshake;
        if let (Some(seen), Some(client)) = (&mut self.seen, self.client) {
            if !seen.client_hello {
                live.partial(client, seen);
            }
            seen.server_flight_bytes = Some(live.server_flight).filter(|bytes| *bytes > 0);
            seen.complete = self.complete;
            early_data(&live, self.early_bytes, seen);
            if seen.early_data.is_some_and(|early| early.accepted == Some(false)) {
                self.exchanges.rejected();
            }
        }
    }

    /// The server's first datagram after the client's Finished.
    fn confirm(&mut self, at: Time, side: Side, contents: Contents) {
        if std::mem::replace(&mut self.confirmed, true) {
            return;
        }
        let Some(ns) = self.finished.map(|finished| at.signed_since(finished)) else { return };
        // What the server sends of its own accord may have been on its way already.
        let on_its_way = contents.handshake.is_none()
            && (self.early_bytes > 0 || self.early_answer > 0)
            && self.initial[side].is_none_or(|first| ns < first / 2);
        if ns >= 0 && !on_its_way {
            self.round_trip(side, at, self.finished);
        }
    }

    fn short(&mut self, at: Time, side: Side, packet: &Short<'_>, padded: bool) {
        self.sent_by(side).one_rtt += 1;
        let length = self.to[1 - side].map_or(0, |cid| cid.len());
        self.changed(1 - side, packet, length);
        let content = exchanges::content(packet.wire_bytes, 1 + length as u32);
        if self.finished.is_some() {
            self.spin.packet(at, side, packet.spin());
        }
        match self.client {
            Some(_) if padded => {}
            Some(client) if client == side => {
                self.exchanges.request(at, packet.wire_bytes, content, false);
            }
            Some(_) => {
                if self.finished.is_none() && exchanges::is_data(content) {
                    self.early_answer = self.early_answer.saturating_add(content);
                }
                self.exchanges.response(at, packet.wire_bytes, content, self.least[side]);
            }
            None => {}
        }
    }

    /// Notes the connection ID that a packet with a short header is sent to.
    fn changed(&mut self, side: Side, packet: &Short<'_>, length: usize) {
        let Some(cid) = packet.destination(length).and_then(Cid::new) else { return };
        if self.to[side] == Some(cid) || self.before[side] == Some(cid) || length == 0 {
            return;
        }
        self.before[side] = self.to[side].replace(cid);
        match self.client {
            Some(client) if client == side => self.facts.client_cid_changes += 1,
            Some(_) => self.facts.server_cid_changes += 1,
            None => {}
        }
    }

    /// Lets go of what is held.
    pub(super) fn let_go(&mut self) {
        self.doubts.add(Doubts::TOO_MUCH_HELD);
        if let Some(live) = &mut self.live {
            live.forget();
        }
    }

    /// Whether there is reason to say that it is QUIC: more than an unknown version's packet.
    pub(super) fn is_quic(&self) -> bool {
        self.client.is_some()
            || self.facts.version_negotiations > 0
            || self.facts.version.is_some_and(|version| !packet::is_reserved(version))
    }

    /// The connection is over, for a reason of its own or as its packets say.
    pub(super) fn end(mut self, ending: Option<Ending>) -> Observed {
        let client = self.client.unwrap_or_else(|| match self.facts.version_negotiations {
            0 => self.first,
            // Only servers send them.
            _ if self.traffic[1 - self.first].packets == 0 => 1 - self.first,
            _ => self.first,
        });
        let server = 1 - client;
        if let (Some(mut live), Some(seen)) = (self.live.take(), &mut self.seen) {
            if !seen.client_hello {
                live.partial(client, seen);
            }
            seen.server_flight_bytes = Some(live.server_flight).filter(|bytes| *bytes > 0);
            early_data(&live, self.early_bytes, seen);
        }
        self.infer_early_data();
        if self.traffic.iter().any(|traffic| traffic.packets == 0) {
            self.doubts.add(Doubts::ONE_SIDED);
        }
        if self.client.is_none() && self.facts.version_negotiations == 0 {
            self.doubts.add(Doubts::MID_STREAM);
        }
        let round_trips = self.round_trips(client);
        let (least, opening) = (self.least, self.initial);
        let timed = Timed { client, least, opening, flights: &self.flights.timed() };
        let handshake_time =
            if self.complete { timing::handshake(&timed, &mut self.doubts) } else { None };
        self.facts.client_cid_bytes = self.to[client].map(|cid| cid.len() as u8);
        self.facts.server_cid_bytes = self.to[server].map(|cid| cid.len() as u8);
        self.facts.spin_round_trip = self.spin.round_trip(round_trips.path());
        let own = self.ending(client);
        Observed {
            number: self.number,
            carrier: Carrier::Quic,
            client: self.ends[client],
            server: self.ends[server],
            roles: if self.client.is_some() { Roles::Opening } else { Roles::Unknown },
            started: self.began,
            last: self.last,
            opening: self.opening,
            ending: own.or(ending).unwrap_or(Ending::Open),
            sent: self.traffic[client],
            received: self.traffic[server],
            round_trips,
            tls: self.seen,
            quic: Some(self.facts),
            handshake_time,
            flights: self.flights.seen(client),
            exchanges: self.exchanges.end(self.complete),
            longest_idle: timing::duration(self.longest_idle_ns),
            doubts: self.doubts,
        }
    }

    /// A server that answers before the client's Finished has read the early data.
    fn infer_early_data(&mut self) {
        if let Some(seen) = &mut self.seen
            && let Some(early) = &mut seen.early_data
            && early.bytes > 0
            && early.accepted.is_none()
            && seen.resumption.accepted.is_some()
            && self.early_answer >= EARLY_ANSWER
        {
            (early.accepted, early.inferred) = (Some(true), true);
        }
    }

    fn ending(&self, client: Side) -> Option<Ending> {
        const CONNECTION_REFUSED: u64 = 0x02;
        match self.closed {
            Some((side, CONNECTION_REFUSED)) if side != client => Some(Ending::Refused),
            Some(_) => Some(Ending::Closed),
            None if self.client.is_some() && self.traffic[1 - client].packets == 0 => {
                Some(Ending::Unanswered)
            }
            None => None,
        }
    }

    fn round_trips(&mut self, client: Side) -> RoundTrips {
        let of = |ns: Option<i64>| ns.map(timing::duration);
        let trips = RoundTrips {
            server_syn: of(self.initial[1 - client]),
            client_syn: of(self.initial[client]),
            server_min: of(self.least[1 - client]),
            client_min: of(self.least[client]),
        };
        if timing::is_unstable(trips.server_syn, trips.server_min)
            || timing::is_unstable(trips.client_syn, trips.client_min)
        {
            self.doubts.add(Doubts::ROUND_TRIP_UNSTABLE);
        }
        trips
    }
}

fn early_data(live: &Live, bytes: u64, seen: &mut TlsSeen) {
    if !live.offer.early_data && bytes == 0 {
        return;
    }
    // Through a HelloRetryRequest, and without the session, it cannot be taken (RFC 8446 §4.2.10).
    let refused = seen.hello_retry_request
        || (seen.server_hello && seen.resumption.accepted.is_none() && seen.handshake.is_some());
    seen.early_data = Some(EarlyDataSeen {
        offered: live.offer.early_data,
        bytes,
        accepted: (refused && bytes > 0).then_some(false),
        inferred: false,
    });
}
