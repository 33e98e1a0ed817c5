//! Follows one QUIC connection from its datagrams.
//!
//! In: the datagrams of one connection. Out: an [`Observed`](crate::Observed). An Initial that opens with the client's
//! keys proves which end is the client. For Handshake and 1-RTT packets only sizes, directions and times are known;
//! `docs/wire.md` says which facts are inferred from these.

mod completion;
mod initials;
mod outcome;
mod trips;

pub(super) use trips::Alone;
use trips::Watch;

use std::num::NonZeroU32;

use super::LEAST_OPENING;
use super::exchanges::{self, Exchanges};
use super::facts::{Counts, Datagrams, Past};
use super::flights::{self, Message};
use super::handshake::{self, Live};
use super::packet::{self, Cid, Kind, Long, Packet, Short};
use super::spin::Spin;
use crate::elapsed::Elapsed;
use crate::layers::{Endpoint, Payload};
use crate::observed::QuicPackets;
use crate::packed::Packed;
use crate::passed::Passed;
use crate::table::{Key, Lasting, Side};
use crate::{Doubts, Hygiene, Time};

/// Number of recent packets in each direction whose tags are kept to recognise copies.
const COPIES: usize = 4;

/// A QUIC connection in progress.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) number: u64,
    began: Time,
    passed: Passed,
    opening: [Option<Time>; 3],
    /// First round trip between the tap and each side, and the smallest one.
    initial: [Option<Elapsed>; 2],
    least: [Option<Elapsed>; 2],
    /// Whether `least` is a real round trip rather than an upper bound.
    prompt: [bool; 2],
    watch: Option<Box<Watch>>,
    /// When the tap saw the client's Finished.
    finished: Option<Time>,
    datagrams: [Datagrams; 2],
    tags: [[u32; COPIES]; 2],
    /// The connection IDs to which packets to each side are sent: chosen in the handshake, and their replacements.
    to: [Option<Cid>; 2],
    /// The destination ID that the client made up for its first Initial.
    made_up: Option<Cid>,
    seldom: Option<Box<Seldom>>,
    live: Option<Box<Live>>,
    /// What remains of the handshake after its end.
    past: Packed<Past>,
    counts: Counts,
    exchanges: Exchanges,
    spin: Spin,
    early_bytes: u64,
    /// Bytes of frames in the server's 1-RTT packets before the client's Finished.
    early_answer: u32,
    doubts: Doubts,
    closed: Option<Close>,
    /// The client's side, proven by an Initial.
    client: Option<u8>,
    /// The side that sent the first captured packet.
    first: u8,
    /// Whether the ends are in the opposite order to the key, as they may be after a migration.
    turned: bool,
    /// The server has sent something since the client's Finished.
    confirmed: bool,
    complete: bool,
}

/// State that few connections need.
#[derive(Debug, Default)]
struct Seldom {
    /// Another destination ID that the client made up or took from a Retry.
    made_up: Option<Cid>,
    /// The previous connection IDs.
    before: [Option<Cid>; 2],
    /// The address of an end before it migrated.
    moved_from: Option<Endpoint>,
}

/// A CONNECTION_CLOSE in an Initial.
#[derive(Clone, Copy, Debug)]
struct Close {
    by: u8,
    /// Its error code is CONNECTION_REFUSED (RFC 9000 §20.1).
    refuses: bool,
    at: Time,
}

impl Lasting for Connection {
    fn last(&self) -> Time {
        self.passed.last()
    }
}

/// Packets found in a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    packets: u32,
    initial: bool,
    /// Whether the datagram is long enough to hold a client's first Initial.
    may_open: bool,
    /// Length of its last Handshake packet, and whether that is the datagram's last packet.
    handshake: Option<u32>,
    handshake_last: bool,
    one_rtt: bool,
    /// Whether it holds part of a message that is new, or may be.
    messages: bool,
}

impl Connection {
    pub(super) fn new(number: u64, at: Time, side: Side, limit: usize) -> Self {
        Self {
            number,
            began: at,
            passed: Passed::new(at),
            opening: [None; 3],
            initial: [None; 2],
            least: [None; 2],
            prompt: [false; 2],
            watch: None,
            finished: None,
            datagrams: Default::default(),
            tags: Default::default(),
            to: [None; 2],
            made_up: None,
            seldom: None,
            live: Some(Box::default()),
            past: Packed::default(),
            counts: Counts::default(),
            exchanges: Exchanges::new(limit),
            spin: Spin::new(),
            early_bytes: 0,
            early_answer: 0,
            doubts: Doubts::NONE,
            closed: None,
            client: None,
            first: side as u8,
            turned: false,
            confirmed: false,
            complete: false,
        }
    }

    fn client(&self) -> Option<Side> {
        self.client.map(Side::from)
    }

    fn first(&self) -> Side {
        self.first.into()
    }

    /// Endpoints of sides 0 and 1, for the connection stored under `key`.
    pub(super) const fn ends(&self, key: &Key) -> [Endpoint; 2] {
        let [a, b] = key.ends();
        if self.turned { [b, a] } else { [a, b] }
    }

    /// The connection ID to which packets to each side are sent, if it is long enough to tell connections apart.
    pub(super) fn ids(&self) -> [Option<Cid>; 2] {
        self.to.map(|to| to.filter(|cid| cid.len() >= super::TELLING))
    }

    /// Whether a packet from `side` with this destination may belong to this connection.
    pub(super) fn is_sent_to(&self, side: Side, first: &Packet<'_>) -> bool {
        let Some(to) = &self.to[1 - side] else { return true };
        match first {
            Packet::Long(long) => long.destination == *to,
            Packet::Short(short) => {
                to.len() == 0 || short.destination(to.len()) == Some(to.as_slice())
            }
        }
    }

    /// Bytes buffered for incomplete messages.
    pub(super) fn held(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.held())
    }

    /// Whether other connections can share this one's addresses and ports: connection IDs identify both ends.
    pub(super) fn is_told_by_ids(&self) -> bool {
        self.ids().iter().all(Option::is_some)
    }

    /// Whether `packet`, the first of a datagram from `side`, begins another connection between the same ends.
    pub(super) fn is_replaced_by(
        &mut self,
        side: Side,
        packet: &Long<'_>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        if packet.kind != Kind::Initial
            || self.is_made_up(packet.destination)
            || self.to[1 - side] == Some(packet.destination)
        {
            return false;
        }
        let client = self.client();
        if let (Some(live), Some(client)) = (&mut self.live, client)
            && live.opens(side == client, packet, scratch)
        {
            return false;
        }
        if !handshake::opens_by_itself(packet, scratch) {
            return false;
        }
        let server_silent = self.counts.received.initial == 0;
        match client {
            None => self.datagrams[1 - side].packets > 0 && self.counts.version_negotiations == 0,
            Some(client) if client != side => true,
            Some(_) if self.counts.retries > 0 && packet.token > 0 => !server_silent,
            Some(_) => self.counts.version_negotiations == 0 || !server_silent,
        }
    }

    /// Whether the client made up `destination` or took it from a Retry.
    fn is_made_up(&self, destination: Cid) -> bool {
        let seldom = self.seldom.as_ref().and_then(|seldom| seldom.made_up);
        self.made_up == Some(destination) || seldom == Some(destination)
    }

    /// Records that `side` has moved to `to` and kept its connection ID. `ends` are both ends before that.
    pub(super) fn moved(&mut self, ends: [Endpoint; 2], side: Side, to: Endpoint) {
        // A late packet from the old address is not a migration back.
        let seldom = self.seldom.get_or_insert_default();
        if seldom.moved_from.replace(ends[side]) != Some(to) {
            self.counts.migrations += 1;
        }
        let mut now = ends;
        now[side] = to;
        self.turned = Key::from_endpoints(now[0], now[1]).1 == 1;
    }

    /// Takes the next datagram. Buffers at most `room` more bytes of incomplete messages.
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
            self.datagrams[side].duplicates += 1;
            hygiene.duplicates += 1;
            return;
        }
        if !self.passed.pass(at) {
            self.doubts.add(Doubts::CLOCK_STEP);
        }
        self.datagrams[side].packets += 1;
        self.datagrams[side].bytes += u64::from(payload.bytes);
        if payload.captured.len() < payload.bytes as usize {
            self.doubts.add(Doubts::CUT);
        }
        self.unvalidated(side, at, payload.bytes);
        let may_open = payload.bytes >= LEAST_OPENING;
        let mut contents = Contents { may_open, ..Contents::default() };
        for packet in packet::packets(payload) {
            contents.packets += 1;
            contents.handshake_last = false;
            match packet {
                Packet::Long(long) => self.long(at, side, &long, &mut contents, room, scratch),
                Packet::Short(short) => {
                    contents.one_rtt = true;
                    // In a datagram with an Initial it may be mostly padding (RFC 9000 §14.1).
                    let padded = contents.initial && payload.bytes >= completion::PADDED;
                    self.short(at, side, &short, padded);
                }
            }
        }
        if contents.packets > 1 {
            self.sent_by(side).coalesced += 1;
        }
        self.handshake(at, side, payload.bytes, contents);
        if self.client() == Some(1 - side) {
            if let Some(live) = &mut self.live {
                live.heard = Some(at);
            }
            if let Some(watch) = &mut self.watch {
                watch.heard = at;
            }
        }
        if self.prompt == [true; 2] && self.confirmed {
            self.watch = None;
        }
    }

    /// Notes a datagram without a time.
    pub(super) fn untimed(&mut self) {
        self.doubts.add(Doubts::UNTIMED);
    }

    /// Recognises copies: every protected packet ends in a tag of its own, so the same tag means a copy.
    fn is_copy(&mut self, side: Side, payload: Payload<'_>) -> bool {
        let whole = payload.captured.len() == payload.bytes as usize;
        let negotiates = payload.captured.get(1..5) == Some(&[0; 4]);
        let Some(tag) = payload.captured.last_chunk::<4>().filter(|_| whole && !negotiates) else {
            return false;
        };
        // A padded datagram may end in zeros (RFC 9000 §12.2: bytes that are not a packet are ignored).
        let tag = u32::from_be_bytes(*tag);
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

    fn sent_by(&mut self, side: Side) -> &mut QuicPackets {
        // Until the client is known, it is assumed to be the side seen first.
        let client = self.client().unwrap_or(self.first());
        if side == client { &mut self.counts.sent } else { &mut self.counts.received }
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
        if let Some(version) = NonZeroU32::new(packet.version) {
            let before = self.counts.version.replace(version);
            if before.is_some_and(|before| before != version) {
                self.counts.first_version = self.counts.first_version.or(before);
            }
        }
        if packet.kind != Kind::VersionNegotiation {
            self.chosen(side, packet.source);
        }
        match packet.kind {
            Kind::Initial => {
                contents.initial = true;
                // Only the first packet in a datagram can be a client's first.
                let may_open = contents.may_open && contents.packets == 1;
                contents.messages |= self.initial((at, side, may_open), packet, room, scratch);
                self.sent_by(side).initial += 1;
                self.server_flight(side, packet);
            }
            Kind::ZeroRtt => {
                self.sent_by(side).zero_rtt += 1;
                if self.client().is_none_or(|client| client == side) {
                    let header = packet.number_at as u32;
                    let content = exchanges::content(packet.wire_bytes, header);
                    self.early_bytes += u64::from(packet.wire_bytes);
                    self.exchanges.request(at, packet.wire_bytes, content, true);
                    if self.finished.is_none() {
                        let early = Some(Message::EarlyData);
                        self.fly(side, at, packet.wire_bytes, early);
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
                self.counts.retries += 1;
                self.seldom.get_or_insert_default().made_up = Some(packet.source);
                self.answered(at, side);
                if self.client() == Some(1 - side) {
                    let sent = self.past(|past| flights::end_of(&past.flights, 1 - side));
                    self.round_trip(side, at, sent);
                }
                self.fly(side, at, packet.wire_bytes, Some(Message::Retry));
            }
            Kind::VersionNegotiation => {
                self.counts.version_negotiations += 1;
                self.answered(at, side);
                self.fly(side, at, packet.wire_bytes, Some(Message::VersionNegotiation));
            }
            Kind::Unknown => {
                if self.client.is_none()
                    && side == self.first()
                    && self.past(|past| past.flights.is_empty())
                {
                    self.fly(side, at, packet.wire_bytes, None);
                    self.opening[0] = Some(at);
                }
            }
        }
    }

    /// The facts about the handshake, which may be over.
    fn past<R>(&mut self, look: impl FnOnce(&mut Past) -> R) -> R {
        match &mut self.live {
            Some(live) => look(&mut live.past),
            None => self.past.change(look),
        }
    }

    fn fly(&mut self, side: Side, at: Time, bytes: u32, message: Option<Message>) {
        self.past(|past| flights::add(&mut past.flights, side, at, bytes, message));
    }

    fn server_flight(&mut self, side: Side, packet: &Long<'_>) {
        if self.client() == Some(1 - side)
            && self.finished.is_none()
            && let Some(live) = &mut self.live
        {
            live.server_flight += u64::from(packet.wire_bytes);
        }
    }

    /// Notes that `side` chose `cid` for itself.
    fn chosen(&mut self, side: Side, cid: Cid) {
        if self.to[side] != Some(cid) {
            self.sent_to_by(side, cid);
        }
    }

    /// Notes that packets to `side` are sent to `cid` from now on.
    fn sent_to_by(&mut self, side: Side, cid: Cid) {
        let old = self.to[side].replace(cid);
        if old.is_some() || self.seldom.is_some() {
            self.seldom.get_or_insert_default().before[side] = old;
        }
    }

    fn short(&mut self, at: Time, side: Side, packet: &Short<'_>, padded: bool) {
        self.sent_by(side).one_rtt += 1;
        let length = self.to[1 - side].map_or(0, |cid| cid.len());
        self.changed(1 - side, packet, length);
        let content = exchanges::content(packet.wire_bytes, 1 + length as u32);
        if self.finished.is_some() {
            self.spin.packet(at, side, packet.spin());
            self.watched(at, side, content);
        }
        match self.client() {
            Some(_) if padded => {}
            Some(client) if client == side => {
                self.exchanges.request(at, packet.wire_bytes, content, false);
            }
            Some(_) => {
                if self.finished.is_none() && exchanges::is_data(content) {
                    self.early_answer = self.early_answer.saturating_add(content);
                }
                let path = self.least[side].map(Elapsed::ns);
                self.exchanges.response(at, packet.wire_bytes, content, path);
            }
            None => {}
        }
    }

    /// Notes the destination connection ID of a packet with a short header.
    fn changed(&mut self, side: Side, packet: &Short<'_>, length: usize) {
        let Some(cid) = packet.destination(length).and_then(Cid::new) else { return };
        let before = self.seldom.as_ref().and_then(|seldom| seldom.before[side]);
        if self.to[side] == Some(cid) || before == Some(cid) || length == 0 {
            return;
        }
        self.sent_to_by(side, cid);
        match self.client() {
            Some(client) if client == side => self.counts.client_cid_changes += 1,
            Some(_) => self.counts.server_cid_changes += 1,
            None => {}
        }
    }

    /// Frees the buffers.
    pub(super) fn let_go(&mut self) {
        self.doubts.add(Doubts::TOO_MUCH_HELD);
        if let Some(live) = &mut self.live {
            live.forget();
        }
    }

    /// Whether there is evidence of QUIC: more than a packet of an unknown version.
    pub(super) fn is_quic(&self) -> bool {
        self.client.is_some()
            || self.counts.version_negotiations > 0
            || self.counts.version.is_some_and(|version| !packet::is_reserved(version.get()))
    }
}
