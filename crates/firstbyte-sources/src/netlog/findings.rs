//! Avoidable costs of a request, each found by a rule that `docs/netlog.md` lists.
//!
//! A finding is made only if events prove it. Its cost is the time that this request waited; absent if the log does not
//! tell. Kinds that `explain` also finds have the same names there.

use std::time::Duration;

use super::request::{
    AddressAttempt, AttemptEnd, JobOutcome, LookupSource, NetLogRequest, NetLogTransport,
    PoolLimit, SocketOrigin,
};

/// A lookup is slow from this duration on, as in `explain`.
const SLOW_LOOKUP: Duration = Duration::from_millis(20);

/// Shorter costs are not reported, as in `explain`.
const LEAST: Duration = Duration::from_millis(1);

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetLogFindingKind {
    /// All connections that the browser allows, to the host or in total, were busy.
    PoolStall,
    /// QUIC was tried and failed.
    QuicFailed,
    /// QUIC is announced but was not tried, because it failed before.
    QuicBroken,
    /// The server asked for another version of QUIC.
    QuicVersion,
    /// An address that fails or does not answer was tried first (RFC 8305 §5).
    Fallback,
    /// The name lookup was slow.
    SlowDns,
    /// The server asked for another key share (RFC 8446 §4.1.4).
    HelloRetryRequest,
    /// TLS 1.2 was negotiated, which takes one round trip more than TLS 1.3.
    Tls12,
    /// A full handshake, although the client had a ticket.
    NoResumption,
    /// Early data was sent, and the server rejected it.
    NoEarlyData,
    /// The request was sent on a connection that failed, and sent again.
    Restarted,
}

impl NetLogFindingKind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::PoolStall,
        Self::QuicFailed,
        Self::QuicBroken,
        Self::QuicVersion,
        Self::Fallback,
        Self::SlowDns,
        Self::HelloRetryRequest,
        Self::Tls12,
        Self::NoResumption,
        Self::NoEarlyData,
        Self::Restarted,
    ];

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PoolStall => "pool-stall",
            Self::QuicFailed => "quic-failed",
            Self::QuicBroken => "quic-broken",
            Self::QuicVersion => "quic-version",
            Self::Fallback => "fallback",
            Self::SlowDns => "slow-dns",
            Self::HelloRetryRequest => "hello-retry-request",
            Self::Tls12 => "tls-1.2",
            Self::NoResumption => "no-resumption",
            Self::NoEarlyData => "no-early-data",
            Self::Restarted => "restarted",
        }
    }

    /// Description in one line.
    pub const fn title(self) -> &'static str {
        match self {
            Self::PoolStall => "requests wait because all connections are busy",
            Self::QuicFailed => "QUIC is tried and fails",
            Self::QuicBroken => "HTTP/3 is announced but not tried, because it failed before",
            Self::QuicVersion => "the server asks for another version of QUIC",
            Self::Fallback => "an address that fails or does not answer is tried first",
            Self::SlowDns => "the name lookup is slow",
            Self::HelloRetryRequest => "the server asks for another key share (HelloRetryRequest)",
            Self::Tls12 => "TLS 1.2 is used; its handshake takes one round trip more than TLS 1.3",
            Self::NoResumption => "sessions are not resumed, although a ticket was given",
            Self::NoEarlyData => "early data is sent, but the server rejects it",
            Self::Restarted => "a request is sent on a connection that fails, then sent again",
        }
    }

    /// How to fix it.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::PoolStall => {
                "use HTTP/2 or HTTP/3 (one connection for all requests), or send fewer requests"
            }
            Self::QuicFailed => {
                "allow UDP to the announced port, or stop announcing HTTP/3 (Alt-Svc, HTTPS record)"
            }
            Self::QuicBroken => {
                "find out why QUIC fails; the browser waits longer after each failure before it \
                 tries again"
            }
            Self::QuicVersion => "enable QUIC version 1 (RFC 9000) on the server",
            Self::Fallback => {
                "repair the network path to this address, or remove the address from DNS"
            }
            Self::SlowDns => {
                "use a nearer or a caching resolver, or a longer TTL for the name's records"
            }
            Self::HelloRetryRequest => {
                "enable a group on the server that clients send a key share for: X25519MLKEM768, \
                 X25519 (nginx: ssl_ecdh_curve)"
            }
            Self::Tls12 => "enable TLS 1.3 on the server (nginx: ssl_protocols TLSv1.2 TLSv1.3)",
            Self::NoResumption => {
                "share one ticket key among all servers of this name (nginx: \
                 ssl_session_ticket_key)"
            }
            Self::NoEarlyData => {
                "accept early data on the server for requests that are safe to repeat (nginx: \
                 ssl_early_data), or issue tickets that do not allow it"
            }
            Self::Restarted => {
                "keep idle connections open on the server for longer than clients do (nginx: \
                 keepalive_timeout)"
            }
        }
    }
}

/// Something that cost a request time.
#[derive(Clone, Debug, PartialEq)]
pub struct NetLogFinding {
    /// The kind.
    pub kind: NetLogFindingKind,
    /// How long the request waited because of it; absent if the log does not tell.
    pub cost: Option<Duration>,
    /// The evidence, in words.
    pub evidence: String,
}

/// Costs that are known only while a request is assembled: spans that its durations do not contain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostOfRaces {
    /// How long the winning job was held back while a failing QUIC job was connecting.
    pub(super) held_for_quic: Option<Duration>,
    /// From first sending the request until its connection was seen to have failed.
    pub(super) sent_in_vain: Option<Duration>,
}

/// Whole milliseconds, the resolution of such a log.
fn ms(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

pub(super) fn findings(request: &NetLogRequest, races: CostOfRaces) -> Vec<NetLogFinding> {
    let mut found = Vec::new();
    let mut add = |kind, cost: Option<Duration>, evidence| {
        // If the connection was started in advance, the request pays only for the part that it waited for.
        let most = request.stream.filter(|_| kind != NetLogFindingKind::Restarted);
        let cost = cost.map(|cost| most.map_or(cost, |most| cost.min(most)));
        // Failing QUIC is reported even if no request waited for it.
        if cost.is_some_and(|cost| cost < LEAST) && kind != NetLogFindingKind::QuicFailed {
            return;
        }
        found.push(NetLogFinding { kind, cost, evidence });
    };
    if let Some(stall) = &request.stall {
        let which = match stall.limit {
            PoolLimit::Host => {
                "all connections that the browser allows to this host were in use or being opened"
            }
            PoolLimit::Pool => {
                "all connections that the browser allows in total were in use or being opened"
            }
        };
        let reused = match request.origin {
            Some(SocketOrigin::Idle { .. }) => {
                "; the request then used another request's connection"
            }
            Some(SocketOrigin::Coalesced | SocketOrigin::Shared) => {
                "; the request then used a connection that other requests also use"
            }
            _ => "",
        };
        add(NetLogFindingKind::PoolStall, stall.took, format!("{which}{reused}"));
    }
    for job in request.jobs.iter().filter(|job| job.quic) {
        let JobOutcome::Failed(error) = &job.outcome else { continue };
        let what = match (job.connect, job.answered) {
            (Some(time), Some(false)) => format!("{error}, no answer within {}", ms(time)),
            (Some(time), _) => format!("{error} after {}", ms(time)),
            (None, _) => error.clone(),
        };
        let (cost, then) = match request.winner() {
            Some(winner) if !winner.quic => (races.held_for_quic, "; the request used TCP instead"),
            Some(_) => (None, "; the request used another QUIC attempt"),
            None => (job.connect, ""),
        };
        // If the name is unknown, or nothing was sent, the failure is not QUIC's.
        if job.connect.is_some() {
            add(NetLogFindingKind::QuicFailed, cost, format!("{what}{then}"));
        }
    }
    if let Some(service) = request.alternative.as_ref().filter(|service| service.broken) {
        let evidence = format!("the browser marked {} as broken", service.service);
        add(NetLogFindingKind::QuicBroken, None, evidence);
    }
    if let Some(lookup) = &request.lookup
        && let Some(took) = lookup.took.filter(|took| *took >= SLOW_LOOKUP)
    {
        let sources: Vec<&str> = lookup.sources.iter().map(|source| of_source(*source)).collect();
        let from = if sources.is_empty() {
            String::new()
        } else {
            format!(" by {}", sources.join(", then "))
        };
        let failed = lookup.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        add(
            NetLogFindingKind::SlowDns,
            Some(took),
            format!("a lookup{from} took {}{failed}", ms(took)),
        );
    }
    if let Some((cost, evidence)) = fallback(request) {
        add(NetLogFindingKind::Fallback, Some(cost), evidence);
    }
    of_handshake(request, &mut add);
    if let Some(error) = request.restarts.first() {
        let n = request.restarts.len();
        let again = if n > 1 { format!(", {n} times") } else { String::new() };
        add(NetLogFindingKind::Restarted, races.sent_in_vain, format!("{error}{again}"));
    }
    found
}

const fn of_source(source: LookupSource) -> &'static str {
    match source {
        LookupSource::Cache => "the browser's cache",
        LookupSource::HostsFile => "the hosts file",
        LookupSource::System => "the system's resolver",
        LookupSource::Dns => "the name server",
        LookupSource::Doh => "DNS over HTTPS",
    }
}

/// Whether the request waited for its connection's set-up.
fn paid_for_set_up(request: &NetLogRequest) -> bool {
    request.origin == Some(SocketOrigin::New)
}

/// From the start of the first attempt to the start of the successful one.
fn fallback(request: &NetLogRequest) -> Option<(Duration, String)> {
    let first = request.attempts.first()?;
    let won = request.attempts.iter().find(|attempt| attempt.end == AttemptEnd::Connected)?;
    let before = won.began.checked_sub(first.began)?;
    let how = |attempt: &AddressAttempt| match &attempt.end {
        AttemptEnd::Failed(error) => format!("failed ({error})"),
        _ => "did not answer".to_owned(),
    };
    if first.end == AttemptEnd::Connected || first.address == won.address {
        return None;
    }
    let evidence =
        format!("{} {}; {} was tried {} later", first.address, how(first), won.address, ms(before));
    Some((before, evidence))
}

fn of_handshake(
    request: &NetLogRequest,
    add: &mut impl FnMut(NetLogFindingKind, Option<Duration>, String),
) {
    let Some(connection) = request.connection.as_ref().filter(|_| paid_for_set_up(request)) else {
        return;
    };
    if connection.version_negotiation {
        let evidence = "a Version Negotiation packet (RFC 9000 §17.2.1)".to_owned();
        add(NetLogFindingKind::QuicVersion, None, evidence);
    }
    if let Some(cost) = connection.hello_retry {
        let wanted = connection.group.as_ref();
        let wanted =
            wanted.map(|group| format!(", with a key share for {group}")).unwrap_or_default();
        let evidence = format!("a second ClientHello{wanted}");
        add(NetLogFindingKind::HelloRetryRequest, Some(cost), evidence);
    }
    let full = connection.resumed == Some(false);
    let is_12 = connection.tls_version.as_deref() == Some("TLS 1.2");
    // Duration of the TCP handshake by the log's clock: a round trip, unless a proxy is involved.
    let connected = request.attempts.iter().find(|it| it.end == AttemptEnd::Connected);
    let round_trip = connected.filter(|_| request.proxy.is_none()).and_then(|it| it.took);
    if is_12 && full {
        let seen = round_trip.map(|time| format!("; the TCP handshake took {}", ms(time)));
        let evidence = format!("a full TLS 1.2 handshake{}", seen.unwrap_or_default());
        add(NetLogFindingKind::Tls12, round_trip, evidence);
    }
    if full && connection.ticket_held {
        let cost = round_trip.filter(|_| is_12);
        let evidence = "a full handshake, although an unused ticket of this host was available";
        add(NetLogFindingKind::NoResumption, cost, evidence.to_owned());
    }
    if connection.early_data == Some(false) {
        let over = match connection.transport {
            NetLogTransport::Tcp => "TLS",
            NetLogTransport::Quic => "QUIC",
        };
        let evidence = format!("{over} reported that the server rejected it");
        add(NetLogFindingKind::NoEarlyData, None, evidence);
    }
}
