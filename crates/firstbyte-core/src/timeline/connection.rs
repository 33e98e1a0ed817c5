//! A connection, from the name to the last byte.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{Cause, Direction, Facts, Failure, Flight, LastSeen, Marks, Offset, PhaseName};

/// All data on one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The requested URL; empty if the source does not know it.
    pub url: String,
    /// Wall-clock time of the origin, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<u64>,
    /// Named points in time.
    pub marks: Marks,
    /// DNS lookups, in the order in which they began.
    pub lookups: Vec<Lookup>,
    /// Connection attempts, in the order in which they began; losing ones included (RFC 8305).
    pub attempts: Vec<Attempt>,
    /// Runs of bytes, in time order.
    pub flights: Vec<Flight>,
    /// Negotiated parameters and proven properties.
    pub facts: Facts,
    /// Why it did not complete, if it did not.
    pub failure: Option<Failure>,
    /// Where the record ends, if it ends before the connection; this is not a failure.
    pub open_end: Option<OpenEnd>,
}

/// The last observed point of a connection whose end was not observed: a capture may end first, or miss the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenEnd {
    /// Phase at that point.
    pub phase: PhaseName,
    /// Time of the last known event.
    pub at: Option<Offset>,
}

/// Premature end of a connection: it failed, or was not observed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenOff {
    /// Phase in which it ended.
    pub phase: PhaseName,
    /// Time of the end.
    pub at: Option<Offset>,
    /// Description for people.
    pub message: String,
}

impl Connection {
    /// The premature end, if the connection did not complete.
    pub fn broken_off(&self) -> Option<BrokenOff> {
        if let Some(failure) = &self.failure {
            let Failure { phase, cause, at } = failure;
            let message = format!("failed in {phase}: {cause}");
            return Some(BrokenOff { phase: *phase, at: *at, message });
        }
        let OpenEnd { phase, at } = self.open_end?;
        Some(BrokenOff { phase, at, message: format!("{phase}: its end was not seen") })
    }

    /// Phase and time of the premature end, if the connection did not complete.
    pub fn stops_in(&self) -> Option<(PhaseName, Option<Offset>)> {
        let failed = self.failure.as_ref().map(|failure| (failure.phase, failure.at));
        failed.or_else(|| self.open_end.map(|end| (end.phase, end.at)))
    }

    /// Size of the ClientHello over TCP, bytes, if the client sent one.
    pub fn client_hello_bytes(&self) -> Option<u64> {
        let first = self.flights.first().filter(|_| self.facts.quic.is_none())?;
        let is_hello = first.messages.first().is_some_and(|message| message == "ClientHello");
        if first.direction != Direction::Sent || !is_hello {
            return None;
        }
        let early = self.facts.tls.as_ref().and_then(|tls| tls.early_data);
        let early_bytes = early.and_then(|early| early.bytes_before_server_hello).unwrap_or(0);
        Some(first.bytes().saturating_sub(early_bytes))
    }

    /// Size of an unanswered ClientHello that is larger than a segment, bytes: its size may be the reason.
    pub fn unanswered_large_hello(&self) -> Option<u64> {
        let failure = self.failure.as_ref().filter(|failure| failure.phase == PhaseName::Tls)?;
        let is_unanswered = match failure.cause {
            Cause::ResetInHandshake | Cause::ClosedInHandshake => true,
            Cause::TimedOut { peer, .. } => {
                matches!(peer, LastSeen::Acknowledged | LastSeen::HelloStuck { .. })
            }
            _ => false,
        };
        let segment = self.facts.tcp.as_ref().and_then(|tcp| tcp.send_mss);
        let segment = segment.map_or(ETHERNET_SEGMENT, |mss| ETHERNET_SEGMENT.min(mss.into()));
        let bytes = self.client_hello_bytes().filter(|bytes| *bytes > segment)?;
        (is_unanswered && self.flights.len() == 1).then_some(bytes)
    }
}

/// TCP payload of an IPv4 packet of 1,500 bytes with the timestamp option (RFC 7323 §3.2). Loopback segments are
/// larger, but a server that reads one segment at a time is recognised there too.
const ETHERNET_SEGMENT: u64 = 1_448;

/// Type of a DNS query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Both at once: the system resolver does not distinguish them.
    Any,
}

impl RecordType {
    /// Finds a type by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::A, Self::Aaaa, Self::Any].into_iter().find(|kind| kind.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Any => "A+AAAA",
        }
    }
}

/// One DNS query and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Requested record type.
    pub record_type: RecordType,
    /// When the query was passed to the resolver.
    pub start: Offset,
    /// When the answer, or the refusal, arrived; absent if the client did not wait for it.
    pub end: Option<Offset>,
    /// Addresses, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// The error, if the lookup failed.
    pub error: Option<String>,
    /// Tries, in order; empty if only the resolver knows them.
    pub tries: Vec<LookupTry>,
}

impl Lookup {
    /// The name servers queried in `lookups`, and how often each: parallel A and AAAA queries count once.
    pub fn servers_asked(lookups: &[Self]) -> Vec<(SocketAddr, u32)> {
        let mut asked: Vec<(SocketAddr, u32)> = Vec::new();
        for lookup in lookups {
            for one in &lookup.tries {
                let times = lookup.tries.iter().filter(|other| other.server == one.server).count();
                let times = u32::try_from(times).unwrap_or(u32::MAX);
                match asked.iter_mut().find(|(server, _)| *server == one.server) {
                    Some((_, most)) => *most = times.max(*most),
                    None => asked.push((one.server, times)),
                }
            }
        }
        asked
    }
}

/// Transport of a DNS query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsTransport {
    /// In a datagram.
    Udp,
    /// Over a connection, for answers too large for a datagram.
    Tcp,
}

impl DnsTransport {
    /// Finds a transport by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|transport| transport.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// One DNS query to one name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupTry {
    /// The name server.
    pub server: SocketAddr,
    /// Transport of the query.
    pub transport: DnsTransport,
    /// When the query was sent.
    pub start: Offset,
    /// When the server answered or was given up; absent if the visit ended earlier.
    pub end: Option<Offset>,
    /// Why this try gave no addresses, if it did not.
    pub error: Option<String>,
}

impl LookupTry {
    /// Error text for a server that did not answer.
    pub const NO_ANSWER: &'static str = "no answer";

    /// How long the client waited for a server that did not answer.
    pub fn silence(&self) -> Option<Duration> {
        let end = self.end.filter(|_| self.error.as_deref() == Some(Self::NO_ANSWER))?;
        Some(end.since(self.start))
    }
}

/// How a connection attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// This attempt carried the connection.
    Won,
    /// Another attempt was faster; this one was given up.
    Lost,
    /// The attempt failed.
    Failed {
        /// The kernel's error text.
        error: String,
    },
}

impl AttemptOutcome {
    /// Name used in stored forms.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Won => "won",
            Self::Lost => "lost",
            Self::Failed { .. } => "failed",
        }
    }
}

/// One attempt to open a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Remote address.
    pub remote: SocketAddr,
    /// When its SYN left.
    pub start: Offset,
    /// When it connected, failed or was given up.
    pub end: Option<Offset>,
    /// Outcome.
    pub outcome: AttemptOutcome,
}
