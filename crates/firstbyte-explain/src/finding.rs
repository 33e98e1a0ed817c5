//! A finding: what costs time, the evidence for it, and what would change it.

use std::time::Duration;

use super::WayKind;
use firstbyte_core::stats::Estimate;

/// Kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// TLS 1.2 is used, which takes one round trip more than TLS 1.3 (RFC 8446 §1.2).
    Tls12,
    /// Sessions are not resumed.
    NoResumption,
    /// Sessions are resumed, but early data is not accepted.
    NoEarlyData,
    /// The server closes each connection after its response.
    NoReuse,
    /// Redirects lead to the resource.
    Redirects,
    /// Another address of the same name has a shorter round trip.
    FarAddress,
    /// Over TCP, the server's handshake flight exceeds its congestion window.
    LargeChain,
    /// Over QUIC, the flight exceeds three times the bytes the client had sent (RFC 9000 §8.1).
    AmplificationLimit,
    /// The server requests another key share (RFC 8446 §4.1.4).
    HelloRetryRequest,
    /// The server is slow to send its handshake messages.
    SlowHandshake,
    /// The server requests a client certificate, and the client is slow to provide it.
    ClientCertificate,
    /// The server waits for a delayed acknowledgement (RFC 9293 §3.7.4, RFC 1122 §4.2.3.2).
    Nagle,
    /// The server pauses in the middle of its answer.
    Pause,
    /// SYNs are lost (RFC 6298 §2.1: retransmitted after a second).
    SynLoss,
    /// Segments of the handshake are lost.
    HandshakeLoss,
    /// The name service is slow.
    SlowDns,
    /// A name server that does not answer is queried before one that does (resolv.conf(5)).
    DeadNameServer,
    /// The IPv6 addresses arrive later than the IPv4 ones, and the client waits for them (RFC 8305 §3).
    LateAaaa,
    /// An address that fails or does not answer is tried first (RFC 8305 §5).
    Fallback,
    /// The proxy is slow to open the tunnel.
    SlowTunnel,
    /// QUIC connections begin with a Retry (RFC 9000 §8.1.2).
    QuicRetry,
    /// The server is slow to respond.
    SlowServer,
    /// The server's initial window is smaller than the usual ten segments (RFC 6928).
    SmallWindow,
    /// The response exceeds the congestion window (RFC 5681 §3.1).
    SlowStart,
    /// The response keeps a slow link busy without ever filling the window.
    LargeResponse,
    /// The link is slow for the amount of data sent.
    SlowLink,
    /// The client is slow.
    SlowClient,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 27] = [
        Self::Tls12,
        Self::NoResumption,
        Self::NoEarlyData,
        Self::NoReuse,
        Self::Redirects,
        Self::FarAddress,
        Self::LargeChain,
        Self::AmplificationLimit,
        Self::HelloRetryRequest,
        Self::SlowHandshake,
        Self::ClientCertificate,
        Self::Nagle,
        Self::Pause,
        Self::SynLoss,
        Self::HandshakeLoss,
        Self::SlowDns,
        Self::DeadNameServer,
        Self::LateAaaa,
        Self::Fallback,
        Self::SlowTunnel,
        Self::QuicRetry,
        Self::SlowServer,
        Self::SmallWindow,
        Self::SlowStart,
        Self::LargeResponse,
        Self::SlowLink,
        Self::SlowClient,
    ];

    /// The name used in stored forms and tests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "tls-1.2",
            Self::NoResumption => "no-resumption",
            Self::NoEarlyData => "no-early-data",
            Self::NoReuse => "no-reuse",
            Self::Redirects => "redirects",
            Self::FarAddress => "far-address",
            Self::LargeChain => "large-chain",
            Self::AmplificationLimit => "amplification-limit",
            Self::HelloRetryRequest => "hello-retry-request",
            Self::SlowHandshake => "slow-handshake",
            Self::ClientCertificate => "client-certificate",
            Self::Nagle => "nagle",
            Self::Pause => "pause",
            Self::SynLoss => "syn-loss",
            Self::HandshakeLoss => "handshake-loss",
            Self::SlowDns => "slow-dns",
            Self::DeadNameServer => "dead-name-server",
            Self::LateAaaa => "late-aaaa",
            Self::Fallback => "fallback",
            Self::SlowTunnel => "slow-tunnel",
            Self::QuicRetry => "quic-retry",
            Self::SlowServer => "slow-server",
            Self::SmallWindow => "small-window",
            Self::SlowStart => "slow-start",
            Self::LargeResponse => "large-response",
            Self::SlowLink => "slow-link",
            Self::SlowClient => "slow-client",
        }
    }
}

/// How much shorter times would be, everything else unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSaved {
    /// The total.
    pub total: Duration,
    /// The time to the first byte of the response, if known.
    pub first_byte: Option<Duration>,
}

impl TimeSaved {
    /// For something that ends before the first byte arrives: both times shrink by `time`.
    pub const fn before_first_byte(time: Duration) -> Self {
        Self { total: time, first_byte: Some(time) }
    }
}

/// The time that a change saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saving {
    /// By prediction.
    pub predicted: Option<TimeSaved>,
    /// As measured here, paired by round; nanoseconds, including the interval.
    pub measured: Option<Estimate>,
}

impl Saving {
    /// A prediction without a measurement.
    pub const fn predicted(saved: TimeSaved) -> Self {
        Self { predicted: Some(saved), measured: None }
    }

    /// A prediction for something that ends before the first byte arrives.
    pub const fn before_first_byte(time: Duration) -> Self {
        Self::predicted(TimeSaved::before_first_byte(time))
    }
}

/// Something that costs time, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Kind of finding.
    pub kind: FindingKind,
    /// One-line title.
    pub title: String,
    /// Its cost for an affected connection: how much shorter the total would be without it alone.
    pub cost: Duration,
    /// How it is known: observations with counts.
    pub evidence: String,
    /// What to change.
    pub advice: String,
    /// A way to connect that avoids this cost in the meantime.
    pub avoided_by: Option<WayKind>,
    /// Which connections it concerns, if not all: "repeated visits".
    pub concerns: Option<&'static str>,
    /// The time saved by that way.
    pub saving: Saving,
}

impl Finding {
    /// A finding whose cost equals the time saved by removing it; texts are filled in later.
    pub(super) fn saving(kind: FindingKind, saved: TimeSaved) -> Self {
        Self {
            kind,
            title: String::new(),
            cost: saved.total,
            evidence: String::new(),
            advice: String::new(),
            avoided_by: None,
            concerns: None,
            saving: Saving::predicted(saved),
        }
    }

    /// The same for a time that ends before the first byte arrives.
    pub(super) fn before_first_byte(kind: FindingKind, time: Duration) -> Self {
        Self::saving(kind, TimeSaved::before_first_byte(time))
    }
}

/// All findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The most costly first.
    pub all: Vec<Finding>,
    /// Time that a visit saves without any finding that concerns every visit; absent if there is only one such
    /// finding.
    pub together: Option<TimeSaved>,
}
