//! The stored form of a QUIC connection's packets: compact, because there are many.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::stamps::StoredClock;
use crate::timeline::{
    Direction, Offset, OpenedPacket, QuicFrame, QuicLog, QuicPacket, QuicRecovery, Stamp,
    TransportParameter,
};
use crate::wire::quic::PacketKind;

/// The packets of a connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredQuicLog {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_connection_id: Option<String>,
    /// Number and value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_parameters: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub server_parameters: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_parameters_at_ns: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<StoredQuicPacket>,
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Time, smoothed round-trip time, and congestion window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<(i64, u64, u64)>,
}

/// A packet: whether it was sent, its time and clock, the number of its datagram, its type, its length and, if it was
/// decrypted, its number and its frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredQuicPacket(
    bool,
    i64,
    StoredClock,
    u32,
    String,
    u32,
    Option<u64>,
    Vec<StoredQuicFrame>,
);

/// A frame: its type and its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub enum StoredQuicFrame {
    Padding(u64),
    Ping,
    /// Delay in nanoseconds, and the first and last packet number of each range.
    Ack(u64, Vec<(u64, u64)>),
    /// Offset and length.
    Crypto(u64, u64),
    /// Stream, offset, length, end.
    Stream(u64, u64, u64, bool),
    /// Type, numbers, and the connection ID.
    Other(u64, Vec<u64>, String),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl StoredQuicLog {
    pub(super) fn from_log(log: &QuicLog) -> Self {
        let parameters = |all: &[TransportParameter]| all.iter().map(|p| (p.id, p.value)).collect();
        Self {
            original_connection_id: log.original_connection_id.clone(),
            client_parameters: parameters(&log.client_parameters),
            server_parameters: parameters(&log.server_parameters),
            server_parameters_at_ns: log.server_parameters_at.map(Offset::as_nanos),
            packets: log.packets.iter().map(StoredQuicPacket::from_packet).collect(),
            left_out: log.left_out,
            recovery: log
                .recovery
                .iter()
                .map(|r| (r.at.as_nanos(), ns(r.smoothed_rtt), r.congestion_window))
                .collect(),
        }
    }

    /// Converts to packets. Those of unknown type are left out, but counted.
    pub(in crate::document) fn log(self) -> QuicLog {
        let parameters = |all: Vec<(u64, u64)>| {
            all.into_iter().map(|(id, value)| TransportParameter { id, value }).collect()
        };
        let stored = self.packets.len();
        let packets: Vec<_> =
            self.packets.into_iter().filter_map(StoredQuicPacket::packet).collect();
        QuicLog {
            original_connection_id: self.original_connection_id,
            client_parameters: parameters(self.client_parameters),
            server_parameters: parameters(self.server_parameters),
            server_parameters_at: self.server_parameters_at_ns.map(Offset::from_nanos),
            left_out: self.left_out + (stored - packets.len()) as u64,
            packets,
            recovery: self
                .recovery
                .into_iter()
                .map(|(at, smoothed_rtt, congestion_window)| QuicRecovery {
                    at: Offset::from_nanos(at),
                    smoothed_rtt: Duration::from_nanos(smoothed_rtt),
                    congestion_window,
                })
                .collect(),
        }
    }
}

impl StoredQuicPacket {
    fn from_packet(packet: &QuicPacket) -> Self {
        let opened = packet.opened.as_ref();
        let frames = opened.map_or_else(Vec::new, |opened| {
            opened.frames.iter().map(StoredQuicFrame::from_frame).collect()
        });
        Self(
            packet.direction == Direction::Sent,
            packet.stamp.at.as_nanos(),
            StoredClock(packet.stamp.clock),
            packet.datagram,
            packet.kind.name().into(),
            packet.bytes,
            opened.map(|opened| opened.number),
            frames,
        )
    }

    fn packet(self) -> Option<QuicPacket> {
        let Self(sent, at, StoredClock(clock), datagram, kind, bytes, number, frames) = self;
        let frames = frames.into_iter().map(StoredQuicFrame::frame).collect();
        Some(QuicPacket {
            direction: if sent { Direction::Sent } else { Direction::Received },
            stamp: Stamp { at: Offset::from_nanos(at), clock },
            datagram,
            kind: PacketKind::named(&kind)?,
            bytes,
            opened: number.map(|number| OpenedPacket { number, frames }),
        })
    }
}

impl StoredQuicFrame {
    fn from_frame(frame: &QuicFrame) -> Self {
        match frame {
            QuicFrame::Padding(bytes) => Self::Padding(*bytes),
            QuicFrame::Ping => Self::Ping,
            QuicFrame::Ack { delay, ranges } => Self::Ack(ns(*delay), ranges.clone()),
            QuicFrame::Crypto { offset, bytes } => Self::Crypto(*offset, *bytes),
            QuicFrame::Stream { id, offset, bytes, fin } => {
                Self::Stream(*id, *offset, *bytes, *fin)
            }
            QuicFrame::Other { kind, numbers, id } => {
                Self::Other(*kind, numbers.clone(), id.clone())
            }
        }
    }

    fn frame(self) -> QuicFrame {
        match self {
            Self::Padding(bytes) => QuicFrame::Padding(bytes),
            Self::Ping => QuicFrame::Ping,
            Self::Ack(delay, ranges) => {
                QuicFrame::Ack { delay: Duration::from_nanos(delay), ranges }
            }
            Self::Crypto(offset, bytes) => QuicFrame::Crypto { offset, bytes },
            Self::Stream(id, offset, bytes, fin) => QuicFrame::Stream { id, offset, bytes, fin },
            Self::Other(kind, numbers, id) => QuicFrame::Other { kind, numbers, id },
        }
    }
}
