//! The one model: the events of a connection, as points in time, runs of bytes and facts.
//!
//! Sources fill it in, views read it. Nothing here depends on a particular source or view.

mod connection;
mod facts;
mod failure;
mod failure_type;
mod flight;
mod mark;
mod navigation;
mod quic_log;
mod requests;
mod sample;
mod time;

pub use connection::{
    Attempt, AttemptOutcome, BrokenOff, Connection, DnsTransport, Lookup, LookupTry, OpenEnd,
    RecordType,
};
pub use facts::{
    Certificate, ClientFacts, EarlyData, Facts, Handshake, Header, HttpFacts, PanelTime,
    ProcessorTime, ProxyFacts, ProxyKind, QuicDatagram, QuicFacts, SessionMechanism, TcpFacts,
    TlsFacts,
};
pub use failure::{
    Cause, Failure, Fault, LastSeen, OfferedGroups, PhaseName, RedirectCircle, TimeLimit,
};
pub use failure_type::FailureType;
pub use flight::{Chunk, Direction, Flight};
pub use mark::{Mark, Marks};
pub use navigation::{
    Beginning, ConnectionUse, DeliveredFrom, Initiator, Navigation, NavigationFlaw, PageConnection,
    Race, Resource, ResourceSizes,
};
pub use quic_log::{
    OpenedPacket, QuicFrame, QuicLog, QuicPacket, QuicRecovery, TransportParameter,
};
pub use requests::{Exchange, Parallel, Requests};
pub use sample::Sample;
pub use time::{Clock, Offset, Stamp};
