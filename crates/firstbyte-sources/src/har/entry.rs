//! What is kept of an archive: names, numbers, and where requests went.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::DeliveredFrom;

/// An archive, without what it says of contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarArchive {
    /// The program that wrote it, as it calls itself.
    pub creator: Option<HarSpan>,
    /// The browser, where another program wrote it.
    pub browser: Option<HarSpan>,
    /// Its pages.
    pub pages: Vec<HarPage>,
    /// Its entries, in the file's order.
    pub entries: Vec<HarEntry>,
    /// Entries behind those that were kept: there is a limit.
    pub entries_beyond: u64,
    /// What is wrong with values of it, the first of them.
    pub flaws: Vec<HarFlaw>,
    /// How many there are.
    pub flaw_count: u64,
    /// Whether it was read to its end.
    pub end: HarEnd,
}

/// A program's name and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HarSpan {
    /// Its name.
    pub name: String,
    /// Its version; empty where it says none.
    pub version: String,
}

/// How reading came to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HarEnd {
    /// At the archive's own.
    #[default]
    Whole,
    /// The file ends within it.
    Cut {
        /// The file's length in bytes, unpacked.
        offset: u64,
    },
    /// What stands there cannot be read.
    Damaged {
        /// Why, with the place.
        detail: String,
    },
}

/// A page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarPage {
    /// What entries call it.
    pub id: String,
    /// Its title, where that is a URL, without user, query and fragment.
    pub url: Option<String>,
    /// When its load began, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<i64>,
    /// From then to the event DOMContentLoaded.
    pub content_loaded: Option<Duration>,
    /// From then to the event load.
    pub loaded: Option<Duration>,
}

/// The times of an entry as they are written, milliseconds. Absent is what is not there or is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HarTimings {
    /// Before anything was done.
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
    /// Receiving it.
    pub receive: Option<f64>,
}

/// One request. What many have in common is kept once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HarEntry {
    /// Its number in the file, from 1.
    pub number: u32,
    /// The place of its page among the archive's pages, once all is read.
    pub page: Option<u32>,
    /// When it began, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<i64>,
    /// How long it took altogether, milliseconds.
    pub time: Option<f64>,
    /// Its times.
    pub timings: HarTimings,
    /// Its URL without user, query and fragment; empty where it has none.
    pub url: Box<str>,
    /// Host and port; absent where it leads to no server.
    pub authority: Option<Arc<str>>,
    /// Whether its URL is for TLS.
    pub secure: bool,
    /// Method of the request.
    pub method: Option<Arc<str>>,
    /// Status of the response; 0 is what browsers write where there was none.
    pub status: Option<i64>,
    /// The protocol by its ALPN name, "h2", or as the file calls it.
    pub protocol: Option<Arc<str>>,
    /// The field `connection`.
    pub connection: Option<Arc<str>>,
    /// What the creator calls the connection elsewhere: Chrome's `_connectionId`.
    pub connection_id: Option<Arc<str>>,
    /// The server's address.
    pub server: Option<IpAddr>,
    /// Where the response came from, as far as the creator has a field for it.
    pub delivered_from: Option<DeliveredFrom>,
    /// It says that it failed.
    pub failed: bool,
    /// What kind of resource it is, in the creator's word.
    pub resource_type: Option<Arc<str>>,
    /// Bytes of the response as transferred: Chrome's `_transferSize`.
    pub transferred_bytes: Option<u64>,
    /// Bytes of the response's body as transferred.
    pub body_bytes: Option<u64>,
    /// Bytes of the body when decoded.
    pub decoded_bytes: Option<u64>,
    /// What is wrong with its times: they are not used.
    pub is_flawed: bool,
}

/// Something that cannot be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HarFlaw {
    /// The entry's number, from 1; absent of a page.
    pub entry: Option<u32>,
    /// The field, as it stands below `entries[]` or `pages[]`.
    pub field: &'static str,
    /// What it says.
    pub says: String,
}

impl HarArchive {
    /// How many flaws are kept in words.
    pub const MOST_FLAWS: usize = 1_000;

    pub(super) fn flaw(&mut self, entry: Option<u32>, field: &'static str, says: String) {
        self.flaw_count += 1;
        if self.flaws.len() < Self::MOST_FLAWS {
            self.flaws.push(HarFlaw { entry, field, says });
        }
    }
}
