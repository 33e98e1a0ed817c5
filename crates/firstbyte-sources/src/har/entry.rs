//! The parts of an archive that are kept: names, numbers, and where requests went.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::DeliveredFrom;

/// An archive without contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarArchive {
    /// The program that wrote it, by its own name.
    pub creator: Option<HarSpan>,
    /// The browser, if another program wrote the archive.
    pub browser: Option<HarSpan>,
    /// Its pages.
    pub pages: Vec<HarPage>,
    /// Its entries, in the file's order.
    pub entries: Vec<HarEntry>,
    /// Entries that were dropped because the limit was reached.
    pub entries_beyond: u64,
    /// Invalid values in it, up to a limit.
    pub flaws: Vec<HarFlaw>,
    /// Number of invalid values.
    pub flaw_count: u64,
    /// Whether it was read to its end.
    pub end: HarEnd,
}

/// A program's name and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarSpan {
    /// Its name.
    pub name: String,
    /// Its version; empty if unknown.
    pub version: String,
}

/// How reading ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HarEnd {
    /// At the end of the archive.
    #[default]
    Whole,
    /// The file ends too early.
    Cut {
        /// The file's length in bytes, unpacked.
        offset: u64,
    },
    /// The bytes there cannot be read.
    Damaged {
        /// The reason, with the place.
        detail: String,
    },
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarPage {
    /// The name by which entries refer to it.
    pub id: String,
    /// Its title if that is a URL, without user, query and fragment.
    pub url: Option<String>,
    /// When its load began, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<i64>,
    /// From then until the DOMContentLoaded event.
    pub content_loaded: Option<Duration>,
    /// From then until the load event.
    pub loaded: Option<Duration>,
}

/// Times of an entry as written, milliseconds. Missing values and `null` are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HarTimings {
    /// Before any work on the request.
    pub blocked: Option<f64>,
    /// Name lookup.
    pub dns: Option<f64>,
    /// Opening the connection.
    pub connect: Option<f64>,
    /// TLS handshake.
    pub ssl: Option<f64>,
    /// Sending the request.
    pub send: Option<f64>,
    /// Waiting for the response.
    pub wait: Option<f64>,
    /// Receiving the response.
    pub receive: Option<f64>,
}

/// One request. Strings that many entries have in common are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarEntry {
    /// Its number in the file, from 1.
    pub number: u32,
    /// Index of its page among the archive's pages, set once everything is read.
    pub page: Option<u32>,
    /// When it began, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<i64>,
    /// How long it took altogether, milliseconds.
    pub time: Option<f64>,
    /// Its times.
    pub timings: HarTimings,
    /// Its URL without user, query and fragment; empty if it has none.
    pub url: Box<str>,
    /// Host and port; absent if the URL does not lead to a server.
    pub authority: Option<Arc<str>>,
    /// Whether the URL's scheme uses TLS.
    pub secure: bool,
    /// Method of the request.
    pub method: Option<Arc<str>>,
    /// Status of the response; browsers write 0 if there was no response.
    pub status: Option<i64>,
    /// The protocol by its ALPN name, "h2", or else as the file names it.
    pub protocol: Option<Arc<str>>,
    /// The `connection` field.
    pub connection: Option<Arc<str>>,
    /// The connection's name in the creator's own field: Chrome's `_connectionId`.
    pub connection_id: Option<Arc<str>>,
    /// The server's address.
    pub server: Option<IpAddr>,
    /// Where the response came from, if the creator has a field for it.
    pub delivered_from: Option<DeliveredFrom>,
    /// Whether the entry says that the request failed.
    pub failed: bool,
    /// Type of the resource, in the creator's word.
    pub resource_type: Option<Arc<str>>,
    /// Bytes of the response as transferred: Chrome's `_transferSize`.
    pub transferred_bytes: Option<u64>,
    /// Bytes of the response body as transferred.
    pub body_bytes: Option<u64>,
    /// Bytes of the decoded body.
    pub decoded_bytes: Option<u64>,
    /// Whether its times are invalid; they are not used then.
    pub is_flawed: bool,
}

/// An impossible value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarFlaw {
    /// The entry's number, from 1; absent for a page.
    pub entry: Option<u32>,
    /// The field, relative to `entries[]` or `pages[]`.
    pub field: &'static str,
    /// The value found, or what is wrong with it.
    pub says: String,
}

impl HarArchive {
    /// Maximum number of flaws that are kept; further ones are only counted.
    pub const MOST_FLAWS: usize = 1_000;

    pub(super) fn flaw(&mut self, entry: Option<u32>, field: &'static str, says: String) {
        self.flaw_count += 1;
        if self.flaws.len() < Self::MOST_FLAWS {
            self.flaws.push(HarFlaw { entry, field, says });
        }
    }
}
