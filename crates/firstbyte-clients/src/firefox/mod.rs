//! Firefox as a client: a real browser, headless, with a new profile; what its network code says becomes a sample.
//!
//! Input: a URL, and how it is to be visited ([`FirefoxOptions`]). Output: a [`FirefoxVisit`]: the sample of the document,
//! the page as a `Navigation`, what WebDriver BiDi says of the document beside, and what the browser wanted for itself.
//! Way: `launch` and `preferences` (profile) → `browser` (one visit over `bidi`, seen by `watch.js` in the browser's own
//! scope) → `channel` (what was seen) → `assembly` (the model), with `facts` and `failure`; `page`. [`asked`] turns what
//! is asked of every client into options.
//!
//! Every visit has a user context of its own (a "container"): no sessions, connections or cookies but those that it made.

pub mod asked;
mod assembly;
mod bidi;
mod browser;
mod channel;
mod facts;
mod failure;
mod launch;
mod page;
mod preferences;

use std::time::Duration;

use firstbyte_core::timeline::{Navigation, Sample};

pub use crate::chromium::HostPin;
pub use bidi::BidiTimings;
pub use browser::Firefox;

/// How Firefox is to visit.
#[derive(Clone, Debug)]
pub struct FirefoxOptions {
    /// The program, by name or path.
    pub program: String,
    /// Authorities (PEM) to be trusted besides those it knows.
    pub trusted_pem: Vec<String>,
    /// Where hosts are, without asking DNS: the edge, and the family, to be measured.
    pub pins: Vec<HostPin>,
    /// Names are resolved to IPv4 addresses only.
    pub ipv4_only: bool,
    /// The version of HTTP.
    pub http: FirefoxHttp,
    /// The version of TLS over TCP.
    pub tls: FirefoxTls,
    /// What the visit takes up of an earlier one.
    pub session: FirefoxSession,
    /// How long one visit may take, the one before it included. Starting the browser, and reading what it says of the
    /// visit, come on top: 30 s each, where it hangs.
    pub time_limit: Duration,
}

impl Default for FirefoxOptions {
    fn default() -> Self {
        Self {
            program: launch::installed_program().to_owned(),
            trusted_pem: Vec::new(),
            pins: Vec::new(),
            ipv4_only: false,
            http: FirefoxHttp::default(),
            tls: FirefoxTls::default(),
            session: FirefoxSession::default(),
            time_limit: Duration::from_secs(30),
        }
    }
}

/// The version of HTTP to be spoken. Which one was is in the sample's facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirefoxHttp {
    /// What browser and server agree on.
    #[default]
    Negotiated,
    /// Only HTTP/1.1 is offered.
    Http1,
    /// HTTP/2, or HTTP/1.1 where the server has none; no QUIC.
    Http2,
    /// QUIC alone, without an Alt-Svc or HTTPS record, also with a root that Firefox was not built with; where that fails
    /// nothing else is tried.
    Http3,
}

/// The versions of TLS to be offered over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirefoxTls {
    /// What Firefox offers: 1.2 and 1.3.
    #[default]
    Both,
    /// Only 1.2.
    Tls12,
    /// Only 1.3.
    Tls13,
}

/// What a visit takes up of an earlier one, which is made for it and not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirefoxSession {
    /// Nothing: the first visit ever.
    #[default]
    New,
    /// Its connection.
    Kept,
    /// Its TLS session: all connections are closed between the two visits. Over QUIC, early data comes with it where the
    /// server allows it: Firefox resumes no session without.
    Resumed,
    /// The same, and the request is sent before the handshake is complete, where the server allows it.
    EarlyData,
}

/// A visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirefoxVisit {
    /// The page: its document as a sample, its connections, other resources.
    pub page: Navigation,
    /// What WebDriver BiDi says of the document's times.
    pub bidi: Option<BidiTimings>,
    /// What became of the document's early data; absent where Firefox says that none was sent. The facts of the sample
    /// have none: how many bytes left early, it does not say.
    pub early_data: Option<FirefoxEarlyData>,
    /// Origins that the browser wanted something of for itself. It was kept from asking them.
    pub beside: Vec<String>,
}

impl FirefoxVisit {
    /// The document's sample.
    pub const fn sample(&self) -> &Sample {
        &self.page.main
    }
}

/// What Firefox says of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirefoxEarlyData {
    /// It was sent, and not taken.
    Sent,
    /// It was sent, and taken.
    Accepted,
    /// The server answered with 425 (RFC 8470), and the request was sent again.
    TooEarly,
}
