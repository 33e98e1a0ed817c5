//! A request, as a network log tells it.
//!
//! Times are since the log's first event, durations are differences of its stamps: both are as fine as the log's clock.
//! What the log does not say is absent.

use std::time::Duration;

use super::NetLogFinding;

/// One request for one URL; a redirect begins another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetLogRequest {
    /// Scheme, host, port and path: no user, query or fragment.
    pub url: String,
    /// "example.com", with the port where it is not the scheme's own.
    pub host: String,
    /// "GET".
    pub method: Option<String>,
    /// It is for a document: that of the window, or of a frame in it.
    pub frame: Option<String>,
    /// When it began.
    pub began: Duration,
    /// Until it was over; absent where the log ends before.
    pub total: Option<Duration>,
    /// The status of the response.
    pub status: Option<u16>,
    /// Why it failed, as Chromium calls it: "ERR_CONNECTION_REFUSED".
    pub error: Option<String>,
    /// How long it waited for a connection to be had. Absent where it asked for none: what a cache had.
    pub stream: Option<Duration>,
    /// How long it was being sent.
    pub send: Option<Duration>,
    /// From then until the response's header had been read.
    pub wait: Option<Duration>,
    /// How long the body was being read.
    pub receive: Option<Duration>,
    /// Who tried to get it a connection, in the order in which they began.
    pub jobs: Vec<NetLogJob>,
    /// What the origin had said of HTTP/3 before (RFC 7838).
    pub alternative: Option<AlternativeService>,
    /// The proxies, where it was not to go directly.
    pub proxy: Option<String>,
    /// How long the proxy took over its tunnel (CONNECT).
    pub tunnel: Option<Duration>,
    /// The longest lookup of a name that it waited for.
    pub lookup: Option<NameLookup>,
    /// The addresses that were tried over TCP while it waited, in their order.
    pub attempts: Vec<AddressAttempt>,
    /// That the socket pool was full.
    pub stall: Option<PoolStall>,
    /// Where its connection came from.
    pub origin: Option<SocketOrigin>,
    /// The connection that it went over.
    pub connection: Option<NetLogConnection>,
    /// Errors after which it was sent again on another connection.
    pub restarts: Vec<String>,
    /// What cost time, and could be otherwise.
    pub findings: Vec<NetLogFinding>,
}

impl NetLogRequest {
    /// The job that got the connection.
    pub fn winner(&self) -> Option<&NetLogJob> {
        self.jobs.iter().find(|job| job.outcome == JobOutcome::Won)
    }

    /// What its findings cost together.
    pub fn cost(&self) -> Duration {
        self.findings.iter().filter_map(|finding| finding.cost).sum()
    }
}

/// One of the ways in which Chromium tries to get a connection for a request at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLogJob {
    /// "main", "alternative" (announced by Alt-Svc), "dns_alpn_h3" (announced by an HTTPS record).
    pub name: String,
    /// It goes over QUIC.
    pub quic: bool,
    /// What became of it.
    pub outcome: JobOutcome,
    /// How long it was held back for the others.
    pub held: Option<Duration>,
    /// How long it tried to connect, name lookups apart; QUIC only.
    pub connect: Option<Duration>,
    /// Whether a packet came back while it did.
    pub answered: Option<bool>,
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    /// The request got its connection.
    Won,
    /// It did not come about, by Chromium's name of the error.
    Failed(String),
    /// It had nothing to connect to: no record announces HTTP/3.
    NothingToTry,
    /// Another one was there first.
    Lost,
    /// The log ends before.
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
    /// Until there was an answer to connect to; absent where the log does not say.
    pub took: Option<Duration>,
    /// Who was asked, in this order.
    pub sources: Vec<LookupSource>,
    /// Why there was none.
    pub error: Option<String>,
}

/// Who answers a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupSource {
    /// Chromium's own memory.
    Cache,
    /// The hosts file.
    HostsFile,
    /// The system's resolver.
    System,
    /// Chromium itself asked a name server.
    Dns,
    /// Chromium asked over HTTPS (RFC 8484).
    Doh,
}

impl LookupSource {
    /// The name in tables and stored forms.
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

/// Which limit kept a request waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolLimit {
    /// As many connections as may be to one host.
    Host,
    /// As many as may be at all.
    Pool,
}

/// A wait for another request to be done with its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStall {
    /// Which limit.
    pub limit: PoolLimit,
    /// How long, until a socket was free or a connection was begun.
    pub took: Option<Duration>,
}

/// Where a request's connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    /// It was made while this request waited.
    New,
    /// It was made in advance, and this request is its first.
    InAdvance,
    /// It was open, and nobody used it.
    Idle {
        /// Since when.
        idle: Option<Duration>,
    },
    /// A connection of HTTP/2 or HTTP/3 that others use as well.
    Shared,
    /// The same, to another host at this address (RFC 9113 §9.1.1).
    Coalesced,
}

impl SocketOrigin {
    /// The name in tables and stored forms.
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

/// What carries a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetLogTransport {
    /// TCP.
    #[default]
    Tcp,
    /// QUIC.
    Quic,
}

impl NetLogTransport {
    /// The name in tables and stored forms.
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
    /// The log's number of it: the same for all requests that went over it.
    pub number: u64,
    /// What carries it.
    pub transport: NetLogTransport,
    /// When it was begun, since the log's first event.
    pub began: Option<Duration>,
    /// Where it leads: "192.0.2.1:443".
    pub remote: Option<String>,
    /// It was begun since the first took long.
    pub backup: bool,
    /// How long the handshake of TLS, or of QUIC, took.
    pub handshake: Option<Duration>,
    /// "TLS 1.3".
    pub tls_version: Option<String>,
    /// IANA's name.
    pub cipher_suite: Option<String>,
    /// IANA's name.
    pub group: Option<String>,
    /// "h2".
    pub alpn: Option<String>,
    /// It took up a session.
    pub resumed: Option<bool>,
    /// Data was sent before the handshake was over, and whether the server took it.
    pub early_data: Option<bool>,
    /// The server asked for another ClientHello (RFC 8446 §4.1.4), and the round trip that it took.
    pub hello_retry: Option<Duration>,
    /// The name in the ClientHello was encrypted.
    pub encrypted_hello: Option<bool>,
    /// An earlier connection to this host had been given a ticket that was still to be used.
    pub ticket_held: bool,
    /// The version of QUIC: "RFCv1".
    pub quic_version: Option<String>,
    /// The server wanted another version of QUIC.
    pub version_negotiation: bool,
    /// Packets that were taken for lost.
    pub lost_packets: u64,
    /// The server answered at all.
    pub answered: bool,
    /// Why it ended, by Chromium's name: of QUIC connections that failed.
    pub closed_by: Option<String>,
}

/// An address that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressAttempt {
    /// `[2001:db8::1]:443`.
    pub address: String,
    /// When, since the log's first event.
    pub began: Duration,
    /// Until it ended; absent where the log does not say.
    pub took: Option<Duration>,
    /// How.
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// It is connected.
    Connected,
    /// It failed, by Chromium's name of the error.
    Failed(String),
    /// It was given up: another one was there first.
    GivenUp,
    /// The log does not say.
    Unknown,
}
