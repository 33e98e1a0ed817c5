//! A connection, from the name to the last byte.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{Cause, Direction, Facts, Failure, Flight, LastSeen, Marks, Offset, PhaseName};

/// Everything that is known about one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The URL asked for; empty where the source knows none.
    pub url: String,
    /// Wall-clock time of the origin, nanoseconds since the Unix epoch.
    pub started_unix_ns: Option<u64>,
    /// Named points in time.
    pub marks: Marks,
    /// DNS lookups, in the order in which they were begun.
    pub lookups: Vec<Lookup>,
    /// Connection attempts, in the order in which they were begun; losing ones included (RFC 8305).
    pub attempts: Vec<Attempt>,
    /// Runs of bytes, in time order.
    pub flights: Vec<Flight>,
    /// What was negotiated and proven.
    pub facts: Facts,
    /// Why it did not come to its end, if it did not.
    pub failure: Option<Failure>,
    /// Where what is known of it ends before it does, which is no failure.
    pub open_end: Option<OpenEnd>,
}

/// The point up to which a connection was seen, where its end was not: a capture may end first, or miss the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenEnd {
    /// The phase it was in.
    pub phase: PhaseName,
    /// When the last that is known of it happened.
    pub at: Option<Offset>,
}

/// How a connection stops that has no end: it failed, or was not seen further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenOff {
    /// In which phase.
    pub phase: PhaseName,
    /// When.
    pub at: Option<Offset>,
    /// In words.
    pub message: String,
}

impl Connection {
    /// How it stops, if it has no end.
    pub fn broken_off(&self) -> Option<BrokenOff> {
        if let Some(failure) = &self.failure {
            let Failure { phase, cause, at } = failure;
            let message = format!("failed in {phase}: {cause}");
            return Some(BrokenOff { phase: *phase, at: *at, message });
        }
        let OpenEnd { phase, at } = self.open_end?;
        Some(BrokenOff { phase, at, message: format!("{phase}: its end was not seen") })
    }

    /// In which phase it stops, and when, if it has no end.
    pub fn stops_in(&self) -> Option<(PhaseName, Option<Offset>)> {
        let failed = self.failure.as_ref().map(|failure| (failure.phase, failure.at));
        failed.or_else(|| self.open_end.map(|end| (end.phase, end.at)))
    }

    /// Bytes of the ClientHello over TCP, if the client sent one.
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

    /// Bytes of an unanswered ClientHello that is larger than a segment: its size may be the reason.
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

/// TCP payload of an IPv4 packet of 1,500 bytes with the timestamp option (RFC 7323 §3.2). The segments of loopback are
/// larger; that a server reads one at a time shows there too.
const ETHERNET_SEGMENT: u64 = 1_448;

/// Type of a DNS question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Both at once: the system resolver does not tell them apart.
    Any,
}

impl RecordType {
    /// The type with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::A, Self::Aaaa, Self::Any].into_iter().find(|kind| kind.name() == name)
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::Aaaa => "AAAA",
            Self::Any => "A+AAAA",
        }
    }
}

/// One DNS question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What was asked for.
    pub record_type: RecordType,
    /// When the question was handed to the resolver.
    pub start: Offset,
    /// When the answer, or the refusal, was there; absent if it was not waited for.
    pub end: Option<Offset>,
    /// The addresses, in the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// What went wrong, if it did.
    pub error: Option<String>,
    /// The tries that it took, in order; empty where only the resolver knows them.
    pub tries: Vec<LookupTry>,
}

impl Lookup {
    /// The name servers that `lookups` asked, and how often each: A and AAAA, asked side by side, count once.
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

/// How a DNS question travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsTransport {
    /// In a datagram.
    Udp,
    /// Over a connection, for answers that a datagram cannot hold.
    Tcp,
}

impl DnsTransport {
    /// The transport with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|transport| transport.name() == name)
    }

    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// One DNS question, put to one name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupTry {
    /// The name server.
    pub server: SocketAddr,
    /// How the question travelled.
    pub transport: DnsTransport,
    /// When the question was sent.
    pub start: Offset,
    /// When the server answered or was given up; absent if the visit ended before.
    pub end: Option<Offset>,
    /// Why this try gave no addresses, if so.
    pub error: Option<String>,
}

impl LookupTry {
    /// The error where the server was silent.
    pub const NO_ANSWER: &'static str = "no answer";

    /// How long the server was waited for in vain.
    pub fn silence(&self) -> Option<Duration> {
        let end = self.end.filter(|_| self.error.as_deref() == Some(Self::NO_ANSWER))?;
        Some(end.since(self.start))
    }
}

/// How a connection attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// This one carried the connection.
    Won,
    /// Another was faster; this one was given up.
    Lost,
    /// It failed.
    Failed {
        /// Why, in the kernel's words.
        error: String,
    },
}

impl AttemptOutcome {
    /// The name used in stored forms.
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
    /// Where to.
    pub remote: SocketAddr,
    /// When its SYN left.
    pub start: Offset,
    /// When it was connected, failed or was given up.
    pub end: Option<Offset>,
    /// How it ended.
    pub outcome: AttemptOutcome,
}
