//! Chromium as a client: a real browser, headless, with a new profile; what its network stack says becomes a sample.
//!
//! Input: a URL, and how it is to be visited ([`BrowserOptions`](crate::browser::BrowserOptions)). Output: a [`ChromiumVisit`]: the sample of the
//! document from the network log (microseconds: marks, flights, facts), the page as a `Navigation`, what DevTools'
//! panel shows beside, and the connections that the browser opened for itself. Way: `launch` (switches, profile) →
//! `browser` (one visit over DevTools, with a trace) → `assembly` (log and responses to the model): `tcp` or `quic`,
//! with `facts` and `failure`; `page` with `opened`
//! (every connection), `panel`.
//!
//! Every visit has a browser context of its own: no sessions, connections, cookies or cache but those that it made.

mod assembly;
mod browser;
mod facts;
mod failure;
mod flights;
mod launch;
mod opened;
mod page;
mod panel;
mod quic;
mod tcp;

use firstbyte_core::timeline::{Navigation, Sample};

use crate::browser::Browser;

pub use browser::RunningChromium;
pub use panel::PanelTiming;

/// Chromium: takes samples.
pub type Chromium = Browser<RunningChromium>;

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
