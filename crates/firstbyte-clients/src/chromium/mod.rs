//! Chromium as a client: a real browser, headless, with a new profile, whose network log becomes a sample.
//!
//! Input: a URL and [`BrowserOptions`](crate::browser::BrowserOptions). Output: a [`ChromiumVisit`]: the sample of the
//! document from the network log (microseconds: marks, flights, facts), the page as a `Navigation`, the times that
//! DevTools' panel shows, and the connections that the browser opened for itself. Modules in order of use: `launch`
//! (switches, profile) → `browser` (one visit over DevTools, with a trace) → `assembly` (log and responses to the
//! model): `tcp` or `quic`, with `facts` and `failure`; `page` with `opened` (every connection), `panel`.
//!
//! Every visit has its own browser context: it starts without sessions, connections, cookies and cache.

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

/// Takes samples with Chromium.
pub type Chromium = Browser<RunningChromium>;

/// A visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChromiumVisit {
    /// The page: its document as a sample, its connections, other resources.
    pub page: Navigation,
    /// Times of the document as DevTools' panel shows them.
    pub panel: Option<PanelTiming>,
    /// Requests that do not belong to the page: preconnects, icons, the browser's own services.
    pub beside: Vec<BesideRequest>,
    /// It ran without its sandbox, which is unavailable to root.
    pub without_sandbox: bool,
}

impl ChromiumVisit {
    /// The document's sample.
    pub const fn sample(&self) -> &Sample {
        &self.page.main
    }
}

/// A request of the browser that does not belong to the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BesideRequest {
    /// Its purpose.
    pub purpose: BesidePurpose,
    /// The origin that it went to, or would have gone to: scheme, host and port.
    pub origin: String,
    /// Whether it opened a connection that the page did not use.
    pub opened_connection: bool,
}

/// Purpose of a request that does not belong to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesidePurpose {
    /// A preconnect.
    Preconnect,
    /// The page's icon.
    Favicon,
    /// One of the browser's own services.
    BrowserService,
}

impl BesidePurpose {
    /// Name for display.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preconnect => "preconnect",
            Self::Favicon => "favicon",
            Self::BrowserService => "browser service",
        }
    }
}
