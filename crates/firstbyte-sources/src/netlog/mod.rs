//! What Chromium's network stack says of itself (NetLog): events of sources, and requests made of them.
//!
//! Input: bytes of a file from `chrome://net-export` ([`net_export`]), or events out of another envelope. Output:
//! [`NetLogEvent`]s, and by [`NetLogReduction`] one [`NetLogRequest`] for each request: which jobs raced for its
//! connection, who won, what it waited for, and [findings](NetLogFinding) where the events prove that something cost
//! time. Events are told apart by name: their numbers change with every build. What is unknown is passed over; what is
//! cut short or garbled ends the reading, not the program.
//!
//! Nothing of requests' and responses' header fields is kept but the status, and nothing of URLs but origin and path.

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
    /// When, microseconds on the browser's monotonic clock. Those of an exported file are whole milliseconds.
    pub at_us: i64,
    /// Which source, by a number of the reader's own: the same for all events of a source, and for no other's.
    pub source: u64,
    /// What kind of source that is: "SOCKET", "URL_REQUEST". Empty where it was not said.
    pub source_kind: Rc<str>,
    /// The browser's number of the source (`connectionId` of DevTools, `source_dependency` of other events), where the
    /// envelope has it: traces do not.
    pub source_number: Option<u64>,
    /// What happened: "TCP_CONNECT", "SSL_HANDSHAKE_MESSAGE_SENT".
    pub name: Rc<str>,
    /// Whether it began, ended, or is a point in time.
    pub phase: NetLogPhase,
    /// What else is said; `Null` where nothing is.
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

/// Why an envelope was not read further. What was read before stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetLogError {
    /// The bytes are not in the envelope's form.
    Malformed {
        /// From the beginning of the input.
        offset_bytes: u64,
        /// What is wrong there.
        detail: &'static str,
    },
    /// One piece of it is larger than any that a browser writes.
    TooLarge {
        /// From the beginning of the input.
        offset_bytes: u64,
        /// What is taken.
        limit_bytes: usize,
    },
    /// It has more sources under way, or names, than any browser's.
    TooMany {
        /// Of what.
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
    /// The number under `name`.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.params.get(name)?.as_i64()
    }

    /// The text under `name`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name)?.as_str()
    }

    /// What is true or false under `name`.
    pub fn truth(&self, name: &str) -> Option<bool> {
        self.params.get(name)?.as_bool()
    }

    /// The number of the source that it names.
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
