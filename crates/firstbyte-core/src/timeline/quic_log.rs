//! What a QUIC connection's own keys show of its packets, and what its stack says of itself.

use std::time::Duration;

use super::{Direction, Offset, Stamp};
use crate::wire::quic::PacketKind;

/// The packets of a connection in order, as far as they were noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicLog {
    /// The connection ID that the client first sent to (RFC 9000 §7.3), as hexadecimal digits: servers name their logs
    /// by it.
    pub original_connection_id: Option<String>,
    /// Transport parameters of the client, as far as they are numbers.
    pub client_parameters: Vec<TransportParameter>,
    /// Those of the server.
    pub server_parameters: Vec<TransportParameter>,
    /// When the latter had come.
    pub server_parameters_at: Option<Offset>,
    /// Packets, in the order in which they left and arrived.
    pub packets: Vec<QuicPacket>,
    /// Packets beyond those that are noted.
    pub left_out: u64,
    /// What the stack took the path for, whenever that changed.
    pub recovery: Vec<QuicRecovery>,
}

/// A transport parameter (RFC 9000 §18.2) that is a number. One without a value is there, or not: 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportParameter {
    /// Its number in IANA's registry.
    pub id: u64,
    /// Its value, as it was sent.
    pub value: u64,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicPacket {
    /// Which way.
    pub direction: Direction,
    /// When its datagram left or arrived.
    pub stamp: Stamp,
    /// The number of that datagram among those of its direction, from 0.
    pub datagram: u32,
    /// Its type.
    pub kind: PacketKind,
    /// Its length with its header, bytes.
    pub bytes: u32,
    /// What was in it; absent where it was not opened: it has nothing that is encrypted, there were no keys for it, or
    /// it was no valid one.
    pub opened: Option<OpenedPacket>,
}

/// What was in a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedPacket {
    /// Its number.
    pub number: u64,
    /// Its frames in order, padding in a row as one.
    pub frames: Vec<QuicFrame>,
}

/// A frame (RFC 9000 §19), without what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuicFrame {
    /// So many bytes of nothing.
    Padding(u64),
    /// Asks to be acknowledged.
    Ping,
    /// Acknowledges packets.
    Ack {
        /// How long the largest one had waited for that, as its sender says.
        delay: Duration,
        /// From and to, both included, the largest first.
        ranges: Vec<(u64, u64)>,
    },
    /// Bytes of the handshake.
    Crypto {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Bytes of a stream.
    Stream {
        /// Which.
        id: u64,
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
        /// The stream ends with them.
        fin: bool,
    },
    /// Of another type: the numbers in it, in order, as far as they are known.
    Other {
        /// Its type.
        kind: u64,
        /// The numbers.
        numbers: Vec<u64>,
        /// The connection ID in it as hexadecimal digits; empty where it has none.
        id: String,
    },
}

/// What the stack took the path for (RFC 9002), from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicRecovery {
    /// Since when: the arrival of what told it.
    pub at: Offset,
    /// The smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Bytes that may be under way.
    pub congestion_window: u64,
}
