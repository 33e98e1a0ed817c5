//! Failures: in which phase, whose fault, and what to do. A failed connection is data.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::Offset;

/// A phase of a connection. Phases are derived from marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PhaseName {
    /// Name to address.
    Resolve,
    /// TCP handshake.
    Connect,
    /// TLS handshake.
    Tls,
    /// QUIC handshake: transport and TLS in one.
    Quic,
    /// Handing the request over, from the end of the handshake to its last byte.
    Send,
    /// From the last byte of the request to the first of the response.
    Wait,
    /// From the first byte of the response to its last.
    Receive,
}

impl PhaseName {
    /// The phase with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// Every phase, in order.
    pub const ALL: [Self; 7] = [
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Quic,
        Self::Send,
        Self::Wait,
        Self::Receive,
    ];

    /// The name used in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Send => "send",
            Self::Wait => "wait",
            Self::Receive => "receive",
        }
    }
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who has to act for a failure to go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// This machine.
    Local,
    /// The path between the two, or the name service.
    Network,
    /// The server.
    Peer,
    /// What was asked for, on the command line or in a file.
    Configuration,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 4] = [Self::Local, Self::Network, Self::Peer, Self::Configuration];

    /// The fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// The name used in every output.
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

/// Why a connection did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The phase it happened in.
    pub phase: PhaseName,
    /// What happened.
    pub cause: Cause,
    /// When it was noticed.
    pub at: Option<Offset>,
}

impl Failure {
    /// The name of a [`Cause::Captured`] that is no failure: the capture ends before it is known.
    pub const NOT_SEEN_TO_END: &'static str = "not-seen-to-end";

    /// What stands at the end of a picture.
    pub fn ending(&self) -> String {
        match &self.cause {
            Cause::Captured { name: Self::NOT_SEEN_TO_END, message } => {
                format!("{}: {message}", self.phase)
            }
            cause => format!("failed in {}: {cause}", self.phase),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({} fault)", self.phase, self.cause, self.cause.fault())
    }
}

impl std::error::Error for Failure {}

/// What was seen of the peer when the time ran out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastSeen {
    /// Nothing shows that it received what was sent.
    #[default]
    Nothing,
    /// It acknowledged all that was sent, and did not answer.
    Acknowledged,
    /// It began to answer, and then nothing more came.
    Stopped,
    /// Its answer was still arriving.
    Sending,
}

/// What happened, with the values a person needs to act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say what the variants' docs say, by name")]
pub enum Cause {
    /// DNS says that the name does not exist (NXDOMAIN).
    NameNotFound { name: String },
    /// The name exists but has no address of a family that is allowed.
    NoAddresses { name: String, family: &'static str },
    /// The resolver could not answer.
    ResolverFailed { name: String, detail: String },
    /// The resolver did not answer in time.
    ResolverTimedOut { name: String, after: Duration },
    /// The peer answered the SYN with a reset.
    Refused { remote: SocketAddr },
    /// No route, or a router said so.
    Unreachable { remote: SocketAddr, detail: String },
    /// No address answered in time.
    ConnectTimedOut { remote: SocketAddr, after: Duration },
    /// The same over QUIC: no datagram came back.
    QuicConnectTimedOut { remote: SocketAddr, after: Duration },
    /// The socket could not be made or bound as asked.
    SocketSetup { detail: String },
    /// The certificate's validity has ended.
    CertificateExpired { not_after: Option<String> },
    /// The certificate's validity has not begun.
    CertificateNotYetValid { not_before: Option<String> },
    /// The certificate is for other names.
    CertificateWrongName { host: String, names: Vec<String> },
    /// No trust anchor issued the certificate.
    CertificateUnknownIssuer { issuer: Option<String> },
    /// Nobody but itself has signed the certificate, and it is no trust anchor.
    CertificateSelfSigned { subject: String },
    /// The certificate is bad in another way.
    CertificateInvalid { detail: String },
    /// The server speaks none of the TLS versions that are allowed.
    ProtocolVersionRefused { offered: String },
    /// The two sides have no cipher suite or group in common.
    NoCommonParameters { detail: String },
    /// The server chose none of the application protocols offered.
    AlpnMismatch { offered: String },
    /// The server wants a client certificate.
    ClientCertificateRequired,
    /// The server does not take the client certificate it was shown.
    ClientCertificateRefused { alert: String },
    /// The server ended the handshake with an alert.
    TlsAlert { alert: String },
    /// The server broke the TLS protocol.
    TlsMisbehaved { detail: String },
    /// What answered was not TLS.
    NotTls { looks_like: Option<&'static str> },
    /// The TLS stack could not be set up as asked.
    TlsSetup { detail: String },
    /// The server closed the connection in the middle of the handshake.
    ClosedInHandshake,
    /// The server reset the connection in the middle of the handshake.
    ResetInHandshake,
    /// The server closed the connection before it sent a response.
    ClosedBeforeResponse,
    /// The connection was reset.
    Reset,
    /// The response ended within its status line or header fields.
    HeadCutShort,
    /// The response's head is larger than the client takes.
    HeadTooLarge { limit_bytes: u64 },
    /// The response ended before its announced length.
    BodyCutShort { received: u64 },
    /// The body's transfer coding (RFC 9112 §7) is broken.
    BadTransferCoding { detail: String },
    /// The response is not HTTP, but TLS, where `tls` is set.
    NotHttp { detail: String, tls: bool },
    /// The server broke HTTP/2, or ended the connection with an error.
    Http2 { detail: String },
    /// The QUIC handshake or connection came to an end of its own (RFC 9000 §20).
    Quic {
        /// What happened.
        detail: String,
    },
    /// The server broke HTTP/3, or ended the stream (RFC 9114 §8).
    Http3 {
        /// What happened.
        detail: String,
    },
    /// The server ended the HTTP/2 stream with an error.
    Http2Stream { detail: String },
    /// The body's encoding does not decode.
    BadContentEncoding { encoding: String, detail: String },
    /// The response's status counts as an error (`--fail`).
    HttpStatus { status: u16 },
    /// The time allowed by the flag `limit` ran out.
    TimedOut { after: Duration, limit: &'static str, peer: LastSeen },
    /// The user ended it (Ctrl-C).
    Interrupted,
    /// Sending or receiving failed in the kernel.
    Io { operation: &'static str, detail: String },
    /// The body could not be written where it was asked to go.
    WriteOutput { path: String, detail: String },
    /// More redirects than allowed.
    TooManyRedirects { limit: u32 },
    /// The redirect leads to something that is no http or https URL.
    BadRedirect { location: String },
    /// What a capture shows: who has to act cannot be seen.
    Captured { name: &'static str, message: String },
    /// Any of the above, or of a later version's, read back from where it was recorded.
    Recorded { name: String, fault: Fault, message: String, hint: Option<String> },
}

impl Cause {
    /// Who has to act for this to go away.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Recorded { fault, .. } => *fault,
            Self::TimedOut { peer: LastSeen::Acknowledged | LastSeen::Stopped, .. } => Fault::Peer,
            // Nothing is wrong but that it takes longer than it may.
            Self::TimedOut { peer: LastSeen::Sending, .. } => Fault::Configuration,
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
            // With nothing ruled out by a flag it is the server that is out of the ordinary.
            Self::ProtocolVersionRefused { offered } if !narrowed_versions(offered) => Fault::Peer,
            Self::AlpnMismatch { offered } if !narrowed_protocols(offered) => Fault::Peer,
            Self::NameNotFound { .. }
            | Self::NoAddresses { .. }
            | Self::TlsSetup { .. }
            | Self::ProtocolVersionRefused { .. }
            | Self::AlpnMismatch { .. }
            | Self::ClientCertificateRequired
            | Self::ClientCertificateRefused { .. }
            | Self::TooManyRedirects { .. } => Fault::Configuration,
            Self::Refused { .. }
            | Self::CertificateExpired { .. }
            | Self::CertificateNotYetValid { .. }
            | Self::CertificateWrongName { .. }
            | Self::CertificateUnknownIssuer { .. }
            | Self::CertificateSelfSigned { .. }
            | Self::CertificateInvalid { .. }
            | Self::NoCommonParameters { .. }
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

    /// Whether it ended a wait for the peer: up to then the client had nothing to do.
    pub fn ends_a_wait(&self) -> bool {
        // By name, as it is known of what was recorded too.
        let waits = [
            "resolver-timed-out",
            "connect-timed-out",
            "timed-out",
            "interrupted",
            "closed-in-handshake",
            "reset-in-handshake",
            "closed-before-response",
            "reset",
            "head-cut-short",
            "body-cut-short",
        ];
        matches!(self, Self::Captured { .. }) || waits.contains(&self.name())
    }

    /// A stable name for stored forms and scripts.
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
            Self::CertificateExpired { .. } => "certificate-expired",
            Self::CertificateNotYetValid { .. } => "certificate-not-yet-valid",
            Self::CertificateWrongName { .. } => "certificate-wrong-name",
            Self::CertificateUnknownIssuer { .. } => "certificate-unknown-issuer",
            Self::CertificateSelfSigned { .. } => "certificate-self-signed",
            Self::CertificateInvalid { .. } => "certificate-invalid",
            Self::ProtocolVersionRefused { .. } => "protocol-version-refused",
            Self::NoCommonParameters { .. } => "no-common-parameters",
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
            Self::NotHttp { .. } => "not-http",
            Self::Http2 { .. } => "http2",
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

    /// What to do about it, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Recorded { hint, .. } => return hint.clone(),
            Self::NameNotFound { .. } => {
                "check the spelling, or give the address with --resolve HOST:PORT:ADDRESS".into()
            }
            Self::NoAddresses { family, .. } if *family != "any" => {
                format!("try without the flag that forces {family}")
            }
            Self::ResolverFailed { .. } | Self::ResolverTimedOut { .. } => {
                "ask another resolver with --resolver, or give the address with --resolve".into()
            }
            Self::Refused { remote } => {
                format!("nothing listens on port {} there, or a firewall rejects it", remote.port())
            }
            Self::ConnectTimedOut { .. } => {
                "the SYN was never answered: a firewall that drops, or a dead host".into()
            }
            Self::QuicConnectTimedOut { .. } => {
                "no datagram came back: a firewall that drops UDP, or nobody who speaks QUIC".into()
            }
            Self::CertificateExpired { .. } => {
                "renew the server's certificate; -k measures all the same, unverified".into()
            }
            Self::CertificateNotYetValid { .. } => {
                "check both clocks; -k measures all the same, unverified".into()
            }
            Self::CertificateWrongName { .. } => {
                "use a name from the certificate, or -k to measure unverified".into()
            }
            Self::CertificateUnknownIssuer { .. } => {
                "pass the issuing CA with --cacert FILE, or -k to measure unverified".into()
            }
            Self::CertificateInvalid { .. } => "-k measures all the same, unverified".into(),
            Self::CertificateSelfSigned { .. } => {
                "pass the certificate itself with --cacert FILE, or -k to measure unverified".into()
            }
            Self::ProtocolVersionRefused { offered } if offered == "TLS 1.2" => {
                "drop --tls-max to offer TLS 1.3 too".into()
            }
            Self::ProtocolVersionRefused { offered } if narrowed_versions(offered) => {
                "drop --tlsv1.3 to offer TLS 1.2 too".into()
            }
            Self::NoCommonParameters { .. } => "offer other groups with --curves".into(),
            Self::AlpnMismatch { offered } if offered == "h2" => {
                "drop --http2-prior-knowledge to offer HTTP/1.1 too".into()
            }
            Self::AlpnMismatch { offered } if narrowed_protocols(offered) => {
                "drop --http1.1 to offer HTTP/2 too".into()
            }
            Self::ClientCertificateRequired => "pass one with --cert FILE --key FILE".into(),
            Self::ClientCertificateRefused { .. } => {
                "pass one that the server trusts with --cert FILE --key FILE".into()
            }
            Self::NotTls { looks_like: Some("HTTP") } => {
                "the port answers in plain HTTP: use http://".into()
            }
            Self::NotTls { .. } => "check the port".into(),
            Self::NotHttp { tls: true, .. } => "the port answers in TLS: use https://".into(),
            Self::TimedOut { limit, .. } => format!("allow more with {limit} SECONDS"),
            Self::TooManyRedirects { .. } => "allow more with --max-redirs N".into(),
            _ => return None,
        };
        Some(hint)
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
            Self::ResolverTimedOut { name, after } => {
                write!(f, "no answer for {name} within {}", seconds(*after))
            }
            Self::Refused { remote } => write!(f, "connection refused by {remote}"),
            Self::Unreachable { remote, detail } => write!(f, "cannot reach {remote}: {detail}"),
            Self::ConnectTimedOut { remote, after }
            | Self::QuicConnectTimedOut { remote, after } => {
                write!(f, "no answer from {remote} within {}", seconds(*after))
            }
            Self::SocketSetup { detail } => write!(f, "could not set up the socket: {detail}"),
            Self::CertificateExpired { not_after: Some(date) } => {
                write!(f, "certificate expired on {date}")
            }
            Self::CertificateExpired { not_after: None } => f.write_str("certificate expired"),
            Self::CertificateNotYetValid { not_before: Some(date) } => {
                write!(f, "certificate not valid before {date}")
            }
            Self::CertificateNotYetValid { not_before: None } => {
                f.write_str("certificate not valid yet")
            }
            Self::CertificateWrongName { host, names } if names.is_empty() => {
                write!(f, "certificate does not cover {host}: it names no host")
            }
            Self::CertificateWrongName { host, names } => {
                write!(f, "certificate does not cover {host}: it is for {}", names.join(", "))
            }
            Self::CertificateUnknownIssuer { issuer: Some(issuer) } => {
                write!(f, "certificate issued by an unknown authority: {issuer}")
            }
            Self::CertificateUnknownIssuer { issuer: None } => {
                f.write_str("certificate issued by an unknown authority")
            }
            Self::CertificateSelfSigned { subject } => {
                write!(f, "certificate signed by nobody but itself: {subject}")
            }
            Self::CertificateInvalid { detail } => write!(f, "certificate not valid: {detail}"),
            Self::ProtocolVersionRefused { offered } => {
                write!(f, "server refused the TLS version ({offered} offered)")
            }
            Self::NoCommonParameters { detail } => {
                write!(f, "no TLS parameters in common: {detail}")
            }
            Self::AlpnMismatch { offered } => {
                write!(f, "server speaks none of the protocols offered by ALPN ({offered})")
            }
            Self::ClientCertificateRequired => f.write_str("server requires a client certificate"),
            Self::ClientCertificateRefused { alert } => {
                write!(f, "server refused the client certificate with the alert {alert}")
            }
            Self::TlsAlert { alert } => write!(f, "server sent the TLS alert {alert}"),
            Self::TlsMisbehaved { detail } => write!(f, "server broke the TLS protocol: {detail}"),
            Self::NotTls { looks_like: Some(protocol) } => {
                write!(f, "the answer is not TLS but looks like {protocol}")
            }
            Self::NotTls { looks_like: None } => f.write_str("the answer is not TLS"),
            Self::TlsSetup { detail } => write!(f, "could not set up TLS: {detail}"),
            Self::ClosedInHandshake => {
                f.write_str("server closed the connection in the middle of the handshake")
            }
            Self::ResetInHandshake => {
                f.write_str("connection reset in the middle of the handshake")
            }
            Self::ClosedBeforeResponse => {
                f.write_str("server closed the connection without a response")
            }
            Self::Reset => f.write_str("connection reset"),
            Self::HeadCutShort => {
                f.write_str("server closed the connection in the middle of the response's head")
            }
            Self::HeadTooLarge { limit_bytes } => {
                write!(
                    f,
                    "the response's head is larger than firstbyte takes ({limit_bytes} bytes)"
                )
            }
            Self::BodyCutShort { received } => {
                write!(
                    f,
                    "server closed the connection after {received} bytes of the body, before its end"
                )
            }
            Self::BadTransferCoding { detail } => {
                write!(f, "the body's transfer coding is broken: {detail}")
            }
            Self::NotHttp { detail, .. } => write!(f, "the answer is not HTTP: {detail}"),
            Self::Quic { detail } => write!(f, "error in QUIC: {detail}"),
            Self::Http3 { detail } => write!(f, "error in HTTP/3: {detail}"),
            Self::Http2 { detail } | Self::Http2Stream { detail } => {
                write!(f, "HTTP/2 error: {detail}")
            }
            Self::BadContentEncoding { encoding, detail } => {
                write!(f, "body does not decode as {encoding}: {detail}")
            }
            Self::HttpStatus { status } => write!(f, "server answered with status {status}"),
            Self::TimedOut { after, peer, .. } => {
                write!(f, "not finished within {}", seconds(*after))?;
                f.write_str(match peer {
                    LastSeen::Nothing => "",
                    LastSeen::Acknowledged => {
                        ": the server received what was sent, and did not answer"
                    }
                    LastSeen::Stopped => ": the server began to answer, and stopped",
                    LastSeen::Sending => ": the response was still arriving",
                })
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Io { operation, detail } => write!(f, "could not {operation}: {detail}"),
            Self::WriteOutput { path, detail } => {
                write!(f, "could not write the body to {path}: {detail}")
            }
            Self::TooManyRedirects { limit } => write!(f, "more than {limit} redirects"),
            Self::BadRedirect { location } => {
                write!(f, "redirect to something that is no http or https URL: {location}")
            }
        }
    }
}

/// Whether a flag kept a TLS version from being offered.
fn narrowed_versions(offered: &str) -> bool {
    !offered.contains("and")
}

/// Whether a flag kept an application protocol from being offered.
fn narrowed_protocols(offered: &str) -> bool {
    !offered.contains(", ")
}

fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 { format!("{millis} ms") } else { format!("{} s", millis as f64 / 1e3) }
}
