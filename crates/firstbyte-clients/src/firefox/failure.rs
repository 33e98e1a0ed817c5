//! Converts Firefox's network errors to failures of the model.
//!
//! Input: an error name from the channel ("NS_ERROR_CONNECTION_REFUSED", "SEC_ERROR_UNKNOWN_ISSUER") or from WebDriver
//! BiDi, with the circumstances. Output: phase and cause. Errors without a cause in the model keep their name.

use firstbyte_core::timeline::{Cause, Failure, FailureType, OfferedGroups, PhaseName, TimeLimit};
use firstbyte_probe::probe::options::Client;

use crate::browser::failure::{self, Circumstances, Meaning};

/// The failure with Firefox's name `error`.
pub(super) fn named(error: &str, known: &Circumstances<'_>) -> Failure {
    known.failure(Client::Firefox, innermost(error), meaning)
}

/// BiDi wraps names: "NS_ERROR_GENERATE_FAILURE(NS_ERROR_MODULE_SECURITY, SEC_ERROR_UNKNOWN_ISSUER)", "Error: NS_X".
fn innermost(error: &str) -> &str {
    let error = error.strip_prefix("Error: ").unwrap_or(error).trim();
    match error.strip_suffix(')').and_then(|error| error.rsplit_once(", ")) {
        Some((_, inner)) => inner,
        None => error,
    }
}

/// The model's cause for an error, if there is one.
fn meaning(name: &str, known: &Circumstances<'_>) -> Option<Meaning> {
    let host = || known.host.clone();
    let recorded = |name, failure_type| failure::recorded(Client::Firefox, name, failure_type);
    let detail = || name.to_owned();
    let in_phase = Meaning::in_phase;
    let reached = Meaning::reached;
    let tls = |cause| known.in_handshake(cause);
    let in_handshake = matches!(known.phase_reached(), PhaseName::Tls);
    match name {
        // For any reason why there was no address.
        "NS_ERROR_UNKNOWN_HOST" | "NS_ERROR_DNS_LOOKUP_QUEUE_FULL" => {
            let cause = Cause::ResolverFailed { name: host(), detail: detail() };
            in_phase(PhaseName::Resolve, cause)
        }
        "NS_ERROR_CONNECTION_REFUSED" => {
            let refused = |remote| Cause::Refused { remote };
            // Firefox does not report the address.
            let cause =
                known.remote.map_or_else(|| recorded(name, FailureType::TcpRefused), refused);
            in_phase(PhaseName::Connect, cause)
        }
        "NS_ERROR_OFFLINE" | "NS_ERROR_NET_UNREACHABLE" => {
            let unreachable = |remote| Cause::Unreachable { remote, detail: detail() };
            let other = || recorded(name, FailureType::TcpAddressUnreachable);
            in_phase(PhaseName::Connect, known.remote.map_or_else(other, unreachable))
        }
        "SEC_ERROR_UNKNOWN_ISSUER" | "SEC_ERROR_UNTRUSTED_ISSUER" => {
            tls(Cause::CertificateUnknownIssuer { issuer: None, alone: false })
        }
        "MOZILLA_PKIX_ERROR_SELF_SIGNED_CERT" => {
            tls(Cause::CertificateSelfSigned { subject: host() })
        }
        "SEC_ERROR_EXPIRED_CERTIFICATE" | "SEC_ERROR_EXPIRED_ISSUER_CERTIFICATE" => {
            tls(Cause::CertificateExpired { not_after: None, authority: None })
        }
        "MOZILLA_PKIX_ERROR_NOT_YET_VALID_CERTIFICATE"
        | "MOZILLA_PKIX_ERROR_NOT_YET_VALID_ISSUER_CERTIFICATE" => {
            tls(Cause::CertificateNotYetValid { not_before: None })
        }
        "SSL_ERROR_BAD_CERT_DOMAIN" => {
            tls(Cause::CertificateWrongName { host: host(), names: Vec::new(), as_dns_name: false })
        }
        "SSL_ERROR_UNSUPPORTED_VERSION" | "SSL_ERROR_PROTOCOL_VERSION_ALERT" => {
            tls(Cause::ProtocolVersionRefused { offered: "the requested versions".to_owned() })
        }
        "SSL_ERROR_NO_CYPHER_OVERLAP" | "SSL_ERROR_HANDSHAKE_FAILURE_ALERT" => {
            tls(Cause::NoCommonParameters { detail: detail(), groups: OfferedGroups::Unknown })
        }
        "SSL_ERROR_RX_CERTIFICATE_REQUIRED_ALERT" => tls(Cause::ClientCertificateRequired),
        "NS_ERROR_NET_INTERRUPT" | "PR_END_OF_FILE_ERROR" if in_handshake => {
            tls(Cause::ClosedInHandshake)
        }
        "NS_ERROR_NET_RESET" | "PR_CONNECT_RESET_ERROR" if in_handshake => {
            tls(Cause::ResetInHandshake)
        }
        // Firefox also reports this if the server closes before it sends anything.
        "NS_ERROR_NET_RESET" | "NS_ERROR_NET_EMPTY_RESPONSE"
            if known.phase_reached() == PhaseName::Wait =>
        {
            in_phase(PhaseName::Wait, Cause::ClosedBeforeResponse)
        }
        "NS_ERROR_NET_RESET" | "NS_ERROR_NET_INTERRUPT" => reached(Cause::Reset),
        "NS_ERROR_NET_PARTIAL_TRANSFER" => {
            in_phase(PhaseName::Receive, Cause::BodyCutShort { received: known.received })
        }
        "NS_ERROR_NET_HTTP2_SENT_GOAWAY" | "NS_ERROR_HTTP2_FALLBACK_TO_HTTP1" => {
            reached(Cause::Http2 { detail: detail() })
        }
        "NS_ERROR_NET_HTTP3_PROTOCOL_ERROR" => {
            let failure_type = FailureType::QuicProtocolError;
            in_phase(PhaseName::Quic, Cause::Quic { detail: detail(), failure_type })
        }
        "NS_ERROR_UNEXPECTED_HTTP_VERSION" | "NS_ERROR_PARSING_HTTP_STATUS_LINE" => {
            in_phase(PhaseName::Wait, Cause::NotHttp { detail: detail(), tls: false })
        }
        "NS_ERROR_REDIRECT_LOOP" => reached(Cause::TooManyRedirects { limit: 20, circle: None }),
        "NS_ERROR_INVALID_CONTENT_ENCODING" => {
            let encoding = "the response's Content-Encoding".to_owned();
            in_phase(PhaseName::Receive, Cause::BadContentEncoding { encoding, detail: detail() })
        }
        "NS_ERROR_NET_TIMEOUT" | "NS_ERROR_NET_TIMEOUT_EXTERNAL" => {
            known.timed_out(TimeLimit::Connection)
        }
        _ if name.starts_with("SEC_ERROR_") || name.starts_with("MOZILLA_PKIX_ERROR_") => {
            tls(Cause::CertificateInvalid { detail: detail() })
        }
        _ if name.starts_with("SSL_ERROR_") => tls(Cause::TlsMisbehaved { detail: detail() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use firstbyte_core::timeline::{Mark, Marks, Offset, Stamp};

    use super::*;

    fn failure_type(error: &str, reached: &[Mark]) -> String {
        let mut marks = Marks::default();
        for mark in reached {
            marks.set(*mark, Stamp::user(Offset::ZERO));
        }
        let known = Circumstances {
            host: "site.test".to_owned(),
            remote: Some(SocketAddr::from(([127, 0, 0, 1], 443))),
            marks: &marks,
            quic: false,
            time_limit: Duration::from_secs(1),
            at: None,
            received: 0,
        };
        let failure = named(error, &known);
        format!("{} {}", failure.phase, failure.failure_type().as_str())
    }

    #[test]
    fn errors_have_the_types_of_our_own() {
        let connected = [Mark::ConnectStart, Mark::TcpConnected];
        let sent = [Mark::ConnectStart, Mark::TcpConnected, Mark::RequestStart];
        for (error, reached, expected) in [
            ("NS_ERROR_UNKNOWN_HOST", &[][..], "resolve dns.failed"),
            ("NS_ERROR_CONNECTION_REFUSED", &connected[..1], "connect tcp.refused"),
            ("Error: NS_ERROR_CONNECTION_REFUSED", &connected[..1], "connect tcp.refused"),
            (
                "NS_ERROR_GENERATE_FAILURE(NS_ERROR_MODULE_SECURITY, SEC_ERROR_UNKNOWN_ISSUER)",
                &connected[..],
                "tls tls.cert.authority_invalid",
            ),
            ("SSL_ERROR_BAD_CERT_DOMAIN", &connected[..], "tls tls.cert.name_invalid"),
            ("SEC_ERROR_EXPIRED_CERTIFICATE", &connected[..], "tls tls.cert.date_invalid"),
            ("firstbyte:timed-out", &sent[..], "wait http.timed_out"),
            ("NS_ERROR_NEVER_HEARD_OF", &sent[..], "wait http.failed"),
        ] {
            assert_eq!(failure_type(error, reached), expected, "{error}");
        }
    }
}
