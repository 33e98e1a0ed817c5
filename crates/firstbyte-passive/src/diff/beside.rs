//! Both sides of a comparison side by side: failures, kinds of handshakes, strength of the negotiated algorithms, and
//! throughput of responses.
//!
//! In: a [`Pair`]. Out: shares of connections with their intervals, and throughput. Nothing is weighted: these are the
//! connections as they were, whoever the clients were. Changes that have a cause are in the list of changes.

use std::collections::HashMap;
use std::hash::Hash;

use super::super::names;
use super::super::observed::{Carrier, Observed, TlsSeen};
use super::super::strength::{self, KeyExchange, Strength};
use super::super::{Failed, Time};
use super::Pair;
use super::seen::{Seen, Side};
use firstbyte_core::stats::{
    Interval, Stratum, quantile, share_estimate, stratified_medians, stratified_shares,
};
use firstbyte_core::timeline::{FailureType, Handshake, SessionMechanism};

/// Most pairs to compare side by side, those with most connections first: comparing many servers takes long.
pub const MOST_BESIDE: usize = 24;
/// Most values in a table: those with most connections.
const MOST_ROWS: usize = 16;

/// Kind of handshake of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Session {
    Full,
    Declined,
    Retried,
    BySessionId,
    Ticket,
    Psk,
    Resumed,
    EarlyTaken,
    EarlyRefused,
    EarlyUnknown,
}

impl Session {
    fn from_tls(tls: &TlsSeen) -> Option<Self> {
        if tls.handshake? != Handshake::Resumed {
            return Some(match (tls.hello_retry_request, tls.resumption.declined) {
                (true, _) => Self::Retried,
                (_, true) => Self::Declined,
                _ => Self::Full,
            });
        }
        if let Some(early) = tls.early_data.filter(|early| early.bytes > 0) {
            return Some(match early.accepted {
                Some(true) => Self::EarlyTaken,
                Some(false) => Self::EarlyRefused,
                None => Self::EarlyUnknown,
            });
        }
        Some(match tls.resumption.accepted {
            Some(SessionMechanism::SessionId) => Self::BySessionId,
            Some(SessionMechanism::Ticket) => Self::Ticket,
            Some(SessionMechanism::Psk) => Self::Psk,
            None => Self::Resumed,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Declined => "full, session declined",
            Self::Retried => "full, HelloRetryRequest",
            Self::BySessionId => "resumed by session ID",
            Self::Ticket => "resumed by ticket",
            Self::Psk => "resumed by PSK",
            Self::Resumed => "resumed",
            Self::EarlyTaken => "0-RTT, taken",
            Self::EarlyRefused => "0-RTT, not taken",
            Self::EarlyUnknown => "0-RTT, taken or not",
        }
    }
}

/// Application protocol above TLS, as far as it is unencrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Protocol {
    Http1,
    Http2,
    Http3,
    Other,
}

impl Protocol {
    /// The protocol chosen; if that is encrypted, the only one offered.
    fn from_tls(tls: &TlsSeen) -> Option<Self> {
        if let Some(chosen) = tls.alpn.as_deref() {
            return Some(Self::named(chosen));
        }
        let mut offered = tls.alpn_offered.as_deref()?.split(',').map(Self::named);
        let first = offered.next()?;
        offered.all(|other| other == first).then_some(first)
    }

    fn named(name: &str) -> Self {
        match name.trim() {
            "http/1.1" | "http/1.0" => Self::Http1,
            "h2" => Self::Http2,
            name if name == "h3" || name.starts_with("h3-") => Self::Http3,
            _ => Self::Other,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
            Self::Other => "another protocol",
        }
    }
}

/// The facts of one connection that are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    failure: Option<FailureType>,
    session: Option<Session>,
    protocol: Option<Protocol>,
    key_exchange: Option<(Strength, KeyExchange)>,
    cipher: Option<Strength>,
    /// Bytes of responses, and the time of their exchanges, seconds.
    delivered: Option<(u64, f64)>,
    /// Bytes of payload that the server sent.
    received: u64,
}

impl Facts {
    pub(super) fn from_observed(observed: &Observed) -> Self {
        let tls = observed.tls.as_deref();
        let over_quic = observed.carrier == Carrier::Quic;
        let protocol = tls.and_then(Protocol::from_tls);
        Self {
            failure: Failed::judge(observed).map(|failed| failed.failure_type(observed)),
            session: tls.and_then(Session::from_tls),
            // Over QUIC, the ALPN offer is all that shows the protocol before the handshake completes.
            protocol: protocol.filter(|it| !over_quic || *it == Protocol::Http3),
            key_exchange: tls.and_then(strength::key_exchange),
            cipher: tls.and_then(|tls| tls.cipher_suite).and_then(strength::cipher),
            delivered: delivered(observed),
            received: observed.received.bytes,
        }
    }
}

/// Totals over the answered exchanges that were kept: bytes of responses, and seconds from a request's first byte to
/// its response's last.
fn delivered(observed: &Observed) -> Option<(u64, f64)> {
    let exchanges = observed.exchanges.first.iter();
    let (bytes, seconds) =
        exchanges.fold((0, 0.0), |(bytes, seconds), exchange| match exchange.response_end {
            Some(end) => (
                bytes + exchange.response_bytes,
                seconds + end.since(exchange.request_start).as_secs_f64(),
            ),
            None => (bytes, seconds),
        });
    (seconds > 0.0).then_some((bytes, seconds))
}

/// Subject of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Failed connections by type, out of all.
    Failures,
    /// Kinds of handshakes, out of those known to be full or resumed.
    Sessions,
    /// Application protocols, out of the connections that show theirs.
    Protocols,
    /// Strength of the key exchange, out of the handshakes that show it.
    KeyExchange,
    /// Strength of the certificate's key, out of the handshakes that show it.
    CertificateKey,
    /// Strength of the cipher, out of the connections with a ServerHello.
    Cipher,
}

impl Subject {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Sessions => "sessions",
            Self::Protocols => "protocols",
            Self::KeyExchange => "key-exchange-strength",
            Self::CertificateKey => "certificate-key-strength",
            Self::Cipher => "cipher-strength",
        }
    }
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The value: a type of failure, a kind of handshake, or a class of strength with the algorithm's name if it is
    /// weak.
    pub name: String,
    /// Whether it should no longer be used.
    pub weak: bool,
    /// Connections before and after.
    pub counts: [usize; 2],
    /// 95 % intervals of its shares; absent below 20 connections.
    pub intervals: [Option<Interval>; 2],
    /// 95 % interval of the difference between the shares.
    pub difference: Option<Interval>,
}

/// Connections of both sides, counted by value.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What the table counts.
    pub subject: Subject,
    /// Number of connections for which the value is known or may exist.
    pub of: [usize; 2],
    /// The values, by falling number of connections; strengths from the weakest.
    pub values: Vec<Value>,
    /// Number of values left out: those with fewest connections.
    pub left_out: usize,
}

/// Throughput of responses, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// Connections with an answered exchange.
    pub connections: usize,
    /// 10th, 50th and 90th percentile over connections of response bytes per second of exchange.
    pub percentiles: [f64; 3],
    /// Response bytes of all connections per second of exchange of all of them.
    pub together: f64,
    /// Payload bytes from the server per second, from the first packet to the last; absent below a second.
    pub sent: Option<f64>,
}

/// Both sides of a pair, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Index of the pair.
    pub pair: usize,
    /// Number of connections before and after.
    pub connections: [usize; 2],
    /// The tables that are not empty.
    pub tables: Vec<Table>,
    /// Throughput of responses; absent if there were none.
    pub throughput: [Option<Throughput>; 2],
    /// 95 % interval of the difference between the median throughputs.
    pub throughput_difference: Option<Interval>,
}

/// Compares both sides of the [`MOST_BESIDE`] pairs with most connections, in their original order.
pub fn beside(pairs: &[Pair]) -> Vec<Beside> {
    let connections = |pair: &Pair| pair.before.connections() + pair.after.connections();
    let mut places: Vec<usize> = (0..pairs.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(connections(&pairs[*place])));
    places.truncate(MOST_BESIDE);
    places.sort_unstable();
    places.into_iter().map(|place| Beside::from_pair(place, &pairs[place])).collect()
}

impl Beside {
    fn from_pair(place: usize, pair: &Pair) -> Self {
        let sides = [&pair.before, &pair.after].map(Side::in_order);
        let tables = [
            by_count(
                Subject::Failures,
                &sides,
                |seen| Some(seen.beside.failure),
                |it| it.as_str().to_owned(),
            ),
            by_count(
                Subject::Sessions,
                &sides,
                |seen| seen.beside.session.map(Some),
                |it| it.name().to_owned(),
            ),
            by_count(
                Subject::Protocols,
                &sides,
                |seen| seen.beside.protocol.map(Some),
                |it| it.name().to_owned(),
            ),
            by_strength(
                Subject::KeyExchange,
                &sides,
                |seen| seen.beside.key_exchange.map(|(strength, _)| strength),
                |seen| Some(seen.beside.key_exchange?.1.name()),
            ),
            by_strength(
                Subject::CertificateKey,
                &sides,
                |seen| strength::certificate_key(seen.key?),
                |seen| Some(seen.key?.name()),
            ),
            by_strength(
                Subject::Cipher,
                &sides,
                |seen| seen.beside.cipher,
                |seen| Some(names::cipher_suite(seen.cipher_suite?)),
            ),
        ];
        let rates = sides.each_ref().map(|side| rates(side));
        Self {
            pair: place,
            connections: sides.each_ref().map(Vec::len),
            tables: tables.into_iter().filter(|table| !table.values.is_empty()).collect(),
            throughput: sides.each_ref().map(|side| throughput(side)),
            throughput_difference: stratified_medians(&alone(rates))
                .and_then(|found| found.difference.interval),
        }
    }
}

/// A single stratum: connections without weights.
fn alone<T>(sides: [Vec<T>; 2]) -> [Stratum<T>; 1] {
    [Stratum { weight: 1.0, sides: sides.map(|side| side.into_iter().enumerate().collect()) }]
}

/// A table by the value that `of` returns for a connection: `None` if the connection does not count, `Some(None)` if it
/// has no value.
fn by_count<K: Copy + Eq + Hash + Ord>(
    subject: Subject,
    sides: &[Vec<&Seen>; 2],
    of: impl Fn(&Seen) -> Option<Option<K>>,
    name: impl Fn(K) -> String,
) -> Table {
    let mut table = tabled(subject, sides, of, |key| (name(*key), false));
    table.values.sort_by_key(|value| std::cmp::Reverse(value.counts[0] + value.counts[1]));
    table
}

/// A table by class of strength, from the weakest; weak algorithms are named.
fn by_strength(
    subject: Subject,
    sides: &[Vec<&Seen>; 2],
    of: impl Fn(&Seen) -> Option<Strength>,
    name: impl Fn(&Seen) -> Option<String>,
) -> Table {
    let class = |seen: &Seen| {
        let strength = of(seen)?;
        let weak = if strength.is_weak() { name(seen) } else { None };
        Some(Some((strength.bits, weak)))
    };
    tabled(subject, sides, class, |(bits, weak)| match weak {
        Some(name) => (format!("{bits} bits: {name}"), true),
        None => (format!("{bits} bits"), false),
    })
}

/// A table whose values are sorted by themselves.
fn tabled<K: Clone + Eq + Hash + Ord>(
    subject: Subject,
    sides: &[Vec<&Seen>; 2],
    of: impl Fn(&Seen) -> Option<Option<K>>,
    told: impl Fn(&K) -> (String, bool),
) -> Table {
    let found: [Vec<Option<K>>; 2] =
        sides.each_ref().map(|side| side.iter().filter_map(|seen| of(seen)).collect());
    let mut counts: HashMap<&K, [usize; 2]> = HashMap::new();
    for (side, found) in found.iter().enumerate() {
        found.iter().flatten().for_each(|key| counts.entry(key).or_default()[side] += 1);
    }
    let mut counts: Vec<(&K, [usize; 2])> = counts.into_iter().collect();
    counts.sort_by(|(a, n), (b, m)| (m[0] + m[1], a).cmp(&(n[0] + n[1], b)));
    let left_out = counts.len().saturating_sub(MOST_ROWS);
    counts.truncate(MOST_ROWS);
    counts.sort_by_key(|(key, _)| *key);
    let values = counts.into_iter().map(|(key, counts)| {
        let series = found.each_ref().map(|side| {
            side.iter().map(|value| value.as_ref() == Some(key)).collect::<Vec<bool>>()
        });
        let (name, weak) = told(key);
        Value {
            name,
            weak,
            counts,
            intervals: series.each_ref().map(|side| share_estimate(side)?.interval),
            difference: stratified_shares(&alone(series))
                .and_then(|found| found.difference.interval),
        }
    });
    Table { subject, of: found.each_ref().map(Vec::len), values: values.collect(), left_out }
}

/// Response bytes per second of exchange, for each connection with an answered exchange.
fn rates(side: &[&Seen]) -> Vec<f64> {
    let delivered = side.iter().filter_map(|seen| seen.beside.delivered);
    delivered.map(|(bytes, seconds)| bytes as f64 / seconds).collect()
}

fn throughput(side: &[&Seen]) -> Option<Throughput> {
    let mut sorted = rates(side);
    sorted.sort_by(f64::total_cmp);
    let percentile = |q| quantile(&sorted, q);
    let delivered = || side.iter().filter_map(|seen| seen.beside.delivered);
    let bytes: u64 = delivered().map(|(bytes, _)| bytes).sum();
    let seconds: f64 = delivered().map(|(_, seconds)| seconds).sum();
    let span = |first: Time, last: Time| last.since(first).as_secs_f64();
    let first = side.iter().map(|seen| seen.started).min()?;
    let last = side.iter().map(|seen| seen.last).max()?;
    let sent: u64 = side.iter().map(|seen| seen.beside.received).sum();
    let span = span(first, last);
    Some(Throughput {
        connections: sorted.len(),
        percentiles: [percentile(0.1)?, percentile(0.5)?, percentile(0.9)?],
        together: bytes as f64 / seconds,
        sent: (span >= 1.0).then(|| sent as f64 / span),
    })
}
