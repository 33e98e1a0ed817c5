//! A page load: its document, and what was loaded besides.
//!
//! The document is a [`Sample`], like any other visit. The other resources stand beside it, each with the connection
//! that it used; set-up belongs to connections, exchanges to resources, so that a [`Connection`](super::Connection)
//! stays what it is: from a name to the last byte of one response. Times count from the navigation's own origin.
//! What a source does not say is absent: some have no connections (WebDriver BiDi, beacons), most no priorities.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Failure, Mark, Marks, Offset, Sample, Stamp, TlsFacts};

/// One page load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Navigation {
    /// The load of the document, with the redirects that led to it. Its times count from its connections' origins.
    pub main: Sample,
    /// Where the origin of `main.connection` lies: redirects and what the client did before come first.
    pub main_at: Offset,
    /// The place of the document's connection among `connections`; absent where none is known.
    pub main_connection: Option<usize>,
    /// How the document came by that.
    pub main_use: Option<ConnectionUse>,
    /// Every connection that the page used, or that was opened for it and not used, in the order in which they were
    /// wanted.
    pub connections: Vec<PageConnection>,
    /// The other resources, in the order in which they were asked for.
    pub resources: Vec<Resource>,
    /// When the document was parsed, and the scripts that hold it up had run (DOMContentLoaded).
    pub content_loaded: Option<Stamp>,
    /// When everything was there that the page waits for (the event `load`).
    pub loaded: Option<Stamp>,
}

/// A connection of a page: how it began, and its set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageConnection {
    /// The host and the port that it was opened for, as in a URL: "example.org:443".
    pub authority: String,
    /// What the client calls it.
    pub client_id: Option<String>,
    /// Where to.
    pub remote: Option<SocketAddr>,
    /// Where from: what a capture of the same page knows it by.
    pub local: Option<SocketAddr>,
    /// How it began; absent where the source does not say.
    pub beginning: Option<Beginning>,
    /// The connection that it was opened beside, or in the place of, where only one of them was needed.
    pub race: Option<Race>,
    /// The protocol spoken on it, by its ALPN name: "h2", "h3", "http/1.1".
    pub protocol: Option<String>,
    /// What its TLS handshake settled.
    pub tls: Option<TlsFacts>,
    /// Its set-up: marks up to [`Mark::HandshakeConfirmed`].
    pub marks: Marks,
    /// When the first packet of the server's had come. Over TCP that is [`Mark::TcpConnected`], and this is absent.
    pub first_answer: Option<Stamp>,
    /// When it was given up: it was not there yet, or nothing had gone over it.
    pub given_up: Option<Stamp>,
    /// Why it could not be used, if it could not.
    pub failure: Option<Failure>,
}

/// How a page came to have a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It was opened during the page load.
    Opened,
    /// It was open when the page load began.
    OpenBefore {
        /// How long nothing had gone over it.
        idle: Option<Duration>,
    },
}

/// Two connections for the same purpose (HTTP/3 beside HTTP/2, a second attempt where the first one took long, or
/// failed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The place of the other one among the page's connections; of one that won against several, the first of them.
    pub against: usize,
    /// Whether this one was used.
    pub won: bool,
}

/// How a resource came by its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionUse {
    /// It was opened for this resource, which waited for it.
    Opened,
    /// It was there, opened for the same host.
    Reused,
    /// It was there, opened for another host, whose certificate covers this one (RFC 9113 §9.1.1, RFC 9114 §3.3).
    Coalesced,
}

/// Where a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveredFrom {
    /// The server.
    Network,
    /// A cache, after the server said that it is still good (304).
    Validated,
    /// A cache; which one is not known.
    Cache,
    /// The cache in memory.
    MemoryCache,
    /// The cache on disk.
    DiskCache,
    /// What was fetched ahead.
    PrefetchCache,
    /// A service worker, which may have asked a server itself.
    ServiceWorker,
}

/// What had a resource loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initiator {
    /// In the client's word: "parser", "script", "img".
    pub kind: String,
    /// The URL of what asked for it, where that is known.
    pub url: Option<String>,
}

/// Bytes of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceSizes {
    /// What was transferred, head and body, as received.
    pub transferred_bytes: Option<u64>,
    /// The body before content decoding.
    pub body_bytes: Option<u64>,
    /// The body after content decoding.
    pub decoded_bytes: Option<u64>,
}

/// A resource that is not the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its URL.
    pub url: String,
    /// Method of the request.
    pub method: Option<String>,
    /// Status code of the final response.
    pub status: Option<u16>,
    /// What had it loaded.
    pub initiator: Option<Initiator>,
    /// The place of its connection among the page's; absent where it used none, or none is known.
    pub connection: Option<usize>,
    /// How it came by that.
    pub connection_use: Option<ConnectionUse>,
    /// Where the response came from.
    pub delivered_from: Option<DeliveredFrom>,
    /// The protocol that it came by, by its ALPN name. A cached one has that of when it was fetched.
    pub protocol: Option<String>,
    /// Its priority, in the client's word: "VeryHigh", "u=1, i".
    pub priority: Option<String>,
    /// When it was asked for: what lies between that and the request it waited for (a connection, its turn).
    pub asked: Option<Stamp>,
    /// Its exchange: marks from [`Mark::RequestStart`] on. The response begins with the final one.
    pub marks: Marks,
    /// When the first interim response (103 Early Hints) began.
    pub interim: Option<Stamp>,
    /// What was transferred.
    pub sizes: ResourceSizes,
    /// Why it did not come to its end, if it did not.
    pub failure: Option<Failure>,
}

/// What is wrong with a navigation: two things in it contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what the variants' docs say, by name")]
pub enum NavigationFlaw {
    /// The document used a connection that is not there.
    NoMainConnection { connection: usize },
    /// It is said how the document came by its connection, and not which.
    MainUseOfNone,
    /// A resource used a connection that is not there.
    NoSuchConnection { resource: usize, connection: usize },
    /// A connection raced with one that is not there, or with itself.
    NoSuchRival { connection: usize },
    /// Both sides of a race were used.
    BothWon { connection: usize },
    /// Several resources say that a connection was opened for them, or one says so of a connection that was open.
    OpenedTwice { connection: usize },
    /// A resource says how it came by a connection, and has none.
    UseOfNone { resource: usize },
    /// A resource came out of a cache of the client's, over a connection.
    CachedOverConnection { resource: usize },
    /// A connection has marks that are not of its set-up, or that was open before has any.
    ForeignMark { connection: usize, mark: Mark },
    /// A resource has marks that are not of its exchange.
    SetUpMark { resource: usize, mark: Mark },
    /// A connection was given up, or answered, before it was begun.
    EndBeforeBegin { connection: usize },
    /// Marks of a connection are out of order.
    ConnectionDisorder { connection: usize },
    /// Times of a resource are out of order.
    ResourceDisorder { resource: usize },
    /// A request left before its connection was begun.
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
    /// The connection that `resource` used, where it used one that is known.
    pub fn connection_of(&self, resource: &Resource) -> Option<&PageConnection> {
        self.connections.get(resource.connection?)
    }

    /// The first contradiction in it, if any: what every source has to leave out, and every view may rely on.
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
    /// Every way.
    pub const ALL: [Self; 3] = [Self::Opened, Self::Reused, Self::Coalesced];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Reused => "reused",
            Self::Coalesced => "coalesced",
        }
    }
}

impl DeliveredFrom {
    /// Every place.
    pub const ALL: [Self; 7] = [
        Self::Network,
        Self::Validated,
        Self::Cache,
        Self::MemoryCache,
        Self::DiskCache,
        Self::PrefetchCache,
        Self::ServiceWorker,
    ];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The name used in stored forms.
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

    /// Whether the client had it: no connection was used.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Cache | Self::MemoryCache | Self::DiskCache | Self::PrefetchCache)
    }
}
