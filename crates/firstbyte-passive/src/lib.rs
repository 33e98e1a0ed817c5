//! Reads connections from packets: TLS over TCP, and QUIC, without decrypting.
//!
//! In: frames with the capture's times ([`firstbyte_core::pcap`] reads them from files). Out: one [`Observed`] per
//! connection, when it ends, and counts of removed and unreadable frames ([`Hygiene`]). The data flows through
//! [`Intake`] ([`layers`]), [`Shard`] (`tcp`, `tls`, `timing`; or [`quic`]) and numbers. Memory is bounded whatever the
//! packets contain. Nothing here reads a clock, guesses roles from ports, or panics on malformed bytes.

#![forbid(unsafe_code)]

mod analyzer;
pub mod capacity;
pub mod diff;
pub mod document;
mod doubts;
mod elapsed;
mod exchanges;
mod failed;
pub mod filter;
mod flights;
mod fragments;
pub mod groups;
mod intake;
mod issued;
pub mod layers;
mod limits;
mod losses;
pub mod model;
pub mod names;
mod numbers;
mod observed;
mod packed;
mod passed;
pub mod quic;
pub mod sampled;
mod shard;
pub mod strength;
mod table;
mod tcp;
mod timing;
mod tls;

pub use analyzer::{Analyzer, Ledger, Sharded};
pub use doubts::{Doubts, Hygiene};
pub use failed::Failed;
pub use firstbyte_core::pcap::Time;
pub use intake::{Arrival, Begin, Intake};
pub use issued::SessionId;
pub use limits::Limits;
pub use numbers::Happened;
pub use observed::{
    AlertSeen, Carrier, CertificateKey, CertificatesSeen, Closing, EarlyDataSeen, Ending, Exchange,
    Exchanges, FlightSeen, HandshakeTime, HeldBack, Message, Observed, QuicPackets, QuicSeen,
    Resumption, Roles, RoundTrips, TlsSeen, Traffic,
};
pub use quic::UnreadQuic;
pub use shard::{OpenConnections, Shard};

#[cfg(test)]
mod tests;
