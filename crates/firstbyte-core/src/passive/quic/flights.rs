//! The flights of a QUIC handshake.
//!
//! In: what each datagram of the handshake carries. Out: runs of one direction, in order. Acknowledgments
//! alone make no flight.

use crate::passive::Time;
use crate::passive::observed::FlightSeen;
use crate::passive::table::Side;
use crate::passive::tls::LiveFlight;

/// What a flight has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    ClientHello,
    EarlyData,
    Retry,
    VersionNegotiation,
    HelloRetryRequest,
    ServerHello,
    /// Packets of Handshake from the server.
    Encrypted,
    /// The client's Finished, with all that it sends before it.
    Finished,
    /// An acknowledgment that the server had to wait for.
    Acknowledgment,
    Close,
}

impl Message {
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
            Self::Acknowledgment => crate::wire::quic::ACKNOWLEDGMENT,
            Self::Close => "CONNECTION_CLOSE",
        }
    }
}

const NAMED: usize = 4;
/// With Version Negotiation, Retry and HelloRetryRequest there are 10.
const FLIGHTS: usize = 12;

/// A flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    start: Time,
    end: Time,
    bytes: u32,
    side: u8,
    messages: [Option<Message>; NAMED],
}

/// The flights of a handshake, in order.
#[derive(Debug, Default)]
pub(super) struct Flights(Vec<Flight>);

impl Flights {
    /// `bytes` of `side`'s, with `message` in them.
    pub(super) fn add(&mut self, side: Side, at: Time, bytes: u32, message: Option<Message>) {
        if self.last().is_none_or(|last| last != side) {
            if self.0.len() == FLIGHTS {
                return;
            }
            self.0.reserve_exact(1);
            let (start, end) = (at, at);
            self.0.push(Flight { start, end, bytes: 0, side: side as u8, messages: [None; NAMED] });
        }
        let Some(flight) = self.0.last_mut() else { return };
        flight.end = flight.end.max(at);
        flight.bytes = flight.bytes.saturating_add(bytes);
        if let Some(message) = message
            && !flight.messages.contains(&Some(message))
            && let Some(place) = flight.messages.iter_mut().find(|place| place.is_none())
        {
            *place = Some(message);
        }
    }

    /// Whose the last one is.
    pub(super) fn last(&self) -> Option<Side> {
        self.0.last().map(|flight| usize::from(flight.side))
    }

    /// When the last one began and ended.
    pub(super) fn span(&self) -> Option<(Time, Time)> {
        self.0.last().map(|flight| (flight.start, flight.end))
    }

    /// Their times.
    pub(super) fn timed(&self) -> Vec<LiveFlight> {
        let bare = |flight: &Flight| LiveFlight::bare(flight.side.into(), flight.start, flight.end);
        self.0.iter().map(bare).collect()
    }

    /// For people.
    pub(super) fn seen(&self, client: Side) -> Vec<FlightSeen> {
        let seen = |flight: &Flight| FlightSeen {
            by_client: usize::from(flight.side) == client,
            start: flight.start,
            end: flight.end,
            bytes: flight.bytes.into(),
            messages: flight.messages.iter().flatten().map(|message| message.name()).collect(),
        };
        self.0.iter().map(seen).collect()
    }
}
