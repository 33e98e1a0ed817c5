//! Results of a session: alerts, and all facts at its end.

use super::{Past, Place, Session};
use crate::Time;
use crate::flights::Flight;
use crate::observed::{self, AlertSeen, Exchange, TlsSeen};
use crate::table::Side;
use firstbyte_core::timeline::Handshake;

impl Session {
    pub(super) fn alert(&mut self, side: Side, at: Time) {
        const CLOSE_NOTIFY: u8 = 0;
        const WARNING: u8 = 1;
        let clear = self.now[side].clear;
        let read = self.live.as_ref().map_or(([0; 2], 0), |live| live.alert);
        let (description, warning) = match read {
            ([level, description], 2) if clear => (Some(description), level == WARNING),
            _ => (None, false),
        };
        if description != Some(CLOSE_NOTIFY) {
            let by_client = self.client() == Some(side);
            self.note_alert(AlertSeen { by_client, description, warning, at });
        }
    }

    /// Keeps the first alert; a later one that is not a warning replaces a warning.
    pub(super) fn note_alert(&mut self, alert: AlertSeen) {
        self.change(|past| {
            if past.seen.alert.is_none_or(|known| known.warning && !alert.warning) {
                past.seen.alert = Some(alert);
            }
        });
    }

    /// Ends the connection. Incomplete messages are read up to what arrived. `None` if there was no TLS.
    pub(crate) fn end(&mut self, place: Place) -> Option<(TlsSeen, Vec<Flight>)> {
        for side in [0, 1] {
            self.with_messages(side, place, |assembler, found| assembler.lose(found));
        }
        if self.live.as_ref().is_some_and(|live| !live.odd.is_empty())
            && let Some(client) = self.client()
        {
            self.settle_odd(1 - client, false);
        }
        self.exchanges.close();
        let Past { mut seen, flights } = match self.live.take() {
            Some(live) => live.past,
            None => self.over.then(|| self.past.value())?,
        };
        if let Some(client) = self.client() {
            let first = flights.iter().find(|flight| flight.side() != client);
            seen.server_flight_bytes = first.map(|flight| u64::from(flight.bytes));
        }
        seen.unconfirmed = seen.complete
            && (self.refusal > 0 || self.tls13 && seen.alert.is_some_and(|alert| !alert.by_client));
        seen.tickets_inferred = (self.tls13 && seen.complete).then_some(self.exchanges.tickets);
        if !self.tls13 && seen.complete {
            seen.tickets.get_or_insert(0);
        }
        if seen.complete && seen.handshake.is_some_and(|kind| kind != Handshake::Resumed) {
            seen.session_issued = if self.tls13 {
                self.exchanges.issued()
            } else {
                Some(seen.session_issued == Some(true) || seen.tickets > Some(0))
            };
        }
        Some((seen, flights))
    }

    /// The exchanges, put into `first`. They are counted only if the handshake is `complete`.
    pub(crate) fn exchanges(&self, complete: bool, first: Vec<Exchange>) -> observed::Exchanges {
        self.exchanges.seen(complete, self.http2 || self.records_lost, first)
    }
}
