//! Chromium as a client: a real browser, headless, with a new profile; what its network stack says becomes a sample.
//!
//! Input: a URL, and how it is to be visited ([`ChromiumOptions`]). Output: a [`ChromiumVisit`]: the sample of the
//! document from the network log (microseconds: marks, flights, facts), the page as a `Navigation`, what DevTools'
//! panel shows beside, and the connections that the browser opened for itself. Way: `launch` (switches, profile) →
//! `browser` (one visit over DevTools, with a trace) → `assembly` (log and responses to the model): `tcp` or `quic`,
//! with `facts` and `failure`; `page`, `panel`.
//!
//! Every visit has a browser context of its own: no sessions, connections, cookies or cache but those that it made.

mod asked;
mod assembly;
mod browser;
mod facts;
mod failure;
mod flights;
mod launch;
mod page;
mod panel;
mod quic;
mod tcp;

use std::net::IpAddr;
use std::time::Duration;

use firstbyte_core::timeline::{Navigation, Sample};
use firstbyte_probe::probe::options::Family;

pub use browser::Chromium;
pub use panel::PanelTiming;

/// How Chromium is to visit.
#[derive(Clone, Debug)]
pub struct ChromiumOptions {
    /// The program, by name or path.
    pub program: String,
    /// Authorities (PEM) to be trusted besides those it knows.
    pub trusted_pem: Vec<String>,
    /// Where hosts are, without asking DNS: the edge, and the family, to be measured.
    pub pins: Vec<HostPin>,
    /// The family of addresses. Where it is one of them, a host that is not pinned is looked up before the browser is
    /// started, and pinned: Chromium has no switch for it, and the lookup is no part of the visit then.
    pub family: Family,
    /// The version of HTTP.
    pub http: ChromiumHttp,
    /// The version of TLS over TCP.
    pub tls: ChromiumTls,
    /// What the visit takes up of an earlier one.
    pub session: ChromiumSession,
    /// How long one visit may take, the one before it included. Starting the browser, and reading what it says of the
    /// visit, come on top: 20 s each, where it hangs.
    pub time_limit: Duration,
}

impl Default for ChromiumOptions {
    fn default() -> Self {
        Self {
            program: "chromium".to_owned(),
            trusted_pem: Vec::new(),
            pins: Vec::new(),
            family: Family::Any,
            http: ChromiumHttp::default(),
            tls: ChromiumTls::default(),
            session: ChromiumSession::default(),
            time_limit: Duration::from_secs(30),
        }
    }
}

/// An address that a host is to be visited at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPin {
    /// The host's name, as in URLs.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
}

/// The version of HTTP to be spoken. Which one was is in the sample's facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChromiumHttp {
    /// What browser and server agree on.
    #[default]
    Negotiated,
    /// Only HTTP/1.1 is offered.
    Http1,
    /// HTTP/2, or HTTP/1.1 where the server has none; no QUIC.
    Http2,
    /// QUIC is tried at once, without an Alt-Svc or HTTPS record. This also exempts the URL's host from Chromium's
    /// rule that QUIC servers need a certificate of a root that it was built with.
    Http3,
}

/// The versions of TLS to be offered over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChromiumTls {
    /// What Chromium offers: 1.2 and 1.3.
    #[default]
    Both,
    /// Only 1.2.
    Tls12,
    /// Only 1.3.
    Tls13,
}

/// What a visit takes up of an earlier one, which is made for it and not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChromiumSession {
    /// Nothing: the first visit ever.
    #[default]
    New,
    /// Its connection.
    Kept,
    /// Its TLS session: all connections are closed between the two visits.
    Resumed,
    /// The same, and the request is sent before the handshake is complete, where the server allows it. Over TCP the
    /// browser does so only with the feature `EnableTLS13EarlyData`, which is switched on then; over QUIC it always does.
    EarlyData,
}

/// A visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChromiumVisit {
    /// The page: its document as a sample, its connections, other resources.
    pub page: Navigation,
    /// What DevTools' panel shows of the document.
    pub panel: Option<PanelTiming>,
    /// Requests that the browser made beside the page: preconnects, icons, services of its own.
    pub beside: Vec<BesideRequest>,
    /// It ran without its sandbox, as it has to where root runs it.
    pub without_sandbox: bool,
}

impl ChromiumVisit {
    /// The document's sample.
    pub const fn sample(&self) -> &Sample {
        &self.page.main
    }
}

/// Something that the browser asked for beside the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BesideRequest {
    /// What it is for.
    pub purpose: BesidePurpose,
    /// The origin that it went to, or would have gone to: scheme, host and port.
    pub origin: String,
    /// Whether a connection came of it that nothing of the page used.
    pub opened_connection: bool,
}

/// What a request beside a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesidePurpose {
    /// A connection in advance.
    Preconnect,
    /// The page's icon.
    Favicon,
    /// One of the browser's own services.
    BrowserService,
}

impl BesidePurpose {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preconnect => "preconnect",
            Self::Favicon => "favicon",
            Self::BrowserService => "browser service",
        }
    }
}
