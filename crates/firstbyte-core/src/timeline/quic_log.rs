//! Packets of a QUIC connection, decrypted with its own keys, and the recovery state of its stack.

use std::time::Duration;

use super::{Direction, Offset, Stamp};
use crate::wire::quic::PacketKind;

/// Packets of a connection in order, as far as they were logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicLog {
    /// The connection ID that the client first sent to (RFC 9000 §7.3), as hexadecimal digits: servers name their logs
    /// by it.
    pub original_connection_id: Option<String>,
    /// The client's numeric transport parameters.
    pub client_parameters: Vec<TransportParameter>,
    /// The server's numeric transport parameters.
    pub server_parameters: Vec<TransportParameter>,
    /// When the server's parameters arrived.
    pub server_parameters_at: Option<Offset>,
    /// Packets, in the order in which they left and arrived.
    pub packets: Vec<QuicPacket>,
    /// Number of packets not logged.
    pub left_out: u64,
    /// The stack's estimates of the path, one entry per change.
    pub recovery: Vec<QuicRecovery>,
}

/// A numeric transport parameter (RFC 9000 §18.2). A parameter without a value is 1 if present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportParameter {
    /// Its number in IANA's registry.
    pub id: u64,
    /// Value, as sent.
    pub value: u64,
}

/// A QUIC packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicPacket {
    /// Direction.
    pub direction: Direction,
    /// When its datagram left or arrived.
    pub stamp: Stamp,
    /// Index of that datagram among those of its direction, from 0.
    pub datagram: u32,
    /// Packet type.
    pub kind: PacketKind,
    /// Length including the header, bytes.
    pub bytes: u32,
    /// Decrypted contents; absent if the packet carries no encrypted data, lacked keys or was invalid.
    pub opened: Option<OpenedPacket>,
}

/// Decrypted contents of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedPacket {
    /// Packet number.
    pub number: u64,
    /// Frames in order; consecutive padding counts as one frame.
    pub frames: Vec<QuicFrame>,
}

/// A frame (RFC 9000 §19), without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuicFrame {
    /// Run of padding bytes.
    Padding(u64),
    /// Elicits an acknowledgement.
    Ping,
    /// Acknowledges packets.
    Ack {
        /// How long the largest packet waited for its acknowledgement, as the sender reports.
        delay: Duration,
        /// First and last packet number of each range, inclusive, largest range first.
        ranges: Vec<(u64, u64)>,
    },
    /// Handshake bytes.
    Crypto {
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Stream bytes.
    Stream {
        /// Stream ID.
        id: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
        /// Whether the stream ends with these bytes.
        fin: bool,
    },
    /// Any other type: its numeric fields in order, as far as they are known.
    Other {
        /// Frame type.
        kind: u64,
        /// Numeric fields.
        numbers: Vec<u64>,
        /// Connection ID in the frame as hexadecimal digits; empty if it has none.
        id: String,
    },
}

/// The stack's recovery state (RFC 9002), valid from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicRecovery {
    /// Start of validity: the arrival of the packet that changed it.
    pub at: Offset,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Congestion window, bytes.
    pub congestion_window: u64,
}
