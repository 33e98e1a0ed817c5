//! A sample: one visit to a URL, with the redirects followed on the way.

use super::{Connection, Failure};

/// One visit to a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its number within the run, from 0, warm-up included.
    pub sequence: u32,
    /// Whether it was measured to warm up: shown apart, never pooled.
    pub warmup: bool,
    /// The URL that was asked for.
    pub requested_url: String,
    /// Connections whose responses redirected, in order; empty without redirects.
    pub redirects: Vec<Connection>,
    /// The last connection: the one that answered, or failed.
    pub connection: Connection,
}

impl Sample {
    /// Why it did not come to its end, if it did not.
    pub fn failure(&self) -> Option<&Failure> {
        self.connection.failure.as_ref()
    }
}
