//! The record of a connection that has ended.

use super::{Close, Connection};
use crate::Doubts;
use crate::elapsed::Elapsed;
use crate::observed::ANSWER_WITHIN;
use crate::observed::{Carrier, Closing, Ending, Observed, QuicSeen, Roles, RoundTrips};
use crate::quic::flights;
use crate::table::{Key, Lasting, Side};
use crate::timing::{self, Timed};

impl Connection {
    /// Ends the connection stored under `key`, with `ending` or else as its packets show.
    pub(in crate::quic) fn end(mut self, key: &Key, ending: Option<Ending>) -> Observed {
        let first = self.first();
        let client = self.client().unwrap_or_else(|| match self.counts.version_negotiations {
            0 => first,
            // Only servers send Version Negotiation.
            _ if self.datagrams[1 - first].packets == 0 => 1 - first,
            _ => first,
        });
        let (server, ends) = (1 - client, self.ends(key));
        self.settle_alone();
        self.spun();
        let mut past = match self.live.take() {
            Some(mut live) => {
                live.settle(client, self.early_bytes);
                live.past
            }
            None => self.past.value(),
        };
        self.infer_early_data(&mut past);
        if self.datagrams.iter().any(|datagrams| datagrams.packets == 0) {
            self.doubts.add(Doubts::ONE_SIDED);
        }
        if self.client.is_none() && self.counts.version_negotiations == 0 {
            self.doubts.add(Doubts::MID_STREAM);
        }
        let round_trips = self.round_trips(client);
        let in_ns = |trips: [Option<Elapsed>; 2]| trips.map(|trip| trip.map(Elapsed::ns));
        let (least, opening) = (in_ns(self.least), in_ns(self.initial));
        let timed = Timed { client, least, opening, flights: &past.flights };
        let handshake_time =
            if self.complete { timing::handshake(&timed, &mut self.doubts) } else { None };
        let quic = QuicSeen {
            client_cid_bytes: self.to[client].map(|cid| cid.len() as u8),
            server_cid_bytes: self.to[server].map(|cid| cid.len() as u8),
            spin_round_trip: self.spin.round_trip(round_trips.path()),
            ..self.counts.seen(&past)
        };
        let soon = self.last().since(self.began) < ANSWER_WITHIN;
        let ending = match (self.ending(client), ending) {
            (Some(Ending::Unanswered), Some(forced @ Ending::Evicted)) => forced,
            (Some(Ending::Unanswered), Some(forced @ Ending::Replaced)) if soon => forced,
            (own, other) => own.or(other).unwrap_or(Ending::Open),
        };
        Observed {
            number: self.number,
            carrier: Carrier::Quic,
            client: ends[client],
            server: ends[server],
            roles: if self.client.is_some() { Roles::Opening } else { Roles::Unknown },
            started: self.began,
            last: self.last(),
            opening: self.opening,
            ending,
            closing: self.closed.map(|close| {
                let by_client = Side::from(close.by) == client;
                Closing { by_client, reset: false, at: close.at }
            }),
            sent: self.datagrams[client].traffic(),
            received: self.datagrams[server].traffic(),
            held_back: None,
            round_trips,
            tls: past.seen.map(Box::new),
            quic: Some(Box::new(quic)),
            handshake_time,
            flights: past.flights.iter().map(|flight| flight.seen(client, flights::name)).collect(),
            exchanges: self.exchanges.end(self.complete),
            longest_idle: Some(timing::duration(self.passed.longest())),
            doubts: self.doubts,
        }
    }

    fn ending(&self, client: Side) -> Option<Ending> {
        match self.closed {
            Some(Close { by, refuses: true, .. }) if Side::from(by) != client => {
                Some(Ending::Refused)
            }
            Some(_) => Some(Ending::Closed),
            // A client that continues has had an answer, whether that was captured or not.
            None if self.client.is_some()
                && self.datagrams[1 - client].packets == 0
                && self.counts.sent.handshake == 0
                && self.counts.sent.one_rtt == 0 =>
            {
                Some(Ending::Unanswered)
            }
            None => None,
        }
    }

    fn round_trips(&mut self, client: Side) -> RoundTrips {
        let server = 1 - client;
        let path = self.least[server].filter(|_| self.prompt[server]);
        let of = |trip: Option<Elapsed>| trip.map(|trip| timing::duration(trip.ns()));
        let known = |side: Side| self.least[side].filter(|_| self.is_known(side, path));
        let trips = RoundTrips {
            server_syn: of(self.initial[server]),
            client_syn: of(self.initial[client]),
            server_min: of(known(server)),
            client_min: of(known(client)),
        };
        let seen = |trip: Option<_>, side: Side| trip.is_some() || self.least[side].is_none();
        if !seen(trips.server_min, server) || !seen(trips.client_min, client) {
            self.doubts.add(Doubts::PATH_UNKNOWN);
        }
        if timing::is_unstable(trips.server_syn, trips.server_min)
            || timing::is_unstable(trips.client_syn, trips.client_min)
        {
            self.doubts.add(Doubts::ROUND_TRIP_UNSTABLE);
        }
        trips
    }
}
