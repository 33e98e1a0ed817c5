//! The stored form of a whole sample in a run file: observations, and nothing derived from them.
//!
//! Frequent data (marks, chunks) is compact; everything else has names. An absent member is unknown. Arrays have a
//! fixed length: later additions become new members.

mod facts;
mod quic_log;
mod stamps;
#[cfg(test)]
pub(crate) mod tests;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use facts::{
    StoredCertificate, StoredClient, StoredHttp, StoredPanelTime, StoredProxy, StoredQuic,
    StoredTcp, StoredTls,
};
pub use quic_log::{StoredQuicFrame, StoredQuicLog, StoredQuicPacket};
pub use stamps::{StoredClock, StoredMarks};

use super::interned::{Fact, FactTable, Interner, Shared};
use super::{FailureRecord, ProcessorRecord, StoredRequests};
use crate::timeline::{
    Attempt, AttemptOutcome, Chunk, Connection, Direction, DnsTransport, Facts, Flight, Lookup,
    LookupTry, Offset, OpenEnd, PhaseName, RecordType, Sample, Stamp, TlsFacts,
};

/// A sample, without the fields that precede it in its line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredSample {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_url: Option<String>,
    pub connection: StoredConnection,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<StoredConnection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<StoredRequests>,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredConnection {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "StoredMarks::is_empty")]
    pub marks: StoredMarks,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<StoredLookup>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<StoredAttempt>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flights: Vec<StoredFlight>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Shared<StoredClient>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Shared<StoredProxy>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<StoredTcp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<StoredQuic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Shared<StoredTls>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<StoredHttp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub panel: Vec<StoredPanelTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_end: Option<StoredOpenEnd>,
}

/// The point up to which a connection was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredOpenEnd {
    pub phase: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ns: Option<i64>,
}

/// One DNS query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredLookup {
    pub record_type: String,
    pub start_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tries: Vec<StoredLookupTry>,
}

/// One query to one name server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredLookupTry {
    pub server: SocketAddr,
    pub transport: String,
    pub start_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One connection attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredAttempt {
    pub remote: SocketAddr,
    pub start_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<i64>,
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One flight. A chunk lists its time, clock, number of bytes, and time of acknowledgement (sent) or reading
/// (received).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredFlight {
    pub direction: StoredDirection,
    pub chunks: Vec<(i64, StoredClock, u64, Option<i64>)>,
    /// Segments of each chunk; empty if not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Option<u32>>,
    #[serde(default = "no_messages", skip_serializing_if = "is_empty")]
    pub messages: Shared<Vec<String>>,
}

/// Direction of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredDirection {
    /// To the server.
    Sent,
    /// From the server.
    Received,
}

fn no_messages() -> Shared<Vec<String>> {
    Shared::Here(Vec::new())
}

fn is_empty(messages: &Shared<Vec<String>>) -> bool {
    matches!(messages, Shared::Here(list) if list.is_empty())
}

/// Refers to a fact that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFact(pub u32);

impl std::fmt::Display for MissingFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fact {} is used before it is defined", self.0)
    }
}

impl std::error::Error for MissingFact {}

impl StoredSample {
    /// Converts `sample`, a visit to the cell with the URL `url`, to its stored form.
    pub fn from_sample(sample: &Sample, url: &str, interner: &mut Interner) -> Self {
        let requested = sample.requested_url.as_str();
        Self {
            requested_url: (requested != url).then(|| requested.to_owned()),
            connection: StoredConnection::from_connection(&sample.connection, requested, interner),
            redirects: sample
                .redirects
                .iter()
                .map(|hop| StoredConnection::from_connection(hop, requested, interner))
                .collect(),
            requests: sample
                .requests
                .as_ref()
                .map(|requests| StoredRequests::from_requests(requests, requested, interner)),
        }
    }

    /// Converts back to the sample, which visited the cell with the URL `url` in round `round`.
    ///
    /// # Errors
    /// A referenced fact is not in `facts`.
    pub fn sample(
        self,
        url: &str,
        round: u32,
        warmup: bool,
        facts: &FactTable,
    ) -> Result<Sample, MissingFact> {
        let requested_url = self.requested_url.unwrap_or_else(|| url.to_owned());
        let redirects: Result<_, _> =
            self.redirects.into_iter().map(|hop| hop.connection(&requested_url, facts)).collect();
        let requests = self.requests.map(|r| r.requests(&requested_url, facts)).transpose()?;
        Ok(Sample {
            sequence: round,
            warmup,
            redirects: redirects?,
            connection: self.connection.connection(&requested_url, facts)?,
            requests: requests.map(Box::new),
            requested_url,
        })
    }
}

impl StoredConnection {
    pub(super) fn from_connection(
        connection: &Connection,
        requested_url: &str,
        interner: &mut Interner,
    ) -> Self {
        let Connection {
            url,
            started_unix_ns,
            marks,
            lookups,
            attempts,
            flights,
            facts,
            failure,
            open_end,
        } = connection;
        Self {
            url: (url != requested_url).then(|| url.clone()),
            started_unix_ns: *started_unix_ns,
            marks: StoredMarks(*marks),
            lookups: lookups.iter().map(StoredLookup::from_lookup).collect(),
            attempts: attempts.iter().map(StoredAttempt::from_attempt).collect(),
            flights: flights
                .iter()
                .map(|flight| StoredFlight::from_flight(flight, interner))
                .collect(),
            client: facts.client.as_ref().map(|client| {
                let fact = Fact::Client(StoredClient::from_facts(client));
                match (interner.number(&fact), fact) {
                    (None, Fact::Client(client)) => Shared::Here(client),
                    (number, _) => Shared::Number(number.unwrap_or_default()),
                }
            }),
            remote: facts.remote,
            local: facts.local,
            reused: facts.reused,
            proxy: facts.proxy.as_ref().map(|proxy| {
                let fact = Fact::Proxy(StoredProxy::from_facts(proxy));
                match (interner.number(&fact), fact) {
                    (None, Fact::Proxy(proxy)) => Shared::Here(proxy),
                    (number, _) => Shared::Number(number.unwrap_or_default()),
                }
            }),
            tcp: facts.tcp.as_ref().map(StoredTcp::from_facts),
            quic: facts.quic.as_ref().map(StoredQuic::from_facts),
            tls: facts.tls.as_ref().map(|tls| shared_tls(tls, interner)),
            http: facts.http.as_ref().map(|http| StoredHttp::from_facts(http, interner)),
            panel: facts.panel.iter().map(StoredPanelTime::from_facts).collect(),
            processor: facts.processor.as_ref().map(ProcessorRecord::from_facts),
            failure: failure.as_ref().map(FailureRecord::from_failure),
            open_end: open_end.map(StoredOpenEnd::from_open_end),
        }
    }

    pub(super) fn connection(
        self,
        requested_url: &str,
        facts: &FactTable,
    ) -> Result<Connection, MissingFact> {
        let tls = self.tls.map(|tls| tls_of(tls, facts)).transpose()?;
        let client = match self.client {
            None => None,
            Some(Shared::Here(client)) => Some(client.facts()),
            Some(Shared::Number(number)) => match facts.get(number) {
                Some(Fact::Client(client)) => Some(client.clone().facts()),
                _ => return Err(MissingFact(number)),
            },
        };
        let proxy = match self.proxy {
            None => None,
            Some(Shared::Here(proxy)) => proxy.facts(),
            Some(Shared::Number(number)) => match facts.get(number) {
                Some(Fact::Proxy(proxy)) => proxy.clone().facts(),
                _ => return Err(MissingFact(number)),
            },
        };
        let flights: Result<_, _> = self.flights.into_iter().map(|f| f.flight(facts)).collect();
        Ok(Connection {
            url: self.url.unwrap_or_else(|| requested_url.to_owned()),
            started_unix_ns: self.started_unix_ns,
            marks: self.marks.0,
            lookups: self.lookups.into_iter().map(StoredLookup::lookup).collect(),
            attempts: self.attempts.into_iter().map(StoredAttempt::attempt).collect(),
            flights: flights?,
            facts: Facts {
                client,
                remote: self.remote,
                local: self.local,
                reused: self.reused,
                proxy,
                tcp: self.tcp.map(StoredTcp::facts),
                quic: self.quic.map(StoredQuic::facts),
                tls,
                http: self.http.map(|http| http.facts(facts)).transpose()?,
                panel: StoredPanelTime::all(self.panel),
                processor: self.processor.map(ProcessorRecord::facts),
            },
            failure: self.failure.map(FailureRecord::failure),
            open_end: self.open_end.and_then(StoredOpenEnd::open_end),
        })
    }
}

/// TLS facts, or the number under which they are stored.
pub(super) fn shared_tls(tls: &TlsFacts, interner: &mut Interner) -> Shared<StoredTls> {
    let fact = Fact::Tls(StoredTls::from_facts(tls, interner));
    match (interner.number(&fact), fact) {
        (None, Fact::Tls(tls)) => Shared::Here(tls),
        (number, _) => Shared::Number(number.unwrap_or_default()),
    }
}

/// The TLS facts behind [`shared_tls`].
pub(in crate::document) fn tls_of(
    tls: Shared<StoredTls>,
    facts: &FactTable,
) -> Result<TlsFacts, MissingFact> {
    match tls {
        Shared::Here(tls) => tls.facts(facts),
        Shared::Number(number) => match facts.get(number) {
            Some(Fact::Tls(tls)) => tls.clone().facts(facts),
            _ => Err(MissingFact(number)),
        },
    }
}

impl StoredOpenEnd {
    fn from_open_end(end: OpenEnd) -> Self {
        Self { phase: end.phase.name().into(), at_ns: end.at.map(Offset::as_nanos) }
    }

    fn open_end(self) -> Option<OpenEnd> {
        let phase = PhaseName::named(&self.phase)?;
        Some(OpenEnd { phase, at: self.at_ns.map(Offset::from_nanos) })
    }
}

impl StoredLookup {
    fn from_lookup(lookup: &Lookup) -> Self {
        Self {
            record_type: lookup.record_type.name().into(),
            start_ns: lookup.start.as_nanos(),
            end_ns: lookup.end.map(Offset::as_nanos),
            addresses: lookup.addresses.clone(),
            error: lookup.error.clone(),
            tries: lookup.tries.iter().map(StoredLookupTry::from_lookup_try).collect(),
        }
    }

    fn lookup(self) -> Lookup {
        Lookup {
            record_type: RecordType::named(&self.record_type).unwrap_or(RecordType::Any),
            start: Offset::from_nanos(self.start_ns),
            end: self.end_ns.map(Offset::from_nanos),
            addresses: self.addresses,
            error: self.error,
            tries: self.tries.into_iter().map(StoredLookupTry::lookup_try).collect(),
        }
    }
}

impl StoredLookupTry {
    fn from_lookup_try(one: &LookupTry) -> Self {
        Self {
            server: one.server,
            transport: one.transport.name().into(),
            start_ns: one.start.as_nanos(),
            end_ns: one.end.map(Offset::as_nanos),
            error: one.error.clone(),
        }
    }

    fn lookup_try(self) -> LookupTry {
        LookupTry {
            server: self.server,
            transport: DnsTransport::named(&self.transport).unwrap_or(DnsTransport::Udp),
            start: Offset::from_nanos(self.start_ns),
            end: self.end_ns.map(Offset::from_nanos),
            error: self.error,
        }
    }
}

impl StoredAttempt {
    fn from_attempt(attempt: &Attempt) -> Self {
        Self {
            remote: attempt.remote,
            start_ns: attempt.start.as_nanos(),
            end_ns: attempt.end.map(Offset::as_nanos),
            outcome: attempt.outcome.name().into(),
            error: match &attempt.outcome {
                AttemptOutcome::Failed { error } => Some(error.clone()),
                AttemptOutcome::Won | AttemptOutcome::Lost => None,
            },
        }
    }

    fn attempt(self) -> Attempt {
        Attempt {
            remote: self.remote,
            start: Offset::from_nanos(self.start_ns),
            end: self.end_ns.map(Offset::from_nanos),
            outcome: match self.outcome.as_str() {
                "won" => AttemptOutcome::Won,
                "failed" => AttemptOutcome::Failed { error: self.error.unwrap_or_default() },
                _ => AttemptOutcome::Lost,
            },
        }
    }
}

impl StoredFlight {
    fn from_flight(flight: &Flight, interner: &mut Interner) -> Self {
        let chunks = flight.chunks.iter().map(|chunk| {
            let at = chunk.stamp.at.as_nanos();
            let then = match flight.direction {
                Direction::Sent => chunk.acknowledged,
                Direction::Received => chunk.read,
            };
            (at, StoredClock(chunk.stamp.clock), chunk.bytes, then.map(Offset::as_nanos))
        });
        let counts = || flight.chunks.iter().map(|chunk| chunk.segments);
        let segments = if counts().any(|n| n.is_some()) { counts().collect() } else { Vec::new() };
        let messages = flight.messages.clone();
        let messages = if messages.is_empty() {
            no_messages()
        } else {
            let fact = Fact::Messages(messages);
            match (interner.number(&fact), fact) {
                (None, Fact::Messages(messages)) => Shared::Here(messages),
                (number, _) => Shared::Number(number.unwrap_or_default()),
            }
        };
        Self {
            direction: match flight.direction {
                Direction::Sent => StoredDirection::Sent,
                Direction::Received => StoredDirection::Received,
            },
            chunks: chunks.collect(),
            segments,
            messages,
        }
    }

    fn flight(self, facts: &FactTable) -> Result<Flight, MissingFact> {
        let segments = self.segments.into_iter().chain(std::iter::repeat(None));
        let chunks = self.chunks.into_iter().zip(segments);
        let direction = match self.direction {
            StoredDirection::Sent => Direction::Sent,
            StoredDirection::Received => Direction::Received,
        };
        let chunks = chunks.map(|((at, clock, bytes, then), segments)| {
            let stamp = Stamp { at: Offset::from_nanos(at), clock: clock.0 };
            Chunk {
                segments,
                ..Chunk::new(stamp, bytes)
                    .acknowledged_or_read_at(direction, then.map(Offset::from_nanos))
            }
        });
        Ok(Flight {
            direction,
            chunks: chunks.collect(),
            messages: match self.messages {
                Shared::Here(messages) => messages,
                Shared::Number(number) => match facts.get(number) {
                    Some(Fact::Messages(messages)) => messages.clone(),
                    _ => return Err(MissingFact(number)),
                },
            },
        })
    }
}
