//! Several requests of one sample: how long a user waits for N of them.
//!
//! All times count from the sample's origin, including those of additional connections. The first connection with its
//! first exchange is the sample's own; this module holds the others.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Connection, Failure, Offset, Stamp};

/// How a sample makes its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Parallel {
    /// On this many HTTP/1.1 connections, sequentially on each: a request goes to the next free connection.
    Connections(u16),
    /// All at once, as streams of one HTTP/2 connection.
    Http2,
    /// All at once, as streams of one HTTP/3 connection.
    Http3,
}

impl Parallel {
    /// Largest number of connections that can be requested.
    pub const MOST_CONNECTIONS: u16 = 64;

    /// Parses `1`, `6`, `h2`, `h3`.
    pub fn named(text: &str) -> Option<Self> {
        match text {
            "h2" => Some(Self::Http2),
            "h3" => Some(Self::Http3),
            _ => {
                let connections: u16 = text.parse().ok()?;
                (1..=Self::MOST_CONNECTIONS)
                    .contains(&connections)
                    .then_some(Self::Connections(connections))
            }
        }
    }

    /// Number of connections.
    pub const fn connections(self) -> u16 {
        match self {
            Self::Connections(connections) => connections,
            Self::Http2 | Self::Http3 => 1,
        }
    }

    /// The version of HTTP, as in facts.
    pub const fn http_version(self) -> &'static str {
        match self {
            Self::Connections(_) => "1.1",
            Self::Http2 => "2",
            Self::Http3 => "3",
        }
    }

    /// Label in a table or a sentence.
    pub fn label(self) -> String {
        match self {
            Self::Connections(1) => "one after the other".into(),
            Self::Connections(connections) => format!("{connections} connections"),
            Self::Http2 => "one HTTP/2 connection".into(),
            Self::Http3 => "one HTTP/3 connection".into(),
        }
    }
}

/// The form that users write.
impl fmt::Display for Parallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections(connections) => connections.fmt(f),
            Self::Http2 => f.write_str("h2"),
            Self::Http3 => f.write_str("h3"),
        }
    }
}

impl From<Parallel> for String {
    fn from(parallel: Parallel) -> Self {
        parallel.to_string()
    }
}

impl TryFrom<String> for Parallel {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::named(&text).ok_or_else(|| {
            format!(
                "{text:?} is not a way to make requests; expected a number of connections, h2 or h3"
            )
        })
    }
}

/// The requests of one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    /// How to make them.
    pub parallel: Parallel,
    /// Number of requests to make.
    pub asked: u32,
    /// The connections after the first, as far as they were set up: marks up to their first exchange's, attempts and
    /// facts; no flights.
    pub further: Vec<Connection>,
    /// Exchanges that began, in the order of assignment. The first belongs to the sample's connection.
    pub exchanges: Vec<Exchange>,
}

/// One request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Index of the connection: 0 is the sample's own, 1 the first additional one.
    pub connection: u16,
    /// When its first byte left.
    pub request_start: Option<Stamp>,
    /// When its last byte left.
    pub request_end: Option<Stamp>,
    /// When the first byte of its response arrived.
    pub response_start: Option<Stamp>,
    /// When the last byte of its response arrived.
    pub response_end: Option<Stamp>,
    /// Status of its response.
    pub status: Option<u16>,
    /// Bytes of its response's body as received.
    pub body_bytes: Option<u64>,
    /// Why it did not complete, if it did not.
    pub failure: Option<Failure>,
}

impl Exchange {
    /// Whether its response arrived completely.
    pub const fn is_answered(&self) -> bool {
        self.response_end.is_some() && self.failure.is_none()
    }
}

impl Requests {
    /// Number of answered requests.
    pub fn answered(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.is_answered()).count()
    }

    /// Number of connections that carried them.
    pub fn connections(&self) -> usize {
        let mut carried: Vec<u16> = self.exchanges.iter().map(|e| e.connection).collect();
        carried.sort_unstable();
        carried.dedup();
        carried.len()
    }

    /// Largest number of simultaneous requests: from the first byte of the request to the last of the response.
    pub fn most_at_once(&self) -> usize {
        let mut changes: Vec<(Offset, i32)> = Vec::new();
        for exchange in self.exchanges.iter().filter(|exchange| exchange.is_answered()) {
            let begin = exchange.request_start.or(exchange.request_end);
            if let (Some(begin), Some(end)) = (begin, exchange.response_end) {
                changes.extend([(begin.at, 1), (end.at, -1)]);
            }
        }
        // For equal times the end comes first: consecutive requests are not simultaneous.
        changes.sort_unstable();
        let mut under_way = 0;
        let counts = changes.iter().map(|(_, change)| {
            under_way += change;
            under_way
        });
        usize::try_from(counts.max().unwrap_or(0)).unwrap_or(0)
    }

    /// When the last byte of the last response arrived; `None` if a request was not answered.
    pub fn end(&self) -> Option<Offset> {
        if self.answered() < usize::try_from(self.asked).unwrap_or(usize::MAX) {
            return None;
        }
        self.exchanges.iter().filter_map(|exchange| exchange.response_end).map(|end| end.at).max()
    }

    /// Why the first failed request failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.exchanges.iter().find_map(|exchange| exchange.failure.as_ref())
    }

    /// How long the other requests took beyond `first`, the end of the first response.
    pub fn time_after(&self, first: Offset) -> Duration {
        self.end().map_or(Duration::ZERO, |end| end.since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Cause, Clock, PhaseName};

    fn exchange(connection: u16, begin: i64, end: i64) -> Exchange {
        let stamp =
            |ms: i64| Some(Stamp { at: Offset::from_nanos(ms * 1_000_000), clock: Clock::Kernel });
        Exchange {
            connection,
            request_start: stamp(begin),
            response_end: stamp(end),
            ..Exchange::default()
        }
    }

    fn requests(exchanges: Vec<Exchange>) -> Requests {
        let asked = u32::try_from(exchanges.len()).unwrap();
        Requests { parallel: Parallel::Connections(2), asked, further: Vec::new(), exchanges }
    }

    #[test]
    fn what_follows_is_not_beside() {
        let one_after_the_other = requests(vec![exchange(0, 0, 10), exchange(0, 10, 20)]);
        assert_eq!(one_after_the_other.most_at_once(), 1);
        let two = requests(vec![exchange(0, 0, 10), exchange(1, 5, 15), exchange(0, 12, 40)]);
        assert_eq!((two.most_at_once(), two.connections(), two.answered()), (2, 2, 3));
        assert_eq!(two.end(), Some(Offset::from_nanos(40_000_000)));
    }

    #[test]
    fn without_every_answer_there_is_no_end() {
        let mut cut = requests(vec![exchange(0, 0, 10), exchange(0, 10, 20)]);
        cut.exchanges[1].failure =
            Some(Failure { phase: PhaseName::Receive, cause: Cause::Reset, at: None });
        assert_eq!((cut.end(), cut.answered()), (None, 1));
        assert_eq!(cut.failure().map(|failure| &failure.cause), Some(&Cause::Reset));
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["1", "6", "64", "h2", "h3"] {
            assert_eq!(Parallel::named(text).map(|p| p.to_string()).as_deref(), Some(text));
        }
        for text in ["0", "65", "-1", "h1", "", "6.0"] {
            assert_eq!(Parallel::named(text), None, "{text}");
        }
    }
}
