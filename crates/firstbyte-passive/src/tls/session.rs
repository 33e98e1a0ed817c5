//! Follows one TLS connection: from the records of both directions to the facts that they show.
//!
//! In: records as [`Reader`](super::Reader) finds them. Out: [`TlsSeen`], the handshake's flights, the exchanges.
//! Resumption is proven by the ServerHello's `pre_shared_key` (TLS 1.3) or by the abbreviated flow (up to TLS 1.2),
//! never by an echoed session ID.

mod encrypted;
mod outcome;

use super::exchanges::{Exchanges, Record};
use super::handshake::{Live, Past};
use super::hello;
use super::messages::{self, Message};
use crate::observed::TlsSeen;
use crate::packed::Packed;
use crate::table::Side;
use crate::{SessionId, Time};
use firstbyte_core::timeline::{Handshake, SessionMechanism};
use firstbyte_core::wire::tls::is_tls13;

/// A position in the streams, and when the tap saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// When the tap saw the segment.
    pub(crate) at: Time,
    /// Bytes of this direction before it, from the start of the stream; wraps.
    pub(crate) position: u32,
    /// Bytes of the other direction that the segment acknowledged; absent if the start of that direction is unknown.
    pub(crate) acked: Option<u32>,
}

/// The current record of a direction.
#[derive(Clone, Copy, Debug)]
struct Now {
    start: Time,
    position: u32,
    acked: Option<u32>,
    length: u16,
    kind: u8,
    /// Whether it is an unencrypted handshake record.
    clear: bool,
}

impl Now {
    const fn record(&self, end: Time) -> Record {
        Record {
            start: self.start,
            end,
            position: self.position,
            acked: self.acked,
            length: self.length,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    now: [Now; 2],
    /// The side that sent a ClientHello, or that received a ServerHello.
    client: Option<u8>,
    live: Option<Box<Live>>,
    /// What remains of the handshake after its end.
    past: Packed<Past>,
    exchanges: Exchanges,
    /// TLS 1.3: by how many bytes each side pads records other than application data, as its Finished shows.
    padding: [u8; 2],
    over: bool,
    tls13: bool,
    /// TLS 1.3: length that an alert of the server has; 0 once the server has sent something after the client's
    /// Finished.
    refusal: u16,
    http2: bool,
    malformed: bool,
    records_lost: bool,
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

impl Session {
    pub(crate) fn new(limit: usize) -> Self {
        let now = Now {
            start: Time::default(),
            position: 0,
            acked: None,
            length: 0,
            kind: 0,
            clear: false,
        };
        Self {
            now: [now; 2],
            client: None,
            live: None,
            past: Packed::default(),
            exchanges: Exchanges::new(limit),
            padding: [0; 2],
            over: false,
            tls13: false,
            refusal: 0,
            http2: false,
            malformed: false,
            records_lost: false,
        }
    }

    /// The side that the hellos show to be the client.
    pub(crate) fn client(&self) -> Option<Side> {
        self.client.map(Side::from)
    }

    /// Whether the handshake is over or there is none to follow.
    pub(crate) const fn handshake_over(&self) -> bool {
        self.over
    }

    /// Whether the handshake is over and was seen.
    pub(crate) const fn had_handshake(&self) -> bool {
        self.over && !self.past.is_empty()
    }

    /// Whether any TLS record was seen.
    pub(crate) const fn any_tls(&self) -> bool {
        self.live.is_some() || self.over
    }

    /// Bytes of buffered messages.
    pub(crate) fn held(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.held())
    }

    /// Frees the buffers. Only the part of an incomplete message that was buffered so far will be read.
    pub(crate) fn forget(&mut self) {
        if let Some(live) = &mut self.live {
            live.messages.iter_mut().for_each(messages::Assembler::forget);
        }
    }

    /// Whether `side` is in the middle of a handshake message.
    pub(crate) fn in_handshake(&self, side: Side) -> bool {
        self.live.as_ref().is_some_and(|live| live.messages[side].in_message() || live.lost[side])
    }

    /// Whether a message could not be parsed.
    pub(crate) const fn malformed(&self) -> bool {
        self.malformed
    }

    /// Whether records were lost, even if they were found again later.
    pub(crate) const fn lost_records(&self) -> bool {
        self.records_lost
    }

    /// Notes that a segment without data acknowledged everything that `side` had sent up to `sent`.
    pub(crate) fn acknowledged(&mut self, side: Side, sent: Time, at: Time) {
        self.change(|past| {
            if let Some(flight) = past.flights.last_mut()
                && flight.side() == side
                && flight.end == sent
            {
                flight.acknowledged = Some(at);
            }
        });
    }

    /// Changes the stored facts about the handshake, which may be over.
    fn change(&mut self, change: impl FnOnce(&mut Past)) {
        match &mut self.live {
            Some(live) => change(&mut live.past),
            None if self.over => self.past.change(change),
            None => {}
        }
    }

    /// Starts a record. Returns whether its payload is needed.
    pub(crate) fn record(&mut self, side: Side, place: Place, kind: u8, length: u16) -> bool {
        if !self.any_tls() {
            if kind == APPLICATION_DATA {
                self.over = true;
            } else {
                self.live = Some(Box::default());
            }
        }
        let mut clear = false;
        if let Some(live) = &mut self.live {
            clear = match kind {
                // TLS 1.3 sends handshake records only unencrypted, and a ChangeCipherSpec only for compatibility.
                HANDSHAKE => !live.changed[side] || live.tls13 == Some(true),
                // An encrypted alert is longer.
                ALERT => length == 2,
                _ => false,
            };
            if kind == HANDSHAKE && clear {
                live.messages[side].at_record();
            }
            live.alert.1 = 0;
        }
        let Place { at: start, position, acked } = place;
        self.now[side] = Now { start, position, acked, length, kind, clear };
        clear || kind == HANDSHAKE && self.live.is_some() && self.may_be_hello(side)
    }

    /// Whether a handshake record after a client's ChangeCipherSpec may be a hello. Before the server's answer is seen,
    /// it is either a second ClientHello (TLS 1.3) or an encrypted Finished (TLS 1.2), which is shorter.
    fn may_be_hello(&self, side: Side) -> bool {
        self.live.as_ref().is_some_and(|live| live.tls13.is_none() && live.changed[side])
            && self.now[side].length > 100
    }

    /// Takes payload bytes of a record whose payload is needed.
    pub(crate) fn content(&mut self, side: Side, place: Place, bytes: &[u8]) {
        let now = self.now[side];
        if now.kind == ALERT {
            if let Some(live) = &mut self.live {
                let (alert, have) = &mut live.alert;
                for byte in bytes {
                    if let Some(slot) = alert.get_mut(usize::from(*have)) {
                        *slot = *byte;
                        *have += 1;
                    }
                }
            }
            return;
        }
        self.with_messages(side, place, |assembler, found| assembler.feed(bytes, found));
    }

    /// Notes that payload bytes of such a record were not captured.
    pub(crate) fn content_missing(&mut self, side: Side, place: Place, bytes: u32) {
        if let Some(live) = &mut self.live {
            live.lost[side] = true;
        }
        if self.now[side].kind == HANDSHAKE {
            self.with_messages(side, place, |assembler, found| assembler.missing(bytes, found));
        }
    }

    /// Notes that the record boundaries in this direction are lost.
    pub(crate) fn records_lost(&mut self, side: Side, place: Place) {
        self.records_lost |= self.any_tls();
        if let Some(live) = &mut self.live {
            live.lost[side] = true;
            self.with_messages(side, place, |assembler, found| assembler.lose(found));
        }
    }

    /// Runs `feed` on the message assembler of a direction and reads the messages that it completes.
    fn with_messages(
        &mut self,
        side: Side,
        place: Place,
        feed: impl FnOnce(&mut messages::Assembler, &mut dyn FnMut(Message<'_>)),
    ) {
        let Some(live) = &mut self.live else { return };
        let mut assembler = std::mem::take(&mut live.messages[side]);
        feed(&mut assembler, &mut |message| self.message(side, place, &message));
        if let Some(live) = &mut self.live {
            live.messages[side] = assembler;
        }
    }

    /// Starts a ClientHello in SSL 2.0 format. Returns whether its payload is needed.
    pub(crate) fn sslv2_hello(&mut self, side: Side, place: Place, length: u32) -> bool {
        self.record(side, place, HANDSHAKE, length as u16);
        self.now[side].clear = true;
        if let Some(live) = &mut self.live {
            live.messages[side].sslv2(length);
            live.sslv2 = true;
        }
        true
    }

    /// Notes a ServerHello of SSL 2.0, whose handshake is not followed.
    pub(crate) fn sslv2_answer(&mut self, side: Side) {
        const SSL_2_0: u16 = 0x0002;
        if self.any_tls() && self.client() == Some(1 - side) {
            self.change(|past| {
                past.seen.server_hello = true;
                past.seen.version = Some(SSL_2_0);
            });
            self.leave();
        }
    }

    /// Ends the current record of this direction.
    pub(crate) fn record_end(&mut self, side: Side, place: Place) {
        let now = self.now[side];
        if self.over {
            if now.kind == APPLICATION_DATA {
                self.after_handshake(side, &now.record(place.at));
            } else if now.kind == ALERT && now.clear {
                self.alert(side, place.at);
            }
            return;
        }
        match now.kind {
            HANDSHAKE if now.clear => self.fly(side, place.at, None),
            HANDSHAKE => self.encrypted_handshake(side, place.at),
            CHANGE_CIPHER_SPEC => self.change_cipher_spec(side, place.at),
            ALERT => {
                self.apart(side, now.start);
                self.fly(side, place.at, Some(messages::ALERT));
                self.alert(side, place.at);
            }
            APPLICATION_DATA => self.application_data(side, &now.record(place.at)),
            _ => {}
        }
    }

    /// Adds the record that ends at `at` to a flight, and names its content.
    fn fly(&mut self, side: Side, at: Time, code: Option<u8>) {
        let now = self.now[side];
        let flight = self.live.as_mut().and_then(|live| live.flight(side, now.start));
        let Some(flight) = flight else { return };
        flight.bytes = flight.bytes.saturating_add(u32::from(now.length) + 5);
        flight.end = at;
        if let Some(code) = code {
            flight.name(code);
        }
    }

    /// Begins a new flight at `start` unless the record was sent together with the last flight: an alert answers
    /// something, or ends a wait.
    fn apart(&mut self, side: Side, start: Time) {
        if let Some(live) = &mut self.live
            && live.past.flights.last().is_some_and(|last| last.side() == side && last.end < start)
        {
            live.begin_flight(side, start);
        }
    }

    /// Handles a complete unencrypted message. Its record may continue, but already belongs to the flight.
    fn message(&mut self, side: Side, place: Place, message: &Message<'_>) {
        let code = self.read_message(side, place, message);
        let start = self.now[side].start;
        let Some(live) = &mut self.live else { return };
        let begins = !live.flies(side);
        if let Some(flight) = live.flight(side, start) {
            // The record's bytes are counted when it ends.
            if begins {
                flight.end = place.at;
            }
            flight.name(code);
        }
    }

    fn read_message(&mut self, side: Side, place: Place, message: &Message<'_>) -> u8 {
        let client = self.client();
        let Some(live) = self.live.as_deref_mut() else { return message.kind };
        let seen = &mut live.past.seen;
        match message.kind {
            messages::CLIENT_HELLO => {
                self.client = Some(side as u8);
                live.offer = if std::mem::take(&mut live.sslv2) {
                    hello::sslv2_hello(message.body, seen)
                } else {
                    hello::client_hello(message.body, seen)
                };
                self.malformed |= !live.offer.whole && !message.cut;
                seen.client_hello_bytes = Some(message.bytes);
                live.hello_acked = self.now[side].acked;
                let offer = live.offer;
                self.offered(offer);
            }
            messages::SERVER_HELLO => {
                self.client = Some(1 - side as u8);
                let may_be_13 = live.offer.tls13 || !live.offer.whole;
                let answer = hello::server_hello(message.body, seen, may_be_13);
                self.malformed |= !answer.whole && !message.cut;
                if let Some(version) = seen.version {
                    self.tls13 = is_tls13(version);
                    live.tls13 = Some(self.tls13);
                }
                if answer.retry {
                    self.retried();
                    return messages::RETRY;
                }
                live.server_hello = Some((side, place.at));
                let sent = live.offer.session_id.map(|(id, _)| id);
                live.new_session = answer.session_id.filter(|id| Some(*id) != sent);
                if answer.tls13 && (answer.whole || answer.pre_shared_key) {
                    self.answered(answer.pre_shared_key);
                }
                self.may_be_http2();
            }
            messages::OLD_HELLO_RETRY_REQUEST if live.server_hello.is_none() => {
                self.client = Some(1 - side as u8);
                hello::old_retry(message.body, seen);
                live.tls13 = Some(true);
                self.tls13 = true;
                self.retried();
            }
            messages::CERTIFICATE if client == Some(1 - side) => {
                if !message.cut {
                    seen.certificates = message.certificates;
                }
                live.full = true;
                self.full();
            }
            messages::SERVER_KEY_EXCHANGE => {
                hello::server_key_exchange(message.body, seen);
                live.full = true;
                self.full();
            }
            messages::CERTIFICATE_REQUEST => seen.client_certificate_requested = true,
            messages::SERVER_HELLO_DONE | messages::CLIENT_KEY_EXCHANGE => {
                live.full = true;
                if message.kind == messages::CLIENT_KEY_EXCHANGE {
                    seen.client_key_exchange_bytes = message.bytes.checked_sub(4);
                }
                self.full();
            }
            messages::NEW_SESSION_TICKET => {
                seen.tickets = Some(seen.tickets.unwrap_or(0) + 1);
            }
            _ => {}
        }
        message.kind
    }

    /// Notes the session that the ClientHello offers, as far as it is known before the answer.
    fn offered(&mut self, offer: hello::ClientOffer) {
        let Some(seen) = self.seen() else { return };
        // A ClientHello after the answer is not the one that was answered.
        if seen.handshake.is_some() {
            return;
        }
        let resumption = &mut seen.resumption;
        (resumption.offered, resumption.offered_size) = if offer.pre_shared_key {
            (Some(SessionMechanism::Psk), Some(offer.identities))
        } else if offer.ticket > 0 {
            (Some(SessionMechanism::Ticket), Some(offer.ticket))
        } else {
            (None, None)
        };
        resumption.id_sent = offer.session_id;
        resumption.cut = !offer.whole;
        if offer.early_data {
            let early = seen.early_data.get_or_insert_default();
            early.offered = true;
        }
    }

    /// Handles a HelloRetryRequest: early data is refused (RFC 8446 §4.2.10).
    fn retried(&mut self) {
        let Some(live) = &mut self.live else { return };
        live.retry = true;
        live.past.seen.hello_retry_request = true;
        self.early_data_refused();
    }

    fn early_data_refused(&mut self) {
        if let Some(early) = self.seen().and_then(|seen| seen.early_data.as_mut()) {
            early.accepted = Some(false);
        }
        self.exchanges.rejected();
    }

    /// Handles a TLS 1.3 ServerHello, which shows how the handshake continues.
    fn answered(&mut self, pre_shared_key: bool) {
        let Some(live) = self.live.as_deref_mut() else { return };
        let seen = &mut live.past.seen;
        let resumption = &mut seen.resumption;
        if pre_shared_key {
            resumption.accepted = Some(SessionMechanism::Psk);
            seen.handshake = Some(Handshake::Resumed);
            return;
        }
        resumption.declined = resumption.offered.is_some();
        seen.handshake =
            Some(if live.retry { Handshake::FullWithHelloRetryRequest } else { Handshake::Full });
        if live.offer.early_data {
            self.early_data_refused();
        }
    }

    /// Notes a full handshake in TLS up to 1.2.
    fn full(&mut self) {
        let tls13 = self.tls13;
        let Some(live) = self.live.as_deref_mut() else { return };
        let seen = &mut live.past.seen;
        if seen.handshake.is_none() && !tls13 {
            seen.handshake = Some(Handshake::Full);
            seen.resumption.declined = seen.resumption.offered.is_some();
            live.issued = live.new_session;
            seen.session_issued = Some(live.new_session.is_some());
        }
    }

    /// The session ID that the server issued for a new session; returned once.
    pub(crate) fn take_issued(&mut self) -> Option<SessionId> {
        self.live.as_deref_mut()?.issued.take()
    }

    /// Handles the server's ChangeCipherSpec: in TLS up to 1.2 without a key exchange before it, the session is resumed
    /// (RFC 5246 §7.3 figure 2).
    fn abbreviated(&mut self) {
        let Some(live) = self.live.as_deref_mut() else { return };
        let seen = &mut live.past.seen;
        if live.full || seen.handshake.is_some() || live.server_hello.is_none() {
            return;
        }
        seen.handshake = Some(Handshake::Resumed);
        let mechanism = if live.offer.ticket > 0 {
            Some(SessionMechanism::Ticket)
        } else {
            live.offer.session_id.map(|_| SessionMechanism::SessionId)
        };
        if seen.resumption.offered.is_none_or(|offered| offered == SessionMechanism::Psk) {
            seen.resumption.offered = mechanism;
            seen.resumption.offered_size = live.offer.session_id.map(|(_, length)| length);
        }
        seen.resumption.accepted = mechanism;
    }

    fn change_cipher_spec(&mut self, side: Side, at: Time) {
        self.fly(side, at, Some(messages::CHANGE_CIPHER_SPEC));
        let server = self.client() == Some(1 - side);
        let Some(live) = &mut self.live else { return };
        live.changed[side] = true;
        if server && live.tls13 == Some(false) && !live.lost[side] {
            self.abbreviated();
        }
    }

    /// Handles a handshake record after the ChangeCipherSpec in TLS up to 1.2: the Finished.
    fn encrypted_handshake(&mut self, side: Side, at: Time) {
        self.fly(side, at, Some(messages::ENCRYPTED_FINISHED));
        let Some(live) = &mut self.live else { return };
        live.finished[side] = true;
        if live.finished[1 - side] {
            self.finish(true);
        }
    }

    /// Ends the handshake: with both Finished messages, or given up.
    fn finish(&mut self, complete: bool) {
        if let Some(seen) = self.seen() {
            seen.complete = complete;
        }
        self.leave();
    }

    /// Stops following the handshake.
    fn leave(&mut self) {
        self.over = true;
        if let Some(live) = self.live.take() {
            self.past = Packed::from_value(&live.past);
        }
    }

    /// The facts so far, while the handshake continues.
    fn seen(&mut self) -> Option<&mut TlsSeen> {
        self.live.as_mut().map(|live| &mut live.past.seen)
    }

    fn may_be_http2(&mut self) {
        let Some(live) = &self.live else { return };
        let seen = &live.past.seen;
        let offered = seen.alpn_offered.as_deref().unwrap_or_default();
        self.http2 = match &seen.alpn {
            Some(chosen) => &**chosen == "h2",
            None => self.tls13 && offered.split(',').any(|name| name == "h2"),
        };
    }
}
