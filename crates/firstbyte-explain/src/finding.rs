//! A finding: what costs time, how that is known, and what would change it.

use std::time::Duration;

use super::WayKind;
use firstbyte_core::stats::Estimate;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// TLS 1.2 is spoken, which takes a round trip more than TLS 1.3 (RFC 8446 §1.2).
    Tls12,
    /// Sessions are not taken up again.
    NoResumption,
    /// Sessions are resumed, but early data is not taken.
    NoEarlyData,
    /// The server closes each connection after its response.
    NoReuse,
    /// Redirects lead to the resource.
    Redirects,
    /// Another address of the same name is nearer.
    FarAddress,
    /// The server's handshake flight outgrows its congestion window, over TCP.
    LargeChain,
    /// The same over QUIC: three times what the client had sent (RFC 9000 §8.1).
    AmplificationLimit,
    /// The server asks for another key share (RFC 8446 §4.1.4).
    HelloRetryRequest,
    /// The server takes long over its handshake messages.
    SlowHandshake,
    /// The server asks for a client certificate, and the client takes long over it.
    ClientCertificate,
    /// The server waits for a delayed acknowledgement (RFC 9293 §3.7.4, RFC 1122 §4.2.3.2).
    Nagle,
    /// The server stands still in the middle of its answer.
    Pause,
    /// SYNs are lost (RFC 6298 §2.1: retransmitted after a second).
    SynLoss,
    /// Segments of the handshake are lost.
    HandshakeLoss,
    /// The name service is slow.
    SlowDns,
    /// A name server that does not answer is asked before one that does (resolv.conf(5)).
    DeadNameServer,
    /// The IPv6 addresses come later than the IPv4 ones, and are waited for (RFC 8305 §3).
    LateAaaa,
    /// An address that fails or does not answer is tried first (RFC 8305 §5).
    Fallback,
    /// The proxy takes long to open the tunnel.
    SlowTunnel,
    /// QUIC connections begin with a Retry (RFC 9000 §8.1.2).
    QuicRetry,
    /// The server takes long over its response.
    SlowServer,
    /// The server begins with fewer segments than the usual ten (RFC 6928).
    SmallWindow,
    /// The response fills the congestion window (RFC 5681 §3.1).
    SlowStart,
    /// The response keeps a slow link busy, and no window was full.
    LargeResponse,
    /// The link takes long for what is sent.
    SlowLink,
    /// The client takes long.
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

/// Times that would be shorter by so much, everything else left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSaved {
    /// The total.
    pub total: Duration,
    /// The time to the first byte of the response, where that is known.
    pub first_byte: Option<Duration>,
}

impl TimeSaved {
    /// Of something that ends before the first byte comes.
    pub const fn before_first_byte(time: Duration) -> Self {
        Self { total: time, first_byte: Some(time) }
    }
}

/// What a change saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Saving {
    /// By prediction.
    pub predicted: Option<TimeSaved>,
    /// As measured here, round by round; nanoseconds, the interval too.
    pub measured: Option<Estimate>,
}

impl Saving {
    /// A prediction, and no measurement.
    pub const fn predicted(saved: TimeSaved) -> Self {
        Self { predicted: Some(saved), measured: None }
    }

    /// The same of something that ends before the first byte comes.
    pub const fn before_first_byte(time: Duration) -> Self {
        Self::predicted(TimeSaved::before_first_byte(time))
    }
}

/// Something that costs time, with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// In one line.
    pub title: String,
    /// What it costs a connection that it concerns: without it alone, the total would be so much shorter.
    pub cost: Duration,
    /// How that is known: what was seen, with counts.
    pub evidence: String,
    /// What to change.
    pub advice: String,
    /// A way that connections can go meanwhile, and do not pay this.
    pub avoided_by: Option<WayKind>,
    /// Whom it concerns, where not every connection: "repeated visits".
    pub concerns: Option<&'static str>,
    /// What that would save.
    pub saving: Saving,
}

impl Finding {
    /// One whose cost is what removing it saves, without words yet.
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

    /// The same of a time that ends before the first byte comes.
    pub(super) fn before_first_byte(kind: FindingKind, time: Duration) -> Self {
        Self::saving(kind, TimeSaved::before_first_byte(time))
    }
}

/// Everything that was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// The most costly first.
    pub all: Vec<Finding>,
    /// What a visit saves without any of those that concern every visit; absent where there is only one.
    pub together: Option<TimeSaved>,
}
