//! A sample: one visit to a URL, with the redirects followed on the way.

use std::time::Duration;

use super::{Connection, Failure, Mark, Requests};

/// One visit to a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Index within the run, from 0, warm-up included.
    pub sequence: u32,
    /// Whether it was a warm-up: shown separately, never pooled.
    pub warmup: bool,
    /// The requested URL.
    pub requested_url: String,
    /// Connections whose responses redirected, in order; empty without redirects.
    pub redirects: Vec<Connection>,
    /// The last connection: the one that answered, or failed.
    pub connection: Connection,
    /// With several requests: all of them, and the additional connections. `connection` is then the first connection,
    /// with the first exchange.
    pub requests: Option<Box<Requests>>,
}

impl Sample {
    /// Why it did not complete, if it did not.
    pub fn failure(&self) -> Option<&Failure> {
        let of_requests = || self.requests.as_ref().and_then(|requests| requests.failure());
        self.connection.failure.as_ref().or_else(of_requests)
    }

    /// All connections that carried the visit's answer: one, unless several requests were made.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        let further = self.requests.iter().flat_map(|requests| &requests.further);
        std::iter::once(&self.connection).chain(further)
    }

    /// Time from the end of the first response to the end of the last; zero with a single request.
    pub fn time_after_first_response(&self) -> Duration {
        let first = self.connection.marks.at(Mark::ResponseEnd);
        let requests = self.requests.as_ref().zip(first);
        requests.map_or(Duration::ZERO, |(requests, first)| requests.time_after(first))
    }
}
