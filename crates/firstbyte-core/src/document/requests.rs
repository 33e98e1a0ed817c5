//! The stored forms of a sample's requests: for run files, and for lines that other programs read.

use serde::{Deserialize, Serialize};

use super::interned::{FactTable, Interner};
use super::stored::{MissingFact, StoredClock, StoredConnection};
use super::{ConnectionRecord, FailureRecord, MarkRecord};
use crate::timeline::{Exchange, Offset, Parallel, Requests, Sample, Stamp};

/// The requests of a sample, in a run file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredRequests {
    pub parallel: Parallel,
    pub asked: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<StoredConnection>,
    pub exchanges: Vec<StoredExchange>,
}

/// One request and its response, in a run file. Each time comes with its clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredExchange {
    pub connection: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_start: Option<StoredTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_end: Option<StoredTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_start: Option<StoredTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_end: Option<StoredTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,
}

/// Nanoseconds from the sample's origin, and the clock.
pub type StoredTime = (i64, StoredClock);

fn stored_time(stamp: Stamp) -> StoredTime {
    (stamp.at.as_nanos(), StoredClock(stamp.clock))
}

fn stamp((ns, clock): StoredTime) -> Stamp {
    Stamp { at: Offset::from_nanos(ns), clock: clock.0 }
}

impl StoredRequests {
    pub(super) fn from_requests(
        requests: &Requests,
        requested_url: &str,
        interner: &mut Interner,
    ) -> Self {
        let Requests { parallel, asked, further, exchanges } = requests;
        let further = further.iter();
        Self {
            parallel: *parallel,
            asked: *asked,
            further: further
                .map(|c| StoredConnection::from_connection(c, requested_url, interner))
                .collect(),
            exchanges: exchanges.iter().map(StoredExchange::from_exchange).collect(),
        }
    }

    pub(super) fn requests(
        self,
        requested_url: &str,
        facts: &FactTable,
    ) -> Result<Requests, MissingFact> {
        let further = self.further.into_iter().map(|c| c.connection(requested_url, facts));
        Ok(Requests {
            parallel: self.parallel,
            asked: self.asked,
            further: further.collect::<Result<_, _>>()?,
            exchanges: self.exchanges.into_iter().map(StoredExchange::exchange).collect(),
        })
    }
}

impl StoredExchange {
    fn from_exchange(exchange: &Exchange) -> Self {
        Self {
            connection: exchange.connection,
            request_start: exchange.request_start.map(stored_time),
            request_end: exchange.request_end.map(stored_time),
            response_start: exchange.response_start.map(stored_time),
            response_end: exchange.response_end.map(stored_time),
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            failure: exchange.failure.as_ref().map(FailureRecord::from_failure),
        }
    }

    fn exchange(self) -> Exchange {
        Exchange {
            connection: self.connection,
            request_start: self.request_start.map(stamp),
            request_end: self.request_end.map(stamp),
            response_start: self.response_start.map(stamp),
            response_end: self.response_end.map(stamp),
            status: self.status,
            body_bytes: self.body_bytes,
            failure: self.failure.map(FailureRecord::failure),
        }
    }
}

/// The requests of a sample, for other programs: with derived values.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct RequestsRecord {
    pub parallel: Parallel,
    pub asked: u32,
    pub answered: u64,
    pub connections: u64,
    pub most_at_once: u64,
    pub total_ns: Option<u64>,
    pub exchanges: Vec<ExchangeRecord>,
    pub further: Vec<ConnectionRecord>,
}

/// One request and its response, for other programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct ExchangeRecord {
    pub connection: u16,
    pub request_start: Option<MarkRecord>,
    pub request_end: Option<MarkRecord>,
    pub response_start: Option<MarkRecord>,
    pub response_end: Option<MarkRecord>,
    pub status: Option<u16>,
    pub body_bytes: Option<u64>,
    pub failure: Option<FailureRecord>,
}

impl RequestsRecord {
    /// Converts the requests of `sample` to their stored form; `None` for a single request.
    pub(super) fn from_sample(sample: &Sample) -> Option<Self> {
        let requests = sample.requests.as_ref()?;
        let end = requests.end().map(|end| end.since(Offset::ZERO));
        Some(Self {
            parallel: requests.parallel,
            asked: requests.asked,
            answered: requests.answered() as u64,
            connections: requests.connections() as u64,
            most_at_once: requests.most_at_once() as u64,
            total_ns: end.and_then(|end| u64::try_from(end.as_nanos()).ok()),
            exchanges: requests.exchanges.iter().map(ExchangeRecord::from_exchange).collect(),
            further: requests.further.iter().map(ConnectionRecord::from_connection).collect(),
        })
    }
}

impl ExchangeRecord {
    fn from_exchange(exchange: &Exchange) -> Self {
        let mark = |stamp: Option<Stamp>| stamp.map(MarkRecord::from_stamp);
        Self {
            connection: exchange.connection,
            request_start: mark(exchange.request_start),
            request_end: mark(exchange.request_end),
            response_start: mark(exchange.response_start),
            response_end: mark(exchange.response_end),
            status: exchange.status,
            body_bytes: exchange.body_bytes,
            failure: exchange.failure.as_ref().map(FailureRecord::from_failure),
        }
    }
}
