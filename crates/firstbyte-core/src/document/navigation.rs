//! The stored form of a page load: a self-contained line.
//!
//! The document is a stored sample. Unknown values are left out. The reader checks the page, and refuses one whose
//! parts contradict each other.

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::FailureRecord;
use super::interned::{FactTable, Interner, Shared};
use super::stored::{
    MissingFact, StoredClock, StoredMarks, StoredSample, StoredTls, shared_tls, tls_of,
};
use crate::timeline::{
    Beginning, ConnectionUse, DeliveredFrom, Initiator, Navigation, NavigationFlaw, Offset,
    PageConnection, Race, Resource, ResourceSizes, Stamp,
};

/// Value of the field `format`.
pub const NAVIGATION_FORMAT: &str = "firstbyte/navigation";
/// Value of the field `version`.
pub const NAVIGATION_VERSION: u32 = 1;

/// A time and its clock.
type StoredStamp = (i64, StoredClock);

/// One page load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredNavigation {
    pub format: String,
    pub version: u32,
    #[serde(default)]
    pub sequence: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub warmup: bool,
    pub url: String,
    pub main: StoredSample,
    #[serde(default)]
    pub main_at_ns: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_connection: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_use: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_loaded: Option<StoredStamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<StoredStamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<StoredPageConnection>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<StoredResource>,
}

/// One connection of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredPageConnection {
    pub authority: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beginning: Option<StoredBeginning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub race: Option<StoredRace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Shared<StoredTls>>,
    #[serde(skip_serializing_if = "StoredMarks::is_empty")]
    pub marks: StoredMarks,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_answer: Option<StoredStamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<StoredStamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,
}

/// How a connection began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub enum StoredBeginning {
    Opened,
    OpenBefore {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_ns: Option<u64>,
    },
}

/// The other connection in its race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredRace {
    pub against: usize,
    pub won: bool,
}

/// What triggered the load of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredInitiator {
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// One resource of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredResource {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initiator: Option<StoredInitiator>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_use: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<StoredStamp>,
    #[serde(skip_serializing_if = "StoredMarks::is_empty")]
    pub marks: StoredMarks,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interim: Option<StoredStamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transferred_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord>,
}

/// Why a stored page load cannot be read.
#[derive(Debug)]
pub enum NavigationError {
    /// Not JSON of this form.
    Malformed(serde_json::Error),
    /// Another format.
    Format(String),
    /// A later version.
    Version(u32),
    /// A reference to a fact that is not stored before it.
    Missing(MissingFact),
    /// A value of a later version, in a field that determines the meaning of times.
    UnknownValue {
        /// Kind of the value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// Contradictory parts.
    Flaw(NavigationFlaw),
}

impl fmt::Display for NavigationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "{error}"),
            Self::Format(format) => write!(f, "{format:?} is not a page load"),
            Self::Version(version) => {
                write!(f, "version {version} of the format is newer than this firstbyte reads")
            }
            Self::Missing(missing) => write!(f, "{missing}"),
            Self::UnknownValue { what, value } => {
                write!(
                    f,
                    "unknown {what} {value:?}; a later version of firstbyte may have written it"
                )
            }
            Self::Flaw(flaw) => write!(f, "{flaw}"),
        }
    }
}

impl std::error::Error for NavigationError {}

impl From<MissingFact> for NavigationError {
    fn from(missing: MissingFact) -> Self {
        Self::Missing(missing)
    }
}

/// Appends the line of `navigation` to `out`, with its line ending.
///
/// # Errors
/// Cannot occur: the model has a stored form for everything.
pub fn navigation_line(navigation: &Navigation, out: &mut Vec<u8>) -> std::io::Result<()> {
    let stored = StoredNavigation::from_navigation(navigation, &mut Interner::sharing_nothing());
    serde_json::to_writer(&mut *out, &stored)?;
    out.write_all(b"\n")
}

/// Parses the page load in `line`.
///
/// # Errors
/// The line is not a page load, is of a later version, or contradicts itself.
pub fn navigation(line: &[u8]) -> Result<Navigation, NavigationError> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let head: Head = serde_json::from_slice(line).map_err(NavigationError::Malformed)?;
    if head.format != NAVIGATION_FORMAT {
        return Err(NavigationError::Format(head.format));
    }
    if head.version > NAVIGATION_VERSION {
        return Err(NavigationError::Version(head.version));
    }
    let stored: StoredNavigation =
        serde_json::from_slice(line).map_err(NavigationError::Malformed)?;
    stored.navigation(&FactTable::default())
}

const fn stored_stamp(stamp: Stamp) -> StoredStamp {
    (stamp.at.as_nanos(), StoredClock(stamp.clock))
}

const fn stamp((at, clock): StoredStamp) -> Stamp {
    Stamp { at: Offset::from_nanos(at), clock: clock.0 }
}

/// Finds a value by its name, which must be known.
fn known<T>(
    what: &'static str,
    name: Option<String>,
    named: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, NavigationError> {
    let Some(value) = name else { return Ok(None) };
    match named(&value) {
        Some(found) => Ok(Some(found)),
        None => Err(NavigationError::UnknownValue { what, value }),
    }
}

impl StoredNavigation {
    /// Converts `navigation` to its stored form; `interner` stores repeated facts.
    pub fn from_navigation(navigation: &Navigation, interner: &mut Interner) -> Self {
        let Navigation {
            main,
            main_at,
            main_connection,
            main_use,
            connections,
            resources,
            content_loaded,
            loaded,
        } = navigation;
        Self {
            format: NAVIGATION_FORMAT.into(),
            version: NAVIGATION_VERSION,
            sequence: main.sequence,
            warmup: main.warmup,
            url: main.requested_url.clone(),
            main: StoredSample::from_sample(main, &main.requested_url, interner),
            main_at_ns: main_at.as_nanos(),
            main_connection: *main_connection,
            main_use: main_use.map(|used| used.name().into()),
            content_loaded: content_loaded.map(stored_stamp),
            loaded: loaded.map(stored_stamp),
            connections: connections
                .iter()
                .map(|connection| StoredPageConnection::from_connection(connection, interner))
                .collect(),
            resources: resources.iter().map(StoredResource::from_resource).collect(),
        }
    }

    /// Converts to a page load; `facts` are those that it refers to.
    ///
    /// # Errors
    /// A fact is missing, a value is unknown, or the page load contradicts itself.
    pub fn navigation(self, facts: &FactTable) -> Result<Navigation, NavigationError> {
        let connections: Result<_, _> =
            self.connections.into_iter().map(|connection| connection.connection(facts)).collect();
        let resources: Result<_, _> =
            self.resources.into_iter().map(StoredResource::resource).collect();
        let navigation = Navigation {
            main: self.main.sample(&self.url, self.sequence, self.warmup, facts)?,
            main_at: Offset::from_nanos(self.main_at_ns),
            main_connection: self.main_connection,
            main_use: known("use of a connection", self.main_use, ConnectionUse::named)?,
            connections: connections?,
            resources: resources?,
            content_loaded: self.content_loaded.map(stamp),
            loaded: self.loaded.map(stamp),
        };
        navigation.check().map_err(NavigationError::Flaw)?;
        Ok(navigation)
    }
}

impl StoredPageConnection {
    fn from_connection(connection: &PageConnection, interner: &mut Interner) -> Self {
        let PageConnection {
            authority,
            client_id,
            remote,
            local,
            beginning,
            race,
            protocol,
            tls,
            marks,
            first_answer,
            given_up,
            failure,
        } = connection;
        Self {
            authority: authority.clone(),
            client_id: client_id.clone(),
            remote: *remote,
            local: *local,
            beginning: beginning.map(|beginning| match beginning {
                Beginning::Opened => StoredBeginning::Opened,
                Beginning::OpenBefore { idle } => StoredBeginning::OpenBefore {
                    idle_ns: idle.map(|idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX)),
                },
            }),
            race: race.map(|Race { against, won }| StoredRace { against, won }),
            protocol: protocol.clone(),
            tls: tls.as_ref().map(|tls| shared_tls(tls, interner)),
            marks: StoredMarks(*marks),
            first_answer: first_answer.map(stored_stamp),
            given_up: given_up.map(stored_stamp),
            failure: failure.as_ref().map(FailureRecord::from_failure),
        }
    }

    fn connection(self, facts: &FactTable) -> Result<PageConnection, MissingFact> {
        Ok(PageConnection {
            authority: self.authority,
            client_id: self.client_id,
            remote: self.remote,
            local: self.local,
            beginning: self.beginning.map(|beginning| match beginning {
                StoredBeginning::Opened => Beginning::Opened,
                StoredBeginning::OpenBefore { idle_ns } => {
                    Beginning::OpenBefore { idle: idle_ns.map(Duration::from_nanos) }
                }
            }),
            race: self.race.map(|StoredRace { against, won }| Race { against, won }),
            protocol: self.protocol,
            tls: self.tls.map(|tls| tls_of(tls, facts)).transpose()?,
            marks: self.marks.0,
            first_answer: self.first_answer.map(stamp),
            given_up: self.given_up.map(stamp),
            failure: self.failure.map(FailureRecord::failure),
        })
    }
}

impl StoredResource {
    fn from_resource(resource: &Resource) -> Self {
        let Resource {
            url,
            method,
            status,
            initiator,
            connection,
            connection_use,
            delivered_from,
            protocol,
            priority,
            asked,
            marks,
            interim,
            sizes,
            failure,
        } = resource;
        Self {
            url: url.clone(),
            method: method.clone(),
            status: *status,
            initiator: initiator
                .clone()
                .map(|Initiator { kind, url }| StoredInitiator { kind, url }),
            connection: *connection,
            connection_use: connection_use.map(|used| used.name().into()),
            delivered_from: delivered_from.map(|from| from.name().into()),
            protocol: protocol.clone(),
            priority: priority.clone(),
            asked: asked.map(stored_stamp),
            marks: StoredMarks(*marks),
            interim: interim.map(stored_stamp),
            transferred_bytes: sizes.transferred_bytes,
            body_bytes: sizes.body_bytes,
            decoded_bytes: sizes.decoded_bytes,
            failure: failure.as_ref().map(FailureRecord::from_failure),
        }
    }

    fn resource(self) -> Result<Resource, NavigationError> {
        Ok(Resource {
            url: self.url,
            method: self.method,
            status: self.status,
            initiator: self.initiator.map(|StoredInitiator { kind, url }| Initiator { kind, url }),
            connection: self.connection,
            connection_use: known(
                "use of a connection",
                self.connection_use,
                ConnectionUse::named,
            )?,
            delivered_from: known(
                "origin of a response",
                self.delivered_from,
                DeliveredFrom::named,
            )?,
            protocol: self.protocol,
            priority: self.priority,
            asked: self.asked.map(stamp),
            marks: self.marks.0,
            interim: self.interim.map(stamp),
            sizes: ResourceSizes {
                transferred_bytes: self.transferred_bytes,
                body_bytes: self.body_bytes,
                decoded_bytes: self.decoded_bytes,
            },
            failure: self.failure.map(FailureRecord::failure),
        })
    }
}
