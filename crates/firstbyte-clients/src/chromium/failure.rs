//! Chromium's network errors as failures of the model.
//!
//! Input: an error by its number in the log, or its name in DevTools ("net::ERR_CONNECTION_REFUSED"), with what is known
//! besides. Output: phase and cause. Errors that have no cause of their own keep their name.

use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Failure, FailureType, Fault, LastSeen, Mark, Marks, Offset, PhaseName, TimeLimit,
};

use super::browser::{NO_TIME_LEFT, TIMED_OUT};

/// What is known where something failed.
pub(super) struct Circumstances<'a> {
    /// As in the URL, without port, brackets, or a user's name.
    pub(super) host: String,
    pub(super) remote: Option<SocketAddr>,
    pub(super) marks: &'a Marks,
    pub(super) quic: bool,
    pub(super) time_limit: Duration,
    pub(super) at: Option<Offset>,
}

/// The failure that DevTools calls `error`.
pub(super) fn named(error: &str, known: &Circumstances<'_>) -> Failure {
    let name = error.trim_start_matches("net::");
    let phase = phase_reached(known);
    let (phase, cause) = cause(name, known).map_or_else(
        || (phase, unnamed(name, phase)),
        |(of_cause, cause)| (of_cause.unwrap_or(phase), cause),
    );
    Failure { phase, cause, at: known.at }
}

/// The phase that was under way when nothing more came.
fn phase_reached(known: &Circumstances<'_>) -> PhaseName {
    let reached = |mark| known.marks.at(mark).is_some();
    if reached(Mark::ResponseStart) {
        PhaseName::Receive
    } else if reached(Mark::RequestStart) {
        PhaseName::Wait
    } else if reached(Mark::ConnectStart) && known.quic {
        PhaseName::Quic
    } else if reached(Mark::TcpConnected) {
        PhaseName::Tls
    } else if reached(Mark::ConnectStart) {
        PhaseName::Connect
    } else {
        PhaseName::Resolve
    }
}

fn cause(name: &str, known: &Circumstances<'_>) -> Option<(Option<PhaseName>, Cause)> {
    let host = || known.host.clone();
    let detail = || name.to_owned();
    let in_phase = |phase, cause| Some((Some(phase), cause));
    let reached = |cause| Some((None, cause));
    let tls = |cause| in_phase(if known.quic { PhaseName::Quic } else { PhaseName::Tls }, cause);
    match name {
        TIMED_OUT => {
            let (after, limit) = (known.time_limit, TimeLimit::Visit);
            reached(Cause::TimedOut { after, limit, peer: LastSeen::Nothing })
        }
        NO_TIME_LEFT => reached(Cause::Recorded {
            name: "chromium".to_owned(),
            failure_type: FailureType::ClientFailed,
            fault: Fault::Local,
            message: format!("the visit before took all of {} s", known.time_limit.as_secs_f64()),
            advice: None,
        }),
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
        "ERR_CERT_AUTHORITY_INVALID" => tls(Cause::CertificateUnknownIssuer { issuer: None }),
        "ERR_CERT_DATE_INVALID" => tls(Cause::CertificateExpired { not_after: None }),
        "ERR_CERT_COMMON_NAME_INVALID" => {
            tls(Cause::CertificateWrongName { host: host(), names: Vec::new() })
        }
        "ERR_CERT_INVALID"
        | "ERR_CERT_REVOKED"
        | "ERR_CERT_WEAK_SIGNATURE_ALGORITHM"
        | "ERR_CERT_WEAK_KEY"
        | "ERR_CERT_VALIDITY_TOO_LONG"
        | "ERR_QUIC_CERT_ROOT_NOT_KNOWN" => tls(Cause::CertificateInvalid { detail: detail() }),
        "ERR_SSL_VERSION_OR_CIPHER_MISMATCH" => tls(Cause::NoCommonParameters { detail: detail() }),
        "ERR_SSL_PROTOCOL_ERROR" => tls(Cause::TlsMisbehaved { detail: detail() }),
        "ERR_SSL_CLIENT_AUTH_CERT_NEEDED" => tls(Cause::ClientCertificateRequired),
        "ERR_CONNECTION_CLOSED" if phase_reached(known) == PhaseName::Tls => {
            tls(Cause::ClosedInHandshake)
        }
        "ERR_CONNECTION_RESET" if phase_reached(known) == PhaseName::Tls => {
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
        "ERR_TOO_MANY_REDIRECTS" => reached(Cause::TooManyRedirects { limit: 20 }),
        "ERR_CONNECTION_TIMED_OUT" | "ERR_TIMED_OUT" => {
            let (after, limit) = (known.time_limit, TimeLimit::Connection);
            reached(Cause::TimedOut { after, limit, peer: LastSeen::Nothing })
        }
        _ => None,
    }
}

/// One that Chromium has a name for and the model none.
fn unnamed(name: &str, phase: PhaseName) -> Cause {
    let failure_type = match phase {
        PhaseName::Resolve => FailureType::DnsFailed,
        PhaseName::Connect => FailureType::TcpFailed,
        PhaseName::Tls => FailureType::TlsFailed,
        PhaseName::Quic => FailureType::QuicFailed,
        PhaseName::Send | PhaseName::Wait | PhaseName::Receive => FailureType::HttpFailed,
    };
    Cause::Recorded {
        name: "chromium".to_owned(),
        failure_type,
        fault: Fault::Peer,
        message: format!("Chromium says {name}"),
        advice: None,
    }
}
