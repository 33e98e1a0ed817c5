//! State of sources that are still under way: requests, jobs, connect jobs, sockets, sessions, lookups.
//!
//! Sources refer to each other, and the one referred to may end first: the other keeps it until its own end. All times
//! are microseconds of the log's clock.

use std::cell::RefCell;
use std::rc::Rc;

use super::request::{AlternativeService, LookupSource, PoolLimit};

/// State that several sources refer to.
pub(super) type Shared<T> = Rc<RefCell<T>>;

/// A span of time, as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) begin: Option<i64>,
    pub(super) end: Option<i64>,
}

impl Stretch {
    /// Its length in microseconds; absent if an end is missing or time goes backwards.
    pub(super) fn length(self) -> Option<i64> {
        self.end?.checked_sub(self.begin?).filter(|length| *length >= 0)
    }

    /// How long both last at the same time; absent if either is unknown.
    pub(super) fn overlap(self, other: Self) -> Option<i64> {
        let (begin, end) = (self.begin?.max(other.begin?), self.end?.min(other.end?));
        Some(end.saturating_sub(begin).max(0))
    }
}

/// A request, or its part up to a redirect.
#[derive(Debug, Default)]
pub(super) struct OpenRequest {
    pub(super) url: Option<String>,
    pub(super) method: Option<String>,
    pub(super) frame: Option<String>,
    pub(super) whole: Stretch,
    /// From the beginning of the first wait for a connection to the end of the last.
    pub(super) stream: Stretch,
    /// Total time of all these waits.
    pub(super) stream_us: Option<i64>,
    pub(super) send: Stretch,
    pub(super) read: Stretch,
    pub(super) body: Stretch,
    pub(super) first_sent: Option<i64>,
    pub(super) restarted: Option<i64>,
    pub(super) restarts: Vec<i64>,
    pub(super) status: Option<u16>,
    pub(super) error: Option<i64>,
    pub(super) controllers: Vec<Shared<OpenController>>,
    pub(super) winner: Option<Shared<OpenJob>>,
}

impl OpenRequest {
    /// Whether it and all its jobs are over, so that no more events can follow.
    pub(super) fn is_settled(&self) -> bool {
        self.controllers
            .iter()
            .all(|controller| controller.borrow().jobs.iter().all(|job| job.borrow().is_over))
    }
}

/// Runs jobs in competition with each other.
#[derive(Debug, Default)]
pub(super) struct OpenController {
    pub(super) jobs: Vec<Shared<OpenJob>>,
    pub(super) alternative: Option<AlternativeService>,
    pub(super) proxy: Option<String>,
}

/// An attempt to get a connection.
#[derive(Debug, Default)]
pub(super) struct OpenJob {
    pub(super) number: u64,
    pub(super) name: Option<String>,
    pub(super) quic: bool,
    pub(super) is_over: bool,
    pub(super) held: Stretch,
    pub(super) pool: Stretch,
    pub(super) pool_error: Option<i64>,
    /// The limit that it ran into, and since when.
    pub(super) stalled: Option<(PoolLimit, i64)>,
    /// Set if an idle socket was found, with its idle time in milliseconds if known.
    pub(super) idle_ms: Option<Option<i64>>,
    pub(super) shares: Option<Sharing>,
    pub(super) connect_job: Option<Shared<OpenConnectJob>>,
    pub(super) quic_job: Option<Shared<OpenQuicJob>>,
    pub(super) connection: Option<Shared<OpenConnection>>,
    /// Whether no request had used its connection before; absent until it has one.
    pub(super) is_first: Option<bool>,
}

impl OpenJob {
    /// The connection that it has, is making, or shares.
    pub(super) fn any_connection(&self) -> Option<Shared<OpenConnection>> {
        let own = self.connection.as_ref().map(Rc::clone);
        own.or_else(|| {
            let quic = self.quic_tried()?;
            let quic = quic.borrow();
            quic.connection.as_ref().map(Rc::clone)
        })
    }

    /// The QUIC connection that was tried for it.
    pub(super) fn quic_tried(&self) -> Option<Shared<OpenQuicJob>> {
        let own = self.quic_job.as_ref().map(Rc::clone);
        own.or_else(|| {
            let manager = self.connect_job.as_ref().filter(|_| self.quic)?.borrow();
            manager.quic_job.as_ref().map(Rc::clone)
        })
    }

    /// Records that a request uses its connection.
    pub(super) fn bind(&mut self) {
        if self.is_first.is_none()
            && let Some(connection) = self.any_connection()
        {
            let mut connection = connection.borrow_mut();
            self.is_first = Some(connection.requests == 0);
            connection.requests += 1;
        }
    }
}

/// How a connection is used by several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    SameHost,
    OtherHost,
}

/// A TCP connection being made, including the layers above it.
#[derive(Debug, Default)]
pub(super) struct OpenConnectJob {
    pub(super) begin: Option<i64>,
    pub(super) group: Option<Rc<str>>,
    /// The pool's group, in the newer pool.
    pub(super) group_number: Option<u64>,
    /// The last QUIC connection that it tried, in the newer pool.
    pub(super) quic_job: Option<Shared<OpenQuicJob>>,
    pub(super) is_over: bool,
    pub(super) backup: bool,
    pub(super) lookup: Option<OpenLookup>,
    pub(super) attempts: Vec<OpenAttempt>,
    pub(super) error: Option<i64>,
}

/// A QUIC connection being made.
#[derive(Debug, Default)]
pub(super) struct OpenQuicJob {
    pub(super) lookup: Option<OpenLookup>,
    pub(super) connect: Stretch,
    pub(super) error: Option<i64>,
    pub(super) connection: Option<Shared<OpenConnection>>,
}

/// An address that is tried.
#[derive(Debug)]
pub(super) struct OpenAttempt {
    pub(super) socket: u64,
    pub(super) address: String,
    pub(super) time: Stretch,
    pub(super) is_connected: bool,
    pub(super) error: Option<AttemptError>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptError {
    Net(i64),
    System(i64),
}

/// A name that a request waits for.
#[derive(Debug, Default)]
pub(super) struct OpenLookup {
    pub(super) time: Stretch,
    pub(super) error: Option<i64>,
    /// The local source that had the answer, if no query was needed.
    pub(super) known: Option<LookupSource>,
    pub(super) resolver: Option<Shared<OpenResolver>>,
}

/// A name that is being resolved.
#[derive(Debug, Default)]
pub(super) struct OpenResolver {
    pub(super) end: Option<i64>,
    pub(super) sources: Vec<LookupSource>,
    pub(super) error: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct OpenConnection {
    pub(super) number: u64,
    pub(super) quic: bool,
    /// Authority that it was made for: "example.com:443".
    pub(super) authority: Option<String>,
    pub(super) begin: Option<i64>,
    pub(super) job: Option<Shared<OpenConnectJob>>,
    pub(super) remote: Option<String>,
    pub(super) tunnel: Stretch,
    pub(super) handshake: Stretch,
    /// When the first two ClientHellos were sent, and the first two ServerHellos received.
    pub(super) client_hellos: Vec<i64>,
    pub(super) server_hellos: Vec<i64>,
    pub(super) tls_version: Option<String>,
    pub(super) cipher_suite: Option<i64>,
    pub(super) group: Option<i64>,
    pub(super) alpn: Option<String>,
    pub(super) resumed: Option<bool>,
    pub(super) early_data: Option<bool>,
    pub(super) encrypted_hello: Option<bool>,
    pub(super) ticket_held: bool,
    pub(super) quic_version: Option<String>,
    pub(super) version_negotiation: bool,
    pub(super) lost_packets: u64,
    pub(super) answered: bool,
    pub(super) quic_error: Option<i64>,
    /// Number of requests that used it.
    pub(super) requests: u64,
}
