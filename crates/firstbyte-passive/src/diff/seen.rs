//! The facts of a connection that are compared: a few numbers each, so that long captures fit in memory.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::super::layers::Endpoint;
use super::super::observed::{Carrier, CertificateKey, Observed};
use super::super::{Failed, Roles, Time};
use super::beside::Facts;
use super::rounds;
use firstbyte_core::timeline::Handshake;

/// One connection, reduced to the facts that are compared.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) started: Time,
    pub(super) last: Time,
    /// The client's address and the server's endpoint.
    pub(super) between: (IpAddr, Endpoint),
    /// Whether the handshake was resumed; absent if unknown.
    pub(super) resumed: Option<bool>,
    pub(super) version: Option<u16>,
    pub(super) group: Option<u16>,
    pub(super) cipher_suite: Option<u16>,
    /// Whether a session was offered; absent if unknown.
    pub(super) offered: Option<bool>,
    pub(super) key: Option<CertificateKey>,
    /// Absent without a ServerHello.
    pub(super) hello_retry_request: Option<bool>,
    pub(super) failed: Option<Failed>,
    /// Round trips between the tap and each side, seconds.
    pub(super) server_rtt: Option<f64>,
    pub(super) client_rtt: Option<f64>,
    /// The handshake's time, and the server's part of it, seconds; absent if in doubt.
    pub(super) handshake: Option<(f64, f64)>,
    /// Round trips of the handshake that the first request waited for, including those for flights larger than the
    /// initial window. Known even if the handshake's time is in doubt, as it is if a flight has to wait.
    pub(super) round_trips: Option<u32>,
    /// Round trips that the first request did not wait for: it was sent before the server's answer (early data, a false
    /// start).
    overlapped: u32,
    /// Whether a connection is opened before the handshake (TCP).
    pub(super) has_opening: bool,
    /// The server's mean time over the stored exchanges, seconds.
    pub(super) exchange_server: Option<f64>,
    pub(super) answered: u32,
    pub(super) beside: Facts,
}

impl Seen {
    /// Absent if the server is not known.
    pub(super) fn from_observed(observed: &Observed) -> Option<Self> {
        if observed.roles == Roles::Unknown {
            return None;
        }
        let tls = observed.tls.as_deref();
        let failed = Failed::judge(observed);
        let trips = &observed.round_trips;
        let handshake = observed.handshake_time.filter(|time| time.confident);
        // Acknowledgments of data may be delayed by client or server; those of the opening are not.
        let over_quic = observed.carrier == Carrier::Quic;
        let rtt = |syn: Option<Duration>, least: Option<Duration>| {
            syn.or(least.filter(|_| over_quic)).map(|rtt| rtt.as_secs_f64())
        };
        let overlapped = rounds::overlapped(observed);
        Some(Self {
            started: observed.started,
            last: observed.last,
            between: (observed.client.socket_addr().ip(), observed.server),
            resumed: tls.and_then(|tls| tls.handshake).map(|kind| kind == Handshake::Resumed),
            version: tls.and_then(|tls| tls.version),
            group: tls.and_then(|tls| tls.group),
            cipher_suite: tls.and_then(|tls| tls.cipher_suite),
            offered: tls
                .filter(|tls| !tls.offer_is_unknown())
                .map(|tls| tls.resumption.offered.is_some()),
            key: tls.and_then(|tls| tls.certificates).and_then(|chain| chain.key),
            hello_retry_request: tls
                .filter(|tls| tls.server_hello || tls.hello_retry_request)
                .map(|tls| tls.hello_retry_request),
            failed,
            server_rtt: rtt(trips.server_syn, trips.server_min),
            client_rtt: rtt(trips.client_syn, trips.client_min),
            handshake: handshake
                .map(|time| (time.total().as_secs_f64(), time.server.as_secs_f64())),
            round_trips: rounds::of_handshake(observed)
                .map(|round_trips| round_trips.saturating_sub(overlapped)),
            overlapped,
            has_opening: !over_quic,
            exchange_server: exchange_server(observed),
            answered: observed.exchanges.answered,
            beside: Facts::from_observed(observed),
        })
    }

    /// The time of a handshake of this kind, and the server's part of it.
    pub(super) fn timed(&self, resumed: bool) -> Option<(f64, f64)> {
        self.handshake.filter(|_| self.resumed == Some(resumed))
    }

    /// The part of the handshake's time that is neither the server's nor whole round trips: the client's time, and the
    /// duration of flights.
    pub(super) fn rest_of_handshake(&self) -> Option<f64> {
        let (whole, server) = self.handshake?;
        let path = self.server_rtt? + self.client_rtt?;
        Some(whole - server - f64::from(self.round_trips? + self.overlapped) * path)
    }
}

/// Mean over the stored exchanges: from the request's last byte to the response's first, minus the round trip between
/// tap and server.
fn exchange_server(observed: &Observed) -> Option<f64> {
    if observed.exchanges.approximate {
        return None;
    }
    let way = observed.round_trips.server_min?;
    let times: Vec<f64> = observed
        .exchanges
        .first
        .iter()
        .filter_map(|exchange| Some(exchange.response_first_packet?.since(exchange.request_end)))
        .map(|waited| waited.saturating_sub(way).as_secs_f64())
        .collect();
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

/// Connections of one side of a comparison.
///
/// Clones share their connections, and so does a side from which a few connections were removed.
#[derive(Clone, Debug, Default)]
pub struct Side {
    seen: Arc<Vec<Seen>>,
    /// Indices that do not belong to this side.
    without: Range<usize>,
}

impl Side {
    /// Adds a connection, unless its client and server cannot be told apart.
    pub fn add(&mut self, observed: &Observed) {
        self.own().extend(Seen::from_observed(observed));
    }

    /// The list, copied if it is shared.
    fn own(&mut self) -> &mut Vec<Seen> {
        if !self.without.is_empty() {
            self.seen = Arc::new(self.iter().cloned().collect());
            self.without = 0..0;
        }
        Arc::make_mut(&mut self.seen)
    }

    /// This side without the connections at `places`.
    pub(super) fn without(&self, places: Range<usize>) -> Self {
        debug_assert!(self.without.is_empty());
        Self { seen: Arc::clone(&self.seen), without: places }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Seen> {
        let (before, rest) = self.seen.split_at(self.without.start);
        before.iter().chain(&rest[self.without.len()..])
    }

    /// Adds all connections of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.own().extend(other.iter().cloned());
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.seen.len() - self.without.len()
    }

    /// The connections in the order in which they began.
    pub(super) fn in_order(&self) -> Vec<&Seen> {
        let mut seen: Vec<&Seen> = self.iter().collect();
        seen.sort_by_key(|seen| seen.started);
        seen
    }

    /// Connections per second, from the first packet to the last; absent for less than a second.
    pub fn connections_per_second(&self) -> Option<f64> {
        let first = self.iter().map(|seen| seen.started).min()?;
        let last = self.iter().map(|seen| seen.last).max()?;
        let span = last.since(first).as_secs_f64();
        (span >= 1.0).then(|| self.connections() as f64 / span)
    }
}
