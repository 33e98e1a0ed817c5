//! Names of failures: one bounded vocabulary for all sources.
//!
//! The names are those of W3C Network Error Logging (§6, "Predefined network error types"), which browsers report in
//! the field, and a few of our own in the same grammar (`group.name`) for failures without a name there. They are
//! labels: a name never contains a value, and none exists outside [`FailureType::ALL`].

use std::fmt;

use super::{Cause, PhaseName};

macro_rules! failure_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// The type of a failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FailureType {
            $($(#[$doc])* $variant,)*
        }

        impl FailureType {
            /// All types.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name used in every output.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

failure_types! {
    /// The name server is unreachable or does not answer.
    DnsUnreachable = "dns.unreachable";
    /// The name server answered that the name, or an address for it, does not exist.
    DnsNameNotResolved = "dns.name_not_resolved";
    /// The lookup failed for another reason.
    DnsFailed = "dns.failed";
    /// A report about another address than the policy's, which says nothing about DNS (field data only).
    DnsAddressChanged = "dns.address_changed";
    /// The server did not answer the SYN in time.
    TcpTimedOut = "tcp.timed_out";
    /// The server closed the connection before any part of a response.
    TcpClosed = "tcp.closed";
    /// The connection was reset.
    TcpReset = "tcp.reset";
    /// The server answered the SYN with a reset.
    TcpRefused = "tcp.refused";
    /// The client's host aborted the connection (field data only).
    TcpAborted = "tcp.aborted";
    /// The address cannot be connected to (field data only).
    TcpAddressInvalid = "tcp.address_invalid";
    /// No route to the address, or a router reported it unreachable.
    TcpAddressUnreachable = "tcp.address_unreachable";
    /// TCP failed for another reason.
    TcpFailed = "tcp.failed";
    /// No TLS version, cipher suite or group in common.
    TlsVersionOrCipherMismatch = "tls.version_or_cipher_mismatch";
    /// The server requires a client certificate, or rejected the one it received.
    TlsBadClientAuthCert = "tls.bad_client_auth_cert";
    /// The server's certificate is for other names.
    TlsCertNameInvalid = "tls.cert.name_invalid";
    /// The server's certificate has expired, or is not valid yet.
    TlsCertDateInvalid = "tls.cert.date_invalid";
    /// No trusted authority signed the server's certificate.
    TlsCertAuthorityInvalid = "tls.cert.authority_invalid";
    /// The server's certificate is invalid for another reason.
    TlsCertInvalid = "tls.cert.invalid";
    /// The server's certificate was revoked.
    TlsCertRevoked = "tls.cert.revoked";
    /// The server's certificates lack the pinned key (field data only).
    TlsCertPinnedKeyNotInCertChain = "tls.cert.pinned_key_not_in_cert_chain";
    /// The peer violated TLS, or ended it with another alert.
    TlsProtocolError = "tls.protocol.error";
    /// TLS failed for another reason.
    TlsFailed = "tls.failed";
    /// The time limit ran out during the handshake. Not in NEL.
    TlsTimedOut = "tls.timed_out";
    /// The response has a 4xx or 5xx status, which counts as a failure.
    HttpError = "http.error";
    /// The server violated HTTP, or the peer does not speak it.
    HttpProtocolError = "http.protocol.error";
    /// The response is empty, truncated, or cannot be decoded.
    HttpResponseInvalid = "http.response.invalid";
    /// Too many redirects.
    HttpResponseRedirectLoop = "http.response.redirect_loop";
    /// The exchange failed for another reason.
    HttpFailed = "http.failed";
    /// The time limit ran out during the exchange. Not in NEL.
    HttpTimedOut = "http.timed_out";
    /// No datagram, or no further one, came back in time. Not in NEL, like all of `quic.`
    QuicTimedOut = "quic.timed_out";
    /// The server's host reports that nothing listens on the UDP port.
    QuicRefused = "quic.refused";
    /// No route to the address for UDP, or a router reported it unreachable.
    QuicAddressUnreachable = "quic.address_unreachable";
    /// The server closed the connection (RFC 9000 §10.2).
    QuicClosed = "quic.closed";
    /// The server has forgotten the connection (stateless reset, RFC 9000 §10.3).
    QuicReset = "quic.reset";
    /// The server violated QUIC (RFC 9000 §11).
    QuicProtocolError = "quic.protocol.error";
    /// QUIC failed for another reason.
    QuicFailed = "quic.failed";
    /// The client's own machine could not do its part. Not in NEL: a browser in that state does not report.
    ClientFailed = "client.failed";
    /// The user interrupted the run, or the client left before anything failed.
    Abandoned = "abandoned";
    /// The reason is unknown.
    Unknown = "unknown";
    // Rollups store a type by its place in this list: append new ones.
    /// The proxy opened no tunnel. Not in NEL, like all of `proxy.`
    ProxyRefused = "proxy.refused";
    /// The proxy did not answer the tunnel request in time.
    ProxyTimedOut = "proxy.timed_out";
    /// The proxy violated its protocol.
    ProxyProtocolError = "proxy.protocol.error";
    /// Opening the tunnel failed for another reason.
    ProxyFailed = "proxy.failed";
}

impl FailureType {
    /// Finds a type by its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.as_str() == name)
    }

    /// Maps another program's name to a type: NEL lets anybody add names, but labels must stay bounded.
    ///
    /// A name that extends a known one maps to that one (`http.response.invalid.empty`); other names of a group map to
    /// its `failed`; anything else is unknown.
    pub fn nearest(name: &str) -> Self {
        // Chromium's additional names whose group does not reveal the type (net/network_error_logging).
        match name {
            "dns.timed_out" => return Self::DnsUnreachable,
            "h2.protocol.error" | "h2.ping_failed" => return Self::HttpProtocolError,
            // Chromium reports QUIC's net error under this name.
            "h3.protocol.error" => return Self::QuicProtocolError,
            _ => {}
        }
        let mut known = name;
        loop {
            if let Some(found) = Self::parse(known) {
                return found;
            }
            match known.rsplit_once('.') {
                Some((before, _)) => known = before,
                None => break,
            }
        }
        Self::parse(&format!("{known}.failed")).unwrap_or(Self::Unknown)
    }

    /// Type of `cause` in `phase`.
    pub(super) const fn from_cause(cause: &Cause, phase: PhaseName) -> Self {
        let quic = matches!(phase, PhaseName::Quic);
        match cause {
            Cause::Recorded { failure_type, .. }
            | Cause::Captured { failure_type, .. }
            | Cause::Quic { failure_type, .. } => *failure_type,
            Cause::NameNotFound { .. } | Cause::NoAddresses { .. } => Self::DnsNameNotResolved,
            Cause::ResolverFailed { .. } => Self::DnsFailed,
            Cause::ResolverTimedOut { .. } => Self::DnsUnreachable,
            Cause::Refused { .. } if quic => Self::QuicRefused,
            Cause::Refused { .. } => Self::TcpRefused,
            Cause::Unreachable { .. } if quic => Self::QuicAddressUnreachable,
            Cause::Unreachable { .. } => Self::TcpAddressUnreachable,
            Cause::ProxyRefused { .. } => Self::ProxyRefused,
            Cause::ProxyMisbehaved { .. } => Self::ProxyProtocolError,
            Cause::ConnectTimedOut { .. } => Self::TcpTimedOut,
            Cause::QuicConnectTimedOut { .. } => Self::QuicTimedOut,
            Cause::CertificateExpired { .. } | Cause::CertificateNotYetValid { .. } => {
                Self::TlsCertDateInvalid
            }
            Cause::CertificateWrongName { .. } => Self::TlsCertNameInvalid,
            Cause::CertificateUnknownIssuer { .. } | Cause::CertificateSelfSigned { .. } => {
                Self::TlsCertAuthorityInvalid
            }
            Cause::CertificateInvalid { .. } => Self::TlsCertInvalid,
            Cause::ProtocolVersionRefused { .. } | Cause::NoCommonParameters { .. } => {
                Self::TlsVersionOrCipherMismatch
            }
            Cause::ClientCertificateRequired | Cause::ClientCertificateRefused { .. } => {
                Self::TlsBadClientAuthCert
            }
            Cause::TlsAlert { .. }
            | Cause::TlsMisbehaved { .. }
            | Cause::NotTls { .. }
            | Cause::RenegotiationRefused => Self::TlsProtocolError,
            Cause::AlpnMismatch { .. } => Self::TlsFailed,
            Cause::ClosedInHandshake => Self::TcpClosed,
            Cause::ResetInHandshake | Cause::Reset => Self::TcpReset,
            Cause::ClosedBeforeResponse
            | Cause::HeadCutShort
            | Cause::HeadTooLarge { .. }
            | Cause::BodyCutShort { .. }
            | Cause::BadTransferCoding { .. }
            | Cause::BadContentEncoding { .. }
            | Cause::BadRedirect { .. } => Self::HttpResponseInvalid,
            Cause::NotHttp { .. }
            | Cause::SpeaksTls { .. }
            | Cause::Http2 { .. }
            | Cause::ShutDown { .. }
            | Cause::Http2Stream { .. }
            | Cause::Http3 { .. } => Self::HttpProtocolError,
            Cause::HttpStatus { .. } => Self::HttpError,
            Cause::TooManyRedirects { .. } => Self::HttpResponseRedirectLoop,
            Cause::SocketSetup { .. } | Cause::TlsSetup { .. } | Cause::WriteOutput { .. } => {
                Self::ClientFailed
            }
            Cause::Interrupted => Self::Abandoned,
            Cause::TimedOut { .. } => Self::timed_out(phase),
            Cause::Io { .. } => Self::failed(phase),
        }
    }

    /// Type for a time limit that ran out in `phase`.
    pub const fn timed_out(phase: PhaseName) -> Self {
        match phase {
            PhaseName::Resolve => Self::DnsUnreachable,
            PhaseName::Connect => Self::TcpTimedOut,
            PhaseName::Tunnel => Self::ProxyTimedOut,
            PhaseName::ProxyTls | PhaseName::Tls => Self::TlsTimedOut,
            PhaseName::Quic => Self::QuicTimedOut,
            PhaseName::Send | PhaseName::Wait | PhaseName::Receive => Self::HttpTimedOut,
        }
    }

    /// Type for a failure in `phase` without a name of its own.
    pub const fn failed(phase: PhaseName) -> Self {
        match phase {
            PhaseName::Resolve => Self::DnsFailed,
            PhaseName::Connect => Self::TcpFailed,
            PhaseName::Tunnel => Self::ProxyFailed,
            PhaseName::ProxyTls | PhaseName::Tls => Self::TlsFailed,
            PhaseName::Quic => Self::QuicFailed,
            PhaseName::Send | PhaseName::Wait | PhaseName::Receive => Self::HttpFailed,
        }
    }

    /// Type for a TLS alert by its number (RFC 8446 §6.2): a client's alert complains about the server's certificate,
    /// a server's about the client's.
    pub const fn from_alert(description: u8, by_client: bool) -> Self {
        match (description, by_client) {
            // handshake_failure, protocol_version, insufficient_security, inappropriate_fallback.
            (40 | 70 | 71 | 86, _) => Self::TlsVersionOrCipherMismatch,
            // bad_certificate to unknown_ca, and certificate_required.
            (41..=46 | 48 | 116, false) => Self::TlsBadClientAuthCert,
            (42 | 43 | 46, true) => Self::TlsCertInvalid,
            (44, true) => Self::TlsCertRevoked,
            (45, true) => Self::TlsCertDateInvalid,
            (48, true) => Self::TlsCertAuthorityInvalid,
            // user_canceled.
            (90, true) => Self::Abandoned,
            // no_application_protocol.
            (120, _) => Self::TlsFailed,
            _ => Self::TlsProtocolError,
        }
    }
}

impl fmt::Display for FailureType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_and_of_nels_grammar() {
        for (place, known) in FailureType::ALL.iter().enumerate() {
            let name = known.as_str();
            assert_eq!(FailureType::parse(name), Some(*known));
            assert_eq!(FailureType::nearest(name), *known);
            assert!(FailureType::ALL[..place].iter().all(|other| other.as_str() != name), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c)), "{name}");
        }
    }

    #[test]
    fn every_type_of_nel_is_there() {
        // W3C Network Error Logging, 2026-01-28, §6; "ok" is not a failure.
        let predefined = "dns.unreachable dns.name_not_resolved dns.failed dns.address_changed tcp.timed_out \
                          tcp.closed tcp.reset tcp.refused tcp.aborted tcp.address_invalid \
                          tcp.address_unreachable tcp.failed tls.version_or_cipher_mismatch \
                          tls.bad_client_auth_cert tls.cert.name_invalid tls.cert.date_invalid \
                          tls.cert.authority_invalid tls.cert.invalid tls.cert.revoked \
                          tls.cert.pinned_key_not_in_cert_chain tls.protocol.error tls.failed http.error \
                          http.protocol.error http.response.invalid http.response.redirect_loop http.failed \
                          abandoned unknown";
        for name in predefined.split_whitespace() {
            assert!(FailureType::parse(name).is_some(), "{name}");
        }
        assert_eq!(FailureType::parse("ok"), None);
    }

    #[test]
    fn names_of_others_keep_the_labels_bounded() {
        for (name, expected) in [
            ("http.response.invalid.content_length_mismatch", FailureType::HttpResponseInvalid),
            ("http.response.headers.truncated", FailureType::HttpFailed),
            ("tls.unrecognized_name_alert", FailureType::TlsFailed),
            ("dns.timed_out", FailureType::DnsUnreachable),
            ("dns.server", FailureType::DnsFailed),
            ("h2.ping_failed", FailureType::HttpProtocolError),
            ("h3.protocol.error", FailureType::QuicProtocolError),
            ("example.made.up", FailureType::Unknown),
            ("", FailureType::Unknown),
        ] {
            assert_eq!(FailureType::nearest(name), expected, "{name}");
        }
    }

    #[test]
    fn the_types_are_described() {
        let formats = include_str!("../../../../docs/formats.md");
        for known in FailureType::ALL {
            assert!(formats.contains(&format!("`{known}`")), "{known} is not in docs/formats.md");
        }
    }
}
