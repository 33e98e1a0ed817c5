//! Converts Chromium's network errors to failures of the model.
//!
//! Input: an error by its number in the log, or its name in DevTools ("net::ERR_CONNECTION_REFUSED"), with the
//! circumstances. Output: phase and cause. Errors without a cause in the model keep their name.

use firstbyte_core::timeline::{Cause, Failure, FailureType, OfferedGroups, PhaseName, TimeLimit};
use firstbyte_probe::probe::options::Client;

use crate::browser::failure::{Circumstances, Meaning};
use crate::netlog::NetLogEvent;

/// The browser no longer wanted the result.
pub(super) const ABORTED: i64 = -3;
/// An error without a reason.
pub(super) const CONNECTION_FAILED: i64 = -104;

/// Connection errors by number (Chromium's `net_error_list.h`).
const NAMES: [(i64, &str); 23] = [
    (ABORTED, "ERR_ABORTED"),
    (-7, "ERR_TIMED_OUT"),
    (-21, "ERR_NETWORK_CHANGED"),
    (-100, "ERR_CONNECTION_CLOSED"),
    (-101, "ERR_CONNECTION_RESET"),
    (-102, "ERR_CONNECTION_REFUSED"),
    (-103, "ERR_CONNECTION_ABORTED"),
    (CONNECTION_FAILED, "ERR_CONNECTION_FAILED"),
    (-105, "ERR_NAME_NOT_RESOLVED"),
    (-106, "ERR_INTERNET_DISCONNECTED"),
    (-107, "ERR_SSL_PROTOCOL_ERROR"),
    (-109, "ERR_ADDRESS_UNREACHABLE"),
    (-110, "ERR_SSL_CLIENT_AUTH_CERT_NEEDED"),
    (-113, "ERR_SSL_VERSION_OR_CIPHER_MISMATCH"),
    (-118, "ERR_CONNECTION_TIMED_OUT"),
    (-200, "ERR_CERT_COMMON_NAME_INVALID"),
    (-201, "ERR_CERT_DATE_INVALID"),
    (-202, "ERR_CERT_AUTHORITY_INVALID"),
    (-206, "ERR_CERT_REVOKED"),
    (-207, "ERR_CERT_INVALID"),
    (-356, "ERR_QUIC_PROTOCOL_ERROR"),
    (-358, "ERR_QUIC_HANDSHAKE_FAILED"),
    (-380, "ERR_QUIC_CERT_ROOT_NOT_KNOWN"),
];

/// The failure with the DevTools name `error`.
pub(super) fn named(error: &str, known: &Circumstances<'_>) -> Failure {
    known.failure(Client::Chromium, error.trim_start_matches("net::"), meaning)
}

/// The failure with this number in the log.
pub(super) fn numbered(number: i64, known: &Circumstances<'_>) -> Failure {
    let name = NAMES.iter().find(|(known, _)| *known == number);
    match name {
        Some((_, name)) => named(name, known),
        None => named(&format!("Chromium's network error {number}"), known),
    }
}

/// Why a QUIC session was closed before its handshake was complete.
pub(super) fn of_quic(closed: &NetLogEvent, known: &Circumstances<'_>) -> Failure {
    let details = closed.text("details").unwrap_or_default();
    if details.contains("CERTIFICATE_VERIFY_FAILED") {
        // Over QUIC, only the browser's built-in roots count.
        return named("ERR_QUIC_CERT_ROOT_NOT_KNOWN", known);
    }
    let mut failure = named("ERR_QUIC_HANDSHAKE_FAILED", known);
    if let Cause::Quic { detail, .. } = &mut failure.cause
        && !details.is_empty()
    {
        details.clone_into(detail);
    }
    failure
}

/// The model's cause for an error, if there is one.
fn meaning(name: &str, known: &Circumstances<'_>) -> Option<Meaning> {
    let host = || known.host.clone();
    let detail = || name.to_owned();
    let in_phase = Meaning::in_phase;
    let reached = Meaning::reached;
    let tls = |cause| known.in_handshake(cause);
    match name {
        "ERR_NAME_NOT_RESOLVED" => {
            in_phase(PhaseName::Resolve, Cause::NameNotFound { name: host() })
        }
        "ERR_NAME_RESOLUTION_FAILED" | "ERR_DNS_SERVER_FAILED" | "ERR_DNS_MALFORMED_RESPONSE" => {
            let cause = Cause::ResolverFailed { name: host(), detail: detail() };
            in_phase(PhaseName::Resolve, cause)
        }
        "ERR_CONNECTION_REFUSED" => {
            let remote = known.remote?;
            in_phase(PhaseName::Connect, Cause::Refused { remote })
        }
        "ERR_ADDRESS_UNREACHABLE" | "ERR_INTERNET_DISCONNECTED" => {
            let cause = Cause::Unreachable { remote: known.remote?, detail: detail() };
            in_phase(PhaseName::Connect, cause)
        }
        "ERR_CERT_AUTHORITY_INVALID" => {
            tls(Cause::CertificateUnknownIssuer { issuer: None, alone: false })
        }
        "ERR_CERT_DATE_INVALID" => {
            tls(Cause::CertificateExpired { not_after: None, authority: None })
        }
        "ERR_CERT_COMMON_NAME_INVALID" => {
            tls(Cause::CertificateWrongName { host: host(), names: Vec::new(), as_dns_name: false })
        }
        "ERR_CERT_INVALID"
        | "ERR_CERT_REVOKED"
        | "ERR_CERT_WEAK_SIGNATURE_ALGORITHM"
        | "ERR_CERT_WEAK_KEY"
        | "ERR_CERT_VALIDITY_TOO_LONG"
        | "ERR_QUIC_CERT_ROOT_NOT_KNOWN" => tls(Cause::CertificateInvalid { detail: detail() }),
        "ERR_SSL_VERSION_OR_CIPHER_MISMATCH" => {
            tls(Cause::NoCommonParameters { detail: detail(), groups: OfferedGroups::Unknown })
        }
        "ERR_SSL_PROTOCOL_ERROR" => tls(Cause::TlsMisbehaved { detail: detail() }),
        "ERR_SSL_CLIENT_AUTH_CERT_NEEDED" => tls(Cause::ClientCertificateRequired),
        "ERR_CONNECTION_CLOSED" if known.phase_reached() == PhaseName::Tls => {
            tls(Cause::ClosedInHandshake)
        }
        "ERR_CONNECTION_RESET" if known.phase_reached() == PhaseName::Tls => {
            tls(Cause::ResetInHandshake)
        }
        "ERR_CONNECTION_RESET" => reached(Cause::Reset),
        "ERR_EMPTY_RESPONSE" | "ERR_CONNECTION_CLOSED" => {
            in_phase(PhaseName::Wait, Cause::ClosedBeforeResponse)
        }
        "ERR_HTTP2_PROTOCOL_ERROR" | "ERR_HTTP2_PING_FAILED" => {
            reached(Cause::Http2 { detail: detail() })
        }
        "ERR_QUIC_PROTOCOL_ERROR" | "ERR_QUIC_HANDSHAKE_FAILED" => {
            let failure_type = FailureType::QuicProtocolError;
            in_phase(PhaseName::Quic, Cause::Quic { detail: detail(), failure_type })
        }
        "ERR_INVALID_HTTP_RESPONSE" => {
            in_phase(PhaseName::Wait, Cause::NotHttp { detail: detail(), tls: false })
        }
        "ERR_TOO_MANY_REDIRECTS" => reached(Cause::TooManyRedirects { limit: 20, circle: None }),
        "ERR_CONNECTION_TIMED_OUT" | "ERR_TIMED_OUT" => known.timed_out(TimeLimit::Connection),
        _ => None,
    }
}
