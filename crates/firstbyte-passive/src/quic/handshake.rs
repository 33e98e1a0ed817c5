//! The part of a QUIC connection that lives only during its handshake.
//!
//! In: Initial packets. Out: who sent them, what their hellos say, which packets they acknowledge. The keys follow the
//! client through Retry, Version Negotiation and a change of version (RFC 9368).

use super::connection::Alone;
use super::crypto::{Added, Stream};
use super::facts::Past;
use super::flights::Message;
use super::initial::{self, Frame, InitialKeys};
use super::packet::{self, Long};
use crate::Time;
use crate::observed::{EarlyDataSeen, TlsSeen};
use crate::table::Side;
use crate::tls::hello::{self, ClientOffer};
use firstbyte_core::timeline::{Handshake, SessionMechanism};

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
/// Number of packets remembered until they are acknowledged.
const REMEMBERED: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u64,
    at: Time,
}

/// State that is needed only until the handshake is over, and then dropped.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The facts so far.
    pub(super) past: Past,
    keys: Option<InitialKeys>,
    streams: [Stream; 2],
    /// The largest packet number so far plus one.
    expected: [u64; 2],
    /// Packets that elicit an acknowledgment.
    sent: [Vec<Sent>; 2],
    pub(super) offer: ClientOffer,
    /// Bytes of datagrams that each side sent before the client's address was validated.
    pub(super) unvalidated: [u64; 2],
    pub(super) validated: bool,
    /// The client's first datagram after the server's last one: its time, and the bytes that each side had sent by
    /// then.
    pub(super) reply: Option<(Time, [u64; 2])>,
    /// Time of a datagram from the client that may have held its Finished, hidden by padding.
    pub(super) perhaps_finished: Option<Time>,
    /// An acknowledgment in an Initial without a message. A message may still follow at once.
    pub(super) alone: Option<Alone>,
    /// Time of the server's last datagram.
    pub(super) heard: Option<Time>,
    /// Bytes of the server's Initial and Handshake packets.
    pub(super) server_flight: u64,
    /// Whether the server sent a Handshake packet.
    pub(super) server_handshake: bool,
}

/// Content of an Initial packet.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// It held part of a message that was not seen before.
    pub(super) new: bool,
    /// It held part of a message, all of it seen before.
    pub(super) again: bool,
    pub(super) malformed: bool,
    pub(super) too_much: bool,
    /// When the tap saw the packet that it acknowledges for the first time.
    pub(super) acknowledged: Option<Time>,
    /// The error code of a CONNECTION_CLOSE.
    pub(super) close: Option<u64>,
    pub(super) messages: Vec<Message>,
}

/// Whether the keys derived from an Initial's own destination open it. That is true of a client's first Initial, and of
/// one that follows a Retry.
pub(super) fn opens_by_itself(packet: &Long<'_>, scratch: &mut Vec<u8>) -> bool {
    /// Packet number and the sample for header protection (RFC 9001 §5.4.2).
    const LEAST: usize = 20;
    // Deriving keys is expensive, so this is checked first.
    if !packet.is_whole() || packet.bytes.len() < packet.number_at + LEAST {
        return false;
    }
    InitialKeys::new(packet.version, packet.destination)
        .is_some_and(|keys| keys.open(true, packet, 0, scratch).is_some())
}

impl Live {
    /// Whether the current keys open `packet`.
    pub(super) fn opens(
        &mut self,
        by_client: bool,
        packet: &Long<'_>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        self.version(packet.version);
        self.keys.as_ref().is_some_and(|keys| keys.open(by_client, packet, 0, scratch).is_some())
    }

    /// Whether there are keys yet.
    pub(super) const fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    /// Starts again with `packet`, a first Initial from the client.
    pub(super) fn adopt(&mut self, packet: &Long<'_>) {
        let past = std::mem::take(&mut self.past);
        let (offer, unvalidated) = (self.offer, self.unvalidated);
        *self = Self { past, offer, unvalidated, validated: self.validated, ..Self::default() };
        self.keys = InitialKeys::new(packet.version, packet.destination);
    }

    /// Bytes of buffered messages.
    pub(super) fn held(&self) -> usize {
        self.streams.iter().map(Stream::held).sum()
    }

    /// Frees the buffers.
    pub(super) fn forget(&mut self) {
        self.streams = Default::default();
    }

    /// Switches to another version: the server may answer in one, with the same connection ID in its keys (RFC 9368
    /// §2.3, RFC 9369 §4.1).
    fn version(&mut self, version: u32) {
        if let Some(keys) = &self.keys
            && keys.version != version
            && packet::is_known(version)
        {
            self.keys = InitialKeys::new(version, keys.destination);
        }
    }

    /// Reads an Initial from `side`; `None` if it does not open. Buffers at most `room` bytes of it.
    pub(super) fn initial(
        &mut self,
        (at, side, by_client): (Time, Side, bool),
        packet: &Long<'_>,
        room: usize,
        scratch: &mut Vec<u8>,
    ) -> Option<Brought> {
        self.past.seen.get_or_insert_default();
        self.version(packet.version);
        let keys = self.keys.as_ref()?;
        let opened = keys.open(by_client, packet, self.expected[side], scratch)?;
        self.expected[side] = self.expected[side].max(opened.number + 1);
        let mut brought = Brought::default();
        let mut asks = false;
        for frame in initial::frames(opened.frames) {
            match frame {
                Some(Frame::Padding) => {}
                Some(Frame::Ping) => asks = true,
                Some(Frame::Ack { largest }) => {
                    let sent = &mut self.sent[1 - side];
                    let found = sent.iter().find(|sent| sent.number == largest).map(|sent| sent.at);
                    brought.acknowledged = brought.acknowledged.or(found);
                    sent.retain(|sent| sent.number > largest);
                }
                Some(Frame::Crypto { offset, data }) => {
                    asks = true;
                    match self.streams[side].add(offset, data, room) {
                        Added::New => brought.new = true,
                        Added::Again => brought.again = true,
                        Added::TooMuch => brought.too_much = true,
                    }
                }
                Some(Frame::Close(code)) => brought.close = Some(code),
                None => brought.malformed = true,
            }
        }
        if asks && self.sent[side].len() < REMEMBERED {
            self.sent[side].push(Sent { number: opened.number, at });
        }
        self.messages(side, by_client, &mut brought);
        Some(brought)
    }

    fn messages(&mut self, side: Side, by_client: bool, brought: &mut Brought) {
        let Some(seen) = &mut self.past.seen else { return };
        while let Some((kind, body)) = self.streams[side].next() {
            match (kind, by_client) {
                (CLIENT_HELLO, true) => {
                    seen.client_hello_bytes = Some(body.len() as u32 + 4);
                    self.offer = hello::client_hello(body, seen);
                    brought.malformed |= !self.offer.whole;
                    offered(&self.offer, seen);
                    brought.messages.push(Message::ClientHello);
                }
                (SERVER_HELLO, false) => {
                    let answer = hello::server_hello(body, seen, true);
                    brought.malformed |= !answer.whole;
                    brought.messages.push(if answer.retry {
                        Message::HelloRetryRequest
                    } else {
                        Message::ServerHello
                    });
                    if answer.retry {
                        seen.hello_retry_request = true;
                    } else if answer.whole {
                        answered(answer.pre_shared_key, &self.offer, seen);
                    }
                }
                _ => brought.malformed = true,
            }
        }
    }

    /// Ends the handshake, whether or not it completed: reads the received part of an incomplete ClientHello, and notes
    /// what the `early_bytes` of 0-RTT show.
    pub(super) fn settle(&mut self, client: Side, early_bytes: u64) {
        let Some(seen) = &mut self.past.seen else { return };
        if !seen.client_hello
            && let Some((CLIENT_HELLO, length, body)) = self.streams[client].partial()
        {
            seen.client_hello_bytes = Some(length.saturating_add(4));
            self.offer = hello::client_hello(body, seen);
            offered(&self.offer, seen);
        }
        seen.server_flight_bytes = Some(self.server_flight).filter(|bytes| *bytes > 0);
        early_data(&self.offer, early_bytes, seen);
    }
}

fn offered(offer: &ClientOffer, seen: &mut TlsSeen) {
    let resumption = &mut seen.resumption;
    resumption.offered = offer.pre_shared_key.then_some(SessionMechanism::Psk);
    resumption.offered_size = offer.pre_shared_key.then_some(offer.identities);
}

fn answered(pre_shared_key: bool, offer: &ClientOffer, seen: &mut TlsSeen) {
    seen.handshake = Some(if pre_shared_key {
        Handshake::Resumed
    } else if seen.hello_retry_request {
        Handshake::FullWithHelloRetryRequest
    } else {
        Handshake::Full
    });
    seen.resumption.accepted = pre_shared_key.then_some(SessionMechanism::Psk);
    seen.resumption.declined = offer.pre_shared_key && !pre_shared_key;
}

fn early_data(offer: &ClientOffer, bytes: u64, seen: &mut TlsSeen) {
    if !offer.early_data && bytes == 0 {
        return;
    }
    // After a HelloRetryRequest or without a resumed session, early data cannot be accepted (RFC 8446 §4.2.10).
    let refused = seen.hello_retry_request
        || (seen.server_hello && seen.resumption.accepted.is_none() && seen.handshake.is_some());
    seen.early_data = Some(EarlyDataSeen {
        offered: offer.early_data,
        bytes,
        accepted: (refused && bytes > 0).then_some(false),
        inferred: false,
    });
}
