//! The conversation of two hosts over a byte stream, independent of the network: who writes how many bytes after
//! receiving how many.
//!
//! TLS and HTTP over TCP depend on which bytes have arrived, not on when: the conversation is the same on every path.
//! The real state machines produce it once; `tcp` plays it over a path.

use std::time::Duration;

use crate::timeline::{HttpFacts, TlsFacts};

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The host that opened the connection.
    Client,
    /// The host that answers.
    Server,
}

/// Bytes written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes from the other side that must have arrived.
    pub needs: u64,
    /// Delay until the write, counted from that arrival or from the previous step, whichever is later.
    pub after: Duration,
    /// Number of bytes.
    pub bytes: u64,
}

/// A message and its end in its side's byte stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its side's bytes up to and including its last.
    pub end: u64,
    /// Name in the protocol's specification.
    pub name: String,
}

/// Everything one side sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Writes, in order.
    pub steps: Vec<Step>,
    /// Messages, in order.
    pub messages: Vec<Message>,
    /// Bytes of all steps.
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

    /// Names the message that ends at byte `end`.
    pub fn name(&mut self, end: u64, name: impl Into<String>) {
        self.messages.push(Message { end, name: name.into() });
    }
}

/// Positions in the byte streams at which marks are set. Each counts the bytes up to and including the one that must
/// have left or arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The client's Finished leaves.
    pub client_finished: Option<u64>,
    /// The server's Finished arrives, if it ends the handshake.
    pub server_finished: Option<u64>,
    /// The request's first byte leaves.
    pub request_start: u64,
    /// The request's last byte leaves.
    pub request_end: u64,
    /// The response's first packet arrives, if its head cannot be read at that time.
    pub response_first_packet: Option<u64>,
    /// The response's head can be read: the last byte of its record arrives.
    pub response_start: u64,
    /// The response's last byte arrives.
    pub response_end: u64,
}

/// The whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialogue {
    /// What the client sends.
    pub client: Lines,
    /// What the server sends.
    pub server: Lines,
    /// The client's step at which measurement begins, if the connection was already open.
    pub origin_step: Option<usize>,
    /// Positions of the marks.
    pub places: Places,
    /// Negotiated TLS parameters.
    pub tls: Option<TlsFacts>,
    /// Request and response.
    pub http: HttpFacts,
}

impl Dialogue {
    /// Everything that `side` sends.
    pub fn said_by(&self, side: Side) -> &Lines {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}
