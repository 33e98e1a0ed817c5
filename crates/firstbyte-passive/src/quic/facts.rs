//! Facts about a QUIC connection: those kept from its handshake, and counts that continue to its end.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::flights::Flight;
use crate::observed::{QuicPackets, QuicSeen, TlsSeen, Traffic};
use crate::packed::packed;

/// Facts that are kept after the handshake.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Absent until the client is known.
    pub(super) seen: Option<TlsSeen>,
    pub(super) flights: Vec<Flight>,
    pub(super) token_bytes: Option<u32>,
    pub(super) unvalidated_bytes: Option<u64>,
    pub(super) unvalidated_limit: Option<u64>,
    pub(super) limit_stall: Option<Duration>,
}

packed!(struct Past {
    seen,
    flights,
    token_bytes,
    unvalidated_bytes,
    unvalidated_limit,
    limit_stall,
});

/// Counts that continue to the end of the connection.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Absent for Version Negotiation, whose version is 0.
    pub(super) version: Option<NonZeroU32>,
    pub(super) first_version: Option<NonZeroU32>,
    pub(super) version_negotiations: u32,
    pub(super) retries: u32,
    pub(super) sent: QuicPackets,
    pub(super) received: QuicPackets,
    pub(super) client_cid_changes: u32,
    pub(super) server_cid_changes: u32,
    pub(super) migrations: u32,
}

impl Counts {
    /// Combines the counts with the facts from the handshake. Connection IDs and the spin bit are added elsewhere.
    pub(super) fn seen(&self, past: &Past) -> QuicSeen {
        QuicSeen {
            version: self.version.map(NonZeroU32::get),
            first_version: self.first_version.map(NonZeroU32::get),
            version_negotiations: self.version_negotiations,
            retries: self.retries,
            token_bytes: past.token_bytes,
            sent: self.sent,
            received: self.received,
            client_cid_bytes: None,
            server_cid_bytes: None,
            client_cid_changes: self.client_cid_changes,
            server_cid_changes: self.server_cid_changes,
            migrations: self.migrations,
            unvalidated_bytes: past.unvalidated_bytes,
            unvalidated_limit: past.unvalidated_limit,
            limit_stall: past.limit_stall,
            spin_round_trip: None,
        }
    }
}

/// Datagrams of one direction. Lost and late ones cannot be recognised.
///
/// Packed, because every connection has two of these, and alignment would pad their three `u32` fields to four.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Datagrams {
    pub(super) packets: u32,
    pub(super) retransmitted: u32,
    pub(super) duplicates: u32,
    pub(super) bytes: u64,
}

impl Datagrams {
    pub(super) fn traffic(&self) -> Traffic {
        let Self { packets, retransmitted, duplicates, bytes } = *self;
        Traffic { packets, bytes, retransmitted, duplicates, ..Traffic::default() }
    }
}
