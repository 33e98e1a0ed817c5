//! Logs of Chromium's network stack (NetLog): events of sources, and the requests built from them.
//!
//! Input: bytes of a file from `chrome://net-export` ([`net_export`]), or events from another envelope. Output:
//! [`NetLogEvent`]s, and from [`NetLogReduction`] one [`NetLogRequest`] for each request: which jobs raced for its
//! connection, which one won, what it waited for, and [findings](NetLogFinding) if the events prove that something cost
//! time. Events are identified by name, since their numbers change with every build. Unknown events are skipped.
//! Truncated or malformed input ends the reading, not the program.
//!
//! Of header fields only the status is kept, and of URLs only origin and path.

mod findings;
pub mod net_export;
mod open;
mod reduction;
mod request;
mod settle;
mod summary;
#[cfg(test)]
mod tests;
mod tls_names;

use std::fmt;
use std::rc::Rc;

use serde_json::Value;

pub use findings::{NetLogFinding, NetLogFindingKind};
pub use reduction::NetLogReduction;
pub use request::{
    AddressAttempt, AlternativeService, AttemptEnd, JobOutcome, LookupSource, NameLookup,
    NetLogConnection, NetLogJob, NetLogRequest, NetLogTransport, PoolLimit, PoolStall,
    SocketOrigin,
};
pub use settle::ErrorNames;
pub use summary::{FindingGroup, FindingSum, HostSum, NetLogSummary};

/// An event of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLogEvent {
    /// When it happened, microseconds on the browser's monotonic clock. Exported files have whole milliseconds.
    pub at_us: i64,
    /// Its source, by a number that the reader assigns: the same for all events of a source, and unique to it.
    pub source: u64,
    /// Type of the source: "SOCKET", "URL_REQUEST". Empty if unknown.
    pub source_kind: Rc<str>,
    /// The browser's number of the source (`connectionId` in DevTools, `source_dependency` in other events), if the
    /// envelope has it: traces do not.
    pub source_number: Option<u64>,
    /// What happened: "TCP_CONNECT", "SSL_HANDSHAKE_MESSAGE_SENT".
    pub name: Rc<str>,
    /// Whether it is a beginning, an end, or a point in time.
    pub phase: NetLogPhase,
    /// Parameters; `Null` if there are none.
    pub params: Value,
}

/// Whether an event is a beginning, an end, or a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetLogPhase {
    /// Something began.
    Begin,
    /// Something ended.
    End,
    /// Something happened.
    Point,
}

/// Why reading stopped. Everything read before remains valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetLogError {
    /// The bytes are not in the envelope's form.
    Malformed {
        /// Offset from the beginning of the input.
        offset_bytes: u64,
        /// What is wrong there.
        detail: &'static str,
    },
    /// A piece is larger than any that a browser writes.
    TooLarge {
        /// Offset from the beginning of the input.
        offset_bytes: u64,
        /// Maximum size accepted.
        limit_bytes: usize,
    },
    /// More sources under way, or more names, than any browser has.
    TooMany {
        /// The things that are too many.
        what: &'static str,
    },
}

impl fmt::Display for NetLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { offset_bytes, detail } => {
                write!(f, "not a network log at byte {offset_bytes}: {detail}")
            }
            Self::TooLarge { offset_bytes, limit_bytes } => write!(
                f,
                "a value of the network log at byte {offset_bytes} is larger than {limit_bytes} \
                 bytes"
            ),
            Self::TooMany { what } => write!(f, "the network log has too many {what}"),
        }
    }
}

impl std::error::Error for NetLogError {}

impl NetLogEvent {
    /// The number parameter `name`.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.params.get(name)?.as_i64()
    }

    /// The text parameter `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }

    /// The boolean parameter `name`.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.params.get(name)?.as_bool()
    }

    /// The number of the source that it refers to.
    pub fn dependency(&self) -> Option<u64> {
        self.params.get("source_dependency")?.get("id")?.as_u64()
    }

    /// Whether it is the beginning of `name`.
    pub fn begins(&self, name: &str) -> bool {
        self.phase == NetLogPhase::Begin && &*self.name == name
    }

    /// Whether it is the end of `name`.
    pub fn ends(&self, name: &str) -> bool {
        self.phase == NetLogPhase::End && &*self.name == name
    }
}
