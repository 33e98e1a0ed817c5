//! Converts curl's errors to failures of the model, with the names that our own prober uses.
//!
//! Input: the exit code (`libcurl-errors(3)`), the message, and the facts proven by the log. Output: phase and cause.
//! Errors without a cause in the model keep curl's words.

use std::net::SocketAddr;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Failure, FailureType, Fault, LastSeen, OfferedGroups, Offset, PhaseName, TimeLimit,
};

use super::log::Proven;
use crate::process::ClientError;

pub(super) struct Circumstances<'a> {
    pub(super) code: i32,
    pub(super) message: &'a str,
    pub(super) proven: &'a Proven,
    pub(super) remote: Option<SocketAddr>,
    pub(super) host: &'a str,
    pub(super) tls: bool,
    pub(super) quic: bool,
    /// Offered TLS versions, in words.
    pub(super) offered: &'static str,
    pub(super) connect_timeout: Duration,
    pub(super) max_time: Option<Duration>,
    pub(super) received_bytes: u64,
    pub(super) at: Option<Offset>,
}

pub(super) fn failure(known: &Circumstances<'_>) -> Failure {
    let reached = phase_reached(known);
    let (phase, cause) = cause(known, reached);
    Failure { phase, cause, at: known.at }
}

/// The phase that was under way when the failure occurred.
fn phase_reached(known: &Circumstances<'_>) -> PhaseName {
    let proven = known.proven;
    if proven.response_begun {
        PhaseName::Receive
    } else if proven.request_sent {
        PhaseName::Wait
    } else if proven.tried.is_none() && !proven.connected {
        PhaseName::Resolve
    } else if known.quic {
        PhaseName::Quic
    } else if known.tls && (proven.in_handshake || proven.connected) {
        PhaseName::Tls
    } else if proven.connected {
        PhaseName::Send
    } else {
        PhaseName::Connect
    }
}

/// Exit codes, with their names in `curl/curl.h`.
fn cause(known: &Circumstances<'_>, reached: PhaseName) -> (PhaseName, Cause) {
    let detail = || shown(known.message);
    let says = |text: &str| known.message.contains(text);
    let tls = if known.quic { PhaseName::Quic } else { PhaseName::Tls };
    let name = || known.host.to_owned();
    match known.code {
        // CURLE_COULDNT_RESOLVE_HOST: only c-ares distinguishes missing names from other reasons.
        6 if says("Domain name not found") => {
            (PhaseName::Resolve, Cause::NameNotFound { name: name() })
        }
        6 => (PhaseName::Resolve, Cause::ResolverFailed { name: name(), detail: detail() }),
        // CURLE_COULDNT_CONNECT
        7 => connecting(known),
        // CURLE_WEIRD_SERVER_REPLY, CURLE_UNSUPPORTED_PROTOCOL
        8 => (PhaseName::Wait, Cause::NotHttp { detail: detail(), tls: false }),
        1 if reached != PhaseName::Resolve => {
            (PhaseName::Wait, Cause::NotHttp { detail: detail(), tls: false })
        }
        // CURLE_HTTP2, CURLE_HTTP2_STREAM, CURLE_HTTP3, CURLE_QUIC_CONNECT_ERROR
        16 => (reached, Cause::Http2 { detail: detail() }),
        92 => (reached, Cause::Http2Stream { detail: detail() }),
        95 => (reached, Cause::Http3 { detail: detail() }),
        96 => {
            let failure_type = FailureType::QuicFailed;
            (PhaseName::Quic, Cause::Quic { detail: detail(), failure_type })
        }
        // CURLE_PARTIAL_FILE
        18 => (PhaseName::Receive, Cause::BodyCutShort { received: known.received_bytes }),
        // CURLE_OPERATION_TIMEDOUT
        28 => timed_out(known, reached),
        // CURLE_SSL_CONNECT_ERROR
        35 => (tls, handshake(known)),
        // CURLE_INTERFACE_FAILED
        45 => (PhaseName::Connect, Cause::SocketSetup { detail: detail() }),
        // CURLE_GOT_NOTHING
        52 => (PhaseName::Wait, Cause::ClosedBeforeResponse),
        // CURLE_SEND_ERROR, CURLE_RECV_ERROR
        55 | 56 if says("certificate required") => (tls, Cause::ClientCertificateRequired),
        55 | 56 if says("reset by peer") || says("errno 104") => match reached {
            PhaseName::Tls => (tls, Cause::ResetInHandshake),
            other => (other, Cause::Reset),
        },
        // CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_USE_SSL_FAILED and unusable files.
        58 | 59 | 53 | 54 | 66 | 77 | 82 | 83 => (tls, Cause::TlsSetup { detail: detail() }),
        // CURLE_PEER_FAILED_VERIFICATION, and CURLE_SSL_CACERT before 7.62.
        51 | 60 => (tls, certificate(known)),
        // CURLE_BAD_CONTENT_ENCODING
        61 => {
            let cause =
                Cause::BadContentEncoding { encoding: "announced".into(), detail: detail() };
            (PhaseName::Receive, cause)
        }
        _ => (reached, in_its_words(known, reached)),
    }
}

fn connecting(known: &Circumstances<'_>) -> (PhaseName, Cause) {
    let phase = if known.quic { PhaseName::Quic } else { PhaseName::Connect };
    let why = known.proven.not_connected.as_deref().unwrap_or(known.message);
    let cause = match known.remote.or(known.proven.tried) {
        Some(remote) if why.contains("refused") => Cause::Refused { remote },
        Some(remote) if why.contains("No route") || why.contains("unreachable") => {
            Cause::Unreachable { remote, detail: shown(why) }
        }
        Some(remote) if why.contains("timed out") => {
            let after = super::config::taken(known.at);
            if known.quic {
                Cause::QuicConnectTimedOut { remote, after }
            } else {
                Cause::ConnectTimedOut { remote, after }
            }
        }
        _ => in_its_words(known, phase),
    };
    (phase, cause)
}

fn timed_out(known: &Circumstances<'_>, reached: PhaseName) -> (PhaseName, Cause) {
    let connecting = matches!(
        reached,
        PhaseName::Resolve | PhaseName::Connect | PhaseName::Tls | PhaseName::Quic
    );
    // The smaller of the two limits expired.
    let (after, limit) = match known.max_time {
        Some(max_time) if !connecting || max_time < known.connect_timeout => {
            (max_time, TimeLimit::Visit)
        }
        _ => (known.connect_timeout, TimeLimit::Connection),
    };
    let cause = match (reached, known.remote.or(known.proven.tried)) {
        _ if limit == TimeLimit::Visit => Cause::TimedOut { after, limit, peer: LastSeen::Nothing },
        (PhaseName::Resolve, _) => {
            Cause::ResolverTimedOut { name: known.host.to_owned(), after, asked: Vec::new() }
        }
        (PhaseName::Connect, Some(remote)) => Cause::ConnectTimedOut { remote, after },
        (PhaseName::Quic, Some(remote)) => Cause::QuicConnectTimedOut { remote, after },
        _ => Cause::TimedOut { after, limit, peer: LastSeen::Nothing },
    };
    (reached, cause)
}

/// Words of OpenSSL, and of libraries with the same alert names.
fn handshake(known: &Circumstances<'_>) -> Cause {
    let says = |text: &str| known.message.contains(text);
    if says("alert protocol version") || says("unsupported protocol") {
        Cause::ProtocolVersionRefused { offered: known.offered.into() }
    } else if says("no application protocol") {
        Cause::AlpnMismatch { offered: "curl's default".into() }
    } else if says("certificate required") {
        Cause::ClientCertificateRequired
    } else if says("alert handshake failure") {
        Cause::NoCommonParameters {
            detail: "server sent the alert handshake_failure".into(),
            groups: OfferedGroups::Unknown,
        }
    } else if says("wrong version number") || says("packet length too long") || says("http request")
    {
        Cause::NotTls { looks_like: None, server: None }
    } else if says("reset by peer") || says("errno 104") {
        Cause::ResetInHandshake
    } else if says("SSL_ERROR_SYSCALL") || says("unexpected eof") || says("SSL_ERROR_ZERO_RETURN") {
        Cause::ClosedInHandshake
    } else if says("incompatible with CURL_SSLVERSION") {
        Cause::TlsSetup { detail: shown(known.message) }
    } else {
        in_its_words(known, PhaseName::Tls)
    }
}

fn certificate(known: &Circumstances<'_>) -> Cause {
    let says = |text: &str| known.message.contains(text);
    if says("has expired") {
        Cause::CertificateExpired { not_after: None, authority: None }
    } else if says("not yet valid") {
        Cause::CertificateNotYetValid { not_before: None }
    } else if says("self-signed") || says("self signed") || says("unable to get") {
        Cause::CertificateUnknownIssuer { issuer: None, alone: false }
    } else if says("no alternative certificate")
        || says("does not match")
        || says("not match target")
    {
        // The model's own cause needs the certificate's names, which curl does not report.
        Cause::Recorded {
            name: "certificate-wrong-name".into(),
            failure_type: FailureType::TlsCertNameInvalid,
            fault: Fault::Peer,
            message: format!("certificate does not cover {}", known.host),
            advice: None,
        }
    } else {
        Cause::CertificateInvalid { detail: shown(known.message) }
    }
}

fn in_its_words(known: &Circumstances<'_>, phase: PhaseName) -> Cause {
    // Errors before any contact with a peer: bad options, memory.
    let local = matches!(known.code, 2 | 3 | 4 | 23 | 26 | 27 | 41 | 43 | 48 | 49);
    Cause::Recorded {
        name: "curl".into(),
        failure_type: if local { FailureType::ClientFailed } else { FailureType::failed(phase) },
        fault: if local { Fault::Local } else { Fault::Peer },
        message: format!("curl reports: {} (exit code {})", shown(known.message), known.code),
        advice: None,
    }
}

/// The failure of a visit that did not take place.
pub(super) fn not_made(error: &ClientError) -> Failure {
    let cause = match error {
        ClientError::Interrupted => Cause::Interrupted,
        other => client_failed(&other.to_string()),
    };
    Failure { phase: PhaseName::Resolve, cause, at: None }
}

/// A cause for which this machine is at fault.
pub(super) fn client_failed(message: &str) -> Cause {
    Cause::Recorded {
        name: "curl".into(),
        failure_type: FailureType::ClientFailed,
        fault: Fault::Local,
        message: message.to_owned(),
        advice: None,
    }
}

/// Makes another program's output safe to display: one line without control characters.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 200;
    let letters = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    letters.take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: i32, message: &str, proven: &Proven) -> (PhaseName, Failure) {
        let failure = failure(&Circumstances {
            code,
            message,
            proven,
            remote: Some("192.0.2.1:443".parse().unwrap()),
            host: "site.test",
            tls: true,
            quic: false,
            offered: "TLS 1.2 and TLS 1.3",
            connect_timeout: Duration::from_secs(5),
            max_time: Some(Duration::from_secs(30)),
            received_bytes: 7,
            at: None,
        });
        (failure.phase, failure)
    }

    fn named(code: i32, message: &str, proven: &Proven) -> (PhaseName, String, &'static str) {
        let (phase, failure) = failed(code, message, proven);
        (phase, failure.cause.name().to_owned(), failure.failure_type().as_str())
    }

    #[test]
    fn errors_have_the_names_of_our_own() {
        use PhaseName::{Connect, Receive, Resolve, Tls, Wait};
        let tried = Proven { tried: Some("192.0.2.1:443".parse().unwrap()), ..Proven::default() };
        let why = |why: &str| Proven { not_connected: Some(why.into()), ..tried.clone() };
        let handshake = Proven { in_handshake: true, ..tried.clone() };
        let asked = Proven { request_sent: true, ..handshake.clone() };
        let answered = Proven { response_begun: true, ..asked.clone() };
        let nothing = Proven::default();
        for (code, message, proven, phase, cause, failure_type) in [
            (
                6,
                "Could not resolve host: site.test",
                &nothing,
                Resolve,
                "resolver-failed",
                "dns.failed",
            ),
            (
                6,
                "… (Domain name not found)",
                &nothing,
                Resolve,
                "name-not-found",
                "dns.name_not_resolved",
            ),
            (7, "Couldn't connect", &why("Connection refused"), Connect, "refused", "tcp.refused"),
            (7, "x", &why("No route to host"), Connect, "unreachable", "tcp.address_unreachable"),
            (7, "x", &why("Connection timed out"), Connect, "connect-timed-out", "tcp.timed_out"),
            (28, "x", &nothing, Resolve, "resolver-timed-out", "dns.unreachable"),
            (28, "x", &tried, Connect, "connect-timed-out", "tcp.timed_out"),
            (28, "x", &handshake, Tls, "timed-out", "tls.timed_out"),
            (28, "x", &asked, Wait, "timed-out", "http.timed_out"),
            (
                35,
                "…:tlsv1 alert protocol version",
                &handshake,
                Tls,
                "protocol-version-refused",
                "tls.version_or_cipher_mismatch",
            ),
            (
                35,
                "…:sslv3 alert handshake failure",
                &handshake,
                Tls,
                "no-common-parameters",
                "tls.version_or_cipher_mismatch",
            ),
            (35, "…::wrong version number", &handshake, Tls, "not-tls", "tls.protocol.error"),
            (
                35,
                "OpenSSL SSL_connect: Connection reset by peer in connection",
                &handshake,
                Tls,
                "reset-in-handshake",
                "tcp.reset",
            ),
            (
                35,
                "OpenSSL SSL_connect: SSL_ERROR_SYSCALL",
                &handshake,
                Tls,
                "closed-in-handshake",
                "tcp.closed",
            ),
            (
                60,
                "SSL certificate problem: certificate has expired",
                &handshake,
                Tls,
                "certificate-expired",
                "tls.cert.date_invalid",
            ),
            (
                60,
                "SSL certificate problem: self-signed certificate",
                &handshake,
                Tls,
                "certificate-unknown-issuer",
                "tls.cert.authority_invalid",
            ),
            (
                60,
                "SSL: no alternative certificate subject name matches target host name 'x'",
                &handshake,
                Tls,
                "certificate-wrong-name",
                "tls.cert.name_invalid",
            ),
            (
                60,
                "server certificate verification failed",
                &handshake,
                Tls,
                "certificate-invalid",
                "tls.cert.invalid",
            ),
            (
                52,
                "Empty reply from server",
                &asked,
                Wait,
                "closed-before-response",
                "http.response.invalid",
            ),
            (56, "Recv failure: Connection reset by peer", &asked, Wait, "reset", "tcp.reset"),
            (
                18,
                "transfer closed with 3 bytes remaining",
                &answered,
                Receive,
                "body-cut-short",
                "http.response.invalid",
            ),
            (
                92,
                "HTTP/2 stream 1 was not closed cleanly",
                &answered,
                Receive,
                "http2-stream",
                "http.protocol.error",
            ),
            (45, "bind failed", &tried, Connect, "socket-setup", "client.failed"),
            (77, "error setting certificate file", &tried, Tls, "tls-setup", "client.failed"),
            (27, "out of memory", &nothing, Resolve, "curl", "client.failed"),
            (55, "what\u{7} else", &asked, Wait, "curl", "http.failed"),
        ] {
            let expected = (phase, cause.to_owned(), failure_type);
            assert_eq!(named(code, message, proven), expected, "{code} {message}");
        }
    }

    #[test]
    fn the_smaller_limit_ran_out() {
        let sent = Proven { request_sent: true, ..Proven::default() };
        let (_, failure) = failed(28, "x", &sent);
        let Cause::TimedOut { after, limit, .. } = failure.cause else { panic!("{failure}") };
        assert_eq!((after, limit), (Duration::from_secs(30), TimeLimit::Visit));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        assert_eq!(shown("a\u{1b}[1mb\nc"), "a [1mb c");
    }
}
