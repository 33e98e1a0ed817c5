//! Flights: runs of bytes in one direction (RFC 8446 §2 uses the word).

use super::{Offset, Stamp};

/// Direction of bytes, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Sent,
    /// From the server to the client.
    Received,
}

/// Bytes that left with one send, or arrived with one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When the last of these bytes left or arrived.
    pub stamp: Stamp,
    /// Number of bytes on the TCP stream.
    pub bytes: u64,
    /// When the peer's TCP acknowledged the last of these bytes, if the kernel reported it.
    pub acknowledged: Option<Offset>,
    /// When the client's process read received bytes from its kernel, if known: from then on the kernel may
    /// acknowledge small segments.
    pub read: Option<Offset>,
    /// Number of TCP segments that end within these bytes, if counted; zero for bytes of a segment that ends later.
    pub segments: Option<u32>,
}

impl Chunk {
    /// A chunk without further information.
    pub const fn new(stamp: Stamp, bytes: u64) -> Self {
        Self { stamp, bytes, acknowledged: None, read: None, segments: None }
    }

    /// Sets when the peer acknowledged a sent chunk, or when the process read a received one.
    pub(crate) fn acknowledged_or_read_at(self, direction: Direction, at: Option<Offset>) -> Self {
        match direction {
            Direction::Sent => Self { acknowledged: at, ..self },
            Direction::Received => Self { read: at, ..self },
        }
    }
}

/// A run of bytes in one direction, until the other side answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Direction.
    pub direction: Direction,
    /// Chunks in order; at least one.
    pub chunks: Vec<Chunk>,
    /// Names of the messages in RFC 8446, RFC 5246 and RFC 9113. Encrypted messages are named from the state of the
    /// TLS stack, and in braces as in RFC 8446 figure 1.
    pub messages: Vec<String>,
}

impl Flight {
    /// When its first chunk left or arrived.
    pub fn first(&self) -> Offset {
        self.chunks.first().map_or(Offset::ZERO, |c| c.stamp.at)
    }

    /// When its last chunk left or arrived.
    pub fn last(&self) -> Offset {
        self.chunks.last().map_or(Offset::ZERO, |c| c.stamp.at)
    }

    /// Bytes on the TCP stream.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|c| c.bytes).sum()
    }
}
