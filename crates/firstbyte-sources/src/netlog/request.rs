//! A request as reconstructed from a network log.
//!
//! Times are relative to the log's first event, durations are differences of its timestamps: both have the resolution
//! of the log's clock. Values that the log does not have are absent.

use std::time::Duration;

use super::NetLogFinding;

/// One request for one URL; a redirect starts another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetLogRequest {
    /// Scheme, host, port and path: no user, query or fragment.
    pub url: String,
    /// "example.com", with the port unless it is the scheme's default.
    pub host: String,
    /// "GET".
    pub method: Option<String>,
    /// Type of frame if it is for a document: that of the window, or of a frame in it.
    pub frame: Option<String>,
    /// When it began.
    pub began: Duration,
    /// Until it was over; absent if the log ends before.
    pub total: Option<Duration>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Why it failed, by Chromium's name: "ERR_CONNECTION_REFUSED".
    pub error: Option<String>,
    /// How long it waited to get a connection. Absent if it needed none, because a cache answered.
    pub stream: Option<Duration>,
    /// How long sending it took.
    pub send: Option<Duration>,
    /// From then until the response's header had been read.
    pub wait: Option<Duration>,
    /// How long reading the body took.
    pub receive: Option<Duration>,
    /// The jobs that tried to get it a connection, in the order in which they started.
    pub jobs: Vec<NetLogJob>,
    /// The HTTP/3 service that the origin had announced before (RFC 7838).
    pub alternative: Option<AlternativeService>,
    /// The proxies, if it did not go directly.
    pub proxy: Option<String>,
    /// How long the proxy took to open its tunnel (CONNECT).
    pub tunnel: Option<Duration>,
    /// The longest name lookup that it waited for.
    pub lookup: Option<NameLookup>,
    /// The addresses that were tried over TCP while it waited, in order.
    pub attempts: Vec<AddressAttempt>,
    /// Set if it waited because the socket pool was full.
    pub stall: Option<PoolStall>,
    /// Where its connection came from.
    pub origin: Option<SocketOrigin>,
    /// The connection that it used.
    pub connection: Option<NetLogConnection>,
    /// Errors after which it was sent again on another connection.
    pub restarts: Vec<String>,
    /// Avoidable costs.
    pub findings: Vec<NetLogFinding>,
}

impl NetLogRequest {
    /// The job that got the connection.
    pub fn winner(&self) -> Option<&NetLogJob> {
        self.jobs.iter().find(|job| job.outcome == JobOutcome::Won)
    }

    /// Total cost of its findings.
    pub fn cost(&self) -> Duration {
        self.findings.iter().filter_map(|finding| finding.cost).sum()
    }
}

/// One of the competing ways in which Chromium tries to get a connection for a request.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLogJob {
    /// "main", "alternative" (announced by Alt-Svc), "dns_alpn_h3" (announced by an HTTPS record).
    pub name: String,
    /// Whether it uses QUIC.
    pub quic: bool,
    /// Its outcome.
    pub outcome: JobOutcome,
    /// How long it was held back for the others.
    pub held: Option<Duration>,
    /// How long it tried to connect, without name lookups; QUIC only.
    pub connect: Option<Duration>,
    /// Whether a packet was received during that time.
    pub answered: Option<bool>,
}

/// Outcome of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    /// The request uses its connection.
    Won,
    /// It failed with this error, by Chromium's name.
    Failed(String),
    /// It had nothing to connect to: no record announces HTTP/3.
    NothingToTry,
    /// Another job won.
    Lost,
    /// The log ends before the outcome.
    Open,
}

/// An alternative service that the origin announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlternativeService {
    /// Protocol and place: "quic example.com:443".
    pub service: String,
    /// It failed before, and is not tried for a while.
    pub broken: bool,
}

/// A name being looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct NameLookup {
    /// Until there was an address to connect to; absent if the log does not tell.
    pub took: Option<Duration>,
    /// The sources that were asked, in this order.
    pub sources: Vec<LookupSource>,
    /// Why there was no address.
    pub error: Option<String>,
}

/// Source of a lookup's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupSource {
    /// Chromium's own cache.
    Cache,
    /// The hosts file.
    HostsFile,
    /// The system's resolver.
    System,
    /// A name server, asked by Chromium itself.
    Dns,
    /// A server that Chromium asked over HTTPS (RFC 8484).
    Doh,
}

impl LookupSource {
    /// Name used in tables and stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::HostsFile => "hosts",
            Self::System => "system",
            Self::Dns => "dns",
            Self::Doh => "doh",
        }
    }
}

/// The limit that kept a request waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolLimit {
    /// Maximum number of connections to one host.
    Host,
    /// Maximum number of connections in total.
    Pool,
}

/// A wait for another request to release its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStall {
    /// The limit.
    pub limit: PoolLimit,
    /// How long it waited, until a socket was free or a new connection was started.
    pub took: Option<Duration>,
}

/// Where a request's connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    /// It was made while this request waited.
    New,
    /// It was made in advance, and this request is its first.
    InAdvance,
    /// It was open and idle.
    Idle {
        /// How long it had been idle.
        idle: Option<Duration>,
    },
    /// An HTTP/2 or HTTP/3 connection that other requests use as well.
    Shared,
    /// Such a connection, made for another host at this address (RFC 9113 §9.1.1).
    Coalesced,
}

impl SocketOrigin {
    /// Name used in tables and stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::InAdvance => "in-advance",
            Self::Idle { .. } => "reused",
            Self::Shared => "shared",
            Self::Coalesced => "coalesced",
        }
    }
}

/// Transport protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetLogTransport {
    /// TCP.
    #[default]
    Tcp,
    /// QUIC.
    Quic,
}

impl NetLogTransport {
    /// Name used in tables and stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetLogConnection {
    /// The log's number for it: the same for all requests that used it.
    pub number: u64,
    /// Its transport protocol.
    pub transport: NetLogTransport,
    /// When it was started, since the log's first event.
    pub began: Option<Duration>,
    /// The address that it is connected to: "192.0.2.1:443".
    pub remote: Option<String>,
    /// It was started because the first attempt took long.
    pub backup: bool,
    /// Duration of the TLS or QUIC handshake.
    pub handshake: Option<Duration>,
    /// "TLS 1.3".
    pub tls_version: Option<String>,
    /// IANA name.
    pub cipher_suite: Option<String>,
    /// IANA name.
    pub group: Option<String>,
    /// "h2".
    pub alpn: Option<String>,
    /// Whether it resumed a session.
    pub resumed: Option<bool>,
    /// Set if data was sent before the handshake was complete: whether the server accepted it.
    pub early_data: Option<bool>,
    /// Set if the server sent a HelloRetryRequest (RFC 8446 §4.1.4): the round trip that it cost.
    pub hello_retry: Option<Duration>,
    /// Whether the name in the ClientHello was encrypted.
    pub encrypted_hello: Option<bool>,
    /// An earlier connection to this host had received a ticket that was still unused.
    pub ticket_held: bool,
    /// The version of QUIC: "RFCv1".
    pub quic_version: Option<String>,
    /// The server asked for another version of QUIC.
    pub version_negotiation: bool,
    /// Packets that were declared lost.
    pub lost_packets: u64,
    /// Whether the server answered at all.
    pub answered: bool,
    /// Why it was closed, by Chromium's name; only for failed QUIC connections.
    pub closed_by: Option<String>,
}

/// An address that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressAttempt {
    /// `[2001:db8::1]:443`.
    pub address: String,
    /// When it was tried, since the log's first event.
    pub began: Duration,
    /// Until it ended; absent if the log does not tell.
    pub took: Option<Duration>,
    /// How it ended.
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It connected.
    Connected,
    /// It failed with this error, by Chromium's name.
    Failed(String),
    /// It was given up, because another attempt connected first.
    GivenUp,
    /// The log does not tell.
    Unknown,
}
