//! What two hosts say to each other over a byte stream, whatever the network: who writes how many bytes
//! after having received how many.
//!
//! TLS and HTTP over TCP depend on what has arrived, not on when: the conversation is the same on
//! every path and is made once, by the real state machines. `tcp` plays it over a path.

use std::time::Duration;

use crate::timeline::{HttpFacts, TlsFacts};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// Bytes that are written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Bytes of the other side's that must have arrived.
    pub needs: u64,
    /// From then, or from the step before, whichever is later, until they are written.
    pub after: Duration,
    pub bytes: u64,
}

/// A message and where it ends in its side's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub end: u64,
    pub name: String,
}

/// What one side says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub steps: Vec<Step>,
    pub messages: Vec<Message>,
    pub bytes: u64,
}

impl Lines {
    pub(crate) fn write(&mut self, needs: u64, after: Duration, bytes: u64) {
        if bytes > 0 {
            self.steps.push(Step { needs, after, bytes });
            self.bytes += bytes;
        }
    }

    pub(crate) fn name(&mut self, end: u64, name: impl Into<String>) {
        self.messages.push(Message { end, name: name.into() });
    }
}

/// Places in the bytes that marks are set at. Each counts the bytes up to and including the one that
/// has to have left, or arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The client's Finished leaves.
    pub client_finished: Option<u64>,
    /// The server's Finished arrives, where it ends the handshake.
    pub server_finished: Option<u64>,
    pub request_start: u64,
    pub request_end: u64,
    pub response_start: u64,
    pub response_end: u64,
}

/// The whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialogue {
    pub client: Lines,
    pub server: Lines,
    /// The client's step that begins what is of interest, when the connection was there before.
    pub origin_step: Option<usize>,
    pub places: Places,
    pub tls: Option<TlsFacts>,
    pub http: HttpFacts,
}

impl Dialogue {
    pub(crate) fn of(&self, side: Side) -> &Lines {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}
