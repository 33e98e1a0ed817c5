//! What two hosts say to each other over a byte stream, whatever the network: who writes how many bytes
//! after having received how many.
//!
//! TLS and HTTP over TCP depend on what has arrived, not on when: the conversation is the same on
//! every path and is made once, by the real state machines. `tcp` plays it over a path.

use std::time::Duration;

use crate::timeline::{HttpFacts, TlsFacts};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who opened the connection.
    Client,
    /// Who answers.
    Server,
}

/// Bytes that are written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the other side's that must have arrived.
    pub needs: u64,
    /// From then, or from the step before, whichever is later, until they are written.
    pub after: Duration,
    /// How many.
    pub bytes: u64,
}

/// A message and where it ends in its side's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes of its side's up to its last.
    pub end: u64,
    /// As the protocol's document has it.
    pub name: String,
}

/// What one side says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// In order.
    pub steps: Vec<Step>,
    /// What was in them, in order.
    pub messages: Vec<Message>,
    /// Of all steps.
    pub bytes: u64,
}

impl Lines {
    /// Adds a step, if it has bytes.
    pub fn write(&mut self, needs: u64, after: Duration, bytes: u64) {
        if bytes > 0 {
            self.steps.push(Step { needs, after, bytes });
            self.bytes += bytes;
        }
    }

    /// Names what ends at byte `end`.
    pub fn name(&mut self, end: u64, name: impl Into<String>) {
        self.messages.push(Message { end, name: name.into() });
    }
}

/// Places in the bytes that marks are set at. Each counts the bytes up to and including the one that
/// has to have left, or arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The client's Finished leaves.
    pub client_finished: Option<u64>,
    /// The server's Finished arrives, where it ends the handshake.
    pub server_finished: Option<u64>,
    /// The request's first byte leaves.
    pub request_start: u64,
    /// Its last.
    pub request_end: u64,
    /// The response's first packet arrives, where its head cannot be read then.
    pub response_first_packet: Option<u64>,
    /// The response's head can be read: the last byte of its record arrives.
    pub response_start: u64,
    /// Its last.
    pub response_end: u64,
}

/// The whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// What the client says.
    pub client: Lines,
    /// What the server says.
    pub server: Lines,
    /// The client's step that begins what is of interest, when the connection was there before.
    pub origin_step: Option<usize>,
    /// Where marks are set.
    pub places: Places,
    /// What was negotiated.
    pub tls: Option<TlsFacts>,
    /// What was asked and answered.
    pub http: HttpFacts,
}

impl Dialogue {
    /// What this side says.
    pub fn said_by(&self, side: Side) -> &Lines {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}
