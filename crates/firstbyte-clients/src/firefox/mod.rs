//! Firefox as a client: a real browser, headless, with a new profile; what its network code says becomes a sample.
//!
//! Input: a URL, and how it is to be visited ([`BrowserOptions`](crate::browser::BrowserOptions)). Output: a [`FirefoxVisit`]: the sample of the document,
//! the page as a `Navigation`, what WebDriver BiDi says of the document beside, and what the browser wanted for itself.
//! Way: `launch` and `preferences` (profile) → `browser` (one visit over `bidi`, seen by `watch.js` in the browser's own
//! scope) → `channel` (what was seen) → `assembly` (the model), with `facts` and `failure`; `page`.
//!
//! Every visit has a user context of its own (a "container"): no sessions, connections or cookies but those that it made.

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

/// Firefox: takes samples.
pub type Firefox = Browser<RunningFirefox>;

/// A visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirefoxVisit {
    /// The page: its document as a sample, its connections, other resources.
    pub page: Navigation,
    /// What WebDriver BiDi says of the document's times.
    pub bidi: Option<BidiTimings>,
    /// What became of the document's early data; absent where Firefox says that none was sent. How many
    /// bytes left early, it does not say.
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
