//! Firefox as a client: a real browser, headless, with a new profile, whose network code's reports become a sample.
//!
//! Input: a URL and [`BrowserOptions`](crate::browser::BrowserOptions). Output: a [`FirefoxVisit`]: the sample of the
//! document, the page as a `Navigation`, WebDriver BiDi's times of the document, and the origins that the browser tried
//! to contact for itself. Modules in order of use: `launch` and `preferences` (profile) → `browser` (one visit over
//! `bidi`, observed by `watch.js` in the browser's own scope) → `channel` (observed requests) → `assembly` (the model),
//! with `facts` and `failure`; `page`.
//!
//! Every visit has its own user context (a "container"): it starts without sessions, connections and cookies.

mod assembly;
mod bidi;
mod browser;
mod channel;
mod facts;
mod failure;
mod launch;
mod page;
mod preferences;

use firstbyte_core::timeline::{Navigation, Sample};

use crate::browser::Browser;

pub use bidi::BidiTimings;
pub use browser::RunningFirefox;

/// Takes samples with Firefox.
pub type Firefox = Browser<RunningFirefox>;

/// A visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirefoxVisit {
    /// The page: its document as a sample, its connections, other resources.
    pub page: Navigation,
    /// WebDriver BiDi's times of the document.
    pub bidi: Option<BidiTimings>,
    /// Outcome of the document's early data; absent if Firefox reports that none was sent. Firefox does not report the
    /// number of bytes.
    pub early_data: Option<FirefoxEarlyData>,
    /// Origins that the browser tried to contact for itself. These requests were blocked.
    pub beside: Vec<String>,
}

impl FirefoxVisit {
    /// The document's sample.
    pub const fn sample(&self) -> &Sample {
        &self.page.main
    }
}

/// Firefox's report about early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirefoxEarlyData {
    /// It was sent and rejected.
    Sent,
    /// It was sent and accepted.
    Accepted,
    /// The server answered with 425 (RFC 8470), and the request was sent again.
    TooEarly,
}
