//! What Initial packets, which can be decrypted, show of a connection: its ends, its hellos, its refusal.

use super::{Close, Connection};
use crate::observed::AlertSeen;
use crate::passed::passed_before;
use crate::quic::flights::Message;
use crate::quic::handshake;
use crate::quic::packet::Long;
use crate::table::Side;
use crate::{Doubts, Time};

impl Connection {
    /// Handles an Initial packet. Returns whether it held part of a message that was not seen before.
    pub(super) fn initial(
        &mut self,
        (at, side, may_open): (Time, Side, bool),
        packet: &Long<'_>,
        room: usize,
        scratch: &mut Vec<u8>,
    ) -> bool {
        let by_client = self.client().is_none_or(|client| client == side);
        let known = self.is_made_up(packet.destination);
        let Some(live) = &mut self.live else { return false };
        let begins = by_client
            && may_open
            && !(self.client.is_some() && live.opens(true, packet, scratch))
            && handshake::opens_by_itself(packet, scratch);
        if begins {
            let again = live.has_keys();
            live.adopt(packet);
            if self.client.is_none() && self.first != side as u8 && self.counts.version.is_some() {
                std::mem::swap(&mut self.counts.sent, &mut self.counts.received);
            }
            self.client = Some(side as u8);
            if !known {
                let place = if self.made_up.is_none() {
                    &mut self.made_up
                } else {
                    &mut self.seldom.get_or_insert_default().made_up
                };
                *place = Some(packet.destination);
            }
            if packet.token > 0 {
                live.validated = true;
                if self.counts.retries == 0 {
                    live.past.token_bytes = Some(packet.token);
                }
            }
            if !again {
                self.opening[0].get_or_insert(at);
            }
        }
        let Some(client) = self.client else { return false };
        let by_client = client == side as u8;
        let read = live.initial((at, side, by_client), packet, room, scratch);
        let Some(brought) = read else { return false };
        if brought.malformed {
            self.doubts.add(Doubts::MALFORMED_HANDSHAKE);
        }
        if brought.too_much {
            self.doubts.add(Doubts::TOO_MUCH_HELD);
        }
        if brought.again && !brought.new {
            self.datagrams[side].retransmitted += 1;
            self.doubts.add(Doubts::LOSS_IN_HANDSHAKE);
        }
        if !by_client {
            self.answered(at, side);
        } else if self.opening[1].is_some() {
            self.opening[2].get_or_insert(at);
        }
        let alone = !brought.new && !brought.again;
        self.acknowledged(side, at, brought.acknowledged, alone);
        if let Some(code) = brought.close {
            const CONNECTION_REFUSED: u64 = 0x02;
            let (by, refuses) = (side as u8, code == CONNECTION_REFUSED);
            if self.closed.is_none_or(|closed| passed_before(at, closed.at)) {
                self.closed = Some(Close { by, refuses, at });
            }
            self.close(at, by_client, code);
            self.fly(side, at, packet.wire_bytes, Some(Message::Close));
        }
        if brought.new {
            self.fly(side, at, packet.wire_bytes, None);
        }
        for message in brought.messages {
            self.fly(side, at, 0, Some(message));
        }
        brought.new
    }

    /// Notes the server's first answer.
    pub(super) fn answered(&mut self, at: Time, side: Side) {
        if self.client() == Some(1 - side) && self.opening[0].is_some() {
            self.opening[1].get_or_insert(at);
        }
    }

    fn close(&mut self, at: Time, by_client: bool, code: u64) {
        // The error codes include TLS alerts (RFC 9001 §4.8).
        const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
        if ALERTS.contains(&code)
            && let Some(live) = &mut self.live
            && let Some(seen) = &mut live.past.seen
        {
            let description = Some(code as u8);
            seen.alert.get_or_insert(AlertSeen { by_client, description, warning: false, at });
        }
    }
}
