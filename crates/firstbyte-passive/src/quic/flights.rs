//! The flights of a QUIC handshake.
//!
//! In: the content of each datagram of the handshake. Out: runs of datagrams in one direction, in order.
//! Acknowledgments on their own do not make a flight.

use crate::Time;
use crate::flights::Flight;
use crate::table::Side;

/// Content of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    ClientHello,
    EarlyData,
    Retry,
    VersionNegotiation,
    HelloRetryRequest,
    ServerHello,
    /// Handshake packets from the server.
    Encrypted,
    /// The client's Finished, with everything that it sends before it.
    Finished,
    /// An acknowledgment that the server had to wait for.
    Acknowledgment,
    Close,
}

impl Message {
    const ALL: [Self; 10] = [
        Self::ClientHello,
        Self::EarlyData,
        Self::Retry,
        Self::VersionNegotiation,
        Self::HelloRetryRequest,
        Self::ServerHello,
        Self::Encrypted,
        Self::Finished,
        Self::Acknowledgment,
        Self::Close,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::ClientHello => "ClientHello",
            Self::EarlyData => "(early data)",
            Self::Retry => "Retry",
            Self::VersionNegotiation => "Version Negotiation",
            Self::HelloRetryRequest => "HelloRetryRequest",
            Self::ServerHello => "ServerHello",
            Self::Encrypted => "{…}",
            Self::Finished => "{Finished}",
            Self::Acknowledgment => firstbyte_core::wire::quic::ACKNOWLEDGMENT,
            Self::Close => "CONNECTION_CLOSE",
        }
    }
}

/// Most messages named in a flight.
const NAMED: usize = 4;
/// Most flights kept. With Version Negotiation, Retry and HelloRetryRequest there are 10.
const FLIGHTS: usize = 12;

/// The name of a message from its code in a flight.
pub(super) fn name(code: u8) -> &'static str {
    Message::ALL.get(usize::from(code)).map_or("", |message| message.name())
}

/// Adds `bytes` from `side` that hold `message`.
pub(super) fn add(
    flights: &mut Vec<Flight>,
    side: Side,
    at: Time,
    bytes: u32,
    message: Option<Message>,
) {
    if last(flights) != Some(side) {
        if flights.len() == FLIGHTS {
            return;
        }
        flights.push(Flight::new(side, at));
    }
    let Some(flight) = flights.last_mut() else { return };
    flight.end = flight.end.max(at);
    flight.bytes = flight.bytes.saturating_add(bytes);
    if let Some(code) = message.map(|message| message as u8)
        && !flight.codes().contains(&code)
        && flight.codes().len() < NAMED
    {
        flight.name(code);
    }
}

/// The side that sent the last flight.
pub(super) fn last(flights: &[Flight]) -> Option<Side> {
    flights.last().map(Flight::side)
}

/// When the last flight ended, if `side` sent it.
pub(super) fn end_of(flights: &[Flight], side: Side) -> Option<Time> {
    flights.last().filter(|flight| flight.side() == side).map(|flight| flight.end)
}
