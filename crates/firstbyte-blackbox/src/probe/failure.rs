//! Why a probe failed, as two labels with bounded sets of values: phase and failure type.
//!
//! The types are the same as for `http`, monitors and field data.

use std::io;

use firstbyte_core::timeline::{FailureType, PhaseName};
use rustls::{CertificateError, Error as TlsError};

use super::Probe;

/// Not in blackbox_exporter 0.28.
const INFO: (&str, &str) = (
    "firstbyte_probe_failure_info",
    "Why the probe failed: the phase that it failed in, and the type of the failure",
);
/// Failed before anything was sent.
const SETUP: &str = "setup";
/// An answer arrived, but the module's rules reject it.
const CHECK: &str = "check";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailureReason {
    phase: &'static str,
    reason: &'static str,
}

impl FailureReason {
    /// The default: if no phase failed, the answer was rejected.
    const CHECK_FAILED: Self = Self { phase: CHECK, reason: "check.failed" };
}

/// A network operation of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NetworkStep {
    /// A TCP handshake.
    Connect,
    /// Sending over TCP.
    Send,
    /// Receiving over TCP.
    Receive,
    /// A DNS question and its answer.
    AskDns,
    /// An ICMP echo and its reply.
    Ping,
}

impl NetworkStep {
    const fn phase(self) -> &'static str {
        match self {
            Self::Connect => PhaseName::Connect.name(),
            Self::Send => PhaseName::Send.name(),
            Self::Receive => PhaseName::Receive.name(),
            Self::AskDns | Self::Ping => PhaseName::Wait.name(),
        }
    }

    const fn timed_out(self) -> &'static str {
        match self {
            Self::Connect | Self::Send | Self::Receive => FailureType::TcpTimedOut.as_str(),
            Self::AskDns => FailureType::DnsUnreachable.as_str(),
            Self::Ping => "icmp.timed_out",
        }
    }

    fn reason(self, error: &io::Error) -> &'static str {
        use io::ErrorKind as Kind;
        match (self, error.kind()) {
            (_, Kind::TimedOut) => self.timed_out(),
            (Self::AskDns, Kind::ConnectionRefused) => FailureType::DnsUnreachable.as_str(),
            (Self::AskDns, _) => FailureType::DnsFailed.as_str(),
            (Self::Ping, _) => "icmp.failed",
            (_, kind) => tcp_reason(kind).unwrap_or(FailureType::TcpFailed).as_str(),
        }
    }
}

/// The type of a TCP error, if known.
const fn tcp_reason(kind: io::ErrorKind) -> Option<FailureType> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::ConnectionRefused => FailureType::TcpRefused,
        Kind::ConnectionReset => FailureType::TcpReset,
        Kind::UnexpectedEof | Kind::BrokenPipe | Kind::ConnectionAborted => FailureType::TcpClosed,
        Kind::HostUnreachable | Kind::NetworkUnreachable => FailureType::TcpAddressUnreachable,
        // Caused by the source address or a local rule.
        Kind::AddrNotAvailable | Kind::AddrInUse | Kind::PermissionDenied => {
            FailureType::ClientFailed
        }
        _ => return None,
    })
}

/// The type of an error that ended a TLS handshake.
fn tls_type(error: &io::Error) -> FailureType {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match of_tls {
        None => tcp_reason(error.kind()).unwrap_or(FailureType::TlsFailed),
        Some(TlsError::InvalidCertificate(bad)) => match bad {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => FailureType::TlsCertDateInvalid,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                FailureType::TlsCertNameInvalid
            }
            CertificateError::UnknownIssuer => FailureType::TlsCertAuthorityInvalid,
            CertificateError::Revoked => FailureType::TlsCertRevoked,
            _ => FailureType::TlsCertInvalid,
        },
        Some(TlsError::AlertReceived(alert)) => FailureType::from_alert(u8::from(*alert), false),
        Some(TlsError::PeerIncompatible(_)) => FailureType::TlsVersionOrCipherMismatch,
        Some(TlsError::NoApplicationProtocol) => FailureType::TlsFailed,
        Some(_) => FailureType::TlsProtocolError,
    }
}

/// The type of a lookup error, which glibc reports only as text (`gai_strerror`).
pub(super) fn lookup_type(error: &io::Error) -> FailureType {
    let text = error.to_string();
    let has = |words: &str| text.contains(words);
    if has("Temporary failure in name resolution") {
        FailureType::DnsUnreachable
    } else if has("Name or service not known") || has("No address associated with hostname") {
        FailureType::DnsNameNotResolved
    } else {
        FailureType::DnsFailed
    }
}

impl Probe<'_> {
    /// Records why the probe fails, unless a reason is already known: the first failure causes the others.
    pub(super) fn note_failure(&self, phase: PhaseName, failure_type: FailureType) {
        self.note_reason(phase.name(), failure_type.as_str());
    }

    /// Records that the probe could not begin, unless it already failed in a phase.
    pub(super) fn note_setup_failure(&self) {
        self.note_reason(SETUP, FailureType::ClientFailed.as_str());
    }

    /// Records that the answer is wrong in a way that has a failure type.
    pub(super) fn note_bad_answer(&self, failure_type: FailureType) {
        self.note_reason(CHECK, failure_type.as_str());
    }

    pub(super) fn note_network_error(&self, step: NetworkStep, error: &io::Error) {
        self.note_reason(step.phase(), step.reason(error));
    }

    pub(super) fn note_network_timeout(&self, step: NetworkStep) {
        self.note_reason(step.phase(), step.timed_out());
    }

    pub(super) fn note_tls_error(&self, error: &io::Error) {
        self.note_failure(PhaseName::Tls, tls_type(error));
    }

    fn note_reason(&self, phase: &'static str, reason: &'static str) {
        if self.failure.get().is_none() {
            self.failure.set(Some(FailureReason { phase, reason }));
        }
    }

    /// Adds the metric that explains the failure.
    pub(super) fn add_failure_info(&mut self) {
        let failure = self.failure.get().unwrap_or(FailureReason::CHECK_FAILED);
        let labels = [("phase", failure.phase), ("reason", failure.reason)];
        self.metrics.labelled(INFO.0, INFO.1, &labels, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use crate::Compat;
    use crate::configuration::Configuration;
    use crate::log::{ProbeLog, ProbeLogOptions};
    use crate::probe::{Tools, probe};

    /// The failure labels of a probe by `module`; `None` if it succeeds.
    async fn failure(module: &str, target: &str) -> Option<String> {
        let text = format!("modules: {{m: {module}}}");
        let configuration = Configuration::parse(&text).unwrap();
        let tools = Tools::new(&configuration, Compat::default());
        let log = ProbeLog::new("m", target, ProbeLogOptions::default());
        let limit = Duration::from_millis(500);
        let outcome = probe(log, &configuration.modules["m"], target, "", limit, &tools).await;
        let text = outcome.metrics.text();
        let mut lines = text.lines();
        let labels = lines.find_map(|line| line.strip_prefix("firstbyte_probe_failure_info"));
        assert_eq!(labels.is_none(), outcome.success, "{text}");
        labels.map(str::to_owned)
    }

    /// A server that sends `words` to every client and closes, after receiving something if `listens_first`.
    ///
    /// Without words it stays silent.
    async fn server(words: &'static str, listens_first: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::task::spawn_local(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::task::spawn_local(async move {
                    if listens_first {
                        let _ = stream.read(&mut [0; 1024]).await;
                    }
                    if !words.is_empty() {
                        let _ = stream.write_all(words.as_bytes()).await;
                        let _ = stream.shutdown().await;
                    }
                    // Wait until the client closes: closing with unread bytes would send a reset.
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                });
            }
        });
        address
    }

    #[test]
    fn a_failed_probe_has_one_reason() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let closed = {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                listener.local_addr().unwrap().to_string()
            };
            let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
            let not_found = server(not_found, true).await;
            let banner = server("220 mail.test\r\n", false).await;
            let silent = server("", false).await;
            let expects = "{prober: tcp, tcp: {query_response: [{expect: '^SSH'}]}}";
            let insists_on_tls =
                "{prober: http, http: {fail_if_not_ssl: true, valid_status_codes: [404]}}";
            let asks = "{prober: dns, dns: {query_name: a.test, transport_protocol: tcp}}";
            for (module, target, phase, reason) in [
                ("{prober: tcp}", closed.as_str(), "connect", "tcp.refused"),
                ("{prober: tcp}", "no-port", "setup", "client.failed"),
                ("{prober: tcp, tcp: {tls: true}}", &banner, "tls", "tls.protocol.error"),
                ("{prober: tcp, tcp: {tls: true}}", &silent, "tls", "tls.timed_out"),
                (expects, &banner, "check", "check.failed"),
                (expects, &silent, "receive", "tcp.timed_out"),
                ("{prober: http}", &closed, "connect", "tcp.refused"),
                ("{prober: http}", "http://[", "setup", "client.failed"),
                ("{prober: http}", &not_found, "check", "http.error"),
                ("{prober: http}", &silent, "wait", "http.timed_out"),
                (insists_on_tls, &not_found, "check", "check.failed"),
                (asks, &closed, "connect", "tcp.refused"),
                (asks, &silent, "wait", "dns.unreachable"),
                ("{prober: grpc, grpc: {}}", &closed, "connect", "tcp.refused"),
            ] {
                let labels = format!("{{phase=\"{phase}\",reason=\"{reason}\"}} 1");
                assert_eq!(failure(module, target).await, Some(labels), "{module} {target}");
            }
            assert_eq!(failure("{prober: tcp}", &banner).await, None);
        });
    }
}
