//! Reads encrypted records by their lengths and their order.
//!
//! In: application data records. Out: the rest of the handshake (TLS 1.3 encrypts it), early data, exchanges. A record
//! counts as a certain message only if no other message can have its length.

use super::Session;
use crate::observed::{AlertSeen, EarlyDataSeen};
use crate::table::Side;
use crate::tls::exchanges::{self, Record};
use crate::tls::handshake::{
    LEAST_CERTIFICATE, alert_length, end_of_early_data_length, finished_length,
};
use crate::tls::messages;
use firstbyte_core::timeline::Handshake;

impl Session {
    pub(super) fn application_data(&mut self, side: Side, record: &Record) {
        let client = self.client() == Some(side);
        let Some(live) = &mut self.live else { return };
        match live.tls13 {
            Some(false) => {
                // False start (RFC 7918): the client does not wait for the server's Finished.
                self.data(side, record);
            }
            _ if client => {
                // Data before TLS (CONNECT, STARTTLS) was acknowledged before the ClientHello.
                let before_answer = match record.acked {
                    Some(acked) => acked <= live.hello_acked.unwrap_or(0),
                    None => live.server_hello.is_none(),
                };
                if live.offer.early_data && before_answer {
                    self.early_data(side, record);
                } else if live.server_hello.is_some() {
                    self.client_flight(side, record);
                } else if live.lost[1 - side] {
                    self.finish(false);
                }
            }
            Some(true) => {
                let suite = live.past.seen.cipher_suite;
                let length = finished_length(suite);
                let lost = live.lost[side];
                if record.length == alert_length(suite) && !live.server_finished && !lost {
                    self.encrypted_alert(side, record);
                    return;
                }
                if live.odd.first().is_some_and(|first| first.is_acknowledged_by(record)) {
                    // Whatever these records held, the server continues after the client's Finished.
                    self.settle_odd(side, true);
                    self.after_handshake(side, record);
                    return;
                }
                live.server_records += 1;
                if live.server_finished {
                    let early = live.early_bytes > 0 && self.exchanges.under_way();
                    let kind = self.kind();
                    let unasked = Record { acked: None, ..*record };
                    self.exchanges.response(if early { &unasked } else { record }, kind);
                    return;
                }
                let ends = record.length == length && live.server_records > 1;
                live.server_finished = ends;
                let code = match live.server_records {
                    1 => messages::ENCRYPTED_EXTENSIONS,
                    _ if ends => messages::ENCRYPTED_FINISHED,
                    _ => messages::ENCRYPTED,
                };
                live.server_last = record.length;
                self.fly(side, record.end, Some(code));
            }
            None => {}
        }
    }

    fn early_data(&mut self, side: Side, record: &Record) {
        let Some(live) = &mut self.live else { return };
        let first = live.early_bytes == 0;
        live.early_bytes += u64::from(record.length) + 5;
        let bytes = live.early_bytes;
        if first
            && live.flies(side)
            && let Some(flight) = live.past.flights.last_mut()
        {
            flight.name(messages::EARLY_DATA);
        }
        let early = &mut live.past.seen.early_data;
        if let Some(early) = early {
            early.bytes = bytes;
        }
        if early.and_then(|early| early.accepted) != Some(false) {
            let kind = Kind13::for_protocol(self.http2);
            self.exchanges.request(record, kind);
        }
    }

    /// Handles the client's records after the server's flight, up to its Finished.
    ///
    /// The Finished is told by its position. If a session is resumed, the client sends no certificate (RFC 8446
    /// §4.3.2), so that its Finished comes first. Otherwise a record that is too short for a certificate and long
    /// enough for a Finished is the Finished. A record longer than necessary is padded (§5.4).
    fn client_flight(&mut self, side: Side, record: &Record) {
        let Some(live) = &mut self.live else { return };
        let seen = &live.past.seen;
        let suite = seen.cipher_suite;
        let least = finished_length(suite);
        let refused = seen.early_data.is_some_and(|early| early.accepted == Some(false));
        let early = live.early_bytes > 0 && !live.end_of_early_data && !refused;
        let resumed = seen.handshake == Some(Handshake::Resumed);
        let in_place = live.odd.is_empty() && !live.lost[side];
        let behind_short = !live.lost[side] && live.odd.iter().all(|record| record.length < least);
        let padded = !early
            && behind_short
            && record.length >= least
            && (resumed || record.length < LEAST_CERTIFICATE);
        if record.length == alert_length(suite) && live.early_bytes == 0 && in_place {
            self.encrypted_alert(side, record);
        } else if record.length == end_of_early_data_length(suite) && live.early_bytes > 0 {
            live.end_of_early_data = true;
            self.fly(side, record.end, Some(messages::END_OF_EARLY_DATA));
        } else if record.length == least || padded {
            live.odd.clear();
            self.padding[side] = padding(record.length, least);
            self.fly(side, record.end, Some(messages::ENCRYPTED_FINISHED));
            self.finish_tls13(true);
        } else if early && in_place {
            // Nothing but early data comes before the Finished.
            self.early_data(side, record);
        } else if live.odd.len() < 4 {
            // A certificate, or the whole flight in one record.
            if live.odd.is_empty() {
                self.fly(side, record.end, Some(messages::ENCRYPTED));
            }
            if let Some(live) = &mut self.live {
                live.odd.push(*record);
            }
        } else {
            self.settle_odd(1 - side, false);
            self.data(side, record);
        }
    }

    /// Handles an alert in place of the expected handshake messages: the handshake is over.
    fn encrypted_alert(&mut self, side: Side, record: &Record) {
        self.apart(side, record.start);
        self.fly(side, record.end, Some(messages::ENCRYPTED_ALERT));
        self.note_encrypted_alert(side, record);
        self.finish(false);
    }

    fn note_encrypted_alert(&mut self, side: Side, record: &Record) {
        let by_client = self.client() == Some(side);
        let (description, warning, at) = (None, false, record.end);
        self.note_alert(AlertSeen { by_client, description, warning, at });
    }

    /// Called if no record was a Finished on its own: the first must have held it, and the others are requests. If none
    /// is long enough for a Finished, the handshake did not complete, unless the server has `answered`.
    pub(super) fn settle_odd(&mut self, server: Side, answered: bool) {
        let Some(live) = &mut self.live else { return };
        let odd = std::mem::take(&mut live.odd);
        let least = finished_length(live.past.seen.cipher_suite);
        if odd.is_empty() {
            return;
        }
        let client = self.client().unwrap_or(1 - server);
        if !answered && odd.iter().all(|record| record.length < least) {
            self.finish(false);
            return;
        }
        self.finish_tls13(false);
        for record in odd.iter().skip(1) {
            self.data(client, record);
        }
    }

    /// Notes the client's Finished, which came `alone` in a record or together with data that cannot be told from it.
    fn finish_tls13(&mut self, alone: bool) {
        let client = self.client();
        let Some(live) = &mut self.live else { return };
        let whole = alone && client.is_some_and(|client| !live.lost[client]);
        live.finished = [true; 2];
        // The server's padding shows only if its Finished had a record of its own.
        let last = (live.server_last, finished_length(live.past.seen.cipher_suite));
        let server_padding = match last {
            (last, least) if !live.server_finished && last < LEAST_CERTIFICATE => {
                padding(last, least)
            }
            _ => 0,
        };
        let sent = live.early_bytes > 0;
        let ended = live.end_of_early_data;
        if let Some(early) = &mut live.past.seen.early_data
            && early.accepted.is_none()
            && sent
        {
            // Only accepted data has an EndOfEarlyData (RFC 8446 §4.5), unless that is in the part that was not
            // captured.
            let accepted = (ended || whole).then_some(ended);
            *early = EarlyDataSeen { accepted, inferred: accepted.is_some(), ..*early };
            if accepted == Some(false) {
                self.exchanges.rejected();
            }
        }
        let refusal = alert_length(live.past.seen.cipher_suite);
        if let Some(client) = client {
            self.padding[1 - client] = server_padding;
            self.refusal = refusal + u16::from(server_padding);
        }
        self.finish(true);
    }

    /// Handles an application data record after the handshake. In TLS 1.3 the server has not yet confirmed the client's
    /// last flight: if its first record is an alert, it refuses the flight (a certificate, RFC 8446 §4.4.2.4).
    pub(super) fn after_handshake(&mut self, side: Side, record: &Record) {
        if self.refusal > 0 && self.client() == Some(1 - side) {
            let padded = std::mem::take(&mut self.refusal);
            let bare = padded - u16::from(self.padding[side]).min(padded);
            if record.length == padded || record.length == bare {
                self.note_encrypted_alert(side, record);
            }
        }
        self.data(side, record);
    }

    pub(super) fn data(&mut self, side: Side, record: &Record) {
        let padding = self.padding[side].into();
        let kind = exchanges::Kind { padding, ..self.kind() };
        match self.client() {
            Some(client) if client == side => self.exchanges.request(record, kind),
            Some(_) => self.exchanges.response(record, kind),
            None => {}
        }
    }

    const fn kind(&self) -> exchanges::Kind {
        exchanges::Kind { tls13: self.tls13, http2: self.http2, padding: 0 }
    }
}

/// By how many bytes a record is longer than its content requires.
fn padding(length: u16, least: u16) -> u8 {
    u8::try_from(length.saturating_sub(least)).unwrap_or(0)
}

struct Kind13;

impl Kind13 {
    /// Early data implies TLS 1.3, whatever the server answers.
    const fn for_protocol(http2: bool) -> exchanges::Kind {
        exchanges::Kind { tls13: true, http2, padding: 0 }
    }
}
