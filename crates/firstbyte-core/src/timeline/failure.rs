//! Connection failures: the phase, the type and whose fault it is. A failed connection is data. Callers that know the
//! available options give the advice: nothing here names a flag.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Connection, FailureType, Offset};

/// A phase of a connection. Phases are derived from marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseName {
    /// Name resolution.
    Resolve,
    /// TCP handshake.
    Connect,
    /// TLS handshake with the proxy.
    ProxyTls,
    /// Opening the tunnel through the proxy.
    Tunnel,
    /// TLS handshake.
    Tls,
    /// QUIC handshake: transport and TLS in one.
    Quic,
    /// Sending the request, from the end of the handshake to the request's last byte.
    Send,
    /// From the last byte of the request to the first byte of the response.
    Wait,
    /// From the first byte of the response to the last.
    Receive,
}

impl PhaseName {
    /// Finds a phase by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Every phase, in order.
    pub const ALL: [Self; 9] = [
        Self::Resolve,
        Self::Connect,
        Self::ProxyTls,
        Self::Tunnel,
        Self::Tls,
        Self::Quic,
        Self::Send,
        Self::Wait,
        Self::Receive,
    ];

    /// Name used in every machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::ProxyTls => "proxy_tls",
            Self::Tunnel => "tunnel",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Send => "send",
            Self::Wait => "wait",
            Self::Receive => "receive",
        }
    }

    /// Name used in text for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ProxyTls => "proxy tls",
            _ => self.name(),
        }
    }
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// Who has to act to fix a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// This machine.
    Local,
    /// The path between client and server, or the name service.
    Network,
    /// The server.
    Peer,
    /// The options that the user chose.
    Configuration,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 4] = [Self::Local, Self::Network, Self::Peer, Self::Configuration];

    /// Finds a fault by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Name used in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Network => "network",
            Self::Peer => "peer",
            Self::Configuration => "configuration",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a connection did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Phase in which the connection failed.
    pub phase: PhaseName,
    /// What happened.
    pub cause: Cause,
    /// When the client noticed the failure.
    pub at: Option<Offset>,
}

impl Failure {
    /// Type of this failure, in the vocabulary shared by all sources.
    pub const fn failure_type(&self) -> FailureType {
        FailureType::from_cause(&self.cause, self.phase)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.phase, self.cause)
    }
}

impl std::error::Error for Failure {}

/// State of the peer when the time ran out, as the client saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastSeen {
    /// Nothing shows that the peer received anything.
    #[default]
    Nothing,
    /// The peer acknowledged everything but did not answer.
    Acknowledged,
    /// The peer began to answer, then went silent.
    Stopped,
    /// The answer was still arriving.
    Sending,
    /// The time ran out too soon after the last byte sent or received to tell.
    TooSoon,
    /// Part of the answer arrived, but the segments before it never did.
    Hole,
    /// The peer never acknowledged a ClientHello that spans several segments.
    HelloStuck {
        /// Size of the ClientHello, bytes.
        hello_bytes: u64,
        /// ClientHello bytes that fit into one segment.
        segment_bytes: u32,
        /// Retransmitted segments.
        retransmits: u32,
        /// Whether the peer received a later segment of the ClientHello.
        end_arrived: bool,
    },
    /// The peer did not read the data: its receive window was full.
    WindowFull,
}

/// Silence shorter than this means nothing.
const SHORT: Duration = Duration::from_millis(100);

/// Which time limit ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Limit for setting up the connection: name resolution and handshakes.
    Connection,
    /// Limit for the whole visit.
    Visit,
}

/// Why a client offered the groups it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OfferedGroups {
    /// The client always offers them.
    #[default]
    Usual,
    /// The user chose them.
    Chosen,
    /// Unknown: another program made the connection and does not say.
    Unknown,
}

/// A redirect loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectCircle {
    /// Number of URLs in the loop.
    pub urls: usize,
    /// One of the URLs sets a cookie, which may end the loop.
    pub sets_cookie: bool,
}

impl RedirectCircle {
    /// Finds the loop in `connections`, each redirected to the one after it; the last one redirects to `next`.
    pub fn find<'a>(
        connections: impl DoubleEndedIterator<Item = &'a Connection>,
        next: &str,
    ) -> Option<Self> {
        let (mut urls, mut sets_cookie) = (0, false);
        for connection in connections.rev() {
            urls += 1;
            let http = connection.facts.http.as_ref();
            sets_cookie |= http.is_some_and(|http| http.header("set-cookie").is_some());
            if connection.url == next {
                return Some(Self { urls, sets_cookie });
            }
        }
        None
    }
}

/// What happened, with the values a person needs to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what the variants' docs say, by name")]
pub enum Cause {
    /// DNS says that the name does not exist (NXDOMAIN).
    NameNotFound { name: String },
    /// The name exists but has no address of an allowed family.
    NoAddresses { name: String, family: &'static str },
    /// The resolver could not answer.
    ResolverFailed { name: String, detail: String },
    /// The resolver did not answer in time; `asked` lists name servers and how often each was queried.
    ResolverTimedOut { name: String, after: Duration, asked: Vec<(SocketAddr, u32)> },
    /// The peer answered the SYN with a reset.
    Refused { remote: SocketAddr },
    /// No route to the host, or a router reported it unreachable.
    Unreachable { remote: SocketAddr, detail: String },
    /// No address answered in time.
    ConnectTimedOut { remote: SocketAddr, after: Duration },
    /// No datagram came back from the QUIC peer in time.
    QuicConnectTimedOut { remote: SocketAddr, after: Duration },
    /// The socket could not be created or bound as requested.
    SocketSetup { detail: String },
    /// The proxy opened no tunnel: it answered CONNECT with `status`, or refused in SOCKS.
    ProxyRefused { authority: String, detail: String, status: Option<u16> },
    /// The proxy's answer violates its protocol or is truncated.
    ProxyMisbehaved { authority: String, detail: String },
    /// The certificate has expired; with `authority`, an issuer's certificate that the server sent has.
    CertificateExpired { not_after: Option<String>, authority: Option<String> },
    /// The certificate is not valid yet.
    CertificateNotYetValid { not_before: Option<String> },
    /// The certificate is for other names. With `as_dns_name` it lists the address, but as a DNS name, which does not
    /// count (RFC 6125 §1.7.2).
    CertificateWrongName { host: String, names: Vec<String>, as_dns_name: bool },
    /// No trust anchor issued the certificate; with `alone` the server sent its own certificate and no issuer's.
    CertificateUnknownIssuer { issuer: Option<String>, alone: bool },
    /// The certificate is self-signed and is not a trust anchor.
    CertificateSelfSigned { subject: String },
    /// The certificate is invalid for another reason.
    CertificateInvalid { detail: String },
    /// The server supports none of the allowed TLS versions.
    ProtocolVersionRefused { offered: String },
    /// Client and server have no cipher suite or group in common.
    NoCommonParameters { detail: String, groups: OfferedGroups },
    /// The server requested renegotiation (RFC 5246 §7.4.1.1), which the client does not support.
    RenegotiationRefused,
    /// The server chose none of the offered application protocols.
    AlpnMismatch { offered: String },
    /// The server requires a client certificate.
    ClientCertificateRequired,
    /// The server rejected the client certificate.
    ClientCertificateRefused { alert: String },
    /// The server ended the handshake with an alert.
    TlsAlert { alert: String },
    /// The server broke the TLS protocol.
    TlsMisbehaved { detail: String },
    /// The peer did not answer with TLS. `server` is host and port, if the client knows them.
    NotTls { looks_like: Option<&'static str>, server: Option<String> },
    /// The TLS stack could not be set up as requested.
    TlsSetup { detail: String },
    /// The server closed the connection during the handshake.
    ClosedInHandshake,
    /// The server reset the connection during the handshake.
    ResetInHandshake,
    /// The server closed the connection before it sent a response.
    ClosedBeforeResponse,
    /// The connection was reset.
    Reset,
    /// The response ended within its status line or header fields.
    HeadCutShort,
    /// The response's head exceeds the client's limit.
    HeadTooLarge { limit_bytes: u64 },
    /// The response ended before its announced length.
    BodyCutShort { received: u64 },
    /// The body's transfer coding (RFC 9112 §7) is broken.
    BadTransferCoding { detail: String },
    /// The response is not HTTP; with `tls` it is TLS.
    NotHttp { detail: String, tls: bool },
    /// The server closed (or `reset`) the connection without sending anything, because it expects TLS.
    SpeaksTls { reset: bool },
    /// The server violated HTTP/2, or ended the connection with an error.
    Http2 { detail: String },
    /// The server accepts no more requests on the connection (GOAWAY without an error, RFC 9113 §6.8), and has not
    /// processed all of them.
    ShutDown { answered: usize, asked: usize },
    /// The QUIC handshake or connection failed at the QUIC layer (RFC 9000 §20).
    Quic {
        /// What happened.
        detail: String,
        /// The QUIC-specific type.
        failure_type: FailureType,
    },
    /// The server violated HTTP/3, or ended the stream (RFC 9114 §8).
    Http3 {
        /// What happened.
        detail: String,
    },
    /// The server ended the HTTP/2 stream with an error.
    Http2Stream { detail: String },
    /// The body could not be decoded.
    BadContentEncoding { encoding: String, detail: String },
    /// The response's status counts as an error, as the user requested.
    HttpStatus { status: u16 },
    /// The time allowed by `limit` ran out.
    TimedOut { after: Duration, limit: TimeLimit, peer: LastSeen },
    /// The user interrupted the run.
    Interrupted,
    /// A send or receive call failed in the kernel.
    Io { operation: &'static str, detail: String },
    /// The body could not be written to the requested output.
    WriteOutput { path: String, detail: String },
    /// More redirects than allowed.
    TooManyRedirects { limit: u32, circle: Option<RedirectCircle> },
    /// The redirect target is not an http or https URL.
    BadRedirect { location: String },
    /// A failure seen in a capture, which cannot show who has to act.
    Captured { name: &'static str, failure_type: FailureType, message: String },
    /// Any failure read back from a recording, possibly of a later version: `advice` is the advice given at the time.
    Recorded {
        name: String,
        failure_type: FailureType,
        fault: Fault,
        message: String,
        advice: Option<String>,
    },
}

impl Cause {
    /// Who has to act to fix this.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Recorded { fault, .. } => *fault,
            Self::TimedOut {
                peer: LastSeen::Acknowledged | LastSeen::Stopped | LastSeen::WindowFull,
                ..
            } => Fault::Peer,
            // Nothing is wrong except that it takes longer than the limit allows.
            Self::TimedOut { peer: LastSeen::Sending | LastSeen::TooSoon, .. } => {
                Fault::Configuration
            }
            Self::ResolverTimedOut { after, .. }
            | Self::ConnectTimedOut { after, .. }
            | Self::QuicConnectTimedOut { after, .. }
                if *after < SHORT =>
            {
                Fault::Configuration
            }
            Self::Captured { .. }
            | Self::ResolverTimedOut { .. }
            | Self::ResolverFailed { .. }
            | Self::Unreachable { .. }
            | Self::ConnectTimedOut { .. }
            | Self::QuicConnectTimedOut { .. }
            | Self::TimedOut { .. } => Fault::Network,
            Self::Interrupted
            | Self::SocketSetup { .. }
            | Self::HeadTooLarge { .. }
            | Self::WriteOutput { .. }
            | Self::Io { .. } => Fault::Local,
            // The client excluded nothing, so the server is the unusual side.
            Self::ProtocolVersionRefused { .. } | Self::AlpnMismatch { .. }
                if !self.was_narrowed() =>
            {
                Fault::Peer
            }
            Self::NameNotFound { .. }
            | Self::NoAddresses { .. }
            | Self::ProxyRefused { status: Some(407), .. }
            | Self::TlsSetup { .. }
            | Self::ProtocolVersionRefused { .. }
            | Self::AlpnMismatch { .. }
            | Self::ClientCertificateRequired
            | Self::ClientCertificateRefused { .. }
            | Self::SpeaksTls { .. }
            | Self::ShutDown { .. }
            | Self::TooManyRedirects { .. } => Fault::Configuration,
            Self::Refused { .. }
            | Self::ProxyRefused { .. }
            | Self::ProxyMisbehaved { .. }
            | Self::CertificateExpired { .. }
            | Self::CertificateNotYetValid { .. }
            | Self::CertificateWrongName { .. }
            | Self::CertificateUnknownIssuer { .. }
            | Self::CertificateSelfSigned { .. }
            | Self::CertificateInvalid { .. }
            | Self::NoCommonParameters { .. }
            | Self::RenegotiationRefused
            | Self::TlsAlert { .. }
            | Self::TlsMisbehaved { .. }
            | Self::NotTls { .. }
            | Self::ClosedInHandshake
            | Self::ResetInHandshake
            | Self::ClosedBeforeResponse
            | Self::Reset
            | Self::HeadCutShort
            | Self::BodyCutShort { .. }
            | Self::BadTransferCoding { .. }
            | Self::NotHttp { .. }
            | Self::Http2 { .. }
            | Self::Http2Stream { .. }
            | Self::Quic { .. }
            | Self::Http3 { .. }
            | Self::BadContentEncoding { .. }
            | Self::HttpStatus { .. }
            | Self::BadRedirect { .. } => Fault::Peer,
        }
    }

    /// Whether the client's own restriction of TLS versions or application protocols kept the server from choosing.
    pub fn was_narrowed(&self) -> bool {
        match self {
            Self::ProtocolVersionRefused { offered } => narrowed_versions(offered),
            Self::AlpnMismatch { offered } => narrowed_protocols(offered),
            _ => false,
        }
    }

    /// Whether this ended a wait for the peer, during which the client had nothing to do.
    pub fn ends_a_wait(&self) -> bool {
        // Matches by name, so that it covers recorded failures too.
        let waits = [
            "resolver-timed-out",
            "connect-timed-out",
            "timed-out",
            "interrupted",
            "closed-in-handshake",
            "reset-in-handshake",
            "closed-before-response",
            "renegotiation-refused",
            "reset",
            "head-cut-short",
            "body-cut-short",
        ];
        matches!(self, Self::Captured { .. }) || waits.contains(&self.name())
    }

    /// Stable name for stored forms and scripts.
    pub fn name(&self) -> &str {
        match self {
            Self::Recorded { name, .. } => name,
            Self::Captured { name, .. } => name,
            Self::NameNotFound { .. } => "name-not-found",
            Self::NoAddresses { .. } => "no-addresses",
            Self::ResolverFailed { .. } => "resolver-failed",
            Self::ResolverTimedOut { .. } => "resolver-timed-out",
            Self::Refused { .. } => "refused",
            Self::Unreachable { .. } => "unreachable",
            Self::ConnectTimedOut { .. } | Self::QuicConnectTimedOut { .. } => "connect-timed-out",
            Self::SocketSetup { .. } => "socket-setup",
            Self::ProxyRefused { .. } => "proxy-refused",
            Self::ProxyMisbehaved { .. } => "proxy-misbehaved",
            Self::CertificateExpired { .. } => "certificate-expired",
            Self::CertificateNotYetValid { .. } => "certificate-not-yet-valid",
            Self::CertificateWrongName { .. } => "certificate-wrong-name",
            Self::CertificateUnknownIssuer { .. } => "certificate-unknown-issuer",
            Self::CertificateSelfSigned { .. } => "certificate-self-signed",
            Self::CertificateInvalid { .. } => "certificate-invalid",
            Self::ProtocolVersionRefused { .. } => "protocol-version-refused",
            Self::NoCommonParameters { .. } => "no-common-parameters",
            Self::RenegotiationRefused => "renegotiation-refused",
            Self::AlpnMismatch { .. } => "alpn-mismatch",
            Self::ClientCertificateRequired => "client-certificate-required",
            Self::ClientCertificateRefused { .. } => "client-certificate-refused",
            Self::TlsAlert { .. } => "tls-alert",
            Self::TlsMisbehaved { .. } => "tls-misbehaved",
            Self::NotTls { .. } => "not-tls",
            Self::TlsSetup { .. } => "tls-setup",
            Self::ClosedInHandshake => "closed-in-handshake",
            Self::ResetInHandshake => "reset-in-handshake",
            Self::ClosedBeforeResponse => "closed-before-response",
            Self::Reset => "reset",
            Self::HeadCutShort => "head-cut-short",
            Self::HeadTooLarge { .. } => "head-too-large",
            Self::BodyCutShort { .. } => "body-cut-short",
            Self::BadTransferCoding { .. } => "bad-transfer-coding",
            Self::NotHttp { .. } | Self::SpeaksTls { .. } => "not-http",
            Self::Http2 { .. } | Self::ShutDown { .. } => "http2",
            Self::Http2Stream { .. } => "http2-stream",
            Self::Quic { .. } => "quic",
            Self::Http3 { .. } => "http3",
            Self::BadContentEncoding { .. } => "bad-content-encoding",
            Self::HttpStatus { .. } => "http-status",
            Self::TimedOut { .. } => "timed-out",
            Self::Interrupted => "interrupted",
            Self::Io { .. } => "io",
            Self::WriteOutput { .. } => "write-output",
            Self::TooManyRedirects { .. } => "too-many-redirects",
            Self::BadRedirect { .. } => "bad-redirect",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded { message, .. } | Self::Captured { message, .. } => f.write_str(message),
            Self::NameNotFound { name } => write!(f, "no such name: {name} (NXDOMAIN)"),
            Self::NoAddresses { name, family: "any" } => write!(f, "{name} has no address"),
            Self::NoAddresses { name, family } => write!(f, "{name} has no {family} address"),
            Self::ResolverFailed { name, detail } => {
                write!(f, "could not resolve {name}: {detail}")
            }
            Self::ResolverTimedOut { name, after, asked } => {
                write!(f, "no answer for {name} within {}", seconds(*after))?;
                for (place, (server, times)) in asked.iter().enumerate() {
                    let (before, was) = if place == 0 { (": ", " was asked") } else { (", ", "") };
                    match times {
                        1 => write!(f, "{before}{server}{was} once")?,
                        2 => write!(f, "{before}{server}{was} twice")?,
                        times => write!(f, "{before}{server}{was} {times} times")?,
                    }
                }
                Ok(())
            }
            Self::Refused { remote } => write!(f, "connection refused by {remote}"),
            Self::Unreachable { remote, detail } => write!(f, "cannot reach {remote}: {detail}"),
            Self::ConnectTimedOut { remote, after }
            | Self::QuicConnectTimedOut { remote, after } => {
                write!(f, "no answer from {remote} within {}", seconds(*after))
            }
            Self::SocketSetup { detail } => write!(f, "could not set up the socket: {detail}"),
            Self::ProxyRefused { authority, detail, .. } => {
                write!(f, "the proxy {authority} refused the tunnel: {detail}")
            }
            Self::ProxyMisbehaved { authority, detail } => {
                write!(f, "the proxy {authority} violated its protocol: {detail}")
            }
            Self::CertificateExpired { not_after, authority } => {
                match authority {
                    Some(authority) => write!(
                        f,
                        "an intermediate certificate that the server sends has expired ({authority}"
                    )?,
                    None => f.write_str("certificate expired")?,
                }
                match (not_after, authority) {
                    (Some(date), Some(_)) => write!(f, ", on {date}); its own is still valid"),
                    (None, Some(_)) => f.write_str("); its own is still valid"),
                    (Some(date), None) => write!(f, " on {date}"),
                    (None, None) => Ok(()),
                }
            }
            Self::CertificateNotYetValid { not_before: Some(date) } => {
                write!(f, "certificate not valid before {date}")
            }
            Self::CertificateNotYetValid { not_before: None } => {
                f.write_str("certificate not valid yet")
            }
            Self::CertificateWrongName { host, as_dns_name: true, .. } => write!(
                f,
                "certificate does not cover the address {host}: it has it as a DNS name, not as an IP address"
            ),
            Self::CertificateWrongName { host, names, .. } if names.is_empty() => {
                write!(f, "certificate does not cover {host}: it names no host")
            }
            Self::CertificateWrongName { host, names, .. } => {
                let shown = &names[..names.len().min(NAMES_SHOWN)];
                write!(f, "certificate does not cover {host}: it is for {}", shown.join(", "))?;
                match names.len() - shown.len() {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::CertificateUnknownIssuer { issuer, alone } => {
                f.write_str("certificate issued by an unknown authority")?;
                if let Some(issuer) = issuer {
                    write!(f, ": {issuer}")?;
                }
                match alone {
                    true => f.write_str(
                        "; the server sends its own certificate alone: the chain is incomplete, or \
                         that authority is a private one",
                    ),
                    false => Ok(()),
                }
            }
            Self::CertificateSelfSigned { subject } => {
                write!(f, "self-signed certificate: {subject}")
            }
            Self::CertificateInvalid { detail } => write!(f, "certificate not valid: {detail}"),
            Self::ProtocolVersionRefused { offered } => {
                write!(f, "server refused the TLS version ({offered} offered)")
            }
            Self::NoCommonParameters { detail, .. } => {
                write!(f, "no TLS parameters in common: {detail}")
            }
            Self::RenegotiationRefused => f.write_str(
                "server wants to renegotiate the TLS 1.2 session, which this client does not do",
            ),
            Self::AlpnMismatch { offered } => {
                write!(f, "server supports none of the protocols offered by ALPN ({offered})")
            }
            Self::ClientCertificateRequired => f.write_str("server requires a client certificate"),
            Self::ClientCertificateRefused { alert } => {
                write!(f, "server refused the client certificate (alert {alert})")
            }
            Self::TlsAlert { alert } => write!(f, "server sent the TLS alert {alert}"),
            Self::TlsMisbehaved { detail } => {
                write!(f, "server violated the TLS protocol: {detail}")
            }
            Self::NotTls { looks_like: Some("HTTP"), server: Some(server) } => {
                write!(f, "the server at {server} speaks plain HTTP, not TLS")
            }
            Self::NotTls { looks_like: Some(protocol), .. } => {
                write!(f, "the answer is not TLS but looks like {protocol}")
            }
            Self::NotTls { looks_like: None, .. } => f.write_str("the answer is not TLS"),
            Self::TlsSetup { detail } => write!(f, "could not set up TLS: {detail}"),
            Self::ClosedInHandshake => {
                f.write_str("server closed the connection during the handshake")
            }
            Self::ResetInHandshake => f.write_str("connection reset during the handshake"),
            Self::ClosedBeforeResponse => {
                f.write_str("server closed the connection without a response")
            }
            Self::Reset => f.write_str("connection reset"),
            Self::HeadCutShort => {
                f.write_str("server closed the connection before the end of the response head")
            }
            Self::HeadTooLarge { limit_bytes } => {
                write!(f, "the response head is larger than the limit of {limit_bytes} bytes")
            }
            Self::BodyCutShort { received } => {
                write!(
                    f,
                    "server closed the connection after {received} bytes of the body, before its end"
                )
            }
            Self::BadTransferCoding { detail } => {
                write!(f, "the transfer coding of the body is invalid: {detail}")
            }
            Self::NotHttp { detail, .. } => write!(f, "the answer is not HTTP: {detail}"),
            Self::SpeaksTls { reset } => {
                let ended = if *reset { "reset" } else { "closed" };
                write!(f, "server {ended} the connection without a response: the port speaks TLS")
            }
            Self::ShutDown { answered, asked } => write!(
                f,
                "server shut the connection down after {answered} of {asked} requests (GOAWAY NO_ERROR)"
            ),
            Self::Quic { detail, .. } => write!(f, "QUIC error: {detail}"),
            Self::Http3 { detail } => write!(f, "HTTP/3 error: {detail}"),
            Self::Http2 { detail } | Self::Http2Stream { detail } => {
                write!(f, "HTTP/2 error: {detail}")
            }
            Self::BadContentEncoding { encoding, detail } => {
                write!(f, "cannot decode the body as {encoding}: {detail}")
            }
            Self::HttpStatus { status } => write!(f, "server answered with status {status}"),
            Self::TimedOut { after, peer, .. } => {
                write!(f, "not finished within {}", seconds(*after))?;
                let said = match peer {
                    LastSeen::Nothing => "",
                    LastSeen::Acknowledged => ": the server received the data but did not answer",
                    LastSeen::Stopped => ": the server began to answer, then stopped",
                    LastSeen::Sending => ": the response was still arriving",
                    LastSeen::TooSoon => ": the limit left no time for an answer",
                    LastSeen::Hole => {
                        ": part of the answer arrived, the segments before it never did (a path-MTU \
                         black hole?)"
                    }
                    LastSeen::HelloStuck {
                        hello_bytes,
                        segment_bytes,
                        retransmits,
                        end_arrived,
                    } => {
                        let arrived = if *end_arrived { "only its end" } else { "nothing" };
                        return write!(
                            f,
                            ": of the ClientHello of {hello_bytes} bytes, in segments of {segment_bytes}, \
                             {arrived} arrived after {retransmits} retransmissions (a path-MTU black hole?)"
                        );
                    }
                    LastSeen::WindowFull => {
                        ": the server does not read what it is sent; its receive window is full"
                    }
                };
                f.write_str(said)
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Io { operation, detail } => write!(f, "could not {operation}: {detail}"),
            Self::WriteOutput { path, detail } => {
                write!(f, "could not write the body to {path}: {detail}")
            }
            Self::TooManyRedirects { limit, circle } => {
                write!(f, "more than {limit} redirects")?;
                let Some(circle) = circle else { return Ok(()) };
                let urls = if circle.urls == 1 { "URL" } else { "URLs" };
                write!(f, ", in a circle of {} {urls}", circle.urls)?;
                match circle.sets_cookie {
                    true => {
                        f.write_str(" that sets a cookie, which this client does not send back")
                    }
                    false => Ok(()),
                }
            }
            Self::BadRedirect { location } => {
                write!(f, "redirect to a URL that is not http or https: {location}")
            }
        }
    }
}

/// Maximum number of a certificate's names to show: some certificates have hundreds.
const NAMES_SHOWN: usize = 8;

/// Whether the user excluded a TLS version.
fn narrowed_versions(offered: &str) -> bool {
    !offered.contains("and")
}

/// Whether the user excluded an application protocol.
fn narrowed_protocols(offered: &str) -> bool {
    !offered.contains(", ")
}

fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return format!("{} µs", duration.as_micros());
    }
    if millis < 1000 { format!("{millis} ms") } else { format!("{} s", millis as f64 / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_say_which_is_wrong_and_how_in_a_line() {
        let wrong = |host: &str, names: Vec<String>, as_dns_name| {
            Cause::CertificateWrongName { host: host.into(), names, as_dns_name }.to_string()
        };
        let many: Vec<String> = (0..500).map(|n| format!("host{n}.example.test")).collect();
        let text = wrong("a.test", many, false);
        assert!(text.ends_with("host7.example.test and 492 more") && text.len() < 300, "{text}");
        assert_eq!(
            wrong("127.0.0.1", vec!["127.0.0.1".into()], true),
            "certificate does not cover the address 127.0.0.1: it has it as a DNS name, not as an IP address"
        );
        let expired = |authority: Option<&str>| {
            let authority = authority.map(str::to_owned);
            Cause::CertificateExpired { not_after: Some("2026-11-23".into()), authority }
                .to_string()
        };
        assert_eq!(expired(None), "certificate expired on 2026-11-23");
        assert_eq!(
            expired(Some("CN=old intermediate")),
            "an intermediate certificate that the server sends has expired (CN=old intermediate, on 2026-11-23); \
             its own is still valid"
        );
    }
}
