//! A page load: its document and its other resources.
//!
//! The document is a [`Sample`], like any other visit. The other resources are stored next to it, each with the
//! connection it used. Set-up belongs to connections and exchanges belong to resources, so that a
//! [`Connection`](super::Connection) still runs from a name to the last byte of one response. Times count from the
//! navigation's own origin. Data that a source does not report is absent: some sources have no connections (WebDriver
//! BiDi, beacons), most have no priorities.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Failure, Mark, Marks, Offset, Sample, Stamp, TlsFacts};

/// One page load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Navigation {
    /// Load of the document, with the redirects that led to it. Its times count from its connections' origins.
    pub main: Sample,
    /// Origin of `main.connection` on the navigation's clock, after redirects and the client's earlier work.
    pub main_at: Offset,
    /// Index of the document's connection in `connections`; absent if unknown.
    pub main_connection: Option<usize>,
    /// How the document got that connection.
    pub main_use: Option<ConnectionUse>,
    /// Connections that the page used, or that were opened for it but not used, in the order of demand.
    pub connections: Vec<PageConnection>,
    /// Other resources, in the order of their requests.
    pub resources: Vec<Resource>,
    /// When the document was parsed and its blocking scripts had run (DOMContentLoaded).
    pub content_loaded: Option<Stamp>,
    /// When everything the page waits for had loaded (the `load` event).
    pub loaded: Option<Stamp>,
}

/// A connection of a page: how it began, and its set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageConnection {
    /// Host and port that it was opened for, as in a URL: "example.org:443".
    pub authority: String,
    /// Identifier in the client's records.
    pub client_id: Option<String>,
    /// Remote address.
    pub remote: Option<SocketAddr>,
    /// Local address, by which a capture of the same page identifies it.
    pub local: Option<SocketAddr>,
    /// How it began; absent if the source does not say.
    pub beginning: Option<Beginning>,
    /// Connection that it raced with or replaced, if only one of the two was needed.
    pub race: Option<Race>,
    /// Protocol by its ALPN name: "h2", "h3", "http/1.1".
    pub protocol: Option<String>,
    /// Outcome of its TLS handshake.
    pub tls: Option<TlsFacts>,
    /// Set-up marks, up to [`Mark::HandshakeConfirmed`].
    pub marks: Marks,
    /// Arrival of the server's first packet; absent over TCP, whose [`Mark::TcpConnected`] is that arrival.
    pub first_answer: Option<Stamp>,
    /// When the client gave it up: before it was established, or before anything was sent over it.
    pub given_up: Option<Stamp>,
    /// Why it could not be used.
    pub failure: Option<Failure>,
}

/// How a page got a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Opened during the page load.
    Opened,
    /// Already open when the page load began.
    OpenBefore {
        /// How long it had been idle.
        idle: Option<Duration>,
    },
}

/// A race of two connections for the same purpose: HTTP/3 next to HTTP/2, or a second attempt after a slow or failed
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// Index of the other connection among the page's; for a winner against several, the first of them.
    pub against: usize,
    /// Whether this one was used.
    pub won: bool,
}

/// How a resource got its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionUse {
    /// Opened for this resource, which waited for it.
    Opened,
    /// Already open for the same host.
    Reused,
    /// Already open for another host whose certificate covers this one (RFC 9113 §9.1.1, RFC 9114 §3.3).
    Coalesced,
}

/// Where a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveredFrom {
    /// The server.
    Network,
    /// A cache, after the server confirmed the entry (304).
    Validated,
    /// A cache of unknown kind.
    Cache,
    /// The cache in memory.
    MemoryCache,
    /// The cache on disk.
    DiskCache,
    /// A prefetched response.
    PrefetchCache,
    /// A service worker, which may itself have queried a server.
    ServiceWorker,
}

/// What triggered the load of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initiator {
    /// Kind, in the client's term: "parser", "script", "img".
    pub kind: String,
    /// URL of the initiator, if known.
    pub url: Option<String>,
}

/// Bytes of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceSizes {
    /// Bytes transferred, head and body, as received.
    pub transferred_bytes: Option<u64>,
    /// Bytes of the body before content decoding.
    pub body_bytes: Option<u64>,
    /// Bytes of the body after content decoding.
    pub decoded_bytes: Option<u64>,
}

/// A resource other than the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its URL.
    pub url: String,
    /// Method of the request.
    pub method: Option<String>,
    /// Status code of the final response.
    pub status: Option<u16>,
    /// What triggered the load.
    pub initiator: Option<Initiator>,
    /// Index of its connection among the page's; absent if it used none or the connection is unknown.
    pub connection: Option<usize>,
    /// How it got that connection.
    pub connection_use: Option<ConnectionUse>,
    /// Where the response came from.
    pub delivered_from: Option<DeliveredFrom>,
    /// Protocol by its ALPN name. A cached resource has the protocol of the original fetch.
    pub protocol: Option<String>,
    /// Priority, in the client's term: "VeryHigh", "u=1, i".
    pub priority: Option<String>,
    /// When the client wanted it. From then until its request, it waited for a connection or for its turn.
    pub asked: Option<Stamp>,
    /// Marks of its exchange, from [`Mark::RequestStart`] on. The response begins with the final one.
    pub marks: Marks,
    /// When the first interim response (103 Early Hints) began.
    pub interim: Option<Stamp>,
    /// Sizes of the response.
    pub sizes: ResourceSizes,
    /// Why it did not complete, if it did not.
    pub failure: Option<Failure>,
}

/// A contradiction within a navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what the variants' docs say, by name")]
pub enum NavigationFlaw {
    /// The document refers to a connection that does not exist.
    NoMainConnection { connection: usize },
    /// The document has a connection use but no connection.
    MainUseOfNone,
    /// A resource refers to a connection that does not exist.
    NoSuchConnection { resource: usize, connection: usize },
    /// A connection raced with itself or with a connection that does not exist.
    NoSuchRival { connection: usize },
    /// Both sides of a race were used.
    BothWon { connection: usize },
    /// Several resources claim to have opened a connection, or one claims to have opened a connection that was already
    /// open.
    OpenedTwice { connection: usize },
    /// A resource has a connection use but no connection.
    UseOfNone { resource: usize },
    /// A resource came from one of the client's caches, but has a connection.
    CachedOverConnection { resource: usize },
    /// A connection has marks outside its set-up, or was already open and has marks.
    ForeignMark { connection: usize, mark: Mark },
    /// A resource has marks outside its exchange.
    SetUpMark { resource: usize, mark: Mark },
    /// A connection was given up, or answered, before it began.
    EndBeforeBegin { connection: usize },
    /// Marks of a connection are out of order.
    ConnectionDisorder { connection: usize },
    /// Times of a resource are out of order.
    ResourceDisorder { resource: usize },
    /// A request left before its connection began.
    BeforeItsConnection { resource: usize },
}

impl fmt::Display for NavigationFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMainConnection { connection } => {
                write!(f, "the document used connection {connection}, which does not exist")
            }
            Self::MainUseOfNone => f.write_str("the document used a connection that is not named"),
            Self::NoSuchConnection { resource, connection } => {
                write!(f, "resource {resource} used connection {connection}, which does not exist")
            }
            Self::NoSuchRival { connection } => {
                write!(f, "connection {connection} raced with a connection that does not exist")
            }
            Self::BothWon { connection } => {
                write!(f, "connection {connection} and the one it raced with both won")
            }
            Self::OpenedTwice { connection } => {
                write!(f, "connection {connection} was opened more than once")
            }
            Self::UseOfNone { resource } => {
                write!(f, "resource {resource} used a connection that is not named")
            }
            Self::CachedOverConnection { resource } => {
                write!(f, "resource {resource} came from a cache and over a connection")
            }
            Self::ForeignMark { connection, mark } => {
                write!(f, "connection {connection} has the mark {}", mark.name())
            }
            Self::SetUpMark { resource, mark } => {
                write!(f, "resource {resource} has the mark {}", mark.name())
            }
            Self::EndBeforeBegin { connection } => {
                write!(f, "connection {connection} ended before it began")
            }
            Self::ConnectionDisorder { connection } => {
                write!(f, "marks of connection {connection} are out of order")
            }
            Self::ResourceDisorder { resource } => {
                write!(f, "times of resource {resource} are out of order")
            }
            Self::BeforeItsConnection { resource } => {
                write!(f, "resource {resource} was requested before its connection began")
            }
        }
    }
}

impl std::error::Error for NavigationFlaw {}

impl Navigation {
    /// The connection that `resource` used, if known.
    pub fn connection_of(&self, resource: &Resource) -> Option<&PageConnection> {
        self.connections.get(resource.connection?)
    }

    /// First contradiction found, if any. Every source must avoid these, and every view may rely on their absence.
    ///
    /// # Errors
    /// The contradiction.
    pub fn check(&self) -> Result<(), NavigationFlaw> {
        match self.main_connection {
            Some(connection) if connection >= self.connections.len() => {
                return Err(NavigationFlaw::NoMainConnection { connection });
            }
            None if self.main_use.is_some() => return Err(NavigationFlaw::MainUseOfNone),
            _ => {}
        }
        for (place, connection) in self.connections.iter().enumerate() {
            connection.check(place, &self.connections)?;
        }
        for (place, resource) in self.resources.iter().enumerate() {
            resource.check(place, &self.connections)?;
        }
        for (connection, found) in self.connections.iter().enumerate() {
            let by_main = self.main_use == Some(ConnectionUse::Opened)
                && self.main_connection == Some(connection);
            let opened_by = |resource: &&Resource| {
                resource.connection == Some(connection)
                    && resource.connection_use == Some(ConnectionUse::Opened)
            };
            let times = usize::from(by_main) + self.resources.iter().filter(opened_by).count();
            let before = matches!(found.beginning, Some(Beginning::OpenBefore { .. }));
            if times > usize::from(!before) {
                return Err(NavigationFlaw::OpenedTwice { connection });
            }
        }
        Ok(())
    }
}

impl PageConnection {
    fn check(&self, connection: usize, all: &[Self]) -> Result<(), NavigationFlaw> {
        if let Some(race) = self.race {
            let rival = all.get(race.against).filter(|_| race.against != connection);
            let rival = rival.ok_or(NavigationFlaw::NoSuchRival { connection })?;
            let back = rival.race.filter(|back| back.against == connection);
            if race.won && back.is_some_and(|back| back.won) {
                return Err(NavigationFlaw::BothWon { connection });
            }
        }
        let was_open = matches!(self.beginning, Some(Beginning::OpenBefore { .. }));
        let foreign = |mark: &Mark| was_open || *mark > Mark::HandshakeConfirmed;
        if let Some(mark) = self.marks.iter().map(|(mark, _)| mark).find(foreign) {
            return Err(NavigationFlaw::ForeignMark { connection, mark });
        }
        let begun = self.marks.at(Mark::ConnectStart);
        let later = [self.first_answer, self.given_up].into_iter().flatten();
        if begun.is_some_and(|begun| later.into_iter().any(|stamp| stamp.at < begun)) {
            return Err(NavigationFlaw::EndBeforeBegin { connection });
        }
        match self.marks.disorder() {
            Some(_) => Err(NavigationFlaw::ConnectionDisorder { connection }),
            None => Ok(()),
        }
    }
}

impl Resource {
    fn check(&self, resource: usize, all: &[PageConnection]) -> Result<(), NavigationFlaw> {
        match self.connection {
            Some(connection) if connection >= all.len() => {
                return Err(NavigationFlaw::NoSuchConnection { resource, connection });
            }
            Some(_) if self.delivered_from.is_some_and(DeliveredFrom::is_local) => {
                return Err(NavigationFlaw::CachedOverConnection { resource });
            }
            None if self.connection_use.is_some() => {
                return Err(NavigationFlaw::UseOfNone { resource });
            }
            _ => {}
        }
        let set_up = |mark: &Mark| *mark < Mark::RequestStart;
        if let Some(mark) = self.marks.iter().map(|(mark, _)| mark).find(set_up) {
            return Err(NavigationFlaw::SetUpMark { resource, mark });
        }
        let at = |mark| self.marks.at(mark);
        let asked = self.asked.map(|stamp| stamp.at);
        let interim = self.interim.map(|stamp| stamp.at);
        // A server may answer before it has the whole request.
        let orders = [
            [asked, at(Mark::RequestStart), at(Mark::RequestEnd), None],
            [asked, at(Mark::RequestStart), at(Mark::ResponseStart), at(Mark::ResponseEnd)],
            [asked, at(Mark::RequestStart), interim, at(Mark::ResponseStart)],
        ];
        let ordered = |order: &[Option<Offset>; 4]| order.iter().flatten().is_sorted();
        if !orders.iter().all(ordered) {
            return Err(NavigationFlaw::ResourceDisorder { resource });
        }
        let begun = self.connection.and_then(|place| all.get(place)?.marks.at(Mark::ConnectStart));
        match begun.zip(at(Mark::RequestStart)) {
            Some((begun, requested)) if requested < begun => {
                Err(NavigationFlaw::BeforeItsConnection { resource })
            }
            _ => Ok(()),
        }
    }
}

impl ConnectionUse {
    /// All uses.
    pub const ALL: [Self; 3] = [Self::Opened, Self::Reused, Self::Coalesced];

    /// Finds a use by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Reused => "reused",
            Self::Coalesced => "coalesced",
        }
    }
}

impl DeliveredFrom {
    /// All origins of a response.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Validated,
        Self::Cache,
        Self::MemoryCache,
        Self::DiskCache,
        Self::PrefetchCache,
        Self::ServiceWorker,
    ];

    /// Finds an origin by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Validated => "validated",
            Self::Cache => "cache",
            Self::MemoryCache => "memory-cache",
            Self::DiskCache => "disk-cache",
            Self::PrefetchCache => "prefetch-cache",
            Self::ServiceWorker => "service-worker",
        }
    }

    /// Whether a local cache delivered the response, without a connection.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Cache | Self::MemoryCache | Self::DiskCache | Self::PrefetchCache)
    }
}
